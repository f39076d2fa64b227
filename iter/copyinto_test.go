package iter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

func ExampleCopyInto() {
	x := numbers(6, 2, 3)
	m, _ := x.Transpose(0, 1)
	out := tensor.Zeros(tensor.Int64, 2, 3, 2)
	err := iter.CopyInto(context.Background(), out, tensor.Must(x.View(m)), 0)
	fmt.Println(err)
	fmt.Println(tensor.ToSlice[int64](out))
	fmt.Println(iter.CopyInto(context.Background(), x, out, 0))
	// Output:
	// <nil>
	// [0 3 1 4 2 5 0 3 1 4 2 5] <nil>
	// The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 2
}

// A copy is what an element by element copy of the broadcast source gives, for all dtypes,
// layouts and numbers of workers, and touches nothing beside the destination.
func TestCopyIntoIsElementwise(t *testing.T) {
	testsize.Long(t)
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 3, 5, 33, 130}), 0, 3).Draw(t, "shape")
		to := rapid.SampledFrom(tensor.DTypes()).Draw(t, "to")
		from := rapid.SampledFrom(tensor.DTypes()).Draw(t, "from")
		src := filled(anyMeta(t, from, broadcastable(t, shape)))
		wide, err := src.Expanded(shape)
		require.NoError(t, err)
		m := anyMeta(t, to, shape)
		if iter.InternalOverlap(m) != iter.OverlapNo {
			m = tensor.New(to, shape...)
		}
		want := tensor.Empty(m)
		tensor.CopyElements(want, wide)
		for _, workers := range []int{0, 1, 2, 7} {
			got := tensor.Empty(m)
			require.NoError(t, iter.CopyInto(context.Background(), got, src, workers))
			require.Equal(t, want.Storage().Bytes(), got.Storage().Bytes(), "%v from %v", m, src.Meta)
		}
	})
}

// Transposes are cut into tiles; large ones run over all kinds of edges.
func TestCopyIntoTransposes(t *testing.T) {
	testsize.Long(t)
	for _, d := range []tensor.DType{tensor.Bool, tensor.Float16, tensor.Float32, tensor.Int64, tensor.Complex128} {
		src := filled(tensor.New(d, 3, 257, 300))
		m, err := src.Transpose(1, 2)
		require.NoError(t, err)
		transposed := tensor.Must(src.View(m))
		want := tensor.Zeros(d, m.Shape...)
		tensor.CopyElements(want, transposed)
		for _, workers := range []int{1, 3} {
			got := tensor.Zeros(d, m.Shape...)
			require.NoError(t, iter.CopyInto(context.Background(), got, transposed, workers))
			require.Equal(t, want.Storage().Bytes(), got.Storage().Bytes(), d)
		}
	}
}

// What PyTorch says of x.copy_(y) over one storage, CopyInto says, and what it accepts it
// copies without damage.
func TestCopyIntoOverlapAsPyTorch(t *testing.T) {
	testsize.Long(t)
	refused, copied := 0, 0
	for _, c := range overlapCases(t) {
		if c.op != "copy" {
			continue
		}
		s := tensor.NewStorage(1 << 14)
		for i := range s.Bytes() {
			s.Bytes()[i] = byte(i*7) % 60 // no NaN, no huge floats
		}
		dst, src := tensor.Must(tensor.FromStorage(c.out, s)), tensor.Must(tensor.FromStorage(c.in, s))
		wide, err := src.Expanded(dst.Shape)
		require.NoError(t, err)
		want := wide.CopyTo(tensor.New(dst.DType, dst.Shape...))
		var none context.Context
		err = iter.CopyInto(none, dst, src, 1)
		if c.out.DType == c.in.DType && c.out.Offset == c.in.Offset && c.out.SameLayout(c.in) {
			assert.NoError(t, err, "%v: PyTorch 1.13, which gave the verdicts, refuses some; 2 returns early", c)
			copied++
		} else if c.verdict != "" {
			assert.Error(t, err, "%v", c)
			refused++
		} else if err == nil {
			assert.Equal(t, want.Storage().Bytes(), dst.CopyTo(want.Meta).Storage().Bytes(), "%v", c)
			copied++
		}
	}
	assert.Greater(t, refused, 200)
	assert.Greater(t, copied, 500)
}

func TestCopyIntoItself(t *testing.T) {
	x := numbers(12, 3, 4)
	m, err := tensor.New(tensor.Float32, 1, 4).Expand([]int{3, 4})
	require.NoError(t, err)
	rows := tensor.Must(x.View(m))
	assert.NoError(t, iter.CopyInto(context.Background(), rows, rows, 0), "the same tensor is not looked at")
	assert.NoError(t, iter.CopyInto(context.Background(), rows, tensor.Must(x.View(m)), 0), "nor the same data")
	m.Offset = 4
	err = iter.CopyInto(context.Background(), rows, tensor.Must(x.View(m)), 0)
	assert.ErrorContains(t, err, "more than one element of the written-to tensor")
	assert.NoError(t, iter.CopyInto(context.Background(), x, tensor.Must(x.View(x.Meta)), 0))
	assert.Equal(t, 11.0, x.At(2, 3).Float())
}

func TestCopyIntoMistakes(t *testing.T) {
	x := numbers(6, 2, 3)
	assert.Error(t, iter.CopyInto(context.Background(), nil, x, 0))
	assert.Error(t, iter.CopyInto(context.Background(), x, nil, 0))
	assert.Error(t, iter.CopyInto(context.Background(), x, &tensor.Tensor{Meta: x.Meta}, 0))
	err := iter.CopyInto(context.Background(), numbers(3, 3), x, 0)
	assert.ErrorContains(t, err, "output with shape [3] doesn't match the broadcast shape [2, 3]")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	assert.EqualError(t, iter.CopyInto(ctx, tensor.Zeros(tensor.Float32, 2, 3), x, 0), "enough")
}

// A long copy of any layout looks at the context and ends with it; elements that share an address hold the last value.
func TestCopyElementsEnds(t *testing.T) {
	testsize.Long(t)
	const n = 1 << 19
	src := tensor.Empty(tensor.New(tensor.Int32, 4, n))
	for i := range 4 {
		for k := range n {
			*(*int32)(unsafe.Add(src.Pointer(), 4*(i*n+k))) = int32(i*n + k)
		}
	}
	for _, m := range []tensor.Meta{tensor.New(tensor.Int32, 4, n), tensor.New(tensor.Int64, 4, n),
		tensor.New(tensor.Int32, 4, n).WithStrides([]int{1, 4}), tensor.New(tensor.Int32, 4, n).WithStrides([]int{0, 1}),
		tensor.New(tensor.Int32, 4, n).WithStrides([]int{1, 0})} {
		want := tensor.Empty(m)
		tensor.CopyElements(want, src)
		got, all := tensor.Empty(m), interrupttest.EndAtCheck(0)
		require.NoError(t, iter.CopyElements(all, got, src, 1))
		require.Equal(t, want.Storage().Bytes(), got.Storage().Bytes(), "%v", m)
		require.GreaterOrEqual(t, all.Checks(), 8, "%v", m)
		require.Equal(t, interrupttest.ErrEnded, iter.CopyElements(interrupttest.EndAtCheck(all.Checks()/2), got, src, 1),
			"%v", m)
	}
	require.EqualError(t, iter.CopyElements(t.Context(), tensor.Zeros(tensor.Int32, 2), tensor.Zeros(tensor.Int32, 1), 1),
		"iter: values of shape [1] cannot be copied to shape [2]")
}
