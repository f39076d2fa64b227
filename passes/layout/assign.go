package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts a solution of the weighted constraint problem to an assignment. A form is a layout in which a
// value may exist. The label of a value's variable is a set of forms, as a bit mask. The label of a node's variable is
// an implementation and a walk (loop order), which determine the forms of the node's results. See [Model].
//
// For example, the value y of a convolution has the forms row-major (0) and channels-last (1). Its label is the mask
// 0b11: y exists in both forms. The label of the convolution writes form 1. If a reader or an output needs form 0, the
// assignment has a copy of y to row-major order; otherwise form 0 is omitted. Form 0 of every value is its layout in
// the graph as written.
//
// An [Assignment] has a [Choice] for each node: the implementation, the walk, and the copies that the node reads in
// place of operands. A [Copy] with Original set is the value itself. The other types are in other files:
//
//   - variable: a value with its forms. id is the index of the variable in WCSP, negative if it has a single label. pin
//     is the index of the pinned form, or -1.
//   - computedNode and label: a node that computes, and a way to compute it. resultForms has the form of each result.
//   - viewNode: a node whose results are views of one operand. allowed is a mask of operand forms.

// Assignment returns the assignment for labels. These are the labels of the variables of WCSP, by index. Assignment
// omits forms that no node or output reads, so the assignment may cost less than the labels.
func (m *Model) Assignment(labels []int) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	decoder, err := newDecoder(m, labels)
	if err != nil {
		return nil, err
	}
	g := m.Problem.Graph
	decoder.assignment = &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs))}
	decoder.markReadForms()
	decoder.recordChoices()
	return decoder.assignment, nil
}

// decoder converts labels to an assignment. Method markReadForms finds the needed forms: the forms that nodes and
// outputs read. Method recordChoices then decides how each needed form is obtained.
type decoder struct {
	model      *Model
	labels     []int                    // by variable of WCSP
	assignment *Assignment              // the result, filled by recordChoices
	needed     graph.ByValue[uint]      // by value: mask of the forms that are read; filled by markReadForms
	formCopies graph.ByValue[[]*Copy]   // by value and form: the copy that has this form; filled by recordChoices
	viewNodes  graph.ByValue[*viewNode] // by result of a view; set only for [Model.Outcome]
}

// newDecoder returns the initial state. If labels are infeasible, the error names the forbidden combination.
//
// No method of Model has a parameter or result of type decoder. Otherwise every package that uses Model would also
// compile the instances of ByValue for the decoder's fields, which slows builds.
func newDecoder(m *Model, labels []int) (*decoder, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	cost, err := m.WCSP.Cost(labels)
	if err != nil {
		return nil, err
	}
	if cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("the labels are infeasible: %s", firstForbidden(m.WCSP, labels))
	}
	return &decoder{model: m, labels: labels, needed: graph.NewByValue[uint](m.Problem.Graph),
		formCopies: graph.NewByValue[[]*Copy](m.Problem.Graph)}, nil
}

// markReadForms marks the forms that nodes and outputs read. It visits the nodes in reverse order, because the forms
// that later nodes read of a view's results determine the forms that the view reads of its operand.
func (decoder *decoder) markReadForms() {
	g := decoder.model.Problem.Graph
	for _, output := range g.Outputs {
		variable := decoder.model.variables.At(output.Value)
		decoder.markNeeded(output.Value, decoder.model.outputForm(variable, output))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if view := decoder.model.viewNodes[i]; view != nil {
			operand := n.In[view.operand].Value
			for k := range n.Out {
				decoder.eachOperandForm(view, k, func(form int) { decoder.markNeeded(operand, form) })
			}
			continue
		}
		chosen := decoder.chosenLabel(decoder.model.computedNodes[i])
		for k, arg := range n.In {
			if arg.Kind == graph.TensorArg && !readsConstant(n, k) { // all forms of most constants are free
				cheapest, _ := chosen.cheapestRead(k, decoder.existingForms(decoder.model.variables.At(arg.Value)))
				decoder.markNeeded(arg.Value, cheapest)
			}
		}
	}
}

// existingForms returns the mask of the forms in which a value exists. An unpinned constant has all forms.
func (decoder *decoder) existingForms(variable *variable) uint {
	switch {
	case isFreeConstant(variable.value):
		return 1<<len(variable.forms) - 1
	case variable.id < 0: // the variable has a single label, so WCSP omits it
		return variable.formSets[0]
	}
	return variable.formSets[decoder.labels[variable.id]]
}

