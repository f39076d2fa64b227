package index

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type scatterAttrs struct {
	Dim    int    `attr:"dim" doc:"dimension to index"`
	Reduce string `attr:"reduce" default:"none" oneof:"none|add|multiply" doc:"reduction of src with self's elements; none: replace the elements"`
}

type scatterReduceAttrs struct {
	Dim         int    `attr:"dim" doc:"dimension to index"`
	Reduce      string `attr:"reduce" oneof:"sum|prod|mean|amax|amin" doc:"reduction of elements with the same position"`
	IncludeSelf bool   `attr:"include_self" default:"true" doc:"include self's element in the reduction"`
}

// The methods indexedDim implement the interface [oneDimAttrs], for the bound on generated indices.

func (a *scatterAttrs) indexedDim() (int, bool)       { return a.Dim, true }
func (a *scatterReduceAttrs) indexedDim() (int, bool) { return a.Dim, true }

// scatterCall has the attributes of a call of scatter, scatter_add or scatter_reduce.
type scatterCall struct {
	dim         int    // dimension to index
	reduce      string // name of the reduction (combineModeByName)
	includeSelf bool   // the reduction includes self's elements
}

// mode returns the way in which an element of src is combined with the element at its position.
func (s *scatterCall) mode() combineMode { return combineModeByName[s.reduce] }

// scatterPositions is the part of the docs about positions.
const scatterPositions = "An element of `src` goes to its own indices, except that `index` gives the index in " +
	"dimension `dim`."

// Scatter, ScatterAdd and ScatterReduce write or reduce elements at indexed positions. For matrices and dim 1, and each
// position [i, j] of index:
//
//	scatter:         result[i, index[i, j]] = src[i, j]
//	scatter_add:     result[i, index[i, j]] += src[i, j]
//	scatter_reduce:  result[i, index[i, j]] = reduce(result[i, index[i, j]], src[i, j])
var (
	Scatter = scatterOp(graph.SchemaOf[*scatterAttrs](), "scatter",
		"Returns a copy of self into which the elements of `src` are written. "+scatterPositions+" `src` may be a number. "+
			"Among elements with the same position, the last wins.",
		graph.Attrs{"dim": 1}, func(c *graph.Call) scatterCall {
			attrs := kit.Attrs[*scatterAttrs](c)
			return scatterCall{dim: attrs.Dim, reduce: attrs.Reduce, includeSelf: true}
		})
	ScatterAdd = scatterOp(graph.SchemaOf[*dimAttrs](), "scatter_add",
		"Returns a copy of self to which the elements of `src` are added. "+scatterPositions,
		graph.Attrs{"dim": 0}, func(c *graph.Call) scatterCall {
			return scatterCall{dim: kit.Attrs[*dimAttrs](c).Dim, reduce: "add", includeSelf: true}
		})
	ScatterReduce = scatterOp(graph.SchemaOf[*scatterReduceAttrs](), "scatter_reduce",
		"Returns a copy of self into which the elements of `src` are reduced. "+scatterPositions,
		graph.Attrs{"dim": 1, "reduce": "mean", "include_self": false}, func(c *graph.Call) scatterCall {
			attrs := kit.Attrs[*scatterReduceAttrs](c)
			return scatterCall{dim: attrs.Dim, reduce: attrs.Reduce, includeSelf: attrs.IncludeSelf}
		})
)

