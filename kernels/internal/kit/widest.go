package kit

import "github.com/graphrun/graphrun/tensor"

// Widest lists the widest numbers of each kind, in which definitions compute;
// integers wrap where they are made narrow.
type Widest interface{ float64 | complex128 | int64 }

// WidestOf returns s as a wide number.
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
