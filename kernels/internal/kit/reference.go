package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// ScalarFunc computes one element in dtype d. x has the elements of the operands, converted to d.
type ScalarFunc func(d tensor.DType, x []tensor.Scalar) tensor.Scalar

// PointwiseRef returns the reference of a pointwise op, which computes one element at a time. Operands are broadcast
// and converted to the dtype of the computation, and the result is converted to the dtype of the output. f returns the
// function that computes one element, for the attributes of a call. Omitted operands are not passed to this function.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func PointwiseRef(p *graph.Pointwise, f func(c *graph.Call) ScalarFunc) func(*graph.Call,
	[]*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return pointwiseRef(p, f, c, in) }
}

func pointwiseRef(pointwise *graph.Pointwise, scalar func(c *graph.Call) ScalarFunc, call *graph.Call,
	in []*tensor.Tensor) (_ []*tensor.Tensor, err error) {
	// The functions of integer divisions panic with ErrZeroDivision, because a ScalarFunc returns no error.
	defer func() {
		switch r := recover(); r {
		case nil:
		case ErrZeroDivision:
			err = ErrZeroDivision
		default:
			panic(r)
		}
	}()
	config, err := pointwise.Config(call, make([]rule.Operand, max(pointwise.Outputs, 1)))
	if err != nil {
		return nil, err
	}
	iterator, err := iter.Build(config)
	if err != nil {
		return nil, err
	}
	outputs := iterator.NumOutputs() // the iterator lists the outputs before the operands
	shape := iterator.Shape()
	if tensor.Numel(shape) == 0 { // copies of the operands in a wider dtype might be too large
		return []*tensor.Tensor{tensor.Zeros(iterator.Meta(0).DType, shape...)}, nil
	}
	var expanded []*tensor.Tensor
	for _, t := range in {
		if t == nil {
			continue
		}
		i := outputs + len(expanded)
		t = t.CopyTo(tensor.New(iterator.Meta(i).DType, t.Shape...))
		if d := iterator.Cast(i); d != tensor.Invalid { // a conversion before the conversion to the loop's dtype
			t = t.CopyTo(tensor.New(d, t.Shape...))
		}
		operand, err := t.CopyTo(tensor.New(iterator.DType(i), t.Shape...)).Expanded(shape)
		if err != nil {
			return nil, err
		}
		expanded = append(expanded, operand)
	}
	out := tensor.Zeros(iterator.Meta(0).DType, shape...)
	value := scalar(call)
	x := make([]tensor.Scalar, len(expanded))
	loopDType := iterator.DType(0)
	if len(expanded) > 0 {
		loopDType = iterator.DType(outputs) // of the first operand
	}
	EachIndex(shape, func(index []int) {
		for i, t := range expanded {
			x[i] = t.At(index...)
		}
		out.Set(value(loopDType, x), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// EachIndex calls f with every index of the shape, in row-major order. f must not keep the slice.
func EachIndex(shape []int, f func(index []int)) {
	if tensor.Numel(shape) == 0 {
		return
	}
	index := make([]int, len(shape))
	for {
		f(index)
		// The last dimension advances. A dimension at its end goes back to 0, and the one before it advances.
		d := len(shape) - 1
		for ; d >= 0; d-- {
			index[d]++
			if index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// IgnoreCall returns a function that returns f for every call. It is an argument of [PointwiseRef] for an op without
// attributes.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func IgnoreCall(f ScalarFunc) func(*graph.Call) ScalarFunc {
	return func(*graph.Call) ScalarFunc { return f }
}

// ByDTypeKind makes a ScalarFunc from functions for integers, floats and complex numbers. The function of an
// unsupported kind may be nil.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func ByDTypeKind(integers func(x []int64) int64, floats func(x []float64) float64,
	complexes func(x []complex128) complex128) ScalarFunc {
	return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		switch {
		case d.IsComplex():
			v := make([]complex128, len(x))
			for k := range x {
				v[k] = x[k].Complex()
			}
			return tensor.ComplexScalar(complexes(v))
		case d.IsFloat():
			v := make([]float64, len(x))
			for k := range x {
				v[k] = x[k].Float()
			}
			return tensor.FloatScalar(floats(v))
		}
		v := make([]int64, len(x))
		for k := range x {
			v[k] = x[k].Int()
		}
		return tensor.IntScalar(integers(v))
	}
}

// WithUint64Case returns a ScalarFunc that calls unsigned for uint64 and other for other dtypes. A function that
// computes with int64 would read uint64 numbers above the greatest int64 as negative.
func WithUint64Case(unsigned func(x []uint64) uint64, other ScalarFunc) ScalarFunc {
	return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if d != tensor.Uint64 {
			return other(d, x)
		}
		v := make([]uint64, len(x))
		for k := range x {
			v[k] = uint64(x[k].Int())
		}
		return tensor.IntScalar(int64(unsigned(v)))
	}
}

// Unravel returns the index in each dimension of element i in row-major order.
func Unravel(i int, shape []int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = i % shape[d]
		i /= shape[d]
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
