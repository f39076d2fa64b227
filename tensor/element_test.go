//go:build !386 && !arm

package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIndexBounds(t *testing.T) {
	x := Must(FromSlice([]float32{0, 1, 2, 3, 4, 5}, 2, 3))
	tr := Must(x.View(mustMeta(x.Transpose(0, 1))))
	scalar := Zeros(Int64)
	for _, c := range []struct {
		t     *Tensor
		index []int
		want  string
	}{
		{x, []int{5, 5}, "tensor: index [5, 5] is out of range with shape [2, 3]"},
		{x, []int{-1, 0}, "tensor: index [-1, 0] is out of range with shape [2, 3]"},
		{x, []int{0, 3}, "tensor: index [0, 3] is out of range with shape [2, 3]"},
		{x, []int{1e9, 0}, "tensor: index [1000000000, 0] is out of range with shape [2, 3]"},
		{x, []int{0}, "tensor: index [0] has 1 dimensions, shape [2, 3] has 2"},
		{x, []int{0, 0, 0}, "tensor: index [0, 0, 0] has 3 dimensions, shape [2, 3] has 2"},
		{tr, []int{1, 2}, "tensor: index [1, 2] is out of range with shape [3, 2]"},
		{scalar, []int{0}, "tensor: index [0] has 1 dimensions, shape [] has 0"},
		{Zeros(Int8, 0), []int{0}, "tensor: index [0] is out of range with shape [0]"},
		{new(Tensor), nil, "tensor: index [] of invalid[]@() is outside the storage of 0 bytes"},
	} {
		assert.PanicsWithValue(t, c.want, func() { c.t.At(c.index...) })
		assert.PanicsWithValue(t, c.want, func() { c.t.Set(IntScalar(1), c.index...) })
	}
	assert.Equal(t, 5.0, tr.At(2, 1).Float())
	scalar.Set(IntScalar(7))
	assert.EqualValues(t, 7, scalar.At().Int())
	assert.PanicsWithValue(t, "tensor: index [6] is out of range with 6 elements of shape [2, 3]", func() {
		x.SetFlat(6, IntScalar(1))
	})
	assert.PanicsWithValue(t, "tensor: Store needs a number and an address", func() { x.Set(Scalar{}, 0, 0) })
}

// Callers may change the fields of a meta: accesses outside the storage must still be rejected.
func TestOutsideTheStorage(t *testing.T) {
	x := Zeros(Float32, 2, 3)
	x.Shape = []int{200, 3}
	assert.PanicsWithValue(t, "tensor: index [100, 0] of float32[200,3]@(3,1) is outside the storage of 24 bytes", func() {
		x.At(100, 0)
	})
	_, err := ToSlice[float32](x)
	assert.ErrorContains(t, err, "out of bounds for storage of size 24")
	assert.Panics(t, func() { x.Stats() })
	assert.Panics(t, func() { x.CopyTo(New(Float64, 200, 3)) })
	x.Offset = -1
	assert.Panics(t, func() { x.Pointer() })
}

func mustMeta(m Meta, err error) Meta {
	if err != nil {
		panic(err)
	}
	return m
}

func TestSetFlatFollowsTheLayout(t *testing.T) {
	x := Zeros(Int32, 3, 2)
	tr := Must(x.View(mustMeta(x.Transpose(0, 1))))
	for i := range 6 {
		tr.SetFlat(i, IntScalar(int64(i)))
	}
	got, err := ToSlice[int32](tr)
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 1, 2, 3, 4, 5}, got)
}

// A copy within shared memory gives the values that src had before, for one storage and for two over one
// slice.
func TestCopyWithinOneMemory(t *testing.T) {
	for _, twice := range []bool{false, true} {
		data := []float32{0, 1, 2, 3, 4, 5, 6, 7, 8}
		x := Must(FromSlice(data, 3, 3))
		y := x
		if twice {
			y = Must(FromSlice(data, 3, 3))
		}
		CopyElements(x, Must(y.View(mustMeta(y.Transpose(0, 1)))))
		assert.Equal(t, []float32{0, 3, 6, 1, 4, 7, 2, 5, 8}, data)
		shifted := New(Float32, 8)
		shifted.Offset = 1
		CopyElements(Must(x.View(shifted)), Must(y.View(New(Float32, 8))))
		assert.Equal(t, []float32{0, 0, 3, 6, 1, 4, 7, 2, 5}, data)
	}
	x := Zeros(Float32, 4)
	assert.PanicsWithValue(t, "tensor: values of shape [3] cannot be copied to shape [4]", func() {
		CopyElements(x, Zeros(Float32, 3))
	})
	assert.PanicsWithValue(t, "tensor: values of shape [4] cannot be copied to shape [2, 2]", func() {
		x.CopyTo(New(Float32, 2, 2))
	})
	assert.PanicsWithValue(t, "tensor: the tensor is nil", func() { CopyElements(nil, x) })
}

// A size that overflows must not be taken for a small one, nor be allocated.
func TestHugeSizes(t *testing.T) {
	huge := []int{1 << 32, 1 << 32}
	assert.Equal(t, math.MaxInt, Numel(huge))
	assert.Equal(t, 0, Numel([]int{1 << 32, 1 << 32, 1 << 32, 0}))
	for _, m := range []Meta{New(Float32, huge...), New(Float32, 1<<46), New(Float32, -1), New(Invalid, 1),
		New(DType(99), 1),
		{DType: Float32, Shape: []int{2, 3}, Strides: []int{1}}} {
		assert.Error(t, m.Check())
		assert.Panics(t, func() { Empty(m) })
	}
	assert.NoError(t, New(Uint8, 1<<46).Check(), "such a value may exist without data")
	assert.PanicsWithValue(t, "tensor: storage of -1 bytes: the size is negative", func() { NewStorage(-1) })
	assert.Panics(t, func() { Zeros(Uint8, 1<<46) })
	wide, err := New(Uint8, 1).Expand([]int{1 << 46})
	require.NoError(t, err)
	_, err = ToSlice[uint8](Must(FromStorage(wide, NewStorage(1))))
	assert.ErrorContains(t, err, "64 TiB of memory are needed")
}

