package interp

import (
	"math"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr/internal/exprtest"
)

// TestEqualFloats compares equality by differences with ==, for all pairs of special numbers: contiguous, strided, and
// with one number.
func TestEqualFloats(t *testing.T) {
	testEqualFloats[float32, uint32](t)
	testEqualFloats[float64, uint64](t)
}

func testEqualFloats[T float, U word](t *testing.T) {
	few, many := math.SmallestNonzeroFloat64, math.MaxFloat64
	if unsafe.Sizeof(T(0)) == 4 {
		few, many = math.SmallestNonzeroFloat32, math.MaxFloat32
	}
	least, most := T(few), T(many)
	special := []T{0, T(exprtest.NegZero), 1, -1, T(exprtest.Inf), T(-exprtest.Inf), T(exprtest.Nan), least, -least, most,
		-most}
	var x, y []T
	for _, u := range special {
		for _, v := range special {
			x, y = append(x, u), append(y, v)
		}
	}
	size := int(unsafe.Sizeof(least))
	for _, apart := range [][2]int{{1, 1}, {1, 0}, {2, 1}, {1, 2}, {0, 1}} {
		for first := range 4 {
			n := (len(x) - first) / 2
			got, not := make([]bool, n), make([]bool, n)
			a, b := unsafe.Pointer(&x[first]), unsafe.Pointer(&y[first])
			by := &strides{d: 1, a: apart[0] * size, b: apart[1] * size}
			eqFloat[T, U](unsafe.Pointer(&got[0]), a, b, nil, nil, nil, n, by)
			neFloat[T, U](unsafe.Pointer(&not[0]), a, b, nil, nil, nil, n, by)
			for i := range n {
				u, v := x[first+i*apart[0]], y[first+i*apart[1]]
				if got[i] != (u == v) || not[i] != (u != v) {
					t.Errorf("%v == %v is %v, != is %v, by %v", u, v, got[i], not[i], apart)
				}
			}
		}
	}
}
