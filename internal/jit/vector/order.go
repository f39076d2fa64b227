package vector

import "github.com/graphrun/graphrun/expr"

// evaluationOrder returns the values that the folds and outputs of a loop need, in an order that keeps few values live:
// of the operands of an instruction, the operand that needs the most registers comes first.
func evaluationOrder(l *expr.Loop) []expr.Value {
	o := order{insts: l.Code.Insts, needed: registersNeeded(l.Code.Insts), visited: make([]bool, len(l.Code.Insts))}
	for _, f := range l.Folds {
		o.visit(f.V)
	}
	for _, out := range l.Code.Out {
		o.visit(out.Re)
		if out.Im != expr.None {
			o.visit(out.Im)
		}
	}
	return o.values
}

// registersNeeded estimates the number of registers that the computation of each value needs, under the assumption that
// no value is used twice (Sethi-Ullman numbers).
func registersNeeded(insts []expr.Inst) []int {
	needed := make([]int, len(insts))
	for v, i := range insts {
		highest, ties := 0, 0
		for _, u := range i.Uses() {
			switch w := needed[u]; {
			case w > highest:
				highest, ties = w, 0
			case w == highest:
				ties++
			}
		}
		needed[v] = max(1, highest+ties)
		if i.Op == expr.Const {
			needed[v] = 0
		}
	}
	return needed
}

// order is an evaluation order under construction.
type order struct {
	insts   []expr.Inst
	needed  []int
	visited []bool
	values  []expr.Value
}

// visit appends a value after its operands.
func (o *order) visit(v expr.Value) {
	if o.visited[v] {
		return
	}
	uses := o.insts[v].Uses()
	for range uses {
		next := expr.None
		for _, u := range uses {
			if !o.visited[u] && (next == expr.None || o.needed[u] > o.needed[next]) {
				next = u
			}
		}
		if next == expr.None {
			break
		}
		o.visit(next)
	}
	o.visited[v] = true
	o.values = append(o.values, v)
}
