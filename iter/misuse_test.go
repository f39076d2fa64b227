package iter_test

import (
	"context"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

func TestBuildRefusesWhatDoesNotHoldTogether(t *testing.T) {
	x := numbers(6, 2, 3)
	out := iter.UndefinedOutput()
	far := &tensor.Tensor{}
	*far = *x
	far.Meta.Offset = 1
	bad := func(m tensor.Meta) iter.Operand { return iter.OperandOfMeta(m) }
	for _, c := range []struct {
		of   iter.Config
		want string
	}{
		{iter.Unary(out, iter.OperandOfTensor(nil)),
			"iter: input 0 is a nil tensor, or one without storage"},
		{iter.Unary(iter.OperandOfTensor(&tensor.Tensor{Meta: x.Meta}), iter.OperandOfTensor(x)),
			"iter: output 0 is a nil tensor, or one without storage"},
		{iter.Unary(out, iter.OperandOfTensor(far)),
			"iter: input 0, float32[2,3]@(3,1)+1 needs 28 bytes of storage and has 24"},
		{iter.Binary(out, iter.OperandOfTensor(x), iter.UndefinedOutput()),
			"iter: input 1 is undefined; only outputs may be"},
		{iter.Binary(out, iter.OperandOfTensor(x), iter.NumberOperand(tensor.Scalar{})),
			"iter: input 1 is an unset number"},
		{iter.Unary(iter.NumberOperand(tensor.IntScalar(1)), iter.OperandOfTensor(x)),
			"iter: output 0 is a plain number, which cannot be written"},
		{iter.Unary(out, iter.OperandOfTensor(x)).Output(out),
			"iter: output 1 was added after 1 inputs: outputs must be added first"},
		{iter.Unary(out, iter.OperandOfMeta(tensor.Meta{Shape: []int{2}, Strides: []int{1}})),
			"iter: input 0: it has no dtype"},
		{iter.Unary(iter.UndefinedOutputOf(99), iter.OperandOfTensor(x)),
			"iter: output 0: invalid dtype dtype(99)"},
		{iter.Unary(out, iter.OperandOfTensor(x)).CastInputs(99),
			"iter: StaticDType or CastInputs was called with the invalid dtype dtype(99)"},
		{iter.Unary(out, bad(tensor.Meta{DType: tensor.Int8, Shape: []int{2}, Strides: []int{-1}})),
			"iter: input 0: negative stride -1 of dimension 0"},
		{iter.Unary(out, bad(tensor.Meta{DType: tensor.Int8, Shape: []int{-2}, Strides: []int{1}})),
			"iter: input 0: negative size -2 of dimension 0"},
		{iter.Nullary(iter.UndefinedOutputOf(tensor.Int8)).StaticShape(-1),
			"iter: negative size -1 of dimension 0 of shape [-1]"},
		{iter.Nullary(iter.UndefinedOutputOf(tensor.Int8)).StaticShape(min(1<<40, math.MaxInt), min(1<<40, math.MaxInt)),
			"iter: shape [1099511627776, 1099511627776] has more than 2^47 elements"},
		{iter.New().Output(out),
			"output 0, whose dtype is given neither by an input nor by UndefinedOutputOf or StaticDType: it has no dtype"},
	} {
		_, err := c.of.Build()
		assert.EqualError(t, err, c.want)
	}
	_, err := iter.Unary(out, bad(tensor.Meta{DType: tensor.Int8, Shape: []int{2}})).Build()
	assert.ErrorContains(t, err, "iter: input 0: mismatch in length of strides and shape")
	_, err = iter.Unary(out, bad(tensor.Meta{DType: tensor.Int8, Offset: -1})).Build()
	assert.ErrorContains(t, err, "iter: input 0: negative offset -1")
}

// The raw walks cannot see types; what they can see is an error.
func TestRawWalksCheckWhatTheyCan(t *testing.T) {
	x := tensor.Zeros(tensor.Uint8, 6)
	it := build(t, iter.Nullary(iter.OperandOfTensor(x)))
	ptrs, err := it.Bind(x)
	require.NoError(t, err)
	ctx := context.Background()
	p, err := it.Prepare(iter.Map0(func() uint8 { return 1 }))
	require.NoError(t, err)
	var c iter.Cursor
	for want, got := range map[string][]error{
		"iter: 0 addresses were given for 1 operands": {it.ForEach(nil, mark), it.Parallel(ctx, nil, 0, 0, mark),
			p.Parallel(ctx, nil, 0, 0), p.RunRange(&c, nil, it.All())},
		"iter: the address of output 0, uint8[6]@(1) is nil": {it.ForEach([]unsafe.Pointer{nil}, mark),
			p.RunRange(&c, []unsafe.Pointer{nil}, it.All())},
		"iter: the range [3, 7) exceeds the iteration, which has 6 elements": {
			it.ForRange(&c, ptrs, iter.Range{Begin: 3, End: 7}, mark), p.RunRange(&c, ptrs, iter.Range{Begin: 3, End: 7})},
		"iter: the range [-1, 2) exceeds the iteration, which has 6 elements": {it.ForRange(&c, ptrs, iter.Range{Begin: -1,
			End: 2}, mark)},
		"iter: the range [4, 2) exceeds the iteration, which has 6 elements": {it.ForRange(&c, ptrs, iter.Range{Begin: 4,
			End: 2}, mark)},
		"iter: the Loop is nil": {it.ForEach(ptrs, nil), it.Parallel(ctx, ptrs, 0, 0, nil),
			it.ForEach(ptrs, iter.Rows(nil))},
		"iter: a Prepared must be made by Prepare": {iter.Prepared{}.RunRange(&c, ptrs, it.All()),
			iter.Prepared{}.Parallel(ctx, ptrs, 0, 0)},
	} {
		for i, err := range got {
			assert.EqualError(t, err, want, "%d", i)
		}
	}
	assert.Equal(t, make([]byte, 6), x.Storage().Bytes(), "nothing was written")
	assert.NoError(t, it.ForRange(nil, ptrs, it.All(), mark), "a nil cursor stands for a fresh one")
	assert.NoError(t, p.RunRange(nil, ptrs, it.All()))
	var none context.Context
	assert.NoError(t, it.Parallel(none, ptrs, -1, -1, mark))
	_, err = it.Bind(x, x)
	assert.EqualError(t, err, "iter: 2 tensors were given for 1 operands")
	_, err = it.Bind(nil)
	assert.EqualError(t, err, "iter: the tensor for output 0 is nil or has no storage")
	short := &tensor.Tensor{}
	*short = *tensor.Zeros(tensor.Uint8, 6)
	short.Meta.Offset = 3
	_, err = it.Bind(short)
	assert.EqualError(t, err, "iter: tensor uint8[6]@(1)+3 for output 0 exceeds its storage of 6 bytes")
}

// Tensors that are bound to borrowed operands must not overlap either.
func TestBindChecksOverlap(t *testing.T) {
	m := tensor.New(tensor.Float32, 4)
	it := build(t, iter.Unary(iter.OperandOfMeta(m), iter.OperandOfMeta(m)))
	x := numbers(5, 5)
	part := func(at int) *tensor.Tensor {
		return tensor.Must(x.View(tensor.Meta{DType: tensor.Float32, Shape: []int{4}, Strides: []int{1}, Offset: at}))
	}
	_, err := it.Bind(part(0), part(1))
	assert.ErrorContains(t, err, "some elements of the input tensor and the written-to tensor")
	_, err = it.Bind(part(1), part(1))
	assert.NoError(t, err)
	free := build(t, iter.Unary(iter.OperandOfMeta(m), iter.OperandOfMeta(m)).CheckMemOverlap(false))
	_, err = free.Bind(part(0), part(1))
	assert.NoError(t, err)
}

func TestNilIterator(t *testing.T) {
	var it *iter.Iterator
	nop := iter.Map0(func() int8 { return 0 })
	_, apply := it.Apply(nop)
	_, prepare := it.Prepare(nop)
	_, tensors := it.Tensors()
	_, bind := it.Bind()
	_, reducer := it.Reducer(sumFold)
	_, reduce := it.RunReduce(context.Background(), 0, sumFold)
	_, narrow := it.Narrow(0, 0, 1)
	_, all := it.SelectAll(0, nil)
	_, remove := it.RemoveOperand(0)
	_, table := iter.NewTable("t", nop).For(nil)
	for i, err := range []error{apply, prepare, tensors, bind, reducer, reduce, narrow, all, remove, table,
		it.ForEach(nil, mark), it.ForRange(nil, nil, iter.Range{}, mark),
		it.Parallel(context.Background(), nil, 0, 0, mark)} {
		assert.EqualError(t, err, "iter: the Iterator is nil", "%d", i)
	}
	assert.Equal(t, "iter: the Iterator is nil", it.Explain())
}

// Accessors panic with the number of the operand and how many there are.
func TestAccessorsPanicWithIndexAndLength(t *testing.T) {
	it := doubling(t, 2, 3)
	for _, i := range []int{-1, 3, math.MaxInt} {
		for name, f := range map[string]func(){
			"DType": func() { it.DType(i) }, "Meta": func() { it.Meta(i) },
			"Resized": func() { it.Resized(i) }, "WalkStrides": func() { it.WalkStrides(i) },
		} {
			assert.Panics(t, f, "%s(%d)", name, i)
		}
	}
	assert.PanicsWithValue(t, "iter: operand 3 does not exist: the iteration has 3 operands", func() { it.WalkStrides(3) })
	assert.PanicsWithValue(t, "iter: the iteration has no output", func() {
		build(t, iter.New().Input(iter.OperandOfMeta(tensor.New(tensor.Int8)))).Output()
	})
	assert.PanicsWithValue(t, "iter: task 2 does not exist: the iteration has 2 tasks of 4 elements", func() {
		it.Chunk(2,
			4)
	})
	assert.Panics(t, func() { it.Chunk(-1, 4) })
	assert.Panics(t, func() { it.Chunk(math.MaxInt, math.MaxInt) })
	assert.Equal(t, iter.Range{Begin: 0, End: 6}, it.Chunk(0, math.MaxInt))
	assert.Equal(t, 1, it.Chunks(0), "no grain means GrainSize")
	assert.Equal(t, iter.Range{Begin: 0, End: 6}, it.Chunk(0, -3))
	assert.Equal(t, "FastSetup(9)", iter.FastSetup(9).String())
	assert.Empty(t, it.Steps(iter.Range{Begin: 7, End: 100}))
	assert.Equal(t, it.Steps(it.All()), it.Steps(iter.Range{Begin: -5, End: math.MaxInt}))
	empty := doubling(t, 0, 3)
	assert.Empty(t, empty.Steps(iter.Range{Begin: 0, End: 10}))
	assert.Equal(t, 0, empty.Chunks(5))
}

func TestReducerRunChecksWhatItCan(t *testing.T) {
	x, out := numbers(6, 2, 3), tensor.Zeros(tensor.Float32, 2, 1)
	it := build(t, iter.Reduction(iter.OperandOfTensor(out), iter.OperandOfTensor(x)))
	r, err := it.Reducer(sumFold)
	require.NoError(t, err)
	ptrs, err := it.Bind(out, x)
	require.NoError(t, err)
	scratch, worker := make([]byte, r.Scratch()), tensor.NewStorage(r.WorkerScratch()).Bytes()
	assert.NoError(t, r.Run(0, 0, ptrs, scratch, worker))
	assert.Equal(t, 12.0, out.At(1, 0).Float())
	for _, err := range []error{
		r.Run(1, 0, ptrs, scratch, worker), r.Run(-1, 0, ptrs, scratch, worker), r.Run(0, 1, ptrs, scratch, worker),
		r.Run(0, -1, ptrs, scratch, worker), r.Run(0, 0, ptrs[:1], scratch, worker), r.Run(0, 0, ptrs, scratch, worker[:1]),
		r.Run(0, 0, make([]unsafe.Pointer, 2), scratch, worker), (*iter.Reducer)(nil).Run(0, 0, ptrs, scratch, worker),
		new(iter.Reducer).Run(0, 0, ptrs, scratch, worker),
	} {
		assert.Error(t, err)
	}
}

// has_contiguous_first_dim looks at memory, not at what loops see.
func TestHasContiguousFirstDim(t *testing.T) {
	x := numbers(12, 3, 4)
	m, err := x.Transpose(0, 1)
	require.NoError(t, err)
	transposed, wide := iter.OperandOfMeta(m), iter.OperandOfMeta(tensor.New(tensor.Float64, 3, 4))
	assert.True(t, doubling(t, 3, 4).HasContiguousFirstDim())
	assert.True(t, build(t, iter.Unary(iter.UndefinedOutput(), transposed)).HasContiguousFirstDim())
	assert.False(t, build(t, iter.Copy(iter.OperandOfMeta(tensor.New(tensor.Float32, 4, 3)),
		transposed)).HasContiguousFirstDim())
	mixed := build(t, iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(x), wide))
	assert.True(t, mixed.HasContiguousFirstDim(), "each by its own size")
	single := build(t, iter.Unary(iter.UndefinedOutput(), iter.OperandOfMeta(tensor.New(tensor.Int8))))
	assert.True(t, single.HasContiguousFirstDim(), "no dimension")
	number := build(t, iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(x),
		iter.NumberOperand(tensor.IntScalar(1))))
	assert.False(t, number.HasContiguousFirstDim())
}

// A one-dimensional loop, made a Loop by Rows, sees every element once.
func TestRows(t *testing.T) {
	x := tensor.Empty(tensor.Meta{DType: tensor.Uint8, Shape: []int{4, 3, 5}, Strides: []int{60, 20, 2}})
	it := build(t, iter.Nullary(iter.OperandOfTensor(x)))
	ptrs, err := it.Bind(x)
	require.NoError(t, err)
	require.NoError(t, it.ForEach(ptrs, iter.Rows(func(p []unsafe.Pointer, st []int, n int) error {
		require.Len(t, st, 1)
		for i := range n {
			*(*uint8)(unsafe.Add(p[0], i*st[0]))++
		}
		return nil
	})))
	for _, v := range tensorSlice[uint8](t, x) {
		require.EqualValues(t, 1, v)
	}
}
