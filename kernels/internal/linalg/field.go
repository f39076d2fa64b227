package linalg

import (
	"context"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Algorithms are methods of [solver], which are written once for real and complex numbers. A [field] has the arithmetic
// of the numbers, a [matrix] the elements. For example, s.addScaled(a, x.column(0), y.column(0)) adds a times the first
// column of x to the first column of y.

// number is the type of the elements of a matrix during a computation.
type number interface{ float64 | complex128 }

// field has the arithmetic of a type of numbers. No product is fused with a sum, so that all processors compute the
// same bits. In reals, conversions such as float64(a * v) prevent the fusion.
type field[T number] struct {
	dtype    tensor.DType // of T
	mul, div func(a, b T) T
	conj     func(a T) T
	abs      func(a T) float64
	sgn      func(a T) T       // a divided by its magnitude; 0 for 0, and for a real NaN
	re, im   func(a T) float64 // real and imaginary part
	// fromParts returns the number with the given real and imaginary part. Real numbers ignore im.
	fromParts func(re, im float64) T
	// addScaled adds a times x to y, for vectors x and y.
	addScaled func(a T, x, y []T)
	// dot returns the inner product of x and y. Elements of x are conjugated.
	dot func(x, y []T) T
	// rotate sets x to cosine*x + yInX*y, and y to xInY*x + cosine*y, for vectors x and y.
	rotate func(x, y []T, cosine float64, yInX, xInY T)
	// sumOfSquares returns the sum of the squared magnitudes of scale*x.
	sumOfSquares func(x []T, scale float64) float64
	// parts returns the real and imaginary parts of a vector as a slice that shares its memory. Real numbers have no
	// imaginary parts.
	parts func(x []T) []float64
}

// reals has the arithmetic of real numbers.
var reals = &field[float64]{
	dtype: tensor.Float64,
	mul:   func(a, b float64) float64 { return a * b },
	div:   func(a, b float64) float64 { return a / b },
	conj:  func(a float64) float64 { return a },
	abs:   math.Abs,
	sgn: func(a float64) float64 {
		switch {
		case a > 0:
			return 1
		case a < 0:
			return -1
		}
		return 0
	},
	re:        func(a float64) float64 { return a },
	im:        func(float64) float64 { return 0 },
	fromParts: func(re, _ float64) float64 { return re },
	addScaled: func(a float64, x, y []float64) {
		y = y[:len(x)]
		for i, v := range x {
			y[i] += float64(a * v)
		}
	},
	dot: func(x, y []float64) float64 {
		sum := 0.0
		y = y[:len(x)]
		for i, v := range x {
			sum += float64(v * y[i])
		}
		return sum
	},
	rotate: func(x, y []float64, cosine, yInX, xInY float64) {
		y = y[:len(x)]
		for i, v := range x {
			x[i], y[i] = float64(v*cosine)+float64(yInX*y[i]), float64(xInY*v)+float64(y[i]*cosine)
		}
	},
	sumOfSquares: func(x []float64, scale float64) float64 {
		sum := 0.0
		for _, v := range x {
			v *= scale
			sum += float64(v * v)
		}
		return sum
	},
	parts: func(x []float64) []float64 { return x },
}

// complexes has the arithmetic of complex numbers.
var complexes = &field[complex128]{
	dtype: tensor.Complex128,
	mul:   kit.MulComplex,
	div:   kit.DivComplex,
	conj:  func(a complex128) complex128 { return complex(real(a), -imag(a)) },
	abs:   kit.AbsComplex,
	sgn: func(a complex128) complex128 {
		if a == 0 {
			return 0
		}
		magnitude := kit.AbsComplex(a)
		return complex(real(a)/magnitude, imag(a)/magnitude)
	},
	re:        func(a complex128) float64 { return real(a) },
	im:        func(a complex128) float64 { return imag(a) },
	fromParts: func(re, im float64) complex128 { return complex(re, im) },
	addScaled: func(a complex128, x, y []complex128) {
		y = y[:len(x)]
		for i, v := range x {
			y[i] += kit.MulComplex(a, v)
		}
	},
	dot: func(x, y []complex128) complex128 {
		sum := complex128(0)
		y = y[:len(x)]
		for i, v := range x {
			sum += kit.MulComplex(complex(real(v), -imag(v)), y[i])
		}
		return sum
	},
	rotate: func(x, y []complex128, cosine float64, yInX, xInY complex128) {
		y = y[:len(x)]
		for i, v := range x {
			w := y[i]
			x[i] = complex(float64(real(v)*cosine), float64(imag(v)*cosine)) + kit.MulComplex(yInX, w)
			y[i] = kit.MulComplex(xInY, v) + complex(float64(real(w)*cosine), float64(imag(w)*cosine))
		}
	},
	sumOfSquares: func(x []complex128, scale float64) float64 {
		sum := 0.0
		for _, v := range x {
			re, im := real(v)*scale, imag(v)*scale
			sum += float64(re*re) + float64(im*im)
		}
		return sum
	},
	parts: func(x []complex128) []float64 {
		return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
	},
}

// matrix is a column-major matrix without gaps between columns.
type matrix[T number] struct {
	elements   []T
	rows, cols int
}

// column returns the elements of column j.
func (a matrix[T]) column(j int) []T { return a.elements[j*a.rows : (j+1)*a.rows] }

func (a matrix[T]) at(i, j int) T     { return a.elements[j*a.rows+i] }
func (a matrix[T]) set(i, j int, v T) { a.elements[j*a.rows+i] = v }

// firstColumns returns the first cols columns of a. It shares the elements of a.
func (a matrix[T]) firstColumns(cols int) matrix[T] {
	return matrix[T]{a.elements[:cols*a.rows], a.rows, cols}
}

// clear sets all elements to 0.
func (a matrix[T]) clear() { clear(a.elements) }

// solver computes with matrices of one type of numbers.
type solver[T number] struct {
	*field[T]
	ctx                  context.Context
	freeMemory           []T // zeros allocates matrices from its start; none is freed before the end of the task
	operationsSinceCheck int // approximate number of operations since the last check of the context
}

// checkContextAfter counts about n operations on elements. After every kit.CheckEvery operations, it stops the
// computation if the context was cancelled.
func (s *solver[T]) checkContextAfter(n int) {
	if s.operationsSinceCheck += n; s.operationsSinceCheck >= kit.CheckEvery {
		s.operationsSinceCheck = 0
		interrupt.Check(s.ctx)
	}
}

// zeros returns a matrix of zeros in the memory of the solver.
func (s *solver[T]) zeros(rows, cols int) matrix[T] {
	n := rows * cols
	m := matrix[T]{s.freeMemory[:n:n], rows, cols}
	s.freeMemory = s.freeMemory[n:]
	m.clear()
	s.checkContextAfter(n)
	return m
}

// copyOf returns a copy of a.
func (s *solver[T]) copyOf(a matrix[T]) matrix[T] {
	duplicate := s.zeros(a.rows, a.cols)
	copy(duplicate.elements, a.elements)
	return duplicate
}

// Values of parameters that are named isAdjoint.
const (
	notAdjoint = false
	useAdjoint = true
)

// adjointOf returns a new matrix: the conjugate transpose of a.
func (s *solver[T]) adjointOf(a matrix[T]) matrix[T] {
	result := s.zeros(a.cols, a.rows)
	s.storeAdjoint(a, result)
	return result
}

// storeAdjoint sets result to the conjugate transpose of a.
func (s *solver[T]) storeAdjoint(a, result matrix[T]) {
	for j := range a.cols {
		for i, v := range a.column(j) {
			result.set(j, i, s.conj(v))
		}
		s.checkContextAfter(a.rows)
	}
}

// transposed returns a new matrix: the transpose of a, without conjugation.
func (s *solver[T]) transposed(a matrix[T]) matrix[T] {
	result := s.zeros(a.cols, a.rows)
	for j := range a.cols {
		for i, v := range a.column(j) {
			result.set(j, i, v)
		}
		s.checkContextAfter(a.rows)
	}
	return result
}

// identity returns a matrix with ones on the main diagonal and zeros elsewhere. It need not be square.
func (s *solver[T]) identity(rows, cols int) matrix[T] {
	m := s.zeros(rows, cols)
	for i := range min(rows, cols) {
		m.set(i, i, s.fromParts(1, 0))
	}
	return m
}

// norm returns the Euclidean norm of x. Squares of elements do not overflow, and sums of them do not underflow to 0.
func (s *solver[T]) norm(x []T) float64 {
	const unscaled = 1
	sum := s.sumOfSquares(x, unscaled)
	if 0x1p-900 < sum && sum < 0x1p1000 { // no square overflowed, and none that matters underflowed
		return math.Sqrt(sum)
	}
	greatest := greatestPart(s.parts(x))
	if greatest == 0 || math.IsInf(greatest, 0) || greatest != greatest {
		return greatest
	}
	scale := scaleToOne(greatest)
	return math.Sqrt(s.sumOfSquares(x, scale)) / scale
}

// greatestPart returns the greatest magnitude of a part, or NaN if a part is NaN.
func greatestPart(parts []float64) float64 {
	greatest := 0.0
	for _, part := range parts {
		greatest = max(greatest, math.Abs(part)) // max returns NaN if an argument is NaN
	}
	return greatest
}

// scaleToOne returns the power of two that scales a positive finite number to about 1. The exponent is limited because
// 2^1024 is infinite.
func scaleToOne(number float64) float64 { return math.Ldexp(1, min(-math.Ilogb(number), 1023)) }

// limitExponents scales a matrix by a power of two if inner products of its columns could overflow or underflow. It
// returns the factor, which is 1 if the matrix is not scaled.
func (s *solver[T]) limitExponents(a matrix[T]) float64 {
	parts := s.parts(a.elements)
	greatest := greatestPart(parts)
	if !(greatest > 0) || math.IsInf(greatest, 0) || 0x1p-400 < greatest && greatest < 0x1p400 {
		return 1
	}
	scale := scaleToOne(greatest)
	for i := range parts {
		parts[i] *= scale
	}
	return scale
}

// isFinite reports whether no element of a is infinite or NaN.
func (s *solver[T]) isFinite(a matrix[T]) bool {
	for _, v := range a.elements {
		// x - x is 0 for finite x, and NaN otherwise.
		if zero := s.re(v) - s.re(v) + s.im(v) - s.im(v); math.IsNaN(zero) {
			return false
		}
	}
	s.checkContextAfter(len(a.elements))
	return true
}
