package layout

import (
	"iter"
	"math/bits"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file lists the useful sets of forms of a value. A form is a layout in which the value may exist, represented by
// its index in [variable.forms]; form 0 is the layout of the graph as written. A set of forms is a bit mask. The label
// of a value's variable in a [Model] is the set of the forms in which the value exists.
//
// For example, let a value with the forms 0, 1 and 2 be an output, and let one node read it. The output requires form 0
// and the node may read another form, so that at most two forms are needed. The useful sets are {0} (mask 001), {0, 1}
// (mask 011) and {0, 2} (mask 101).

// findFormSets sets neededForms, outputs and formSets of each value. It visits the nodes in reverse order, because the
// number of operand forms that a view needs is the sum of the numbers that its results need.
func (m *Model) findFormSets() {
	g := m.Problem.Graph
	for _, output := range g.Outputs {
		variable := m.variables.At(output.Value)
		variable.neededForms++
		variable.outputs = append(variable.outputs, output)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if m.isLost(i) { // the node failed or depends on a failed node
			continue
		}
		if view := m.viewNodes[i]; view != nil {
			operand := m.variables.At(n.In[view.operand].Value)
			for _, out := range n.Out {
				operand.neededForms += m.variables.At(out).neededForms
			}
			operand.neededForms = min(operand.neededForms, maxForms)
			continue
		}
		for k, arg := range n.In {
			if arg.Kind == graph.TensorArg && !readsConstant(n, k) {
				operand := m.variables.At(arg.Value)
				operand.neededForms = min(operand.neededForms+1, maxForms)
			}
		}
	}
	for _, variable := range m.variableList {
		m.listSets(variable)
	}
}

// listSets lists the useful sets of forms of a value. Each set contains the forms that outputs and pins require. Its
// size is at most [variable.maxSetSize]. A form that is only an intermediate step to another form is not part of the
// set, but the cost of the set includes the copy that makes it.
func (m *Model) listSets(variable *variable) {
	if variable.neededForms == 0 {
		variable.formSets = []uint{0}
		return
	}
	required := uint(0)
	if variable.pin >= 0 { // the index of the form that the user demands
		required = 1 << variable.pin
	}
	for _, output := range variable.outputs {
		required |= 1 << m.outputForm(variable, output)
	}
	maxSize := variable.maxSetSize(required)
	for set := uint(1); set < 1<<len(variable.forms); set++ {
		hasRequired := set&required == required
		// Some forms exclude each other (isPossibleFormSet): see slots.go.
		if hasRequired && bits.OnesCount(set) <= maxSize && variable.isPossibleFormSet(set) {
			variable.formSets = append(variable.formSets, set)
		}
	}
}

// maxSetSize returns the largest useful number of forms in a set. required is the mask of the forms that must exist.
func (variable *variable) maxSetSize(required uint) int {
	if variable.pin < 0 {
		return max(variable.neededForms, bits.OnesCount(required))
	}
	return min(variable.neededForms+bits.OnesCount(required), maxForms) // the pinned form may exist without a reader
}

// inputVariables iterates over inputs and pinned constants.
func (m *Model) inputVariables() iter.Seq[*variable] {
	return func(yield func(*variable) bool) {
		for _, v := range m.Problem.Graph.Inputs {
			if !yield(m.variables.At(v)) {
				return
			}
		}
		for _, v := range m.Problem.Graph.Constants {
			if !isFreeConstant(v) && !yield(m.variables.At(v)) {
				return
			}
		}
	}
}

// inputForm returns the form in which an input or a pinned constant exists without a copy. A pinned constant is
// converted while planning, so this is its pinned form.
func (m *Model) inputForm(input *variable) int {
	if input.value.Const != nil {
		return input.baseForm()
	}
	if m.otherInput.variable == input {
		return m.otherInput.form
	}
	return 0
}

// outputForm returns the form in which an output must return its value.
func (m *Model) outputForm(variable *variable, output graph.Output) int {
	pin := output.EffectivePin()
	if !pin.SetsLayout() {
		return 0
	}
	for i, form := range variable.forms {
		if pin.Matches(form.meta) && form.place == tensor.Host {
			return i
		}
	}
	order, _ := pin.OrderFor(variable.value.Meta.Rank())
	return max(0, variable.addOrder(order)) // findForms added this form already, so addOrder only finds its index
}
