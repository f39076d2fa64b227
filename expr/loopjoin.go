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

// Conversions keep Go from rounding once where two roundings are meant.

func mulAdd[T realNumber](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = T(*el[T](a, i*sa)**el[T](b, i*sb)) + *el[T](c, i*sc)
	}
}

func mulSub[T realNumber](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = T(*el[T](a, i*sa)**el[T](b, i*sb)) - *el[T](c, i*sc)
	}
}

func subMul[T realNumber](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = *el[T](c, i*sc) - T(*el[T](a, i*sa)**el[T](b, i*sb))
	}
}

func addMul[T realNumber](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = (*el[T](a, i*sa) + *el[T](b, i*sb)) * *el[T](c, i*sc)
	}
}

func subThenMul[T realNumber](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = (*el[T](a, i*sa) - *el[T](b, i*sb)) * *el[T](c, i*sc)
	}
}

func mulMul[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) * *el[T](b, i*sb) * *el[T](c, i*sc)
	}
}

func mulDiv[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) * *el[T](b, i*sb) / *el[T](c, i*sc)
	}
}

func addDiv[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = (*el[T](a, i*sa) + *el[T](b, i*sb)) / *el[T](c, i*sc)
	}
}

func divAdd[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = *el[T](c, i*sc) / (*el[T](a, i*sa) + *el[T](b, i*sb))
	}
}

func subDiv[T float](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = (*el[T](a, i*sa) - *el[T](b, i*sb)) / *el[T](c, i*sc)
	}
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

func chooseEq[T realNumber, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for i := range n {
		x, y, u, v := *el[T](a, i*sa), *el[T](b, i*sb), *el[U](c, i*sc), *el[U](e, i*se)
		if x == y {
			v = u
		}
		*el[U](d, i*sd) = v
	}
}

func chooseNe[T realNumber, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for i := range n {
		x, y, u, v := *el[T](a, i*sa), *el[T](b, i*sb), *el[U](c, i*sc), *el[U](e, i*se)
		if x != y {
			v = u
		}
		*el[U](d, i*sd) = v
	}
}

func chooseLt[T realNumber, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for i := range n {
		x, y, u, v := *el[T](a, i*sa), *el[T](b, i*sb), *el[U](c, i*sc), *el[U](e, i*se)
		if x < y {
			v = u
		}
		*el[U](d, i*sd) = v
	}
}

func chooseLe[T realNumber, U word](d, a, b, c, e, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc, se := by.d, by.a, by.b, by.c, by.e
	for i := range n {
		x, y, u, v := *el[T](a, i*sa), *el[T](b, i*sb), *el[U](c, i*sc), *el[U](e, i*se)
		if x <= y {
			v = u
		}
		*el[U](d, i*sd) = v
	}
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

// clampInt bounds a by b and c, as a minimum of a maximum.
func clampInt[T integer](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		*el[T](d, i*sd) = min(max(*el[T](a, i*sa), *el[T](b, i*sb)), *el[T](c, i*sc))
	}
}

// clampFloat needs b below c.
func clampFloat[T float, U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, low, high := by.d, by.a, *el[T](b, 0), *el[T](c, 0)
	lowBits, highBits := *el[U](b, 0), *el[U](c, 0)
	for i := range n {
		x, r := *el[T](a, i*sa), *el[U](a, i*sa)
		if x <= low {
			r = lowBits
		}
		if x >= high {
			r = highBits
		}
		*el[U](d, i*sd) = r
	}
}
