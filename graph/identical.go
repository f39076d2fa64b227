package graph

import (
	"math"
	"reflect"

	"github.com/graphrun/graphrun/sym"
)

// identical compares two values as [reflect.DeepEqual] does, with two exceptions. Floating-point numbers are compared
// by their bits: 0 differs from -0, and a NaN equals itself. Graphs are compared by their addresses.
func identical(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return a.IsValid() == b.IsValid() && !a.IsValid()
	}
	if a.Type() == reflect.TypeFor[sym.Int]() && a.CanInterface() && b.CanInterface() {
		return a.Interface().(sym.Int).Same(b.Interface().(sym.Int)) // DeepEqual would compare the whole Env
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return sameBits(a.Float(), b.Float())
	case reflect.Complex64, reflect.Complex128:
		x, y := a.Complex(), b.Complex()
		return sameBits(real(x), real(y)) && sameBits(imag(x), imag(y))
	case reflect.Struct:
		for i := range a.NumField() {
			if !identical(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() || a.Kind() == reflect.Slice && a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !identical(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Interface:
		return identical(a.Elem(), b.Elem())
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() || a.Type() == reflect.TypeFor[*Graph]() {
			return a.Pointer() == b.Pointer()
		}
		return identical(a.Elem(), b.Elem())
	case reflect.Map:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for k, v := range a.Seq2() {
			if !identical(v, b.MapIndex(k)) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan:
		return a.IsNil() && b.IsNil()
	}
	return a.Equal(b)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
