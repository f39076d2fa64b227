package kit

import "github.com/graphrun/graphrun/tensor"

// WidestNumber lists the types in which reference implementations compute: the widest of each kind. Results are then
// converted to the op's dtype; integers wrap.
type WidestNumber interface{ float64 | complex128 | int64 }

// ScalarAs converts a number to T.
func ScalarAs[T WidestNumber](number tensor.Scalar) T {
	var converted T
	switch target := any(&converted).(type) {
	case *float64:
		*target = number.Float()
	case *complex128:
		*target = number.Complex()
	case *int64:
		*target = number.Int()
	}
	return converted
}