// scatterOp defines scatter, scatter_add or scatter_reduce. attrsOf returns the attributes of a call; its dimension may
// be negative or invalid.
func scatterOp(attrs *graph.Schema, name, doc string, example graph.Attrs,
	attrsOf func(c *graph.Call) scatterCall) *graph.Op {
	checkedAttrsOf := func(c *graph.Call) (scatterCall, error) {
		scatter := attrsOf(c)
		dim, err := tensor.WrapDim(scatter.dim, c.Type(0).Rank())
		scatter.dim = dim
		return scatter, err
	}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + " A negative index counts from the end.",
			Params: []graph.Param{kit.Self, indexParam, {Name: "src", AcceptsNumber: name == "scatter", Attr: "value"}},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				scatter, err := checkedAttrsOf(c)
				if err == nil {
					err = checkScatter(name, c, &scatter)
				}
				selfType := c.Type(0)
				return c.NewResult(selfType.RowMajor()), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				scatter, err := checkedAttrsOf(c)
				if err != nil {
					return nil, err
				}
				return scatter.reference(in)
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4), kit.I64(2, 3), kit.F32(3, 3).WithStrides([]int{1, 3})},
				Attrs: example}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true,
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{attrsOf(c).dim} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				scatter, err := checkedAttrsOf(c)
				if err != nil {
					return nil, err
				}
				return scatter.compile(c)
			},
			Extend: func(n *graph.Node) (graph.Extension, bool) {
				scatter, err := checkedAttrsOf(n.Call())
				if err != nil {
					return graph.Extension{}, false
				}
				return extendByScatter(n, scatter)
			},
		},
	})
}

// checkScatter returns PyTorch's error if the call is invalid.
func checkScatter(name string, c *graph.Call, scatter *scatterCall) error {
	self, index, src := c.Type(0), c.Type(1), c.Type(2)
	if err := checkIndexDType(name, index.DType); err != nil && !kit.IsEmpty(index) {
		return err
	}
	isNumber := c.In[2].Kind == graph.NumberArg
	if !isNumber && src.DType != self.DType {
		return fmt.Errorf("%s(): Expected self.dtype to be equal to src.dtype", name)
	}
	if self.DType.IsComplex() && scatter.mode().isExtremum() {
		return kit.NotImplementedBy(name, self.DType)
	}
	if scatter.reduce == "mean" && self.DType == tensor.Bool {
		return kit.NotImplementedBy(name, self.DType)
	}
	if kit.IsEmpty(index) {
		return nil
	}
	dims := func(t tensor.Type) int { return max(1, t.Rank()) } // a 0-dim value counts as a vector
	if dims(index) != dims(self) || !isNumber && dims(index) != dims(src) {
		return errors.New("Index tensor must have the same number of dimensions as self and src tensors")
	}
	for dim, size := range index.Shape {
		exceedsSelf := dim != scatter.dim && size.Gt(kit.SizeAtDim(self, dim)).Holds()
		if exceedsSelf || !isNumber && size.Gt(kit.SizeAtDim(src, dim)).Holds() {
			return fmt.Errorf("Expected index %s to be smaller than self %s apart from dimension %d and to be smaller size "+
				"than src %s", tensor.Sizes(index.Shape), tensor.Sizes(self.Shape), scatter.dim, tensor.Sizes(src.Shape))
		}
	}
	return nil
}

// compile returns a kernel with these phases. The first phase copies self to the output. Unless includeSelf is set, the
// next phase sets the indexed elements to the identity of the reduction. Then the elements of src are combined into the
// output. For a mean, the sums are divided by their counts.
func (s *scatterCall) compile(call *graph.Call) (*graph.Kernel, error) {
	kernel := copySelfKernel(call)
	if call.Meta(1).Numel() == 0 {
		return kernel, nil
	}
	dtype, alpha := call.Out[0].DType, tensor.IntScalar(1) // alpha: a factor of added elements
	addPhase := func(mode combineMode, source walkOperand) {
		walk := s.walk(call, kit.OutBuffer(call, 0), source)
		kernel.Phases = append(kernel.Phases, walk.phase(scatterRowLoops(dtype, mode, alpha)))
	}
	if !s.includeSelf { // the source is one element; walk sets its strides to 0
		addPhase(combineSet, walkOperand{Buffer: kit.DataBuffer(identityOf(dtype, s.mode()))})
	}
	source := operandAt(3, call.Meta(2)) // Mem.Ptrs has the result, self, index and src
	if arg := call.In[2]; arg.Kind == graph.NumberArg {
		source = walkOperand{Buffer: kit.DataBuffer(arg.Number.Tensor(dtype))}
	}
	addPhase(s.mode(), source)
	if s.reduce == "mean" {
		s.addMeanPhases(call, kernel)
	}
	return kernel, nil
}

