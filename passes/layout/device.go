package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the places of values to the model. A form (a layout in which a value may exist) has a place: the host
// or the device. A label (one way to compute a node) writes and reads forms of one place. A walk is the loop order of a
// node with the layouts of its results.
//
// NewModel calls three functions of this file. findDeviceNodes finds the nodes that the device can compute and the
// values that may be there. addDeviceForms gives each such value, for each of its dense forms on the host, the same
// layout on the device: {(N,C,H,W)} becomes {(N,C,H,W), (N,C,H,W) on the device}. addDeviceLabels adds the labels that
// compute a node on the device. Copies between forms are then transfers or copies within a place: see copyImpl.

// Reasons shown for transfers.
const (
	NeededOnDevice = "a reader runs on the device"
	NeededOnHost   = "a reader or an output is on the host"
)

// findDeviceNodes finds the nodes that the device can compute, and the values that may be on the device: the operands
// and results of these nodes, and the views of these values. Such a value may have at most maxForms/2 forms on the
// host, so that the remaining forms are left for the device.
func (m *Model) findDeviceNodes() {
	g := m.Problem.Graph
	m.deviceWalks, m.deviceCopies = make([][]graph.Walk, len(g.Nodes)), map[tensor.DType]bool{}
	m.mayBeOnDevice = graph.NewByValue[bool](g)
	for i, n := range g.Nodes {
		interrupt.Check(m.Problem.Context())
		impl := m.Problem.Device.Impl(n.Op)
		isComputed := m.computedNodes[i] != nil && n.Op.RunDynamic == nil // neither a view nor of data-dependent shape
		if !isComputed || impl == nil || !m.Problem.Permits(n, impl) {
			continue
		}
		m.deviceWalks[i] = impl.Walks(n.Call(), []tensor.Order{tensor.RowMajorOrder(n.Out[0].Meta.Rank())})
		if len(m.deviceWalks[i]) > 0 {
			m.markOperandsAndResults(n, m.mayBeOnDevice)
		}
	}
	m.markAcrossViews(m.mayBeOnDevice)
	for _, variable := range m.variableList {
		if m.mayBeOnDevice.At(variable.value) {
			variable.maxHostForms = maxForms / 2
		}
	}
}

// isDeviceNode reports whether the device can compute node i.
func (m *Model) isDeviceNode(i int) bool { return m.deviceWalks != nil && len(m.deviceWalks[i]) > 0 }

// markOperandsAndResults marks the results of a node, and its operands that are tensors.
func (m *Model) markOperandsAndResults(n *graph.Node, marked graph.ByValue[bool]) {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			marked.Set(a.Value, true)
		}
	}
	for _, v := range n.Out {
		marked.Set(v, true)
	}
}

// markAcrossViews marks the operand and all results of a view if one of them is marked. The backward pass marks
// operands along chains of views. The forward pass marks results.
func (m *Model) markAcrossViews(marked graph.ByValue[bool]) {
	mark := func(view *viewNode) {
		if view == nil {
			return
		}
		operand := view.node.In[view.operand].Value
		if !marked.At(operand) && !slices.ContainsFunc(view.node.Out, marked.At) {
			return
		}
		marked.Set(operand, true)
		for _, v := range view.node.Out {
			marked.Set(v, true)
		}
	}
	for _, view := range slices.Backward(m.viewNodes) {
		mark(view)
	}
	for _, view := range m.viewNodes {
		mark(view)
	}
}

// addDeviceForms adds forms on the device to the values that may be there.
func (m *Model) addDeviceForms() {
	nodes := m.Problem.Graph.Nodes
	for i, n := range nodes {
		interrupt.Check(m.Problem.Context())
		if m.isDeviceNode(i) {
			walks := m.Problem.Device.Impl(n.Op).Walks(n.Call(), m.variables.At(n.Out[0]).orders())
			m.deviceWalks[i] = distinctWalks(walks, n.Out)
		}
	}
	for _, variable := range m.variableList {
		v := variable.value
		if !m.mayBeOnDevice.At(v) || m.Problem.readAsStorage[v] || v.Meta.Numel() == 0 {
			continue
		}
		for i := range len(variable.forms) { // without the forms that the loop adds
			if form := &variable.forms[i]; form.dense && form.slot == nil { // slot: part of a concatenation
				variable.addFormAt(form.meta, tensor.Device)
			}
		}
	}
	finder := &formFinder{model: m, propagated: make([]propagatedOrders, len(nodes))}
	for _, view := range m.viewNodes { // views of the new forms
		if view == nil {
			continue
		}
		variable := m.variables.At(view.node.In[view.operand].Value)
		for i := range variable.forms {
			if variable.forms[i].place != tensor.Host {
				finder.addViewForms(view, variable, i)
			}
		}
	}
}

// addDeviceLabels adds the labels of node i on the device. It reports whether there are any.
func (m *Model) addDeviceLabels(i int, n *graph.Node) bool {
	if !m.isDeviceNode(i) {
		return false
	}
	computed, call, impl := m.computedNodes[i], n.Call(), m.Problem.Device.Impl(n.Op)
	for _, walk := range m.deviceWalks[i] {
		for _, candidate := range m.walkLabels(computation{n, call, impl, walk}) {
			if !slices.ContainsFunc(computed.labels, candidate.isEquivalent) {
				computed.labels = append(computed.labels, candidate)
			}
		}
	}
	return len(computed.labels) > 0
}

