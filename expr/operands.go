package expr

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// WithOperand returns the code with one more operand, behind the others, at which it does not look.
func (c *Code) WithOperand(d tensor.DType) *Code {
	out := *c
	out.In = append(slices.Clone(c.In), d)
	return &out
}

// Exchanged returns the code with operands i and j exchanged. It panics where there are no such operands.
func (c *Code) Exchanged(i, j int) *Code {
	if min(i, j) < 0 || max(i, j) >= len(c.In) {
		panic(fmt.Sprintf("expr: operands %d and %d of a code with %d", i, j, len(c.In)))
	}
	out := *c
	out.In, out.Insts = slices.Clone(c.In), slices.Clone(c.Insts)
	out.In[i], out.In[j] = c.In[j], c.In[i]
	for k := range out.Insts {
		if p := &out.Insts[k]; p.Op == Load {
			switch p.A {
			case Value(i):
				p.A = Value(j)
			case Value(j):
				p.A = Value(i)
			}
		}
	}
	return &out
}
