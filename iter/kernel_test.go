package iter_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// doubling is an iteration over float32 operands of the shape.
func doubling(t *testing.T, shape ...int) *iter.Iterator {
	x := numbers(tensor.Numel(shape), shape...)
	return build(t, iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(x), iter.OperandOfTensor(x)))
}

// What wrote past the operands, or panicked, is an error that names what does not fit.
func TestKernelsOfOtherTypesAreRefused(t *testing.T) {
	it := doubling(t, 3, 4)
	nop := func(a, b float32) float32 { return a + b }
	var none *iter.Table
	var unset iter.Kernel
	for _, c := range []struct {
		of   iter.Kernels
		want string
	}{
		{iter.Slice2(func(d, a, b []float64) {}),
			"iter: the kernel (float64, float64) -> float64 has output 0 as float64, but the iteration " +
				"(float32[3,4]@(4,1)) has it as float32"},
		{iter.Map2(func(a float32, b int32) float32 { return a }),
			"iter: the kernel (float32, int32) -> float32 has input 1 as int32, but the iteration " +
				"(float32[3,4]@(4,1)) has it as float32"},
		{iter.Map1(func(a float32) float32 { return a }),
			"iter: the kernel (float32) -> float32 has 1 results and 1 operands, but the iteration has 1 and 2"},
		{iter.Map2Out2(func(a, b float32) (float32, float32) { return a, b }),
			"iter: the kernel (float32, float32) -> (float32, float32) has 2 results and 2 operands, but the iteration has 1 " +
				"and 2"},
		{unset,
			"iter: the zero Kernel computes nothing"},
		{iter.Map2[float32, float32, float32](nil),
			"iter: the function of the kernel is nil"},
		{none,
			"iter: the Table is nil"},
		{nil,
			"iter: Prepare needs a kernel, but it is nil"},
		{iter.Map2(nop).Exchange(0, 2),
			"iter: Exchange: operands 0 and 2 do not both exist: the kernel has 2 operands"},
		{iter.Map2(nop).Ignoring(tensor.Bool).Ignoring(tensor.Bool).Ignoring(tensor.Bool),
			"iter: Ignoring: the kernel already has 4 operands, which is the limit"},
		{iter.Map2(nop).Ignoring(tensor.Invalid),
			"iter: Ignoring: dtype invalid of the operand is invalid"},
		{iter.WithCheck(iter.Map2(nop), 1, func([]int8) error { return nil }),
			"iter: WithCheck: the check wants int8 for operand 1, but the kernel takes float32"},
		{iter.WithCheck(iter.Map2(nop), 2, func([]float32) error { return nil }),
			"iter: WithCheck: operand 2 does not exist: the kernel has 2 operands"},
		{iter.NewTable("add", unset),
			"iter: kernel 0 of table \"add\" is the zero Kernel"},
		{iter.NewTable("neg", iter.Map1(func(a int8) int8 { return a }), iter.Map1(func(a int16) int16 { return a })),
			"iter: no kernel of \"neg\" has 1 results and 2 operands"},
		{iter.NewTable("add", iter.Map2(nop), iter.Map2(nop)),
			"iter: kernel 1 of table \"add\", (float32, float32) -> float32, can never be selected: an earlier kernel " +
				"accepts the same dtypes"},
	} {
		k, want := c.of, c.want
		out, err := it.Apply(k)
		assert.EqualError(t, err, want)
		assert.Nil(t, out)
	}
	sum := build(t, iter.Reduction(iter.OperandOfTensor(tensor.Zeros(tensor.Float32, 1, 4)),
		iter.OperandOfTensor(numbers(12, 3, 4))))
	_, err := sum.Apply(iter.Map1(func(a float32) float32 { return a }))
	assert.ErrorContains(t, err, "run it by a Fold")
	err = sum.Parallel(context.Background(), nil, 0, 0, mark)
	assert.ErrorContains(t, err, "run it by a Fold")
	_, err = build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfMeta(tensor.New(tensor.Float32, 2)))).Apply(
		iter.Map1(func(a float32) float32 {
			return a
		}))
	assert.EqualError(t, err, "iter: input 0, float32[2]@(1) has no data, because it was made by OperandOfMeta or "+
		"OperandOfType")
}

