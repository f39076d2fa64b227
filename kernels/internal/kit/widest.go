package kit

import "github.com/graphrun/graphrun/tensor"

// WidestNumber lists the types in which references compute, the widest of each kind. An integer wraps when it is
// converted to a narrower dtype.
type WidestNumber interface{ float64 | complex128 | int64 }

// ScalarAs converts a number to T.
func ScalarAs[T WidestNumber](number tensor.Scalar) T {
	var converted T
	switch p := any(&converted).(type) {
	case *float64:
		*p = number.Float()
	case *complex128:
		*p = number.Complex()
	case *int64:
		*p = number.Int()
	}
	return converted
}
