package expr

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// WithOperand returns the code with an additional, unused last operand.
func (c *Code) WithOperand(dtype tensor.DType) *Code {
	return &Code{In: append(slices.Clone(c.In), dtype), Insts: c.Insts, Out: c.Out, Funcs: c.Funcs, formula: c.formula}
}

// Exchanged returns the code with operands i and j exchanged. It panics if i or j is out of range.
func (c *Code) Exchanged(i, j int) *Code {
	if min(i, j) < 0 || max(i, j) >= len(c.In) {
		panic(fmt.Sprintf("expr: cannot exchange operands %d and %d: the code has %d operands", i, j, len(c.In)))
	}
	exchanged := &Code{In: slices.Clone(c.In), Insts: slices.Clone(c.Insts), Out: c.Out, Funcs: c.Funcs, formula: c.formula}
	exchanged.In[i], exchanged.In[j] = c.In[j], c.In[i]
	for k := range exchanged.Insts {
		if inst := &exchanged.Insts[k]; inst.Op == Load {
			switch inst.A {
			case Value(i):
				inst.A = Value(j)
			case Value(j):
				inst.A = Value(i)
			}
		}
	}
	return exchanged
}

// Positioned replaces each [Position] by a load of an additional last operand of dtype int32, and returns the new code
// and true. If the code has no Position, it returns c and false. It panics if [Code.Check] rejects the code.
func (c *Code) Positioned() (*Code, bool) {
	if !usesPosition(c) {
		return c, false
	}
	return memo.Of(&c.derived, "positioned", c.positioned), true
}

func (c *Code) positioned() *Code {
	builder := NewBuilder(append(slices.Clone(c.In), tensor.Int32)...)
	out := builder.inline(c, func(operand, part int) Value { return builder.load(operand, uint64(part)) },
		func(_ Value, inst Inst) Value {
			if inst.Op == Position {
				return builder.Load(len(c.In))
			}
			return builder.AddInst(inst)
		})
	positioned, err := builder.Build(out...)
	if err != nil {
		panic(err)
	}
	return positioned
}

// usesPosition reports whether the code has a [Position].
func usesPosition(c *Code) bool {
	return slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.Op == Position })
}
