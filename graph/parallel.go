package graph

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Parallel is a loop over one dimension of operands and results, with independent iterations. Iteration i computes
// slice i of each result from slice i of each divided operand and all elements of every other operand. If a call has
// the same attributes and only some of the slices, it computes the same elements. For example, a product of matrices x
// [m, k] and w [k, n] has two loops:
//
//	over m: OperandDims [0, Whole], ResultDims [0]
//	over n: OperandDims [Whole, 1], ResultDims [1]
type Parallel struct {
	OperandDims []int // indexed by operand: the dimension that the loop divides, or [Whole]
	ResultDims  []int // indexed by result: the dimension that the loop divides
	// MayBroadcast marks operands that may have a single slice. Every iteration then reads this slice. Nil means that
	// there are none.
	MayBroadcast []bool
}

// Whole marks an operand that every iteration of a [Parallel] reads as a whole, or that is absent.
const Whole = -1

// ParallelLoops returns loops with independent iterations. The call must have inferred results and known sizes.
// [Facts.Parallel] lists the loops. If it is nil, they are derived from other facts of the op:
//   - For a pointwise op, an Identity, or an op with an Expression, every dimension is a loop.
//   - For a concatenation, every dimension is a loop except the dimension along which it concatenates.
//   - For a view without ReadsStorage, the loops are derived from its strides.
//   - For an op with [Lowerings.Rows], the dimensions that it does not reduce are loops.
//
// If an op has no operands, all iterations of a loop compute the same slice. The list is empty if no independent loop
// is known, or if the op panics.
func (op *Op) ParallelLoops(call *Call) (loops []Parallel) {
	defer func() {
		if recover() != nil { // the op may be the caller's code, and the call may belong to another op
			loops = nil
		}
	}()
	if op == nil || call == nil || len(call.Out) == 0 {
		return nil
	}
	if op.Parallel != nil {
		return op.Parallel(call)
	}
	if op.Pointwise != nil || op.Identity || op.Expression != nil {
		if loops := BroadcastLoops(call); loops != nil {
			return loops
		}
	}
	if op.ConcatDim != nil {
		if dim, ok := op.ConcatDim(call); ok {
			return DimsExcept(call, dim)
		}
		return nil
	}
	if op.Kind == View && !op.ReadsStorage {
		return op.viewLoops(call)
	}
	if op.Rows != nil {
		if r, err := op.Rows(call); err == nil && r != nil {
			return r.loops(call)
		}
	}
	return nil
}

// BroadcastLoops returns a loop for each dimension of the shape to which the operands of a call are broadcast. It
// returns nil if the results have another shape. It assumes that the operands can be broadcast.
func BroadcastLoops(call *Call) []Parallel {
	if call == nil || len(call.Out) == 0 {
		return nil
	}
	shape := call.Out[0].Shape
	for _, meta := range call.Out {
		if !slices.Equal(meta.Shape, shape) {
			return nil
		}
	}
	if largest, ok := largestShape(call, len(shape)); !ok || !slices.Equal(largest, shape) {
		return nil
	}
	// An operand is divided by the loop over dim unless it is broadcast along dim.
	loops := make([]Parallel, len(shape))
	for dim, size := range shape {
		loop := undividedLoop(call)
		loop.MayBroadcast = everyOperand(call)
		for i, arg := range call.In {
			meta := arg.Meta()
			operandDim := dim - (len(shape) - meta.Rank())
			if arg.Kind == TensorArg && operandDim >= 0 && meta.Shape[operandDim] == size {
				loop.OperandDims[i] = operandDim
			}
		}
		for i := range loop.ResultDims {
			loop.ResultDims[i] = dim
		}
		loops[dim] = loop
	}
	return loops
}

// largestShape returns the shape to which the operands of a call are broadcast, with the given rank. ok is false if an
// operand has a greater rank.
func largestShape(call *Call, rank int) (largest []int, ok bool) {
	largest = slices.Repeat([]int{1}, rank)
	for _, arg := range call.In {
		meta := arg.Meta()
		if meta.Rank() > rank {
			return nil, false
		}
		for operandDim, size := range meta.Shape { // aligned at the last dimension
			if size != 1 {
				largest[operandDim+rank-meta.Rank()] = size
			}
		}
	}
	return largest, true
}

