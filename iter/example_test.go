package iter_test

import (
	"context"
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

// The copy loop: four lines that work for any two layouts.
func ExampleIterator_ForEach() {
	src := numbers(6, 2, 3)
	t, _ := src.Transpose(0, 1)
	in, out := tensor.Must(src.View(t)), tensor.Zeros(tensor.Float32, 3, 2)

	it, _ := iter.Copy(iter.OperandOfTensor(out), iter.OperandOfTensor(in)).Build()
	ptrs, _ := it.Bind(out, in)
	_ = it.ForEach(ptrs, func(p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
		for k := range rowLen * rowCount {
			i, j := k%rowLen, k/rowLen
			*(*float32)(unsafe.Add(p[0], i*st[0]+j*st[2])) = *(*float32)(unsafe.Add(p[1], i*st[1]+j*st[3]))
		}
		return nil
	})
	fmt.Println(tensor.ToSlice[float32](out))
	// Output: [0 3 1 4 2 5] <nil>
}

// A kernel knows its types, and works for every layout. Here with broadcasting; the operands
// differ in dtype, and loops see both as float32.
func ExampleIterator_Apply() {
	a := numbers(6, 2, 3)
	b := tensor.Must(tensor.FromSlice([]int32{10, 20, 30}, 3))

	it, _ := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
	sum, err := it.Apply(iter.Map2(func(x, y float32) float32 { return x + y }))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum[0].Meta)
	fmt.Println(tensor.ToSlice[float32](sum[0]))
	_, err = it.Apply(iter.Map2(func(x, y float64) float64 { return x + y }))
	fmt.Println(err)
	// Output:
	// float32[2,3]@(3,1)
	// [10 21 32 13 24 35] <nil>
	// iter: the kernel (float64, float64) -> float64 has output 0 as float64, but the iteration (float32[2,3]@(3,1)) has it as float32
}

// scaled adds alpha times the second operand. Over slices, one generic function supports
// every dtype at full speed.
func scaled[T int32 | int64 | float32 | float64 | complex64](alpha T) func(dst, a, b []T) {
	return func(dst, a, b []T) {
		for i := range dst {
			dst[i] = a[i] + alpha*b[i]
		}
	}
}

// An op over five dtypes with an attribute: a table chooses by what the loops see. OpMath
// would support float16 and bfloat16 by the loop of float32; without it the refusal is
// PyTorch's.
func ExampleTable() {
	add := iter.NewTable("add_cpu",
		iter.Slice2(scaled[int32](2)), iter.Slice2(scaled[int64](2)),
		iter.Slice2(scaled[float32](2)), iter.Slice2(scaled[float64](2)), iter.Slice2(scaled[complex64](2)))

	a := tensor.Must(tensor.FromSlice([]int32{1, 2, 3}, 3))
	for _, b := range []*tensor.Tensor{
		tensor.Must(tensor.FromSlice([]int64{10, 20, 30}, 3)),
		tensor.Must(tensor.FromSlice([]float64{0.5, 1, 1.5}, 3)),
		tensor.Zeros(tensor.Float16, 3),
	} {
		it, _ := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
		out, err := it.Apply(add)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(out[0].Meta, out[0].At(0), out[0].At(1), out[0].At(2))
	}
	// Output:
	// int64[3]@(1) 21 42 63
	// float64[3]@(1) 2 4 6
	// "add_cpu" not implemented for 'Half'
}

// Three operands on two goroutines. The result follows the layout of the first operand,
// channels-last, and is rounded to bfloat16 as it is written.
func ExampleMap3() {
	m, _ := tensor.NewFormat(tensor.Float32, []int{2, 3, 4, 5}, tensor.ChannelsLast)
	x := tensor.Must(numbers(120, 2, 3, 4, 5).View(m))
	weight := tensor.Must(tensor.FromSlice([]float32{1, 10, 100}, 3, 1, 1))

	it, err := iter.Binary(iter.UndefinedOutputOf(tensor.BFloat16), iter.OperandOfTensor(x), iter.OperandOfTensor(weight)).
		Input(iter.NumberOperand(tensor.FloatScalar(0.5))).OpMath(true).Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := it.Apply(iter.Map3(func(x, w, bias float32) float32 { return x*w + bias }),
		iter.Workers(2), iter.Context(context.Background()), iter.Grain(50))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[0].Meta, out[0].Is(tensor.ChannelsLast))
	fmt.Println(out[0].At(0, 2, 0, 0), x.At(0, 2, 0, 0))
	// Output:
	// bfloat16[2,3,4,5]@(60,1,15,3) true
	// 200 2
}

