package expr

import (
	"math"

	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Number is an element of any dtype.
type Number struct {
	Re uint64 // bits of the element, or of its real part, zero-extended
	Im uint64 // bits of the imaginary part of a complex element, else 0
}

// Eval computes the outputs for one element, given the operands. Its results define the code, and tests compare the
// interpreter and compiled code with them. Eval is slow: it keeps the bits of each value in a list, in the order of the
// instructions. Elementary functions are computed by package math where that package is accurate. Eval panics if there
// are fewer operands than the code has.
func (c *Code) Eval(in ...Number) []Number {
	if len(in) < len(c.In) {
		panic("expr: Eval needs all operands of the code")
	}
	values := make([]uint64, len(c.Insts))
	for k, inst := range c.Insts {
		var args [3]uint64
		for n, operand := range inst.Operands() {
			args[n] = values[operand]
		}
		values[k] = c.evalInst(inst, args, in)
	}
	out := make([]Number, len(c.Out))
	for k, output := range c.Out {
		if out[k].Re = values[output.Re]; output.Im != None {
			out[k].Im = values[output.Im]
		}
	}
	return out
}

// evalInst computes the value of an instruction. args has the values of the instruction's operands, and in has the
// operands of the code.
func (c *Code) evalInst(inst Inst, args [3]uint64, in []Number) uint64 {
	switch {
	case inst.Op == Const:
		return inst.Imm
	case inst.Op == Load && inst.Imm != 0:
		return in[inst.A].Im
	case inst.Op == Load:
		return in[inst.A].Re
	case inst.Op == Lookup:
		table := &elementary.Tables[inst.Imm]
		return uint64(math.Float32bits(table[args[0]&31])) // a table has 32 entries
	case inst.Op.Primitive():
		return lane.Eval(lane.Op(inst.Op), inst.DType, c.Insts[inst.A].DType, args)
	}
	return c.evalFunction(inst, args)
}

// evalFunction computes an elementary function or a Call in float64. Operations of row programs give 0.
func (c *Code) evalFunction(inst Inst, args [3]uint64) uint64 {
	var floats [3]float64
	for k := range floats {
		floats[k] = math.Float64frombits(lane.Eval(lane.Convert, tensor.Float64, inst.DType, [3]uint64{args[k]}))
	}
	var result float64
	unary, binary := elementary.Unary[inst.Op.String()], elementary.Binary[inst.Op.String()]
	switch {
	case inst.Op == Call:
		result = c.Funcs[inst.Imm].F(floats[0], floats[1], floats[2])
	case unary != nil:
		result = unary(floats[0])
	case binary != nil:
		result = binary(floats[0], floats[1])
	}
	return lane.Eval(lane.Convert, inst.DType, tensor.Float64, [3]uint64{math.Float64bits(result)})
}
