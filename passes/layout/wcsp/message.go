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
	result := &function{scope: scope, table: make([]int64, e.tableEntries(scope))}
	rowLength := 1
	if len(scope) > 0 {
		rowLength = e.sizes[scope[len(scope)-1]]
	}
	operands := e.operands(eliminated, scope, functions)
	constant, varying := splitByRowStride(operands)
	labels, sums := make([]int, len(scope)), make([]int64, e.sizes[eliminated])
	entriesSinceCheck := 0
	for row := result.table; len(row) > 0; row = row[rowLength:] {
		if entriesSinceCheck += rowLength * len(sums) * len(operands); entriesSinceCheck >= entriesPerCheck {
			interrupt.Check(e.ctx)
			entriesSinceCheck = 0
		}
		clear(sums)
		for _, f := range constant {
			for label := range sums {
				sums[label] = add(sums[label], f.table[f.index+label*f.eliminatedStride])
			}
		}
		rowMinima(row[:rowLength], sums, varying)
		e.advanceRow(scope, labels, operands)
	}
	return result
}

// entriesPerCheck is the number of table entries processed between two checks of the context.
const entriesPerCheck = 1 << 20

// operand is one of the functions that a message sums, with the strides of its table. The stride of a variable that the
// function does not depend on is 0.
type operand struct {
	table            []int64
	index            int   // current index into table
	eliminatedStride int   // of the variable that is eliminated
	rowStride        int   // of the last variable of the message's scope, which runs along a row; 0 for an empty scope
	strides          []int // by variable of the message's scope
}

// operands returns the functions with their strides along the variables of scope and along the eliminated variable. The
// variables in scope are in ascending order.
func (e *elimination) operands(eliminated int, scope []int, functions []*function) []operand {
	operands := make([]operand, len(functions))
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
		if len(scope) > 0 {
			operand.rowStride = operand.strides[len(scope)-1]
		}
		operands[i] = operand
	}
	return operands
}

// splitByRowStride sorts the operands that are constant along a row before the others, and returns both parts.
func splitByRowStride(operands []operand) (constant, varying []operand) {
	// The sort key is 0 for a constant operand and 1 for the others.
	sorted.Func(operands, func(a, b operand) int { return min(a.rowStride, 1) - min(b.rowStride, 1) })
	firstVarying := slices.IndexFunc(operands, func(f operand) bool { return f.rowStride > 0 })
	if firstVarying < 0 {
		return operands, nil
	}
	return operands[:firstVarying], operands[firstVarying:]
}

// rowMinima computes a row of a message. sums has, by label of the eliminated variable, the sum of the functions that
// are constant along the row. varying has the other functions. Up to two varying functions are frequent and have loops
// of their own. These loops add up to three costs without add, which saturates at Forbidden: three costs do not
// overflow int64, and best, which starts at Forbidden, limits the sum.
func rowMinima(row, sums []int64, varying []operand) {
	for i := range row {
		best := Forbidden
		switch len(varying) {
		case 0:
			for _, sum := range sums {
				best = min(best, sum)
			}
		case 1:
			first := &varying[0]
			firstIndex := first.index + i*first.rowStride
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex])
				firstIndex += first.eliminatedStride
			}
		case 2:
			first, second := &varying[0], &varying[1]
			firstIndex, secondIndex := first.index+i*first.rowStride, second.index+i*second.rowStride
			for _, sum := range sums {
				best = min(best, sum+first.table[firstIndex]+second.table[secondIndex])
				firstIndex, secondIndex = firstIndex+first.eliminatedStride, secondIndex+second.eliminatedStride
			}
		default:
			for label, sum := range sums {
				for j := range varying {
					f := &varying[j]
					sum = add(sum, f.table[f.index+i*f.rowStride+label*f.eliminatedStride])
				}
				best = min(best, sum)
			}
		}
		row[i] = best
	}
}

// advanceRow advances labels and the indices of operands to the next row of a message. Labels are by variable of the
// scope; the label of the last variable, which runs along the row, stays 0.
func (e *elimination) advanceRow(scope, labels []int, operands []operand) {
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
