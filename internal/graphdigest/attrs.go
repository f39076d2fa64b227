package graphdigest

import (
	"fmt"
	"hash"
	"math"
	"reflect"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// WriteAttrs writes the decoded attributes of a node to a hash. It returns false for attributes that only their address
// identifies, such as functions and graphs.
func WriteAttrs(h hash.Hash, n *graph.Node) bool {
	return n.Attrs == nil || writeValue(h, reflect.ValueOf(n.Attrs))
}

// writeValue writes a value with its type. Values have the same bytes only if they are identical. It returns false for
// a value that only its address identifies.
func writeValue(h hash.Hash, v reflect.Value) bool {
	if !v.IsValid() {
		fmt.Fprint(h, "nil;")
		return true
	}
	t := v.Type()
	fmt.Fprintf(h, "%q %q ", t.PkgPath(), t)
	switch t {
	case reflect.TypeFor[sym.Int]():
		if !v.CanInterface() {
			return false
		}
		n, known := v.Interface().(sym.Int).Known()
		fmt.Fprintf(h, "%d;", n)
		return known
	case reflect.TypeFor[*graph.Graph](), reflect.TypeFor[*graph.Value]():
		return v.IsNil()
	}
	switch v.Kind() {
	case reflect.Bool, reflect.String:
		fmt.Fprintf(h, "%q;", fmt.Sprint(v))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		fmt.Fprintf(h, "%d;", v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		fmt.Fprintf(h, "%d;", v.Uint())
	case reflect.Float32, reflect.Float64:
		fmt.Fprintf(h, "%x;", math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		number := v.Complex()
		fmt.Fprintf(h, "%x %x;", math.Float64bits(real(number)), math.Float64bits(imag(number)))
	case reflect.Pointer, reflect.Interface:
		return writeValue(h, v.Elem())
	default:
		return writeParts(h, v)
	}
	return true
}

// writeParts writes the elements of a list or the fields of a struct, as writeValue does.
func writeParts(h hash.Hash, v reflect.Value) bool {
	count, element := 0, v.Index
	switch v.Kind() {
	case reflect.Struct:
		count, element = v.NumField(), v.Field
	case reflect.Slice, reflect.Array:
		count = v.Len()
	default:
		return false
	}
	fmt.Fprintf(h, "%d parts;", count)
	for i := range count {
		if !writeValue(h, element(i)) {
			return false
		}
	}
	return true
}
