package iter_test

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// cut cuts a walk in two, again and again, in order. along reports what became of reduced
// dimensions: the later part goes on from the earlier.
func cut(t *rapid.T, it *iter.Iterator, goesOn bool, depth int) []*iter.Iterator {
	walk := it.WalkShape()
	if depth == 0 || len(walk) == 0 {
		return whole(it, goesOn)
	}
	d := len(walk) - 1
	for d > 0 && walk[d] == 1 {
		d--
	}
	if walk[d] < 2 {
		return whole(it, goesOn)
	}
	half := rapid.IntRange(1, walk[d]-1).Draw(t, "half")
	reduced := it.WalkStrides(0)[d] == 0
	first, second := narrowed(t, it, d, 0, half), narrowed(t, it, d, half, walk[d]-half)
	return append(cut(t, first, goesOn, depth-1), cut(t, second, goesOn || reduced, depth-1)...)
}

func narrowed(t require.TestingT, it *iter.Iterator, dim, start, size int) *iter.Iterator {
	part, err := it.Narrow(dim, start, size)
	require.NoError(t, err)
	return part
}

func whole(it *iter.Iterator, goesOn bool) []*iter.Iterator {
	if goesOn {
		it = iter.Accumulating(it)
	}
	return []*iter.Iterator{it}
}

// reduceInto reduces an iteration or a part of it into given tensors.
func reduceInto(it *iter.Iterator, f *iter.Fold, ts ...*tensor.Tensor) error {
	ptrs := make([]unsafe.Pointer, len(ts))
	for i, x := range ts {
		ptrs[i] = x.Pointer()
	}
	return it.Reduce(context.Background(), ptrs, 2, f)
}

func assertSame(t require.TestingT, a, b *tensor.Tensor, mask []bool, shape []int) {
	eachOf(iter.ReduceShape(shape, mask, true), func(index []int) {
		require.Equal(t, a.At(index...).Complex(), b.At(index...).Complex(), "at %v", index)
	})
}

// A reduction in parts gives what the whole gives.
func TestReduceParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, mask := drawnReduction(t, tensor.Int32)
		_, a := drawnOutput(t, tensor.Int64, x.Shape, mask, true)
		b := tensor.Empty(a.Meta)
		it, err := iter.Reduction(iter.OperandOfTensor(a), iter.OperandOfTensor(x)).Build()
		require.NoError(t, err)
		require.NoError(t, reduceInto(it, intSum, a, x))
		for _, part := range cut(t, it, false, 3) {
			require.NoError(t, reduceInto(part, intSum, b, x))
		}
		assertSame(t, a, b, mask, x.Shape)
	})
}

// Parts know the positions of their elements in the whole.
func TestReducePartsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 4).Draw(t, "shape")
		mask := rapid.SliceOfN(rapid.Bool(), len(shape), len(shape)).Draw(t, "mask")
		x := filled(tensor.New(tensor.Float32, shape...))
		_, v := drawnOutput(t, tensor.Float32, shape, mask, true)
		_, p := drawnOutput(t, tensor.Int64, shape, mask, true)
		it, err := iter.New().Output(iter.OperandOfTensor(v)).Output(iter.OperandOfTensor(p)).Input(iter.OperandOfTensor(x)).
			IsReduction(true).ResizeOutputs(false).CheckMemOverlap(false).CheckAllSameDType(false).Build()
		require.NoError(t, err)
		require.NoError(t, reduceInto(it, maxFold(), v, p, x))
		w, q := tensor.Empty(v.Meta), tensor.Empty(p.Meta)
		for _, part := range cut(t, it, false, 3) {
			require.NoError(t, reduceInto(part, maxFold(), w, q, x))
		}
		assertSame(t, v, w, mask, shape)
		assertSame(t, p, q, mask, shape)
	})
}

