package multiply

import (
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Registers hold tiles of a product of so many rows and columns at least; what a matrix has less is
// computed for nothing.
const (
	tileRows = 4
	tileCols = 16
)

// Ops are the multiplications and additions of a product of m x k by k x n elements of dtype d, in terms of
// those of float32: float64 takes twice as long, and what has no vector kernels some thirty times.
func Ops(d tensor.DType, m, n, k int) float64 {
	if m > Thin && n > Thin {
		m, n = kit.DivUp(m, tileRows)*tileRows, kit.DivUp(n, tileCols)*tileCols
	}
	return 2 * float64(m) * float64(n) * float64(k) * Weight(d)
}

// Weight is what an operation of a product of dtype d takes, beside one of float32.
func Weight(d tensor.DType) float64 {
	switch d {
	case tensor.Float32, tensor.Float16, tensor.BFloat16: // the halves are converted
		return 1
	case tensor.Float64:
		return 2
	}
	return 32
}

// passTerms is the depth of a block of a product: the result is gone through once for each.
const passTerms = 256

// TurnOps are the simple operations that a product takes besides where its rows are not what lies together in the
// result, of so many elements, and k terms each: every pass brings tiles to their places element by element.
func TurnOps(elements, k int) float64 {
	return 2 * float64(elements) * float64(kit.DivUp(k, passTerms))
}
