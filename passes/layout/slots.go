package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file lets nodes write their results directly into the result of a concatenation ([graph.Op.ConcatDim]), so
// that the concatenation copies nothing. A form is a layout in which a value may exist; a label is one way to compute
// a node. A slot is a position inside the result of a concatenation. For each slot, the value at that position gets
// an additional form, and the node of the value gets labels that write this form.

// slot is a position in the result of a concatenation, for one order of this result. The position holds one operand, or
// the result of an inner concatenation whose operands are adjacent at this position.
type slot struct {
	concat     int          // index of the concatenation's node
	operand    int          // index of the operand; -1 for the result of an inner concatenation
	order      tensor.Order // order of the result of the concatenation
	concatName string       // name of the result of the concatenation
}

// Place describes a form (layout of a value) without its own buffer: the form is in the buffer of a concatenation's
// result, or is a view of such a form.
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
		f := &m.variables.At(v).forms[i]
		if f.ownBufferForm < 0 {
			continue
		}
		list[i] = &Place{OwnBufferForm: f.ownBufferForm, Operand: -1}
		if s := f.slot; s != nil {
			list[i].Concat, list[i].Operand, list[i].Order = m.Problem.Graph.Nodes[s.concat], s.operand, s.order
		}
	}
	return list
}

// slots is the state of the search for slots.
type slots struct {
	needsOwnBuffer graph.ByValue[bool] // by viewRoot
	// operandLayouts has, by index of the concatenation and order of its result, the layouts of the operands.
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
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				search.needsOwnBuffer.Set(m.viewRoot(a.Value), true)
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

// addSlots adds slot forms to the results of node i, and labels that write these forms.
func (m *Model) addSlots(i int, n *graph.Node) {
	if m.Problem.KeepGoing || n.Op.RunDynamic != nil || n.Pin.SetsLayout() || len(n.Op.Impls) == 0 {
		return
	}
	for k, v := range n.Out {
		if v.Alias != nil || v.Meta.Numel() == 0 || !hasNumericSizes(v) {
			continue
		}
		if m.slots == nil {
			m.slots = m.newSlots()
		}
		if result := m.variables.At(v); !m.slots.needsOwnBuffer.At(v) && !m.Problem.MustKeepLayout(v) && !result.firstIsView {
			m.addOperandSlots(i, n, k, result)
			m.addAdjacentSlots(i, n, result)
		}
	}
}

// hasNumericSizes reports whether all sizes of a value are numbers.
func hasNumericSizes(v *graph.Value) bool {
	_, known := v.Type.Meta()
	return known
}

// addOperandSlots adds slot forms to result k, for the last concatenation that reads the result.
func (m *Model) addOperandSlots(i int, n *graph.Node, k int, result *variable) {
	concat, operand := -1, 0
	for _, u := range m.readers.At(result.value) {
		if u.node > concat && m.isConcat(u.node) {
			concat, operand = u.node, u.operand
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
		ownBufferForm, layouts := result.formWithOrder(order), m.operandSlots(concat, concatResult, order)
		if ownBufferForm < 0 || operand >= len(layouts) || layouts[operand].Rank() != result.value.Meta.Rank() {
			continue
		}
		slotMeta := withStridesOfSize1(layouts[operand], result.forms[ownBufferForm].meta)
		slotForm := result.addSlotForm(slotMeta, ownBufferForm, &slot{concat: concat, operand: operand,
			order: order, concatName: concatResult.value.Name})
		if slotForm >= 0 {
			m.writeSlot(i, n, k, slotForm)
		}
	}
}

// withStridesOfSize1 returns slotMeta, the layout of a slot. ownBuffer is the corresponding layout with its own buffer.
// If the two differ only in strides of dimensions of size 1, the result has the strides of ownBuffer, because prices
// may depend on them.
func withStridesOfSize1(slotMeta, ownBuffer tensor.Meta) tensor.Meta {
	if ownBuffer.SameAddresses(slotMeta) {
		slotMeta.Strides = ownBuffer.Strides
	}
	return slotMeta
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
	for _, t := range m.Problem.Graph.Nodes[concat].PlacesIn(concatResult.forms[form].meta.Type()) {
		position, _ := t.Meta()
		layouts = append(layouts, position)
	}
	if m.slots.operandLayouts[concat] == nil {
		m.slots.operandLayouts[concat] = map[tensor.Order][]tensor.Meta{}
	}
	m.slots.operandLayouts[concat][order] = layouts
	return layouts
}

// addSlotForm adds a form in slot s and returns its index, or -1 if the value has maxForms forms already.
// ownBufferForm is the form of the same order with its own buffer.
func (x *variable) addSlotForm(meta tensor.Meta, ownBufferForm int, s *slot) int {
	if len(x.forms) == maxForms {
		return -1
	}
	x.forms = append(x.forms, form{meta: meta, ownBufferForm: ownBufferForm, slot: s})
	return len(x.forms) - 1
}

// writeSlot adds labels that write result k in the given slot form. Each of these labels is a copy of a label that
// writes the corresponding form with its own buffer. The implementation must support the strides of the slot.
func (m *Model) writeSlot(i int, n *graph.Node, k, slotForm int) {
	computed, call := m.computedNodes[i], n.Call()
	result := m.variables.At(n.Out[k])
	slotMeta := result.forms[slotForm].meta
	slotMeta.Offset = 0 // kernels get the address of the first element
	for _, l := range computed.labels {
		if l.impl == nil || l.impl.OnDevice() || l.concatName != "" ||
			l.resultForms[k] != result.forms[slotForm].ownBufferForm {
			continue
		}
		slotCall, resultForms := *call, slices.Clone(l.resultForms)
		slotCall.Out = make([]tensor.Meta, len(n.Out))
		for j, v := range n.Out {
			slotCall.Out[j] = m.variables.At(v).forms[l.resultForms[j]].meta
		}
		slotCall.Out[k], resultForms[k] = slotMeta, slotForm
		dense := slotMeta.IsNonOverlappingAndDense()
		if !dense && (l.impl.Writes == nil || !l.impl.Writes(&slotCall, l.walk, k, slotMeta)) {
			continue
		}
		if priced, ok := m.pricedLabel(n, &slotCall, l.impl, l.walk, resultForms, l.requiredForms); ok {
			priced.concatName = result.forms[slotForm].slot.concatName
			computed.labels = append(computed.labels, priced)
		}
	}
}

// addAdjacentSlots adds labels for the case that node i, a concatenation, has nothing to do: all its operands are
// already adjacent in the result of another, outer concatenation.
func (m *Model) addAdjacentSlots(i int, n *graph.Node, result *variable) {
	if !m.isConcat(i) {
		return
	}
	first := slices.IndexFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Meta().Numel() > 0 })
	if first < 0 {
		return
	}
	operand := m.variables.At(n.In[first].Value)
	for _, f := range operand.forms {
		if f.slot == nil || f.slot.concat == i {
			continue
		}
		ownBufferForm := result.formWithOrder(f.slot.order)
		if ownBufferForm < 0 || f.meta.Rank() != result.value.Meta.Rank() {
			continue
		}
		outer := m.variables.At(m.Problem.Graph.Nodes[f.slot.concat].Out[0])
		slotMeta := result.value.Meta.WithStrides(outer.forms[outer.formWithOrder(f.slot.order)].meta.Strides)
		slotMeta.Offset = f.meta.Offset
		slotMeta = withStridesOfSize1(slotMeta, result.forms[ownBufferForm].meta)
		operandForms := m.adjacentForms(n, slotMeta, f.slot)
		if operandForms == nil {
			continue
		}
		slotForm := result.addSlotForm(slotMeta, ownBufferForm, &slot{concat: f.slot.concat, operand: -1,
			order: f.slot.order, concatName: f.slot.concatName})
		if slotForm < 0 {
			return
		}
		m.addNoopLabel(i, n, slotForm, operandForms)
	}
}

