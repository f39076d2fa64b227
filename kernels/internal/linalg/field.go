package linalg

import (
	"context"
	"math"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// number is the type of the elements of a matrix during a computation.
type number interface{ float64 | complex128 }

// field has the arithmetic of a type of numbers. No product is fused with a sum.
type field[T number] struct {
	mul, div func(a, b T) T
	conj     func(a T) T
	abs      func(a T) float64
	sgn      func(a T) T            // a divided by its magnitude; 0 for 0, and for a real NaN
	re, im   func(a T) float64      // real and imaginary part
	of       func(re, im float64) T // the number with the given parts; real numbers ignore im
	// addScaled adds a times x to y, for vectors x and y.
	addScaled func(a T, x, y []T)
	// dot returns the inner product of x and y. Elements of x are conjugated.
	dot func(x, y []T) T
}

// reals has the arithmetic of real numbers.
var reals = &field[float64]{
	mul:  func(a, b float64) float64 { return a * b },
	div:  func(a, b float64) float64 { return a / b },
	conj: func(a float64) float64 { return a },
	abs:  math.Abs,
	sgn: func(a float64) float64 {
		switch {
		case a > 0:
			return 1
		case a < 0:
			return -1
		}
		return 0
	},
	re: func(a float64) float64 { return a },
	im: func(float64) float64 { return 0 },
	of: func(re, _ float64) float64 { return re },
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
}

// complexes has the arithmetic of complex numbers.
var complexes = &field[complex128]{
	mul:  kit.MulComplex,
	div:  kit.DivComplex,
	conj: func(a complex128) complex128 { return complex(real(a), -imag(a)) },
	abs:  kit.AbsComplex,
	sgn: func(a complex128) complex128 {
		if a == 0 {
			return 0
		}
		size := kit.AbsComplex(a)
		return complex(real(a)/size, imag(a)/size)
	},
	re: func(a complex128) float64 { return real(a) },
	im: func(a complex128) float64 { return imag(a) },
	of: func(re, im float64) complex128 { return complex(re, im) },
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
}

// solver computes with matrices of one type of numbers. make takes matrices from the start of memory. They stay in use
// until the end of the task.
type solver[T number] struct {
	*field[T]
	ctx    context.Context
	memory []T
	work   int // number of elements computed since the last check of the context
}

// countWork counts n computed elements, and checks after many elements whether the context was cancelled.
func (s *solver[T]) countWork(n int) {
	if s.work += n; s.work >= kit.CheckEvery {
		s.work = 0
		interrupt.Check(s.ctx)
	}
}

// matrix is a column-major matrix.
type matrix[T number] struct {
	elements   []T
	rows, cols int
}

// column returns the elements of column j.
func (a matrix[T]) column(j int) []T { return a.elements[j*a.rows : (j+1)*a.rows] }

func (a matrix[T]) at(i, j int) T     { return a.elements[j*a.rows+i] }
func (a matrix[T]) set(i, j int, v T) { a.elements[j*a.rows+i] = v }

// leading returns the given number of first columns of a matrix.
func (a matrix[T]) leading(cols int) matrix[T] {
	return matrix[T]{a.elements[:cols*a.rows], a.rows, cols}
}

// clear sets all elements to 0.
func (a matrix[T]) clear() { clear(a.elements) }

// make returns a matrix of zeros in the memory of the solver.
func (s *solver[T]) make(rows, cols int) matrix[T] {
	n := rows * cols
	m := matrix[T]{s.memory[:n:n], rows, cols}
	s.memory = s.memory[n:]
	m.clear()
	s.countWork(n)
	return m
}

// copyOf returns a copy of a matrix, transposed and conjugated if adjoint is set.
func (s *solver[T]) copyOf(a matrix[T], adjoint bool) matrix[T] {
	if !adjoint {
		c := s.make(a.rows, a.cols)
		copy(c.elements, a.elements)
		return c
	}
	c := s.make(a.cols, a.rows)
	s.adjoint(a, c)
	return c
}

// adjoint sets c to the conjugate transpose of a.
func (s *solver[T]) adjoint(a, c matrix[T]) {
	for j := range a.cols {
		for i, v := range a.column(j) {
			c.set(j, i, s.conj(v))
		}
		s.countWork(a.rows)
	}
}

// transposed returns the transpose of a matrix, without conjugation.
func (s *solver[T]) transposed(a matrix[T]) matrix[T] {
	c := s.make(a.cols, a.rows)
	for j := range a.cols {
		for i, v := range a.column(j) {
			c.set(j, i, v)
		}
		s.countWork(a.rows)
	}
	return c
}

// identity returns the first columns of an identity matrix.
func (s *solver[T]) identity(rows, cols int) matrix[T] {
	m := s.make(rows, cols)
	for i := range min(rows, cols) {
		m.set(i, i, s.of(1, 0))
	}
	return m
}

// norm returns the Euclidean norm of a vector, without overflow.
func (s *solver[T]) norm(x []T) float64 {
	greatest := 0.0 // greatest magnitude of a part
	for _, v := range x {
		greatest = max(greatest, math.Abs(s.re(v)), math.Abs(s.im(v))) // NaN stays
	}
	if greatest == 0 || math.IsInf(greatest, 0) || greatest != greatest {
		return greatest
	}
	scale, sum := 1.0, 0.0
	if greatest > 0x1p500 || greatest < 0x1p-500 { // squares might overflow or underflow
		scale = math.Ldexp(1, min(-math.Ilogb(greatest), 1023)) // of subnormal numbers, 2^1074 would be infinite
	}
	for _, v := range x {
		re, im := s.re(v)*scale, s.im(v)*scale
		sum += float64(re*re) + float64(im*im)
	}
	return math.Sqrt(sum) / scale
}

// isFinite reports whether no element of a is infinite or NaN.
func (s *solver[T]) isFinite(a matrix[T]) bool {
	for _, v := range a.elements {
		if d := s.re(v) - s.re(v) + s.im(v) - s.im(v); math.IsNaN(d) {
			return false
		}
	}
	s.countWork(len(a.elements))
	return true
}