func TestTableChooses(t *testing.T) {
	second := func(_, b float32) float32 { return b }
	table := iter.NewTable("second", iter.Map2(func(_, b int32) int32 { return b }), iter.Map2(second),
		iter.Map2(func(_, b int32) bool { return b != 0 }))
	assert.Equal(t, "second", table.Name())
	assert.Len(t, table.Kernels(), 3)
	out, err := doubling(t, 2, 2).Apply(table)
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 1, 2, 3}, tensorSlice[float32](t, out[0]))

	of := func(d tensor.DType) iter.Operand { return iter.OperandOfTensor(tensor.Zeros(d, 2)) }
	for want, c := range map[string]iter.Config{
		"\"second\" not implemented for 'Half'": iter.Binary(iter.UndefinedOutput(), of(tensor.Float16), of(tensor.Int8)),
		"\"second\" not implemented for 'Bool'": iter.Binary(iter.UndefinedOutput(), of(tensor.Bool), of(tensor.Bool)),
		"\"second\" not implemented for 'ComplexDouble'": iter.Binary(iter.UndefinedOutput(), of(tensor.Complex128),
			of(tensor.Bool)).OpMath(true),
		"\"second\" not implemented for 'Char'": iter.New().CheckAllSameDType(false).
			Output(iter.UndefinedOutputOf(tensor.Int8)).
			Inputs(of(tensor.Int8), of(tensor.Float16)),
	} {
		_, err := build(t, c).Apply(table)
		assert.EqualError(t, err, want)
	}
	// Only the result does not fit: that is said, not that float32 is not implemented.
	_, err = build(t, iter.Comparison(iter.UndefinedOutput(), of(tensor.Float32), of(tensor.Float32))).Apply(table)
	assert.ErrorContains(t, err, "has output 0 as float32, but the iteration (bool[2]@(1)) has it as bool")
	_, err = build(t, iter.Comparison(iter.UndefinedOutput(), of(tensor.Int32), of(tensor.Int32))).Apply(table)
	assert.NoError(t, err)
	_, err = build(t, iter.Nullary(of(tensor.Float16))).Apply(iter.NewTable("fill", iter.Map0(func() float32 {
		return 1
	}), iter.Map0(func() int8 { return 1 })))
	assert.EqualError(t, err, "\"fill\" not implemented for 'Half'")
}

