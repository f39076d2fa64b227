package iter_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		a, b, want []string
		err        string
	}{
		{[]string{"N", "C"}, []string{"N", "C"}, []string{"N", "C"}, ""},
		{[]string{"N", "C"}, []string{"C"}, []string{"N", "C"}, ""},
		{[]string{"N", ""}, []string{"C"}, []string{"N", "C"}, ""},
		{[]string{"A", "B", "C"}, []string{"B", ""}, []string{"A", "B", "C"}, ""},
		{[]string{"N", "C"}, []string{"C", "N"}, nil, "Error when attempting to broadcast dims ['N', 'C'] and dims ['C', " +
			"'N']: dim 'C' and dim 'N' are at the same position from the right but do not match."},
		{[]string{"", "C"}, []string{"C", ""}, nil, "Misaligned dims when attempting to broadcast dims [None, 'C'] and " +
			"dims ['C', None]: dim 'C' appears in a different position from the right across both lists."},
		{[]string{"A", ""}, []string{"A"}, nil, "Misaligned dims when attempting to broadcast dims ['A'] and dims ['A', " +
			"None]: dim 'A' appears in a different position from the right across both lists."},
	} {
		two := func(n int) tensor.Meta {
			s := make([]int, n)
			for i := range s {
				s[i] = 2
			}
			return tensor.New(tensor.Float32, s...)
		}
		it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(two(len(c.a))).Named(c.a...),
			iter.OperandOfMeta(two(len(c.b))).Named(c.b...)).Build()
		if c.err != "" {
			assert.EqualError(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, it.Names())
	}
	m := tensor.New(tensor.Float32, 2, 2)
	_, err := iter.Binary(iter.OperandOfMeta(m).Named("N", "D"), iter.OperandOfMeta(m).Named("N", "C"),
		iter.OperandOfMeta(m)).Build()
	assert.EqualError(t, err, "Name mismatch: specified out tensor with names ['N', 'D'] are not the same as the "+
		"computed output names ['N', 'C']. Please rename the out tensor's dims with `Tensor.rename`.")
}

// mark counts visits of the elements of its operand.
func mark(p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
	for j := range rowCount {
		for i := range rowLen {
			*(*uint8)(unsafe.Add(p[0], i*st[0]+j*st[len(p)]))++
		}
	}
	return nil
}

func TestNarrowWalksAPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape")
		m := anyMeta(t, tensor.Uint8, shape)
		x := tensor.Empty(m)
		it, err := iter.Nullary(iter.OperandOfTensor(x)).Build()
		require.NoError(t, err)
		walk := it.WalkShape()
		dim := rapid.IntRange(0, len(walk)-1).Draw(t, "dim")
		cut := rapid.IntRange(0, walk[dim]).Draw(t, "cut")
		ptrs, err := it.Bind(x)
		require.NoError(t, err)
		total := 0
		for _, r := range [][2]int{{0, cut}, {cut, walk[dim] - cut}} {
			if r[1] > 0 {
				part := narrowed(t, it, dim, r[0], r[1])
				total += part.Numel()
				require.NoError(t, part.ForEach(ptrs, mark))
			}
		}
		assert.Equal(t, it.Numel(), total)
		got, _ := tensor.ToSlice[uint8](x)
		for _, v := range got {
			assert.EqualValues(t, 1, v)
		}
	})
}

