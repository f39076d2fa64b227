package iter_test

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// copied returns a tensor of the same layout and bytes in storage of its own.
func copied(x *tensor.Tensor) *tensor.Tensor {
	c := tensor.Empty(x.Meta)
	copy(c.Storage().Bytes(), x.Storage().Bytes())
	return c
}

// addition is a+b in the promoted dtype, into an output of some kind; a nil out is laid out
// by the iterator, a itself makes it in-place.
type addition struct {
	a, b, out *tensor.Tensor
}

// drawnAddition draws layouts, dtypes and the kind of the output: none, a given one of any
// layout, one of another dtype, or the left operand.
func drawnAddition(t *rapid.T) addition {
	dts := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8, tensor.Float16, tensor.BFloat16}
	shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 5, 17, 40}), 0, 4).Draw(t, "shape")
	for tensor.Numel(shape) > 5000 {
		shape = shape[1:]
	}
	kind := rapid.SampledFrom([]string{"none", "given", "cast", "in-place"}).Draw(t, "output")
	var c addition
	da, db := rapid.SampledFrom(dts).Draw(t, "a"), rapid.SampledFrom(dts).Draw(t, "b")
	if kind == "in-place" {
		// What is promoted must fit back.
		c.a, c.b = filled(anyMeta(t, da, shape)), filled(anyMeta(t, da, broadcastable(t, shape)))
		c.out = c.a
		return c
	}
	c.a, c.b = filled(anyMeta(t, da, broadcastable(t, shape))), filled(anyMeta(t, db, broadcastable(t, shape)))
	if kind == "none" {
		return c
	}
	common, err := iter.ResultType(iter.OperandOfTensor(c.a), iter.OperandOfTensor(c.b))
	require.NoError(t, err)
	d := common
	if kind == "cast" {
		d = rapid.SampledFrom(slices.DeleteFunc(dts, func(d tensor.DType) bool {
			return !tensor.CanCast(common, d)
		})).Draw(t, "out")
	}
	full, err := tensor.Broadcast(c.a.Shape, c.b.Shape)
	require.NoError(t, err)
	c.out = filled(anyMeta(t, d, full))
	return c
}

// run computes the addition on copies of the operands and returns the output.
func (c addition) run(t *rapid.T, walk func(it *iter.Iterator, ptrs []unsafe.Pointer) error) *tensor.Tensor {
	a, b := copied(c.a), copied(c.b)
	out := iter.UndefinedOutput()
	if c.out == c.a {
		out = iter.OperandOfTensor(a)
	} else if c.out != nil {
		out = iter.OperandOfTensor(copied(c.out))
	}
	it, err := iter.Binary(out, iter.OperandOfTensor(a), iter.OperandOfTensor(b)).OpMath(true).Build()
	require.NoError(t, err)
	ts, err := it.Tensors()
	require.NoError(t, err)
	ptrs, err := it.Bind(ts...)
	require.NoError(t, err)
	require.NoError(t, walk(it, ptrs))
	return ts[0]
}

// check compares an output with a nested loop over the operands, and what is between
// its elements with what was there.
func (c addition) check(t *rapid.T, got *tensor.Tensor) {
	a, err := c.a.Expanded(got.Shape)
	require.NoError(t, err)
	b, err := c.b.Expanded(got.Shape)
	require.NoError(t, err)
	eachOf(got.Shape, func(index []int) {
		require.Equal(t, a.At(index...).Float()+b.At(index...).Float(), got.At(index...).Float(), "at %v", index)
	})
	if c.out == nil {
		return
	}
	before, after := copied(c.out), copied(got)
	for _, x := range []*tensor.Tensor{before, after} {
		eachOf(x.Shape, func(index []int) { x.Set(tensor.IntScalar(0), index...) })
	}
	require.Equal(t, before.Storage().Bytes(), after.Storage().Bytes(), "beside the output")
}

// adders returns the addition as a body and as a loop over the dtype that loops see.
func adders(d tensor.DType) (iter.Kernel, iter.Loop) {
	switch d {
	case tensor.Uint8:
		return addersOf[uint8]()
	case tensor.Int32:
		return addersOf[int32]()
	case tensor.Float32:
		return addersOf[float32]()
	}
	return addersOf[float64]()
}

func addersOf[T uint8 | int32 | float32 | float64]() (iter.Kernel, iter.Loop) {
	return iter.Map2(func(a, b T) T { return a + b }), func(p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
		for k := range rowLen * rowCount {
			i, j := k%rowLen, k/rowLen
			a := *(*T)(unsafe.Add(p[1], i*st[1]+j*st[4]))
			b := *(*T)(unsafe.Add(p[2], i*st[2]+j*st[5]))
			*(*T)(unsafe.Add(p[0], i*st[0]+j*st[3])) = a + b
		}
		return nil
	}
}

