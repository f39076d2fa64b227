package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the costs of reading operands. A form is a layout in which an operand may exist; a label is one
// way to compute a node, whose implementation can read some forms.

// permittedReads returns the costs of reading operand k by a label, by form. best is the form
// that is cheapest to read, or -1 if the label can read no form. required is the required form, or -1 if any form is
// permitted. If the label cannot read the pinned form, permittedReads adds k to the label's pinMisses.
func (m *Model) permittedReads(n *graph.Node, l *label, readWork readWorkFunc, k, required int) (costs []int64,
	best int) {
	operand := m.variables.At(n.In[k].Value)
	isReadByInference := n.Op.RunDynamic != nil && operand.value.Const != nil
	costs = m.readCosts(l.impl, readWork, k, operand, isReadByInference)
	pin := operand.pin // the pinned form on the host or device, wherever the implementation reads; -1 if there is none
	if pin >= 0 && l.impl.OnDevice() {
		pin = operand.formInPlace(pin, l.impl.OperandPlace)
	}
	if pin >= 0 && !isReadByInference && (required < 0 || required == operand.pin) {
		requirePinned(costs, pin)
	}
	m.priceOwnSlots(n, k, l.resultForms, operand, l, costs)
	best = -1
	for i := range costs {
		// A form inside the result of a concatenation may replace the required form: it has the same order.
		if required >= 0 && required != i && required != operand.forms[i].ownBufferForm {
			costs[i] = wcsp.Forbidden
		}
		if costs[i] < wcsp.Forbidden && (best < 0 || costs[i] < costs[best]) {
			best = i
		}
	}
	if operand.pin >= 0 && !isReadByInference && best >= 0 && (pin < 0 || costs[pin] >= wcsp.Forbidden) {
		l.pinMisses = append(l.pinMisses, k)
	}
	return costs, best
}

// readWorkFunc returns the work of reading operand i in a layout, and false if the operand cannot be read: see
// [graph.Impl.OperandWorkFunc]. It is nil for an op without implementations.
type readWorkFunc func(i int, meta tensor.Meta) (graph.Work, bool)

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
			return len(otherMisses) < len(misses) &&
				!slices.ContainsFunc(otherMisses, func(k int) bool { return !slices.Contains(misses, k) })
		})
		if !hasBetter {
			preferred = append(preferred, alternatives[i])
		}
	}
	return preferred
}

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
