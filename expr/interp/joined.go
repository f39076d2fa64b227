package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// An instruction with one user is computed in the loop of its user, if there is a loop for both instructions. The
// intermediate value stays in a register, and the joint loop takes little longer than a loop for one instruction.

// pairing is a pair of instructions that share a loop. The result of inner is an operand of outer: the second operand
// if isSecond is set, else the first operand.
type pairing struct {
	inner, outer expr.Op
	isSecond     bool
}

// joinedLoops has the loops of pairings by dtype. The operands of such a loop are the operands of inner, then the other
// operand of outer.
var joinedLoops = func() map[pairing]*[tensor.Complex64]loopFunc {
	t := map[pairing]*[tensor.Complex64]loopFunc{}
	joinNumbers[uint8](t, tensor.Uint8, tensor.Int8)
	joinNumbers[uint16](t, tensor.Uint16, tensor.Int16)
	joinNumbers[uint32](t, tensor.Uint32, tensor.Int32)
	joinNumbers[uint64](t, tensor.Uint64, tensor.Int64)
	joinNumbers[float32](t, tensor.Float32)
	joinNumbers[float64](t, tensor.Float64)
	joinFloats[float32](t, tensor.Float32)
	joinFloats[float64](t, tensor.Float64)
	return t
}()

// joinNumbers sets the loops of dtypes for which sums and products have the same bits.
func joinNumbers[T realNumber](t map[pairing]*[tensor.Complex64]loopFunc, dtypes ...tensor.DType) {
	setJoined(t, dtypes, expr.Mul, expr.Add, mulAdd[T], mulAdd[T])
	setJoined(t, dtypes, expr.Mul, expr.Sub, mulSub[T], subMul[T])
	setJoined(t, dtypes, expr.Add, expr.Mul, addMul[T], addMul[T])
	setJoined(t, dtypes, expr.Sub, expr.Mul, subThenMul[T], subThenMul[T])
}

func joinFloats[T float](t map[pairing]*[tensor.Complex64]loopFunc, dtypes ...tensor.DType) {
	setJoined(t, dtypes, expr.Mul, expr.Mul, mulMul[T], mulMul[T])
	setJoined(t, dtypes, expr.Mul, expr.Div, mulDiv[T], nil)
	setJoined(t, dtypes, expr.Add, expr.Div, addDiv[T], divAdd[T])
	setJoined(t, dtypes, expr.Sub, expr.Div, subDiv[T], nil)
}

func setJoined(t map[pairing]*[tensor.Complex64]loopFunc, dtypes []tensor.DType, inner, outer expr.Op,
	first, second loopFunc) {
	for k, f := range []loopFunc{first, second} {
		p := pairing{inner, outer, k == 1}
		if t[p] == nil {
			t[p] = new([tensor.Complex64]loopFunc)
		}
		for _, d := range dtypes {
			t[p][d] = f
		}
	}
}

// rounders are the loops that round float32 to the precision of a 16-bit dtype.
var rounders = map[tensor.DType]loopFunc{tensor.Float16: roundHalf, tensor.BFloat16: roundBF16}

func roundHalf(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	if *by == (strides{d: 4, a: 4}) {
		dst := contiguousElements[float32](d, n)
		x := contiguousElements[float32](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = asHalf(x[i])
		}
		return
	}
	for i := range n {
		*(*float32)(unsafe.Add(d, i*by.d)) = asHalf(*(*float32)(unsafe.Add(a, i*by.a)))
	}
}

func roundBF16(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	if *by == (strides{d: 4, a: 4}) {
		dst := contiguousElements[float32](d, n)
		x := contiguousElements[float32](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = asBF16(x[i])
		}
		return
	}
	for i := range n {
		*(*float32)(unsafe.Add(d, i*by.d)) = asBF16(*(*float32)(unsafe.Add(a, i*by.a)))
	}
}

// choiceOf returns the loop that selects by a comparison: the result d is c where the comparison of a and b is true,
// else e. All operands have the same element size.
func choiceOf(o expr.Op, d tensor.DType) loopFunc {
	equality := o == expr.Eq || o == expr.Ne
	switch {
	case d == tensor.Float32 && equality:
		return choiceByEquality[float32, uint32](o)
	case d == tensor.Float64 && equality:
		return choiceByEquality[float64, uint64](o)
	case equality: // signed and unsigned integers have the same loop
		return [...]loopFunc{choiceByEquality[uint8, uint8](o), choiceByEquality[uint16, uint16](o),
			choiceByEquality[uint32, uint32](o), choiceByEquality[uint64, uint64](o)}[sizeIndex(d.Size())]
	}
	switch d {
	case tensor.Bool, tensor.Uint8:
		return choiceByOrder[uint8, uint8](o)
	case tensor.Int8:
		return choiceByOrder[int8, uint8](o)
	case tensor.Int16:
		return choiceByOrder[int16, uint16](o)
	case tensor.Int32:
		return choiceByOrder[int32, uint32](o)
	case tensor.Int64:
		return choiceByOrder[int64, uint64](o)
	case tensor.Uint16:
		return choiceByOrder[uint16, uint16](o)
	case tensor.Uint32:
		return choiceByOrder[uint32, uint32](o)
	case tensor.Uint64:
		return choiceByOrder[uint64, uint64](o)
	case tensor.Float32:
		return choiceByOrder[float32, uint32](o)
	}
	return choiceByOrder[float64, uint64](o)
}

