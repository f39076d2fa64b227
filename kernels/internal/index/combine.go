package index

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the inner loops of scatters. A loop combines each element of a row of the plain operand (the source of
// the scatter) into an element of the table (the value that is written), at a constant step or at given offsets, in
// bytes:
//
//	table[i*tableStep] = combine(table[i*tableStep], plain[i*plainStep])
//	table[offsets[i]]  = combine(table[offsets[i]],  plain[i*plainStep])

// combineMode is the way in which a scatter combines an element of the plain operand with an element of the table.
type combineMode uint8

const (
	combineSet combineMode = iota
	combineAdd
	combineMul
	combineMax
	combineMin
)

// isExtremum reports whether the mode compares elements, which complex numbers do not support.
func (mode combineMode) isExtremum() bool { return mode == combineMax || mode == combineMin }

// combineModeByName maps the values of the attribute reduce of scatter ops to modes. A mean adds the elements; a later
// phase divides the sums.
var combineModeByName = map[string]combineMode{"": combineSet, "none": combineSet, "add": combineAdd, "sum": combineAdd,
	"mean": combineAdd, "multiply": combineMul, "mul": combineMul, "prod": combineMul, "amax": combineMax,
	"max": combineMax, "amin": combineMin, "min": combineMin}

// scatterRowLoops returns the loops over a row that combine elements of the plain operand into the table. combineAdd
// multiplies the elements of the plain operand by alpha; the other modes ignore alpha.
func scatterRowLoops(dtype tensor.DType, mode combineMode, alpha tensor.Scalar) kit.RowLoops {
	if mode == combineSet {
		copyRow := kit.RowConverter(dtype, dtype)
		return kit.RowLoops{
			Strided: func(plain, table unsafe.Pointer, plainStep, tableStep, n int) {
				copyRow(table, plain, tableStep, plainStep, n)
			},
			AtOffsets: kit.ScatterLoops[dtype.Size()],
		}
	}
	switch dtype {
	case tensor.Bool:
		return combineBits(mode, alpha)
	case tensor.Uint8:
		return combineReal(mode, uint8(alpha.Int()))
	case tensor.Int8:
		return combineReal(mode, int8(alpha.Int()))
	case tensor.Int16:
		return combineReal(mode, int16(alpha.Int()))
	case tensor.Int32:
		return combineReal(mode, int32(alpha.Int()))
	case tensor.Int64:
		return combineReal(mode, alpha.Int())
	case tensor.Uint16:
		return combineReal(mode, uint16(alpha.Int()))
	case tensor.Uint32:
		return combineReal(mode, uint32(alpha.Int()))
	case tensor.Uint64:
		return combineReal(mode, uint64(alpha.Int()))
	case tensor.Float32:
		return combineReal(mode, float32(alpha.Float()))
	case tensor.Float64:
		return combineReal(mode, alpha.Float())
	case tensor.Float16:
		return combineHalf(mode, float32(alpha.Float()), tensor.Half.Float32, tensor.HalfOf)
	case tensor.BFloat16:
		return combineHalf(mode, float32(alpha.Float()), tensor.BF16.Float32, tensor.BF16Of)
	case tensor.Complex64:
		return combineComplex(mode, complex64(alpha.Complex()))
	}
	return combineComplex(mode, alpha.Complex())
}

// combineEach returns the loops over a row that call combine for each pair of elements. combine combines the element at
// the address plain into the element at the address table.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func combineEach(combine func(table, plain unsafe.Pointer)) kit.RowLoops {
	return kit.RowLoops{
		Strided: func(plain, table unsafe.Pointer, plainStep, tableStep, n int) {
			for i := range n {
				combine(unsafe.Add(table, i*tableStep), unsafe.Add(plain, i*plainStep))
			}
		},
		AtOffsets: func(plain, table unsafe.Pointer, plainStep int, offsets []int) {
			for i, offset := range offsets {
				combine(unsafe.Add(table, offset), unsafe.Add(plain, i*plainStep))
			}
		},
	}
}

// realElement is the type constraint of loops over real numbers.
type realElement interface {
	uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64 | float32 | float64
}

