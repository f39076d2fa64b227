package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// foldLoop returns the loop that folds the elements of operand a into the accumulators dst by an operation. The first
// element is folded into the first accumulator.
func foldLoop(operation loop) loop {
	return func(o operands) {
		for ; o.n > 0; o.n -= expr.FoldLanes {
			operation(operands{dst: o.dst, a: o.dst, b: o.a, n: min(o.n, expr.FoldLanes)})
			o.a.offset += expr.FoldLanes * o.a.stride
		}
	}
}

// Combine returns a loop over n rows. For each row it combines the [expr.FoldLanes] accumulators into one number. The
// accumulators are stored row after row. Lane k is first combined with lane k+16, then with lane k+8, and so on, as
// machine code combines halves of vectors. Combine returns nil for operations and dtypes without folds.
func Combine(op expr.Op, dtype tensor.DType) func(dst, acc unsafe.Pointer, n int) {
	switch op {
	case expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or:
	default:
		return nil
	}
	if !dtype.Valid() || dtype.IsComplex() || table[op][dtype] == nil {
		return nil
	}
	operation, size := table[op][dtype], dtype.Size()
	return func(dst, acc unsafe.Pointer, n int) {
		for i := range n {
			lanes := operand{unsafe.Add(acc, i*expr.FoldLanes*size), 0, size}
			for half := expr.FoldLanes / 2; half > 0; half /= 2 {
				pair := operands{dst: lanes, a: lanes, b: operand{lanes.ptr, half * size, size}, n: half}
				if half == 1 {
					pair.dst.ptr = unsafe.Add(dst, i*size)
				}
				operation(pair)
			}
		}
	}
}
