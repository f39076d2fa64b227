package kit

import "github.com/graphrun/graphrun/tensor"

// Widest are the types in which references compute. Integers wrap when they are converted to a narrower dtype.
type Widest interface{ float64 | complex128 | int64 }

// WidestOf converts s to T.
func WidestOf[T Widest](s tensor.Scalar) T {
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
