package tensor

import (
	"fmt"
	"unsafe"
)

// Scalar is a plain number, like Python's True, 2, 0.5 or 1j. In type promotion only its category counts, as for
// PyTorch's wrapped numbers. The zero Scalar has no number. It has the number in two forms, so that an int64 is exact
// and every number can be read as a float: 0.5 is the complex number 0.5+0i and the integer 0.
type Scalar struct {
	kind         scalarKind
	intValue     int64      // the real part, truncated toward zero
	complexValue complex128 // the number; for an integer beyond 2^53, the nearest float64
}

// scalarKind is the category of a [Scalar].
type scalarKind uint8

const (
	noScalar scalarKind = iota
	boolScalar
	intScalar
	floatScalar
	complexScalar
)

// BoolScalar returns a plain true or false.
func BoolScalar(b bool) Scalar {
	s := Scalar{kind: boolScalar}
	if b {
		s.intValue, s.complexValue = 1, 1
	}
	return s
}

// IntScalar returns a plain integer.
func IntScalar(i int64) Scalar {
	return Scalar{kind: intScalar, intValue: i, complexValue: complex(float64(i), 0)}
}

// FloatScalar returns a plain floating-point number.
func FloatScalar(f float64) Scalar {
	return Scalar{kind: floatScalar, intValue: int64Of(f), complexValue: complex(f, 0)}
}

// ComplexScalar returns a plain complex number.
func ComplexScalar(c complex128) Scalar {
	return Scalar{kind: complexScalar, intValue: int64Of(real(c)), complexValue: c}
}

// ScalarOf returns the scalar of a Go bool, integer, float or complex value. It returns false for a value of any other
// type.
func ScalarOf(v any) (Scalar, bool) {
	switch x := v.(type) {
	case Scalar:
		return x, x.IsSet()
	case bool:
		return BoolScalar(x), true
	case int:
		return IntScalar(int64(x)), true
	case int32:
		return IntScalar(int64(x)), true
	case int64:
		return IntScalar(x), true
	case float32:
		return FloatScalar(float64(x)), true
	case float64:
		return FloatScalar(x), true
	case complex64:
		return ComplexScalar(complex128(x)), true
	case complex128:
		return ComplexScalar(x), true
	}
	return Scalar{}, false
}

// IsSet reports whether s has a number.
func (s Scalar) IsSet() bool { return s.kind != noScalar }

// DType returns the dtype that PyTorch gives a tensor made of the number: bool, int64, float64 or complex128.
func (s Scalar) DType() DType {
	return [...]DType{Invalid, Bool, Int64, Float64, Complex128}[s.kind]
}

// Float returns the value, or the real part of a complex number, as a float64.
func (s Scalar) Float() float64 { return real(s.complexValue) }

// Int returns the value, or the real part of a complex number, as an int64, truncated toward zero.
func (s Scalar) Int() int64 { return s.intValue }

// Complex returns the value as a complex128.
func (s Scalar) Complex() complex128 { return s.complexValue }

// String prints the number as graph files write it.
func (s Scalar) String() string {
	switch s.kind {
	case noScalar:
		return "none"
	case boolScalar:
		return fmt.Sprint(s.intValue != 0)
	case intScalar:
		return fmt.Sprint(s.intValue)
	case floatScalar:
		return fmt.Sprint(real(s.complexValue))
	}
	return fmt.Sprint(s.complexValue)
}

// Tensor returns the number as a 0-dim tensor of dtype d. [Converter] defines the conversion.
func (s Scalar) Tensor(d DType) *Tensor {
	t := Empty(New(d))
	s.Store(d, t.Pointer())
	return t
}

// Store writes the number at p, converted to d. It panics if s has no number, d is invalid, or p is nil.
func (s Scalar) Store(d DType, p unsafe.Pointer) {
	if !s.IsSet() || p == nil {
		panic("tensor: Store needs a number and an address")
	}
	const stride, count = 0, 1 // a Converter converts count elements; a single one needs no stride
	switch {
	case s.storeDirectly(d, p):
	case s.kind == complexScalar || s.kind == floatScalar:
		c := s.complexValue
		Converter(d, Complex128)(p, unsafe.Pointer(&c), stride, stride, count)
	default:
		i := s.intValue
		Converter(d, Int64)(p, unsafe.Pointer(&i), stride, stride, count)
	}
}

// storeDirectly writes the number without a Converter, whose operands would escape to the heap. It returns false and
// writes nothing for less frequent conversions.
func (s Scalar) storeDirectly(dtype DType, address unsafe.Pointer) bool {
	isInteger := s.kind == boolScalar || s.kind == intScalar
	value := real(s.complexValue)
	if isInteger {
		value = float64(s.intValue) // complexValue differs for a uint64 above the greatest int64, whose intValue wraps
	}
	switch {
	case dtype == Float32 && !isInteger:
		*(*float32)(address) = float32(value)
	case dtype == Float32:
		*(*float32)(address) = float32(s.intValue) // rounded once
	case dtype == Float64:
		*(*float64)(address) = value
	case dtype == Complex64 && !isInteger:
		*(*complex64)(address) = complex64(s.complexValue)
	case dtype == Complex128 && !isInteger:
		*(*complex128)(address) = s.complexValue
	case dtype == Float16 && !isInteger:
		*(*Half)(address) = HalfOf(float32(value))
	case dtype == BFloat16 && !isInteger:
		*(*BF16)(address) = BF16Of(float32(value))
	case !isInteger:
		return false
	case dtype == Bool:
		*(*bool)(address) = s.intValue != 0
	case dtype == Uint8 || dtype == Int8:
		*(*uint8)(address) = uint8(s.intValue)
	case dtype == Int16 || dtype == Uint16:
		*(*uint16)(address) = uint16(s.intValue)
	case dtype == Int32 || dtype == Uint32:
		*(*uint32)(address) = uint32(s.intValue)
	case dtype == Int64 || dtype == Uint64:
		*(*int64)(address) = s.intValue
	default:
		return false
	}
	return true
}
