package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses how the needed forms (layouts) of a view's results are made: by the view's node, by further nodes
// with the same op, or by copies. The decoder (assign.go) knows the needed forms of each value, as a mask, and the copy
// (formCopies) that has each form.

// defaultView is the choice for a view node of the graph. The node itself makes one form of its results from one form
// of its operand. Additional nodes with the same op make the other needed forms.
type defaultView struct {
	view   *viewNode
	choice *Choice
	from   *Copy       // the operand that the node itself reads
	impl   *graph.Impl // the implementation that copies; nil if the node makes a view
}

// recordViewChoice records the choice for a view node: from which forms of the operand the needed forms of the results
// are made.
func (decoder *decoder) recordViewChoice(view *viewNode, choice *Choice) {
	operandValue := view.node.In[view.operand].Value
	available := decoder.existingForms(decoder.model.variables.At(operandValue)) & view.allowed
	choice.Removed = true // until copyOf uses the node
	base := &defaultView{view: view, choice: choice}
	// Some forms of a result are views of existing operand forms. Steps of the derivation make the other forms.
	for k, out := range view.node.Out {
		if decoder.needed.At(out) == 0 {
			continue
		}
		result := decoder.model.variables.At(out)
		derived := decoder.derive(result, view.viewForms(k, available), decoder.model.operandCopies(view, k, available))
		for resultForm := range result.forms {
			if derived.usedRoots>>resultForm&1 != 0 {
				operandForm := view.source(k, resultForm, available, decoder.needed.At(operandValue))
				from := decoder.formCopies.At(operandValue)[operandForm]
				decoder.setFormCopy(result, resultForm, base.copyOf(decoder, out, from, nil, resultForm))
			}
		}
		for _, step := range derived.steps {
			if resultForm := int(step.to); step.from < 0 { // the step copies the operand, not a form of the result
				operandForm := decoder.model.copySource(view, k, resultForm, available)
				decoder.setFormCopy(result, resultForm, base.copyFromOperand(decoder, k, operandForm, resultForm))
			}
		}
		decoder.recordSteps(result, derived.steps)
	}
}

// copyFromOperand returns the copy that makes form resultForm of result k from the given form of the operand.
func (base *defaultView) copyFromOperand(decoder *decoder, k, operandForm, resultForm int) *Copy {
	view, out := base.view, base.view.node.Out[k]
	from := decoder.formCopies.At(view.node.In[view.operand].Value)[operandForm]
	if decoder.model.operandCopy(view, k, operandForm, resultForm).byNode {
		return base.copyOf(decoder, out, from, &view.node.Op.Impls[0], resultForm)
	}
	form := &decoder.model.variables.At(out).forms[resultForm]
	planned := &Copy{Value: out, Order: form.order, Place: form.place, From: from,
		Why: fmt.Sprintf("%q needs its own buffer", out.Name)}
	if view.canView[operandForm] { // the op can make a view, which is then copied
		planned.From = base.copyOf(decoder, out, from, nil, resultForm)
	}
	if resultForm == 0 {
		planned.Strides = out.Meta.Strides
	}
	return planned
}

// copyOf returns the copy that has form resultForm of result out: the view's op, applied to `from` instead of the
// operand. If impl is nil, the copy is a view; otherwise it has its own buffer.
func (base *defaultView) copyOf(decoder *decoder, out *graph.Value, from *Copy, impl *graph.Impl,
	resultForm int) *Copy {
	variable := decoder.model.variables.At(out)
	form := variable.forms[resultForm]
	isPinned := base.view.node.Pin.SetsLayout() && variable.pin == resultForm
	needsExactStrides := resultForm == 0 && decoder.model.Problem.outputs[out] && hasAmbiguousStrides(out.Meta)
	isRedundant := base.view.identity && impl == nil && !isPinned && !needsExactStrides
	switch {
	case isRedundant: // the operand itself has the form
		return from
	case base.choice.Removed: // the node of the graph makes the first form
		base.choice.Removed, base.from, base.impl, base.choice.ExactStrides = false, from, impl, true
		decoder.setInput(base.choice, base.view.node, base.view.operand, from)
		if base.choice.Impl = impl; impl != nil && base.view.node.Op.WritesAnyDenseLayout {
			base.choice.Walk = base.view.node.Call().WalkInOrder(form.order)
		}
		return &Copy{Value: out, Original: true}
	case base.from == from && base.impl == nil && impl == nil: // the node of the graph makes this view already
		return &Copy{Value: out, Original: true}
	}
	planned := &Copy{Value: out, View: true, From: from, Why: fmt.Sprintf("%q in another layout", out.Name)}
	if form.meta.SameAddresses(out.Meta) {
		planned.Strides = out.Meta.Strides
	}
	if impl != nil {
		planned.Order, planned.Why = form.order, fmt.Sprintf("%s cannot view %q in its layout", base.view.node.Name,
			base.view.node.In[base.view.operand].Value.Name)
	}
	return planned
}

// hasAmbiguousStrides reports whether other strides of the same shape give the same addresses.
func hasAmbiguousStrides(meta tensor.Meta) bool {
	return slices.Contains(meta.Shape, 1) || meta.Numel() == 0
}
