package kit

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// CppName returns the C++ type of an element as the compiler spells it, which some messages of PyTorch contain. Other
// messages have names of the source code, such as int64_t for "long int" ([CheckNumberFits]).
func CppName(dtype tensor.DType) string {
	switch dtype {
	case tensor.Bool:
		return "bool"
	case tensor.Uint8:
		return "unsigned char"
	case tensor.Int8:
		return "signed char"
	case tensor.Int16:
		return "short int"
	case tensor.Int32:
		return "int"
	case tensor.Int64:
		return "long int"
	case tensor.Float16:
		return "c10::Half"
	case tensor.BFloat16:
		return "c10::BFloat16"
	case tensor.Float32:
		return "float"
	case tensor.Float64:
		return "double"
	case tensor.Complex64:
		return "c10::complex<float>"
	case tensor.Complex128:
		return "c10::complex<double>"
	}
	return dtype.String()
}

// NotImplemented returns PyTorch's error for a dtype that its kernel <name>_cpu does not support.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func NotImplemented(name string, dtype tensor.DType) error {
	return NotImplementedBy(name+"_cpu", dtype)
}

// NotImplementedBy is [NotImplemented] with the full name of the kernel.
func NotImplementedBy(kernel string, dtype tensor.DType) error {
	return fmt.Errorf("\"%s\" not implemented for '%s'", kernel, dtype.TorchName())
}

// ErrZeroDivision is the error of integer loops for a divisor of 0.
var ErrZeroDivision = errors.New("ZeroDivisionError")
