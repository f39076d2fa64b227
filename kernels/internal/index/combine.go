package index

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// reduction is the way in which a scatter combines an element of the plain operand with an element of the table. The
// package documentation explains "plain operand" and "table".
type reduction uint8

const (
	combineSet reduction = iota
	combineAdd
	combineMul
	combineMax
	combineMin
)

// reductionByName maps the attribute values of scatter ops to reductions. A mean adds the elements; a later phase
// divides the sums.
var reductionByName = map[string]reduction{"": combineSet, "none": combineSet, "add": combineAdd, "sum": combineAdd,
	"mean":     combineAdd,
	"multiply": combineMul, "mul": combineMul, "prod": combineMul, "amax": combineMax, "max": combineMax,
	"amin": combineMin, "min": combineMin}

// realElement is the type constraint of loops over real numbers.
type realElement interface {
	uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64 | float32 | float64
}

// writeOps returns the loops over a row that combine elements of the plain operand into the table. combineAdd
// multiplies the elements of the plain operand by alpha; the other reductions ignore alpha.
func writeOps(d tensor.DType, how reduction, alpha tensor.Scalar) kit.RowOps {
	if how == combineSet {
		move := kit.Mover(d, d)
		return kit.RowOps{
			Strided:  func(plain, table unsafe.Pointer, ns, fs, n int) { move(table, plain, fs, ns, n) },
			AtPlaces: kit.ScatterLoops[d.Size()],
		}
	}
	switch d {
	case tensor.Bool:
		return combineBits(how, alpha)
	case tensor.Uint8:
		return combineReal(how, uint8(alpha.Int()))
	case tensor.Int8:
		return combineReal(how, int8(alpha.Int()))
	case tensor.Int16:
		return combineReal(how, int16(alpha.Int()))
	case tensor.Int32:
		return combineReal(how, int32(alpha.Int()))
	case tensor.Int64:
		return combineReal(how, alpha.Int())
	case tensor.Uint16:
		return combineReal(how, uint16(alpha.Int()))
	case tensor.Uint32:
		return combineReal(how, uint32(alpha.Int()))
	case tensor.Uint64:
		return combineReal(how, uint64(alpha.Int()))
	case tensor.Float32:
		return combineReal(how, float32(alpha.Float()))
	case tensor.Float64:
		return combineReal(how, alpha.Float())
	case tensor.Float16:
		return combineHalf(how, float32(alpha.Float()), tensor.Half.Float32, tensor.HalfOf)
	case tensor.BFloat16:
		return combineHalf(how, float32(alpha.Float()), tensor.BF16.Float32, tensor.BF16Of)
	case tensor.Complex64:
		return combineComplex(how, complex64(alpha.Complex()))
	}
	return combineComplex(how, alpha.Complex())
}

// combinedOps returns the loops over a row that call f for each pair of elements. f combines the element at the address
// plain into the element at the address table.
func combinedOps(f func(table, plain unsafe.Pointer)) kit.RowOps {
	return kit.RowOps{
		Strided: func(plain, table unsafe.Pointer, ns, fs, n int) {
			for i := range n {
				f(unsafe.Add(table, i*fs), unsafe.Add(plain, i*ns))
			}
		},
		AtPlaces: func(plain, table unsafe.Pointer, ns int, positions []int) {
			for i, at := range positions {
				f(unsafe.Add(table, at), unsafe.Add(plain, i*ns))
			}
		},
	}
}

// combineReal returns the loops for real numbers. combineHalf returns the loops for 16-bit floats, combineComplex for
// complex numbers, and combineBits for bools.
func combineReal[T realElement](how reduction, alpha T) kit.RowOps {
	switch how {
	case combineAdd:
		return combinedOps(func(table, plain unsafe.Pointer) { *(*T)(table) += T(alpha * *(*T)(plain)) })
	case combineMul:
		return combinedOps(func(table, plain unsafe.Pointer) { *(*T)(table) *= *(*T)(plain) })
	}
	return combinedOps(func(table, plain unsafe.Pointer) {
		a, b := *(*T)(table), *(*T)(plain)
		if how == combineMax && b > a || how == combineMin && b < a || b != b {
			*(*T)(table) = b
		}
	})
}

func combineHalf[H tensor.Half | tensor.BF16](how reduction, alpha float32, load func(H) float32,
	store func(float32) H) kit.RowOps {
	return combinedOps(func(table, plain unsafe.Pointer) {
		a, b := load(*(*H)(table)), load(*(*H)(plain))
		switch {
		case how == combineAdd:
			a += float32(alpha * b)
		case how == combineMul:
			a *= b
		case how == combineMax && b > a, how == combineMin && b < a, b != b:
			a = b
		}
		*(*H)(table) = store(a)
	})
}

func combineComplex[T complex64 | complex128](how reduction, alpha T) kit.RowOps {
	product := func(a, b T) T { return T(kit.TimesComplex(complex128(a), complex128(b))) }
	if how == combineAdd {
		return combinedOps(func(table, plain unsafe.Pointer) { *(*T)(table) += product(alpha, *(*T)(plain)) })
	}
	return combinedOps(func(table, plain unsafe.Pointer) { *(*T)(table) = product(*(*T)(table), *(*T)(plain)) })
}

func combineBits(how reduction, alpha tensor.Scalar) kit.RowOps {
	if how == combineAdd && alpha.Complex() == 0 {
		return combinedOps(func(_, _ unsafe.Pointer) {})
	}
	if how == combineAdd || how == combineMax {
		return combinedOps(func(table, plain unsafe.Pointer) { *(*uint8)(table) |= *(*uint8)(plain) })
	}
	return combinedOps(func(table, plain unsafe.Pointer) { *(*uint8)(table) &= *(*uint8)(plain) })
}

// refCombine combines element b into element a in references. It computes in float64, int64 or complex128.
func refCombine(d tensor.DType, how reduction, alpha, a, b tensor.Scalar) tensor.Scalar {
	if how == combineSet {
		return b
	}
	f := kit.ByKind(func(x []int64) int64 {
		switch {
		case how == combineAdd:
			if d == tensor.Bool {
				return x[0] | alpha.Tensor(d).At().Int()&x[1]
			}
			return x[0] + alpha.Int()*x[1]
		case how == combineMul:
			return x[0] * x[1]
		case how == combineMax && d == tensor.Uint64:
			return int64(max(uint64(x[0]), uint64(x[1])))
		case d == tensor.Uint64:
			return int64(min(uint64(x[0]), uint64(x[1])))
		case how == combineMax:
			return max(x[0], x[1])
		}
		return min(x[0], x[1])
	}, func(x []float64) float64 {
		switch how {
		case combineAdd:
			return x[0] + float64(alpha.Float()*x[1])
		case combineMul:
			return x[0] * x[1]
		case combineMax:
			return max(x[0], x[1])
		}
		return min(x[0], x[1])
	}, func(x []complex128) complex128 {
		if how == combineAdd {
			return x[0] + kit.TimesComplex(alpha.Complex(), x[1])
		}
		return kit.TimesComplex(x[0], x[1])
	})
	return f(d, []tensor.Scalar{a, b})
}
