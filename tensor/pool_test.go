package tensor_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

// taken is a result of n float32 from a pool.
func taken(p *tensor.Pool, n int) *tensor.Tensor {
	return tensor.Must(tensor.FromStorage(tensor.New(tensor.Float32, n), p.Take(4*n, false)))
}

func TestReleasedMemoryIsTakenAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	var p tensor.Pool
	for _, n := range []int{1 << 10, 1 << 14, 1 << 20} {
		x := taken(&p, n)
		require.Zero(t, uintptr(x.Pointer())%tensor.Align)
		at := x.Pointer()
		require.NoError(t, x.Release())
		y := taken(&p, n)
		assert.Equal(t, at, y.Pointer(), "%d", n)
		assert.NotEqual(t, at, taken(&p, n).Pointer(), "what is in use is not taken")
		y.SetFlat(n-1, tensor.IntScalar(7))
		require.NoError(t, y.Release())
		zero := p.Take(4*n, true)
		assert.NotContains(t, zero.Bytes(), byte(0x40), "a part of 7")
		runtime.KeepAlive(zero)
	}
}

func TestCollectionsEmptyPools(t *testing.T) {
	var p tensor.Pool
	const n = 1 << 20
	x := taken(&p, n)
	collected := make(chan struct{})
	runtime.AddCleanup(&x.Storage().Bytes()[0], func(c chan struct{}) { close(c) }, collected)
	require.NoError(t, x.Release())
	runtime.GC()
	<-collected
	runtime.KeepAlive(&p)
}

// A slice of a result's bytes keeps its memory even if the tensor is dropped.
func TestDroppedResultsAreNotTakenAgain(t *testing.T) {
	var p tensor.Pool
	var held [][]byte
	for i := range 8 {
		x := taken(&p, 1<<14)
		b := x.Storage().Bytes()
		for k := range b {
			b[k] = byte(i)
		}
		held = append(held, b[i:])
		runtime.GC()
	}
	for range 8 {
		clear(p.Take(1<<16, false).Bytes())
	}
	for i, b := range held {
		for _, x := range b {
			require.Equal(t, byte(i), x)
		}
	}
}

func TestUseAfterRelease(t *testing.T) {
	var p tensor.Pool
	for _, n := range []int{4, 1 << 12} {
		x := taken(&p, n)
		view := tensor.Must(x.View(tensor.New(tensor.Float32, 2)))
		assert.True(t, x.Storage().Releasable())
		require.NoError(t, view.Release())
		assert.False(t, x.Storage().Releasable())
		assert.ErrorContains(t, x.Release(), "released before")
		assert.ErrorContains(t, x.Check(), "used after Release")
		_, err := x.View(view.Meta)
		assert.ErrorContains(t, err, "used after Release")
		_, err = tensor.ToSlice[float32](view)
		assert.ErrorContains(t, err, "used after Release")
		for name, use := range map[string]func(){
			"Bytes": func() { x.Storage().Bytes() }, "Pointer": func() { view.Pointer() }, "At": func() { x.At(0) },
			"Copy": func() { x.CopyTo(x.Meta) }, "Into": func() { tensor.CopyElements(x, x) }, "Stats": func() { x.Stats() },
			"Span": func() { view.Span() }, "Set": func() { x.SetFlat(0, tensor.IntScalar(1)) },
		} {
			assert.PanicsWithValue(t, "tensor: used after Release", use, name)
		}
	}
	var none *tensor.Tensor
	assert.ErrorContains(t, none.Release(), "nil")
	assert.ErrorContains(t, new(tensor.Tensor).Release(), "not the result of a run")
	assert.ErrorContains(t, tensor.Zeros(tensor.Float32, 3).Release(), "not the result of a run")
}

// Adopted memory is marked as released and never reused.
func TestAdoptedMemoryIsNotKept(t *testing.T) {
	var p tensor.Pool
	s := tensor.NewStorage(1 << 16)
	x := tensor.Must(tensor.FromStorage(tensor.New(tensor.Float32, 1<<14), p.Adopt(s)))
	at := x.Pointer()
	require.NoError(t, x.Release())
	assert.Panics(t, func() { x.Pointer() })
	assert.Len(t, s.Bytes(), 1<<16)
	assert.NotEqual(t, at, taken(&p, 1<<14).Pointer())
}

// Overlap agrees with sets of bytes.
func TestOverlap(t *testing.T) {
	storage := tensor.NewStorage(4096)
	rapid.Check(t, func(t *rapid.T) {
		draw := func() *tensor.Tensor {
			rank := rapid.IntRange(0, 3).Draw(t, "rank")
			dtypes := rapid.SampledFrom([]tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float64})
			m := tensor.Meta{DType: dtypes.Draw(t, "dtype"), Shape: make([]int, rank), Strides: make([]int, rank),
				Offset: rapid.IntRange(0, 20).Draw(t, "offset")}
			for d := range rank {
				m.Shape[d] = rapid.IntRange(0, 5).Draw(t, "size")
				m.Strides[d] = rapid.IntRange(0, 30).Draw(t, "stride")
			}
			return tensor.Must(tensor.FromStorage(m, storage))
		}
		bytes := func(x *tensor.Tensor) (used map[int]bool, twice bool) {
			used = map[int]bool{}
			x.Walk(func(at int) {
				for k := range x.DType.Size() {
					b := (x.Offset+at)*x.DType.Size() + k
					twice = twice || used[b]
					used[b] = true
				}
			})
			return used, twice
		}
		a, b := draw(), draw()
		inA, twice := bytes(a)
		inB, _ := bytes(b)
		share := false
		for k := range inA {
			share = share || inB[k]
		}
		require.Equal(t, share, tensor.Overlap(a, b), "%v %v", a.Meta, b.Meta)
		require.Equal(t, twice, a.OverlapsItself(), "%v", a.Meta)
	})
}
