package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// FlushExp returns the code with every exponential of a float32 below least computed as 0, and whether there is one.
// Exponentials near the end of the range are subnormal, and processors take a hundred times as long for operations on
// such numbers: who only adds them to numbers of another magnitude does without. NaN stays.
func (c *Code) FlushExp(least float64) (*Code, bool) {
	if c == nil || math.IsNaN(least) {
		return c, false
	}
	b, found := NewBuilder(c.In...), false
	out := b.inline(c, func(operand, part int) Value {
		if part == 0 {
			return b.Load(operand)
		}
		return b.LoadImag(operand)
	}, func(i Inst) Value {
		if i.Op != Exp || i.DType != tensor.Float32 {
			return b.Make(i)
		}
		found = true
		bound := b.Const(i.DType, least)
		below := b.Do(Lt, i.A, bound)
		i.A = b.Do(Select, below, bound, i.A)
		return b.Do(Select, below, b.Const(i.DType, 0), b.Make(i))
	})
	flushed, err := b.Build(out...)
	if err != nil || !found {
		return c, false
	}
	return flushed, true
}
