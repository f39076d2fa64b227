package kernels

import (
	"fmt"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// number lists the element types that addScaled supports.
type number interface {
	int32 | int64 | float32 | float64 | complex64
}

// addScaled returns the kernel of a + alpha*b.
func addScaled[T number](alpha T) iter.Kernel {
	return iter.Slice2(func(dst, a, b []T) {
		for i := range dst {
			dst[i] = a[i] + alpha*b[i]
		}
	})
}

// addCPU returns the kernels of add by dtype. The iterator promotes and converts the operands as PyTorch does, and
// selects the kernel of the promoted dtype.
func addCPU(alpha int) *iter.Table {
	return iter.NewTable("add_cpu",
		addScaled(int32(alpha)), addScaled(int64(alpha)),
		addScaled(float32(alpha)), addScaled(float64(alpha)), addScaled(complex(float32(alpha), 0)))
}

// A binary kernel over five dtypes, with an attribute.
func Example_alpha() {
	ints := tensor.Must(tensor.FromSlice([]int32{1, 2, 3}, 3))
	for _, b := range []*tensor.Tensor{
		tensor.Must(tensor.FromSlice([]int32{1, 1, 1}, 3)),
		tensor.Must(tensor.FromSlice([]int64{10, 20}, 2, 1)), // broadcast: the result has two rows
		tensor.Must(tensor.FromSlice([]float32{0.5, 1, 1.5}, 3)),
		tensor.Must(tensor.FromSlice([]float64{0.5, 1, 1.5}, 3)),
		tensor.Must(tensor.FromSlice([]complex64{1i, 2, 3i}, 3)),
		tensor.Must(tensor.FromSlice([]bool{true, false, true}, 3)),
		tensor.Zeros(tensor.Float16, 3),
	} {
		sum, err := add(ints, b, 2)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(sum.Meta, last(sum))
	}
	// Output:
	// int32[3]@(1) 5
	// int64[2,3]@(3,1) 43
	// float32[3]@(1) 6
	// float64[3]@(1) 6
	// complex64[3]@(1) (3+6i)
	// int32[3]@(1) 5
	// "add_cpu" not implemented for 'Half'
}

// add is torch.add(a, b, alpha=alpha).
func add(a, b *tensor.Tensor, alpha int) (*tensor.Tensor, error) {
	it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
	if err != nil {
		return nil, err
	}
	out, err := it.Apply(addCPU(alpha))
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// last returns the last element.
func last(t *tensor.Tensor) tensor.Scalar {
	at := make([]int, t.Rank())
	for d, n := range t.Shape {
		at[d] = n - 1
	}
	return t.At(at...)
}
