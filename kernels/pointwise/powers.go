package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

var (
	powBodies = join(
		signed2(powSlice, powSlice, powSlice, powSlice), unsigned2(powSlice, powSlice, powSlice, powSlice),
		floatBodies2(math.Pow),
		only(tensor.Complex64, iter.Map2(func(a, b complex64) complex64 {
			return complex64(cmplx.Pow(complex128(a), complex128(b)))
		})),
		only(tensor.Complex128, iter.Map2(cmplx.Pow)))
	squareBodies = join(
		signed1(squareSlice, squareSlice, squareSlice, squareSlice),
		unsigned1(squareSlice, squareSlice, squareSlice, squareSlice),
		floats1(squareSlice, squareSlice), complexes1(squareSlice, squareSlice))
	cubeBodies    = join(floats1(cubeSlice, cubeSlice), complexes1(cubeSlice, cubeSlice))
	inverseBodies = join(floats1(inverseSlice, inverseSlice), complexes1(inverseSlice, inverseSlice))
	rootBodies    = mathBodies(math.Sqrt, nil)
)

// powSlice multiplies by repeated squaring; overflow wraps (native::powi).
func powSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = powInt(a[i], b[i])
	}
}

func powInt[T integer](a, e T) T {
	if e < 0 {
		switch {
		case a == 1 || a+1 == 0 && e&1 == 0:
			return 1
		case a+1 == 0:
			return a
		}
		return 0
	}
	var r T = 1
	for ; e != 0; e >>= 1 {
		if e&1 != 0 {
			r *= a
		}
		a *= a
	}
	return r
}

func squareSlice[T number](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * a[i]
	}
}

func cubeSlice[T number](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * a[i] * a[i]
	}
}

func inverseSlice[T number](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = 1 / a[i]
	}
}
