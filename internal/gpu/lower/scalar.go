package lower

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// scalars computes operations of package lane on all dtypes by those of kernels. An element of an integer dtype of less
// than 32 bits is an int32 or a uint32 of the same value. A float16 or bfloat16 is a uint32 of its bits.
type scalars struct {
	*ir.Builder
	target Target
	err    error // the first operation that the device does not have
}

// register returns the dtype in which elements of a dtype are computed.
func register(d tensor.DType) tensor.DType {
	switch d {
	case tensor.Int8, tensor.Int16:
		return tensor.Int32
	case tensor.Uint8, tensor.Uint16, tensor.Float16, tensor.BFloat16:
		return tensor.Uint32
	}
	return d
}

// do adds an operation of package lane whose result has dtype d.
func (s *scalars) do(op lane.Op, d tensor.DType, args ...ir.Value) ir.Value {
	if d == tensor.Float64 && !s.target.Float64 {
		s.unsupported("float64")
	}
	return s.Do(ir.Op(op), d, args...)
}

// bits returns a value of 32 or 64 bits as another dtype of the same size.
func (s *scalars) bits(d tensor.DType, v ir.Value) ir.Value {
	if s.Type(v) == d {
		return v
	}
	return s.do(lane.Bits, d, v)
}

// constant returns an element with the given bits.
func (s *scalars) constant(d tensor.DType, bits uint64) ir.Value {
	if d == tensor.Float64 && !s.target.Float64 {
		s.unsupported("float64")
	}
	if n := 8 * d.Size(); d.IsSigned() && !d.IsFloat() && n < 32 {
		bits = uint64(uint32(int32(bits<<(32-n)) >> (32 - n)))
	}
	return s.Const(register(d), bits)
}

// float returns a constant of float32 or float64.
func (s *scalars) float(d tensor.DType, x float64) ir.Value {
	if d == tensor.Float32 {
		return s.constant(d, uint64(math.Float32bits(float32(x))))
	}
	return s.constant(d, math.Float64bits(x))
}

// unsigned returns the dtype of the bits of a register.
func unsigned(d tensor.DType) tensor.DType {
	if d.Size() == 8 {
		return tensor.Uint64
	}
	return tensor.Uint32
}

// raw returns the bits of an element as a uint32, or a uint64 for elements of 64 bits.
func (s *scalars) raw(d tensor.DType, v ir.Value) ir.Value {
	if d == tensor.Bool {
		return s.do(lane.Select, tensor.Uint32, v, s.Const(tensor.Uint32, 1), s.Const(tensor.Uint32, 0))
	}
	v = s.bits(unsigned(d), v)
	if d.IsSigned() && !d.IsFloat() && d.Size() < 4 {
		return s.do(lane.And, tensor.Uint32, v, s.Const(tensor.Uint32, 1<<(8*d.Size())-1))
	}
	return v
}

// fromRaw returns the element whose bits are the lower bits of a uint32 or uint64.
func (s *scalars) fromRaw(d tensor.DType, v ir.Value) ir.Value {
	if d == tensor.Bool {
		return s.do(lane.Ne, tensor.Bool, v, s.Const(tensor.Uint32, 0))
	}
	return s.wrap(d, s.bits(register(d), v))
}

// wrap returns an integer of less than 32 bits whose lower bits are those of v.
func (s *scalars) wrap(d tensor.DType, v ir.Value) ir.Value {
	if d == tensor.Bool || d.Size() >= 4 {
		return v
	}
	if d.IsSigned() && !d.IsFloat() {
		n := s.Const(tensor.Int32, uint64(32-8*d.Size()))
		return s.do(lane.Shr, tensor.Int32, s.do(lane.Shl, tensor.Int32, v, n), n)
	}
	return s.do(lane.And, tensor.Uint32, v, s.Const(tensor.Uint32, 1<<(8*d.Size())-1))
}

// choose returns yes where condition is true, else no.
func (s *scalars) choose(d tensor.DType, condition, yes, no ir.Value) ir.Value {
	if d == tensor.Bool {
		return s.do(lane.Or, d, s.do(lane.And, d, condition, yes),
			s.do(lane.And, d, s.do(lane.Not, d, condition), no))
	}
	return s.do(lane.Select, register(d), condition, yes, no)
}

// inst adds an instruction of an expression without functions. from is the dtype of its operands.
func (s *scalars) inst(i expr.Inst, from tensor.DType, x []ir.Value) ir.Value {
	d, r := i.DType, register(i.DType)
	if (d == tensor.Float32 || d == tensor.Float64) && !s.target.KeepsConstantZeros {
		x = s.opaque(lane.Op(i.Op), d, x)
	}
	switch op := lane.Op(i.Op); op {
	case lane.Const:
		if d == tensor.Bool {
			return s.Const(d, i.Imm)
		}
		return s.constant(d, i.Imm)
	case lane.Bits:
		if from == d {
			return x[0]
		}
		return s.fromRaw(d, s.raw(from, x[0]))
	case lane.Convert:
		return s.convert(d, from, x[0])
	case lane.Select:
		return s.choose(d, x[0], x[1], x[2])
	case lane.Eq, lane.Ne, lane.Lt, lane.Le:
		return s.compare(op, from, x)
	case lane.Min, lane.Max:
		return s.extreme(op, r, x)
	case lane.Shl, lane.Shr:
		n := s.do(lane.And, r, x[1], s.Const(r, uint64(8*d.Size()-1)))
		return s.wrap(d, s.do(op, r, x[0], n))
	case lane.Neg, lane.Abs:
		return s.sign(op, d, x[0])
	case lane.Div:
		if !d.IsFloat() {
			return s.wrap(d, s.divide(r, x))
		}
		return s.exact(op, d, x)
	case lane.Sqrt, lane.FMA:
		return s.exact(op, d, x)
	case lane.Mod:
		return s.mod(d, x[0], x[1])
	case lane.Scale:
		return s.scale(d, x[0], x[1])
	case lane.Limit:
		magnitude := s.sign(lane.Abs, d, x[1])
		isLess := s.do(lane.Lt, tensor.Bool, s.sign(lane.Abs, d, x[0]), magnitude)
		return s.choose(d, isLess, x[0], s.withSign(d, magnitude, x[0]))
	default:
		return s.wrap(d, s.do(op, r, x...))
	}
}

