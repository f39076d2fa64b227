package vector

import "github.com/graphrun/graphrun/expr"

// evaluationOrder returns the values that the folds and outputs of a loop need, in an order that keeps few values live:
// of the operands of an instruction, the operand that needs the most registers comes first.
func evaluationOrder(loop *expr.Loop) []expr.Value {
	order := order{insts: loop.Code.Insts, needed: registersNeeded(loop.Code.Insts),
		visited: make([]bool, len(loop.Code.Insts))}
	for _, f := range loop.Folds {
		order.visit(f.V)
	}
	for _, out := range loop.Code.Out {
		order.visit(out.Re)
		if out.Im != expr.None {
			order.visit(out.Im)
		}
	}
	return order.values
}

// registersNeeded estimates the number of registers that the computation of each value needs, under the assumption that
// no value is used twice (Sethi-Ullman numbers).
func registersNeeded(insts []expr.Inst) []int {
	needed := make([]int, len(insts))
	for v, inst := range insts {
		highest, ties := 0, 0
		for _, operand := range inst.Uses() {
			switch registers := needed[operand]; {
			case registers > highest:
				highest, ties = registers, 0
			case registers == highest:
				ties++
			}
		}
		needed[v] = max(1, highest+ties)
		if inst.Op == expr.Const {
			needed[v] = 0
		}
	}
	return needed
}

// order is an evaluation order under construction.
type order struct {
	insts   []expr.Inst
	needed  []int        // by value: the result of registersNeeded
	visited []bool       // by value: whether it is in the order
	values  []expr.Value // the order so far
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
