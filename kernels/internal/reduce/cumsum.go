package reduce

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type cumAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension along which the sums or products run"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Cumsum and Cumprod are running sums and products, called scans here. Result i of a line combines elements 0 to i of
// the line. For example, cumsum of the line [1, 2, 3] is [1, 3, 6]. Floats are accumulated in float64.
//
// There are three dtypes: the dtype of self, the dtype of the result, and the dtype of the loops, in which loops read
// and write elements. For cumsum of int32, the dtypes are int32, int64 and int64. For bfloat16, they are bfloat16,
// bfloat16 and float32. A call is lowered in one of two ways. If the dtypes differ and the rows are suitable rows of
// real numbers, scan.rows makes an expression that also converts the elements. Otherwise compileScan (scan_kernel.go)
// makes a kernel.
var (
	Cumsum = scanOp("Returns the running sums along a dimension. Bools and integers give int64 unless `dtype` is given.",
		scan{name: "cumsum", op: expr.Add,
			combine:     func(a, b complex128) complex128 { return a + b },
			combineInts: func(a, b int64) int64 { return a + b }})
	Cumprod = scanOp("Returns the running products along a dimension. Bools and integers give int64 unless `dtype` is "+
		"given.",
		scan{name: "cumprod", op: expr.Mul,
			combine:     kit.MulComplex,
			combineInts: func(a, b int64) int64 { return a * b }})
)

// scan describes a scan op.
type scan struct {
	name        string
	op          expr.Op                          // Add or Mul
	combine     func(a, b complex128) complex128 // the reference for floats and complex numbers
	combineInts func(a, b int64) int64           // the reference for integers
}

// scanOp defines a scan op.
func scanOp(doc string, s scan) *graph.Op {
	return kit.Define[*cumAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: s.name, Doc: doc, Params: []graph.Param{kit.Self}, Infer: s.infer, Ref: s.ref,
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{
			WritesAnyDenseLayout: true,
			UnfusableReason:      "carries a running value from element to element in its own kernel",
		},
		Lowerings: graph.Lowerings{
			Rows: s.rows,
			Impls: lineOp{
				dim:         func(c *graph.Call) int { return kit.Attrs[*cumAttrs](c).Dim },
				elementCost: graph.ElementFlops{Simple: fusion.ScanSimple},
				lower:       s.lower,
			}.impls(),
		},
	})
}

// resultDType returns the dtype of the result, to which the elements are converted first.
func (scan) resultDType(c *graph.Call) tensor.DType {
	return folds.SumDType(c.Type(0).DType, kit.Attrs[*cumAttrs](c).DType)
}

func (s scan) infer(c *graph.Call) ([]graph.Result, error) {
	selfType, dtype := c.Type(0), s.resultDType(c)
	if _, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, selfType.Rank()); err != nil {
		return nil, err
	}
	if dtype == tensor.Bool && selfType.Rank() > 0 && !kit.IsEmpty(selfType) {
		return nil, kit.NotImplemented(s.name+"_out", dtype)
	}
	return c.NewResult(selfType.RowMajor().WithDType(dtype)), nil
}

// lower implements [graph.Impl.Lower] for lines along dim.
func (s scan) lower(call *graph.Call, dim int, direction graph.RowDirection) (*graph.Kernel, error) {
	dtype := s.resultDType(call)
	loops := scanLoopsOf(s.op, dtype)
	needsConversion := call.Meta(0).DType != loops.dtype || dtype != loops.dtype
	if needsConversion { // the expression converts each element; compileScan would first make a converted copy
		kernel, err := compileOrInterpretSuitedRows(call, inDirection(s.rows, direction))
		if kernel != nil || err != nil {
			return kernel, err
		}
	}
	return compileScan(call, dim, direction, dtype, loops)
}

// rows returns a scan as an expression, or nil for complex numbers and 0-dimensional tensors.
func (s scan) rows(c *graph.Call) (*graph.Rows, error) {
	meta, dtype := c.Meta(0), s.resultDType(c)
	dim, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, meta.Rank())
	if err != nil || dtype.IsComplex() || meta.Rank() == 0 {
		return nil, err
	}
	builder := expr.NewBuilder(meta.DType)
	x := builder.Convert(kit.LoopDType(dtype), folds.Operand(builder, 0, dtype).Re)
	loadedOperands := []int{0} // the expression loads operand 0
	return singleResultRows(builder, lineMask(meta.Rank(), dim), loadedOperands, builder.Scan(s.op, x), dtype)
}

// ref computes each result separately, from all elements of the line up to the position of the result.
func (s scan) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	self, dtype := in[0], s.resultDType(c)
	dim, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, self.Rank())
	if err != nil {
		return nil, err
	}
	self = self.CopyTo(tensor.New(dtype, self.Shape...))
	out := tensor.Zeros(dtype, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		elementIndex := slices.Clone(index)
		var result tensor.Scalar
		last := 0
		if len(elementIndex) > 0 {
			last = elementIndex[dim]
		}
		for position := range last + 1 {
			if len(elementIndex) > 0 {
				elementIndex[dim] = position
			}
			element := self.At(elementIndex...)
			switch {
			case position == 0:
				result = element
			case dtype.IsIntegral(true):
				result = tensor.IntScalar(s.combineInts(result.Int(), element.Int()))
			case dtype.IsComplex():
				result = tensor.ComplexScalar(s.combine(result.Complex(), element.Complex()))
			default: // without an imaginary part, which would be NaN for an infinity
				result = tensor.FloatScalar(real(s.combine(result.Complex(), element.Complex())))
			}
		}
		out.Set(result, index...)
	})
	return []*tensor.Tensor{out}, nil
}