// walk returns an indexed walk (walk.go) over all elements of index, operand 1. The walk combines the elements of the
// source into the table, at positions given by a lookup in index.
func (s *scatterCall) walk(c *graph.Call, table kit.Buffer, source walkOperand) *indexedWalk {
	index := c.Meta(1)
	// The lookup gives the position in dim, so the table has stride 0 there.
	tableStrides := withoutStride(kit.ByteStrides(table.Meta), s.dim)
	switch { // one of table and index may be 0-dim while the other is a vector of one element
	case index.Rank() == 0:
		tableStrides = nil
	case table.Meta.Rank() == 0:
		tableStrides = []int{0}
	}
	// A constant of the kernel, or a src of another rank, has one element, which is read with strides of 0.
	if source.IsInKernel() || len(source.byteStrides) != index.Rank() {
		source.byteStrides = make([]int, index.Rank())
	}
	return &indexedWalk{shape: index.Shape, lookups: []lookup{lookupAlong(table.Meta, index, s.dim)},
		operands: []walkOperand{source, {table, tableStrides}, operandAt(2, index)}, writesTable: true}
}

// identityOf returns the identity element of a reduction: x combined with it is x. For combineSet it is 0.
func identityOf(dtype tensor.DType, mode combineMode) *tensor.Tensor {
	identity := tensor.IntScalar(0)
	isMin := mode == combineMin
	minInt := int64(-1) << (8*dtype.Size() - 1) // of a signed dtype; ^minInt is the greatest number
	switch {
	case mode == combineMul:
		identity = tensor.IntScalar(1)
	case !mode.isExtremum(): // 0
	case dtype == tensor.Bool:
		identity = tensor.BoolScalar(isMin)
	case dtype.IsFloat() && isMin:
		identity = tensor.FloatScalar(math.Inf(1))
	case dtype.IsFloat():
		identity = tensor.FloatScalar(math.Inf(-1))
	case dtype.IsSigned() && isMin:
		identity = tensor.IntScalar(^minInt)
	case dtype.IsSigned():
		identity = tensor.IntScalar(minInt)
	case isMin: // unsigned: all bits are 1
		identity = tensor.IntScalar(-1)
	}
	return identity.Tensor(dtype)
}

// addMeanPhases adds the phases that compute means from sums: they set the counts in scratch memory to 0 (1 if the sums
// include self), add 1 for each element of src, and divide the sums by the counts.
func (s *scatterCall) addMeanPhases(call *graph.Call, kernel *graph.Kernel) {
	out := call.Out[0]
	elements, elementSize := out.Numel(), out.DType.Size()
	initialCount := tensor.IntScalar(0)
	if s.includeSelf {
		initialCount = tensor.IntScalar(1)
	}
	// Counts have the layout of the sums, which are dense.
	countBuffer := kit.ScratchBuffer(0, tensor.Meta{DType: tensor.Int64, Shape: out.Shape, Strides: out.Strides})
	const countBytes = 8
	kernel.Scratch = countBytes * elements
	// eachBlock returns a phase that calls compute for each block of the result: counts are the counts of its elements,
	// and first is the index in memory of the first element.
	eachBlock := func(compute func(mem *graph.Mem, counts []int64, first int)) graph.Phase {
		return graph.Phase{Chunks: kit.DivUp(elements, machine.GatherGrain), Run: func(mem *graph.Mem, chunk int) error {
			first := chunk * machine.GatherGrain
			counts := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(mem.Scratch))), elements)
			compute(mem, counts[first:min(elements, first+machine.GatherGrain)], first)
			return nil
		}}
	}
	setCounts := eachBlock(func(_ *graph.Mem, counts []int64, _ int) {
		for i := range counts {
			counts[i] = initialCount.Int()
		}
	})
	one := tensor.IntScalar(1)
	source := walkOperand{Buffer: kit.DataBuffer(one.Tensor(tensor.Int64))}
	addCounts := s.walk(call, countBuffer, source).phase(scatterRowLoops(tensor.Int64, combineAdd, one))
	divide := meanDivider(out.DType)
	divideSums := eachBlock(func(mem *graph.Mem, counts []int64, first int) {
		divide(unsafe.Add(mem.Ptrs[0], first*elementSize), counts)
	})
	kernel.Phases = append(kernel.Phases, setCounts, addCounts, divideSums)
}

