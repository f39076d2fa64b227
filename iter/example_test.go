package iter_test

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

func numbers(n int, shape ...int) *tensor.Tensor {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i)
	}
	return tensor.Must(tensor.FromSlice(v, shape...))
}

// The copy loop: four lines that serve any two layouts.
func ExampleIterator_ForEach() {
	src := numbers(6, 2, 3)
	t, _ := src.Transpose(0, 1)
	in, out := tensor.Must(src.View(t)), tensor.Zeros(tensor.Float32, 3, 2)

	it, _ := iter.Copy(iter.OfTensor(out), iter.OfTensor(in)).Build()
	ptrs, _ := it.Bind(out, in)
	_ = it.ForEach(ptrs, func(p []unsafe.Pointer, st []int, n0, n1 int) error {
		for k := range n0 * n1 {
			i, j := k%n0, k/n0
			*(*float32)(unsafe.Add(p[0], i*st[0]+j*st[2])) = *(*float32)(unsafe.Add(p[1], i*st[1]+j*st[3]))
		}
		return nil
	})
	fmt.Println(tensor.ToSlice[float32](out))
	// Output: [0 3 1 4 2 5] <nil>
}

// Adding with broadcasting. The operands differ in dtype: loops see both as float32.
func ExampleApply2() {
	a := numbers(6, 2, 3)
	b := tensor.Must(tensor.FromSlice([]int32{10, 20, 30}, 3))

	it, _ := iter.Binary(iter.Undefined(), iter.OfTensor(a), iter.OfTensor(b)).Build()
	sum, err := iter.Apply2(it, func(x, y float32) float32 { return x + y })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum.Meta)
	fmt.Println(tensor.ToSlice[float32](sum))
	// Output:
	// float32[2,3]@(3,1)
	// [10 21 32 13 24 35] <nil>
}

// A kernel with two outputs: the integral and the fractional part.
func ExampleApply1Out2() {
	a := tensor.Must(tensor.FromSlice([]float32{1.5, 2.25}, 2))
	it, _ := iter.New().Output(iter.Undefined()).Output(iter.Undefined()).Input(iter.OfTensor(a)).Build()
	whole, rest, _ := iter.Apply1Out2(it, func(x float32) (float32, float32) {
		w := float32(int(x))
		return w, x - w
	})
	fmt.Println(tensor.ToSlice[float32](whole))
	fmt.Println(tensor.ToSlice[float32](rest))
	// Output:
	// [1 2] <nil>
	// [0.5 0.25] <nil>
}

// What an iteration over a transposed view will do, before it runs: the output follows
// the left operand's order, and the two dimensions stay apart because the right operand
// disagrees.
func ExampleIterator_String() {
	left, _ := tensor.New(tensor.Float32, 3, 2).Transpose(0, 1)
	right := tensor.New(tensor.Float32, 2, 3)
	it, _ := iter.Binary(iter.Undefined(), iter.Of(left), iter.Of(right)).Build()
	fmt.Println(it)
	fmt.Println("perm", it.Perm(), "walk", it.WalkShape(), "strides", it.WalkStrides(0), it.WalkStrides(1), it.WalkStrides(2))
	// Output:
	// shape [2, 3] perm [0 1] fast set-up none walk [2 3]
	//   out float32[2,3]@(1,2) strides [4 8]
	//   in float32[2,3]@(1,2) strides [4 8]
	//   in float32[2,3]@(3,1) strides [12 4]
	// perm [0 1] walk [2 3] strides [4 8] [4 8] [12 4]
}
