package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// message eliminates a variable from a sum of functions. For each combination of labels of the other variables, the
// entry of the message is the minimum of the sum over the labels of the eliminated variable. For the functions f(a,v),
// g(b,v) and h(v), for example, the elimination of v gives the message
//
//	m(a,b) = min over v of f(a,v) + g(b,v) + h(v)
//
// message works row by row along the last variable of its scope, here b. Functions that do not depend on this variable,
// here f and h, are added once per row.
func (e *elimination) message(eliminated int, functions []*function) *function {
	scope := e.otherVariables(eliminated, functions)
	message := &function{scope: scope, table: make([]int64, e.tableEntries(scope))}
	operands := e.operands(eliminated, scope, functions)
	rowLength, last := 1, len(scope)-1
	fixed := operands     // functions that do not depend on the last variable of the scope
	var varying []operand // functions that do
	if last >= 0 {
		rowLength = e.sizes[scope[last]]
		sorted.Func(operands, func(a, b operand) int { return min(a.strides[last], 1) - min(b.strides[last], 1) })
		// At least one function depends on the last variable, so firstVarying is not negative.
		firstVarying := slices.IndexFunc(operands, func(operand operand) bool { return operand.strides[last] > 0 })
		fixed, varying = operands[:firstVarying], operands[firstVarying:]
	}
	labels, sums := make([]int, len(scope)), make([]int64, e.sizes[eliminated])
	work := 0
	for row := message.table; len(row) > 0; row = row[rowLength:] {
		if work += rowLength * len(sums) * len(operands); work >= entriesPerCheck {
			interrupt.Check(e.ctx)
			work = 0
		}
		clear(sums)
		for _, operand := range fixed {
			for label := range sums {
				sums[label] = add(sums[label], operand.table[operand.index+label*operand.eliminatedStride])
			}
		}
		rowMinima(row[:rowLength], sums, varying, last)
		e.advance(scope, labels, operands)
	}
	return message
}

// operand is one of the functions that a message sums, with the strides of its table along the variables of the
// message.
type operand struct {
	table            []int64
	index            int   // current index into table
	eliminatedStride int   // stride of the variable that is eliminated
	strides          []int // by variable of the message's scope; 0 if the function does not depend on it
}

// operands returns the functions with their strides along the variables of scope and along the eliminated variable.
func (e *elimination) operands(eliminated int, scope []int, functions []*function) []operand {
	list := make([]operand, len(functions))
	strides := make([]int, len(functions)*len(scope))
	for i, f := range functions {
		operand := operand{table: f.table, strides: strides[i*len(scope):][:len(scope)]}
		stride := 1
		for k := len(f.scope) - 1; k >= 0; k-- {
			if variable := f.scope[k]; variable == eliminated {
				operand.eliminatedStride = stride
			} else {
				index, _ := slices.BinarySearch(scope, variable)
				operand.strides[index] = stride
			}
			stride *= e.sizes[f.scope[k]]
		}
		list[i] = operand
	}
	return list
}

// rowMinima computes a row of a message. sums has, by label of the eliminated variable, the sum of the functions that
// are constant along the row. varying has the functions that depend on the row's variable. last is the index of this
// variable in the scope. A sum of up to three costs needs no saturation: it does not overflow, and best is at most
// Forbidden.
func rowMinima(row, sums []int64, varying []operand, last int) {
	for i := range row {
		best := Forbidden
		switch len(varying) {
		case 0:
			for _, sum := range sums {
				best = min(best, sum)
			}
		case 1:
			first := &varying[0]
			firstIndex := first.index + i*first.strides[last]
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex])
				firstIndex += first.eliminatedStride
			}
		case 2:
			first, second := &varying[0], &varying[1]
			firstIndex, secondIndex := first.index+i*first.strides[last], second.index+i*second.strides[last]
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex]+second.table[secondIndex])
				firstIndex, secondIndex = firstIndex+first.eliminatedStride, secondIndex+second.eliminatedStride
			}
		default:
			for label, sum := range sums {
				for j := range varying {
					operand := &varying[j]
					sum = add(sum, operand.table[operand.index+i*operand.strides[last]+label*operand.eliminatedStride])
				}
				best = min(best, sum)
			}
		}
		row[i] = best
	}
}

// advance advances labels and the indices of operands to the next row of a message. Labels are by variable of the
// scope; the label of the last variable, which runs along the row, stays 0.
func (e *elimination) advance(scope, labels []int, operands []operand) {
	for k := len(scope) - 2; k >= 0; k-- {
		labels[k]++
		size, increment := e.sizes[scope[k]], 1
		if labels[k] == size {
			labels[k], increment = 0, 1-size
		}
		for j := range operands {
			operands[j].index += increment * operands[j].strides[k]
		}
		if increment == 1 { // no carry
			break
		}
	}
}

// entriesPerCheck is the number of table entries processed between two checks of the context.
const entriesPerCheck = 1 << 20
