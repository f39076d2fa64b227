package pointwise

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// compareReals makes the table of a comparison of real dtypes; bools are compared as the
// bytes that they are.
func compareReals(u8 func([]bool, []uint8, []uint8), i8 func([]bool, []int8, []int8),
	i16 func([]bool, []int16, []int16),
	i32 func([]bool, []int32, []int32), i64 func([]bool, []int64, []int64), u16 func([]bool, []uint16, []uint16),
	u32 func([]bool, []uint32, []uint32), u64 func([]bool, []uint64, []uint64),
	f32 func([]bool, []float32, []float32), f64 func([]bool, []float64, []float64)) (t bodies) {
	t[tensor.Uint8], t[tensor.Int8] = iter.Slice2(u8), iter.Slice2(i8)
	t[tensor.Int16], t[tensor.Int32], t[tensor.Int64] = iter.Slice2(i16), iter.Slice2(i32), iter.Slice2(i64)
	t[tensor.Uint16], t[tensor.Uint32], t[tensor.Uint64] = iter.Slice2(u16), iter.Slice2(u32), iter.Slice2(u64)
	t[tensor.Float32], t[tensor.Float64] = iter.Slice2(f32), iter.Slice2(f64)
	return boolAsByte(t)
}

func compareComplex(c64 func([]bool, []complex64, []complex64),
	c128 func([]bool, []complex128, []complex128)) (t bodies) {
	t[tensor.Complex64], t[tensor.Complex128] = iter.Slice2(c64), iter.Slice2(c128)
	return t
}

// testReals makes the table of a predicate of real dtypes; bools are taken as the bytes
// that they are.
func testReals(u8 func([]bool, []uint8), i8 func([]bool, []int8), i16 func([]bool, []int16), i32 func([]bool, []int32),
	i64 func([]bool, []int64), u16 func([]bool, []uint16), u32 func([]bool, []uint32), u64 func([]bool, []uint64),
	f32 func([]bool, []float32), f64 func([]bool, []float64)) (t bodies) {
	t[tensor.Uint8], t[tensor.Int8] = iter.Slice1(u8), iter.Slice1(i8)
	t[tensor.Int16], t[tensor.Int32], t[tensor.Int64] = iter.Slice1(i16), iter.Slice1(i32), iter.Slice1(i64)
	t[tensor.Uint16], t[tensor.Uint32], t[tensor.Uint64] = iter.Slice1(u16), iter.Slice1(u32), iter.Slice1(u64)
	t[tensor.Float32], t[tensor.Float64] = iter.Slice1(f32), iter.Slice1(f64)
	return boolAsByte(t)
}