// undividedLoop returns a loop that divides no operand yet. The caller sets ResultDims.
func undividedLoop(call *Call) Parallel {
	return Parallel{OperandDims: slices.Repeat([]int{Whole}, len(call.In)), ResultDims: make([]int, len(call.Out))}
}

// everyOperand marks all operands.
func everyOperand(call *Call) []bool { return slices.Repeat([]bool{true}, len(call.In)) }

// DimsExcept returns a loop for each dimension of the first result that is not in dims. Every operand of the result's
// rank must have the dimensions of the result. Every iteration reads all elements of operands of other ranks.
func DimsExcept(call *Call, dims ...int) []Parallel {
	if call == nil || len(call.Out) == 0 {
		return nil
	}
	var loops []Parallel
	for dim := range call.Out[0].Shape {
		if slices.Contains(dims, dim) {
			continue
		}
		if loop, ok := sameDimLoop(call, dim); ok {
			loops = append(loops, loop)
		}
	}
	return loops
}

// sameDimLoop returns the loop over dimension dim of the results and of the operands of their rank. It returns false if
// dim has different sizes in these operands and results.
func sameDimLoop(call *Call, dim int) (loop Parallel, ok bool) {
	rank, size := call.Out[0].Rank(), call.Out[0].Shape[dim]
	loop = undividedLoop(call)
	for i, arg := range call.In {
		meta := arg.Meta()
		if arg.Kind != TensorArg || meta.Rank() != rank {
			continue
		}
		if meta.Shape[dim] != size {
			return loop, false
		}
		loop.OperandDims[i] = dim
	}
	for i, meta := range call.Out {
		if meta.Rank() != rank || meta.Shape[dim] != size {
			return loop, false
		}
		loop.ResultDims[i] = dim
	}
	return loop, true
}

// viewLoops derives the loops of a view from its strides. It infers the view of a probe. A probe is an operand whose
// strides are larger than necessary. An offset into the probe is a number in a mixed radix: digit d is the index in
// dimension d of the operand. Because of the large strides, sums of digits rarely carry. Dimension k of the view is a
// loop over dimension d of the operand under three conditions:
//   - Both dimensions have the same size.
//   - The stride of k is the probe's stride of d.
//   - Digit d is 0 in the offset of the view and in the strides of its other dimensions, except those of size 1.
//
// For example, the probe of an operand of shape [2, 3] has the strides [7, 1]: digit 1 has the radix 2*3+1 = 7. An
// offset is 7*(digit 0) + digit 1. A view x[:, 1:] of the probe has shape [2, 2], strides [7, 1] and offset 1. Its
// dimension 0 is a loop over dimension 0 of x. Dimension 1 is no loop, because it has another size, and because digit 1
// of the offset is 1. A view has no loops if a sum of digits may carry into the next digit. For example, in a view of 4
// elements with stride 3, digit 1 of the last offset would be 3*3 = 9, but a digit of radix 7 is at most 6.
func (op *Op) viewLoops(call *Call) []Parallel {
	operand := call.Meta(0)
	if call.In[0].Kind != TensorArg || slices.Contains(operand.Shape, 0) {
		return nil
	}
	var loops []Parallel
	for dim, size := range operand.Shape {
		viewDims := op.dimsAlong(call, operand.Shape, dim, nil) // by result: the dimension that is a loop over dim
		if viewDims == nil {
			continue
		}
		// The view must have the same dimensions if the loop has another size. The test is omitted if an attribute has
		// the sizes of the result, because the loop then has only this size.
		isSame := func(otherSize int) bool {
			shape := slices.Clone(operand.Shape)
			shape[dim] = otherSize
			return op.dimsAlong(call, shape, dim, viewDims) != nil
		}
		hasSizesAttr := op.SizesAttr != ""
		if !hasSizesAttr && !(isSame(1) && isSame(size+1)) {
			continue
		}
		loop := undividedLoop(call)
		loop.OperandDims[0], loop.ResultDims = dim, viewDims
		loops = append(loops, loop)
	}
	return loops
}

