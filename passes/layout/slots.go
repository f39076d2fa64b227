package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file lets nodes write their results directly into the result of a concatenation ([graph.Op.ConcatDim]), so that
// the concatenation copies nothing. A form is a layout in which a value may exist; a label is one way to compute a
// node. A slot is a position inside the result of a concatenation. For each slot, the value that belongs at this
// position gets an additional form, the layout in the slot. The node that computes the value gets labels that write it
// in this form. This file uses the following fields of a label:
//
//	resultForms    by result: its form
//	readCosts      by operand and form: the cost of reading; nil for a constant
//	requiredForms  by operand: the only form that the label permits, or -1 for any
//	constantForms  by operand: the form of a constant
//	concatName     the name of the concatenation's result, if the label writes into it
//	resultSlots    of a concatenation, by operand: mask of the operand's forms that are inside the result
//
// For example, the concatenation of a (1,2,2,2) and b (1,1,2,2) along dimension 1 is c (1,3,2,2). In the order
// (N,C,H,W), the slots are separate parts of c's memory. In the order (N,H,W,C), their elements alternate:
//
//	order of c  memory of c      strides of c, a and b  offset of a  offset of b
//	(N,C,H,W)   aaaa aaaa bbbb   [12, 4, 2, 1]          0            8
//	(N,H,W,C)   aab aab aab aab  [12, 1, 6, 3]          0            2

// slot is the position of one operand in the result of a concatenation. The position depends on the order of dimensions
// of this result. A slot may also hold several adjacent operands: if these are the operands of an inner concatenation,
// the slot contains the result of the inner concatenation.
type slot struct {
	concatIndex int          // index of the concatenation's node
	operand     int          // index of the operand; -1 for the result of an inner concatenation
	order       tensor.Order // order of the result of the concatenation
	concatName  string       // name of the result of the concatenation
}

// isWithin reports whether a slot is within the given form of the concatenation's result. The form must have its own
// buffer on the host and the order for which the slot was computed.
func (s *slot) isWithin(resultForm *form) bool {
	return resultForm.slot == nil && resultForm.order == s.order && resultForm.place == tensor.Host
}

// Place says where a form (layout of a value) is that has no buffer of its own. The form is inside the result of a
// concatenation, or is a view of a form there.
type Place struct {
	OwnBufferForm int // the form of the same order that has its own buffer
	// Concat is the concatenation whose result contains the form; nil for a view. Operand is the index of the operand of
	// Concat, or -1 for several adjacent operands. Order is the order of the result of Concat.
	Concat  *graph.Node
	Operand int
	Order   tensor.Order
}

// Places returns the place of each form of [Model.Forms], or nil for a form with its own buffer. The caller owns the
// list.
func (m *Model) Places(v *graph.Value) []*Place {
	list := make([]*Place, len(m.Forms(v)))
	for i := range list {
		described := &m.variables.At(v).forms[i]
		if described.ownBufferForm < 0 {
			continue
		}
		list[i] = &Place{OwnBufferForm: described.ownBufferForm, Operand: -1}
		if containing := described.slot; containing != nil {
			list[i].Concat = m.Problem.Graph.Nodes[containing.concatIndex]
			list[i].Operand, list[i].Order = containing.operand, containing.order
		}
	}
	return list
}

// addSlots adds slot forms to the results of node i, and labels that write these forms.
func (m *Model) addSlots(i int, n *graph.Node) {
	hasFixedLayout := n.Pin.SetsLayout() // by the user
	if n.Op.RunDynamic != nil || hasFixedLayout || len(n.Op.Impls) == 0 {
		return
	}
	for k, v := range n.Out {
		if v.Alias != nil || v.Meta.Numel() == 0 || !hasNumericSizes(v) {
			continue
		}
		if m.slots == nil {
			m.slots = m.newSlots()
		}
		if result := m.variables.At(v); !m.slots.needsOwnBuffer.At(v) && !m.Problem.MustKeepLayout(v) {
			m.addOperandSlots(i, n, k, result)
			m.addAdjacentSlots(i, n, result)
		}
	}
}

// slots is the state of the search for slots.
type slots struct {
	// needsOwnBuffer marks the values whose buffers are used by an output or by an operand of a ReadsStorage op. The
	// result of such an op, for example as_strided, depends on the operand's layout.
	needsOwnBuffer graph.ByValue[bool]
	// operandLayouts has the layouts of the operands of a concatenation inside its result. The keys are the index of
	// the concatenation's node, and the order of the result.
	operandLayouts map[int]map[tensor.Order][]tensor.Meta
}

