package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Logical ops take any dtype, of which 0 is false and all else true, NaN included.
var (
	LogicalAnd = logical("logical_and", "Tells where both self and other are not 0.",
		join(compareReals(andSlice, andSlice, andSlice, andSlice, andSlice, andSlice, andSlice, andSlice, andSlice, andSlice),
			compareComplex(andSlice, andSlice)),
		func(a, b bool) bool { return a && b })
	LogicalOr = logical("logical_or", "Tells where self or other is not 0.",
		join(compareReals(eitherSlice, eitherSlice, eitherSlice, eitherSlice, eitherSlice, eitherSlice, eitherSlice,
			eitherSlice, eitherSlice, eitherSlice), compareComplex(eitherSlice, eitherSlice)),
		func(a, b bool) bool { return a || b })
	LogicalXor = logical("logical_xor", "Tells where exactly one of self and other is not 0.",
		join(compareReals(xorSlice, xorSlice, xorSlice, xorSlice, xorSlice, xorSlice, xorSlice, xorSlice, xorSlice, xorSlice),
			compareComplex(xorSlice, xorSlice)),
		func(a, b bool) bool { return a != b })
)

func logical(name, doc string, t bodies, f func(a, b bool) bool) *graph.Op {
	return elementwise[kit.None](name, doc, binary2, &graph.Pointwise{Config: comparison, Body: fixed(name, t)},
		kit.Always(boolRef(
			func(x []int64) bool { return f(x[0] != 0, x[1] != 0) },
			func(x []float64) bool { return f(x[0] != 0, x[1] != 0) },
			func(x []complex128) bool { return f(x[0] != 0, x[1] != 0) })),
		kit.ExBinary, kit.Example(nil, kit.ExBools, kit.ExBools))
}

// LogicalNot tells where self is 0.
var LogicalNot = elementwise[kit.None]("logical_not", "Tells where self is 0.", unary1,
	&graph.Pointwise{Config: unaryTo(tensor.Bool), Body: fixed("logical_not", join(
		testReals(notSlice, notSlice, notSlice, notSlice, notSlice, notSlice, notSlice, notSlice, notSlice, notSlice),
		testComplex(notSlice, notSlice)))},
	kit.Always(boolRef(
		func(x []int64) bool { return x[0] == 0 },
		func(x []float64) bool { return x[0] == 0 },
		func(x []complex128) bool { return x[0] == 0 })),
	kit.ExUnary, kit.Example(nil, kit.ExBools))

func testComplex(c64 func([]bool, []complex64), c128 func([]bool, []complex128)) (t bodies) {
	t[tensor.Complex64], t[tensor.Complex128] = iter.Slice1(c64), iter.Slice1(c128)
	return t
}

func andSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i] != 0, b[i] != 0
		dst[i] = x && y
	}
}

func eitherSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i] != 0, b[i] != 0
		dst[i] = x || y
	}
}

func xorSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = (a[i] != 0) != (b[i] != 0)
	}
}

func notSlice[T number](dst []bool, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == 0
	}
}