// Every form of kernel gets its operands in order and gives its results in order.
func TestAllForms(t *testing.T) {
	type o = []tensor.DType
	forms := []struct {
		mapped, sliced iter.Kernel
		out, in        o
	}{
		{iter.Map0(func() int8 { return 7 }), iter.Slice0(func(d []int8) { fill(d, 7) }), o{tensor.Int8}, nil},
		{iter.Map1(func(a int16) int8 {
			return int8(a + 1)
		}), iter.Slice1(func(d []int8, a []int16) { d[0] = int8(a[0] + 1) }), o{tensor.Int8}, o{tensor.Int16}},
		{iter.Map4(func(a int8, b int16, c int32, e int64) float32 {
			return float32(int64(a)*1000+int64(b)*100+int64(c)*10) + float32(e)
		}),
			iter.Slice4(func(d []float32, a []int8, b []int16, c []int32, e []int64) {
				d[0] = float32(int64(a[0])*1000+int64(b[0])*100+int64(c[0])*10) + float32(e[0])
			}), o{tensor.Float32}, o{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}},
		{iter.Map0Out2(func() (int8, int16) {
			return 3, 4
		}), iter.Slice0Out2(func(d []int8, e []int16) { fill(d, 3); fill(e, 4) }), o{tensor.Int8, tensor.Int16}, nil},
		{iter.Map3Out2(func(a int8, b int16, c int32) (int64, float64) { return int64(a) + int64(b), float64(c) }),
			iter.Slice3Out2(func(d []int64, r []float64, a []int8, b []int16, c []int32) {
				d[0], r[0] = int64(a[0])+int64(b[0]), float64(c[0])
			}),
			o{tensor.Int64, tensor.Float64}, o{tensor.Int8, tensor.Int16, tensor.Int32}},
		{iter.Map4Out2(func(a int8, b int16, c int32, e int64) (int64, bool) { return int64(a) + int64(b), int64(c) < e }),
			iter.Slice4Out2(func(d []int64, r []bool, a []int8, b []int16, c []int32, e []int64) {
				d[0], r[0] = int64(a[0])+int64(b[0]), int64(c[0]) < e[0]
			}), o{tensor.Int64, tensor.Bool}, o{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}},
		{iter.Map0Out3(func() (int8, int16, bool) {
			return 3, 4, true
		}), iter.Slice0Out3(func(d []int8, r []int16, s []bool) { fill(d, 3); fill(r, 4); fill(s, true) }),
			o{tensor.Int8, tensor.Int16, tensor.Bool}, nil},
		{iter.Map1Out3(func(a int16) (int8, int16, int32) { return 1, a, int32(a) * 2 }),
			iter.Slice1Out3(func(d []int8, r []int16, s []int32, a []int16) { d[0], r[0], s[0] = 1, a[0], int32(a[0])*2 }),
			o{tensor.Int8, tensor.Int16, tensor.Int32}, o{tensor.Int16}},
		{iter.Map2Out3(func(a int16, b float64) (int8, int16, float64) { return 1, a, b }),
			iter.Slice2Out3(func(d []int8, r []int16, s []float64, a []int16, b []float64) { d[0], r[0], s[0] = 1, a[0], b[0] }),
			o{tensor.Int8, tensor.Int16, tensor.Float64}, o{tensor.Int16, tensor.Float64}},
		{iter.Map3Out3(func(a int8, b int16, c int32) (int8, int16, int32) { return a, b, c }),
			iter.Slice3Out3(func(d []int8, r []int16, s []int32, a []int8, b []int16, c []int32) {
				d[0], r[0], s[0] = a[0], b[0], c[0]
			}),
			o{tensor.Int8, tensor.Int16, tensor.Int32}, o{tensor.Int8, tensor.Int16, tensor.Int32}},
		{iter.Map4Out3(func(a int8, b int16, c int32, e int64) (int8, int16, int64) { return a, b, int64(c) + e }),
			iter.Slice4Out3(func(d []int8, r []int16, s []int64, a []int8, b []int16, c []int32, e []int64) {
				d[0], r[0], s[0] = a[0], b[0], int64(c[0])+e[0]
			}), o{tensor.Int8, tensor.Int16, tensor.Int64}, o{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}},
	}
	for _, f := range forms {
		results := func(k iter.Kernel) (values []float64) {
			require.Equal(t, []tensor.DType(f.out), k.Results())
			require.Equal(t, append([]tensor.DType(nil), f.in...), k.Operands())
			c := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
			for _, d := range f.out {
				c = c.Output(iter.OperandOfTensor(tensor.Zeros(d, 1)))
			}
			for i, d := range f.in {
				x := tensor.Zeros(d, 1)
				x.Set(tensor.IntScalar(int64(i+2)), 0)
				c = c.Input(iter.OperandOfTensor(x))
			}
			out, err := build(t, c).Apply(k)
			require.NoError(t, err, "%v", k)
			for _, x := range out {
				values = append(values, x.At(0).Float())
			}
			return values
		}
		m := results(f.mapped)
		assert.NotContains(t, m, 0.0, "%v", f.mapped)
		assert.Equal(t, m, results(f.sliced), "%v", f.mapped)
	}
}

func fill[T any](d []T, v T) {
	for i := range d {
		d[i] = v
	}
}

func TestKernelVariations(t *testing.T) {
	sub := iter.Slice2(func(dst, a, b []float32) {
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	})
	x, y := numbers(4, 2, 2), tensor.Must(tensor.FromSlice([]float32{10, 20}, 2))
	it := build(t, iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(x), iter.OperandOfTensor(y)))
	for want, k := range map[float32]iter.Kernel{
		-17: sub, 17: sub.Exchange(0, 1), -3: iter.Map1(func(a float32) float32 { return -a }).Ignoring(tensor.Float32),
		20: iter.Slice2(func(d, _, b []uint32) { copy(d, b) }).Bits(),
	} {
		out, err := it.Apply(k)
		require.NoError(t, err)
		assert.Equal(t, want, tensorSlice[float32](t, out[0])[3])
	}
	_, err := it.Apply(iter.Slice2(func(d, _, b []uint64) { copy(d, b) }).Bits())
	assert.ErrorContains(t, err, "(uint64, uint64) -> uint64 by bits")
	boom := errors.New("boom")
	_, err = it.Apply(iter.WithCheck(sub, 1, func(b []float32) error {
		if b[0] == 10 {
			return boom
		}
		return nil
	}))
	assert.ErrorIs(t, err, boom)
}