// chosenLabel returns the chosen label of a node.
func (decoder *decoder) chosenLabel(computed *computedNode) *label {
	if computed.id < 0 { // as in existingForms
		return &computed.labels[0]
	}
	return &computed.labels[decoder.labels[computed.id]]
}

// markNeeded adds a form to the needed forms of v.
func (decoder *decoder) markNeeded(v *graph.Value, form int) {
	decoder.needed.Set(v, decoder.needed.At(v)|1<<form)
}

// derivation says how the needed forms of one value are made. A root is a form that exists without a copy. A step
// copies form step.from to form step.to; if step.from is negative, it copies the operand of a view to form step.to. In
// the example above, form 1 of y is the only root. If form 0 is needed, the only step is from form 1 to form 0.
type derivation struct {
	usedRoots uint   // mask of the roots that are read or are the source of a copy
	steps     []step // copies that make the other needed forms, in order
}

// derive returns the cheapest derivation of the needed forms of a value from roots, a mask of forms. If the value is
// the result of a view, operandCopies has the copies of the view's operand: see [Model.priceSets].
func (decoder *decoder) derive(variable *variable, roots uint, operandCopies []operandCopy) (derived derivation) {
	needed := decoder.needed.At(variable.value)
	if needed == 0 {
		return derived
	}
	costs := decoder.model.priceSets(variable, roots, operandCopies) // the cheapest steps for each set of forms
	// The forms from which all other forms are copied: the roots or, with a pin, the pinned form.
	existing := roots
	if variable.pin >= 0 {
		existing = 1 << variable.pin
		needed |= existing
	}
	// First make the pinned form, then the cheapest set of forms that contains all needed forms.
	made := costs.cheapestSuperset(needed)
	derived.steps = slices.Concat(costs.pinSteps, costs.steps(made, existing))
	derived.usedRoots = needed & existing & roots // the roots that are read
	for _, step := range derived.steps {
		if step.from >= 0 {
			derived.usedRoots |= 1 << step.from & roots
		}
	}
	return derived
}

// eachOperandForm calls visit for each form of a view's operand that is needed to make the needed forms of a result.
// For a root of the result, this is the form that the root views. For a step from the operand, it is the copied form.
func (decoder *decoder) eachOperandForm(view *viewNode, resultIndex int, visit func(form int)) {
	operand := view.node.In[view.operand].Value
	available := decoder.existingForms(decoder.model.variables.At(operand)) & view.allowed // may be viewed or copied
	result := decoder.model.variables.At(view.node.Out[resultIndex])
	if decoder.needed.At(result.value) == 0 {
		return
	}
	derived := decoder.derive(result, view.viewForms(resultIndex, available),
		decoder.model.operandCopies(view, resultIndex, available))
	for resultForm := range result.forms {
		if hasForm(derived.usedRoots, resultForm) {
			visit(view.viewSource(resultIndex, resultForm, available, decoder.needed.At(operand)))
		}
	}
	for _, step := range derived.steps {
		if step.from < 0 {
			visit(decoder.model.copySource(view, resultIndex, int(step.to), available))
		}
	}
}

// viewSource returns an operand form whose view is the given form of a result, or -1 if there is no such form.
// available is the mask of the operand forms to consider. Forms in the mask needed, which other nodes read, have
// priority.
func (view *viewNode) viewSource(resultIndex, resultForm int, available, needed uint) int {
	source := -1
	for operandForm := range view.resultForm[resultIndex] {
		isBetter := source < 0 || hasForm(needed, operandForm) && !hasForm(needed, source)
		if view.viewOfForm(resultIndex, operandForm) == resultForm && hasForm(available, operandForm) && isBetter {
			source = operandForm
		}
	}
	return source
}

// copySource returns the operand form whose copy to the given form of a result has the least weighted cost. It returns
// -1 if no form can be copied. available is the mask of the operand forms to consider.
func (m *Model) copySource(view *viewNode, resultIndex, resultForm int, available uint) int {
	source, best := -1, forbidden.weighted
	for operandForm, costs := range view.copyCosts[resultIndex] {
		if !hasForm(available, operandForm) || costs == nil {
			continue
		}
		if cost := m.operandCopy(view, resultIndex, operandForm, resultForm); source < 0 || cost.weighted < best {
			source, best = operandForm, cost.weighted
		}
	}
	return source
}

// recordChoices visits the nodes in order, records their choices, and records the copies that make the needed forms.
func (decoder *decoder) recordChoices() {
	g := decoder.model.Problem.Graph
	decoder.recordConstants()
	decoder.recordInputs()
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		if view := decoder.model.viewNodes[i]; view != nil {
			decoder.recordViewChoice(view, &decoder.assignment.Nodes[i])
		} else {
			decoder.recordComputedChoice(decoder.model.computedNodes[i], &decoder.assignment.Nodes[i])
		}
		decoder.addSharedCopies(n, &decoder.assignment.Nodes[i])
	}
	decoder.recordOutputs()
}

