package expr

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Scanner has the loops of a running fold. A running fold replaces each element of a row by the fold of this element
// and all elements before it: a running sum replaces 1, 2, 3 by 1, 3, 6. A carry is the fold of the elements so far.
type Scanner struct {
	Carry int // size of a carry in bytes
	// Begin sets n carries to the neutral element.
	Begin func(carry unsafe.Pointer, n int)
	// Row scans n elements of the row x into dst. It starts from the value of the carry and updates the carry. dst may
	// equal x.
	Row func(carry, dst, x unsafe.Pointer, n int)
	// Columns scans one element of each of n adjacent rows. Element i of x, element i of dst and carry i belong to row
	// i. dst may equal x.
	Columns func(carry, dst, x unsafe.Pointer, n int)
}

// Scanning returns the loops of a scan by Add or Mul of int64, float32 or float64, and nil for other operations and
// dtypes. The carries of floats are float64.
func Scanning(op Op, dtype tensor.DType) *Scanner {
	switch {
	case op == Add && dtype == tensor.Int64:
		return newScanner(0, sumRow[int64, int64], sumColumns[int64, int64])
	case op == Add && dtype == tensor.Float32:
		return newScanner(0, sumRow[float32, float64], sumColumns[float32, float64])
	case op == Add && dtype == tensor.Float64:
		return newScanner(0, sumRow[float64, float64], sumColumns[float64, float64])
	case op == Mul && dtype == tensor.Int64:
		return newScanner(1, productRow[int64, int64], productColumns[int64, int64])
	case op == Mul && dtype == tensor.Float32:
		return newScanner(1, productRow[float32, float64], productColumns[float32, float64])
	case op == Mul && dtype == tensor.Float64:
		return newScanner(1, productRow[float64, float64], productColumns[float64, float64])
	}
	return nil
}

// newScanner returns the Scanner of a scan with elements of type T and carries of type A. neutral is the carry before
// the first element. row scans one row, and columns makes one step in each of several adjacent rows.
func newScanner[T tensor.Element, A any](neutral A, row func(carry *A, dst, x []T), columns func(carries []A, dst,
	x []T)) *Scanner {
	return &Scanner{
		Carry: int(unsafe.Sizeof(neutral)),
		Begin: func(carry unsafe.Pointer, n int) {
			carries := unsafe.Slice((*A)(carry), n)
			for i := range carries {
				carries[i] = neutral
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

// sumRow and productRow scan the row x into dst, with the given carry. They differ only in the operator. They are
// unrolled by four, which makes their speed less sensitive to code alignment.
func sumRow[T, A int64 | float32 | float64](carry *A, dst, x []T) {
	sum, i := *carry, 0
	dst = dst[:len(x)]
	for last := len(x) - 4; i <= last; i += 4 {
		fourResults, terms := fourAt(dst, i), fourAt(x, i)
		sum0 := sum + A(terms[0])
		sum1 := sum0 + A(terms[1])
		sum2 := sum1 + A(terms[2])
		sum = sum2 + A(terms[3])
		fourResults[0], fourResults[1], fourResults[2], fourResults[3] = T(sum0), T(sum1), T(sum2), T(sum)
	}
	for ; i < len(x); i++ {
		sum += A(x[i])
		dst[i] = T(sum)
	}
	*carry = sum
}

func productRow[T, A int64 | float32 | float64](carry *A, dst, x []T) {
	product, i := *carry, 0
	dst = dst[:len(x)]
	for last := len(x) - 4; i <= last; i += 4 {
		fourResults, factors := fourAt(dst, i), fourAt(x, i)
		product0 := product * A(factors[0])
		product1 := product0 * A(factors[1])
		product2 := product1 * A(factors[2])
		product = product2 * A(factors[3])
		fourResults[0], fourResults[1], fourResults[2], fourResults[3] = T(product0), T(product1), T(product2), T(product)
	}
	for ; i < len(x); i++ {
		product *= A(x[i])
		dst[i] = T(product)
	}
	*carry = product
}

// sumColumns and productColumns scan x[i] into dst[i] with the carry of index i. They differ only in the operator. They
// are unrolled by four, which makes their speed less sensitive to code alignment.
func sumColumns[T, A int64 | float32 | float64](carries []A, dst, x []T) {
	i := 0
	dst, x = dst[:len(carries)], x[:len(carries)]
	for last := len(carries) - 4; i <= last; i += 4 {
		fourSums, fourResults, terms := fourAt(carries, i), fourAt(dst, i), fourAt(x, i)
		sum0, sum1, sum2, sum3 := fourSums[0]+A(terms[0]), fourSums[1]+A(terms[1]), fourSums[2]+A(terms[2]),
			fourSums[3]+A(terms[3])
		fourSums[0], fourSums[1], fourSums[2], fourSums[3] = sum0, sum1, sum2, sum3
		fourResults[0], fourResults[1], fourResults[2], fourResults[3] = T(sum0), T(sum1), T(sum2), T(sum3)
	}
	for ; i < len(carries); i++ {
		carries[i] += A(x[i])
		dst[i] = T(carries[i])
	}
}

func productColumns[T, A int64 | float32 | float64](carries []A, dst, x []T) {
	i := 0
	dst, x = dst[:len(carries)], x[:len(carries)]
	for last := len(carries) - 4; i <= last; i += 4 {
		fourProducts, fourResults, factors := fourAt(carries, i), fourAt(dst, i), fourAt(x, i)
		product0, product1, product2, product3 := fourProducts[0]*A(factors[0]), fourProducts[1]*A(factors[1]),
			fourProducts[2]*A(factors[2]), fourProducts[3]*A(factors[3])
		fourProducts[0], fourProducts[1], fourProducts[2], fourProducts[3] = product0, product1, product2, product3
		fourResults[0], fourResults[1], fourResults[2], fourResults[3] = T(product0), T(product1), T(product2), T(product3)
	}
	for ; i < len(carries); i++ {
		carries[i] *= A(x[i])
		dst[i] = T(carries[i])
	}
}

// Unscanned returns the code for rows of one element. In such a row the result of a [Scan] is the element itself.
// Unscanned returns c if there is no Scan, and panics if [Code.Check] rejects the code.
func (c *Code) Unscanned() *Code {
	if !slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.Op == Scan }) {
		return c
	}
	unscanned, err := c.Rewrite(func(builder *Builder, inst Inst) Value {
		switch { // inst.Imm is the operation of a Scan
		case inst.Op != Scan:
			return builder.AddInst(inst)
		case Op(inst.Imm) == Add && inst.DType.IsFloat():
			return builder.Emit(Add, inst.A, builder.Const(inst.DType, 0)) // a sum starts from +0, so -0 becomes +0
		}
		return inst.A // other scans start from a number that does not change the element
	})
	if err != nil {
		panic(err)
	}
	return unscanned
}