// combineReal returns the loops for real numbers.
func combineReal[T realElement](mode combineMode, alpha T) kit.RowLoops {
	switch mode {
	case combineAdd:
		return combineEach(func(table, plain unsafe.Pointer) {
			*(*T)(table) += T(alpha * *(*T)(plain)) // T(...) prevents a fused multiply-add
		})
	case combineMul:
		return combineEach(func(table, plain unsafe.Pointer) { *(*T)(table) *= *(*T)(plain) })
	}
	return combineEach(func(table, plain unsafe.Pointer) {
		a, b := *(*T)(table), *(*T)(plain)
		// A NaN in a stays, because comparisons with it are false. A NaN in b replaces a.
		if mode == combineMax && b > a || mode == combineMin && b < a || b != b {
			*(*T)(table) = b
		}
	})
}

// combineHalf returns the loops for 16-bit floats, which compute in float32.
func combineHalf[H tensor.Half | tensor.BF16](mode combineMode, alpha float32, load func(H) float32,
	store func(float32) H) kit.RowLoops {
	return combineEach(func(table, plain unsafe.Pointer) {
		a, b := load(*(*H)(table)), load(*(*H)(plain))
		switch {
		case mode == combineAdd:
			a += float32(alpha * b)
		case mode == combineMul:
			a *= b
		case mode == combineMax && b > a, mode == combineMin && b < a, b != b:
			a = b
		}
		*(*H)(table) = store(a)
	})
}

// combineComplex returns the loops for complex numbers, which have the modes combineAdd and combineMul.
func combineComplex[T complex64 | complex128](mode combineMode, alpha T) kit.RowLoops {
	product := func(a, b T) T { return T(kit.MulComplex(complex128(a), complex128(b))) }
	if mode == combineAdd {
		return combineEach(func(table, plain unsafe.Pointer) { *(*T)(table) += product(alpha, *(*T)(plain)) })
	}
	return combineEach(func(table, plain unsafe.Pointer) { *(*T)(table) = product(*(*T)(table), *(*T)(plain)) })
}

// combineBits returns the loops for bools: a sum or a maximum is an or, and a product or a minimum is an and. Addition
// with alpha 0 changes nothing.
func combineBits(mode combineMode, alpha tensor.Scalar) kit.RowLoops {
	if mode == combineAdd && alpha.Complex() == 0 {
		return combineEach(func(_, _ unsafe.Pointer) {})
	}
	if mode == combineAdd || mode == combineMax {
		return combineEach(func(table, plain unsafe.Pointer) { *(*uint8)(table) |= *(*uint8)(plain) })
	}
	return combineEach(func(table, plain unsafe.Pointer) { *(*uint8)(table) &= *(*uint8)(plain) })
}

// refCombine combines element b of the plain operand into element a of the table, for references, and returns the
// result. It computes in int64, float64 or complex128.
func refCombine(dtype tensor.DType, mode combineMode, alpha, a, b tensor.Scalar) tensor.Scalar {
	if mode == combineSet {
		return b
	}
	combine := kit.ByDTypeKind(
		func(x []int64) int64 { return refCombineIntegers(dtype, mode, alpha, x[0], x[1]) },
		func(x []float64) float64 { return refCombineFloats(mode, alpha, x[0], x[1]) },
		func(x []complex128) complex128 {
			if mode == combineAdd {
				return x[0] + kit.MulComplex(alpha.Complex(), x[1])
			}
			return kit.MulComplex(x[0], x[1])
		})
	return combine(dtype, []tensor.Scalar{a, b})
}

// refCombineIntegers is refCombine for integers and bools. A uint64 has the bits of an int64.
func refCombineIntegers(dtype tensor.DType, mode combineMode, alpha tensor.Scalar, a, b int64) int64 {
	switch {
	case mode == combineAdd && dtype == tensor.Bool:
		return a | alpha.Tensor(dtype).At().Int()&b // alpha as a bool
	case mode == combineAdd:
		return a + alpha.Int()*b
	case mode == combineMul:
		return a * b
	case mode == combineMax && dtype == tensor.Uint64:
		return int64(max(uint64(a), uint64(b)))
	case dtype == tensor.Uint64: // combineMin
		return int64(min(uint64(a), uint64(b)))
	case mode == combineMax:
		return max(a, b)
	}
	return min(a, b)
}

// refCombineFloats is refCombine for floats. max and min propagate NaN.
func refCombineFloats(mode combineMode, alpha tensor.Scalar, a, b float64) float64 {
	switch mode {
	case combineAdd:
		return a + float64(alpha.Float()*b)
	case combineMul:
		return a * b
	case combineMax:
		return max(a, b)
	}
	return min(a, b)
}