// recordConstants records the copies that have the forms of constants. They are made while planning.
func (decoder *decoder) recordConstants() {
	for _, v := range decoder.model.Problem.Graph.Constants {
		variable := decoder.model.variables.At(v)
		if !isFreeConstant(v) {
			continue
		}
		for form := range variable.forms {
			decoder.setFormCopy(variable, form, decoder.constantCopy(variable, form))
		}
	}
}

// constantCopy returns the copy that has the given form of a constant.
func (decoder *decoder) constantCopy(variable *variable, formIndex int) *Copy {
	form := &variable.forms[formIndex]
	if formIndex == 0 { // as written
		return &Copy{Value: variable.value, Original: true}
	}
	if form.place == tensor.Host {
		return &Copy{Value: variable.value, Order: form.order, Why: "constants are converted while planning"}
	}
	uploaded := &Copy{Value: variable.value, Order: form.order, Place: form.place, Why: "constants are uploaded once"}
	// The source of an upload is the form with the same layout on the host.
	if from := decoder.constantCopy(variable, variable.formInPlace(formIndex, tensor.Host)); !from.Original {
		uploaded.From = from
	}
	return uploaded
}

// recordInputs records the copies of inputs and of pinned constants.
func (decoder *decoder) recordInputs() {
	for variable := range decoder.model.inputVariables() {
		v := variable.value
		decoder.setFormCopy(variable, 0, &Copy{Value: v, Original: true})
		roots := uint(1 << 0) // mask of the only form that exists without a copy
		if v.Const != nil {   // a pinned constant is converted while planning
			roots = 1 << variable.pin
			decoder.setFormCopy(variable, variable.pin, decoder.constantCopy(variable, variable.pin))
		}
		decoder.recordSteps(variable, decoder.derive(variable, roots, nil).steps)
		if sharedCopy := variable.sharedCopy(decoder.formCopies.At(v)); sharedCopy != nil {
			decoder.assignment.Inputs = append(decoder.assignment.Inputs, sharedCopy)
		}
	}
}

// recordComputedChoice records the choice for a node that computes, and the copies of its results.
func (decoder *decoder) recordComputedChoice(computed *computedNode, choice *Choice) {
	chosen, n := decoder.chosenLabel(computed), computed.node
	choice.Impl, choice.Walk = chosen.impl, chosen.walk
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		variable, form := decoder.model.variables.At(arg.Value), chosen.constantForms[k]
		if !readsConstant(n, k) {
			form, _ = chosen.cheapestRead(k, decoder.existingForms(variable))
		}
		decoder.setInput(choice, n, k, decoder.formCopies.At(arg.Value)[form])
	}
	for k, v := range n.Out {
		variable := decoder.model.variables.At(v)
		decoder.setFormCopy(variable, chosen.resultForms[k], &Copy{Value: v, Original: true})
		decoder.recordSteps(variable, decoder.derive(variable, 1<<chosen.resultForms[k], nil).steps)
		if variable.forms[chosen.resultForms[k]].slot != nil { // written into the result of a concatenation
			decoder.assignment.Placed = append(decoder.assignment.Placed, v)
		}
	}
}

// setInput records that the node reads its operand k from the given copy.
func (decoder *decoder) setInput(choice *Choice, n *graph.Node, k int, from *Copy) {
	if from = decoder.copyOrNil(n.In[k].Value, from); from == nil {
		return
	}
	if choice.In == nil {
		choice.In = make([]*Copy, len(n.In))
	}
	choice.In[k] = from
}

// addSharedCopies adds the copies of a node's results in their shared forms to choice.ResultCopies. Pinned copies get
// the names of the results.
func (decoder *decoder) addSharedCopies(n *graph.Node, choice *Choice) {
	for _, v := range n.Out {
		variable := decoder.model.variables.At(v)
		list := decoder.formCopies.At(v)
		if list == nil || variable.shared < 0 {
			continue
		}
		if list[variable.shared] == nil && n.Pin.SetsLayout() { // no node reads the value
			list[variable.shared] = &Copy{Value: v, Order: variable.forms[variable.shared].order}
		}
		if sharedCopy := variable.sharedCopy(list); sharedCopy != nil {
			choice.ResultCopies = append(choice.ResultCopies, sharedCopy)
		}
	}
}