// formInPlace returns the index of the form that has the layout of form formIndex and is in the given place (host or
// device), or -1.
func (variable *variable) formInPlace(formIndex int, place tensor.Place) int {
	return variable.formAt(variable.forms[formIndex].meta, place)
}

// readsPlace reports whether an implementation reads a form in its place. As in PyTorch, a kernel on a device reads a
// value with 0 dimensions from the host. impl is nil for a node that inference computes.
func readsPlace(impl *graph.Impl, f *form) bool {
	if impl == nil {
		return f.place == tensor.Host
	}
	return impl.OperandPlace == f.place || f.meta.Rank() == 0 && f.place == tensor.Host
}

// copyImpl returns the implementation that copies a value from one form to another, or nil if there is none.
func (m *Model) copyImpl(from, to *form) *graph.Impl {
	device := m.Problem.Device
	switch {
	case m.copyOp == nil:
		return nil
	case from.place == tensor.Host && to.place == tensor.Host:
		return &m.copyOp.Impls[0]
	case from.place != to.place && !from.meta.SameAddresses(to.meta): // a transfer keeps the layout
		return nil
	case from.place == tensor.Host:
		return device.Upload()
	case to.place == tensor.Host:
		return device.Download()
	}
	if impl := device.Impl(m.copyOp); m.canCopyOnDevice(impl, to.meta) {
		return impl
	}
	return nil
}

// canCopyOnDevice reports whether the device's copy kernel supports the dtype of a layout. deviceCopies caches the
// answers.
func (m *Model) canCopyOnDevice(impl *graph.Impl, meta tensor.Meta) bool {
	canCopy, known := m.deviceCopies[meta.DType]
	if !known {
		v := &graph.Value{Meta: meta, Type: meta.Type()}
		attrs, err := m.copyOp.Schema.Decode(nil, nil)
		call := &graph.Call{In: []graph.Arg{graph.ArgOf(v)}, Out: []tensor.Meta{meta}, Attrs: attrs}
		canCopy = err == nil && len(impl.Walks(call, nil)) > 0
		m.deviceCopies[meta.DType] = canCopy
	}
	return canCopy
}

// formCopyCost returns the cost of a copy from a form to a dense form, in picoseconds. ratio is the measured price of the
// copy divided by the prediction.
func (m *Model) formCopyCost(from, to *form, ratio pricing.Ratio) int64 {
	impl := m.copyImpl(from, to)
	if impl == nil {
		return wcsp.Forbidden
	}
	v := &graph.Value{Meta: from.meta, Type: from.meta.Type()}
	call := &graph.Call{In: []graph.Arg{graph.ArgOf(v)}, Out: []tensor.Meta{to.meta}}
	walk := call.WalkInOrder(to.order)
	writeWork := impl.Work(call, walk)
	readWork, ok := impl.Read(call, walk, 0, from.meta)
	if !ok {
		return wcsp.Forbidden
	}
	return scaled(m.Problem.pricePS(impl, writeWork)+m.Problem.pricePS(impl, readWork), ratio.Price)
}

// copyRatio returns the measured price of an inserted copy of a value to a form, divided by the prediction.
func (m *Model) copyRatio(v *graph.Value, to *form) pricing.Ratio {
	return m.Problem.ratio(v.Name, m.copyOp, m.copyImpl(to, to), []tensor.Meta{to.meta})
}

// deviceName returns the name of a place, as pins state it.
func (p *Problem) deviceName(place tensor.Place) string {
	if place == tensor.Host || p.Device == nil {
		return graph.HostDevice
	}
	return p.Device.Name()
}

// ProfileOf returns the prices of the host or device on which an implementation runs.
func (p *Problem) ProfileOf(impl *graph.Impl) *pricing.Profile {
	if p.Device != nil && impl.OnDevice() {
		return p.Device.Prices()
	}
	return p.Profile
}

// pricePS returns the cost of an implementation's work in picoseconds, by the prices of its place.
func (p *Problem) pricePS(impl *graph.Impl, work pricing.Work) int64 {
	return PricePS(p.ProfileOf(impl), work)
}

// isPinnedToDevice reports whether a node is pinned to another device than the host.
func isPinnedToDevice(n *graph.Node) bool {
	return n.Pin.Device != "" && n.Pin.Device != graph.HostDevice
}

// pinnedDeviceError returns the error for a node that is pinned to a device that does not compute it.
func (p *Problem) pinnedDeviceError(n *graph.Node) error {
	var operands []string
	for _, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			operands = append(operands, fmt.Sprintf("%q %v", a.Value.Name, a.Value.Meta))
		case graph.NumberArg:
			operands = append(operands, a.Number.String())
		}
	}
	name := n.Pin.Device
	if p.Device == nil || p.Device.Name() != name {
		return devicePinError(n, "the program uses device %s", p.deviceName(tensor.Device))
	}
	return devicePinError(n, "device %s has no kernel for %s(%s)", name, n.Op.Name, strings.Join(operands, ", "))
}
