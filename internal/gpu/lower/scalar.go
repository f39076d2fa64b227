package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// scalarBuilder builds a kernel. Kernels may contain only some operations of package lane, on few dtypes. scalarBuilder
// expresses all other operations and dtypes by these operations and dtypes. It represents an integer of less than 32
// bits by an int32 or a uint32 of the same value. It represents a float16 or bfloat16 by a uint32 of its bits. For
// example, a sum of int8 is computed as a sum of int32, and wrapInteger then sign-extends the low 8 bits.
//
// [scalarBuilder.eval] adds a whole expression, and [scalarBuilder.addInst] adds one instruction of an expression. Most
// methods add instructions to the kernel, and return the value of the last instruction. The packages expr, lane and ir
// give a primitive operation the same number, so lane.Op(x) and ir.Op(x) are the operation x.
type scalarBuilder struct {
	*ir.Builder
	target Target
	err    error // names the first operation that the device does not have
}

// unsupported records that the device cannot do a computation. Only the first call has an effect.
func (s *scalarBuilder) unsupported(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("gpu: %s is %w", fmt.Sprintf(format, args...), ErrUnsupported)
	}
}

// registerDType returns the dtype of the value that represents an element of a dtype in a kernel.
func registerDType(dtype tensor.DType) tensor.DType {
	switch dtype {
	case tensor.Int8, tensor.Int16:
		return tensor.Int32
	case tensor.Uint8, tensor.Uint16, tensor.Float16, tensor.BFloat16:
		return tensor.Uint32
	}
	return dtype
}

// op adds an operation of package lane whose result has the given dtype.
func (s *scalarBuilder) op(op lane.Op, dtype tensor.DType, args ...ir.Value) ir.Value {
	if dtype == tensor.Float64 && !s.target.Float64 {
		s.unsupported("float64")
	}
	return s.Emit(ir.Op(op), dtype, args...)
}

// bits reinterprets a value of 32 or 64 bits as another dtype of the same size.
func (s *scalarBuilder) bits(dtype tensor.DType, value ir.Value) ir.Value {
	if s.Type(value) == dtype {
		return value
	}
	return s.op(lane.Bits, dtype, value)
}

// constant returns a constant element with the given bits. dtype is not bool.
func (s *scalarBuilder) constant(dtype tensor.DType, bits uint64) ir.Value {
	if dtype == tensor.Float64 && !s.target.Float64 {
		s.unsupported("float64")
	}
	// A short signed integer is sign-extended to 32 bits.
	if bitsOfType := 8 * dtype.Size(); dtype.IsSigned() && !dtype.IsFloat() && bitsOfType < 32 {
		bits = uint64(uint32(int32(bits<<(32-bitsOfType)) >> (32 - bitsOfType)))
	}
	return s.Const(registerDType(dtype), bits)
}

// float returns a constant of float32 or float64. x is rounded to the dtype.
func (s *scalarBuilder) float(dtype tensor.DType, x float64) ir.Value {
	if dtype == tensor.Float32 {
		return s.constant(dtype, uint64(math.Float32bits(float32(x))))
	}
	return s.constant(dtype, math.Float64bits(x))
}

// unsigned returns the unsigned integer dtype that has the size of registerDType(dtype).
func unsigned(dtype tensor.DType) tensor.DType {
	if dtype.Size() == 8 {
		return tensor.Uint64
	}
	return tensor.Uint32
}

// rawBits returns the bits of an element in memory, zero-extended to a uint32, or to a uint64 for elements of 64 bits.
func (s *scalarBuilder) rawBits(dtype tensor.DType, element ir.Value) ir.Value {
	if dtype == tensor.Bool {
		return s.op(lane.Select, tensor.Uint32, element, s.Const(tensor.Uint32, 1), s.Const(tensor.Uint32, 0))
	}
	element = s.bits(unsigned(dtype), element)
	if dtype.IsSigned() && !dtype.IsFloat() && dtype.Size() < 4 {
		return s.op(lane.And, tensor.Uint32, element, s.Const(tensor.Uint32, 1<<(8*dtype.Size())-1))
	}
	return element
}

