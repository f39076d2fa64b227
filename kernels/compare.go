package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Comparisons are made in the promoted dtype and yield bool. A NaN is unequal to
// everything and stands in no order.
var (
	Eq = comparing("eq", "Tells where self equals other.",
		join(compareReals(eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice), compareComplex(eqSlice, eqSlice)),
		boolRef(func(x []int64) bool { return x[0] == x[1] }, func(x []float64) bool { return x[0] == x[1] }, func(x []complex128) bool { return x[0] == x[1] }))
	Ne = comparing("ne", "Tells where self differs from other.",
		join(compareReals(neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice), compareComplex(neSlice, neSlice)),
		boolRef(func(x []int64) bool { return x[0] != x[1] }, func(x []float64) bool { return x[0] != x[1] }, func(x []complex128) bool { return x[0] != x[1] }))
	Lt = comparing("lt", "Tells where self is less than other. Complex numbers have no order.",
		compareReals(ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice),
		boolRef(func(x []int64) bool { return x[0] < x[1] }, func(x []float64) bool { return x[0] < x[1] }, nil))
	Le = comparing("le", "Tells where self is at most other. Complex numbers have no order.",
		compareReals(leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice),
		boolRef(func(x []int64) bool { return x[0] <= x[1] }, func(x []float64) bool { return x[0] <= x[1] }, nil))
	Gt = comparing("gt", "Tells where self is greater than other. Complex numbers have no order.",
		compareReals(gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice),
		boolRef(func(x []int64) bool { return x[0] > x[1] }, func(x []float64) bool { return x[0] > x[1] }, nil))
	Ge = comparing("ge", "Tells where self is at least other. Complex numbers have no order.",
		compareReals(geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice),
		boolRef(func(x []int64) bool { return x[0] >= x[1] }, func(x []float64) bool { return x[0] >= x[1] }, nil))
)

func comparing(name, doc string, t bodies, ref scalarFunc) *graph.Op {
	return elementwise[none](name, doc, numbers2, &graph.Pointwise{Config: comparison, Body: fixed(name, t)}, always(ref), exBinary, exIntegers)
}

// compareReals makes the table of a comparison of real dtypes; bools are compared as the
// bytes that they are.
func compareReals(u8 func([]bool, []uint8, []uint8), i8 func([]bool, []int8, []int8), i16 func([]bool, []int16, []int16),
	i32 func([]bool, []int32, []int32), i64 func([]bool, []int64, []int64), u16 func([]bool, []uint16, []uint16),
	u32 func([]bool, []uint32, []uint32), u64 func([]bool, []uint64, []uint64),
	f32 func([]bool, []float32, []float32), f64 func([]bool, []float64, []float64)) (t bodies) {
	t[tensor.Uint8], t[tensor.Int8] = iter.Slice2(u8), iter.Slice2(i8)
	t[tensor.Int16], t[tensor.Int32], t[tensor.Int64] = iter.Slice2(i16), iter.Slice2(i32), iter.Slice2(i64)
	t[tensor.Uint16], t[tensor.Uint32], t[tensor.Uint64] = iter.Slice2(u16), iter.Slice2(u32), iter.Slice2(u64)
	t[tensor.Float32], t[tensor.Float64] = iter.Slice2(f32), iter.Slice2(f64)
	return boolAsByte(t)
}

func compareComplex(c64 func([]bool, []complex64, []complex64), c128 func([]bool, []complex128, []complex128)) (t bodies) {
	t[tensor.Complex64], t[tensor.Complex128] = iter.Slice2(c64), iter.Slice2(c128)
	return t
}

func eqSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

func neSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}

func ltSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func leSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func gtSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}

func geSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}
