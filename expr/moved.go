package expr

import "github.com/graphrun/graphrun/tensor"

// mover rewrites a code that only moves numbers of two parts, as selections do, to one that moves both at once, as an
// integer of as many bits.
type mover struct {
	from, to *Code
	whole    []bool // by operand: it is moved, and its parts are not looked at
	at       map[[2]Value]Value
}

// moved returns the code of integers that moves what c moves; nil where c does something else with a part.
func (c *Code) moved() *Code {
	m := mover{c, &Code{In: append([]tensor.DType(nil), c.In...), Funcs: c.Funcs}, make([]bool, len(c.In)),
		map[[2]Value]Value{}}
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
		if v == None {
			return nil
		}
		m.to.Out = append(m.to.Out, Output{tensor.Int64, v, None})
	}
	return m.to
}

// pair returns the value that has two parts; None where they are no pair that is moved.
func (m *mover) pair(re, im Value) Value {
	key := [2]Value{re, im}
	if v, ok := m.at[key]; ok {
		return v
	}
	a, b := m.from.Insts[re], m.from.Insts[im]
	i := Inst{Op: a.Op, DType: tensor.Int64, A: a.A, B: None, C: None}
	switch {
	case a.Op == Load && b.Op == Load && a.A == b.A && a.Imm == 0 && b.Imm == 1:
	case a.Op == Const && b.Op == Const:
		i.A, i.Imm = None, b.Imm<<32|a.Imm
	case a.Op == Select && b.Op == Select && a.A == b.A:
		i.A, i.B, i.C = m.alone(a.A), m.pair(a.B, b.B), m.pair(a.C, b.C)
		if i.A == None || i.B == None || i.C == None {
			return None
		}
	default:
		return None
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

// alone returns a value that is computed as before; None where it needs a part of what is moved.
func (m *mover) alone(v Value) Value {
	key := [2]Value{v, None}
	if w, ok := m.at[key]; ok {
		return w
	}
	i := m.from.Insts[v]
	if i.Op == Load && m.whole[i.A] {
		return None
	}
	if i.Op != Load {
		for k, u := range i.Uses() {
			w := m.alone(u)
			if w == None {
				return None
			}
			*[]*Value{&i.A, &i.B, &i.C}[k] = w
		}
	}
	m.at[key] = m.add(i)
	return m.at[key]
}

func (m *mover) add(i Inst) Value {
	m.to.Insts = append(m.to.Insts, i)
	return Value(len(m.to.Insts) - 1)
}
