package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses how the needed forms (layouts) of a view's results are made: by the view's node, by further nodes
// with the same op, or by copies. The decoder (assign.go) knows the needed forms of each value, as a mask, and the copy
// (formCopies) that has each form. A [Copy] is what readers read in place of a value: an inserted copy, a second view,
// or the value itself (Original).
//
// derive returns the cheapest way to make the needed forms of a result. A root is a form that is a view of an available
// operand form, and exists without a copy. A step copies form step.from to form step.to, or copies the operand if
// step.from is negative.

// viewRecorder is the state of [decoder.recordViewChoice] for a view node of the graph. The node itself makes the first
// form that needs its op, from one form of its operand. Additional nodes with the same op, or copies, make the other
// forms.
type viewRecorder struct {
	decoder *decoder
	view    *viewNode
	choice  *Choice // the choice for the node; Removed is set until useNode is called
	// Set by useNode.
	from *Copy       // the operand that the node itself reads
	impl *graph.Impl // the implementation that copies; nil if the node makes a view
}

// recordViewChoice records the choice for a view node: from which forms of the operand the needed forms of the results
// are made.
func (decoder *decoder) recordViewChoice(view *viewNode, choice *Choice) {
	operandValue := view.node.In[view.operand].Value
	available := decoder.existingForms(decoder.model.variables.At(operandValue)) & view.allowed
	choice.Removed = true
	recorder := &viewRecorder{decoder: decoder, view: view, choice: choice}
	for k, out := range view.node.Out {
		if decoder.needed.At(out) == 0 {
			continue
		}
		result := decoder.model.variables.At(out)
		derived := decoder.derive(result, view.viewForms(k, available), decoder.model.operandCopies(view, k, available))
		for resultForm := range result.forms {
			if hasForm(derived.usedRoots, resultForm) {
				operandForm := view.viewSource(k, resultForm, available, decoder.needed.At(operandValue))
				from := decoder.formCopies.At(operandValue)[operandForm]
				decoder.setFormCopy(result, resultForm, recorder.repeatView(out, from, nil, resultForm))
			}
		}
		for _, step := range derived.steps {
			if resultForm := int(step.to); step.from < 0 { // the step copies the operand, not a form of the result
				operandForm := decoder.model.copySource(view, k, resultForm, available)
				decoder.setFormCopy(result, resultForm, recorder.copyOperand(k, operandForm, resultForm))
			}
		}
		decoder.recordSteps(result, derived.steps)
	}
}

// copyOperand returns the copy that makes form resultForm of result k from the given form of the operand.
func (recorder *viewRecorder) copyOperand(k, operandForm, resultForm int) *Copy {
	view, out, model := recorder.view, recorder.view.node.Out[k], recorder.decoder.model
	from := recorder.decoder.formCopies.At(view.node.In[view.operand].Value)[operandForm]
	if model.operandCopy(view, k, operandForm, resultForm).byNode { // the op itself copies, instead of an inserted step
		return recorder.repeatView(out, from, &view.node.Op.Impls[0], resultForm)
	}
	form := &model.variables.At(out).forms[resultForm]
	planned := &Copy{Value: out, Order: form.order, Place: form.place, From: from,
		Why: fmt.Sprintf("%q needs its own buffer", out.Name)}
	if view.canView[operandForm] { // the op can make a view, which is then copied
		planned.From = recorder.repeatView(out, from, nil, resultForm)
	}
	if resultForm == 0 {
		planned.Strides = out.Meta.Strides
	}
	return planned
}

// repeatView returns the copy that has form resultForm of result out: the view's op, applied to `from` instead of the
// operand. If impl is nil, the copy is a view; otherwise it has its own buffer. The first call that needs the op uses
// the node itself. A later call adds a node, or reuses the view of the node itself if it needs the same view.
func (recorder *viewRecorder) repeatView(out *graph.Value, from *Copy, impl *graph.Impl, resultForm int) *Copy {
	variable, n := recorder.decoder.model.variables.At(out), recorder.view.node
	form := variable.forms[resultForm]
	isPinned := n.Pin.SetsLayout() && variable.pin == resultForm
	needsExactStrides := resultForm == 0 && recorder.decoder.model.Problem.outputs[out] && hasAmbiguousStrides(out.Meta)
	isRedundant := recorder.view.identity && impl == nil && !isPinned && !needsExactStrides
	switch {
	case isRedundant: // the op changes nothing (identity), so that `from` itself has the form
		return from
	case recorder.choice.Removed: // the first call that needs the op
		recorder.useNode(from, impl, form.order)
		return &Copy{Value: out, Original: true}
	case recorder.from == from && recorder.impl == nil && impl == nil: // the node makes this view already
		return &Copy{Value: out, Original: true}
	}
	repeated := &Copy{Value: out, View: true, From: from, Why: fmt.Sprintf("%q in another layout", out.Name)}
	if form.meta.SameAddresses(out.Meta) {
		repeated.Strides = out.Meta.Strides
	}
	if impl != nil {
		repeated.Order, repeated.Why = form.order, fmt.Sprintf("%s cannot view %q in its layout", n.Name,
			n.In[recorder.view.operand].Value.Name)
	}
	return repeated
}

// useNode makes the node itself apply its op to `from`. If impl is not nil, it copies `from`, in the
// given order if the op can write any dense layout.
func (recorder *viewRecorder) useNode(from *Copy, impl *graph.Impl, order tensor.Order) {
	choice, n := recorder.choice, recorder.view.node
	recorder.from, recorder.impl = from, impl
	choice.Removed, choice.ExactStrides, choice.Impl = false, true, impl
	recorder.decoder.setInput(choice, n, recorder.view.operand, from)
	if impl != nil && n.Op.WritesAnyDenseLayout {
		choice.Walk = n.Call().WalkInOrder(order)
	}
}

// hasAmbiguousStrides reports whether other strides of the same shape give the same addresses.
func hasAmbiguousStrides(meta tensor.Meta) bool {
	return slices.Contains(meta.Shape, 1) || meta.Numel() == 0
}
