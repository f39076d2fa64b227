package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Roots and inverses. bool and integers are computed as float32.
var (
	Sqrt = rooting("sqrt", "sqrt_vml_cpu", "Takes the square root of each element; NaN below 0.",
		join(mathBodies(nil, cmplx.Sqrt), floats1(sqrtSlice, sqrtSlice)), math.Sqrt, cmplx.Sqrt)
	Rsqrt = rooting("rsqrt", "rsqrt_cpu", "Takes 1 divided by the square root of each element; NaN below 0.",
		join(mathBodies(nil, inverseSqrt), floats1(rsqrtSlice, rsqrtSlice)),
		func(x float64) float64 { return 1 / math.Sqrt(x) }, inverseSqrt)
	Reciprocal = rooting("reciprocal", "reciprocal_cpu", "Takes 1 divided by each element.", inverseBodies,
		func(x float64) float64 { return 1 / x }, func(z complex128) complex128 { return 1 / z })
)

func rooting(name, label, doc string, t bodies, f func(float64) float64, z func(complex128) complex128) *graph.Op {
	return elementwise[kit.None](name, doc, unary1, &graph.Pointwise{Config: unaryFloat, Body: labelled(label, t)},
		kit.Always(kit.ByKind(nil,
			func(x []float64) float64 { return f(x[0]) },
			func(x []complex128) complex128 { return z(x[0]) })),
		kit.ExUnary, kit.Example(nil, kit.ExInts))
}

func inverseSqrt(z complex128) complex128 { return 1 / cmplx.Sqrt(z) }

func sqrtSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Sqrt(float64(a[i])))
	}
}

func rsqrtSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = 1 / T(math.Sqrt(float64(a[i])))
	}
}
