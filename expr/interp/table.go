package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// integer lists the Go types of the integer dtypes.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// float lists the Go types of the floats that have arithmetic.
type float interface{ float32 | float64 }

// word is an unsigned integer with the bits of an element.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// loopFor returns the loop of an instruction, or nil if there is no loop for it. Most loops are in the table. The other
// operations copy bits, or have loops that depend on more than the operation and the dtype of the operands.
func loopFor(code *expr.Code, inst expr.Inst) loop {
	dtype := inst.DType
	switch inst.Op {
	case expr.Load, expr.Bits:
		return moves[sizeIndex(dtype.Size())]
	case expr.Select:
		return selects[sizeIndex(dtype.Size())]
	case expr.Convert:
		if code.Insts[inst.A].DType == tensor.Bool && dtype.Size() == 1 { // a bool is the byte 0 or 1
			return moves[0]
		}
		convert := tensor.Converter(dtype, code.Insts[inst.A].DType)
		return func(o operands) {
			convert(unsafe.Add(o.dst.ptr, o.dst.offset), unsafe.Add(o.a.ptr, o.a.offset), o.dst.stride, o.a.stride, o.n)
		}
	case expr.Lookup:
		entries := &elementary.Tables[inst.Imm]
		return func(o operands) { each1(&o, func(x uint32) float32 { return entries[x&31] }) }
	case expr.Call:
		if dtype == tensor.Float32 {
			return callOf[float32](code.Funcs[inst.Imm])
		}
		return callOf[float64](code.Funcs[inst.Imm])
	case expr.Eq, expr.Ne, expr.Lt, expr.Le: // the table has the dtype of the operands, not of the result
		dtype = code.Insts[inst.A].DType
	case expr.And, expr.Or, expr.Xor: // with a constant, the operation can also process 8 bytes at a time
		isConstA, isConstB := code.Insts[inst.A].Op == expr.Const, code.Insts[inst.B].Op == expr.Const
		if elements := table[inst.Op][dtype]; elements != nil && dtype.Size() < 8 && (isConstA || isConstB) {
			return inWords(elements, table[inst.Op][tensor.Uint64], dtype.Size(), isConstA, isConstB)
		}
	}
	return table[inst.Op][dtype]
}

// callOf returns the loop of an [expr.Func].
func callOf[T float](f *expr.Func) loop {
	narrowed := func(x, y, z T) T { return T(f.F(float64(x), float64(y), float64(z))) }
	return func(o operands) { each3(&o, narrowed) }
}

// loopTable has the loops of operations, indexed by operation and by dtype of the operands.
type loopTable [expr.Scan + 1][tensor.Complex64 + 1]loop

// table has the loops of most operations. loopFor makes the loops of the other operations. The functions each1, each2
// and each3 (loops.go) call a function for each element of one, two or three operands.
var table = func() *loopTable {
	t := new(loopTable)
	setIntegers[int8, int32](t, tensor.Int8)
	setIntegers[int16, int32](t, tensor.Int16)
	setIntegers[int32, int32](t, tensor.Int32)
	setIntegers[int64, int64](t, tensor.Int64)
	setIntegers[uint8, int32](t, tensor.Uint8)
	setIntegers[uint16, int32](t, tensor.Uint16)
	setIntegers[uint32, uint32](t, tensor.Uint32)
	setIntegers[uint64, uint64](t, tensor.Uint64)
	setFloats[float32, uint32](t, tensor.Float32)
	setFloats[float64, uint64](t, tensor.Float64)
	for _, op := range []expr.Op{expr.And, expr.Or, expr.Xor, expr.Eq, expr.Ne, expr.Lt, expr.Le} {
		t[op][tensor.Bool] = t[op][tensor.Uint8]
	}
	t[expr.Not][tensor.Bool] = func(o operands) { each1(&o, func(x uint8) uint8 { return x ^ 1 }) }
	t[expr.FMA][tensor.Float32] = func(o operands) { each3(&o, fma32) }
	// A call of math.FMA is compiled to one instruction. As a function value, math.FMA is a software implementation.
	t[expr.FMA][tensor.Float64] = func(o operands) {
		each3(&o, func(x, y, z float64) float64 { return math.FMA(x, y, z) })
	}
	t[expr.Mod][tensor.Float32] = float32ModLoop
	t[expr.Exp][tensor.Float32] = func(o operands) { each1(&o, elementary.Exp32) }
	const isConst = false // loopFor makes the loops with constants
	for _, op := range []expr.Op{expr.And, expr.Or, expr.Xor} {
		for _, dtype := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16,
			tensor.Int32, tensor.Uint32} {
			t[op][dtype] = inWords(t[op][dtype], t[op][tensor.Uint64], dtype.Size(), isConst, isConst)
		}
	}
	t[expr.Ne][tensor.Bool] = t[expr.Xor][tensor.Bool]
	t[expr.Eq][tensor.Complex64] = func(o operands) {
		each2(&o, func(x, y complex64) uint8 { return oneIf(real(x) == real(y)) & oneIf(imag(x) == imag(y)) })
	}
	t[expr.Ne][tensor.Complex64] = func(o operands) {
		each2(&o, func(x, y complex64) uint8 { return oneIf(real(x) != real(y)) | oneIf(imag(x) != imag(y)) })
	}
	return t
}()

