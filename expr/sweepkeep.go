package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// keepCost is what computing an element again may cost, in simple operations, before its row is put aside instead:
// about what a store and a load take.
const keepCost = 6

// keep decides which values of earlier sweeps that sweep k needs are put aside rather than computed again. roots are
// what it makes.
func (s *splitter) keep(k int, roots ...Value) {
	seen := make([]bool, len(s.code.Insts))
	for _, v := range roots {
		if v != None {
			seen[v] = true
		}
	}
	for v := len(seen) - 1; v >= 0; v-- {
		if !seen[v] || !s.stream[v] {
			continue
		}
		if s.level[v] < k {
			s.putAside(Value(v), k)
			continue
		}
		if s.code.Insts[v].Op == Scan {
			continue // its row is there
		}
		for _, u := range s.code.Insts[v].Uses() {
			seen[u] = true
		}
	}
}

// putAside keeps a value that sweep k needs, or what it is easily made of, if that is dear.
func (s *splitter) putAside(v Value, k int) {
	dear := func(u Value) bool { return s.stream[u] && s.row[u] < 0 && s.cost(u) > keepCost }
	for near := 0; dear(v) && near < 3; near++ {
		from, dears := None, 0
		for _, u := range s.code.Insts[v].Uses() {
			if u != from && dear(u) {
				from = u
				dears++
			}
		}
		if dears != 1 || price(s.code.Insts[v].Op) > 1 || s.users(from) == 1 && s.reads(v, from) {
			break
		}
		v = from
	}
	if !dear(v) {
		return
	}
	s.row[v] = len(s.Rows)
	d := s.code.Insts[v].DType
	s.Rows = append(s.Rows, Row{DType: d, Out: -1})
	for o, out := range s.code.Out {
		if out.Re == v && out.Im == None && out.DType == d && s.Whole[o] && s.outLevel(o) == s.level[v] {
			s.Rows[len(s.Rows)-1].Out = o
		}
	}
	s.made, s.last = append(s.made, s.level[v]), append(s.last, k)
}

// users is how many values, or outputs, are made of v.
func (s *splitter) users(v Value) (n int) {
	for _, out := range s.code.Out {
		if out.Re == v || out.Im == v {
			n++
		}
	}
	for _, i := range s.code.Insts {
		if slices.Contains(i.Uses(), v) {
			n++
		}
	}
	return n
}

// reads reports whether v is computed of more than one of its operands that differs within a row: if that is put aside
// alone, the others are to be read once more.
func (s *splitter) reads(v, aside Value) bool {
	return slices.ContainsFunc(s.code.Insts[v].Uses(), func(u Value) bool {
		return u != aside && s.stream[u] && s.row[u] < 0
	})
}

// cost returns about what it takes to compute an element of v of operands, numbers and rows, in simple operations; of
// one that is dearer than keepCost no more than that.
func (s *splitter) cost(v Value) int {
	seen, sum := map[Value]bool{v: true}, 0
	list := []Value{v}
	for len(list) > 0 && sum <= keepCost {
		u := list[len(list)-1]
		list = list[:len(list)-1]
		sum += price(s.code.Insts[u].Op)
		for _, w := range s.code.Insts[u].Uses() {
			if s.stream[w] && s.row[w] < 0 && !seen[w] {
				seen[w] = true
				list = append(list, w)
			}
		}
	}
	return sum
}

// price is what an operation takes, in simple ones.
func price(o Op) int {
	switch {
	case o == Const || o == Load || o == Position:
		return 0
	case o == Div || o == Sqrt:
		return 4
	case o == Mod || !o.Primitive():
		return 20
	}
	return 1
}

// Columns returns the code of sweep k for rows that lie side by side, some elements of each one after the other: folds
// become accumulators that are operands and outputs in the same memory, behind the others, and take the elements in
// order.
func (s *Sweeps) Columns(k, elements int) (c *Code, in, out []Place, err error) {
	if k < 0 || k >= len(s.Steps) {
		return nil, nil, nil, fmt.Errorf("expr: sweep %d of %d", k, len(s.Steps))
	}
	w := &s.Steps[k]
	if w.Code == nil || elements < 1 || elements > MaxOperands {
		return nil, nil, nil, errors.New("expr: a sweep that goes over nothing")
	}
	b := NewBuilder()
	operand := func(p Place, d tensor.DType) int {
		for n, have := range in {
			if have == p {
				return n
			}
		}
		in, b.code.In = append(in, p), append(b.code.In, d)
		return len(in) - 1
	}
	var outs []Output
	folds := make([][]Value, len(w.Folds))
	for e := range elements {
		made := b.Inline(w.Code, func(n, part int) Value {
			p := w.In[n]
			if p.Element = e; p.Kind == AtNumber || p.Kind == AtOperand && s.Uniform[p.N] {
				p.Element = 0
			}
			return b.load(operand(p, w.Code.In[n]), uint64(part))
		})
		for n, p := range w.Out {
			if p.Kind != Nowhere {
				p.Element = e
				outs, out = append(outs, made[n]), append(out, p)
			}
		}
		first := len(made) - len(w.Folds)
		for n := range folds {
			folds[n] = append(folds[n], made[first+n].Re)
		}
	}
	for n, f := range w.Folds {
		p := Place{Kind: AtNumber, N: w.Into[n]}
		acc := b.Load(operand(p, b.DType(folds[n][0])))
		for _, v := range folds[n] {
			acc = b.Do(f.Op, acc, v)
		}
		outs, out = append(outs, b.Real(acc)), append(out, p)
	}
	c, err = b.Build(outs...)
	return c, in, out, err
}

// Joining returns the code that joins two accumulators of a fold by op: those of earlier elements come first.
func Joining(op Op, d tensor.DType) (*Code, error) {
	b := NewBuilder(d, d)
	return b.Build(b.Real(b.Do(op, b.Load(0), b.Load(1))))
}
