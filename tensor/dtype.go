package tensor

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/suggest"
)

// DType is the type of an element. The names are PyTorch's.
type DType uint8

// The fifteen dtypes. As in PyTorch, Uint16, Uint32 and Uint64 are promoted only with the same dtype, with floats and
// with plain numbers ([Promote]).
const (
	Invalid DType = iota
	Bool
	Uint8
	Int8
	Int16
	Int32
	Int64
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128
	numDTypes
)

// dtypeInfo has the name of each dtype in graph files, its name in PyTorch's messages, and the bytes of an element.
var dtypeInfo = [numDTypes]struct {
	name, torch string
	size        int
}{
	Invalid:    {"invalid", "Undefined", 0},
	Bool:       {"bool", "Bool", 1},
	Uint8:      {"uint8", "Byte", 1},
	Int8:       {"int8", "Char", 1},
	Int16:      {"int16", "Short", 2},
	Int32:      {"int32", "Int", 4},
	Int64:      {"int64", "Long", 8},
	Uint16:     {"uint16", "UInt16", 2},
	Uint32:     {"uint32", "UInt32", 4},
	Uint64:     {"uint64", "UInt64", 8},
	Float16:    {"float16", "Half", 2},
	BFloat16:   {"bfloat16", "BFloat16", 2},
	Float32:    {"float32", "Float", 4},
	Float64:    {"float64", "Double", 8},
	Complex64:  {"complex64", "ComplexFloat", 8},
	Complex128: {"complex128", "ComplexDouble", 16},
}

// DTypes returns all dtypes in the order of their constants.
func DTypes() []DType {
	out := make([]DType, 0, numDTypes-1)
	for d := Bool; d < numDTypes; d++ {
		out = append(out, d)
	}
	return out
}

// ParseDType returns the dtype of a name such as "float32". The error for an unknown name lists all names. For a name
// from another library, such as "f32", "torch.float32" or "half", the error suggests the dtype.
func ParseDType(name string) (DType, error) {
	for dtype := Bool; dtype < numDTypes; dtype++ {
		if dtypeInfo[dtype].name == name {
			return dtype, nil
		}
	}
	var names []string
	for _, dtype := range DTypes() {
		names = append(names, dtype.String())
	}
	suggestion := nearestDType(name, names)
	if dtype := aliasOf(name); dtype != Invalid {
		suggestion = dtype.String()
	}
	return Invalid, fmt.Errorf("unknown dtype %q: want one of %s%s", name, strings.Join(names, ", "),
		suggest.DidYouMean(suggestion))
}

// nearestDType returns the dtype whose letters are most similar to the letters of name. The digits must be equal:
// "float31" is an unknown type, not a misspelling of "float32".
func nearestDType(name string, names []string) string {
	digits := func(s string) string { return s[len(strings.TrimRight(s, "0123456789")):] }
	name = name[strings.LastIndexAny(name, ".:")+1:]
	return suggest.Nearest(name, func(yield func(string) bool) {
		for _, n := range names {
			if digits(n) == digits(name) && !yield(n) {
				return
			}
		}
	})
}

// aliasOf returns the dtype of a name in PyTorch, numpy, safetensors, ONNX, C or Rust, or Invalid. The names int, char
// and byte have different meanings in these libraries and languages. aliasOf returns PyTorch's meaning.
func aliasOf(name string) DType {
	normalized := strings.ToLower(name)
	if i := strings.LastIndexAny(normalized, ".:"); i >= 0 {
		normalized = normalized[i+1:] // torch.float32, np.float32, xla::f32
	}
	normalized = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(normalized), "dt_"), "_t")
	normalized = strings.TrimSuffix(normalized, "tensor")
	for d := Bool; d < numDTypes; d++ {
		if dtypeInfo[d].name == normalized || strings.ReplaceAll(dtypeInfo[d].name, "bfloat", "bf") == normalized {
			return d
		}
	}
	return dtypeAliases[normalized]
}

