package expr

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// arithmetic has the loops of operations that do not go by the size of elements alone, by dtype.
var arithmetic = func() (t table) {
	signless[uint8](&t, tensor.Uint8, tensor.Int8)
	signless[uint16](&t, tensor.Uint16, tensor.Int16)
	signless[uint32](&t, tensor.Uint32, tensor.Int32)
	signless[uint64](&t, tensor.Uint64, tensor.Int64)
	integers[uint8, int32](&t, tensor.Uint8)
	integers[int8, int32](&t, tensor.Int8)
	integers[int16, int32](&t, tensor.Int16)
	integers[int32, int32](&t, tensor.Int32)
	integers[int64, int64](&t, tensor.Int64)
	integers[uint16, int32](&t, tensor.Uint16)
	integers[uint32, uint32](&t, tensor.Uint32)
	integers[uint64, uint64](&t, tensor.Uint64)
	floats[float32, uint32](&t, tensor.Float32)
	floats[float64, uint64](&t, tensor.Float64)
	for _, o := range []Op{And, Or, Xor, Eq, Ne, Lt, Le} {
		t[o][tensor.Bool] = t[o][tensor.Uint8]
	}
	t[Not][tensor.Bool] = notBool
	t[FMA][tensor.Float32], t[FMA][tensor.Float64] = fmaV32, fmaV64
	t[Mod][tensor.Float32], t[Exp][tensor.Float32], t[Exp][tensor.Float64] = modV32, mapEach(exp32), expV64
	return t
}()

type table = [numOps][tensor.Complex64]body

// signless sets the operations whose results do not depend on the sign, for both dtypes of a size.
func signless[T word](t *table, unsigned, signed tensor.DType) {
	for o, f := range map[Op]body{Add: addV[T], Sub: subV[T], Mul: mulV[T], Neg: negV[T], Eq: eqV[T], Ne: neV[T],
		And: andV[T], Or: orV[T], Xor: xorV[T], Not: notV[T], Shl: shlV[T]} {
		t[o][unsigned], t[o][signed] = f, f
	}
}

// integers sets the operations whose results depend on the sign. W is the type in which elements are compared.
func integers[T, W integer](t *table, d tensor.DType) {
	t[Lt][d], t[Le][d], t[Shr][d] = ltV[T], leV[T], shrV[T]
	t[Div][d], t[Min][d], t[Max][d] = divInt[T, W], minInt[T, W], maxInt[T, W]
	t[Abs][d] = absInt[T]
	if !d.IsSigned() {
		t[Abs][d] = moves[sizeIndex(d.Size())]
	}
}

func floats[T float, U word](t *table, d tensor.DType) {
	t[Add][d], t[Sub][d], t[Mul][d], t[Neg][d], t[Lt][d], t[Le][d] = addV[T], subV[T], mulV[T], negV[T], ltV[T], leV[T]
	t[Div][d], t[Min][d], t[Max][d], t[Abs][d] = divV[T], minFloat[T, U], maxFloat[T, U], clearSign[U]
	t[Sqrt][d], t[Floor][d], t[Ceil][d] = sqrtV[T], floorV[T], ceilV[T]
	t[Trunc][d], t[Rint][d] = truncV[T], rintV[T]
	t[Eq][d], t[Ne][d] = eqFloat[T, U], neFloat[T, U]
	for o, f := range functions1 {
		t[o][d] = map1[T](f)
	}
	for o, f := range functions2 {
		t[o][d] = map2[T](f)
	}
}

// choose returns the loop of an instruction; nil if there is none.
func (m *maker) choose(i Inst) body {
	d := i.DType
	switch i.Op {
	case Load, Bits:
		return moves[sizeIndex(d.Size())]
	case Convert:
		conv := tensor.Converter(d, m.code.Insts[i.A].DType)
		return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) { conv(d, a, by.d, by.a, n) }
	case Select:
		return selects[sizeIndex(d.Size())]
	case Lookup:
		return tableBody(&tables[i.Imm])
	case Call:
		if d == tensor.Float32 {
			return callBody[float32](m.code.Funcs[i.Imm])
		}
		return callBody[float64](m.code.Funcs[i.Imm])
	case Eq, Ne, Lt, Le:
		d = m.code.Insts[i.A].DType
	case Max:
		if b := m.code.Insts[i.B]; d.IsFloat() && b.Op == Const && b.Imm == 0 {
			if d == tensor.Float32 {
				return reluV[uint32]
			}
			return reluV[uint64]
		}
	}
	return arithmetic[i.Op][d]
}

// join returns the loop of an instruction together with one of its operands, which nobody else needs, and the operands
// of both; nil if there is none.
func (m *maker) join(i Inst, inner Value, k int) (body, []Value) {
	u := m.code.Insts[inner]
	switch {
	case i.Op == Convert:
		if d := u.DType; u.Op == Convert && i.DType == tensor.Float32 && m.code.Insts[u.A].DType == tensor.Float32 {
			return rounders[d], []Value{u.A}
		}
		return nil, nil
	case i.Op == Select && k == 0:
		d := m.code.Insts[u.A].DType
		if u.Op < Eq || u.Op > Le || d.Size() != i.DType.Size() {
			return nil, nil
		}
		return choiceOf(u.Op, d), []Value{u.A, u.B, i.B, i.C}
	case i.Op == Min && u.Op == Max && k == 0:
		return m.clamp(i.DType, u.B, i.B), []Value{u.A, u.B, i.B}
	}
	t := joinedLoops[pairing{u.Op, i.Op, k == 1}]
	if t == nil || t[i.DType] == nil {
		return nil, nil
	}
	other := i.B
	if k == 1 {
		other = i.A
	}
	return t[i.DType], []Value{u.A, u.B, other}
}

// clamp returns the loop that bounds a value below and above: floats by numbers, the first below the second, so that
// the result does not depend on the order of comparisons, or by what differs from element to element.
func (m *maker) clamp(d tensor.DType, low, high Value) body {
	a, b := m.code.Insts[low], m.code.Insts[high]
	of := func(i Inst) float64 {
		if d == tensor.Float32 {
			return float64(math.Float32frombits(uint32(i.Imm)))
		}
		return math.Float64frombits(i.Imm)
	}
	switch number := a.Op == Const && b.Op == Const; {
	case !d.IsFloat() || number && of(a) < of(b):
	case m.uniform[low] || m.uniform[high]:
		return nil
	case d == tensor.Float32:
		return clampTo[float32, uint32]
	default:
		return clampTo[float64, uint64]
	}
	switch d {
	case tensor.Uint8:
		return clampInt[uint8, int32]
	case tensor.Int8:
		return clampInt[int8, int32]
	case tensor.Int16:
		return clampInt[int16, int32]
	case tensor.Int32:
		return clampInt[int32, int32]
	case tensor.Int64:
		return clampInt[int64, int64]
	case tensor.Uint16:
		return clampInt[uint16, int32]
	case tensor.Uint32:
		return clampInt[uint32, uint32]
	case tensor.Uint64:
		return clampInt[uint64, uint64]
	case tensor.Float32:
		return clampFloat[float32, uint32]
	}
	return clampFloat[float64, uint64]
}