// With another order of the reduced dimensions, or a hole in one, a part has no positions.
func TestReducePartWithoutPositions(t *testing.T) {
	x := tensor.New(tensor.Float32, 4, 5, 6)
	out := tensor.Meta{DType: tensor.Float32, Shape: []int{1, 5, 1}, Strides: []int{0, 1, 0}}
	first := iter.FoldOf(int64(-1), func(a int64, _ float32, at int) int64 { return max(a, int64(at)) },
		func(a, b int64) int64 { return max(a, b) }, func(a int64) float32 { return float32(a) }).InOrder()
	it := build(t, iter.Reduction(iter.OperandOfMeta(out), iter.OperandOfMeta(x)))
	require.Equal(t, []int{6, 4, 5}, it.WalkShape())
	_, err := narrowed(t, it, 1, 1, 2).Reducer(first)
	assert.NoError(t, err)
	_, err = narrowed(t, it, 0, 1, 2).Reducer(first)
	assert.EqualError(t, err, "iter: the part [2 4 5] of the walk [6 4 5] of input float32[4,5,6]@(30,6,1) has logical "+
		"positions with gaps")
	m := x
	m.Strides = []int{1, 24, 4}
	it = build(t, iter.Reduction(iter.OperandOfMeta(out), iter.OperandOfMeta(m)))
	_, err = it.Reducer(first)
	assert.NoError(t, err)
	_, err = narrowed(t, it, 1, 1, 2).Reducer(first)
	assert.ErrorContains(t, err, "in a part of the walk, the elements have no positions in row-major "+
		"order")
}

func TestReduceRefusals(t *testing.T) {
	in, out := iter.OperandOfMeta(tensor.New(tensor.Float32, 2, 3)), iter.OperandOfMeta(tensor.New(tensor.Float32, 2, 1))
	two := iter.New().IsReduction(true).ResizeOutputs(false).CheckAllSameDType(false)
	for want, c := range map[string]iter.Config{
		"iter: the iteration is not marked as " +
			"a reduction": iter.Unary(iter.UndefinedOutput(), in),
		"iter: a reduction takes one input, but the " +
			"iteration has 2": two.Output(out).Inputs(in, in),
		"iter: the fold has 1 results, but the iteration " +
			"has 2 outputs": two.Output(out).Output(out).Input(in),
		"iter: the fold takes float32, but the iteration reads input 0 " +
			"(float64[2,3]@(3,1)) as float64": iter.Reduction(out, iter.OperandOfMeta(tensor.New(tensor.Float64, 2, 3))),
		"iter: the fold takes float32, but the iteration reads input 0 " +
			"(int32[2,3]@(3,1)) as int32": iter.Reduction(out, iter.OperandOfMeta(tensor.New(tensor.Int32, 2, 3))),
		"result type Float can't be cast to the desired output type Int (output 0, " +
			"int32[2,1]@(1,1))": iter.Reduction(iter.OperandOfMeta(tensor.New(tensor.Int32, 2, 1)), in),
		"iter: output 0 of the reduction is undefined, or its shape is not the shape of the result; " +
			"pass a tensor of that shape and set " +
			"ResizeOutputs(false)": iter.Reduction(out, in).ResizeOutputs(true),
	} {
		_, err := build(t, c).Reducer(sumFold)
		assert.EqualError(t, err, want)
	}
	full := iter.OperandOfMeta(tensor.New(tensor.Int64, 2, 3))
	_, err := build(t, two.Output(out).Output(full).Input(in)).Reducer(maxFold())
	assert.EqualError(t, err, "iter: dimension 1 of shape [2, 3] is reduced in one output and kept in another: output "+
		"0, float32[2,1]@(1,1), and output 1, int64[2,3]@(3,1)")
	_, err = iter.Accumulating(build(t, iter.Reduction(out, in))).Reducer(sumFold)
	assert.EqualError(t, err, "iter: the iteration resumes from all its outputs, but the fold can resume from only 0 "+
		"of its 1 results")
	it := build(t, iter.Reduction(out, in))
	assert.EqualError(t, it.Reduce(context.Background(), nil, 1, sumFold),
		"iter: 0 addresses were given for a reduction with "+
			"1 outputs and one input")
	_, err = it.RunReduce(context.Background(), 1, sumFold)
	assert.EqualError(t, err, "iter: output 0, float32[2,1]@(1,1) has no data, because it was made by "+
		"OperandOfMeta or OperandOfType")
	_, err = sumFold.Over(tensor.Zeros(tensor.Float32, 2, 3), false, 1, -1)
	assert.EqualError(t, err, "dim 1 appears multiple times in the list of dims")

	for want, f := range map[string]*iter.Fold{
		"iter: accumulators of type string contain pointers, which is not permitted": iter.NewFold[float32]("", nil, nil,
			nil),
		"iter: the function takes accumulators of type int64, but the fold has accumulators of type " +
			"float64": iter.WithResult(sumFold,
			func([]float32, []int64) {}),
		"iter: the fold has results [float32], so it cannot resume from result 0 as int64": iter.Resumes(sumFold,
			func([]float64, []int64) {}),
		"iter: a function of the fold is nil":                           iter.FoldOf[float32, int64, int64](0, nil, nil, nil),
		"iter: the Fold is nil":                                         nil,
		"iter: the fold has 2 results, but the iteration has 1 outputs": maxFold(),
	} {
		_, err := it.Reducer(f)
		assert.EqualError(t, err, want)
		if f == nil || len(f.Out()) < 2 {
			_, err = f.Over(tensor.Zeros(tensor.Float32, 2, 3), false)
			assert.EqualError(t, err, want)
		}
	}
	assert.Equal(t, tensor.Float32, sumFold.In())
	assert.Equal(t, []tensor.DType{tensor.Float32, tensor.Int64}, maxFold().Out())
}

