package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Remainder is Python's modulus.
var Remainder = elementwise[kit.None]("remainder",
	"Gives what is left of self divided by other, with the sign of other (Python's %). A divisor of 0 fails when run "+
		"for integers.",
	numbers2, &graph.Pointwise{Config: binary, Body: fixed("remainder", join(
		dividing(modulusSlice[int8], modulusSlice[int16], modulusSlice[int32], modulusSlice[int64]),
		dividingUnsigned(remSlice[uint8], remSlice[uint16], remSlice[uint32], remSlice[uint64]),
		only(tensor.Float32, iter.Map2(modulus32)), only(tensor.Float64, iter.Map2(modulus64))))},
	kit.Always(kit.ByKind(
		byDivisor(func(a, b int64) int64 { return a - floorQuotient(a, b)*b }),
		func(x []float64) float64 { return modulus64(x[0], x[1]) }, nil)),
	kit.ExBinary, kit.ExIntegers)

// Fmod is C's fmod.
var Fmod = elementwise[kit.None]("fmod",
	"Gives what is left of self divided by other, with the sign of self (C's fmod). A divisor of 0 fails when run "+
		"for integers.",
	numbers2, &graph.Pointwise{Config: binary, Body: fixed("fmod", join(
		dividing(remSlice[int8], remSlice[int16], remSlice[int32], remSlice[int64]),
		dividingUnsigned(remSlice[uint8], remSlice[uint16], remSlice[uint32], remSlice[uint64]),
		only(tensor.Float32, iter.Map2(mod32)), only(tensor.Float64, iter.Map2(math.Mod))))},
	kit.Always(kit.ByKind(
		byDivisor(func(a, b int64) int64 { return a % b }),
		func(x []float64) float64 { return math.Mod(x[0], x[1]) }, nil)),
	kit.ExBinary, kit.ExIntegers)

func remSlice[T integer](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

func modulusSlice[T int8 | int16 | int32 | int64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := a[i] % b[i]
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

func modulus32(a, b float32) float32 {
	m := mod32(a, b)
	if m != 0 && (b < 0) != (m < 0) {
		m += b
	}
	return m
}

func modulus64(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (b < 0) != (m < 0) {
		m += b
	}
	return m
}
