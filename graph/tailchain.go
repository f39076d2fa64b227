package graph

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TailStep is an operation of a tail that kernels can apply in registers: Add, Mul, Min or Max of what there is so far
// and a number, or an operand.
type TailStep struct {
	Op expr.Op
	// Place is the operand's among the addresses of the head's kernel; 0: it is the Number.
	Place  int
	Number float64
	// Lanes says that the operand has one element for each of the nearest dimension of the head's result, Width of them,
	// and none moves along others. One says that it has one element. Else it lies as the result does, from its first
	// element on.
	Lanes, One bool
	Width      int
}

// Chain returns the operations one after another of a tail that is no more than that, of the head's result alone, into
// its own memory; nil for other tails. Where the result is int32, they are of what it is in float32, to which it is
// converted first.
func (t *Tail) Chain() []TailStep {
	if t == nil || t.code == nil || len(t.code.Out) != 1 {
		return nil
	}
	insts := t.code.Insts
	is := func(v expr.Value, op expr.Op) bool { return v >= 0 && insts[v].Op == op }
	v, d := t.code.Out[0].Re, t.code.In[0]
	begins := func(v expr.Value) bool { return is(v, expr.Load) && insts[v].A == 0 }
	if d == tensor.Int32 {
		d = tensor.Float32
		head := begins
		begins = func(v expr.Value) bool { return is(v, expr.Convert) && insts[v].DType == d && head(insts[v].A) }
	}
	if !d.IsFloat() {
		return nil
	}
	var back []TailStep
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

// step is an operation with a number, or with an operand of a dtype that lies as kernels read it.
func (t *Tail) step(op expr.Op, by expr.Value, d tensor.DType) (s TailStep, ok bool) {
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
