package pointwise

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has functions that several definitions of pointwise ops share: parameters, types of results, references,
// and the compilation of calls with omitted operands.

// elementwise defines a pointwise op by its computation and its reference. For a call, reference returns the function
// that computes one element. Tests compare this function with the computation.
func elementwise(attrs *graph.Schema, name, doc string, params []graph.Param, pointwise *graph.Pointwise,
	reference func(*graph.Call) kit.ScalarFunc, examples ...graph.Example) *graph.Op {
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: params, Ref: kit.PointwiseRef(pointwise, reference),
			Examples: examples,
		},
		Lowerings: graph.Lowerings{Pointwise: pointwise},
	})
}

// unaryParams and binaryParams are the operands of most unary and binary ops. numberParams are the operands of a binary
// op that accepts plain numbers for both operands.
var (
	unaryParams  = []graph.Param{kit.Self}
	binaryParams = []graph.Param{kit.Self, kit.Other}
	numberParams = []graph.Param{kit.SelfOrNumber, kit.OtherOrNumber}
)

// preservedType returns the type of empty_like(self). kit.InferWithLayout uses only its shape and layout.
func preservedType(c *graph.Call) (tensor.Type, error) {
	return rule.PreserveType(c.Type(0)), nil
}

// rowMajorType returns the type of self with row-major strides. kit.InferWithLayout uses only its shape and layout.
func rowMajorType(c *graph.Call) (tensor.Type, error) {
	t := c.Type(0)
	return t.RowMajor(), nil
}

// typeAfterCast returns the type of the result of a unary op that first converts self to a dtype.
func typeAfterCast(self tensor.Type, dtype tensor.DType) (tensor.Type, error) {
	return kit.FirstResultType(rule.Unary(rule.UndefinedOutputOf(dtype), rule.OperandOfType(rule.CastType(self, dtype))))
}

// resultType mirrors torch.result_type of operands and numbers.
func resultType(operands []graph.Arg, numbers ...tensor.Scalar) (tensor.DType, error) {
	var promotion tensor.Promotion
	for _, operand := range operands {
		switch operand.Kind {
		case graph.TensorArg:
			operandType := operand.Type()
			promotion.Add(operandType.DType, operandType.Rank())
		case graph.NumberArg:
			promotion.AddNumber(operand.Number)
		}
	}
	for _, number := range numbers {
		if number.IsSet() {
			promotion.AddNumber(number)
		}
	}
	return promotion.Result()
}

// floatRef returns the reference, for kit.PointwiseRef, of a function of one real number. The arguments of
// kit.ByDTypeKind are functions of integers, floats and complex numbers. An argument is nil if the op does not support
// the kind.
func floatRef(f func(x float64) float64) func(*graph.Call) kit.ScalarFunc {
	return kit.IgnoringCall(kit.ByDTypeKind(nil, func(x []float64) float64 { return f(x[0]) }, nil))
}

// floatRef2 returns the reference, for kit.PointwiseRef, of a function of two real numbers.
func floatRef2(f func(x, y float64) float64) func(*graph.Call) kit.ScalarFunc {
	return kit.IgnoringCall(kit.ByDTypeKind(nil, func(x []float64) float64 { return f(x[0], x[1]) }, nil))
}

// boolRef returns the ScalarFunc of an op that returns bool. It takes one function for each kind of dtype, or nil for a
// kind that the op does not support.
func boolRef(ofInts func(x []int64) bool, ofFloats func(x []float64) bool,
	ofComplexes func(x []complex128) bool) kit.ScalarFunc {
	zeroOrOne := kit.ByDTypeKind(
		func(x []int64) int64 { return boolInt(ofInts(x)) },
		func(x []float64) float64 { return float64(boolInt(ofFloats(x))) },
		func(x []complex128) complex128 { return complex(float64(boolInt(ofComplexes(x))), 0) })
	return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		return tensor.BoolScalar(zeroOrOne(dtype, x).Int() != 0)
	}
}