// adjacentForms returns, by operand of an inner concatenation n, the form in which the operand is already at its
// position in the result of n, or -1 for an operand without elements. The result is in slot s and has layout slotMeta.
// adjacentForms returns nil if an operand has no such form.
func (m *Model) adjacentForms(n *graph.Node, slotMeta tensor.Meta, s *slot) []int {
	forms := slices.Repeat([]int{-1}, len(n.In))
	for k, t := range n.PlacesIn(slotMeta.Type()) {
		if n.In[k].Meta().Numel() == 0 {
			continue
		}
		position, _ := t.Meta()
		forms[k] = slices.IndexFunc(m.variables.At(n.In[k].Value).forms, func(f form) bool {
			return f.slot != nil && f.slot.concat == s.concat && f.slot.order == s.order &&
				f.meta.Offset == position.Offset && f.meta.SameAddresses(position)
		})
		if forms[k] < 0 || n.In[k].Value.Const != nil {
			return nil
		}
	}
	return forms
}

// addNoopLabel adds a label with which concatenation i does nothing: its result has form resultForm, and each operand k
// with elements has form operandForms[k], in which it is already at its position in the result.
func (m *Model) addNoopLabel(i int, n *graph.Node, resultForm int, operandForms []int) {
	computed, call, impl := m.computedNodes[i], n.Call(), &n.Op.Impls[0]
	result := m.variables.At(n.Out[0])
	call.InPlace = make([]bool, len(n.In))
	for k := range n.In {
		call.InPlace[k] = operandForms[k] >= 0
	}
	call.Out[0] = result.forms[result.forms[resultForm].ownBufferForm].meta
	noop := label{impl: impl, walk: call.WalkInOrder(result.forms[resultForm].slot.order), resultForms: []int{resultForm},
		readCosts: make([][]int64, len(n.In)), constantForms: make([]int, len(n.In)),
		concatName: result.forms[resultForm].slot.concatName, ownSlots: make([]uint, len(n.In))}
	noop.cost = PricePS(m.Problem.Profile, impl.Work(call, noop.walk))
	for k, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil {
			continue
		}
		costs := make([]int64, len(m.variables.At(a.Value).forms))
		for f := range costs {
			if operandForms[k] >= 0 && f != operandForms[k] {
				costs[f] = wcsp.Forbidden
			}
		}
		noop.readCosts[k] = costs
	}
	computed.labels = append(computed.labels, noop)
}

