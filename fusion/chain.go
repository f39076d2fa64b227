package fusion

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// EpilogueStep is an operation of an epilogue that kernels can apply in registers: Add, Mul, Min or Max of the value
// so far and a number or an operand.
type EpilogueStep struct {
	Op expr.Op
	// Place is the index of the operand among the addresses of the anchor's kernel; 0: it is the Number.
	Place  int
	Number float64
	// Lanes says that the operand has Width elements, one for each position in the fastest dimension of the anchor's
	// result, and is constant along the others. One says that it has one element. Otherwise it has the strides of the
	// result.
	Lanes, One bool
	Width      int
}

// Chain returns the operations of an epilogue that is a sequence of them: of the anchor's result only, into its own
// memory. It is nil for other epilogues. An int32 result is first converted to float32.
func (t *Epilogue) Chain() []EpilogueStep {
	if t == nil || t.code == nil || len(t.code.Out) != 1 {
		return nil
	}
	insts := t.code.Insts
	is := func(v expr.Value, op expr.Op) bool { return v >= 0 && insts[v].Op == op }
	v, d := t.code.Out[0].Re, t.code.In[0]
	begins := func(v expr.Value) bool { return is(v, expr.Load) && insts[v].A == 0 }
	if d == tensor.Int32 {
		d = tensor.Float32
		anchor := begins
		begins = func(v expr.Value) bool { return is(v, expr.Convert) && insts[v].DType == d && anchor(insts[v].A) }
	}
	if !d.IsFloat() {
		return nil
	}
	var back []EpilogueStep
	for !begins(v) {
		if v < 0 || insts[v].DType != d {
			return nil
		}
		i := insts[v]
		switch i.Op {
		case expr.Add, expr.Mul, expr.Min, expr.Max:
		default:
			return nil
		}
		rest, by := i.A, i.B
		if is(rest, expr.Const) || is(rest, expr.Load) && insts[rest].A != 0 {
			rest, by = by, rest
		}
		s, ok := t.step(i.Op, by, d)
		if !ok {
			return nil
		}
		back, v = append(back, s), rest
	}
	slices.Reverse(back)
	return back
}

// step returns an operation with a number, or with an operand in a layout that kernels read.
func (t *Epilogue) step(op expr.Op, by expr.Value, d tensor.DType) (s EpilogueStep, ok bool) {
	s.Op = op
	switch i := t.code.Insts[by]; {
	case i.Op == expr.Const && i.DType == tensor.Float32:
		s.Number = float64(math.Float32frombits(uint32(i.Imm)))
		return s, !math.IsNaN(s.Number)
	case i.Op == expr.Const && i.DType == tensor.Float64:
		s.Number = math.Float64frombits(i.Imm)
		return s, !math.IsNaN(s.Number)
	case i.Op != expr.Load || i.A == 0 || i.DType != d || t.code.In[i.A] != d:
		return s, false
	default:
		result, operand := t.streams[0], t.streams[1+int(i.A)]
		s.Place, s.Width = operand.place, t.sizes[0]
		alike := true
		s.One = true
		s.Lanes = operand.steps[0] == operand.size
		for d, step := range operand.steps {
			alike = alike && step == result.steps[d]
			s.One = s.One && step == 0
			s.Lanes = s.Lanes && (d == 0 || step == 0)
		}
		s.Lanes = s.Lanes && !alike
		return s, alike || s.Lanes || s.One
	}
}
