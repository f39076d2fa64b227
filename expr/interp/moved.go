package interp

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// mover rewrites a code that only moves numbers of two parts, as selections do, to one that moves both at once, as an
// integer of as many bits.
type mover struct {
	from, to *expr.Code
	whole    []bool // by operand: it is moved, and its parts are not looked at
	at       map[[2]expr.Value]expr.Value
}

// moved returns the code of integers that moves what c moves; nil where c does something else with a part.
func moved(c *expr.Code) *expr.Code {
	m := mover{c, &expr.Code{In: append([]tensor.DType(nil), c.In...), Funcs: c.Funcs}, make([]bool, len(c.In)),
		map[[2]expr.Value]expr.Value{}}
	for k, d := range c.In {
		if m.whole[k] = d == tensor.Complex64; m.whole[k] {
			m.to.In[k] = tensor.Int64
		}
	}
	for _, o := range c.Out {
		if o.DType != tensor.Complex64 {
			return nil
		}
		v := m.pair(o.Re, o.Im)
		if v == expr.None {
			return nil
		}
		m.to.Out = append(m.to.Out, expr.Output{DType: tensor.Int64, Re: v, Im: expr.None})
	}
	return m.to
}

// pair returns the value that has two parts; None where they are no pair that is moved.
func (m *mover) pair(re, im expr.Value) expr.Value {
	key := [2]expr.Value{re, im}
	if v, ok := m.at[key]; ok {
		return v
	}
	a, b := m.from.Insts[re], m.from.Insts[im]
	i := expr.Inst{Op: a.Op, DType: tensor.Int64, A: a.A, B: expr.None, C: expr.None}
	switch {
	case a.Op == expr.Load && b.Op == expr.Load && a.A == b.A && a.Imm == 0 && b.Imm == 1:
	case a.Op == expr.Const && b.Op == expr.Const:
		i.A, i.Imm = expr.None, b.Imm<<32|a.Imm
	case a.Op == expr.Select && b.Op == expr.Select && a.A == b.A:
		i.A, i.B, i.C = m.alone(a.A), m.pair(a.B, b.B), m.pair(a.C, b.C)
		if i.A == expr.None || i.B == expr.None || i.C == expr.None {
			return expr.None
		}
	default:
		return expr.None
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

// alone returns a value that is computed as before; None where it needs a part of what is moved.
func (m *mover) alone(v expr.Value) expr.Value {
	key := [2]expr.Value{v, expr.None}
	if w, ok := m.at[key]; ok {
		return w
	}
	i := m.from.Insts[v]
	if i.Op == expr.Load && m.whole[i.A] {
		return expr.None
	}
	if i.Op != expr.Load {
		for k, u := range i.Uses() {
			w := m.alone(u)
			if w == expr.None {
				return expr.None
			}
			*[]*expr.Value{&i.A, &i.B, &i.C}[k] = w
		}
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

func (m *mover) add(i expr.Inst) expr.Value {
	m.to.Insts = append(m.to.Insts, i)
	return expr.Value(len(m.to.Insts) - 1)
}
