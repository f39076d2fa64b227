package interp

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the loops of mixed operations (mixed.go). A mixedOp has the operation, the dtype of its operands, the
// dtype in which it computes, and the dtype of its result. each2 (loops.go) calls a function for each pair of elements.

// mixedTable has the loops of mixed operations.
type mixedTable map[mixedOp]loop

var mixedLoops = func() mixedTable {
	t := mixedTable{}
	setMixedIntegers[uint8, uint32](t, tensor.Uint8, tensor.Uint32)
	setMixedIntegers[uint16, uint32](t, tensor.Uint16, tensor.Uint32)
	setMixedIntegers[int8, int32](t, tensor.Int8, tensor.Int32)
	setMixedIntegers[int16, int32](t, tensor.Int16, tensor.Int32)
	setComparisons[int8](t, tensor.Int8)
	setComparisons[int16](t, tensor.Int16)
	setComparisons[int32](t, tensor.Int32)
	setComparisons[int64](t, tensor.Int64)
	setComparisons[uint8](t, tensor.Uint8)
	setComparisons[float32](t, tensor.Float32)
	setComparisons[float64](t, tensor.Float64)
	t.setFloat32s()
	t.setBFloat16s()
	t.setFloat16s()
	return t
}()

// set sets three loops of an operation that computes in dtype wide. fromNarrow has narrow operands and a wide result,
// toNarrow has wide operands and a narrow result, and both has narrow operands and a narrow result.
func (t mixedTable) set(op expr.Op, narrow, wide tensor.DType, fromNarrow, toNarrow, both loop) {
	t[mixedOp{op, narrow, wide, wide}] = fromNarrow
	t[mixedOp{op, wide, wide, narrow}] = toNarrow
	t[mixedOp{op, narrow, wide, narrow}] = both
}

// setMixedIntegers sets the shifts of a dtype W of 32 bits with operands and results of a dtype N. It is not inlined,
// because the compiler would then not inline the operations into their loops.
//
//go:noinline
func setMixedIntegers[N, W integer](t mixedTable, narrow, wide tensor.DType) {
	t[mixedOp{expr.Shl, narrow, wide, narrow}] = func(o operands) {
		each2(&o, func(x, y N) N { return N(W(x) << (uint32(y) & 31)) })
	}
	t[mixedOp{expr.Shr, narrow, wide, narrow}] = func(o operands) {
		each2(&o, func(x, y N) N { return N(W(x) >> (uint32(y) & 31)) })
	}
}

// setComparisons sets the comparisons whose results are converted to the dtype of the operands. It is not inlined
// either.
//
//go:noinline
func setComparisons[T integer | float](t mixedTable, dtype tensor.DType) {
	set := func(op expr.Op, compare loop) { t[mixedOp{op, dtype, dtype, dtype}] = compare }
	set(expr.Eq, func(o operands) { each2(&o, func(x, y T) T { return T(oneIf(x == y)) }) })
	set(expr.Ne, func(o operands) { each2(&o, func(x, y T) T { return T(oneIf(x != y)) }) })
	set(expr.Lt, func(o operands) { each2(&o, func(x, y T) T { return T(oneIf(x < y)) }) })
	set(expr.Le, func(o operands) { each2(&o, func(x, y T) T { return T(oneIf(x <= y)) }) })
}