func TestSelectAllAndRemoveOperand(t *testing.T) {
	m := tensor.Meta{DType: tensor.Uint8, Shape: []int{3, 4, 5}, Strides: []int{60, 10, 1}}
	x, y := tensor.Empty(m), tensor.Zeros(tensor.Uint8, 3, 4, 5)
	it, err := iter.Copy(iter.OperandOfTensor(x), iter.OperandOfTensor(y)).Build()
	require.NoError(t, err)
	require.Equal(t, []int{5, 4, 3}, it.WalkShape())
	only, err := it.RemoveOperand(1)
	require.NoError(t, err)
	assert.Equal(t, 1, only.Len())
	row, err := only.SelectAll(1, []int{2, 1})
	require.NoError(t, err)
	assert.Equal(t, 5, row.Numel())
	ptrs, _ := it.Bind(x, y)
	require.NoError(t, row.ForEach(ptrs[:1], mark))
	for i := range 3 {
		for j := range 4 {
			want := 0
			if i == 1 && j == 2 {
				want = 1
			}
			assert.EqualValues(t, want, x.At(i, j, 0).Int())
			assert.EqualValues(t, want, x.At(i, j, 4).Int())
		}
	}
	_, err = only.Narrow(0, 4, 2)
	assert.EqualError(t, err, "iter: Narrow(0, 4, 2): the range exceeds dimension 0 of the walk [5 4 3]")
	_, err = only.Narrow(3, 0, 1)
	assert.EqualError(t, err, "iter: Narrow(3, 0, 1): dimension 3 does not exist in the walk [5 4 3]")
	_, err = only.Narrow(0, 1, 0)
	assert.EqualError(t, err, "iter: Narrow(0, 1, 0): the size is less than 1")
	_, err = only.Narrow(0, 1, math.MaxInt)
	assert.Error(t, err)
	_, err = only.SelectAll(-1, []int{0})
	assert.EqualError(t, err, "iter: SelectAll(-1, [0]): there is no dimension -1 in the walk [5 4 3]")
	_, err = only.SelectAll(1, []int{4})
	assert.EqualError(t, err, "iter: SelectAll(1, [4]): index 4 is out of range for dimension 1 of the walk [5 4 3]")
	_, err = only.RemoveOperand(1)
	assert.EqualError(t, err, "iter: RemoveOperand(1): the iteration has 1 operands")
}

// Only metas are needed to see how a huge iteration is cut.
func TestSplit32(t *testing.T) {
	m := tensor.New(tensor.Float32, 3, 1<<30)
	it, err := iter.Copy(iter.OperandOfMeta(m), iter.OperandOfMeta(m)).Build()
	require.NoError(t, err)
	assert.False(t, it.CanUse32Bit())
	total := 0
	for _, part := range it.Split32() {
		assert.True(t, part.CanUse32Bit())
		assert.True(t, part.IsFinal())
		assert.False(t, part.Accumulates())
		total += part.Numel()
	}
	assert.Equal(t, it.Numel(), total)

	out := tensor.Meta{DType: tensor.Float32, Shape: []int{3, 1 << 30}, Strides: []int{1, 0}}
	reduced, err := iter.Reduction(iter.OperandOfMeta(out),
		iter.OperandOfMeta(m)).Build()
	require.NoError(t, err)
	final, accumulating := 0, 0
	for _, part := range reduced.Split32() {
		if part.IsFinal() {
			final++
		}
		if part.Accumulates() {
			accumulating++
		}
	}
	assert.Positive(t, final)
	assert.Positive(t, accumulating)
}

func TestParallel(t *testing.T) {
	m := tensor.Meta{DType: tensor.Uint8, Shape: []int{30, 40, 50}, Strides: []int{8000, 100, 1}}
	for _, workers := range []int{1, 2, 7} {
		x := tensor.Empty(m)
		it, err := iter.Nullary(iter.OperandOfTensor(x)).Build()
		require.NoError(t, err)
		ptrs, _ := it.Bind(x)
		require.NoError(t, it.Parallel(context.Background(), ptrs, 777, workers, mark))
		got, _ := tensor.ToSlice[uint8](x)
		for _, v := range got {
			require.EqualValues(t, 1, v)
		}
	}
	it, err := iter.Nullary(iter.OperandOfMeta(m)).Build()
	require.NoError(t, err)
	boom := errors.New("boom")
	ptrs := []unsafe.Pointer{tensor.Empty(m).Pointer()}
	assert.ErrorIs(t, it.Parallel(context.Background(), ptrs, 100, 4, func([]unsafe.Pointer, []int, int, int) error {
		return boom
	}), boom)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(boom)
	assert.ErrorIs(t, it.Parallel(ctx, ptrs, 100, 4, mark), boom)
}