// newSlots returns the initial state: it finds the values that need their own buffers.
func (m *Model) newSlots() *slots {
	g := m.Problem.Graph
	search := &slots{needsOwnBuffer: graph.NewByValue[bool](g), operandLayouts: map[int]map[tensor.Order][]tensor.Meta{}}
	for _, n := range g.Nodes {
		if !n.Op.ReadsStorage {
			continue
		}
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg {
				search.needsOwnBuffer.Set(m.viewRoot(arg.Value), true)
			}
		}
	}
	for _, output := range g.Outputs {
		search.needsOwnBuffer.Set(m.viewRoot(output.Value), true)
	}
	return search
}

// viewRoot follows views from v to the value that owns the buffer. Nodes that are views only in some layouts count as
// views.
func (m *Model) viewRoot(v *graph.Value) *graph.Value {
	for v.Node != nil {
		view := m.viewNodes[m.nodeIndex[v.Node.Number()]]
		if view == nil {
			break
		}
		v = view.node.In[view.operand].Value
	}
	return v
}

// hasNumericSizes reports whether all sizes of a value are numbers.
func hasNumericSizes(v *graph.Value) bool {
	_, known := v.Type.Meta()
	return known
}

// addOperandSlots adds slot forms to a result of node n, whose index is i. The slots are in the result of the last
// concatenation that reads the value, because a value can be in one slot only. The pass "place", which writes operands
// into concatenations, prefers the last concatenation, too: it visits nodes in reverse.
func (m *Model) addOperandSlots(i int, n *graph.Node, resultIndex int, result *variable) {
	concat, operand := -1, 0
	for _, reader := range m.readers.At(result.value) {
		if reader.node > concat && m.isConcat(reader.node) {
			concat, operand = reader.node, reader.operand
		}
	}
	if concat < 0 {
		return
	}
	concatResult := m.variables.At(m.Problem.Graph.Nodes[concat].Out[0])
	if concatResult.value.Meta.DType != result.value.Meta.DType || !hasNumericSizes(concatResult.value) {
		return
	}
	for _, order := range concatResult.orders() {
		ownBufferForm := result.formWithOrder(order) // the form of this order outside the concatenation
		layouts := m.operandSlots(concat, concatResult, order)
		if ownBufferForm < 0 || operand >= len(layouts) || layouts[operand].Rank() != result.value.Meta.Rank() {
			continue
		}
		slotMeta := withOwnBufferStrides(layouts[operand], result.forms[ownBufferForm].meta)
		slotForm := result.addSlotForm(slotMeta, ownBufferForm, &slot{concatIndex: concat, operand: operand,
			order: order, concatName: concatResult.value.Name})
		if slotForm >= 0 {
			m.addSlotLabels(i, n, resultIndex, slotForm)
		}
	}
}

// isConcat reports whether node i computes a concatenation.
func (m *Model) isConcat(i int) bool {
	n := m.Problem.Graph.Nodes[i]
	return m.computedNodes[i] != nil && n.Op.ConcatDim != nil && len(n.Out) == 1 && n.Out[0].Meta.Numel() > 0
}

// operandSlots returns the layouts of a concatenation's operands inside its result, which is dense and has the given
// order.
func (m *Model) operandSlots(concat int, concatResult *variable, order tensor.Order) []tensor.Meta {
	layouts, cached := m.slots.operandLayouts[concat][order]
	if cached {
		return layouts
	}
	form := concatResult.formWithOrder(order)
	for _, positionType := range m.Problem.Graph.Nodes[concat].PlacesIn(concatResult.forms[form].meta.Type()) {
		position, _ := positionType.Meta()
		layouts = append(layouts, position)
	}
	if m.slots.operandLayouts[concat] == nil {
		m.slots.operandLayouts[concat] = map[tensor.Order][]tensor.Meta{}
	}
	m.slots.operandLayouts[concat][order] = layouts
	return layouts
}

// withOwnBufferStrides returns slotMeta, the layout of a value in a slot. ownBuffer is the layout with the same order
// in a buffer of the value's own. If the two layouts have the same addresses, their strides may still differ in
// dimensions of size 1. The result then has the strides of ownBuffer, because prices may depend on strides.
func withOwnBufferStrides(slotMeta, ownBuffer tensor.Meta) tensor.Meta {
	if ownBuffer.SameAddresses(slotMeta) {
		slotMeta.Strides = ownBuffer.Strides
	}
	return slotMeta
}

// addSlotForm adds a form in a slot and returns its index, or -1 if the value has maxForms forms already.
// ownBufferForm is the form of the same order with its own buffer.
func (variable *variable) addSlotForm(meta tensor.Meta, ownBufferForm int, slot *slot) int {
	if len(variable.forms) == maxForms {
		return -1
	}
	variable.forms = append(variable.forms, form{meta: meta, ownBufferForm: ownBufferForm, slot: slot})
	return len(variable.forms) - 1
}