// fromRawBits returns the element whose bits are the lower bits of word, a uint32 or uint64. A bool is true if word is
// not 0.
func (s *scalarBuilder) fromRawBits(dtype tensor.DType, word ir.Value) ir.Value {
	if dtype == tensor.Bool {
		return s.op(lane.Ne, tensor.Bool, word, s.Const(tensor.Uint32, 0))
	}
	return s.wrapInteger(dtype, s.bits(registerDType(dtype), word))
}

// wrapInteger reduces an int32 or uint32 modulo 2^bits to an element of a dtype with fewer bits: it sign-extends or
// zero-extends the lower bits. Values of other dtypes are not changed.
func (s *scalarBuilder) wrapInteger(dtype tensor.DType, value ir.Value) ir.Value {
	if dtype == tensor.Bool || dtype.Size() >= 4 {
		return value
	}
	if dtype.IsSigned() && !dtype.IsFloat() {
		shift := s.Const(tensor.Int32, uint64(32-8*dtype.Size()))
		return s.op(lane.Shr, tensor.Int32, s.op(lane.Shl, tensor.Int32, value, shift), shift)
	}
	return s.op(lane.And, tensor.Uint32, value, s.Const(tensor.Uint32, 1<<(8*dtype.Size())-1))
}

// selectValue returns `yes` where condition is true, and `no` elsewhere.
func (s *scalarBuilder) selectValue(dtype tensor.DType, condition, yes, no ir.Value) ir.Value {
	if dtype == tensor.Bool { // condition && yes || !condition && no
		return s.op(lane.Or, dtype, s.op(lane.And, dtype, condition, yes),
			s.op(lane.And, dtype, s.op(lane.Not, dtype, condition), no))
	}
	return s.op(lane.Select, registerDType(dtype), condition, yes, no)
}

// eval adds the instructions of an expression without elementary functions, and returns their values, indexed as
// code.Insts. load returns one number of the element of an operand: the imaginary part if part is 1, otherwise the real
// part. For a real element, it returns the element.
func (s *scalarBuilder) eval(code *expr.Code, load func(operand, part int) ir.Value) []ir.Value {
	tables := map[uint64]*[32]float32{} // by Inst.Imm: equal tables must have the same pointer (ir.Builder.Lookup)
	values := make([]ir.Value, len(code.Insts))
	for index, inst := range code.Insts {
		var operands []ir.Value
		operandDType := tensor.Invalid // after the loop, the dtype of the last operand
		for _, use := range inst.Operands() {
			operands, operandDType = append(operands, values[use]), code.Insts[use].DType
		}
		switch inst.Op {
		case expr.Load:
			values[index] = load(int(inst.A), int(inst.Imm)) // Imm is the part
		case expr.Lookup:
			entries := tables[inst.Imm]
			if entries == nil {
				table := inst.Table()
				entries = &table
				tables[inst.Imm] = entries
			}
			values[index] = s.Lookup(entries, operands[0])
		default:
			values[index] = s.addInst(inst, operandDType, operands)
		}
	}
	return values
}

