package expr

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Scanner has the loops of a running fold. A running fold replaces each element of a row by the fold of all elements up
// to and including this element. A carry is the fold of the elements so far.
type Scanner struct {
	Carry int // size of a carry in bytes
	// Begin sets n carries to the neutral element.
	Begin func(carry unsafe.Pointer, n int)
	// Row scans n elements of the row x into dst. It starts from the value of the carry and updates the carry. dst may
	// equal x.
	Row func(carry, dst, x unsafe.Pointer, n int)
	// Columns scans one element of each of n rows: element i of x into element i of dst, with carry i. dst may equal x.
	Columns func(carry, dst, x unsafe.Pointer, n int)
}

// Scanning returns the loops of a scan by Add or Mul of int64, float32 or float64, and nil for other operations and
// dtypes. The carries of floats are float64.
func Scanning(o Op, dtype tensor.DType) *Scanner {
	switch {
	case o == Add && dtype == tensor.Int64:
		return newScanner(0, sumRow[int64, int64], sumColumns[int64, int64])
	case o == Add && dtype == tensor.Float32:
		return newScanner(0, sumRow[float32, float64], sumColumns[float32, float64])
	case o == Add && dtype == tensor.Float64:
		return newScanner(0, sumRow[float64, float64], sumColumns[float64, float64])
	case o == Mul && dtype == tensor.Int64:
		return newScanner(1, productRow[int64, int64], productColumns[int64, int64])
	case o == Mul && dtype == tensor.Float32:
		return newScanner(1, productRow[float32, float64], productColumns[float32, float64])
	case o == Mul && dtype == tensor.Float64:
		return newScanner(1, productRow[float64, float64], productColumns[float64, float64])
	}
	return nil
}

func newScanner[T tensor.Element, A any](neutral A, row func(a *A, dst, x []T), columns func(a []A, dst,
	x []T)) *Scanner {
	return &Scanner{
		Carry: int(unsafe.Sizeof(neutral)),
		Begin: func(carry unsafe.Pointer, n int) {
			a := unsafe.Slice((*A)(carry), n)
			for i := range a {
				a[i] = neutral
			}
		},
		Row: func(carry, dst, x unsafe.Pointer, n int) {
			row((*A)(carry), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
		Columns: func(carry, dst, x unsafe.Pointer, n int) {
			columns(unsafe.Slice((*A)(carry), n), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
	}
}

// fourAt returns the four elements x[i] to x[i+3]. It does not slice x, which would take longer than the arithmetic.
func fourAt[T any](x []T, i int) *[4]T { return (*[4]T)(unsafe.Pointer(&x[i])) }

// sumRow and productRow scan the row x into dst, with the carry a. They are unrolled by four, which makes their speed
// less sensitive to code alignment.
func sumRow[T, A int64 | float32 | float64](a *A, dst, x []T) {
	s, i := *a, 0
	dst = dst[:len(x)]
	for last := len(x) - 4; i <= last; i += 4 {
		y, v := fourAt(dst, i), fourAt(x, i)
		s0 := s + A(v[0])
		s1 := s0 + A(v[1])
		s2 := s1 + A(v[2])
		s = s2 + A(v[3])
		y[0], y[1], y[2], y[3] = T(s0), T(s1), T(s2), T(s)
	}
	for ; i < len(x); i++ {
		s += A(x[i])
		dst[i] = T(s)
	}
	*a = s
}

func productRow[T, A int64 | float32 | float64](a *A, dst, x []T) {
	s, i := *a, 0
	dst = dst[:len(x)]
	for last := len(x) - 4; i <= last; i += 4 {
		y, v := fourAt(dst, i), fourAt(x, i)
		s0 := s * A(v[0])
		s1 := s0 * A(v[1])
		s2 := s1 * A(v[2])
		s = s2 * A(v[3])
		y[0], y[1], y[2], y[3] = T(s0), T(s1), T(s2), T(s)
	}
	for ; i < len(x); i++ {
		s *= A(x[i])
		dst[i] = T(s)
	}
	*a = s
}

// sumColumns and productColumns scan x[i] into dst[i] with the carry a[i]. They are unrolled by four, which makes their
// speed less sensitive to code alignment.
func sumColumns[T, A int64 | float32 | float64](a []A, dst, x []T) {
	i := 0
	dst, x = dst[:len(a)], x[:len(a)]
	for last := len(a) - 4; i <= last; i += 4 {
		s, y, v := fourAt(a, i), fourAt(dst, i), fourAt(x, i)
		s0, s1, s2, s3 := s[0]+A(v[0]), s[1]+A(v[1]), s[2]+A(v[2]), s[3]+A(v[3])
		s[0], s[1], s[2], s[3] = s0, s1, s2, s3
		y[0], y[1], y[2], y[3] = T(s0), T(s1), T(s2), T(s3)
	}
	for ; i < len(a); i++ {
		a[i] += A(x[i])
		dst[i] = T(a[i])
	}
}

func productColumns[T, A int64 | float32 | float64](a []A, dst, x []T) {
	i := 0
	dst, x = dst[:len(a)], x[:len(a)]
	for last := len(a) - 4; i <= last; i += 4 {
		s, y, v := fourAt(a, i), fourAt(dst, i), fourAt(x, i)
		s0, s1, s2, s3 := s[0]*A(v[0]), s[1]*A(v[1]), s[2]*A(v[2]), s[3]*A(v[3])
		s[0], s[1], s[2], s[3] = s0, s1, s2, s3
		y[0], y[1], y[2], y[3] = T(s0), T(s1), T(s2), T(s3)
	}
	for ; i < len(a); i++ {
		a[i] *= A(x[i])
		dst[i] = T(a[i])
	}
}

// Unscanned returns the code for rows of one element. In such a row the result of a [Scan] is the element itself.
// Unscanned returns c if there is no Scan, and panics if [Code.Check] rejects the code.
func (c *Code) Unscanned() *Code {
	if !slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.Op == Scan }) {
		return c
	}
	unscanned, err := c.Rewrite(func(b *Builder, inst Inst) Value {
		switch {
		case inst.Op != Scan:
			return b.AddInst(inst)
		case Op(inst.Imm) == Add && inst.DType.IsFloat():
			return b.Emit(Add, inst.A, b.Const(inst.DType, 0)) // a sum starts from +0, so -0 becomes +0
		}
		return inst.A
	})
	if err != nil {
		panic(err)
	}
	return unscanned
}