// addSlotLabels adds labels that write one result of node n (index i) in the given slot form. Each of these labels is a
// copy of a label that writes the form of the same order with its own buffer. Both have the same implementation and
// walk (order of the loops). The implementation must support the strides of the slot.
func (m *Model) addSlotLabels(i int, n *graph.Node, resultIndex, slotForm int) {
	computed, call := m.computedNodes[i], n.Call()
	result := m.variables.At(n.Out[resultIndex])
	ownBufferForm, slotMeta := result.forms[slotForm].ownBufferForm, result.forms[slotForm].meta
	slotMeta.Offset = 0 // kernels get the address of the first element
	for _, candidate := range computed.labels {
		isOnHost := candidate.impl != nil && !candidate.impl.OnDevice()
		if !isOnHost || candidate.concatName != "" || candidate.resultForms[resultIndex] != ownBufferForm {
			continue
		}
		// The result is in the slot, and the other results are as in candidate.
		slotCall, resultForms := *call, slices.Clone(candidate.resultForms)
		slotCall.Out = make([]tensor.Meta, len(n.Out))
		for j, v := range n.Out {
			slotCall.Out[j] = m.variables.At(v).forms[candidate.resultForms[j]].meta
		}
		slotCall.Out[resultIndex], resultForms[resultIndex] = slotMeta, slotForm
		impl, walk := candidate.impl, candidate.walk
		canWrite := slotMeta.IsNonOverlappingAndDense() ||
			impl.Writes != nil && impl.Writes(&slotCall, walk, resultIndex, slotMeta)
		if !canWrite {
			continue
		}
		inSlot := computation{n, &slotCall, impl, walk}
		if priced, ok := m.pricedLabel(inSlot, resultForms, candidate.requiredForms); ok {
			priced.concatName = result.forms[slotForm].slot.concatName
			computed.labels = append(computed.labels, priced)
		}
	}
}

// addAdjacentSlots adds labels for the case that node i, a concatenation, has nothing to do: all its operands are
// already adjacent in the result of another, outer concatenation. For example, let d be the concatenation of a and b,
// and e the concatenation of a, b and c. If a and b are written into e, then d is the first part of e.
func (m *Model) addAdjacentSlots(i int, n *graph.Node, result *variable) {
	if !m.isConcat(i) {
		return
	}
	first := slices.IndexFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Meta().Numel() > 0 })
	if first < 0 {
		return
	}
	for _, firstForm := range m.variables.At(n.In[first].Value).forms {
		if outerSlot := firstForm.slot; outerSlot != nil && outerSlot.concatIndex != i {
			m.addAdjacentSlot(i, n, result, &firstForm)
		}
	}
}

// addAdjacentSlot adds a label for the case that the operands of concatenation i are adjacent in an outer
// concatenation. The first operand has the form firstForm, a slot in the result of the outer concatenation, and the
// result of node i begins there, too.
func (m *Model) addAdjacentSlot(i int, n *graph.Node, result *variable, firstForm *form) {
	outerSlot := firstForm.slot
	ownBufferForm := result.formWithOrder(outerSlot.order)
	if ownBufferForm < 0 || firstForm.meta.Rank() != result.value.Meta.Rank() {
		return
	}
	outer := m.variables.At(m.Problem.Graph.Nodes[outerSlot.concatIndex].Out[0])
	slotMeta := result.value.Meta.WithStrides(outer.forms[outer.formWithOrder(outerSlot.order)].meta.Strides)
	slotMeta.Offset = firstForm.meta.Offset
	slotMeta = withOwnBufferStrides(slotMeta, result.forms[ownBufferForm].meta)
	operandForms := m.adjacentForms(n, slotMeta, outerSlot)
	if operandForms == nil {
		return
	}
	slotForm := result.addSlotForm(slotMeta, ownBufferForm, &slot{concatIndex: outerSlot.concatIndex, operand: -1,
		order: outerSlot.order, concatName: outerSlot.concatName})
	if slotForm >= 0 {
		m.addNoopLabel(i, n, slotForm, operandForms)
	}
}

// adjacentForms returns a form for each operand of an inner concatenation n. The result of n is in outerSlot and has
// the layout slotMeta. In the returned form, an operand is already at its position in this result. The form is -1 for
// an operand without elements. adjacentForms returns nil if an operand with elements has no such form or is a constant.
func (m *Model) adjacentForms(n *graph.Node, slotMeta tensor.Meta, outerSlot *slot) []int {
	forms := slices.Repeat([]int{-1}, len(n.In))
	for k, positionType := range n.PlacesIn(slotMeta.Type()) {
		if n.In[k].Meta().Numel() == 0 {
			continue
		}
		position, _ := positionType.Meta()
		forms[k] = slices.IndexFunc(m.variables.At(n.In[k].Value).forms, func(candidate form) bool {
			isInOuter := candidate.slot != nil && candidate.slot.concatIndex == outerSlot.concatIndex &&
				candidate.slot.order == outerSlot.order
			return isInOuter && candidate.meta.Offset == position.Offset && candidate.meta.SameAddresses(position)
		})
		if forms[k] < 0 || n.In[k].Value.Const != nil {
			return nil
		}
	}
	return forms
}

