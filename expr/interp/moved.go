package interp

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// int64Mover rewrites a code that only moves complex64 numbers, as selections do. The new code moves the two parts of a
// number together, as one int64.
type int64Mover struct {
	from, to *expr.Code
	asInt64  []bool                       // by operand: it is complex64, and is loaded as int64
	at       map[[2]expr.Value]expr.Value // the new value for the two parts of a number, or for another value and None
}

// int64Code returns the code that moves int64 instead of complex64, or nil if c computes with a part.
func int64Code(c *expr.Code) *expr.Code {
	m := int64Mover{c, &expr.Code{In: append([]tensor.DType(nil), c.In...), Funcs: c.Funcs}, make([]bool, len(c.In)),
		map[[2]expr.Value]expr.Value{}}
	for k, d := range c.In {
		if m.asInt64[k] = d == tensor.Complex64; m.asInt64[k] {
			m.to.In[k] = tensor.Int64
		}
	}
	for _, o := range c.Out {
		if o.DType != tensor.Complex64 {
			return nil
		}
		v := m.movePair(o.Re, o.Im)
		if v == expr.None {
			return nil
		}
		m.to.Out = append(m.to.Out, expr.Output{DType: tensor.Int64, Re: v, Im: expr.None})
	}
	return m.to
}

// movePair returns the int64 value of two parts, or None if they are not moved together.
func (m *int64Mover) movePair(re, im expr.Value) expr.Value {
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
		i.A, i.B, i.C = m.copyInvariant(a.A), m.movePair(a.B, b.B), m.movePair(a.C, b.C)
		if i.A == expr.None || i.B == expr.None || i.C == expr.None {
			return expr.None
		}
	default:
		return expr.None
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

// copyInvariant copies a value that is not a part of a complex64 number. It returns None if the value depends on such a
// part.
func (m *int64Mover) copyInvariant(v expr.Value) expr.Value {
	key := [2]expr.Value{v, expr.None}
	if w, ok := m.at[key]; ok {
		return w
	}
	i := m.from.Insts[v]
	if i.Op == expr.Load && m.asInt64[i.A] {
		return expr.None
	}
	if i.Op != expr.Load {
		for k, u := range i.Uses() {
			w := m.copyInvariant(u)
			if w == expr.None {
				return expr.None
			}
			*[]*expr.Value{&i.A, &i.B, &i.C}[k] = w
		}
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

func (m *int64Mover) add(i expr.Inst) expr.Value {
	m.to.Insts = append(m.to.Insts, i)
	return expr.Value(len(m.to.Insts) - 1)
}
