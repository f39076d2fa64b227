package kit

import "github.com/graphrun/graphrun/tensor"

// WidestNumber are the types in which references compute. Integers wrap when they are converted to a narrower dtype.
type WidestNumber interface{ float64 | complex128 | int64 }

// ScalarAs converts s to T.
func ScalarAs[T WidestNumber](s tensor.Scalar) T {
	var v T
	switch p := any(&v).(type) {
	case *float64:
		*p = s.Float()
	case *complex128:
		*p = s.Complex()
	case *int64:
		*p = s.Int()
	}
	return v
}
