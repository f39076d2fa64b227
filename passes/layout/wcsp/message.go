package wcsp

import (
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
)

// checkWork is the number of table entries processed between two checks of the context.
const checkWork = 1 << 20

// operand is a function in a sum, as prepared for an iteration over its table.
type operand struct {
	table            []int64
	index            int   // current index into table
	eliminatedStride int   // stride of the variable that is eliminated
	strides          []int // of the other variables in the scope of the message
}

// operands prepares functions for iteration over the variables of a scope and v.
func (e *elimination) operands(v int, scope []int, functions []*function) []operand {
	list := make([]operand, len(functions))
	strides := make([]int, len(functions)*len(scope))
	for i, f := range functions {
		o := operand{table: f.table, strides: strides[i*len(scope):][:len(scope)]}
		stride := 1
		for k := len(f.scope) - 1; k >= 0; k-- {
			if u := f.scope[k]; u == v {
				o.eliminatedStride = stride
			} else {
				at, _ := slices.BinarySearch(scope, u)
				o.strides[at] = stride
			}
			stride *= e.sizes[f.scope[k]]
		}
		list[i] = o
	}
	return list
}

// message returns the minimum of the sum of functions over the labels of v. It works row by row along the last variable
// of the scope. Functions that do not depend on this variable are added once per row.
func (e *elimination) message(v int, functions []*function) *function {
	scope := e.otherVariables(v, functions)
	message := &function{scope: scope, table: make([]int64, e.tableEntries(scope))}
	operands := e.operands(v, scope, functions)
	rowLength, last := 1, len(scope)-1
	fixed := operands
	var varying []operand
	if last >= 0 {
		rowLength = e.sizes[scope[last]]
		sorted.Func(operands, func(a, b operand) int { return min(a.strides[last], 1) - min(b.strides[last], 1) })
		k := slices.IndexFunc(operands, func(o operand) bool { return o.strides[last] > 0 })
		fixed, varying = operands[:k], operands[k:]
	}
	labels, sums := make([]int, len(scope)), make([]int64, e.sizes[v])
	work := 0
	for row := message.table; len(row) > 0; row = row[rowLength:] {
		if work += rowLength * len(sums) * len(operands); work >= checkWork {
			interrupt.Check(e.ctx)
			work = 0
		}
		clear(sums)
		for _, o := range fixed {
			for l := range sums {
				sums[l] = add(sums[l], o.table[o.index+l*o.eliminatedStride])
			}
		}
		minima(row[:rowLength], sums, varying, last)
		for k := last - 1; k >= 0; k-- {
			labels[k]++
			size, steps := e.sizes[scope[k]], 1
			if labels[k] == size {
				labels[k], steps = 0, 1-size
			}
			for j := range operands {
				operands[j].index += steps * operands[j].strides[k]
			}
			if steps == 1 {
				break
			}
		}
	}
	return message
}

// minima computes a row of a message. sums has, by label of the eliminated variable, the sum of the functions that are
// constant along the row. varying has the functions that depend on the row's variable. last is the index of this
// variable in the scope.
func minima(row, sums []int64, varying []operand, last int) {
	for i := range row {
		best := Forbidden
		switch len(varying) {
		case 0:
			for _, s := range sums {
				best = min(best, s)
			}
		case 1:
			a := &varying[0]
			aIndex := a.index + i*a.strides[last]
			for _, s := range sums {
				best = min(best, s+a.table[aIndex])
				aIndex += a.eliminatedStride
			}
		case 2:
			a, b := &varying[0], &varying[1]
			aIndex, bIndex := a.index+i*a.strides[last], b.index+i*b.strides[last]
			for _, s := range sums {
				best = min(best, s+a.table[aIndex]+b.table[bIndex])
				aIndex, bIndex = aIndex+a.eliminatedStride, bIndex+b.eliminatedStride
			}
		default:
			for l, s := range sums {
				for j := range varying {
					o := &varying[j]
					s = add(s, o.table[o.index+i*o.strides[last]+l*o.eliminatedStride])
				}
				best = min(best, s)
			}
		}
		row[i] = best
	}
}
