package expr

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Scanner is the loops of a running fold: each element is replaced by the fold of those up to it. Carries hold what was
// folded so far.
type Scanner struct {
	Carry int // bytes of a carry
	// Begin sets n carries to what changes nothing.
	Begin func(carry unsafe.Pointer, n int)
	// Row goes along n elements from a carry, and leaves it as it is behind them. dst may be x.
	Row func(carry, dst, x unsafe.Pointer, n int)
	// Columns takes one element of each of n rows, one carry a row. dst may be x.
	Columns func(carry, dst, x unsafe.Pointer, n int)
}

// Scanning returns the loops of a scan by Add or Mul of int64, float32 or float64: nil for what no [Scan] does. Floats
// are carried in float64.
func Scanning(o Op, d tensor.DType) *Scanner {
	switch {
	case o == Add && d == tensor.Int64:
		return scanner(0, sumRow[int64, int64], sumColumns[int64, int64])
	case o == Add && d == tensor.Float32:
		return scanner(0, sumRow[float32, float64], sumColumns[float32, float64])
	case o == Add && d == tensor.Float64:
		return scanner(0, sumRow[float64, float64], sumColumns[float64, float64])
	case o == Mul && d == tensor.Int64:
		return scanner(1, productRow[int64, int64], productColumns[int64, int64])
	case o == Mul && d == tensor.Float32:
		return scanner(1, productRow[float32, float64], productColumns[float32, float64])
	case o == Mul && d == tensor.Float64:
		return scanner(1, productRow[float64, float64], productColumns[float64, float64])
	}
	return nil
}

func scanner[T tensor.Element, A any](first A, row func(a *A, dst, x []T), columns func(a []A, dst, x []T)) *Scanner {
	return &Scanner{
		Carry: int(unsafe.Sizeof(first)),
		Begin: func(carry unsafe.Pointer, n int) {
			a := unsafe.Slice((*A)(carry), n)
			for i := range a {
				a[i] = first
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

// fourAt returns four elements from i on: a slice of them takes longer than what is done to them.
func fourAt[T any](x []T, i int) *[4]T { return (*[4]T)(unsafe.Pointer(&x[i])) }

// sumRow and its kin take four elements in a turn, so that it matters little where the loop lies.
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

// sumColumns and its kin take one step of carries, four in a turn: what little else there is takes as long as wherever
// the loop lies.
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

// Unscanned returns the code for rows of one element, of which a [Scan] is the element itself: c if it has none. It
// panics on a code that [Code.Check] refuses.
func (c *Code) Unscanned() *Code {
	if !slices.ContainsFunc(c.Insts, func(i Inst) bool { return i.Op == Scan }) {
		return c
	}
	u, err := c.rebuild(func(b *Builder, i Inst) Value {
		switch {
		case i.Op != Scan:
			return b.Make(i)
		case Op(i.Imm) == Add && i.DType.IsFloat():
			return b.Do(Add, i.A, b.Const(i.DType, 0)) // sums begin with 0, so that -0 is none
		}
		return i.A
	})
	if err != nil {
		panic(err)
	}
	return u
}