// eval adds the instructions of an expression without functions, and returns their values.
func (s *scalars) eval(code *expr.Code, load func(operand, part int) ir.Value) []ir.Value {
	tables := map[uint64]*[32]float32{}
	values := make([]ir.Value, len(code.Insts))
	for v, i := range code.Insts {
		var x []ir.Value
		from := tensor.Invalid
		for _, u := range i.Uses() {
			x, from = append(x, values[u]), code.Insts[u].DType
		}
		switch i.Op {
		case expr.Load:
			values[v] = load(int(i.A), int(i.Imm))
		case expr.Lookup:
			t := tables[i.Imm]
			if t == nil {
				table := i.Table()
				t = &table
				tables[i.Imm] = t
			}
			values[v] = s.Lookup(t, x[0])
		default:
			values[v] = s.inst(i, from, x)
		}
	}
	return values
}

// opaque returns the operands of a sum, product, quotient or selection with the constant 0 replaced by a 0 that the
// driver does not know: the sign bit of the index of a group. There are fewer than 2^31 groups.
func (s *scalars) opaque(op lane.Op, d tensor.DType, x []ir.Value) []ir.Value {
	if op != lane.Add && op != lane.Mul && op != lane.Div && op != lane.Select {
		return x
	}
	x = slices.Clone(x)
	for k, v := range x {
		if i := s.Insts[v]; lane.Op(i.Op) == lane.Const && i.DType == d && i.Imm == 0 {
			zero := s.do(lane.Shr, tensor.Uint32, s.Do(ir.Group, tensor.Uint32), s.Const(tensor.Uint32, 31))
			x[k] = s.bits(d, s.resize(unsigned(d), zero))
		}
	}
	return x
}

// compare adds a comparison. Bools are compared by logical operations.
func (s *scalars) compare(op lane.Op, from tensor.DType, x []ir.Value) ir.Value {
	const d = tensor.Bool
	if from != d {
		return s.do(op, d, x...)
	}
	switch op {
	case lane.Eq:
		return s.do(lane.Not, d, s.do(lane.Xor, d, x...))
	case lane.Ne:
		return s.do(lane.Xor, d, x...)
	case lane.Lt:
		return s.do(lane.And, d, s.do(lane.Not, d, x[0]), x[1])
	}
	return s.do(lane.Or, d, s.do(lane.Not, d, x[0]), x[1])
}

func (s *scalars) extreme(op lane.Op, r tensor.DType, x []ir.Value) ir.Value {
	a, b := x[0], x[1]
	if op == lane.Max {
		a, b = b, a
	}
	first := s.do(lane.Lt, tensor.Bool, a, b)
	if r.IsFloat() {
		first = s.do(lane.Or, tensor.Bool, first, s.do(lane.Ne, tensor.Bool, x[0], x[0]))
	}
	return s.choose(r, first, x[0], x[1])
}

// sign adds Neg or Abs. Those of floats change bits, so that no device changes a NaN or a subnormal number.
func (s *scalars) sign(op lane.Op, d tensor.DType, x ir.Value) ir.Value {
	r := register(d)
	if d.IsFloat() {
		u, signBit := unsigned(d), uint64(1)<<(8*d.Size()-1)
		if op == lane.Neg {
			return s.bits(r, s.do(lane.Xor, u, s.bits(u, x), s.Const(u, signBit)))
		}
		return s.bits(r, s.do(lane.And, u, s.bits(u, x), s.Const(u, signBit-1)))
	}
	zero := s.Const(r, 0)
	negated := s.wrap(d, s.do(lane.Sub, r, zero, x))
	switch {
	case op == lane.Neg:
		return negated
	case d.IsSigned():
		return s.choose(d, s.do(lane.Lt, tensor.Bool, x, zero), negated, x)
	}
	return x
}

// withSign returns a float x that is not negative, with the sign of y.
func (s *scalars) withSign(d tensor.DType, x, y ir.Value) ir.Value {
	u := unsigned(d)
	signBit := s.do(lane.And, u, s.bits(u, y), s.Const(u, 1<<(8*d.Size()-1)))
	return s.bits(d, s.do(lane.Or, u, s.bits(u, x), signBit))
}

// divide divides integers. Devices leave a division by 0 and the overflow of a division by -1 undefined. A quotient by
// 0 is 0.
func (s *scalars) divide(r tensor.DType, x []ir.Value) ir.Value {
	zero, one := s.Const(r, 0), s.Const(r, 1)
	isZero := s.do(lane.Eq, tensor.Bool, x[1], zero)
	dividend := s.choose(r, isZero, zero, x[0])
	if !r.IsSigned() {
		return s.do(lane.Div, r, dividend, s.choose(r, isZero, one, x[1]))
	}
	isMinusOne := s.do(lane.Eq, tensor.Bool, x[1], s.Const(r, math.MaxUint64>>(64-8*r.Size())))
	divisor := s.choose(r, s.do(lane.Or, tensor.Bool, isZero, isMinusOne), one, x[1])
	return s.choose(r, isMinusOne, s.do(lane.Sub, r, zero, x[0]), s.do(lane.Div, r, dividend, divisor))
}
