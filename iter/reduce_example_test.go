package iter_test

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// sumFold adds float32 in float64.
var sumFold = iter.FoldOf(0.0,
	func(a float64, x float32, _ int) float64 { return a + float64(x) },
	func(a, b float64) float64 { return a + b },
	func(a float64) float32 { return float32(a) })

// A reduction of any layout, here of a transposed view: the sums over its columns.
func ExampleFold() {
	x := numbers(6, 2, 3)
	m, _ := x.Transpose(0, 1)
	sums, err := sumFold.Over(tensor.Must(x.View(m)), false, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.ToSlice[float32](sums[0]))
	// Output: [3 12] <nil>
}

// A mean of any integers, as float16: loops see the input as float32, the result is
// converted on its way out.
func ExampleIterator_RunReduce() {
	x := tensor.Must(tensor.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3))
	mean := iter.FoldOf(0.0,
		func(a float64, x float32, _ int) float64 { return a + float64(x) },
		func(a, b float64) float64 { return a + b },
		func(a float64) float64 { return a / 3 })

	mask, _ := iter.ReduceMask([]int{-1}, x.Rank())
	out := tensor.Zeros(tensor.Float16, iter.ReduceShape(x.Shape, mask, false)...)
	view := tensor.Must(out.View(iter.ReduceOutput(out.Meta, mask, false)))
	it, _ := iter.Reduction(iter.OperandOfTensor(view), iter.OperandOfTensor(x)).CastInputs(tensor.Float32).Build()
	if _, err := it.RunReduce(context.Background(), 2, mean); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.At(0), out.At(1))
	// Output: 2 5
}

// best is the greatest element so far and its index.
type best struct {
	value float32
	index int64
}

// later takes the better of two, the earlier of equals; index -1 stands for none.
func later(a, b best) best {
	if b.index >= 0 && (a.index < 0 || b.value > a.value) {
		return b
	}
	return a
}

// The greatest elements and their indices: two results of one fold, which needs logical
// positions.
func ExampleWithResult() {
	maxFold := iter.FoldOf(best{index: -1},
		func(a best, x float32, at int) best { return later(a, best{x, int64(at)}) },
		later,
		func(a best) float32 { return a.value }).InOrder()
	maxFold = iter.WithResult(maxFold, func(dst []int64, a []best) {
		for i := range a {
			dst[i] = a[i].index
		}
	})

	x := tensor.Must(tensor.FromSlice([]float32{3, 9, 9, 8, 1, 2}, 2, 3))
	out, err := maxFold.Over(x, false, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.ToSlice[float32](out[0]))
	fmt.Println(tensor.ToSlice[int64](out[1]))
	// Output:
	// [9 8] <nil>
	// [1 0] <nil>
}
