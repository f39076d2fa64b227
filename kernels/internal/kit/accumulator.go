package kit

import (
	"github.com/graphrun/graphrun/tensor"
)

// Accumulator sums products in the references of ops. The sum is float64, complex128 or a wrapping int64, depending on
// DType.
type Accumulator struct {
	DType      tensor.DType // the dtype of the operands
	intSum     int64
	floatSum   float64
	complexSum complex128
}

// Mul adds the product of two numbers.
func (s *Accumulator) Mul(a, b tensor.Scalar) {
	switch {
	case s.DType.IsComplex():
		s.complexSum += MulComplex(a.Complex(), b.Complex())
	case s.DType.IsFloat():
		s.floatSum += float64(a.Float() * b.Float())
	default:
		s.intSum += a.Int() * b.Int()
	}
}

// Add adds a number.
func (s *Accumulator) Add(a tensor.Scalar) {
	if s.DType.IsComplex() {
		s.complexSum += a.Complex() // a product with 1 would turn an infinity into NaN
		return
	}
	s.Mul(a, tensor.IntScalar(1))
}

// Value returns the sum so far.
func (s *Accumulator) Value() tensor.Scalar {
	switch {
	case s.DType.IsComplex():
		return tensor.ComplexScalar(s.complexSum)
	case s.DType.IsFloat():
		return tensor.FloatScalar(s.floatSum)
	}
	return tensor.IntScalar(s.intSum)
}