// setNumbers sets the operations that are Go operators for all numbers.
func setNumbers[T integer | float](t *loopTable, dtype tensor.DType) {
	t[expr.Add][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x + y }) }
	t[expr.Sub][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x - y }) }
	t[expr.Mul][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x * y }) }
	t[expr.Neg][dtype] = func(o operands) { each1(&o, func(x T) T { return -x }) }
	t[expr.Eq][dtype] = func(o operands) { each2(&o, func(x, y T) bool { return x == y }) }
	t[expr.Ne][dtype] = func(o operands) { each2(&o, func(x, y T) bool { return x != y }) }
	t[expr.Lt][dtype] = func(o operands) { each2(&o, func(x, y T) bool { return x < y }) }
	t[expr.Le][dtype] = func(o operands) { each2(&o, func(x, y T) bool { return x <= y }) }
}

// setIntegers sets the operations of an integer dtype. W is a wider type in which elements are compared, because bytes
// have no conditional moves.
func setIntegers[T, W integer](t *loopTable, dtype tensor.DType) {
	setNumbers[T](t, dtype)
	t[expr.Div][dtype] = func(o operands) { each2(&o, func(x, y T) T { return T(quotient(W(x), W(y))) }) }
	t[expr.Min][dtype] = func(o operands) { each2(&o, func(x, y T) T { return T(min(W(x), W(y))) }) }
	t[expr.Max][dtype] = func(o operands) { each2(&o, func(x, y T) T { return T(max(W(x), W(y))) }) }
	t[expr.Abs][dtype] = func(o operands) { each1(&o, func(x T) T { return T(max(W(x), W(-x))) }) }
	if !dtype.IsSigned() {
		t[expr.Abs][dtype] = moves[sizeIndex(dtype.Size())]
	}
	t[expr.And][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x & y }) }
	t[expr.Or][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x | y }) }
	t[expr.Xor][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x ^ y }) }
	t[expr.Not][dtype] = func(o operands) { each1(&o, func(x T) T { return ^x }) }
	// The shift counts are masked by constants, so that the compiler omits the comparison with the size of the integer.
	t[expr.Shl][dtype] = func(o operands) {
		each2(&o, func(x, y T) T { return x << (uint64(y) & uint64(8*unsafe.Sizeof(x)-1)) })
	}
	t[expr.Shr][dtype] = func(o operands) {
		each2(&o, func(x, y T) T { return x >> (uint64(y) & uint64(8*unsafe.Sizeof(x)-1)) })
	}
}

// quotient returns x / y. A quotient by 0 is unspecified; it is 0 here.
func quotient[W integer](x, y W) W {
	if y == 0 {
		return 0
	}
	return x / y
}

// setFloats sets the operations of float32 or float64. U is the integer type with the size of T. Bits are selected as
// integers, by conditional moves; Go selects floats by branches, which would be unpredictable.
func setFloats[T float, U word](t *loopTable, dtype tensor.DType) {
	setNumbers[T](t, dtype)
	t[expr.Div][dtype] = func(o operands) { each2(&o, func(x, y T) T { return x / y }) }
	t[expr.Min][dtype] = func(o operands) { each2(&o, func(x, y T) U { return firstIf[U](x < y, x, y) }) }
	t[expr.Max][dtype] = func(o operands) { each2(&o, func(x, y T) U { return firstIf[U](x > y, x, y) }) }
	t[expr.Abs][dtype] = func(o operands) { each1(&o, func(x U) U { return x & (^U(0) >> 1) }) }
	t[expr.Sqrt][dtype] = func(o operands) { each1(&o, func(x T) T { return T(math.Sqrt(float64(x))) }) }
	t[expr.Floor][dtype] = func(o operands) { each1(&o, func(x T) T { return T(math.Floor(float64(x))) }) }
	t[expr.Ceil][dtype] = func(o operands) { each1(&o, func(x T) T { return T(math.Ceil(float64(x))) }) }
	t[expr.Trunc][dtype] = func(o operands) { each1(&o, func(x T) T { return T(math.Trunc(float64(x))) }) }
	t[expr.Rint][dtype] = func(o operands) { each1(&o, func(x T) T { return T(math.RoundToEven(float64(x))) }) }
	for op := range expr.Call {
		if f := elementary.Unary[op.String()]; f != nil {
			narrowed := func(x T) T { return T(f(float64(x))) }
			t[op][dtype] = func(o operands) { each1(&o, narrowed) }
		}
		if f := elementary.Binary[op.String()]; f != nil {
			narrowed := func(x, y T) T { return T(f(float64(x), float64(y))) }
			t[op][dtype] = func(o operands) { each2(&o, narrowed) }
		}
	}
}

// firstIf returns the bits of x if the condition is true or x is NaN, else the bits of y.
func firstIf[U word, T float](condition bool, x, y T) U {
	xBits, resultBits := *(*U)(unsafe.Pointer(&x)), *(*U)(unsafe.Pointer(&y))
	if condition {
		resultBits = xBits
	}
	if x != x {
		resultBits = xBits
	}
	return resultBits
}