// Options: any number of workers and any grain give the same bits; a context ends the run.
func TestApplyOptions(t *testing.T) {
	it := doubling(t, 301, 257)
	k := iter.Map2(func(a, b float32) float32 { return a*1.1 + b/3 })
	want, err := it.Apply(k, iter.Workers(1))
	require.NoError(t, err)
	for _, workers := range []int{-1, 0, 1, 2, 7} {
		for _, grain := range []int{-5, 0, 1000, min(1<<40, math.MaxInt)} {
			got, err := it.Apply(k, iter.Workers(workers), iter.Grain(grain), nil)
			require.NoError(t, err)
			require.Equal(t, want[0].Storage().Bytes(), got[0].Storage().Bytes())
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	_, err = it.Apply(k, iter.Context(ctx))
	assert.EqualError(t, err, "enough")
	var none context.Context
	_, err = it.Apply(k, iter.Context(none))
	assert.NoError(t, err)
}

func TestAllocateIsChecked(t *testing.T) {
	x := numbers(6, 2, 3)
	it := build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(x)))
	neg := iter.Map1(func(a float32) float32 { return -a })
	try := func(f iter.Allocator) error {
		_, err := it.Apply(neg, iter.Allocate(f))
		return err
	}
	give := func(y *tensor.Tensor) iter.Allocator {
		return func(int, tensor.Meta) (*tensor.Tensor, error) { return y, nil }
	}
	assert.ErrorContains(t, try(give(nil)), "allocated tensor: iter: the tensor for output 0 is "+
		"nil or has no storage")
	assert.ErrorContains(t, try(give(tensor.Zeros(tensor.Float64, 2, 3))), "iter: tensor float64[2,3]@(3,1) was "+
		"given for output 0, but the iteration was built for float32[2,3]@(3,1)")
	assert.ErrorContains(t, try(give(tensor.Zeros(tensor.Float32, 3, 2))), "but the iteration was built for")
	assert.EqualError(t, try(func(int, tensor.Meta) (*tensor.Tensor, error) { return nil, errors.New("full") }), "full")
	long := numbers(9, 9)
	part := func(at int) *tensor.Tensor {
		return tensor.Must(long.View(tensor.Meta{DType: tensor.Float32, Shape: []int{2, 3}, Strides: []int{3, 1},
			Offset: at}))
	}
	it = build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(part(0))))
	assert.ErrorContains(t, try(give(part(1))), "some elements of the input tensor and the written-to tensor")
	assert.NoError(t, try(give(part(0))), "in place")
	assert.Equal(t, -5.0, long.At(5).Float())
	two := build(t, iter.New().Output(iter.UndefinedOutput()).Output(iter.UndefinedOutput()).
		Input(iter.OperandOfTensor(x)))
	_, err := two.Apply(iter.Map1Out2(func(a float32) (float32, float32) { return a, a }), iter.Allocate(give(part(0))))
	assert.ErrorContains(t, err, "output 1 as allocated", "one tensor for two outputs")
}

// A panic of the caller's function reaches the caller, whichever goroutine it was on.
func TestPanicsOfKernelsReachTheCaller(t *testing.T) {
	x := tensor.Zeros(tensor.Int32, 1000)
	it := build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(x)))
	inverse := iter.Map1(func(a int32) int32 { return 1 / a })
	for _, workers := range []int{1, 4} {
		func() {
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok)
				assert.ErrorContains(t, err, "integer divide by zero")
				var division runtime.Error
				assert.ErrorAs(t, err, &division)
			}()
			_, _ = it.Apply(inverse, iter.Workers(workers), iter.Grain(10))
			t.Error("no panic")
		}()
	}
}

// A function that ends its goroutine, as t.FailNow does, ends the caller's: with results of
// which some were never computed it must not return as if nothing had happened.
func TestEndedGoroutines(t *testing.T) {
	for _, workers := range []int{1, 3} {
		it := build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfTensor(numbers(100, 100))))
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			_, _ = it.Apply(iter.Map1(func(float32) float32 {
				runtime.Goexit()
				return 0
			}), iter.Workers(workers), iter.Grain(10))
			returned = true
		}()
		<-ended
		assert.False(t, returned, "%d workers", workers)
	}
}