// meanDivider returns the function that divides the sums of a dtype from address sums on by their counts.
func meanDivider(dtype tensor.DType) func(sums unsafe.Pointer, counts []int64) {
	loopDType := kit.LoopDType(dtype)
	load, store := tensor.Converter(loopDType, dtype), tensor.Converter(dtype, loopDType)
	return func(sums unsafe.Pointer, counts []int64) {
		for i, count := range counts {
			if count < 2 { // the sum is the mean, or the element is not indexed
				continue
			}
			var buffer [2]uint64 // one element of any loop dtype, 16 bytes at most
			value := unsafe.Pointer(&buffer)
			address := unsafe.Add(sums, i*dtype.Size())
			const step, n = 0, 1 // of loads and stores of a single element
			load(value, address, step, step, n)
			switch loopDType {
			case tensor.Int64:
				*(*int64)(value) = floorDiv(*(*int64)(value), count)
			case tensor.Float32:
				*(*float32)(value) /= float32(count)
			case tensor.Complex64:
				*(*complex64)(value) /= complex(float32(count), 0)
			case tensor.Complex128:
				*(*complex128)(value) /= complex(float64(count), 0)
			default:
				*(*float64)(value) /= float64(count)
			}
			store(address, value, step, step, n)
		}
	}
}

// reference combines one element after another. counts has the number of elements combined so far at each position.
func (s *scatterCall) reference(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	dtype, mode, one := out.DType, s.mode(), tensor.IntScalar(1)
	counts := tensor.Zeros(tensor.Int64, out.Shape...)
	var firstErr error
	kit.EachIndex(in[1].Shape, func(coords []int) {
		position, err := refIndex(in[1], sizeAt(out.Meta, s.dim), s.dim, coords...)
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			return
		}
		target, sourceIndex := slices.Clone(coords), coords
		if len(target) > 0 {
			target[s.dim] = position
		}
		target = target[:out.Rank()] // empty for a 0-dim self
		if in[2].Rank() == 0 {
			sourceIndex = nil
		}
		count := counts.At(target...).Int()
		value := in[2].CopyTo(tensor.New(dtype, in[2].Shape...)).At(sourceIndex...)
		if count > 0 || s.includeSelf {
			value = refCombine(dtype, mode, one, out.At(target...), value)
		}
		out.Set(value, target...)
		counts.Set(tensor.IntScalar(count+1), target...)
	})
	if s.reduce == "mean" {
		s.refDivide(out, counts)
	}
	return []*tensor.Tensor{out}, firstErr
}

// refDivide divides sums by their counts, plus 1 if the sums include the elements of self.
func (s *scatterCall) refDivide(sums, counts *tensor.Tensor) {
	kit.EachIndex(sums.Shape, func(coords []int) {
		count := counts.At(coords...).Int()
		if s.includeSelf {
			count++
		}
		if count < 2 {
			return
		}
		value := sums.At(coords...)
		switch dtype := sums.DType; {
		case dtype.IsFloat():
			value = tensor.FloatScalar(value.Float() / float64(count))
		case dtype.IsComplex():
			value = tensor.ComplexScalar(value.Complex() / complex(float64(count), 0))
		default:
			value = tensor.IntScalar(floorDiv(value.Int(), count))
		}
		sums.Set(value, coords...)
	})
}

// floorDiv returns a / b, rounded down.
func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		quotient--
	}
	return quotient
}