// oneIf returns 1 if the condition is true, else 0, without a branch.
func oneIf(condition bool) (one uint8) {
	if condition {
		one = 1
	}
	return one
}

// float32ModLoop computes math.Mod of float32, but several times faster for quotients below 2^29. The product of such a
// quotient and b is exact in float64, because b has 24 bits. The conversion of this product prevents a fused
// multiply-add. The function is a literal in the call, so that it is inlined.
func float32ModLoop(o operands) {
	each2(&o, func(a, b float32) float32 {
		dividend, divisor := math.Abs(float64(a)), math.Abs(float64(b))
		quotient := math.Trunc(dividend / divisor)
		if !(quotient < 1<<29 && divisor <= math.MaxFloat32) {
			return float32(math.Mod(float64(a), divisor))
		}
		remainder := dividend - float64(quotient*divisor)
		if remainder < 0 { // the quotient was rounded up to the next integer
			remainder += divisor
		}
		return float32(math.Copysign(remainder, float64(a)))
	})
}

// fma32 returns a*b + c, rounded once. The product is exact in float64, but the sum is rounded to float64 and then to
// float32. The second rounding is wrong if the sum is halfway between two float32 numbers. If the first rounding loses
// bits, the sum is therefore rounded to odd (Boldo and Melquiond).
func fma32(a, b, c float32) float32 {
	product, addend := float64(float64(a)*float64(b)), float64(c)
	sum := product + addend
	shifted := sum - product
	roundingError := (product - (sum - shifted)) + (addend - shifted) // rounding error of the sum (Knuth's TwoSum)
	if bits := math.Float64bits(sum); (roundingError > 0 || roundingError < 0) && bits&1 == 0 {
		if (roundingError > 0) == (sum > 0) { // away from 0
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

// inWords returns the loop of a bitwise operation on elements of the given size. It processes contiguous elements as
// uint64, by the loop uint64s, and other or remaining elements by the loop elements. isConstA and isConstB report
// whether an operand is a constant, which is stored as 8 bytes that repeat its bits.
func inWords(elements, uint64s loop, size int, isConstA, isConstB bool) loop {
	return func(o operands) {
		words := o.n * size / 8
		hasWordsA, hasWordsB := o.a.stride == size || isConstA, o.b.stride == size || isConstB
		isAligned := (uintptr(o.dst.ptr)|uintptr(o.a.ptr)|uintptr(o.b.ptr))%8 == 0 && (o.a.offset|o.b.offset)%8 == 0
		if words > 0 && hasWordsA && hasWordsB && isAligned {
			// The stride `size` becomes 8, and the stride 0 of a constant remains 0.
			uint64s(operands{dst: o.dst, a: operand{o.a.ptr, o.a.offset, o.a.stride / size * 8},
				b: operand{o.b.ptr, o.b.offset, o.b.stride / size * 8}, n: words})
			done := 8 * words / size // the number of elements that the words have
			if o.n -= done; o.n == 0 {
				return
			}
			o.dst.ptr = unsafe.Add(o.dst.ptr, 8*words)
			o.a.offset += done * o.a.stride
			o.b.offset += done * o.b.stride
		}
		elements(o)
	}
}

// zeroTestOp is a comparison with the constant 0: Eq or Ne, of numbers of a dtype.
type zeroTestOp struct {
	op    expr.Op
	dtype tensor.DType
}

// zeroTests has the comparisons of floats and complex numbers with 0 as comparisons of their bits without signs. A
// comparison of floats takes twice the time, because it must also consider NaN.
var zeroTests = map[zeroTestOp]loop{
	{expr.Eq, tensor.Float32}:   func(o operands) { each1(&o, func(x uint32) bool { return x<<1 == 0 }) },
	{expr.Ne, tensor.Float32}:   func(o operands) { each1(&o, func(x uint32) bool { return x<<1 != 0 }) },
	{expr.Eq, tensor.Float64}:   func(o operands) { each1(&o, func(x uint64) bool { return x<<1 == 0 }) },
	{expr.Ne, tensor.Float64}:   func(o operands) { each1(&o, func(x uint64) bool { return x<<1 != 0 }) },
	{expr.Eq, tensor.Complex64}: func(o operands) { each1(&o, func(x uint64) bool { return x&^complexSigns == 0 }) },
	{expr.Ne, tensor.Complex64}: func(o operands) { each1(&o, func(x uint64) bool { return x&^complexSigns != 0 }) },
}

// complexSigns has the sign bits of the two parts of a complex64 number.
const complexSigns = 1<<63 | 1<<31

// isZero reports whether a constant of dtype float32, float64 or complex64 is 0 or -0.
func isZero(dtype tensor.DType, bits uint64) bool {
	switch dtype {
	case tensor.Float32:
		return uint32(bits)<<1 == 0
	case tensor.Float64:
		return bits<<1 == 0
	}
	return dtype == tensor.Complex64 && bits&^complexSigns == 0
}
