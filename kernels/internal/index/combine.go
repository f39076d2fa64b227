package index

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the inner loops of scatters. A loop combines each element of a row of the plain operand (the source of
// the scatter) into an element of the table (the value that is written). The elements of the table are at a constant
// step or at given offsets. Steps and offsets are in bytes:
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
	switch {
	case dtype == tensor.Bool:
		return combineBits(mode, alpha)
	case dtype == tensor.Float16:
		return combineHalf(mode, float32(alpha.Float()), tensor.Half.Float32, tensor.HalfOf)
	case dtype == tensor.BFloat16:
		return combineHalf(mode, float32(alpha.Float()), tensor.BF16.Float32, tensor.BF16Of)
	case dtype == tensor.Complex64:
		return combineComplex(mode, complex64(alpha.Complex()))
	case dtype == tensor.Complex128:
		return combineComplex(mode, alpha.Complex())
	case mode.isExtremum():
		isMax := mode == combineMax
		return combineRows(func(row combinedRow) { extremumLoops[dtype](row, isMax) })
	}
	return arithmeticRows(dtype, mode, alpha)
}

// combinedRow is a row of the plain operand and the elements of the table that it is combined into. If offsets is nil,
// element i of the table is at table + i*tableStep, else at table + offsets[i].
type combinedRow struct {
	plain, table         unsafe.Pointer
	plainStep, tableStep int
	n                    int // number of elements
	offsets              []int
}

// tableAddress returns the address of element i of the table.
func (row *combinedRow) tableAddress(i int) unsafe.Pointer {
	if row.offsets != nil {
		return unsafe.Add(row.table, row.offsets[i])
	}
	return unsafe.Add(row.table, i*row.tableStep)
}

// combineRows returns the loops that call combine for a row.
func combineRows(combine func(row combinedRow)) kit.RowLoops {
	return kit.RowLoops{
		Strided: func(plain, table unsafe.Pointer, plainStep, tableStep, n int) {
			combine(combinedRow{plain: plain, table: table, plainStep: plainStep, tableStep: tableStep, n: n})
		},
		AtOffsets: func(plain, table unsafe.Pointer, plainStep int, offsets []int) {
			combine(combinedRow{plain: plain, table: table, plainStep: plainStep, n: len(offsets), offsets: offsets})
		},
	}
}

// combineEach returns the loops that call combine for each pair of elements. combine combines the element at the
// address plain into the element at the address table.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func combineEach(combine func(table, plain unsafe.Pointer)) kit.RowLoops {
	return combineRows(func(row combinedRow) {
		for i := range row.n {
			combine(row.tableAddress(i), unsafe.Add(row.plain, i*row.plainStep))
		}
	})
}

// arithmeticRows returns the loops for a sum or a product of real numbers. Integers of one size have the same loops:
// the low bits of their sums and products do not depend on their signs.
func arithmeticRows(dtype tensor.DType, mode combineMode, alpha tensor.Scalar) kit.RowLoops {
	isSum := mode == combineAdd
	switch {
	case dtype == tensor.Float32:
		return arithmeticLoops(isSum, float32(alpha.Float()))
	case dtype == tensor.Float64:
		return arithmeticLoops(isSum, alpha.Float())
	case dtype.Size() == 1:
		return arithmeticLoops(isSum, uint8(alpha.Int()))
	case dtype.Size() == 2:
		return arithmeticLoops(isSum, uint16(alpha.Int()))
	case dtype.Size() == 4:
		return arithmeticLoops(isSum, uint32(alpha.Int()))
	}
	return arithmeticLoops(isSum, uint64(alpha.Int()))
}

// arithmeticElement is the type constraint of loops that add or multiply.
type arithmeticElement interface {
	uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// arithmeticLoops is arithmeticRows for elements of type T.
func arithmeticLoops[T arithmeticElement](isSum bool, alpha T) kit.RowLoops {
	if isSum {
		return combineRows(func(row combinedRow) { addRow(row, alpha) })
	}
	return combineRows(mulRow[T])
}

// addRow adds the elements of a row, multiplied by alpha, to the table. T(...) prevents a fused multiply-add.
func addRow[T arithmeticElement](row combinedRow, alpha T) {
	plain, table, plainStep, tableStep := row.plain, row.table, row.plainStep, row.tableStep
	size := int(unsafe.Sizeof(alpha))
	switch {
	case row.offsets != nil:
		for i, offset := range row.offsets {
			*(*T)(unsafe.Add(table, offset)) += T(alpha * *(*T)(unsafe.Add(plain, i*plainStep)))
		}
	case plainStep == size && tableStep == size:
		sums := unsafe.Slice((*T)(table), row.n)
		for i, x := range unsafe.Slice((*T)(plain), row.n)[:len(sums)] {
			sums[i] += T(alpha * x)
		}
	default:
		for i := range row.n {
			*(*T)(unsafe.Add(table, i*tableStep)) += T(alpha * *(*T)(unsafe.Add(plain, i*plainStep)))
		}
	}
}

// mulRow multiplies the table by the elements of a row.
func mulRow[T arithmeticElement](row combinedRow) {
	for i := range row.n {
		*(*T)(row.tableAddress(i)) *= *(*T)(unsafe.Add(row.plain, i*row.plainStep))
	}
}

// extremumLoops has the loops over a row that compute the maximum, or the minimum if isMax is not set, by dtype.
var extremumLoops = [tensor.Complex128 + 1]func(row combinedRow, isMax bool){
	tensor.Uint8: extremumRow[uint8], tensor.Int8: extremumRow[int8], tensor.Int16: extremumRow[int16],
	tensor.Int32: extremumRow[int32], tensor.Int64: extremumRow[int64], tensor.Uint16: extremumRow[uint16],
	tensor.Uint32: extremumRow[uint32], tensor.Uint64: extremumRow[uint64], tensor.Float32: extremumRow[float32],
	tensor.Float64: extremumRow[float64]}

// realElement is the type constraint of loops that compare real numbers.
type realElement interface {
	uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64 | float32 | float64
}

// extremumRow replaces elements of the table by greater elements of a row, or by lesser ones if isMax is not set.
func extremumRow[T realElement](row combinedRow, isMax bool) {
	for i := range row.n {
		element := (*T)(row.tableAddress(i))
		a, b := *element, *(*T)(unsafe.Add(row.plain, i*row.plainStep))
		low, high := a, b
		if !isMax {
			low, high = b, a
		}
		// A NaN in a stays, because comparisons with it are false. A NaN in b replaces a. The choice from an array has no
		// branch, which the processor would predict wrongly for random elements.
		choice := uint8(0)
		if high > low {
			choice = 1
		}
		isNaN := uint8(0)
		if b != b {
			isNaN = 1
		}
		*element = [2]T{a, b}[(choice|isNaN)&1]
	}
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
