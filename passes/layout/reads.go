package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the costs of reading operands. A form is a layout in which an operand may exist; a label is one
// way to compute a node, whose implementation can read some forms.

// permittedReads returns the costs of reading operand k by a label, by form. best is the form that is cheapest to read,
// or -1 if the label can read no form. required is the required form, or -1 if any form is permitted. If the label
// cannot read the pinned form, permittedReads adds k to the label's pinMisses.
//
// For an operand with the forms row-major, channels-last and packed, the costs of a label that reads the first two are
// for example [900, 700, Forbidden], and best is 1. If the operand is pinned to row-major, they are [900, Forbidden,
// Forbidden].
func (m *Model) permittedReads(n *graph.Node, l *label, readWork readWorkFunc, k, required int) (costs []int64,
	best int) {
	operand := m.variables.At(n.In[k].Value)
	isReadByInference := n.Op.RunDynamic != nil && operand.value.Const != nil
	costs = m.readCosts(l.impl, readWork, k, operand, isReadByInference)
	pin := operand.pin // the pinned form on the host or device, wherever the implementation reads; -1 if there is none
	if pin >= 0 && l.impl.OnDevice() {
		pin = operand.formInPlace(pin, l.impl.OperandPlace)
	}
	permitsPin := required < 0 || required == operand.pin
	if pin >= 0 && !isReadByInference && permitsPin {
		requirePinned(costs, pin)
	}
	m.priceOwnSlots(n, k, l.resultForms, operand, l, costs)
	if required >= 0 {
		requireForm(costs, operand, required)
	}
	best = cheapestForm(costs)
	isPinned := operand.pin >= 0 && !isReadByInference
	readsPin := pin >= 0 && costs[pin] < wcsp.Forbidden
	if isPinned && best >= 0 && !readsPin {
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
func requirePinned(costs []int64, pin int) {
	if costs[pin] >= wcsp.Forbidden {
		return
	}
	for i := range costs {
		if i != pin {
			costs[i] = wcsp.Forbidden
		}
	}
}

// requireForm forbids all forms except the required one. A form inside the result of a concatenation may replace it: it
// has the same order.
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
			hasOwnMiss := slices.ContainsFunc(otherMisses, func(k int) bool { return !slices.Contains(misses, k) })
			return len(otherMisses) < len(misses) && !hasOwnMiss
		})
		if !hasBetter {
			preferred = append(preferred, alternatives[i])
		}
	}
	return preferred
}
