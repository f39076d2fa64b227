package tensor_test

import (
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Layouts need no data: a permutation gives strides, and strides have a format.
func Example() {
	m := tensor.New(tensor.Float32, 2, 3, 4, 5)
	t, err := m.Permute([]int{0, 2, 3, 1})
	fmt.Println(t, err, t.IsContiguous(), t.IsNonOverlappingAndDense())
	image, err := tensor.NewFormat(tensor.Float32, m.Shape, tensor.ChannelsLast)
	fmt.Println(image, err, image.Flags())
	_, err = t.View([]int{2, 60})
	fmt.Println("can be viewed as [2, 60]:", err == nil)
	// Output:
	// float32[2,4,5,3]@(60,5,1,20) <nil> false true
	// float32[2,3,4,5]@(60,1,15,3) <nil> [channels_last non_overlapping_and_dense]
	// can be viewed as [2, 60]: false
}

// A view shares the storage of its base.
func ExampleTensor_View() {
	x := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 2, 3))
	turned, err := x.Transpose(0, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := tensor.Must(x.View(turned))
	x.Set(tensor.FloatScalar(9), 0, 2)
	fmt.Println(y.Meta, y.At(2, 0), y.Storage() == x.Storage())
	fmt.Println(tensor.ToSlice[float32](y))
	// Output:
	// float32[3,2]@(1,3) 9 true
	// [0 3 1 4 9 5] <nil>
}

// An order is a layout as planners choose it, for any sizes. Some orders are memory formats.
func ExampleOrder() {
	o, err := tensor.NewOrder(0, 2, 3, 1)
	fmt.Println(o, err, o.Format(), o.Strides([]int{2, 3, 4, 5}))
	m, _ := tensor.New(tensor.Float32, 3, 2).Transpose(0, 1)
	fmt.Println(tensor.OrderOf(m))
	fmt.Println(tensor.OrderOf(m.WithStrides([]int{1, 4})))
	// Output:
	// channels_last <nil> channels_last [60 1 15 3]
	// 1,0 true
	// 1,0 false
}

// Dtypes promote as in PyTorch.
func ExamplePromote() {
	fmt.Println(tensor.Promote(tensor.Int64, tensor.Float16))
	fmt.Println(tensor.Promote(tensor.Float16, tensor.BFloat16))
	fmt.Println(tensor.Promote(tensor.Uint8, tensor.Int8))
	// Output:
	// float16 <nil>
	// float32 <nil>
	// int16 <nil>
}