// addInst adds an instruction of an expression without elementary functions. operandDType is the dtype of the last
// operand.
func (s *scalarBuilder) addInst(source expr.Inst, operandDType tensor.DType, operands []ir.Value) ir.Value {
	dtype, registerType := source.DType, registerDType(source.DType)
	isFloat := dtype == tensor.Float32 || dtype == tensor.Float64
	if isFloat && !s.target.KeepsConstantZeros {
		operands = s.hideZeros(lane.Op(source.Op), dtype, operands)
	}
	switch op := lane.Op(source.Op); op {
	case lane.Const:
		if dtype == tensor.Bool {
			return s.Const(dtype, source.Imm)
		}
		return s.constant(dtype, source.Imm)
	case lane.Bits:
		if operandDType == dtype {
			return operands[0]
		}
		return s.fromRawBits(dtype, s.rawBits(operandDType, operands[0]))
	case lane.Convert:
		return s.convert(dtype, operandDType, operands[0])
	case lane.Select:
		return s.selectValue(dtype, operands[0], operands[1], operands[2])
	case lane.Eq, lane.Ne, lane.Lt, lane.Le:
		return s.compare(op, operandDType, operands)
	case lane.Min, lane.Max:
		return s.extreme(op, registerType, operands)
	case lane.Shl, lane.Shr: // the count of the shift is taken modulo the number of bits
		count := s.op(lane.And, registerType, operands[1], s.Const(registerType, uint64(8*dtype.Size()-1)))
		return s.wrapInteger(dtype, s.op(op, registerType, operands[0], count))
	case lane.Neg, lane.Abs:
		return s.sign(op, dtype, operands[0])
	case lane.Div:
		if !dtype.IsFloat() {
			return s.wrapInteger(dtype, s.divide(registerType, operands))
		}
		return s.correctlyRounded(op, dtype, operands)
	case lane.Sqrt, lane.FMA:
		return s.correctlyRounded(op, dtype, operands)
	case lane.Floor, lane.Ceil, lane.Trunc, lane.Rint:
		return s.round(op, dtype, operands[0])
	case lane.Mod:
		return s.mod(dtype, operands[0], operands[1])
	case lane.Scale:
		return s.scale(dtype, operands[0], operands[1])
	case lane.Limit: // limits the magnitude of operand 0 to the magnitude of operand 1
		magnitude := s.sign(lane.Abs, dtype, operands[1])
		isLess := s.op(lane.Lt, tensor.Bool, s.sign(lane.Abs, dtype, operands[0]), magnitude)
		return s.selectValue(dtype, isLess, operands[0], s.withSign(dtype, magnitude, operands[0]))
	default: // kernels have the same operation, such as Add
		return s.wrapInteger(dtype, s.op(op, registerType, operands...))
	}
}

// hideZeros returns the operands of an operation. It is for drivers that simplify arithmetic and selections with the
// constant 0, and thus change NaN and the sign of 0. hideZeros replaces the constant by bit 31 of the index of the
// group. This bit is always 0, because there are fewer than 2^31 groups, but the driver cannot derive this.
func (s *scalarBuilder) hideZeros(op lane.Op, dtype tensor.DType, operands []ir.Value) []ir.Value {
	switch op {
	case lane.Add, lane.Sub, lane.Mul, lane.Div, lane.FMA, lane.Select:
	default:
		return operands
	}
	operands = slices.Clone(operands)
	for position, operand := range operands {
		source := s.Insts[operand]
		for lane.Op(source.Op) == lane.Convert { // the driver computes conversions of constants
			source = s.Insts[source.Args[0]]
		}
		if lane.Op(source.Op) == lane.Const && source.Imm == 0 && s.Type(operand) == dtype {
			zero := s.op(lane.Shr, tensor.Uint32, s.Emit(ir.Group, tensor.Uint32), s.Const(tensor.Uint32, 31))
			operands[position] = s.bits(dtype, s.convertInteger(unsigned(dtype), zero))
		}
	}
	return operands
}

// compare adds a comparison (Eq, Ne, Lt or Le) of operands of dtype operandDType. Kernels have no comparisons of bools.
// Logical operations compute such comparisons, with false less than true.
func (s *scalarBuilder) compare(op lane.Op, operandDType tensor.DType, operands []ir.Value) ir.Value {
	const boolean = tensor.Bool
	if operandDType != boolean {
		return s.op(op, boolean, operands...)
	}
	switch op {
	case lane.Eq:
		return s.op(lane.Not, boolean, s.op(lane.Xor, boolean, operands...))
	case lane.Ne:
		return s.op(lane.Xor, boolean, operands...)
	case lane.Lt:
		return s.op(lane.And, boolean, s.op(lane.Not, boolean, operands[0]), operands[1])
	}
	return s.op(lane.Or, boolean, s.op(lane.Not, boolean, operands[0]), operands[1])
}