func TestReduceEndsWithContext(t *testing.T) {
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(boom)
	x, out := tensor.Zeros(tensor.Float32, 2, 3), tensor.Zeros(tensor.Float32, 2, 1)
	_, err := build(t, iter.Reduction(iter.OperandOfTensor(out), iter.OperandOfTensor(x))).RunReduce(ctx, 2, sumFold)
	assert.ErrorIs(t, err, boom)
}

// The dtype that inputs are cast to counts, not just the one that loops take.
func TestCastInputs(t *testing.T) {
	x := tensor.Must(tensor.FromSlice([]float64{1, 0x1p-9, 0.25}, 3))
	out := tensor.Zeros(tensor.Float32, 1)
	c := iter.Reduction(iter.OperandOfTensor(out), iter.OperandOfTensor(x))
	it := build(t, c.CastInputs(tensor.Float16))
	assert.Equal(t, tensor.Float16, it.DType(1))
	_, err := it.RunReduce(context.Background(), 1, sumFold)
	require.NoError(t, err)
	assert.Equal(t, 1.25+0x1p-9, out.At(0).Float())
	_, err = build(t, c.CastInputs(tensor.BFloat16).CastInputs(tensor.Int64)).RunReduce(context.Background(), 1, sumFold)
	assert.ErrorContains(t, err, "but the iteration reads input 0 (float64[3]@(1)) as int64")

	sum := build(t, iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(x),
		iter.NumberOperand(tensor.IntScalar(2))).CastInputs(tensor.Int64))
	got, err := sum.Apply(iter.Map2(func(a, b int64) int64 { return a + b }))
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 2, 2}, tensorSlice[int64](t, got[0]))
}

func tensorSlice[T tensor.Element](t *testing.T, x *tensor.Tensor) []T {
	v, err := tensor.ToSlice[T](x)
	require.NoError(t, err)
	return v
}

func TestResultType(t *testing.T) {
	of := func(d tensor.DType, shape ...int) iter.Operand { return iter.OperandOfMeta(tensor.New(d, shape...)) }
	for _, c := range []struct {
		want tensor.DType
		ops  []iter.Operand
	}{
		{tensor.Float16, []iter.Operand{of(tensor.Float16, 2), of(tensor.Float64)}},
		{tensor.Float32, []iter.Operand{of(tensor.Int32, 2), iter.NumberOperand(tensor.FloatScalar(2))}},
		{tensor.Uint8, []iter.Operand{of(tensor.Uint8, 2), iter.NumberOperand(tensor.IntScalar(300)),
			iter.UndefinedOutput()}},
		{tensor.Float64, []iter.Operand{of(tensor.Int64, 2), of(tensor.Float64)}},
		{tensor.Complex64, []iter.Operand{of(tensor.BFloat16, 2), of(tensor.Float16, 2),
			iter.NumberOperand(tensor.ComplexScalar(1i))}},
	} {
		got, err := iter.ResultType(c.ops...)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	_, err := iter.ResultType(iter.UndefinedOutput())
	assert.EqualError(t, err, "result_type: at least one operand must be defined")
}