func TestWhatIsNoDType(t *testing.T) {
	assert.Equal(t, 0, DType(99).Size())
	assert.Equal(t, "Undefined", DType(99).TorchName())
	assert.Equal(t, "memory_format(77)", MemoryFormat(77).String())
	assert.False(t, New(Float32, 2).Is(MemoryFormat(77)))
	_, err := Promote(DType(99), Float32)
	assert.EqualError(t, err, "dtype(99) and float32 cannot be promoted: both must be dtypes")
	var p Promotion
	p.Add(DType(99), 1)
	_, err = p.Result()
	assert.EqualError(t, err, "invalid dtype dtype(99)")
	assert.PanicsWithValue(t, "tensor: there is no conversion from invalid to float32", func() {
		Converter(Float32, Invalid)
	})
}

func TestViewsRefuseBrokenMetas(t *testing.T) {
	m := Meta{DType: Float32, Shape: []int{2, 3}, Strides: []int{1}}
	_, err := m.Select(1, 0)
	assert.ErrorContains(t, err, "mismatch in length of strides and shape")
	_, err = m.View([]int{6})
	assert.Error(t, err)
	assert.PanicsWithValue(t, "tensor: a meta has 2 sizes and 1 strides", func() { m.Extent() })
}

// TestScalarsConvert checks that elements are read and written as Converters do, for random bits and special numbers.
func TestScalarsConvert(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 255, 256, 65504, 65520, 1e-8, 1e300, math.Inf(1), math.NaN()}
	for range 2000 {
		bits := [2]uint64{r.Uint64(), r.Uint64()}
		if r.IntN(2) == 0 {
			bits[0], bits[1] = math.Float64bits(special[r.IntN(len(special))]), uint64(r.IntN(4))<<62
		}
		for _, d := range DTypes() {
			x := Zeros(d)
			p := x.Pointer()
			copy(unsafe.Slice((*byte)(p), d.Size()), unsafe.Slice((*byte)(unsafe.Pointer(&bits)), d.Size()))
			if d == Bool {
				*(*bool)(p) = bits[0]&1 != 0
			}
			s := x.At()
			var f float64
			Converter(Float64, d)(unsafe.Pointer(&f), p, 0, 0, 1)
			if math.Float64bits(f) != math.Float64bits(s.Float()) {
				t.Fatalf("%v %#x: %v, the Converter gives %v", d, bits, s, f)
			}
			for _, to := range DTypes() {
				var got, want [2]uint64
				s.Store(to, unsafe.Pointer(&got))
				if s.DType() == Int64 || s.DType() == Bool {
					i := s.Int()
					Converter(to, Int64)(unsafe.Pointer(&want), unsafe.Pointer(&i), 0, 0, 1)
				} else {
					c := s.Complex()
					Converter(to, Complex128)(unsafe.Pointer(&want), unsafe.Pointer(&c), 0, 0, 1)
				}
				if got != want {
					t.Fatalf("%v %#x to %v: %#x, the Converter gives %#x", d, bits, to, got, want)
				}
			}
		}
	}
}

// TestToSliceAndData: ToSlice reads every layout in logical order; Data shares the memory of row-major tensors.
func TestToSliceAndData(t *testing.T) {
	for _, shape := range [][]int{{}, {0, 3}, {5}, {3, 4}, {2, 3, 4}, {1, 7, 1}} {
		rowMajor := Zeros(Float32, shape...)
		for i := range rowMajor.Numel() {
			rowMajor.SetFlat(i, FloatScalar(float64(i)))
		}
		want, err := ToSlice[float32](rowMajor)
		require.NoError(t, err)
		assert.Len(t, want, rowMajor.Numel())
		for i, x := range want {
			assert.Equal(t, float32(i), x)
		}
		reversed := New(Float32, shape...) // column-major, with an offset
		step := 1
		for dim := range shape {
			reversed.Strides[dim], step = step, step*max(1, shape[dim])
		}
		reversed.Offset = 3
		columnMajor := Empty(reversed)
		CopyElements(columnMajor, rowMajor)
		got, err := ToSlice[float32](columnMajor)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		if !columnMajor.IsContiguous() {
			assert.Panics(t, func() { Data[float32](columnMajor) })
		}

		data := Data[float32](rowMajor)
		assert.Equal(t, len(want), len(data))
		if len(data) > 0 {
			data[0] = 42
			assert.Equal(t, 42.0, rowMajor.At(make([]int, len(shape))...).Float())
		}
		assert.PanicsWithError(t, "tensor: Data: tensor holds float32, not int32", func() { Data[int32](rowMajor) })
	}
	var pool Pool
	released := Must(FromStorage(New(Float32, 2), pool.Take(8, true)))
	require.NoError(t, released.Release())
	assert.PanicsWithError(t, "tensor: Data: "+errUsedAfterRelease.Error(), func() { Data[float32](released) })
	_, err := ToSlice[float32](released)
	assert.ErrorIs(t, err, errUsedAfterRelease)
}

func BenchmarkToSlice(b *testing.B) {
	x := Zeros(Float32, 4096, 4096)
	b.Run("ToSlice", func(b *testing.B) {
		for range b.N {
			_, _ = ToSlice[float32](x)
		}
	})
	b.Run("copy", func(b *testing.B) {
		data := Data[float32](x)
		for range b.N {
			_ = append([]float32{}, data...)
		}
	})
}
