package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// recomputeCost is the maximum cost of recomputing an element in a later pass, in simple operations. It is about the
// cost of storing and loading the element.
const recomputeCost = 6

// maxSourceSteps is the maximum number of operations between a value and the stored row from which it is recomputed.
const maxSourceSteps = 3

// storeRows adds stored rows for values that earlier passes compute and pass k needs, if loading them is cheaper than
// recomputing them. roots are the results of the pass.
func (s *splitter) storeRows(k int, roots ...Value) {
	seen := make([]bool, len(s.code.Insts))
	for _, v := range roots {
		if v != None {
			seen[v] = true
		}
	}
	for v := len(seen) - 1; v >= 0; v-- {
		if !seen[v] || !s.variesInRow[v] {
			continue
		}
		if s.level[v] < k {
			s.store(Value(v), k)
			continue
		}
		if s.code.Insts[v].Op == Scan {
			continue // v already has a stored row
		}
		for _, u := range s.code.Insts[v].Operands() {
			seen[u] = true
		}
	}
}

// store adds a stored row for value v, which pass k needs, if recomputing v is expensive. If v is cheap to compute from
// a single expensive value, store adds the row of that value instead.
func (s *splitter) store(v Value, k int) {
	isExpensive := func(u Value) bool { return s.variesInRow[u] && s.rowIndex[u] < 0 && s.cost(u) > recomputeCost }
	for steps := 0; isExpensive(v) && steps < maxSourceSteps; steps++ {
		source, expensiveCount := None, 0
		for _, u := range s.code.Insts[v].Operands() {
			if u != source && isExpensive(u) {
				source = u
				expensiveCount++
			}
		}
		// A row of source must suffice to compute v. If v needs another operand, and no other value uses source, a row of v
		// is better.
		if expensiveCount != 1 || opCost(s.code.Insts[v].Op) > 1 || s.useCount(source) == 1 && s.hasOtherOperand(v, source) {
			break
		}
		v = source
	}
	if !isExpensive(v) {
		return
	}
	s.rowIndex[v] = len(s.Rows)
	d := s.code.Insts[v].DType
	s.Rows = append(s.Rows, Row{DType: d, Out: -1})
	for o, out := range s.code.Out {
		if out.Re == v && out.Im == None && out.DType == d && s.PerElement[o] && s.outputPass(o) == s.level[v] {
			s.Rows[len(s.Rows)-1].Out = o
		}
	}
	s.writerPass, s.lastReader = append(s.writerPass, s.level[v]), append(s.lastReader, k)
}

// useCount returns the number of values and outputs that use v.
func (s *splitter) useCount(v Value) (n int) {
	for _, out := range s.code.Out {
		if out.Re == v || out.Im == v {
			n++
		}
	}
	for _, inst := range s.code.Insts {
		if slices.Contains(inst.Operands(), v) {
			n++
		}
	}
	return n
}

// hasOtherOperand reports whether v has an operand, other than `stored`, that varies within a row and has no stored
// row. If a row of `stored` replaces a row of v, a later pass must also read or recompute this operand.
func (s *splitter) hasOtherOperand(v, stored Value) bool {
	return slices.ContainsFunc(s.code.Insts[v].Operands(), func(u Value) bool {
		return u != stored && s.variesInRow[u] && s.rowIndex[u] < 0
	})
}

// cost estimates the cost, in simple operations, of computing an element of v from operands, numbers and stored rows.
// It stops counting above recomputeCost.
func (s *splitter) cost(v Value) int {
	seen, sum := map[Value]bool{v: true}, 0
	pending := []Value{v}
	for len(pending) > 0 && sum <= recomputeCost {
		u := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		sum += opCost(s.code.Insts[u].Op)
		for _, w := range s.code.Insts[u].Operands() {
			if s.variesInRow[w] && s.rowIndex[w] < 0 && !seen[w] {
				seen[w] = true
				pending = append(pending, w)
			}
		}
	}
	return sum
}

// opCost returns the cost of an operation, in simple operations.
func opCost(o Op) int {
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

// Columns returns the code of pass k for a loop across rows that are adjacent in memory. An iteration of the loop
// processes the given number of consecutive elements of each row. [Place.Element] is the index of the element. The
// accumulators of folds are the last operands and, in the same memory, the last outputs. Elements are folded in order.
func (program *RowProgram) Columns(k, elements int) (code *Code, in, out []Place, err error) {
	if k < 0 || k >= len(program.Passes) {
		return nil, nil, nil, fmt.Errorf("expr: pass %d does not exist: the program has %d passes", k, len(program.Passes))
	}
	pass := &program.Passes[k]
	if pass.Code == nil {
		return nil, nil, nil, errors.New("expr: the pass has no loop")
	}
	if elements < 1 || elements > MaxOperands {
		return nil, nil, nil, fmt.Errorf("expr: elements is %d: want 1 to %d", elements, MaxOperands)
	}
	builder := NewBuilder()
	operand := func(p Place, d tensor.DType) int {
		for n, place := range in {
			if place == p {
				return n
			}
		}
		in, builder.code.In = append(in, p), append(builder.code.In, d)
		return len(in) - 1
	}
	var outs []Output
	folded := make([][]Value, len(pass.Folds)) // by fold, then by element
	for element := range elements {
		values := builder.Inline(pass.Code, func(n, part int) Value {
			p := pass.In[n]
			if p.Element = element; p.Kind == AtNumber || p.Kind == AtOperand && program.Uniform[p.N] {
				p.Element = 0
			}
			return builder.load(operand(p, pass.Code.In[n]), uint64(part))
		})
		for n, p := range pass.Out {
			if p.Kind != Nowhere {
				p.Element = element
				outs, out = append(outs, values[n]), append(out, p)
			}
		}
		firstFolded := len(values) - len(pass.Folds)
		for n := range folded {
			folded[n] = append(folded[n], values[firstFolded+n].Re)
		}
	}
	for n, f := range pass.Folds {
		p := Place{Kind: AtNumber, N: pass.FoldResults[n]}
		acc := builder.Load(operand(p, builder.DType(folded[n][0])))
		for _, v := range folded[n] {
			acc = builder.Emit(f.Op, acc, v)
		}
		outs, out = append(outs, builder.Real(acc)), append(out, p)
	}
	code, err = builder.Build(outs...)
	return code, in, out, err
}

// Joining returns the code that combines two accumulators of a fold by op. The first operand is the accumulator of the
// earlier elements.
func Joining(op Op, d tensor.DType) (*Code, error) {
	b := NewBuilder(d, d)
	return b.Build(b.Real(b.Emit(op, b.Load(0), b.Load(1))))
}
