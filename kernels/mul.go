package kernels

import "github.com/graphrun/graphrun/graph"

// Mul is self * other.
var Mul = elementwise[none]("mul", "Multiplies self by other, broadcast together. Of bools it is the logical and.", numbers2,
	&graph.Pointwise{Config: binary, Body: fixed("mul", mulBodies)},
	always(byKind(
		func(x []int64) int64 { return x[0] * x[1] },
		func(x []float64) float64 { return x[0] * x[1] },
		func(x []complex128) complex128 { return x[0] * x[1] })),
	exBinary, exIntegers, example(nil, exBools, exBools))

var mulBodies = boolAsByte(join(
	signed2(mulSlice, mulSlice, mulSlice, mulSlice), unsigned2(mulSlice, mulSlice, mulSlice, mulSlice),
	floats2(mulSlice, mulSlice), complexes2(mulSlice, mulSlice)))

func mulSlice[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}
