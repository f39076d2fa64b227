package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// ScalarFunc computes one element in a dtype. x has the elements of the operands, converted to this dtype.
type ScalarFunc func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar

// PointwiseRef returns the reference of a pointwise op, which computes one element at a time. Operands are broadcast
// and converted to the dtype of the computation, and the result is converted to the dtype of the output. scalar returns
// the function that computes one element, for the attributes of a call. Omitted operands are not passed to this
// function.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func PointwiseRef(pointwise *graph.Pointwise, scalar func(c *graph.Call) ScalarFunc) func(*graph.Call,
	[]*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return pointwiseRef(pointwise, scalar, c, in)
	}
}

// pointwiseRef computes the result of a call for [PointwiseRef]. It converts and broadcasts the operands as
// package iter does, and then computes element by element.
func pointwiseRef(pointwise *graph.Pointwise, scalar func(c *graph.Call) ScalarFunc, call *graph.Call,
	in []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	// The functions of integer divisions panic with ErrZeroDivision, because a ScalarFunc returns no error.
	defer func() {
		switch recovered := recover(); recovered {
		case nil:
		case ErrZeroDivision:
			err = ErrZeroDivision
		default:
			panic(recovered)
		}
	}()
	undefinedOutputs := make([]rule.Operand, max(pointwise.Outputs, 1)) // Outputs is 0 for one output
	config, err := pointwise.Config(call, undefinedOutputs)
	if err != nil {
		return nil, err
	}
	iterator, err := iter.Build(config)
	if err != nil {
		return nil, err
	}
	shape := iterator.Shape()
	if tensor.Numel(shape) == 0 { // no conversions, because operands may be large although the result is empty
		return []*tensor.Tensor{tensor.Zeros(iterator.Meta(0).DType, shape...)}, nil
	}
	expanded, err := expandedOperands(iterator, in)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(iterator.Meta(0).DType, shape...)
	value := scalar(call)
	x := make([]tensor.Scalar, len(expanded))
	loopDType := iterator.DType(0)
	if len(expanded) > 0 {
		loopDType = iterator.DType(iterator.NumOutputs()) // of the first operand
	}
	EachIndex(shape, func(index []int) {
		for i, operand := range expanded {
			x[i] = operand.At(index...)
		}
		out.Set(value(loopDType, x), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// expandedOperands returns the given operands, converted to the dtypes of the loop and broadcast to the shape of the
// iteration.
func expandedOperands(iterator *iter.Iterator, in []*tensor.Tensor) (expanded []*tensor.Tensor, err error) {
	for _, given := range in {
		if given == nil {
			continue
		}
		i := iterator.NumOutputs() + len(expanded) // the iterator lists the outputs before the operands
		given = given.CopyTo(tensor.New(iterator.Meta(i).DType, given.Shape...))
		if dtype := iterator.Cast(i); dtype != tensor.Invalid { // an additional dtype that the operand passes through first
			given = given.CopyTo(tensor.New(dtype, given.Shape...))
		}
		operand, err := given.CopyTo(tensor.New(iterator.DType(i), given.Shape...)).Expanded(iterator.Shape())
		if err != nil {
			return nil, err
		}
		expanded = append(expanded, operand)
	}
	return expanded, nil
}

// IgnoringCall returns a function that ignores the call and returns scalar. It is an argument of [PointwiseRef] for an
// op without attributes.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func IgnoringCall(scalar ScalarFunc) func(*graph.Call) ScalarFunc {
	return func(*graph.Call) ScalarFunc { return scalar }
}

// ByDTypeKind makes a ScalarFunc from functions for integers, floats and complex numbers. The function of an
// unsupported kind may be nil.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func ByDTypeKind(integers func(x []int64) int64, floats func(x []float64) float64,
	complexes func(x []complex128) complex128) ScalarFunc {
	return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		switch {
		case dtype.IsComplex():
			return tensor.ComplexScalar(complexes(convertScalars(x, tensor.Scalar.Complex)))
		case dtype.IsFloat():
			return tensor.FloatScalar(floats(convertScalars(x, tensor.Scalar.Float)))
		}
		return tensor.IntScalar(integers(convertScalars(x, tensor.Scalar.Int)))
	}
}

// convertScalars converts each scalar.
func convertScalars[T any](x []tensor.Scalar, convert func(tensor.Scalar) T) []T {
	converted := make([]T, len(x))
	for i := range x {
		converted[i] = convert(x[i])
	}
	return converted
}

// WithUint64Case returns a ScalarFunc that calls uint64s for uint64 and other for other dtypes. A function that
// computes with int64 would read uint64 numbers above the greatest int64 as negative.
func WithUint64Case(uint64s func(x []uint64) uint64, other ScalarFunc) ScalarFunc {
	return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if dtype != tensor.Uint64 {
			return other(dtype, x)
		}
		operands := convertScalars(x, func(s tensor.Scalar) uint64 { return uint64(s.Int()) })
		return tensor.IntScalar(int64(uint64s(operands)))
	}
}

// EachIndex calls visit with every index of the shape, in row-major order: for [2, 3] with [0 0], [0 1], [0 2], [1 0],
// [1 1] and [1 2]. visit must not keep the slice.
func EachIndex(shape []int, visit func(index []int)) {
	if tensor.Numel(shape) == 0 {
		return
	}
	index := make([]int, len(shape))
	for {
		visit(index)
		// The last dimension advances. A dimension at its end goes back to 0, and the one before it advances.
		dim := len(shape) - 1
		for ; dim >= 0; dim-- {
			index[dim]++
			if index[dim] < shape[dim] {
				break
			}
			index[dim] = 0
		}
		if dim < 0 {
			return
		}
	}
}

// Unravel returns the index in each dimension of element i in row-major order.
func Unravel(i int, shape []int) []int {
	index := make([]int, len(shape))
	for dim := len(shape) - 1; dim >= 0; dim-- {
		index[dim] = i % shape[dim]
		i /= shape[dim]
	}
	return index
}

// ElementAlong returns element index[dim] of t, or the only element if t has a single element.
func ElementAlong(t *tensor.Tensor, index []int, dim int) float64 {
	i := 0
	if t.Numel() > 1 {
		i = index[dim]
	}
	return t.At(Unravel(i, t.Shape)...).Float()
}