func choiceByEquality[T realNumber, U word](o expr.Op) loopFunc {
	if o == expr.Eq {
		return chooseEq[T, U]
	}
	return chooseNe[T, U]
}

func choiceByOrder[T realNumber, U word](o expr.Op) loopFunc {
	if o == expr.Lt {
		return chooseLt[T, U]
	}
	return chooseLe[T, U]
}

// clampFloat bounds a by b and c. Each bound is one element, and b is less than c.
func clampFloat[T float, U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	low, high, lowBits, highBits := *(*T)(b), *(*T)(c), *(*U)(b), *(*U)(c)
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		x, r := *(*T)(a), *(*U)(a)
		if x <= low {
			r = lowBits
		}
		if x >= high {
			r = highBits
		}
		*(*U)(d) = r
		if n--; n == 0 {
			return
		}
	}
}

// clampTo bounds a by b and c. Each element has its own bounds. If all operands are contiguous, clampPlain processes
// elements whose bounds are not NaN.
func clampTo[T float, U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	size, i := int(unsafe.Sizeof(T(0))), 0
	if *by == (strides{d: size, a: size, b: size, c: size}) {
		for last := n - 4; ; i += 4 {
			if i = clampPlain[T, U](d, a, b, c, i, n); i > last {
				break
			}
			clampToAny[T, U](unsafe.Add(d, i*size), unsafe.Add(a, i*size), unsafe.Add(b, i*size), unsafe.Add(c, i*size), 4, by)
		}
		if i == n {
			return
		}
	}
	clampToAny[T, U](unsafe.Add(d, i*by.d), unsafe.Add(a, i*by.a), unsafe.Add(b, i*by.b), unsafe.Add(c, i*by.c), n-i, by)
}

// clampPlain is clampTo from element i on, unrolled by four, with two comparisons for each element. It stops at a group
// of four elements with a NaN bound and returns the index of that group. A NaN sum of the four differences of bounds
// detects such a group. clampPlain stores elements one by one and calls no function, so that all values stay in
// registers.
func clampPlain[T float, U word](d, a, b, c unsafe.Pointer, i, n int) int {
	size := int(unsafe.Sizeof(T(0)))
	for last := n - 4; i <= last; i += 4 {
		x, y, z := (*[4]T)(unsafe.Add(a, i*size)), (*[4]T)(unsafe.Add(b, i*size)), (*[4]T)(unsafe.Add(c, i*size))
		o, p, q := (*[4]U)(unsafe.Pointer(x)), (*[4]U)(unsafe.Pointer(y)), (*[4]U)(unsafe.Pointer(z))
		y0, y1, y2, y3, z0, z1, z2, z3 := y[0], y[1], y[2], y[3], z[0], z[1], z[2], z[3]
		if sum := y0 - z0 + (y1 - z1) + (y2 - z2 + (y3 - z3)); sum != sum {
			break
		}
		r := (*[4]U)(unsafe.Add(d, i*size))
		v, low, high := o[0], p[0], q[0]
		if x[0] <= y0 {
			v = low
		}
		if ofBits[T](v) >= z0 {
			v = high
		}
		r[0], v, low, high = v, o[1], p[1], q[1]
		if x[1] <= y1 {
			v = low
		}
		if ofBits[T](v) >= z1 {
			v = high
		}
		r[1], v, low, high = v, o[2], p[2], q[2]
		if x[2] <= y2 {
			v = low
		}
		if ofBits[T](v) >= z2 {
			v = high
		}
		r[2], v, low, high = v, o[3], p[3], q[3]
		if x[3] <= y3 {
			v = low
		}
		if ofBits[T](v) >= z3 {
			v = high
		}
		r[3] = v
	}
	return i
}

func clampToAny[T float, U word](d, a, b, c unsafe.Pointer, n int, by *strides) {
	for i := range n {
		x, low, high := *(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)), *(*T)(unsafe.Add(c, i*by.c))
		if !(x > low || x != x) {
			x = low
		}
		if !(x < high || x != x) {
			x = high
		}
		*(*U)(unsafe.Add(d, i*by.d)) = bitsOf[U](x)
	}
}
