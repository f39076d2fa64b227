package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the labels of a [computation] whose walk has no order for a result. Inference ([graph.Op.Infer]) then
// determines the layouts of the results, possibly from the layouts of operands. A label is one way to compute a node.
// It has a form (a layout of a value) for each result, and may require forms of operands. See labels.go.
//
// For example, let relu read x, which has the forms 0, (N,C,H,W), and 1, (N,H,W,C). Inference gives the result the
// order of x. The node has two labels. The first requires form 0 of x and writes (N,C,H,W), and the second requires
// form 1 and writes (N,H,W,C).

// inferredLabels returns the labels of a computation whose result layouts are inferred. An operand is affecting if the
// inferred layouts depend on its layout. There is a label for the layouts of the affecting operands in the graph as
// written, a label for their pinned layouts, and a label for each order that all of them can have.
func (m *Model) inferredLabels(c computation) []label {
	n := c.node
	affecting := m.affectingOperands(n)
	if !slices.Contains(affecting, true) && !n.Pin.SetsLayout() {
		if asWritten, ok := m.labelAsWritten(c); ok {
			return []label{asWritten}
		}
		return nil
	}
	var list []label
	tried := map[string]bool{} // by required forms
	formAsWritten := func(*variable) int { return 0 }
	for _, order := range m.operandOrders(n, affecting) {
		// Inference may reject the pinned form of an operand, so the form as written is tried, too.
		for _, defaultForm := range []func(*variable) int{(*variable).baseForm, formAsWritten} {
			inferenceCall, requiredForms := m.callInOrder(n, affecting, order, defaultForm)
			key := fmt.Sprint(requiredForms)
			if inferenceCall == nil || tried[key] {
				continue
			}
			tried[key] = true
			if inferred, ok := m.inferredLabel(c, inferenceCall, requiredForms); ok {
				list = append(list, inferred)
			}
		}
	}
	return list
}

// affectingOperands marks the affecting operands, and the operands with a form that inference rejects. It marks all
// operands of an op whose result shapes depend on data.
func (m *Model) affectingOperands(n *graph.Node) []bool {
	affecting := make([]bool, len(n.In))
	for k, arg := range n.In {
		affecting[k] = arg.Kind == graph.TensorArg && (n.Op.RunDynamic != nil || m.affectsResults(n, k))
	}
	return affecting
}

// affectsResults reports whether a form of operand k changes the layouts of the inferred results, or is rejected.
func (m *Model) affectsResults(n *graph.Node, k int) bool {
	variable := m.variables.At(n.In[k].Value)
	for i := 1; i < len(variable.forms); i++ { // form 0 gives the results as written
		operandForm := &variable.forms[i]
		if operandForm.ownBufferForm >= 0 || operandForm.place != tensor.Host {
			continue // the form of the same order in its own buffer on the host is tried instead
		}
		results, err := n.Op.Infer(callWith(n, k, operandForm.meta))
		if err != nil || len(results) != len(n.Out) {
			return true
		}
		if n.Pin.SetsLayout() { // the layouts of the results are fixed
			continue
		}
		for j, result := range results {
			if result.Alias != graph.NoAlias || !result.Meta().SameAddresses(n.Out[j].Meta) {
				return true
			}
		}
	}
	return false
}

// operandOrders lists the orders of the affecting operands, each once. The first is "", no order.
func (m *Model) operandOrders(n *graph.Node, affecting []bool) []tensor.Order {
	list := []tensor.Order{""}
	for k, arg := range n.In {
		if !affecting[k] {
			continue
		}
		for _, order := range m.variables.At(arg.Value).orders() {
			if !slices.Contains(list, order) {
				list = append(list, order)
			}
		}
	}
	return list
}

// callInOrder returns a node's call in which all affecting operands have an order, and the form of each operand. If the
// order is empty or has another rank than an affecting operand, the operand has the form that defaultForm returns.
// Other operands are unchanged, and their form is -1. The call is nil if an affecting operand has no form of the order.
func (m *Model) callInOrder(n *graph.Node, affecting []bool, order tensor.Order,
	defaultForm func(*variable) int) (call *graph.Call, forms []int) {
	forms = slices.Repeat([]int{-1}, len(n.In))
	call = &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	for k, arg := range n.In {
		if !affecting[k] {
			continue
		}
		variable, meta := m.variables.At(arg.Value), arg.Meta()
		forms[k] = defaultForm(variable)
		if order != "" && order.Rank() == meta.Rank() {
			if forms[k] = variable.formOf(meta.WithStrides(order.Strides(meta.Shape))); forms[k] < 0 {
				return nil, nil
			}
		}
		call.In[k] = callWith(n, k, variable.forms[forms[k]].meta).In[k]
	}
	return call, forms
}

// labelAsWritten returns the label whose results have the layouts of the graph as written, in the order of the walk. It
// returns false if a result is a view.
func (m *Model) labelAsWritten(c computation) (label, bool) {
	resultForms, resultCall := make([]int, len(c.node.Out)), *c.call
	for k, v := range c.node.Out {
		if v.Alias != nil {
			return label{}, false
		}
		if resultForms[k] = m.variables.At(v).addForm(c.walk.ResultLayout(k, v.Meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	c.call = &resultCall
	return m.pricedLabel(c, resultForms, nil) // nil: operands may have any forms
}

// inferredLabel returns the label whose results have the layouts that inference derives from inferenceCall. It returns
// false if inference fails or makes a view.
func (m *Model) inferredLabel(c computation, inferenceCall *graph.Call, requiredForms []int) (label, bool) {
	n := c.node
	results, err := n.Op.Infer(inferenceCall)
	if err != nil || len(results) != len(n.Out) {
		return label{}, false
	}
	resultForms, resultCall := make([]int, len(n.Out)), *c.call
	resultCall.Out = make([]tensor.Meta, len(results))
	for k, result := range results {
		if result.Alias != graph.NoAlias {
			return label{}, false
		}
		meta := result.Meta()
		if n.Pin.SetsLayout() { // inference gives the layouts before the copy to the pinned layouts
			meta = n.Out[k].Meta.WithStrides(meta.Strides)
		}
		resultCall.Out[k] = meta
		if resultForms[k] = m.variables.At(n.Out[k]).addForm(c.walk.ResultLayout(k, meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	c.call = &resultCall
	return m.pricedLabel(c, resultForms, requiredForms)
}