// Walking touches exactly the elements that a nested loop touches, in the same pairs, for
// outputs of every kind; cutting it anywhere, in any order, and walking it on any number of
// goroutines changes nothing.
func TestWalkOutputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawnAddition(t)
		grain := rapid.IntRange(1, 300).Draw(t, "grain")
		backwards := rapid.Bool().Draw(t, "backwards")
		pieces := func(it *iter.Iterator, f func(r iter.Range) error) error {
			for i := range it.Chunks(grain) {
				if backwards {
					i = it.Chunks(grain) - 1 - i
				}
				if err := f(it.Chunk(i, grain)); err != nil {
					return err
				}
			}
			return nil
		}
		var cur iter.Cursor
		walks := []func(it *iter.Iterator, ptrs []unsafe.Pointer) error{
			func(it *iter.Iterator, ptrs []unsafe.Pointer) error {
				_, loop := adders(it.DType(0))
				return it.ForEach(ptrs, loop)
			},
			func(it *iter.Iterator, ptrs []unsafe.Pointer) error {
				_, loop := adders(it.DType(0))
				return pieces(it, func(r iter.Range) error { return it.ForRange(&cur, ptrs, r, loop) })
			},
			func(it *iter.Iterator, ptrs []unsafe.Pointer) error {
				body, _ := adders(it.DType(0))
				return pieces(it, func(r iter.Range) error { return prepared(t, it, body).RunRange(&cur, ptrs, r) })
			},
		}
		for _, workers := range []int{1, 2, 7} {
			walks = append(walks, func(it *iter.Iterator, ptrs []unsafe.Pointer) error {
				body, loop := adders(it.DType(0))
				if backwards {
					return prepared(t, it, body).Parallel(context.Background(), ptrs, grain, workers)
				}
				return it.Parallel(context.Background(), ptrs, grain, workers, loop)
			})
		}
		first := c.run(t, walks[0])
		c.check(t, first)
		for i, walk := range walks[1:] {
			require.Equal(t, first.Storage().Bytes(), c.run(t, walk).Storage().Bytes(), "walk %d", i+1)
		}
	})
}

// A row of one repeated element comes back after the block it was in was used for others.
func TestRepeatedRowsComeBack(t *testing.T) {
	a, b := filled(tensor.New(tensor.Int32, 4, 3, 5)), filled(tensor.New(tensor.Float32, 3, 1))
	it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a),
		iter.OperandOfTensor(b)).EnforceLinearIteration(true).Build()
	require.NoError(t, err)
	body, _ := adders(tensor.Float32)
	var cur iter.Cursor
	for k := range it.Numel() * it.Numel() {
		r := iter.Range{Begin: k % it.Numel(), End: k/it.Numel() + 1}
		if r.Begin > r.End {
			continue
		}
		ts, err := it.Tensors()
		require.NoError(t, err)
		ptrs, err := it.Bind(ts...)
		require.NoError(t, err)
		require.NoError(t, prepared(t, it, body).RunRange(&cur, ptrs, r))
		at := 0
		eachOf(a.Shape, func(index []int) {
			if at >= r.Begin && at < r.End {
				require.Equal(t, a.At(index...).Float()+b.At(index[1], 0).Float(), ts[0].At(index...).Float(), "%v at %v", r, index)
			}
			at++
		})
	}
}

// TestOutputsAreRounded gives a sum of float16 wider outputs. PyTorch writes to a temporary
// of the promoted dtype first, so that what arrives is rounded to it: 0.1+0.0001 is
// 0.10009765625 there, though loops compute in float32.
func TestOutputsAreRounded(t *testing.T) {
	half := func(values ...float64) *tensor.Tensor {
		x := tensor.Zeros(tensor.Float16, len(values))
		for i, v := range values {
			x.Set(tensor.FloatScalar(v), i)
		}
		return x
	}
	a, b := half(0.1, 1.0009765625, 3.3), half(0.0001, 0.00033, 0.7)
	want := []float64{0.10009765625, 1.0009765625, 4.0}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Complex64} {
		out := tensor.Zeros(d, 3)
		it, err := iter.Binary(iter.OperandOfTensor(out), iter.OperandOfTensor(a),
			iter.OperandOfTensor(b)).OpMath(true).Build()
		if err != nil {
			t.Fatal(err)
		}
		if it.Cast(0) != tensor.Float16 {
			t.Errorf("%v: the output is converted by way of %v", d, it.Cast(0))
		}
		if _, err := it.Apply(iter.Map2(func(a, b float32) float32 { return a + b })); err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if got := out.At(i).Complex(); got != complex(w, 0) {
				t.Errorf("%v: element %d is %v, want %v", d, i, got, w)
			}
		}
	}
}
