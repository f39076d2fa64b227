package kit

import (
	"github.com/graphrun/graphrun/tensor"
)

// Accumulator sums products in the references of ops. It computes in float64, complex128 or wrapping int64, depending
// on the kind of D.
type Accumulator struct {
	D tensor.DType // the dtype of the operands
	i int64
	f float64
	z complex128
}

// Mul adds the product of two numbers.
func (s *Accumulator) Mul(a, b tensor.Scalar) {
	switch {
	case s.D.IsComplex():
		s.z += a.Complex() * b.Complex()
	case s.D.IsFloat():
		s.f += a.Float() * b.Float()
	default:
		s.i += a.Int() * b.Int()
	}
}

// Add adds a number.
func (s *Accumulator) Add(a tensor.Scalar) {
	if s.D.IsComplex() {
		s.z += a.Complex() // a product with 1 would turn an infinity into NaN
		return
	}
	s.Mul(a, tensor.IntScalar(1))
}

// Value returns the sum so far.
func (s *Accumulator) Value() tensor.Scalar {
	switch {
	case s.D.IsComplex():
		return tensor.ComplexScalar(s.z)
	case s.D.IsFloat():
		return tensor.FloatScalar(s.f)
	}
	return tensor.IntScalar(s.i)
}
