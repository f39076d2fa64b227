package expand

import "github.com/graphrun/graphrun/expr"

// This file has sums and products with their rounding errors. A pair hi, lo stands for the sum hi + lo.

// fastTwoSum returns a+b, rounded, and the rounding error. |a| must be at least |b|.
func (e *expander) fastTwoSum(a, b expr.Value) (hi, lo expr.Value) {
	hi = e.add(a, b)
	return hi, e.sub(b, e.sub(hi, a))
}

// twoSum returns the exact sum hi + lo of two numbers. Unlike fastTwoSum, it does not require |a| >= |b| (Knuth's
// TwoSum).
func (e *expander) twoSum(a, b expr.Value) (hi, lo expr.Value) {
	hi = e.add(a, b)
	bPart := e.sub(hi, a)
	return hi, e.add(e.sub(a, e.sub(hi, bPart)), e.sub(b, bPart))
}

// productError returns the rounding error of product, the rounded value of a*b.
func (e *expander) productError(a, b, product expr.Value) expr.Value {
	return e.fma(a, b, e.Emit(expr.Neg, product))
}

// sumProduct returns (a+al) * (b+bl) as a sum of two numbers. The product al*bl is omitted.
func (e *expander) sumProduct(a, al, b, bl expr.Value) (hi, lo expr.Value) {
	hi = e.mul(a, b)
	return hi, e.fma(a, bl, e.fma(al, b, e.productError(a, b, hi)))
}
