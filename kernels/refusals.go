package kernels

import (
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// cppName is the C++ type of an element, which some messages of PyTorch print.
func cppName(d tensor.DType) string {
	switch d {
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
	return d.String()
}

// notImplemented is PyTorch's refusal of a dtype by a kernel whose name ends in _cpu.
func notImplemented(name string, d tensor.DType) error { return notImplementedBy(name+"_cpu", d) }

// notImplementedBy is [notImplemented] for kernels of any name.
func notImplementedBy(kernel string, d tensor.DType) error {
	return fmt.Errorf("\"%s\" not implemented for '%s'", kernel, d.TorchName())
}
