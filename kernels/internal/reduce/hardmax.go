package reduce

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator Hardmax. A line has the elements along Dim at one index of the other dimensions. Lines are
// the rows of [hardmaxRows].
var Hardmax = kit.Define[*hardmaxAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "hardmax",
		Doc: "Gives 1 at the first greatest element along a dimension and 0 elsewhere. Supports floats only; the " +
			"result is row-major.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			if _, err := tensor.WrapDim(kit.Attrs[*hardmaxAttrs](c).Dim, self.Rank()); err != nil {
				return nil, err
			}
			if !self.DType.IsFloat() {
				return nil, kit.NotImplemented("hardmax", self.DType)
			}
			return c.NewResult(self.RowMajor()), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			input := in[0]
			out := tensor.Zeros(input.DType, input.Shape...)
			if input.Rank() == 0 { // the only element is the greatest
				out.Set(tensor.IntScalar(1))
				return []*tensor.Tensor{out}, nil
			}
			dim, err := tensor.WrapDim(kit.Attrs[*hardmaxAttrs](c).Dim, input.Rank())
			if err != nil {
				return nil, err
			}
			line := make([]tensor.Scalar, input.Shape[dim])
			kit.EachIndex(input.Shape, func(index []int) {
				if index[dim] > 0 { // a line is processed at its first element
					return
				}
				for i := range line {
					index[dim] = i
					line[i] = tensor.FloatScalar(input.At(index...).Float())
				}
				const greatest = true
				index[dim] = refBestIndex(line, greatest)
				out.Set(tensor.IntScalar(1), index...)
				index[dim] = 0
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
			{In: []tensor.Meta{kit.TransposedMatrix}, Attrs: graph.Attrs{"dim": 0}}},
	},
	Facts: graph.Facts{
		FixedLayoutReason: "a line of the result is written in the order in which the line of the operand is read",
		UnfusableReason:   "reads a whole line before it writes the line, in its own kernel",
	},
	Lowerings: graph.Lowerings{
		Rows: hardmaxRows,
		Impls: lineOp{ // two implementations: by lines, or by one element of several adjacent lines
			dim:         func(c *graph.Call) int { return kit.Attrs[*hardmaxAttrs](c).Dim },
			elementCost: graph.ElementFlops{Simple: 2}, rows: hardmaxRows, typicalAttrs: &hardmaxAttrs{Dim: 1},
			lower: func(c *graph.Call, dim int, direction graph.RowDirection) (*graph.Kernel, error) {
				if kernel, err := compileSuitedRows(c, inDirection(hardmaxRows, direction)); kernel != nil || err != nil {
					return kernel, err
				}
				return compileHardmax(c, dim) // for lines that are too long for the cache, or too few for all workers
			}}.impls(),
	},
})

// hardmaxRows returns the expression over a line. It finds the position of the first greatest element as [bestRow]
// does. The result is 1 at this position and 0 at all others.
func hardmaxRows(call *graph.Call) (*graph.Rows, error) {
	dim, err := tensor.WrapDim(kit.Attrs[*hardmaxAttrs](call).Dim, call.Meta(0).Rank())
	if err != nil {
		return nil, err
	}
	dtype := call.Meta(0).DType
	builder := expr.NewBuilder(dtype)
	x := folds.Operand(builder, 0, dtype).Re
	position := builder.Position()
	first := firstWhere(builder, isBest(builder, x, builder.Reduce(expr.Max, x)), position)
	isFirst := builder.Emit(expr.Eq, position, first)
	oneHot := builder.Emit(expr.Select, isFirst, builder.Const(builder.DType(x), 1), builder.Const(builder.DType(x), 0))
	operands := []int{0} // the only operand
	return singleResultRows(builder, lineMask(call.Meta(0).Rank(), dim), operands, oneHot, dtype)
}

// compileHardmax returns a kernel that finds the positions of the greatest elements of all lines before it writes the
// result.
func compileHardmax(c *graph.Call, dim int) (*graph.Kernel, error) {
	self, dtype := c.Meta(0), c.Out[0].DType
	if self.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(c)
	lineLength := kit.SizeOrMissing(self, dim)
	shape := slices.Clone(self.Shape)
	if self.Rank() > 0 {
		shape[dim] = 1
	}
	positions := builder.NewScratch(tensor.Int64, shape...)
	one := tensor.Zeros(dtype)
	one.Set(tensor.IntScalar(1))
	builder.AddCall(Argmax, graph.Attrs{"dim": dim, "keepdim": true}, []kit.Buffer{positions}, builder.Operand(0))
	// The result is [outer, lineLength, inner], positions are [outer, inner]. A unit of work is one index of outer. A
	// unit clears its part of the result and then writes 1 at each position. The only scratch memory is positions.
	inner := tensor.Numel(self.Shape[min(dim+1, self.Rank()):])
	unitSize := lineLength * inner // elements
	buffers := []kit.Buffer{builder.Result(0, dtype), positions, kit.DataBuffer(one)}
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers,
		copies.ChunkedPhase(self.Numel()/unitSize, unitSize, func(mem *graph.Mem, begin, end int) error {
			for unit := begin; unit < end; unit++ {
				unitBytes := kit.PlaneOf[byte](mem.Ptrs[0], unit, unitSize*dtype.Size())
				kit.ForEachBlock(mem.Context, len(unitBytes), func(from, to int) { clear(unitBytes[from:to]) })
				oneBytes := unsafe.Slice((*byte)(mem.Ptrs[2]), dtype.Size())
				for i, position := range kit.PlaneOf[int64](mem.Ptrs[1], unit, inner) {
					copy(unitBytes[(int(position)*inner+i)*dtype.Size():], oneBytes)
				}
			}
			return nil
		}))
	return builder.Kernel()
}
