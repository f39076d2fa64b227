package onnxruntime_go

import (
	"fmt"
	"reflect"

	"github.com/graphrun/graphrun/tensor"
)

// FloatData are the floats that a [Tensor] may have.
type FloatData interface {
	~float32 | ~float64
}

// IntData are the integers that a [Tensor] may have.
type IntData interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64
}

// TensorData are the elements that a [Tensor] may have.
type TensorData interface {
	FloatData | IntData | ~bool
}

// TensorElementDataType is a type of elements, with the numbers of ONNX.
type TensorElementDataType int

// The constants are untyped, so that they can be compared with the result of DataType of a value.
const (
	TensorElementDataTypeUndefined = iota
	TensorElementDataTypeFloat
	TensorElementDataTypeUint8
	TensorElementDataTypeInt8
	TensorElementDataTypeUint16
	TensorElementDataTypeInt16
	TensorElementDataTypeInt32
	TensorElementDataTypeInt64
	TensorElementDataTypeString
	TensorElementDataTypeBool
	TensorElementDataTypeFloat16
	TensorElementDataTypeDouble
	TensorElementDataTypeUint32
	TensorElementDataTypeUint64
	TensorElementDataTypeComplex64
	TensorElementDataTypeComplex128
	TensorElementDataTypeBFloat16
	TensorElementDataTypeFloat8E4M3FN
	TensorElementDataTypeFloat8E4M3FNUZ
	TensorElementDataTypeFloat8E5M2
	TensorElementDataTypeFloat8E5M2FNUZ
	TensorElementDataTypeUint4
	TensorElementDataTypeInt4
)

// elementTypes has the name of each type in the C API, and its dtype if there is one.
var elementTypes = [...]struct {
	name  string
	dtype tensor.DType
}{
	{"UNDEFINED", tensor.Invalid}, {"FLOAT", tensor.Float32}, {"UINT8", tensor.Uint8}, {"INT8", tensor.Int8},
	{"UINT16", tensor.Uint16}, {"INT16", tensor.Int16}, {"INT32", tensor.Int32}, {"INT64", tensor.Int64},
	{"STRING", tensor.Invalid}, {"BOOL", tensor.Bool}, {"FLOAT16", tensor.Float16}, {"DOUBLE", tensor.Float64},
	{"UINT32", tensor.Uint32}, {"UINT64", tensor.Uint64}, {"COMPLEX64", tensor.Complex64},
	{"COMPLEX128", tensor.Complex128}, {"BFLOAT16", tensor.BFloat16}, {"FLOAT8E4M3FN", tensor.Invalid},
	{"FLOAT8E4M3FNUZ", tensor.Invalid}, {"FLOAT8E5M2", tensor.Invalid}, {"FLOAT8E5M2FNUZ", tensor.Invalid},
	{"UINT4", tensor.Invalid}, {"INT4", tensor.Invalid},
}

// String returns the name in the C API.
func (t TensorElementDataType) String() string {
	if t < 0 || int(t) >= len(elementTypes) {
		return fmt.Sprintf("Unknown tensor element data type: %d", int(t))
	}
	return "ONNX_TENSOR_ELEMENT_DATA_TYPE_" + elementTypes[t].name
}

// dtype returns the dtype of the elements, or [tensor.Invalid] if graphrun has none.
func (t TensorElementDataType) dtype() tensor.DType {
	if t < 0 || int(t) >= len(elementTypes) {
		return tensor.Invalid
	}
	return elementTypes[t].dtype
}

// elementTypeOf is the inverse of dtype.
func elementTypeOf(d tensor.DType) TensorElementDataType {
	for t, e := range elementTypes {
		if d.Valid() && e.dtype == d {
			return TensorElementDataType(t)
		}
	}
	return TensorElementDataTypeUndefined
}

// GetTensorElementDataType returns the type of the elements T.
func GetTensorElementDataType[T TensorData]() TensorElementDataType {
	dtype, _ := tensor.ParseDType(reflect.TypeFor[T]().Kind().String()) // kinds and dtypes have the same names
	return elementTypeOf(dtype)
}

// ONNXType is a kind of value.
type ONNXType int

// The kinds of values.
const (
	ONNXTypeUnknown = iota
	ONNXTypeTensor
	ONNXTypeSequence
	ONNXTypeMap
	ONNXTypeOpaque
	ONNXTypeSparseTensor
	ONNXTypeOptional
)

// String returns the name in the C API.
func (t ONNXType) String() string {
	return nameOf(int(t), "Unknown ONNX type: %d", "ONNX_TYPE_UNKNOWN", "ONNX_TYPE_TENSOR", "ONNX_TYPE_SEQUENCE",
		"ONNX_TYPE_MAP", "ONNX_TYPE_OPAQUE", "ONNX_TYPE_SPARSE_TENSOR", "ONNX_TYPE_OPTIONAL")
}

// LoggingLevel is a level of logs.
type LoggingLevel int

// The levels of logs.
const (
	LoggingLevelVerbose = iota
	LoggingLevelInfo
	LoggingLevelWarning
	LoggingLevelError
	LoggingLevelFatal
)

// String returns the name in the C API.
func (l LoggingLevel) String() string {
	return nameOf(int(l), "<Unknown logging level %d>", "ORT_LOGGING_LEVEL_VERBOSE", "ORT_LOGGING_LEVEL_INFO",
		"ORT_LOGGING_LEVEL_WARNING", "ORT_LOGGING_LEVEL_ERROR", "ORT_LOGGING_LEVEL_FATAL")
}

// GraphOptimizationLevel is an argument of [SessionOptions.SetGraphOptimizationLevel].
type GraphOptimizationLevel int

// The levels of optimization.
const (
	GraphOptimizationLevelDisableAll     = 0
	GraphOptimizationLevelEnableBasic    = 1
	GraphOptimizationLevelEnableExtended = 2
	GraphOptimizationLevelEnableAll      = 99
)

// String returns the name in the C API.
func (l GraphOptimizationLevel) String() string {
	if l == GraphOptimizationLevelEnableAll {
		return "ORT_ENABLE_ALL"
	}
	return nameOf(int(l), "<Invalid or unknown GraphOptimizationLevel %d>", "ORT_DISABLE_ALL", "ORT_ENABLE_BASIC",
		"ORT_ENABLE_EXTENDED")
}

// ExecutionMode is an argument of [SessionOptions.SetExecutionMode].
type ExecutionMode int

// The modes of execution.
const (
	ExecutionModeSequential = iota
	ExecutionModeParallel
)

// String returns the name in the C API.
func (m ExecutionMode) String() string {
	return nameOf(int(m), "Invalid/unknown execution mode: %d", "ORT_SEQUENTIAL", "ORT_PARALLEL")
}

// nameOf returns the name of a number, or an unknown number in the format.
func nameOf(i int, unknown string, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf(unknown, i)
	}
	return names[i]
}