// A kernel with two results: the integral and the fractional part.
func ExampleMap1Out2() {
	a := tensor.Must(tensor.FromSlice([]float32{1.5, 2.25}, 2))
	it, _ := iter.New().Output(iter.UndefinedOutput()).Output(iter.UndefinedOutput()).
		Input(iter.OperandOfTensor(a)).Build()
	out, err := it.Apply(iter.Map1Out2(func(x float32) (whole, rest float32) {
		whole = float32(int(x))
		return whole, x - whole
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.ToSlice[float32](out[0]))
	fmt.Println(tensor.ToSlice[float32](out[1]))
	// Output:
	// [1 2] <nil>
	// [0.5 0.25] <nil>
}

// The caller brings the memory of the output: here the second row of a larger tensor.
func ExampleAllocate() {
	all := tensor.Zeros(tensor.Float32, 2, 3)
	it, _ := iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(numbers(3, 3))).Build()
	_, err := it.Apply(iter.Map1(func(x float32) float32 { return -x }),
		iter.Allocate(func(_ int, m tensor.Meta) (*tensor.Tensor, error) {
			m.Offset = 3
			return all.View(m)
		}))
	fmt.Println(err)
	fmt.Println(tensor.ToSlice[float32](all))
	// Output:
	// <nil>
	// [0 0 0 -0 -1 -2] <nil>
}

// What an iteration over a transposed view will do, before it runs: the output follows
// the left operand's order, and the two dimensions stay apart because the right operand
// disagrees.
func ExampleIterator_String() {
	left, _ := tensor.New(tensor.Float32, 3, 2).Transpose(0, 1)
	right := tensor.New(tensor.Float32, 2, 3)
	it, _ := iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(left), iter.OperandOfMeta(right)).Build()
	fmt.Println(it)
	fmt.Println("perm", it.Perm(), "walk", it.WalkShape(), "strides", it.WalkStrides(0), it.WalkStrides(1),
		it.WalkStrides(2))
	// Output:
	// shape [2, 3] perm [0 1] fast set-up none walk [2 3]
	//   out float32[2,3]@(1,2) strides [4 8]
	//   in float32[2,3]@(1,2) strides [4 8]
	//   in float32[2,3]@(3,1) strides [12 4]
	// perm [0 1] walk [2 3] strides [4 8] [4 8] [12 4]
}

// Each comparison of the sort and every intermediate, here with an operand that is
// converted and repeated along the first dimension.
func ExampleIterator_Explain() {
	left, _ := tensor.New(tensor.Float32, 3, 2).Transpose(0, 1)
	row := tensor.New(tensor.Int32, 3)
	it, _ := iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(row), iter.OperandOfMeta(left)).Build()
	fmt.Print(it.Explain())
	// Output:
	// operands
	//   output 0, undefined
	//   input 0, int32[3]@(1): seen as float32, sorted as float32[3]@(1), PyTorch's temporary
	//   input 1, float32[2,3]@(1,2)
	// shape [2, 3], common dtype float32
	// effective strides, in elements
	//   output 0: none yet
	//   input 0: [0 1]
	//   input 1: [1 2]
	// sort of [1 0]
	//   1 before 0: is exchanged, input 1 has strides 2 and 1
	// permutation [0 1], fastest first
	//   output 0 is laid out as float32[2,3]@(1,2)
	// byte strides before coalescing, over [2 3]
	//   output 0: [4 8]
	//   input 0: [0 4]
	//   input 1: [4 8]
	// byte strides after coalescing, over [2 3]
	//   output 0: [4 8]
	//   input 0: [0 4]
	//   input 1: [4 8]
}