// priceOwnSlots sets, in costs and in l.ownSlots, the forms of operand k of a concatenation that are inside the node's
// own result. Reading such a form costs 0 if it is the position of operand k. It is [wcsp.Forbidden] if the result has
// another order, is itself in a slot, or is on the device: slots are on the host. Otherwise the cost is unchanged.
func (m *Model) priceOwnSlots(n *graph.Node, k int, resultForms []int, operand *variable, l *label, costs []int64) {
	if n.Op.ConcatDim == nil || len(resultForms) != 1 {
		return
	}
	i, resultForm := m.nodeIndex[n.Number()], &m.variables.At(n.Out[0]).forms[resultForms[0]]
	for slotForm := range operand.forms {
		operandSlot := operand.forms[slotForm].slot
		if operandSlot == nil || operandSlot.concat != i {
			continue
		}
		if l.ownSlots == nil {
			l.ownSlots = make([]uint, len(n.In))
		}
		l.ownSlots[k] |= 1 << slotForm
		switch {
		case resultForm.slot != nil || operandSlot.order != resultForm.order || resultForm.place != tensor.Host:
			costs[slotForm] = wcsp.Forbidden
		case operandSlot.operand == k:
			costs[slotForm] = 0
		}
	}
}

// wrongSlots returns one mask of operand forms for each label of a concatenation. These forms are inside the result
// of the concatenation, but not in the result form that the label writes. wrongSlots returns nil if the operand has
// no form inside the result.
func (m *Model) wrongSlots(computed *computedNode, operand *variable) (list []uint) {
	if computed.node.Op.ConcatDim == nil {
		return nil
	}
	result := m.variables.At(computed.node.Out[0])
	for f := range operand.forms {
		operandSlot := operand.forms[f].slot
		if operandSlot == nil || operandSlot.concat != m.nodeIndex[computed.node.Number()] {
			continue
		}
		if list == nil {
			list = make([]uint, len(computed.labels))
		}
		for i := range computed.labels {
			if resultForm := &result.forms[computed.labels[i].resultForms[0]]; resultForm.slot != nil ||
				resultForm.order != operandSlot.order || resultForm.place != tensor.Host {
				list[i] |= 1 << f
			}
		}
	}
	return list
}

// slotsAgree reports whether a set of forms is possible with slots. Such a set has at most one slot form. If it has a
// slot form, it does not have the corresponding form with its own buffer.
func (x *variable) slotsAgree(set uint) bool {
	slotForm := -1
	for f := range x.forms {
		if set>>f&1 != 0 && x.forms[f].slot != nil {
			if slotForm >= 0 {
				return false
			}
			slotForm = f
		}
	}
	return slotForm < 0 || set>>x.forms[slotForm].ownBufferForm&1 == 0
}