// dtypeAliases has the names that aliasOf accepts in addition to the names of dtypes, in lower case.
var dtypeAliases = map[string]DType{
	"boolean": Bool, "bool_": Bool, "i1": Bool, "pred": Bool,
	"byte": Uint8, "u8": Uint8, "uchar": Uint8, "ubyte": Uint8, "char": Int8, "i8": Int8, "s8": Int8,
	"short": Int16, "i16": Int16, "s16": Int16, "int": Int32, "i32": Int32, "s32": Int32, "integer": Int64,
	"long": Int64, "longlong": Int64, "i64": Int64, "s64": Int64,
	"u16": Uint16, "ushort": Uint16, "u32": Uint32, "uint": Uint32, "u64": Uint64, "ulong": Uint64,
	"half": Float16, "f16": Float16, "fp16": Float16, "bf16": BFloat16, "bfloat": BFloat16, "brain": BFloat16,
	"float": Float32, "f32": Float32, "fp32": Float32, "single": Float32,
	"double": Float64, "f64": Float64, "fp64": Float64, "float_": Float64,
	"cfloat": Complex64, "c64": Complex64, "complex": Complex64, "csingle": Complex64,
	"cdouble": Complex128, "c128": Complex128,
}

// String returns the name used in graph files: "float32".
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeInfo[d].name
}

// TorchName returns PyTorch's name of the scalar type, which its messages use: "Float". It is "Undefined" for
// an invalid dtype.
func (d DType) TorchName() string {
	if d >= numDTypes {
		d = Invalid
	}
	return dtypeInfo[d].torch
}

// Size returns the number of bytes of one element, or 0 for an invalid dtype.
func (d DType) Size() int {
	if d >= numDTypes {
		return 0
	}
	return dtypeInfo[d].size
}

// Valid reports whether d is one of the fifteen dtypes.
func (d DType) Valid() bool { return d > Invalid && d < numDTypes }

// IsFloat reports whether d is a real floating-point dtype.
func (d DType) IsFloat() bool { return d >= Float16 && d <= Float64 }

// IsComplex reports whether d is complex.
func (d DType) IsComplex() bool { return d == Complex64 || d == Complex128 }

// IsIntegral reports whether d is an integer dtype. Bool counts as an integer only if withBool is set
// (c10::isIntegralType).
func (d DType) IsIntegral(withBool bool) bool {
	return d >= Uint8 && d <= Uint64 || withBool && d == Bool
}

// IsSigned reports whether d can hold negative values.
func (d DType) IsSigned() bool {
	return d >= Int8 && d <= Int64 || d >= Float16 && d < numDTypes
}

// IsBareUnsigned reports whether d is uint16, uint32 or uint64. PyTorch's promotion table lacks these dtypes.
func (d DType) IsBareUnsigned() bool { return d >= Uint16 && d <= Uint64 }

// IsReducedFloat reports whether d is a 16-bit float, which is computed in float32.
func (d DType) IsReducedFloat() bool { return d == Float16 || d == BFloat16 }

// ToReal returns the dtype of the parts of a complex dtype, and d itself otherwise.
func (d DType) ToReal() DType {
	switch d {
	case Complex64:
		return Float32
	case Complex128:
		return Float64
	}
	return d
}

// ToComplex returns the complex dtype for values of d: Complex128 for float64 and complex128, else Complex64
// (c10::toComplexType).
func (d DType) ToComplex() DType {
	switch d {
	case Float64, Complex128:
		return Complex128
	}
	return Complex64
}

// OpMath returns the dtype in which PyTorch's CPU kernels compute on d: float32 for the 16-bit floats, d itself
// otherwise (at::opmath_type).
func (d DType) OpMath() DType {
	if d.IsReducedFloat() {
		return Float32
	}
	return d
}

// Element is the set of Go types that hold an element. bool values are stored as one byte, 0 or 1.
type Element interface {
	bool | uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64 |
		Half | BF16 | float32 | float64 | complex64 | complex128
}

// DTypeOf returns the dtype of a Go element type.
func DTypeOf[T Element]() DType {
	var zero T
	return dtypeOf(zero)
}

//go:noinline // saves compile time: it has many callers, none of them hot
func dtypeOf(element any) DType {
	switch element.(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case Half:
		return Float16
	case BF16:
		return BFloat16
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	}
	return Complex128
}
