package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the costs of reading operands. A form is a layout in which a value may exist. A variable is a
// value with its forms. A label is one way to compute a node, whose implementation can read some forms. The pinned form
// of a value is the form that the user demands.

// permittedReads returns, for each form of operand k, the cost at which label l reads it. best is the form that is
// cheapest to read, or -1 if the label can read no form. required is the only permitted form, or -1 if any form is
// permitted. If the label cannot read the pinned form, permittedReads adds k to the label's pinMisses.
//
// For an operand with the forms row-major, channels-last and packed, the costs of a label that reads the first two are
// for example [900, 700, Forbidden], and best is 1. If the operand is pinned to row-major, they are [900, Forbidden,
// Forbidden].
func (m *Model) permittedReads(n *graph.Node, l *label, readWork readWorkFunc, k, required int) (costs []int64,
	best int) {
	operand := m.variables.At(n.In[k].Value)
	isReadByInference := n.Op.RunDynamic != nil && operand.value.Const != nil // result shapes may depend on its data
	costs = m.readCosts(l.impl, readWork, k, operand, isReadByInference)
	isPinned := operand.pin >= 0 && !isReadByInference
	pinned := operand.pin // the pinned form in the place (host or device) from which the label reads; -1 if there is none
	if isPinned && l.impl.OnDevice() {
		pinned = operand.formInPlace(pinned, l.impl.OperandPlace)
	}
	if isPinned && pinned >= 0 && (required < 0 || required == operand.pin) { // another required form replaces the pin
		requirePinned(costs, pinned)
	}
	m.priceResultSlots(n, k, l.resultForms, operand, l, costs) // changes the costs of forms inside the result of n
	if required >= 0 {
		requireForm(costs, operand, required)
	}
	best = cheapestForm(costs)
	missesPin := isPinned && (pinned < 0 || costs[pinned] >= wcsp.Forbidden)
	if missesPin && best >= 0 {
		l.pinMisses = append(l.pinMisses, k)
	}
	return costs, best
}

// readWorkFunc returns the work of reading operand i in a layout, and false if the operand cannot be read: see
// [graph.Impl.OperandWorkFunc]. It is nil for an op without implementations.
type readWorkFunc func(i int, meta tensor.Meta) (graph.Work, bool)

// readCosts returns, by form, the cost of reading operand k in picoseconds. A value without elements can be read in any
// form. If inference reads the data of the operand, which is then a constant, only the form as written is permitted.
func (m *Model) readCosts(impl *graph.Impl, readWork readWorkFunc, k int, variable *variable,
	isReadByInference bool) []int64 {
	costs := make([]int64, len(variable.forms))
	for i := range variable.forms {
		costs[i] = wcsp.Forbidden
		if !readsPlace(impl, &variable.forms[i]) {
			continue
		}
		if readWork == nil {
			costs[i] = 0
		} else if work, ok := readWork(k, variable.forms[i].meta); ok || variable.value.Meta.Numel() == 0 {
			costs[i] = m.Problem.pricePS(impl, work)
		}
		if isReadByInference && i > 0 {
			costs[i] = wcsp.Forbidden
		}
	}
	return costs
}

// requirePinned forbids all forms except the pinned form. It does nothing if the pinned form cannot be read.
func requirePinned(costs []int64, pinned int) {
	if costs[pinned] >= wcsp.Forbidden {
		return
	}
	for i := range costs {
		if i != pinned {
			costs[i] = wcsp.Forbidden
		}
	}
}

// requireForm forbids all forms except the required form and the forms of the same order that are inside the result of
// a concatenation.
func requireForm(costs []int64, operand *variable, required int) {
	for i := range costs {
		if i != required && operand.forms[i].ownBufferForm != required {
			costs[i] = wcsp.Forbidden
		}
	}
}

// cheapestForm returns the first form of least cost, or -1 if all are forbidden.
func cheapestForm(costs []int64) int {
	best := -1
	for i, cost := range costs {
		if cost < wcsp.Forbidden && (best < 0 || cost < costs[best]) {
			best = i
		}
	}
	return best
}

// preferPinned removes alternatives that disregard pins without need. pinMisses returns the pinned operands that an
// alternative reads in other forms. An alternative is removed if its misses are a proper superset of another
// alternative's misses.
func preferPinned[T any](alternatives []T, pinMisses func(*T) []int) []T {
	if !slices.ContainsFunc(alternatives, func(a T) bool { return len(pinMisses(&a)) > 0 }) {
		return alternatives
	}
	var preferred []T
	for i := range alternatives {
		misses := pinMisses(&alternatives[i])
		hasBetter := slices.ContainsFunc(alternatives, func(a T) bool {
			otherMisses := pinMisses(&a)
			hasNewMiss := slices.ContainsFunc(otherMisses, func(k int) bool { return !slices.Contains(misses, k) })
			return len(otherMisses) < len(misses) && !hasNewMiss
		})
		if !hasBetter {
			preferred = append(preferred, alternatives[i])
		}
	}
	return preferred
}
