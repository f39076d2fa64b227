package expr

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// An instruction whose result nobody else needs is computed in the loop of the one that needs it, where there is a loop
// of both: what passes between them stays in a register, and an element takes little more than one of them alone.

// pairing is two instructions that are one loop: the inner one's result is an operand of the outer one, the second if
// behind.
type pairing struct {
	inner, outer Op
	behind       bool
}

// joinedLoops has the loops of pairings by dtype. Operands are those of the inner instruction, then the other one.
var joinedLoops = func() map[pairing]*[tensor.Complex64]body {
	t := map[pairing]*[tensor.Complex64]body{}
	joinNumbers[int32](t, tensor.Int32)
	joinNumbers[int64](t, tensor.Int64)
	joinNumbers[uint8](t, tensor.Uint8)
	joinNumbers[float32](t, tensor.Float32)
	joinNumbers[float64](t, tensor.Float64)
	joinFloats[float32](t, tensor.Float32)
	joinFloats[float64](t, tensor.Float64)
	return t
}()

func joinNumbers[T realNumber](t map[pairing]*[tensor.Complex64]body, d tensor.DType) {
	setJoined(t, d, Mul, Add, mulAdd[T], mulAdd[T])
	setJoined(t, d, Mul, Sub, mulSub[T], subMul[T])
	setJoined(t, d, Add, Mul, addMul[T], addMul[T])
	setJoined(t, d, Sub, Mul, subThenMul[T], subThenMul[T])
}

func joinFloats[T float](t map[pairing]*[tensor.Complex64]body, d tensor.DType) {
	setJoined(t, d, Mul, Mul, mulMul[T], mulMul[T])
	setJoined(t, d, Mul, Div, mulDiv[T], nil)
	setJoined(t, d, Add, Div, addDiv[T], divAdd[T])
	setJoined(t, d, Sub, Div, subDiv[T], nil)
}

func setJoined(t map[pairing]*[tensor.Complex64]body, d tensor.DType, inner, outer Op, before, behind body) {
	for k, f := range []body{before, behind} {
		p := pairing{inner, outer, k == 1}
		if t[p] == nil {
			t[p] = new([tensor.Complex64]body)
		}
		t[p][d] = f
	}
}

// scaled returns the elements of what adds to products by one number y, where all lie one behind another; else nothing.
// A loop over those takes two thirds of the time of one that goes by strides.
func scaled[T realNumber](d, a, b, c unsafe.Pointer, n int, by *strides) (dst, x []T, y T, z []T) {
	size, sa, sb := int(unsafe.Sizeof(y)), by.a, by.b
	if sa == 0 {
		a, b, sa, sb = b, a, sb, sa
	}
	if by.d != size || sa != size || sb != 0 || by.c != size {
		return nil, nil, y, nil
	}
	return flat[T](d, n), flat[T](a, n), *(*T)(b), flat[T](c, n)
}

// choices are the loops of a selection by a comparison of elements of the same size: d is c where a compares to b, else
// e.
func choices[T realNumber, U word](o Op) body {
	switch o {
	case Eq:
		return chooseEq[T, U]
	case Ne:
		return chooseNe[T, U]
	case Lt:
		return chooseLt[T, U]
	}
	return chooseLe[T, U]
}

// choiceOf returns the loop of a selection by a comparison of a dtype.
func choiceOf(o Op, d tensor.DType) body {
	switch d {
	case tensor.Bool, tensor.Uint8:
		return choices[uint8, uint8](o)
	case tensor.Int8:
		return choices[int8, uint8](o)
	case tensor.Int16:
		return choices[int16, uint16](o)
	case tensor.Int32:
		return choices[int32, uint32](o)
	case tensor.Int64:
		return choices[int64, uint64](o)
	case tensor.Uint16:
		return choices[uint16, uint16](o)
	case tensor.Uint32:
		return choices[uint32, uint32](o)
	case tensor.Uint64:
		return choices[uint64, uint64](o)
	case tensor.Float32:
		return choices[float32, uint32](o)
	}
	return choices[float64, uint64](o)
}

// clampInt bounds a by b and c, which are the same for all, as a minimum of a maximum.
func clampInt[T integer](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	low, high := *(*T)(b), *(*T)(c)
	for ; n > 2; n -= 2 {
		*(*T)(d) = min(max(*(*T)(a), low), high)
		*(*T)(unsafe.Add(d, sd)) = min(max(*(*T)(unsafe.Add(a, sa)), low), high)
		d, a = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa)
	}
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = min(max(*(*T)(a), low), high)
		if n--; n == 0 {
			return
		}
	}
}

// clampFloat is that of floats, of which b is below c.
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