// sharedCopy returns the copy of a value in its shared form, or nil if there is none. list has a copy for each form.
func (variable *variable) sharedCopy(list []*Copy) *Copy {
	if variable.shared < 0 || list[variable.shared] == nil || list[variable.shared].Value != variable.value ||
		list[variable.shared].Original {
		return nil
	}
	if variable.pin >= 0 {
		list[variable.pin].Pinned, list[variable.pin].Why = true, whyPinned(variable.value)
	}
	return list[variable.shared]
}

// whyPinned returns the reason for a pinned copy.
func whyPinned(v *graph.Value) string {
	pin := v.EffectivePin()
	return fmt.Sprintf("%q is pinned to %v", v.Name, graph.Pin{Format: pin.Format, Order: pin.Order})
}

// recordOutputs records the copies that outputs return.
func (decoder *decoder) recordOutputs() {
	for i, output := range decoder.model.Problem.Graph.Outputs {
		variable := decoder.model.variables.At(output.Value)
		decoder.assignment.Outputs[i] = decoder.copyOrNil(output.Value,
			decoder.formCopies.At(output.Value)[decoder.model.outputForm(variable, output)])
	}
}

// recordSteps records the copies of a list of steps. It skips copies from a view's operand, because recordViewChoice
// records them.
func (decoder *decoder) recordSteps(variable *variable, list []step) {
	for _, step := range list {
		if step.from < 0 {
			continue
		}
		from := decoder.formCopies.At(variable.value)[step.from]
		form := &variable.forms[step.to]
		stepCopy := &Copy{Value: variable.value, Order: form.order, Place: form.place, From: from, Why: ReaderNeeds}
		if step.to == 0 { // form 0 has the exact strides of the graph as written
			stepCopy.Strides = variable.value.Meta.Strides
		}
		switch {
		case form.place == variable.forms[step.from].place: // not a transfer
		case form.place == tensor.Host:
			stepCopy.Why = NeededOnHost
		default:
			stepCopy.Why = NeededOnDevice
		}
		if int(step.to) == variable.shared && variable.whyShared != "" {
			stepCopy.Why = variable.whyShared
		}
		decoder.setFormCopy(variable, int(step.to), stepCopy)
	}
}

// setFormCopy records the copy that has the given form of a value.
func (decoder *decoder) setFormCopy(variable *variable, form int, formCopy *Copy) {
	list := decoder.formCopies.At(variable.value)
	if list == nil {
		list = make([]*Copy, len(variable.forms))
		decoder.formCopies.Set(variable.value, list)
	}
	list[form] = formCopy
}

// copyOrNil returns the copy, or nil if it represents v itself.
func (decoder *decoder) copyOrNil(v *graph.Value, formCopy *Copy) *Copy {
	if formCopy == nil || formCopy.Original && formCopy.Value == v {
		return nil
	}
	return formCopy
}

// This part chooses how the needed forms (layouts) of a view's results are made: by the view's node, by further nodes
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
		recorder.keepCopyNode(result)
	}
}

// keepCopyNode makes the node itself write the copy in form 0, if the node copies its operand in the graph as written,
// and if values have preferred orders: see [Solve]. Otherwise an inserted copy replaces the node.
func (recorder *viewRecorder) keepCopyNode(result *variable) {
	n, list := recorder.view.node, recorder.decoder.formCopies.At(result.value)
	mayKeep := recorder.decoder.model.keepsCopyNodes && recorder.view.identity && !n.Pin.SetsLayout()
	if !mayKeep || !recorder.choice.Removed || list == nil || list[0] == nil {
		return
	}
	inserted, operand := list[0], n.In[recorder.view.operand].Value
	readsOperand := inserted.From == nil || inserted.From.Original && inserted.From.Value == operand
	isCopy := inserted.Value == result.value && !inserted.Original && !inserted.View
	if isCopy && (readsOperand || n.Op.WritesAnyDenseLayout) {
		recorder.useNode(inserted.From, &n.Op.Impls[0], result.forms[0].order)
		*inserted = Copy{Value: result.value, Original: true}
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
	choice.Removed, choice.Impl = false, impl
	recorder.decoder.setInput(choice, n, recorder.view.operand, from)
	if impl != nil && n.Op.WritesAnyDenseLayout {
		choice.Walk = n.Call().WalkInOrder(order)
	}
}

// hasAmbiguousStrides reports whether other strides of the same shape give the same addresses.
func hasAmbiguousStrides(meta tensor.Meta) bool {
	return slices.Contains(meta.Shape, 1) || meta.Numel() == 0
}