// extreme adds Min or Max of two operands. The result is the first operand if it is less (for Max: greater) or NaN,
// otherwise the second operand.
func (s *scalarBuilder) extreme(op lane.Op, dtype tensor.DType, operands []ir.Value) ir.Value {
	lesser, greater := operands[0], operands[1]
	if op == lane.Max {
		lesser, greater = greater, lesser
	}
	selectsFirst := s.op(lane.Lt, tensor.Bool, lesser, greater)
	if dtype.IsFloat() {
		selectsFirst = s.op(lane.Or, tensor.Bool, selectsFirst, s.op(lane.Ne, tensor.Bool, operands[0], operands[0]))
	}
	return s.selectValue(dtype, selectsFirst, operands[0], operands[1])
}

// sign adds Neg or Abs. For floats it uses integer operations on the sign bit, because float operations of some devices
// change NaN or subnormal numbers.
func (s *scalarBuilder) sign(op lane.Op, dtype tensor.DType, operand ir.Value) ir.Value {
	registerType := registerDType(dtype)
	if dtype.IsFloat() {
		bitType, signBit := unsigned(dtype), uint64(1)<<(8*dtype.Size()-1)
		if op == lane.Neg {
			return s.bits(registerType, s.op(lane.Xor, bitType, s.bits(bitType, operand), s.Const(bitType, signBit)))
		}
		return s.bits(registerType, s.op(lane.And, bitType, s.bits(bitType, operand), s.Const(bitType, signBit-1)))
	}
	zero := s.Const(registerType, 0)
	negated := s.wrapInteger(dtype, s.op(lane.Sub, registerType, zero, operand))
	switch {
	case op == lane.Neg:
		return negated
	case dtype.IsSigned():
		return s.selectValue(dtype, s.op(lane.Lt, tensor.Bool, operand, zero), negated, operand)
	}
	return operand
}

// withSign returns the float `magnitude` with the sign of the float `signed`. The sign bit of magnitude is 0.
func (s *scalarBuilder) withSign(dtype tensor.DType, magnitude, signed ir.Value) ir.Value {
	bitType := unsigned(dtype)
	signBit := s.op(lane.And, bitType, s.bits(bitType, signed), s.Const(bitType, 1<<(8*dtype.Size()-1)))
	return s.bits(dtype, s.op(lane.Or, bitType, s.bits(bitType, magnitude), signBit))
}

// divide divides integers. Devices define neither a division by 0 nor the division of the least integer by -1, which
// overflows. For a divisor of 0 or -1, the device divides by 1 instead. The result for a divisor of 0 is 0, and the
// result for -1 is 0 - dividend.
func (s *scalarBuilder) divide(dtype tensor.DType, operands []ir.Value) ir.Value {
	zero, one := s.Const(dtype, 0), s.Const(dtype, 1)
	isZero := s.op(lane.Eq, tensor.Bool, operands[1], zero)
	dividend := s.selectValue(dtype, isZero, zero, operands[0])
	if !dtype.IsSigned() {
		return s.op(lane.Div, dtype, dividend, s.selectValue(dtype, isZero, one, operands[1]))
	}
	minusOne := s.Const(dtype, math.MaxUint64>>(64-8*dtype.Size())) // all bits are set
	isMinusOne := s.op(lane.Eq, tensor.Bool, operands[1], minusOne)
	divisor := s.selectValue(dtype, s.op(lane.Or, tensor.Bool, isZero, isMinusOne), one, operands[1])
	return s.selectValue(dtype, isMinusOne, s.op(lane.Sub, dtype, zero, operands[0]),
		s.op(lane.Div, dtype, dividend, divisor))
}