// boolInt returns 1 for true and 0 for false.
func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// compilePresentOperands compiles a call of a pointwise op whose optional operands may be omitted. The loop is compiled
// for the operands that are present, and the kernel passes it the addresses of these operands. For clamp(x, null, max),
// these are operands 0 and 2.
func compilePresentOperands(pointwise *graph.Pointwise, call *graph.Call) (*graph.Kernel, error) {
	present := graph.Call{Attrs: call.Attrs, Out: call.Out, Impl: call.Impl, Walk: call.Walk}
	var positions []int // indices in call.In of the operands that are present
	for i, arg := range call.In {
		if arg.Kind != graph.Null {
			present.In, positions = append(present.In, arg), append(positions, i)
		}
	}
	if len(positions) == len(call.In) {
		return fusion.CompileLoop(pointwise, call)
	}
	// CompileLoop gets a call with only the present operands. Config and Body of the op get the whole call, because
	// they depend on which operands are omitted.
	ofWholeCall := graph.Pointwise{
		Config: func(_ *graph.Call, outs []rule.Operand) (rule.Config, error) { return pointwise.Config(call, outs) },
		Body:   func(_ *graph.Call, iterator *rule.Rule) (rule.Kernel, error) { return pointwise.Body(call, iterator) },
	}
	kernelOfPresent, err := fusion.CompileLoop(&ofWholeCall, &present)
	if err != nil {
		return nil, err
	}
	iterator := kernelOfPresent.Loop.(*iter.Iterator)
	phase, err := selectingPhase(pointwise, call, iterator, positions)
	if err != nil {
		return nil, err
	}
	kernel := *kernelOfPresent
	kernel.Phases = []graph.Phase{phase} // the replaced phases expect the addresses of the present operands only
	renumberOperands(&kernel, positions, len(call.In))
	return &kernel, nil
}

// selectingPhase returns the phase that runs the loop of compilePresentOperands with the addresses of the operands at
// the given positions. It prepares the loop again, because a kernel does not expose its prepared loop.
func selectingPhase(pointwise *graph.Pointwise, call *graph.Call, iterator *iter.Iterator,
	positions []int) (graph.Phase, error) {
	body, err := pointwise.Body(call, &iterator.Rule)
	if err != nil {
		return graph.Phase{}, err
	}
	loop, err := iterator.Prepare(body)
	if err != nil {
		return graph.Phase{}, err
	}
	return graph.Phase{Chunks: loop.Chunks(iter.GrainSize), Run: func(mem *graph.Mem, chunk int) error {
		var ptrs [8]unsafe.Pointer // results and operands; no op with omitted operands has more
		count := copy(ptrs[:], mem.Ptrs[:iterator.NumOutputs()])
		for _, i := range positions {
			ptrs[count] = mem.Ptrs[iterator.NumOutputs()+i]
			count++
		}
		return fusion.RunChunk(loop, mem, ptrs[:count], chunk, iter.GrainSize)
	}}, nil
}

// renumberOperands changes the indices of operands in a kernel. Operand i becomes operand positions[i] of count
// operands.
func renumberOperands(kernel *graph.Kernel, positions []int, count int) {
	inPlace, embeddedOperands := kernel.InPlace, kernel.EmbeddedOperands
	kernel.InPlace = nil
	for _, pair := range inPlace {
		kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: pair.Out, In: positions[pair.In]})
	}
	if embeddedOperands != nil { // the kernel holds tensors of plain numbers
		kernel.EmbeddedOperands = make([]*tensor.Tensor, count)
		for i, embedded := range embeddedOperands {
			kernel.EmbeddedOperands[positions[i]] = embedded
		}
	}
}

// realPart returns the type of the view of a complex value's real parts. It returns the type of a real value unchanged.
func realPart(value tensor.Type) tensor.Type {
	if !value.DType.IsComplex() {
		return value
	}
	two := sym.Of(2)
	strides := make([]sym.Int, len(value.Strides)) // in elements of half the size
	for i, stride := range value.Strides {
		strides[i] = two.Mul(stride)
	}
	return tensor.Type{DType: value.DType.ToReal(), Shape: value.Shape, Strides: strides, Offset: two.Mul(value.Offset)}
}

// boolCheck returns a check that rejects bools with the given message.
func boolCheck(message string) func(c *graph.Call) error {
	return func(c *graph.Call) error {
		if c.Type(0).DType == tensor.Bool {
			return errors.New(message)
		}
		return nil
	}
}
