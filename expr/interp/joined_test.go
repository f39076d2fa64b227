package interp

import (
	"math"
	"testing"
	"unsafe"
)

// TestClampTo compares the loop for bounds that differ between elements with the general one: NaN, zeros of both signs
// and infinities in every position, lengths that are not a multiple of four, and in place.
func TestClampTo(t *testing.T) {
	t.Run("float32", testClampTo[float32, uint32])
	t.Run("float64", testClampTo[float64, uint64])
}

func testClampTo[T float, U word](t *testing.T) {
	var values []T
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -2, 3, math.Inf(1), math.Inf(-1), math.NaN()} {
		values = append(values, T(x))
	}
	size, k := int(unsafe.Sizeof(T(0))), len(values)
	by := &strides{d: size, a: size, b: size, c: size}
	for n := 1; n < 2*k*k*k; n = 2*n + 1 {
		x, low, high := make([]T, n), make([]T, n), make([]T, n)
		for i := range n {
			x[i], low[i], high[i] = values[i%k], values[i/k%k], values[i/k/k%k]
		}
		want, got := make([]U, n), make([]U, n)
		at := func(s []T) unsafe.Pointer { return unsafe.Pointer(&s[0]) }
		clampToAny[T, U](unsafe.Pointer(&want[0]), at(x), at(low), at(high), n, by)
		clampTo[T, U](unsafe.Pointer(&got[0]), at(x), at(low), at(high), nil, nil, n, by)
		clampTo[T, U](at(x), at(x), at(low), at(high), nil, nil, n, by)
		for i, v := range x {
			if got[i] != want[i] || bitsOf[U](v) != want[i] {
				t.Fatalf("element %d of %d: %x, in place %x, want %x", i, n, got[i], bitsOf[U](v), want[i])
			}
		}
	}
}
