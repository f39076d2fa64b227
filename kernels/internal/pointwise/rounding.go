package pointwise

import "github.com/graphrun/graphrun/tensor"

// roundTo returns a function that rounds an intermediate result to a float dtype. For other dtypes the function
// returns its argument.
func roundTo(dtype tensor.DType) func(float64) float64 {
	if round16 := roundTo16Bits(dtype); round16 != nil {
		return func(x float64) float64 { return float64(round16(float32(x))) }
	}
	if dtype == tensor.Float32 {
		return func(x float64) float64 { return float64(float32(x)) }
	}
	return func(x float64) float64 { return x }
}

// roundComplexTo is roundTo for complex dtypes. It rounds both parts.
func roundComplexTo(dtype tensor.DType) func(complex128) complex128 {
	roundPart := roundTo(dtype.ToReal())
	return func(x complex128) complex128 { return complex(roundPart(real(x)), roundPart(imag(x))) }
}

// roundTo16Bits returns the function that rounds to a 16-bit float dtype. It returns nil for other dtypes.
func roundTo16Bits(dtype tensor.DType) func(float32) float32 {
	switch dtype {
	case tensor.BFloat16:
		return func(x float32) float32 { return tensor.BF16Of(x).Float32() }
	case tensor.Float16:
		return func(x float32) float32 { return tensor.HalfOf(x).Float32() }
	}
	return nil
}