// setFloat32s sets the arithmetic of float64 with operands or results of float32.
func (t mixedTable) setFloat32s() {
	const narrow, wide = tensor.Float32, tensor.Float64
	t.set(expr.Add, narrow, wide,
		func(o operands) { each2(&o, func(x, y float32) float64 { return float64(x) + float64(y) }) },
		func(o operands) { each2(&o, func(x, y float64) float32 { return float32(x + y) }) },
		func(o operands) { each2(&o, func(x, y float32) float32 { return float32(float64(x) + float64(y)) }) })
	t.set(expr.Sub, narrow, wide,
		func(o operands) { each2(&o, func(x, y float32) float64 { return float64(x) - float64(y) }) },
		func(o operands) { each2(&o, func(x, y float64) float32 { return float32(x - y) }) },
		func(o operands) { each2(&o, func(x, y float32) float32 { return float32(float64(x) - float64(y)) }) })
	t.set(expr.Mul, narrow, wide,
		func(o operands) { each2(&o, func(x, y float32) float64 { return float64(x) * float64(y) }) },
		func(o operands) { each2(&o, func(x, y float64) float32 { return float32(x * y) }) },
		func(o operands) { each2(&o, func(x, y float32) float32 { return float32(float64(x) * float64(y)) }) })
	t.set(expr.Div, narrow, wide,
		func(o operands) { each2(&o, func(x, y float32) float64 { return float64(x) / float64(y) }) },
		func(o operands) { each2(&o, func(x, y float64) float32 { return float32(x / y) }) },
		func(o operands) { each2(&o, func(x, y float32) float32 { return float32(float64(x) / float64(y)) }) })
}

// setBFloat16s sets the arithmetic of float32 with operands or results of bfloat16.
func (t mixedTable) setBFloat16s() {
	type bf16 = tensor.BF16
	const narrow, wide = tensor.BFloat16, tensor.Float32
	t.set(expr.Add, narrow, wide,
		func(o operands) { each2(&o, func(x, y bf16) float32 { return x.Float32() + y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) bf16 { return tensor.BF16Of(x + y) }) },
		func(o operands) {
			each2(&o, func(x, y bf16) bf16 { return tensor.BF16Of(x.Float32() + y.Float32()) })
		})
	t.set(expr.Sub, narrow, wide,
		func(o operands) { each2(&o, func(x, y bf16) float32 { return x.Float32() - y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) bf16 { return tensor.BF16Of(x - y) }) },
		func(o operands) {
			each2(&o, func(x, y bf16) bf16 { return tensor.BF16Of(x.Float32() - y.Float32()) })
		})
	t.set(expr.Mul, narrow, wide,
		func(o operands) { each2(&o, func(x, y bf16) float32 { return x.Float32() * y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) bf16 { return tensor.BF16Of(x * y) }) },
		func(o operands) {
			each2(&o, func(x, y bf16) bf16 { return tensor.BF16Of(x.Float32() * y.Float32()) })
		})
	t.set(expr.Div, narrow, wide,
		func(o operands) { each2(&o, func(x, y bf16) float32 { return x.Float32() / y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) bf16 { return tensor.BF16Of(x / y) }) },
		func(o operands) {
			each2(&o, func(x, y bf16) bf16 { return tensor.BF16Of(x.Float32() / y.Float32()) })
		})
}

// setFloat16s sets the arithmetic of float32 with operands or results of float16.
func (t mixedTable) setFloat16s() {
	type half = tensor.Half
	const narrow, wide = tensor.Float16, tensor.Float32
	t.set(expr.Add, narrow, wide,
		func(o operands) { each2(&o, func(x, y half) float32 { return x.Float32() + y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) half { return tensor.HalfOf(x + y) }) },
		func(o operands) {
			each2(&o, func(x, y half) half { return tensor.HalfOf(x.Float32() + y.Float32()) })
		})
	t.set(expr.Sub, narrow, wide,
		func(o operands) { each2(&o, func(x, y half) float32 { return x.Float32() - y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) half { return tensor.HalfOf(x - y) }) },
		func(o operands) {
			each2(&o, func(x, y half) half { return tensor.HalfOf(x.Float32() - y.Float32()) })
		})
	t.set(expr.Mul, narrow, wide,
		func(o operands) { each2(&o, func(x, y half) float32 { return x.Float32() * y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) half { return tensor.HalfOf(x * y) }) },
		func(o operands) {
			each2(&o, func(x, y half) half { return tensor.HalfOf(x.Float32() * y.Float32()) })
		})
	t.set(expr.Div, narrow, wide,
		func(o operands) { each2(&o, func(x, y half) float32 { return x.Float32() / y.Float32() }) },
		func(o operands) { each2(&o, func(x, y float32) half { return tensor.HalfOf(x / y) }) },
		func(o operands) {
			each2(&o, func(x, y half) half { return tensor.HalfOf(x.Float32() / y.Float32()) })
		})
}
