package kit

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file checks whether plain numbers fit the dtype to which PyTorch converts them.

// sourceNames are the names of C++ types, as in PyTorch's source code, in messages about numbers that overflow.
var sourceNames = map[tensor.DType]string{
	tensor.Bool: "bool", tensor.Uint8: "uint8_t", tensor.Int8: "int8_t", tensor.Int16: "int16_t", tensor.Int32: "int",
	tensor.Int64: "int64_t", tensor.Uint16: "uint16_t", tensor.Uint32: "uint32_t", tensor.Uint64: "uint64_t",
	tensor.Float16: "at::Half", tensor.BFloat16: "at::BFloat16", tensor.Float32: "float", tensor.Float64: "double",
	tensor.Complex64: "c10::complex<float>", tensor.Complex128: "c10::complex<double>",
}

// limits has the least and the greatest number that CheckNumberFits accepts for a dtype. The least number of an
// unsigned dtype is negative, because negative integers wrap in PyTorch. Dtypes without an entry accept every number.
var limits = map[tensor.DType][2]float64{
	tensor.Uint8: {-255, 255}, tensor.Int8: {-128, 127}, tensor.Int16: {-32768, 32767},
	tensor.Int32: {math.MinInt32, math.MaxInt32}, tensor.Int64: {math.MinInt64, math.MaxInt64},
	tensor.Uint16: {-65535, 65535}, tensor.Uint32: {-math.MaxUint32, math.MaxUint32},
	tensor.Uint64:  {-math.MaxUint64, math.MaxUint64},
	tensor.Float16: {-65504, 65504}, tensor.BFloat16: {-0x1.fep127, 0x1.fep127},
	tensor.Float32: {-math.MaxFloat32, math.MaxFloat32},
}

// CheckNumberFits fails if the dtype cannot hold a number (c10::checked_convert). The fraction of a float is
// ignored, and a negative integer may wrap in an unsigned dtype. Other than in PyTorch, a number fits if it is rounded
// to the greatest finite number of a float dtype, as 3.4028235e38 is, the shortest text of the greatest float32.
func CheckNumberFits(number tensor.Scalar, dtype tensor.DType) error {
	if dtype == tensor.Bool {
		return nil
	}
	outOfRange := !dtype.IsComplex() && imag(number.Complex()) != 0
	parts := []float64{number.Float()}
	if dtype.IsComplex() {
		parts = append(parts, imag(number.Complex()))
	}
	limit, hasLimit := limits[dtype.ToReal()]
	// Negative floats do not wrap.
	if !dtype.IsSigned() && !number.DType().IsIntegral(true) {
		limit[0] = 0
	}
	for _, part := range parts {
		switch {
		case !hasLimit: // every number fits
		case math.IsNaN(part) || math.IsInf(part, 0):
			outOfRange = outOfRange || dtype.IsIntegral(false)
		default:
			isBeyond := part < limit[0] || part > limit[1]
			if isBeyond && dtype.ToReal().IsFloat() {
				rounded := tensor.FloatScalar(part).Tensor(dtype.ToReal()).At().Float()
				isBeyond = math.IsInf(rounded, 0)
			}
			outOfRange = outOfRange || isBeyond
		}
	}
	if outOfRange {
		return fmt.Errorf("value cannot be converted to type %s without overflow", sourceNames[dtype])
	}
	return nil
}

// InRange reports whether an integer is between the least and the greatest finite number of a real dtype.
func InRange(n int, dtype tensor.DType) bool {
	limit, hasLimit := limits[dtype]
	switch {
	case dtype == tensor.Bool:
		return n == 0 || n == 1
	case !hasLimit || dtype == tensor.Int64:
		return true
	case dtype == tensor.Uint64:
		return n >= 0
	case !dtype.IsSigned():
		limit[0] = 0
	}
	return float64(n) >= limit[0] && float64(n) <= limit[1]
}

// NumberOrSizeFits is [CheckNumberFits] for a number or an unknown size. For an unknown size it checks the hint (a
// typical size), and records the check as a guard.
func NumberOrSizeFits(n graph.NumberOrSize, dtype tensor.DType) error {
	if n.Number.IsSet() {
		return CheckNumberFits(n.Number, dtype)
	}
	limit, hasLimit := limits[dtype.ToReal()]
	if !hasLimit || limit[1] >= math.MaxInt64 || dtype == tensor.Bool {
		return nil
	}
	if n.Size.Ge(sym.Of(int(limit[0]))).Holds() && n.Size.Le(sym.Of(int(limit[1]))).Holds() {
		return nil
	}
	return fmt.Errorf("value cannot be converted to type %s without overflow", sourceNames[dtype])
}