// dimsAlong infers the view of a probe operand of the given shape. It returns, for each result, the dimension that is a
// loop over dimension dim of the operand: see viewLoops. It returns nil if a result has no such dimension. If wanted is
// not nil, it has the only dimensions to consider, by result.
func (op *Op) dimsAlong(call *Call, shape []int, dim int, wanted []int) []int {
	layout, ok := newProbeLayout(shape)
	if !ok {
		return nil
	}
	probeType := tensor.Type{DType: call.In[0].Meta().DType, Shape: sizesOf(shape), Strides: sizesOf(layout.strides)}
	probe := &Call{In: slices.Clone(call.In), Attrs: call.Attrs}
	meta, ok := probeType.Meta()
	if !ok {
		return nil
	}
	probe.In[0].Value = &Value{Name: "probe", Type: probeType, Meta: meta}
	results, err := op.Infer(probe)
	if err != nil || len(results) != len(call.Out) {
		return nil
	}
	dims := make([]int, len(results))
	for i, result := range results {
		meta, known := result.Type.Meta()
		viewsProbe := result.Alias == 0 && !result.Dynamic
		if !known || !viewsProbe || meta.DType.Size() != probeType.DType.Size() {
			return nil // no known view of the probe, or its strides count elements of another size
		}
		dims[i] = -1
		for viewDim := range meta.Shape {
			isCandidate := dims[i] < 0 && (wanted == nil || viewDim == wanted[i])
			if isCandidate && layout.isAlong(meta, viewDim, shape[dim], dim) {
				dims[i] = viewDim
			}
		}
		if dims[i] < 0 {
			return nil
		}
	}
	return dims
}

// probeLayout has the strides of a probe (see viewLoops), and the radix of each digit of an offset into the probe.
type probeLayout struct{ strides, radix []int }

// newProbeLayout returns the layout of a probe of the given shape. It returns false if offsets would overflow.
func newProbeLayout(shape []int) (layout probeLayout, ok bool) {
	strides, radix := make([]int, len(shape)), make([]int, len(shape))
	stride := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i], radix[i] = stride, 2*shape[i]+1 // larger than the size, so that digits of a view rarely carry
		if stride > math.MaxInt/4/radix[i] {
			return layout, false
		}
		stride *= radix[i]
	}
	return probeLayout{strides, radix}, true
}

// digit returns digit i of an offset.
func (p probeLayout) digit(offset, i int) int { return offset / p.strides[i] % p.radix[i] }

// isAlong reports whether dimension viewDim of a view with the given meta is a loop over dimension probeDim of the
// probe (see viewLoops). size is the size of probeDim.
func (p probeLayout) isAlong(meta tensor.Meta, viewDim, size, probeDim int) bool {
	hasNegativeStride := slices.ContainsFunc(meta.Strides, func(stride int) bool { return stride < 0 })
	if hasNegativeStride || p.mayCarry(meta) || p.digit(meta.Offset, probeDim) != 0 {
		return false
	}
	for other, stride := range meta.Strides {
		if other != viewDim && meta.Shape[other] > 1 && p.digit(stride, probeDim) != 0 {
			return false
		}
	}
	return meta.Shape[viewDim] == size && meta.Strides[viewDim] == p.strides[probeDim]
}

// mayCarry reports whether a digit of an offset in a view would carry into the next digit.
func (p probeLayout) mayCarry(meta tensor.Meta) bool {
	for i := range p.strides {
		greatest := p.digit(meta.Offset, i) // greatest digit i of all offsets in the view
		for viewDim, stride := range meta.Strides {
			// The last index in viewDim adds (size-1)*stride to the offset.
			greatest += max(meta.Shape[viewDim]-1, 0) * p.digit(stride, i)
		}
		if greatest >= p.radix[i] {
			return true
		}
	}
	return false
}

// sizesOf converts numbers to sizes.
func sizesOf(list []int) []sym.Int {
	sizes := make([]sym.Int, len(list))
	for i, size := range list {
		sizes[i] = sym.Of(size)
	}
	return sizes
}
