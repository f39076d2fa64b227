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

// Add adds a number.
func (s *Accumulator) Add(a tensor.Scalar) {
	if s.DType.IsComplex() {
		s.complexSum += a.Complex() // the complex product of an infinity and 1 contains a NaN
		return
	}
	s.AddProduct(a, tensor.IntScalar(1))
}

// AddProduct adds the product of two numbers.
func (s *Accumulator) AddProduct(a, b tensor.Scalar) {
	switch {
	case s.DType.IsComplex():
		s.complexSum += MulComplex(a.Complex(), b.Complex())
	case s.DType.IsFloat():
		s.floatSum += float64(a.Float() * b.Float())
	default:
		s.intSum += a.Int() * b.Int()
	}
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

// ProductOperand has the elements of an operand in row-major order, converted to the type of an [Accumulator]'s sum.
type ProductOperand struct {
	tensor.Meta
	ints      []int64
	floats    []float64
	complexes []complex128
}

// ProductOperandOf converts the elements of an operand for an [Accumulator] of the given DType.
func ProductOperandOf(dtype tensor.DType, operand *tensor.Tensor) *ProductOperand {
	converted := &ProductOperand{Meta: tensor.New(operand.DType, operand.Shape...)}
	switch {
	case dtype.IsComplex():
		converted.complexes = sliceOf[complex128](operand)
	case dtype.IsFloat():
		converted.floats = sliceOf[float64](operand)
	default:
		converted.ints = sliceOf[int64](operand)
	}
	return converted
}

// sliceOf returns the elements of an operand in row-major order, converted to T.
func sliceOf[T tensor.Element](operand *tensor.Tensor) []T {
	list, err := tensor.ToSlice[T](operand.CopyTo(tensor.New(tensor.DTypeOf[T](), operand.Shape...)))
	if err != nil {
		panic(err) // the copy has dtype T, so this is a defect
	}
	return list
}

// AddProductAt adds the product of element i of a and element k of b. Both operands have been converted to the type of
// the sum.
func (s *Accumulator) AddProductAt(a *ProductOperand, i int, b *ProductOperand, k int) {
	switch {
	case a.floats != nil:
		s.floatSum += float64(a.floats[i] * b.floats[k])
	case a.ints != nil:
		s.intSum += a.ints[i] * b.ints[k]
	default:
		s.complexSum += MulComplex(a.complexes[i], b.complexes[k])
	}
}
