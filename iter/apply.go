package iter

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Tensors returns the operands as tensors: inputs and given outputs as they were given, a
// fresh tensor for each output that the iterator laid out, a 0-dim tensor for a number.
// It needs operands made by [OfTensor], [Undefined] or [Number].
func (it *Iterator) Tensors() ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(it.ops))
	for i := range it.ops {
		o := &it.ops[i]
		switch {
		case i < it.noutputs && o.isLaidOut():
			out[i] = tensor.Empty(o.meta)
		case o.Number.IsSet():
			out[i] = o.Number.Tensor(o.meta.DType)
		case o.object == nil:
			return nil, fmt.Errorf("iter: operand %d, %v, has no data", i, o.meta)
		default:
			out[i] = o.object
		}
	}
	return out, nil
}

// Run walks the whole iteration over the operands' own data with a body, on at most
// workers goroutines, and returns the outputs. A body does not tell its types: ask
// [Iterator.CheckTypes], or use [Apply1] and its kin, which do.
func (it *Iterator) Run(ctx context.Context, workers int, body Body) ([]*tensor.Tensor, error) {
	ts, err := it.Tensors()
	if err != nil {
		return nil, err
	}
	ptrs, err := it.Bind(ts...)
	if err != nil {
		return nil, err
	}
	return ts[:it.noutputs], it.ParallelBlocks(ctx, ptrs, 0, workers, body)
}

// Apply1 computes out = f(a) element by element over the operands' own data and returns
// the output, whatever the layouts. The dtypes that loops see must be those of the
// function's types (cpu_kernel).
func Apply1[D, A tensor.Element](it *Iterator, f func(a A) D) (*tensor.Tensor, error) {
	return first(it, Kernel1(f), tensor.DTypeOf[D](), tensor.DTypeOf[A]())
}

// Apply2 is [Apply1] for a function of two elements.
func Apply2[D, A, B tensor.Element](it *Iterator, f func(a A, b B) D) (*tensor.Tensor, error) {
	return first(it, Kernel2(f), tensor.DTypeOf[D](), tensor.DTypeOf[A](), tensor.DTypeOf[B]())
}

// Apply3 is [Apply1] for a function of three elements.
func Apply3[D, A, B, C tensor.Element](it *Iterator, f func(a A, b B, c C) D) (*tensor.Tensor, error) {
	return first(it, Kernel3(f), tensor.DTypeOf[D](), tensor.DTypeOf[A](), tensor.DTypeOf[B](), tensor.DTypeOf[C]())
}

// Apply1Out2 is [Apply1] for a function with two results (cpu_kernel_multiple_outputs).
func Apply1Out2[D, E, A tensor.Element](it *Iterator, f func(a A) (D, E)) (d, e *tensor.Tensor, err error) {
	out, err := checked(it, Kernel1Out2(f), tensor.DTypeOf[D](), tensor.DTypeOf[E](), tensor.DTypeOf[A]())
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

func first(it *Iterator, body Body, types ...tensor.DType) (*tensor.Tensor, error) {
	out, err := checked(it, body, types...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// checked runs a body once its types are known to be what the loops hand over.
func checked(it *Iterator, body Body, types ...tensor.DType) ([]*tensor.Tensor, error) {
	if err := it.CheckTypes(types...); err != nil {
		return nil, err
	}
	return it.Run(context.Background(), 1, body)
}

// CheckTypes reports loops that see other dtypes than the given ones, outputs first: what
// to ask before handing a typed loop to a walk.
func (it *Iterator) CheckTypes(types ...tensor.DType) error {
	if len(types) != len(it.ops) {
		return fmt.Errorf("iter: a function over %d operands for an iteration over %d", len(types), len(it.ops))
	}
	for i, d := range types {
		if got := it.ops[i].target; got != d {
			return fmt.Errorf("iter: the function takes operand %d as %v, the iteration has it as %v", i, d, got)
		}
	}
	return nil
}
