package interp

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// arithmetic has the loops of operations whose implementation depends on the dtype, not only on its size.
var arithmetic = func() (t table) {
	setSignless[uint8](&t, tensor.Uint8, tensor.Int8)
	setSignless[uint16](&t, tensor.Uint16, tensor.Int16)
	setSignless[uint32](&t, tensor.Uint32, tensor.Int32)
	setSignless[uint64](&t, tensor.Uint64, tensor.Int64)
	setIntegers[uint8, int32](&t, tensor.Uint8)
	setIntegers[int8, int32](&t, tensor.Int8)
	setIntegers[int16, int32](&t, tensor.Int16)
	setIntegers[int32, int32](&t, tensor.Int32)
	setIntegers[int64, int64](&t, tensor.Int64)
	setIntegers[uint16, int32](&t, tensor.Uint16)
	setIntegers[uint32, uint32](&t, tensor.Uint32)
	setIntegers[uint64, uint64](&t, tensor.Uint64)
	setFloats[float32, uint32](&t, tensor.Float32)
	setFloats[float64, uint64](&t, tensor.Float64)
	for _, o := range []expr.Op{expr.And, expr.Or, expr.Xor, expr.Eq, expr.Ne, expr.Lt, expr.Le} {
		t[o][tensor.Bool] = t[o][tensor.Uint8]
	}
	t[expr.Not][tensor.Bool] = notBool
	t[expr.FMA][tensor.Float32], t[expr.FMA][tensor.Float64] = fmaV32, fmaV64
	t[expr.Mod][tensor.Float32], t[expr.Exp][tensor.Float32], t[expr.Exp][tensor.Float64] = modV32,
		mapEach(elementary.Exp32), expV64
	return t
}()

// loopOps is the number of operations. Scan is the last operation.
const loopOps = expr.Scan + 1

// table has the loops of operations by dtype.
type table = [loopOps][tensor.Complex64]loopFunc

// setSignless sets the loops of operations whose result has the same bits for signed and unsigned integers.
func setSignless[T word](t *table, unsigned, signed tensor.DType) {
	for o, f := range map[expr.Op]loopFunc{expr.Add: addV[T], expr.Sub: subV[T], expr.Mul: mulV[T], expr.Neg: negV[T],
		expr.Eq: eqV[T], expr.Ne: neV[T],
		expr.And: andV[T], expr.Or: orV[T], expr.Xor: xorV[T], expr.Not: notV[T], expr.Shl: shlV[T]} {
		t[o][unsigned], t[o][signed] = f, f
	}
}

// setIntegers sets the loops of operations whose result differs for signed and unsigned integers. W is the type in
// which elements are compared.
func setIntegers[T, W integer](t *table, d tensor.DType) {
	t[expr.Lt][d], t[expr.Le][d], t[expr.Shr][d] = ltV[T], leV[T], shrV[T]
	t[expr.Div][d], t[expr.Min][d], t[expr.Max][d] = divInt[T, W], minInt[T, W], maxInt[T, W]
	t[expr.Abs][d] = absInt[T]
	if !d.IsSigned() {
		t[expr.Abs][d] = moves[sizeIndex(d.Size())]
	}
}

func setFloats[T float, U word](t *table, d tensor.DType) {
	t[expr.Add][d], t[expr.Sub][d], t[expr.Mul][d], t[expr.Neg][d], t[expr.Lt][d], t[expr.Le][d] = addV[T], subV[T],
		mulV[T], negV[T], ltV[T], leV[T]
	t[expr.Div][d], t[expr.Min][d], t[expr.Max][d], t[expr.Abs][d] = divV[T], minFloat[T, U], maxFloat[T, U], clearSign[U]
	t[expr.Sqrt][d], t[expr.Floor][d], t[expr.Ceil][d] = sqrtV[T], floorV[T], ceilV[T]
	t[expr.Trunc][d], t[expr.Rint][d] = truncV[T], rintV[T]
	t[expr.Eq][d], t[expr.Ne][d] = eqFloat[T, U], neFloat[T, U]
	for o := range loopOps {
		if f := elementary.Unary[o.String()]; f != nil {
			t[o][d] = map1[T](f)
		}
		if f := elementary.Binary[o.String()]; f != nil {
			t[o][d] = map2[T](f)
		}
	}
}

// loopFor returns the loop of an instruction, or nil if there is no loop for it.
func (m *preparer) loopFor(i expr.Inst) loopFunc {
	d := i.DType
	switch i.Op {
	case expr.Load, expr.Bits:
		return moves[sizeIndex(d.Size())]
	case expr.Convert:
		conv := tensor.Converter(d, m.code.Insts[i.A].DType)
		return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) { conv(d, a, by.d, by.a, n) }
	case expr.Select:
		return selects[sizeIndex(d.Size())]
	case expr.Lookup:
		return tableBody(&elementary.Tables[i.Imm])
	case expr.Call:
		if d == tensor.Float32 {
			return callBody[float32](m.code.Funcs[i.Imm])
		}
		return callBody[float64](m.code.Funcs[i.Imm])
	case expr.Eq, expr.Ne, expr.Lt, expr.Le:
		d = m.code.Insts[i.A].DType
	case expr.Max:
		if b := m.code.Insts[i.B]; d.IsFloat() && b.Op == expr.Const && b.Imm == 0 {
			if d == tensor.Float32 {
				return reluV[uint32]
			}
			return reluV[uint64]
		}
	}
	return arithmetic[i.Op][d]
}

// jointLoopFor returns one loop for two instructions: i, and inner, which computes operand k of i and has no other
// user. It also returns the operands of this loop. If there is no such loop, jointLoopFor returns nil.
func (m *preparer) jointLoopFor(i expr.Inst, inner expr.Value, k int) (loopFunc, []expr.Value) {
	u := m.code.Insts[inner]
	switch {
	case i.Op == expr.Convert:
		if d := u.DType; u.Op == expr.Convert && i.DType == tensor.Float32 && m.code.Insts[u.A].DType == tensor.Float32 {
			return rounders[d], []expr.Value{u.A}
		}
		return nil, nil
	case i.Op == expr.Select && k == 0:
		d := m.code.Insts[u.A].DType
		if u.Op < expr.Eq || u.Op > expr.Le || d.Size() != i.DType.Size() {
			return nil, nil
		}
		return choiceOf(u.Op, d), []expr.Value{u.A, u.B, i.B, i.C}
	case i.Op == expr.Min && u.Op == expr.Max && k == 0:
		return m.clamp(i.DType, u.B, i.B), []expr.Value{u.A, u.B, i.B}
	}
	t := joinedLoops[pairing{u.Op, i.Op, k == 1}]
	if t == nil || t[i.DType] == nil {
		return nil, nil
	}
	other := i.B
	if k == 1 {
		other = i.A
	}
	return t[i.DType], []expr.Value{u.A, u.B, other}
}

// clamp returns the loop that bounds a value below and above, or nil. clampFloat requires that the lower bound is below
// the upper bound. For floats, bounds that are constant within a row must therefore be known constants.
func (m *preparer) clamp(d tensor.DType, low, high expr.Value) loopFunc {
	a, b := m.code.Insts[low], m.code.Insts[high]
	of := func(i expr.Inst) float64 {
		if d == tensor.Float32 {
			return float64(math.Float32frombits(uint32(i.Imm)))
		}
		return math.Float64frombits(i.Imm)
	}
	switch number := a.Op == expr.Const && b.Op == expr.Const; {
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
