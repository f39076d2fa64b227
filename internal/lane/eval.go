package lane

import (
	"math"
	"math/big"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Eval computes an operation for one lane, from the operands x. It is the definition of the operations from Convert to
// Limit, for tests, and is slow. dtype is the dtype of the result. operandDType is the dtype of the operands or, for a
// Select, of the second and third operand. Numbers are given as their bits, zero-extended; bools are 0 or 1. For
// example, Add of the int8 operands 0x7F (127) and 0x01 returns 0x80 (-128).
func Eval(op Op, dtype, operandDType tensor.DType, x [3]uint64) uint64 {
	switch {
	case op == Convert:
		return evalConvert(dtype, operandDType, x[0])
	case op == Bits || op == Remask: // Bits changes only the dtype, and Remask only the width of a mask
		return x[0]
	case op == Select:
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	case !operandDType.IsFloat():
		return evalInt(operandDType, op, x)
	}
	return evalFloatBits(operandDType, op, x)
}

// evalConvert converts a number. It is a separate function because its operand escapes to the heap. Other operations
// then do not allocate memory.
func evalConvert(dtype, operandDType tensor.DType, x uint64) (to uint64) {
	const stride, count = 0, 1 // the converter converts count elements; a single one needs no stride
	tensor.Converter(dtype, operandDType)(unsafe.Pointer(&to), unsafe.Pointer(&x), stride, stride, count)
	return to
}

// evalFloatBits computes an operation on floats that are given as bits. Except for comparisons and FMA of float32,
// evalFloat64 computes the result.
func evalFloatBits(dtype tensor.DType, op Op, x [3]uint64) uint64 {
	var floats [3]float64
	for k := range floats {
		floats[k] = math.Float64frombits(x[k])
		if dtype == tensor.Float32 {
			floats[k] = float64(math.Float32frombits(uint32(x[k])))
		}
	}
	switch op {
	case Eq:
		return boolBits(floats[0] == floats[1])
	case Ne:
		return boolBits(floats[0] != floats[1])
	case Lt:
		return boolBits(floats[0] < floats[1])
	case Le:
		return boolBits(floats[0] <= floats[1])
	case FMA:
		if dtype == tensor.Float32 {
			return uint64(math.Float32bits(evalFMA32(floats[0], floats[1], floats[2])))
		}
	}
	result := evalFloat64(op, floats)
	// For float32, rounding the float64 result gives the correctly rounded float32 result, because float64 has more than
	// twice the precision.
	if dtype == tensor.Float32 {
		return uint64(math.Float32bits(float32(result)))
	}
	return math.Float64bits(result)
}

// boolBits returns 1 for true and 0 for false.
func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// evalFMA32 returns a*b + c, rounded once.
func evalFMA32(a, b, c float64) float32 {
	product := float64(a * b) // exact: the factors have 24 bits
	sum := product + c
	if sum == 0 || math.IsInf(sum, 0) || sum != sum {
		return float32(sum) // a sum that is 0 in float64 is exact
	}
	// Rounding to float64 and then to float32 differs from a single rounding only if the float64 is exactly halfway
	// between two float32 numbers. The conversion of a normal number drops the last 29 bits, which are 1 followed by
	// zeros in this case. The conversion to a subnormal number drops more bits, so sums below 2^-126 are computed
	// exactly.
	const droppedBits, leastNormal = 1<<29 - 1, 0x1p-126
	if math.Abs(sum) >= leastNormal && math.Float64bits(sum)&droppedBits != (droppedBits+1)/2 {
		return float32(sum)
	}
	exactSum := new(big.Float).SetPrec(2000).SetFloat64(product) // exact: numbers are multiples of 2^-298 below 2^257
	rounded, _ := exactSum.Add(exactSum, new(big.Float).SetFloat64(c)).Float32()
	return rounded
}

// evalFloat64 computes an operation whose operands and result are float64.
func evalFloat64(op Op, x [3]float64) float64 {
	a, b := x[0], x[1]
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case FMA:
		return math.FMA(a, b, x[2])
	case Neg:
		return -a
	case Abs:
		return math.Abs(a)
	case Sqrt:
		return math.Sqrt(a)
	case Min:
		if a != a || a < b {
			return a
		}
		return b
	case Max:
		if a != a || a > b {
			return a
		}
		return b
	case Floor:
		return math.Floor(a)
	case Ceil:
		return math.Ceil(a)
	case Trunc:
		return math.Trunc(a)
	case Mod:
		return math.Mod(a, b)
	case Scale:
		return Scaled(a, b)
	case Limit:
		return Limited(a, b)
	}
	return math.RoundToEven(a) // Rint
}

// Scaled returns x*2^floor(power), rounded once. It is the operation Scale.
func Scaled(x, power float64) float64 {
	if power != power {
		return power
	}
	const limit = 4096 // 2^-limit*x is 0 and 2^limit*x is infinite for every finite x except 0
	return math.Ldexp(x, int(math.Floor(max(-limit, min(power, limit)))))
}

// Limited returns x if |x| < |limit|, else |limit| with the sign of x. It is the operation Limit.
func Limited(x, limit float64) float64 {
	limit = math.Abs(limit)
	if math.Abs(x) < limit {
		return x
	}
	return math.Copysign(limit, x)
}

// evalInt computes with integers of any width and with bools. It sign-extends signed operands to 64 bits, computes with
// evalInt64, and truncates the result to the dtype.
func evalInt(dtype tensor.DType, op Op, x [3]uint64) uint64 {
	width := 8 * dtype.Size()
	a, b := int64(x[0]), int64(x[1])
	isLess := x[0] < x[1]
	if dtype.IsSigned() {
		a, b = a<<(64-width)>>(64-width), b<<(64-width)>>(64-width)
		isLess = a < b
	}
	switch op {
	case Min, Max:
		if isLess == (op == Min) {
			return x[0]
		}
		return x[1]
	case Eq:
		return boolBits(x[0] == x[1])
	case Ne:
		return boolBits(x[0] != x[1])
	case Lt:
		return boolBits(isLess)
	case Le:
		return boolBits(isLess || x[0] == x[1])
	case Not:
		if dtype == tensor.Bool {
			return x[0] ^ 1
		}
	}
	return uint64(evalInt64(dtype, op, a, b, x)) & (^uint64(0) >> (64 - width))
}

// evalInt64 computes an operation on integers or bools in 64 bits. Only the low bits of the result that fit in dtype
// are meaningful. a and b are x[0] and x[1], sign-extended if the dtype is signed.
func evalInt64(dtype tensor.DType, op Op, a, b int64, x [3]uint64) int64 {
	shift := x[1] & uint64(8*dtype.Size()-1)
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		switch {
		case b == 0:
			return 0
		case dtype.IsSigned():
			return a / b
		}
		return int64(x[0] / x[1])
	case Neg:
		return -a
	case Abs:
		if dtype.IsSigned() && a < 0 {
			return -a
		}
		return a
	case And:
		return a & b
	case Or:
		return a | b
	case Xor:
		return a ^ b
	case Shl:
		return a << shift
	case Shr:
		if dtype.IsSigned() {
			return a >> shift
		}
		return int64(x[0] >> shift)
	}
	return ^a // Not
}
