package expr

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// FlushExp returns a code in which the result of an exponential is 0 if its float32 operand is below threshold, a
// negative number. FlushExp returns c and false if no exponential can be changed in this way.
//
// For example, softmax is exp(x - max(x)) / sum(exp(x - max(x))) over a row. With the threshold -87, FlushExp replaces
// e = exp(d) for d = x - max(x) by
//
//	e = select(d < -87, 0, exp(select(d < -87, -87, d)))
//
// The purpose is speed: small results of exp are subnormal, and operations on subnormal numbers are a hundred times
// slower. FlushExp replaces only exponentials of an element minus the maximum of its row, so the largest exponential
// of a row is 1. FlushExp checks that the code only scales the exponentials and sums them over the whole row, so that
// small exponentials do not change the sum. If the code uses a logarithm of an exponential, or a sum over a part of the
// row, the exponential is not replaced. NaN is preserved.
func (c *Code) FlushExp(threshold float64) (*Code, bool) {
	if c == nil || !(threshold < 0) || math.IsInf(threshold, 0) {
		return c, false
	}
	type key struct{ threshold float64 }
	flushed := memo.Of(&c.derived, key{threshold}, func() *Code { return c.flushed(threshold) })
	return flushed, flushed != c
}

// flushed returns the code for FlushExp, or c.
func (c *Code) flushed(threshold float64) *Code {
	var isFlushed []bool
	for v := range c.Insts {
		isFlushed = append(isFlushed, c.isExpBelowMax(Value(v)) && c.isUsedLinearly(Value(v)))
	}
	if !slices.Contains(isFlushed, true) {
		return c
	}
	builder := NewBuilder(c.In...)
	load := func(operand, part int) Value {
		if part == 0 {
			return builder.Load(operand)
		}
		return builder.LoadImag(operand)
	}
	add := func(v Value, inst Inst) Value {
		if !isFlushed[v] {
			return builder.AddInst(inst)
		}
		bound := builder.Const(inst.DType, threshold)
		isTiny := builder.Emit(Lt, inst.A, bound)
		inst.A = builder.Emit(Select, isTiny, bound, inst.A)
		return builder.Emit(Select, isTiny, builder.Const(inst.DType, 0), builder.AddInst(inst))
	}
	out := builder.inline(c, load, add)
	flushed, err := builder.Build(out...)
	if err != nil {
		return c
	}
	return flushed
}

// isExpBelowMax reports whether a value is the exponential of a float32 minus the maximum of its row.
func (c *Code) isExpBelowMax(v Value) bool {
	inst := c.Insts[v]
	if inst.Op != Exp || inst.DType != tensor.Float32 || c.Insts[inst.A].Op != Sub {
		return false
	}
	difference := c.Insts[inst.A]
	maximum := c.Insts[difference.B]
	return maximum.Op == Reduce && Op(maximum.Imm) == Max && maximum.A == difference.A
}

// isUsedLinearly reports whether all uses of the exponential are linear operations (addition, scaling, selection,
// numerators of divisions) or sums over the whole row.
func (c *Code) isUsedLinearly(exponential Value) bool {
	isExponential := make([]bool, len(c.Insts))        // indexed by value: the exponential or its conversion
	dependsOnExponential := make([]bool, len(c.Insts)) // indexed by value; a sum over the row does not count as dependent
	isExponential[exponential], dependsOnExponential[exponential] = true, true
	for v := int(exponential) + 1; v < len(c.Insts); v++ {
		inst := c.Insts[v]
		args := []Value{inst.A, inst.B, inst.C}[:inst.Op.ArgCount()]
		if !slices.ContainsFunc(args, func(a Value) bool { return a != None && dependsOnExponential[a] }) {
			continue
		}
		dependsOnExponential[v] = true
		switch inst.Op {
		case Convert:
			isExponential[v] = isExponential[inst.A]
			if !inst.DType.IsFloat() {
				return false
			}
		case Add, Sub, Mul, Neg, FMA:
		case Div: // the exponential may not be in the divisor
			if dependsOnExponential[inst.B] {
				return false
			}
		case Select: // nor in the condition
			if dependsOnExponential[inst.A] {
				return false
			}
		case Reduce: // only a sum of the exponentials themselves
			dependsOnExponential[v] = false
			if Op(inst.Imm) != Add || !isExponential[inst.A] {
				return false
			}
		default:
			return false
		}
	}
	return true
}
