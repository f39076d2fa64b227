package vector

import "github.com/graphrun/graphrun/expr"

// evaluationOrder returns the values that the folds and outputs of a loop need, in an order that keeps few values live.
// The operands of an instruction are computed in descending order of the registers that their computation needs.
func evaluationOrder(loop *expr.Loop) []expr.Value {
	builder := orderBuilder{insts: loop.Code.Insts, neededRegisters: registersNeeded(loop.Code.Insts),
		visited: make([]bool, len(loop.Code.Insts))}
	for _, fold := range loop.Folds {
		builder.visit(fold.Value)
	}
	for _, out := range loop.Code.Out {
		builder.visit(out.Re)
		if out.Im != expr.None {
			builder.visit(out.Im)
		}
	}
	return builder.values
}

// registersNeeded estimates the number of registers that the computation of each value needs, under the assumption that
// no value is used twice (Sethi-Ullman numbers).
func registersNeeded(insts []expr.Inst) []int {
	needed := make([]int, len(insts))
	for value, inst := range insts {
		// The operand that needs the most registers is computed first. Each further operand that needs the same number
		// of registers adds one register, because the result of the operand before it stays in a register.
		highest, ties := 0, 0
		for _, operand := range inst.Operands() {
			switch registers := needed[operand]; {
			case registers > highest:
				highest, ties = registers, 0
			case registers == highest:
				ties++
			}
		}
		needed[value] = max(1, highest+ties)
		if inst.Op == expr.Const { // it has a register outside the loop, or is a memory operand
			needed[value] = 0
		}
	}
	return needed
}

// orderBuilder is an evaluation order under construction.
type orderBuilder struct {
	insts           []expr.Inst
	neededRegisters []int        // by value: the result of registersNeeded
	visited         []bool       // by value: whether it is in the order
	values          []expr.Value // the order so far
}

// visit appends a value to the order, and before it the operands that are not in the order yet.
func (o *orderBuilder) visit(value expr.Value) {
	if o.visited[value] {
		return
	}
	uses := o.insts[value].Operands()
	for range uses { // visits the unvisited operand that needs the most registers
		next := expr.None
		for _, operand := range uses {
			if !o.visited[operand] && (next == expr.None || o.neededRegisters[operand] > o.neededRegisters[next]) {
				next = operand
			}
		}
		if next == expr.None {
			break
		}
		o.visit(next)
	}
	o.visited[value] = true
	o.values = append(o.values, value)
}
