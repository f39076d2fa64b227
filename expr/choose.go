package expr

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// forms are the loops of an operation of two operands; sv may be missing, and vs.
type forms struct{ vv, vs, sv body }

// arithmetic has the loops of operations that do not go by the size of elements alone, by dtype.
var arithmetic = func() (t [Exp][tensor.Complex64]forms) {
	integers[uint8](&t, tensor.Uint8)
	integers[int8](&t, tensor.Int8)
	integers[int16](&t, tensor.Int16)
	integers[int32](&t, tensor.Int32)
	integers[int64](&t, tensor.Int64)
	integers[uint16](&t, tensor.Uint16)
	integers[uint32](&t, tensor.Uint32)
	integers[uint64](&t, tensor.Uint64)
	floats[float32, uint32](&t, tensor.Float32)
	floats[float64, uint64](&t, tensor.Float64)
	for _, o := range []Op{And, Or, Xor, Eq, Ne, Lt, Le} {
		t[o][tensor.Bool] = t[o][tensor.Uint8]
	}
	t[Not][tensor.Bool].vv = notBool
	t[Abs][tensor.Float32].vv, t[Abs][tensor.Float64].vv = clearBits[uint32](1<<31), clearBits[uint64](1<<63)
	t[FMA][tensor.Float32].vv, t[FMA][tensor.Float64].vv = fmaV32, fmaV64
	return t
}()

type table = [Exp][tensor.Complex64]forms

func numbers[T realNumber](t *table, d tensor.DType) {
	t[Add][d] = forms{addVV[T], addVS[T], nil}
	t[Sub][d] = forms{subVV[T], subVS[T], subSV[T]}
	t[Mul][d] = forms{mulVV[T], mulVS[T], nil}
	t[Neg][d].vv = negV[T]
	t[Eq][d] = forms{eqVV[T], eqVS[T], nil}
	t[Ne][d] = forms{neVV[T], neVS[T], nil}
	t[Lt][d] = forms{ltVV[T], ltVS[T], ltSV[T]}
	t[Le][d] = forms{leVV[T], leVS[T], leSV[T]}
}

func integers[T integer](t *table, d tensor.DType) {
	numbers[T](t, d)
	t[Div][d].vv = divInt[T]
	t[Abs][d].vv = absInt[T]
	if !d.IsSigned() {
		t[Abs][d].vv = moves[sizeIndex(d.Size())]
	}
	t[Min][d] = forms{minInt[T], minVS[T], nil}
	t[Max][d] = forms{maxInt[T], maxVS[T], nil}
	t[And][d].vv, t[Or][d].vv, t[Xor][d].vv, t[Not][d].vv = andVV[T], orVV[T], xorVV[T], notV[T]
	t[Shl][d].vv, t[Shr][d].vv = shlVV[T], shrVV[T]
}

func floats[T float, U uint32 | uint64](t *table, d tensor.DType) {
	numbers[T](t, d)
	t[Div][d] = forms{divVV[T], divVS[T], divSV[T]}
	t[Min][d] = forms{minFloat[T, U], minVS[T], nil}
	t[Max][d] = forms{maxFloat[T, U], maxVS[T], nil}
	t[Sqrt][d].vv, t[Floor][d].vv, t[Ceil][d].vv = sqrtV[T], floorV[T], ceilV[T]
	t[Trunc][d].vv, t[Rint][d].vv = truncV[T], rintV[T]
}

// commutes reports whether a loop of an operation may have its operands exchanged: to the bit, but for NaNs.
func commutes(o Op) bool { return o == Add || o == Mul || o == Eq || o == Ne }

// choose returns the loop of an instruction of which some operands are the same for all elements, and which of these
// it takes as one element. bits are the constants among them.
func choose(c *Code, i Inst, single [3]bool, bits [3]uint64, constant [3]bool) (f body, form [3]bool) {
	d := i.DType
	switch i.Op {
	case Convert:
		conv := tensor.Converter(d, c.Insts[i.A].DType)
		ds, ss := d.Size(), c.Insts[i.A].DType.Size()
		return func(d, a, _, _ unsafe.Pointer, n int) { conv(d, a, ds, ss, n) }, form
	case Bits:
		return moves[sizeIndex(d.Size())], form
	case Select:
		return selects[sizeIndex(d.Size())], form
	case Call:
		g := c.Funcs[i.Imm]
		if d == tensor.Float32 {
			return callBody[float32](g, single), single
		}
		return callBody[float64](g, single), single
	case Eq, Ne, Lt, Le:
		d = c.Insts[i.A].DType
	}
	if i.Op == Mod && d == tensor.Float32 {
		return modV32, form
	}
	if i.Op == Mod || i.Op >= Exp {
		return elementary(i.Op, d, single), single
	}
	t := arithmetic[i.Op][d]
	switch {
	case i.Op == Max && constant[1] && single[1] && bits[1] == 0 && d == tensor.Float32:
		return reluV[uint32], single
	case i.Op == Max && constant[1] && single[1] && bits[1] == 0 && d == tensor.Float64:
		return reluV[uint64], single
	case single[0] && t.vs != nil && commutes(i.Op):
		vs := t.vs
		return func(d, a, b, c unsafe.Pointer, n int) { vs(d, b, a, c, n) }, single
	case single[0] && t.sv != nil:
		return t.sv, single
	case single[1] && t.vs != nil && (!d.IsFloat() || i.Op != Min && i.Op != Max ||
		constant[1] && plainBound(i.Op, d, bits[1])):
		return t.vs, single
	}
	return t.vv, form
}

// elementary returns the loop of a function that package math has.
func elementary(o Op, d tensor.DType, single [3]bool) body {
	if f := functions1[o]; f != nil {
		if d == tensor.Float32 {
			return map1[float32](f)
		}
		return map1[float64](f)
	}
	f := functions2[o]
	if f == nil {
		return nil
	}
	if d == tensor.Float32 {
		return map2[float32](f, single)
	}
	return map2[float64](f, single)
}

// plainBound reports whether Go's min or max of anything and a bound is that of expressions: they differ where a zero
// meets the other zero, which is the result of expressions if it comes second.
func plainBound(o Op, d tensor.DType, bits uint64) bool {
	negative := bits == 1<<63
	if d == tensor.Float32 {
		negative = bits == 1<<31
	}
	zero := bits == 0 || negative
	return !zero || negative == (o == Min)
}