// addNoopLabel adds a label with which concatenation i does nothing, because its operands are already at their
// positions in the result. The result has form resultForm, and each operand k with elements has form operandForms[k].
func (m *Model) addNoopLabel(i int, n *graph.Node, resultForm int, operandForms []int) {
	computed, call, impl := m.computedNodes[i], n.Call(), &n.Op.Impls[0]
	result := m.variables.At(n.Out[0])
	call.InPlace = make([]bool, len(n.In)) // by operand: whether it is already in the result
	for k := range n.In {
		call.InPlace[k] = operandForms[k] >= 0 // the work then has no copy of operand k
	}
	call.Out[0] = result.forms[result.forms[resultForm].ownBufferForm].meta
	resultSlot := result.forms[resultForm].slot
	// All constantForms are 0 and have no effect: no operand with elements is a constant.
	noop := label{impl: impl, walk: call.WalkInOrder(resultSlot.order), resultForms: []int{resultForm},
		readCosts: make([][]int64, len(n.In)), constantForms: make([]int, len(n.In)),
		concatName: resultSlot.concatName, resultSlots: make([]uint, len(n.In))}
	noop.ratio = m.Problem.ratio(n.Name, n.Op, impl, call.Out)
	noop.cost = scaled(PricePS(m.Problem.Profile, impl.Work(call, noop.walk)), noop.ratio.Price)
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg || arg.Value.Const != nil {
			continue
		}
		costs := make([]int64, len(m.variables.At(arg.Value).forms))
		for formIndex := range costs {
			if operandForms[k] >= 0 && formIndex != operandForms[k] {
				costs[formIndex] = wcsp.Forbidden
			}
		}
		noop.readCosts[k] = costs
	}
	computed.labels = append(computed.labels, noop)
}

// priceResultSlots finds the forms of an operand of a concatenation that are slots in the node's own result. It marks
// them in priced.resultSlots, and changes their costs. The list costs has the cost of reading each form of the operand.
// The cost of a slot is [wcsp.Forbidden] if the slot is not within the label's form of the result. Otherwise it is 0
// for a slot of the operand itself, and unchanged for a slot of another operand that is the same value.
func (m *Model) priceResultSlots(n *graph.Node, operandIndex int, resultForms []int, operand *variable, priced *label,
	costs []int64) {
	if n.Op.ConcatDim == nil || len(resultForms) != 1 {
		return
	}
	i, resultForm := m.nodeIndex[n.Number()], &m.variables.At(n.Out[0]).forms[resultForms[0]]
	for slotForm := range operand.forms {
		operandSlot := operand.forms[slotForm].slot
		if operandSlot == nil || operandSlot.concatIndex != i {
			continue
		}
		if priced.resultSlots == nil {
			priced.resultSlots = make([]uint, len(n.In))
		}
		priced.resultSlots[operandIndex] |= 1 << slotForm
		switch {
		case !operandSlot.isWithin(resultForm):
			costs[slotForm] = wcsp.Forbidden
		case operandSlot.operand == operandIndex: // the operand is already at its position
			costs[slotForm] = 0
		}
	}
}

// excludedSlots returns, for each label of a concatenation, a mask of the operand's slots in the result that are not
// within the form that the label writes. It returns nil if the operand has no slot in the result.
func (m *Model) excludedSlots(computed *computedNode, operand *variable) (masks []uint) {
	if computed.node.Op.ConcatDim == nil {
		return nil
	}
	result := m.variables.At(computed.node.Out[0])
	for operandForm := range operand.forms {
		operandSlot := operand.forms[operandForm].slot
		if operandSlot == nil || operandSlot.concatIndex != m.nodeIndex[computed.node.Number()] {
			continue
		}
		if masks == nil {
			masks = make([]uint, len(computed.labels))
		}
		for i := range computed.labels {
			if !operandSlot.isWithin(&result.forms[computed.labels[i].resultForms[0]]) {
				masks[i] |= 1 << operandForm
			}
		}
	}
	return masks
}

// isPossibleFormSet reports whether a set of forms is possible with slots. A set with several slot forms is impossible.
// A set with a slot form and the form of the same order in its own buffer is impossible, too.
func (variable *variable) isPossibleFormSet(set uint) bool {
	slotForm := -1
	for formIndex := range variable.forms {
		if hasForm(set, formIndex) && variable.forms[formIndex].slot != nil {
			if slotForm >= 0 {
				return false
			}
			slotForm = formIndex
		}
	}
	return slotForm < 0 || !hasForm(set, variable.forms[slotForm].ownBufferForm)
}
