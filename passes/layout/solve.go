package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes an [Assignment] from preferred orders of values. An assignment has a [Choice] for each node: an
// implementation, a walk (the order of the loops), and the copies that the node reads. A [Copy] has another layout than
// its value, and readers read it instead of the value. The layouts before any choice, as in eager PyTorch, are called
// the layouts of the graph as written. A draft is the assignment under construction.
//
// For example, let the graph be y = conv(x), z = relu(y), with the output z, and let the preferred order of all values
// be channels-last. The assignment has a copy of x to channels-last and the cheapest implementation of conv with a
// channels-last result. The relu reads and writes channels-last, and the output is a copy of z to its layout as
// written.

// Wish returns the preferred order of a value and the reason. The order has the rank of the value. An empty order means
// no preference.
type Wish func(v *graph.Value) (order tensor.Order, why string)

// orderOf returns the preferred order of v and the reason. It returns an error if the order has another rank than v.
func (w Wish) orderOf(v *graph.Value) (order tensor.Order, why string, err error) {
	if order, why = w(v); order != "" && order.Rank() != v.Meta.Rank() {
		return "", "", fmt.Errorf("the preferred order (%v) of %q has %d dimensions, but the value has %d", order,
			v.Name, order.Rank(), v.Meta.Rank())
	}
	return order, why, nil
}

// Solve makes an assignment from preferences. Every node gets the implementation that is cheapest, including copies,
// for the preferred layout of its result or, without a preference, for the inferred layout. A value that does not have
// its preferred order is copied for all readers. A nil wish means no preferences.
func Solve(problem *Problem, wish Wish) (*Assignment, error) {
	if problem == nil || problem.Graph == nil {
		return nil, errors.New("the problem is nil")
	}
	if wish == nil {
		wish = func(*graph.Value) (tensor.Order, string) { return "", "" }
	}
	d := newDraft(problem)
	if err := d.copyInputs(wish); err != nil {
		return nil, err
	}
	for i, n := range problem.Graph.Nodes {
		if err := interrupt.Err(problem.Context()); err != nil {
			return nil, err
		}
		if err := d.decide(i, n, wish); err != nil {
			return nil, err
		}
	}
	for i := range problem.Graph.Outputs {
		if err := d.decideOutput(i); err != nil {
			return nil, err
		}
	}
	return d.assignment, nil
}

// copyInputs records the copies of inputs and constants that all their readers read.
func (d *draft) copyInputs(wish Wish) error {
	for _, list := range [][]*graph.Value{d.problem.Graph.Inputs, d.problem.Graph.Constants} {
		for _, v := range list {
			shared, err := d.shareCopy(v, wish)
			if err != nil {
				return err
			}
			if shared != nil {
				d.assignment.Inputs = append(d.assignment.Inputs, shared)
			}
		}
	}
	return nil
}

// decide chooses the implementation of node n, which has index i in the graph. It records the layouts of the results,
// and the copies of operands and results.
func (d *draft) decide(i int, n *graph.Node, wish Wish) (err error) {
	defer d.problem.recoverAt(n, &err)
	choice := &d.assignment.Nodes[i]
	call, results, err := d.infer(n, choice)
	if err != nil {
		return d.problem.Graph.NodeError(n, err)
	}
	isView := len(results) > 0 && results[0].Alias != graph.NoAlias
	if !isView {
		if results, err = d.chooseImpl(n, choice, call, results, wish); err != nil {
			return err
		}
	}
	for k, v := range n.Out {
		d.recordResult(v, choice, results[k], k)
		resultCopy, err := d.shareCopy(v, wish)
		if err != nil {
			return d.problem.Graph.NodeError(n, err)
		}
		if resultCopy != nil {
			choice.ResultCopies = append(choice.ResultCopies, resultCopy)
		}
	}
	return nil
}

// recoverAt is deferred and converts a panic of the op of node n to an error that names the node.
func (p *Problem) recoverAt(n *graph.Node, err *error) {
	if panicked := recover(); panicked != nil {
		*err = p.Graph.NodeError(n, panics.Error(panicked))
	}
}

// shareCopy records the copy that all readers of v read, and returns it. It returns nil if no copy is needed: v has the
// layout of its pin, its fixed layout or its preferred order.
func (d *draft) shareCopy(v *graph.Value, wish Wish) (shared *Copy, err error) {
	switch pin := v.EffectivePin(); {
	case pin.SetsLayout():
		shared, err = d.pinnedCopy(v, pin)
	case d.problem.MustKeepLayout(v):
		shared = d.fixedLayoutCopy(v)
	default:
		shared, err = d.preferredCopy(v, wish)
	}
	if shared != nil {
		d.sharedCopies[v] = shared
	}
	return shared, err
}

// pinnedCopy returns the copy of v in the layout of its pin, or nil if v has this layout.
func (d *draft) pinnedCopy(v *graph.Value, pin graph.Pin) (*Copy, error) {
	meta := d.meta(v)
	if pin.Matches(meta) {
		return nil, nil
	}
	order, err := pin.OrderFor(meta.Rank())
	if err != nil {
		return nil, err
	}
	// If v as written has the layout of the pin, the copy gets exactly the strides of v as written.
	pinned := d.copyFor(copyKey{value: v, order: order, exactStrides: pin.Matches(v.Meta)}, whyPinned(v))
	pinned.Pinned = true
	return pinned, nil
}

// fixedLayoutCopy returns the copy of v in the layout of the graph as written, or nil if readers can read v itself.
func (d *draft) fixedLayoutCopy(v *graph.Value) *Copy {
	current, isChanged := d.changedLayouts[v]
	switch {
	case !isChanged:
		return nil
	case current.isView && v.Alias != nil: // v is still a view, and the layout of the viewed value is fixed, too
		return nil
	case !current.isView && current.meta.SameAddresses(v.Meta):
		return nil
	}
	return d.copyAsWritten(v, fmt.Sprintf("%q is read in the layout of the graph as written", v.Name))
}

// preferredCopy returns the copy of v in its preferred order. It returns nil if v has no preferred order, already has
// this order, or is an output that no node reads.
func (d *draft) preferredCopy(v *graph.Value, wish Wish) (*Copy, error) {
	order, why, err := wish.orderOf(v)
	if err != nil || order == "" || order.Matches(d.meta(v)) || d.isUnreadOutput(v) {
		return nil, err
	}
	return d.copyTo(v, order, why), nil
}

// isUnreadOutput reports whether a value is an output that no node reads.
func (d *draft) isUnreadOutput(v *graph.Value) bool {
	return d.problem.outputs[v] && d.problem.readers[v] == 0
}

// decideOutput decides which copy of its value output i returns.
func (d *draft) decideOutput(i int) error {
	output := d.problem.Graph.Outputs[i]
	v := output.Value
	pin := output.EffectivePin()
	if !pin.SetsLayout() {
		d.assignment.Outputs[i] = d.outputAsWritten(output)
		return nil
	}
	meta, shared := d.readLayout(v) // the layout that readers read, and the copy that has it, if any
	d.assignment.Outputs[i] = shared
	if pin.Matches(meta) {
		return nil
	}
	order, err := pin.OrderFor(meta.Rank())
	if err != nil {
		return d.problem.Graph.OutputError(output, err)
	}
	d.assignment.Outputs[i] = d.copyTo(v, order, fmt.Sprintf("output %q is pinned to %v", output.Name, pin))
	return nil
}

// outputAsWritten returns the copy that an output without a pin returns, or nil if it returns the value itself.
func (d *draft) outputAsWritten(output graph.Output) *Copy {
	v := output.Value
	if d.meta(v).SameLayout(v.Meta) {
		return nil
	}
	if shared := d.sharedCopies[v]; shared != nil && d.copyMeta(shared).SameLayout(v.Meta) {
		return shared
	}
	return d.copyAsWritten(v, fmt.Sprintf("output %q keeps the layout of the graph as written", output.Name))
}

// draft is an [Assignment] under construction: see [Solve]. An assignment has a [Choice] for each node: an
// implementation, a walk (the order of the loops), and the copies that the node reads in place of its operands. Nodes
// are decided in the order of the graph. The choices for earlier nodes determine layouts and copies of values, which
// the draft records. The layouts before any choice, as in eager PyTorch, are called the layouts of the graph as
// written.
//
// For example, let the choice for a convolution be channels-last order. The relu that reads its result then gives a
// channels-last result, too, although both results have the order (N,C,H,W) in the graph as written. Both are in
// changedLayouts. If a reshape cannot view the relu's result in this layout, it reads a row-major copy, which all
// readers of this order share.
type draft struct {
	problem        *Problem
	assignment     *Assignment
	changedLayouts map[*graph.Value]valueLayout // values whose layout differs from the graph as written
	sharedCopies   map[*graph.Value]*Copy       // copies that all readers of a value read; set by shareCopy
	copies         map[copyKey]*Copy            // all copies so far

	// Buffers that infer reuses for each node.
	call         graph.Call
	written      []graph.Result // results of a node with unchanged operands, as in the graph as written
	writtenMetas []tensor.Meta  // the layouts of these results
}

// valueLayout is the layout of a value that follows from the choices so far.
type valueLayout struct {
	meta   tensor.Meta
	isView bool // whether the value is a view of an operand
}

// copyKey identifies a copy: calls with equal keys return the same copy.
type copyKey struct {
	value        *graph.Value
	order        tensor.Order
	exactStrides bool // whether the copy has the exact strides of the graph as written
}

// newDraft starts an assignment.
func newDraft(problem *Problem) *draft {
	g := problem.Graph
	assignment := &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs))}
	return &draft{problem: problem, assignment: assignment, changedLayouts: map[*graph.Value]valueLayout{},
		sharedCopies: map[*graph.Value]*Copy{}, copies: map[copyKey]*Copy{}}
}

// meta returns the layout of a value that follows from the choices so far. Copies of the value may have other
// layouts.
func (d *draft) meta(v *graph.Value) tensor.Meta {
	if changed, ok := d.changedLayouts[v]; ok {
		return changed.meta
	}
	return v.Meta
}

// copyTo returns the copy of a value in an order. All calls for the same order return the same copy. why is the reason
// shown to users.
func (d *draft) copyTo(v *graph.Value, order tensor.Order, why string) *Copy {
	return d.copyFor(copyKey{value: v, order: order}, why)
}

// copyAsWritten returns a copy with the strides of the graph as written.
func (d *draft) copyAsWritten(v *graph.Value, why string) *Copy {
	order, _ := tensor.OrderOf(v.Meta)
	return d.copyFor(copyKey{value: v, order: order, exactStrides: true}, why)
}

// copyFor returns the copy with a key, and creates it at the first call. A pinned copy of the value, if any, is the
// source.
func (d *draft) copyFor(key copyKey, why string) *Copy {
	c := d.copies[key]
	if c == nil {
		c = &Copy{Value: key.value, Order: key.order, Why: why}
		if key.exactStrides {
			c.Strides = key.value.Meta.Strides
		}
		if pinned := d.sharedCopies[key.value]; pinned != nil && pinned.Pinned {
			c.From = pinned
		}
		d.copies[key] = c
	}
	return c
}

// copyMeta returns the layout of a copy.
func (d *draft) copyMeta(copied *Copy) tensor.Meta {
	return copied.Lay(d.meta(copied.Value))
}

// readLayout returns the layout in which other nodes read v, and the shared copy that they read. The copy is nil if
// they read v itself.
func (d *draft) readLayout(v *graph.Value) (meta tensor.Meta, sharedCopy *Copy) {
	if c := d.sharedCopies[v]; c != nil {
		return d.copyMeta(c), c
	}
	return d.meta(v), nil
}

// infer infers the results of a node from the current layouts of its operands, and records the copies that it reads. If
// the op of a view node rejects the current layout of its operand, infer tries a row-major copy, then a copy with the
// layout of the graph as written.
func (d *draft) infer(n *graph.Node, choice *Choice) (*graph.Call, []graph.Result, error) {
	call := &d.call
	*call = graph.Call{In: n.In, Attrs: n.Attrs}
	// With unchanged operands, the results have the layouts of the graph as written.
	if anyReplaced := d.replaceOperands(n, choice, call); !anyReplaced && !n.Pin.SetsLayout() {
		d.setWritten(n)
		call.Out = d.writtenMetas
		return call, d.written, nil
	}
	results, err := n.Op.Infer(call)
	if err != nil && n.Op.Kind == graph.View && n.In[0].Kind == graph.TensorArg {
		results, err = d.inferViewOfCopy(n, choice, call)
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	return call, results, err
}

// setWritten sets written and writtenMetas to the results of a node in the graph as written.
func (d *draft) setWritten(n *graph.Node) {
	d.written, d.writtenMetas = d.written[:0], d.writtenMetas[:0]
	for _, v := range n.Out {
		result := graph.Result{Type: v.Type, Alias: graph.NoAlias}
		if v.Alias != nil {
			result.Alias = slices.IndexFunc(n.In, func(arg graph.Arg) bool { return arg.Value == v.Alias })
		}
		d.written, d.writtenMetas = append(d.written, result), append(d.writtenMetas, v.Meta)
	}
}

// replaceOperands replaces, in a call of node n, each operand whose layout differs from the graph as written. It adds
// the copies that the node reads to the node's choice. It reports whether it replaced any operand.
func (d *draft) replaceOperands(n *graph.Node, choice *Choice, call *graph.Call) (anyReplaced bool) {
	for k, arg := range n.In {
		v := arg.Value
		if arg.Kind != graph.TensorArg || n.Op.RunDynamic != nil && v.Const != nil {
			continue // inference of an op with results of data-dependent size reads the data of the constant itself
		}
		meta, operandCopy := d.readLayout(v)
		readsPinnedCopy := operandCopy != nil && operandCopy.Pinned
		if readsPinnedCopy && d.problem.needsLayoutAsWritten(n) && v.Meta.IsNonOverlappingAndDense() {
			operandCopy = d.copyAsWritten(v,
				fmt.Sprintf("%s views %q in the layout of the graph as written", n.Name, v.Name))
			meta = d.copyMeta(operandCopy)
		}
		if _, isChanged := d.changedLayouts[v]; isChanged || operandCopy != nil {
			if !anyReplaced {
				call.In, anyReplaced = slices.Clone(n.In), true
			}
			d.replaceOperand(choice, call, k, v, meta, operandCopy)
		}
	}
	return anyReplaced
}

// replaceOperand gives operand k of a call, the value v, the layout meta. The choice then reads operandCopy, or v
// itself if operandCopy is nil.
func (d *draft) replaceOperand(choice *Choice, call *graph.Call, k int, v *graph.Value, meta tensor.Meta,
	operandCopy *Copy) {
	replaced := &graph.Value{Name: v.Name, Node: v.Node, Index: v.Index, Meta: meta, Type: meta.Type()}
	call.In[k] = graph.Arg{Kind: graph.TensorArg, Value: replaced}
	if operandCopy == nil {
		return
	}
	if choice.In == nil {
		choice.In = make([]*Copy, len(call.In))
	}
	choice.In[k] = operandCopy
}

// inferViewOfCopy infers the results of a view node from the first of viewOperands that its op accepts. If there is
// none, it returns the last error.
func (d *draft) inferViewOfCopy(n *graph.Node, choice *Choice, call *graph.Call) (results []graph.Result, err error) {
	operand := n.In[0].Value
	call.In = slices.Clone(call.In)
	for _, operandCopy := range d.viewOperands(n) {
		if choice.In != nil {
			choice.In[0] = nil
		}
		meta := d.meta(operand)
		if operandCopy != nil {
			meta = d.copyMeta(operandCopy)
		}
		const operandIndex = 0
		d.replaceOperand(choice, call, operandIndex, operand, meta, operandCopy)
		if results, err = n.Op.Infer(call); err == nil {
			break
		}
	}
	return results, err
}

// viewOperands lists the operands that infer tries for a view: first the row-major copy, then the copy in the layout of
// the graph as written. A nil entry means the operand itself.
func (d *draft) viewOperands(n *graph.Node) []*Copy {
	v, why := n.In[0].Value, fmt.Sprintf("%s cannot view the chosen layout", n.Name)
	list := []*Copy{d.copyTo(v, tensor.RowMajorOrder(v.Meta.Rank()), why)}
	if _, isChanged := d.changedLayouts[v]; !isChanged && !v.EffectivePin().SetsLayout() {
		return append(list, nil) // the operand itself has the layout of the graph as written
	}
	return append(list, d.copyAsWritten(v, why))
}

// recordResult stores the layout of v, a result of a node, if this layout differs from the graph as written.
// resultIndex is the index of v among the node's results.
func (d *draft) recordResult(v *graph.Value, choice *Choice, result graph.Result, resultIndex int) {
	isView := result.Alias >= 0
	meta := result.Meta()
	if isView && meta.SameAddresses(v.Meta) {
		meta.Strides = v.Meta.Strides // including the strides of dimensions of size 1
	}
	if !isView {
		meta = choice.Walk.ResultLayout(resultIndex, meta)
		if choice.ExactStrides && meta.SameAddresses(v.Meta) && !meta.SameLayout(v.Meta) {
			// Only strides of dimensions of size 1 differ: keep the strides of the graph as written.
			meta = v.Meta
			setResultOrder(&choice.Walk, resultIndex, meta)
		}
	}
	wasView := v.Alias != nil
	if isView != wasView || !meta.SameLayout(v.Meta) || meta.Offset != v.Meta.Offset {
		d.changedLayouts[v] = valueLayout{meta: meta, isView: isView}
	}
}

// setResultOrder sets the order of one result of a walk to the order of meta. It does not change the slice that the
// walk shares with other walks.
func setResultOrder(walk *graph.Walk, resultIndex int, meta tensor.Meta) {
	orders := make([]tensor.Order, max(resultIndex+1, len(walk.ResultOrders)))
	copy(orders, walk.ResultOrders)
	orders[resultIndex], _ = tensor.OrderOf(meta)
	walk.ResultOrders = orders
}

// This part chooses the implementation and the walk (the order of the loops) of a node by cost. A draft tracks the
// layouts and copies that follow from the choices so far. A [Wish] returns the preferred order of a value. For example,
// a convolution of a row-major image with the wish channels-last has two offers, among others: the implementation for
// row-major images with a copy of the result, and the implementation for channels-last images with a copy of the
// operand. The cheaper offer is chosen (bestOffer).

// wantedOrder returns the wanted order of a node's first result, whose inferred layout is meta. An empty order means
// the inferred layout.
func (d *draft) wantedOrder(n *graph.Node, meta tensor.Meta, wish Wish) (tensor.Order, error) {
	result := n.Out[0]
	switch {
	case n.Pin.SetsLayout():
		return n.Pin.OrderFor(meta.Rank())
	case d.problem.MustKeepLayout(result) || d.isUnreadOutput(result):
		// The result must have the layout of the graph as written.
		if written, dense := tensor.OrderOf(result.Meta); dense && !written.Matches(meta) {
			return written, nil
		}
		return "", nil
	}
	order, _, err := wish.orderOf(result) // without the reason of the preference
	if err != nil || order == "" || order.Matches(meta) {
		return "", err
	}
	return order, nil
}

// chooseImpl sets the cheapest implementation and walk of a node. The cost includes copies of operands that the
// implementation cannot read, and the copy of a result that does not have the wanted order. Among implementations with
// equal costs, chooseImpl takes the first in the op's list. If no order is wanted, it prefers implementations that give
// the inferred layout. chooseImpl returns the results that inference derives from the operands after copying.
func (d *draft) chooseImpl(n *graph.Node, choice *Choice, call *graph.Call, results []graph.Result,
	wish Wish) ([]graph.Result, error) {
	if len(n.Op.Impls) == 0 || len(results) == 0 {
		return results, nil
	}
	wanted, err := d.wantedOrder(n, call.Out[0], wish)
	if err != nil {
		return nil, d.problem.Graph.NodeError(n, err)
	}
	// If ExactStrides is set, a result with the order of the graph as written also gets its strides as written.
	choice.ExactStrides = d.problem.MustKeepLayout(n.Out[0]) || d.isUnreadOutput(n.Out[0])
	// A single implementation that reads every layout is chosen without a comparison of costs, if Permits cannot
	// exclude it.
	impl := &n.Op.Impls[0]
	isOnlyOffer := len(n.Op.Impls) == 1 && wanted == "" && !impl.MayRejectLayouts() && !impl.Inexact
	if isOnlyOffer && n.Pin.Impl == "" && !isPinnedToDevice(n) {
		if walks := impl.Walks(call, nil); len(walks) > 0 {
			choice.Impl, choice.Walk = impl, walks[0]
			return results, nil
		}
	}
	best, err := d.bestOffer(n, call, wanted)
	if err != nil {
		return nil, d.problem.Graph.NodeError(n, err)
	}
	choice.Impl, choice.Walk = best.impl, best.walk
	if len(best.copies) > 0 {
		call.In = slices.Clone(call.In) // the slice may be the node's own
	}
	for k, order := range best.copies {
		v := n.In[k].Value
		operandCopy := d.copyTo(v, order, ReaderNeeds)
		d.replaceOperand(choice, call, k, v, d.copyMeta(operandCopy), operandCopy)
	}
	if best.results != nil { // inferred from copies of operands
		return best.results, nil
	}
	return results, nil
}

// offer is one way to compute a node: an implementation, a walk (loop order), and the necessary copies of operands.
type offer struct {
	impl      *graph.Impl
	walk      graph.Walk
	copies    map[int]tensor.Order // by operand: the order of its copy
	results   []graph.Result       // inferred results if operands are copied; else nil
	deviates  bool                 // whether a result lacks the inferred layout, although no other order is wanted
	costNS    float64              // total cost, in nanoseconds
	pinMisses []int                // operands that are not read in their pinned layout
}

// costTolerance is the relative difference up to which costs count as equal, because they are estimates.
const costTolerance = 0.02

// betterThan reports whether an offer is better than an offer that precedes it in the op's list of implementations. An
// offer without a deviation is better than an offer with a deviation. Otherwise the cost decides.
func (o *offer) betterThan(earlier *offer) bool {
	if o.deviates != earlier.deviates {
		return !o.deviates
	}
	return o.costNS < earlier.costNS*(1-costTolerance)
}

// bestOffer returns the best offer for a node.
func (d *draft) bestOffer(n *graph.Node, call *graph.Call, wanted tensor.Order) (*offer, error) {
	var list []*offer
	orders := d.requestedOrders(n, wanted)
	supported := false
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		if !d.problem.Permits(n, impl) {
			continue
		}
		for _, walk := range impl.Walks(call, orders) {
			supported = true
			candidate := &offer{impl: impl, walk: walk}
			if d.priceOffer(candidate, n, call, wanted) {
				list = append(list, candidate)
			}
		}
	}
	// Remove an offer if its pinMisses are a proper superset of the pinMisses of another offer.
	list = preferPinned(list, func(candidate **offer) []int { return (*candidate).pinMisses })
	switch {
	case len(list) > 0:
		best := list[0]
		for _, candidate := range list[1:] {
			if candidate.betterThan(best) {
				best = candidate
			}
		}
		return best, nil
	case isPinnedToDevice(n) && !supported:
		return nil, devicePinError(n, "this strategy does not use devices; use strategy optimal, which does")
	case n.Pin.Impl != "" && !supported:
		return nil, d.problem.pinnedImplError(n, call)
	}
	return nil, errors.New("no kernel supports these operands")
}

// requestedOrders returns the orders to request from implementations: the wanted order of the result, if any, and the
// orders of pinned operands.
func (d *draft) requestedOrders(n *graph.Node, wanted tensor.Order) []tensor.Order {
	var list []tensor.Order
	if wanted != "" {
		list = append(list, wanted)
	}
	for _, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		if pin := arg.Value.EffectivePin(); pin.SetsLayout() {
			if order, err := pin.OrderFor(arg.Value.Meta.Rank()); err == nil && !slices.Contains(list, order) {
				list = append(list, order)
			}
		}
	}
	return list
}

// pinnedImplError returns the error for a node whose pinned implementation cannot compute it.
func (p *Problem) pinnedImplError(n *graph.Node, call *graph.Call) error {
	impl, err := n.Op.Impl(n.Pin.Impl)
	if err == nil && p.Exact && impl.Inexact {
		err = fmt.Errorf("the implementation is inexact, and the plan must be exact: %s", p.supportingImpls(n, call))
	} else {
		err = fmt.Errorf("the implementation does not support these operands: %s", p.supportingImpls(n, call))
	}
	return &graph.PinError{Name: pinnedName(n), Pin: graph.Pin{Impl: n.Pin.Impl}, Err: err}
}

// devicePinError returns the error for a node whose pinned device cannot compute it.
func devicePinError(n *graph.Node, format string, args ...any) error {
	return &graph.PinError{Name: pinnedName(n), Pin: graph.Pin{Device: n.Pin.Device}, Err: fmt.Errorf(format, args...)}
}

// pinnedName returns the user's name of a pinned node: of the first part of a fused node.
func pinnedName(n *graph.Node) string {
	if fused, ok := n.Attrs.(interface{ Names() []string }); ok && len(fused.Names()) > 0 {
		return fused.Names()[0]
	}
	return n.Name
}

// supportingImpls lists the implementations that support a call.
func (p *Problem) supportingImpls(n *graph.Node, call *graph.Call) string {
	var names []string
	for i := range n.Op.Impls {
		if impl := &n.Op.Impls[i]; !(p.Exact && impl.Inexact) && len(impl.Walks(call, nil)) > 0 {
			names = append(names, impl.Name)
		}
	}
	if names == nil {
		return "no implementation supports them"
	}
	return "use " + strings.Join(names, " or ")
}

// priceOffer computes the copies and the total cost of an offer. It returns false if an operand cannot be read in its
// current layout, and readableOrder finds no other order.
func (d *draft) priceOffer(offer *offer, n *graph.Node, call *graph.Call, wanted tensor.Order) bool {
	profile := d.problem.Profile
	offer.costNS += Price(profile, offer.impl.Work(call, offer.walk))
	readWork := offer.impl.OperandWorkFunc(call, offer.walk)
	for operand, arg := range call.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		operandWork, ok := readWork(operand, arg.Meta())
		if !ok {
			copyMeta, canRead := d.addOperandCopy(offer, n, call, operand)
			if !canRead {
				return false
			}
			operandWork, _ = readWork(operand, copyMeta)
		}
		offer.costNS += Price(profile, operandWork)
	}
	if !offer.infer(n, call) {
		return false
	}
	d.priceResults(offer, call, wanted)
	return true
}

// addOperandCopy adds to an offer a copy of an operand that the implementation cannot read in its current layout, with
// the cost of the copy. It returns the layout of the copy, or false if readableOrder finds none.
func (d *draft) addOperandCopy(offer *offer, n *graph.Node, call *graph.Call, operand int) (tensor.Meta, bool) {
	v, meta := n.In[operand].Value, call.In[operand].Meta()
	order, canRead := offer.readableOrder(call, operand, meta)
	if !canRead {
		return meta, false
	}
	if v.EffectivePin().SetsLayout() {
		offer.pinMisses = append(offer.pinMisses, operand)
	}
	if offer.copies == nil {
		offer.copies = map[int]tensor.Order{}
	}
	offer.copies[operand] = order
	copyMeta := meta.WithStrides(order.Strides(meta.Shape))
	// The copy is a separate step, unless the value is converted while planning or is already copied.
	if !isFreeConstant(v) && d.copies[copyKey{value: v, order: order}] == nil {
		offer.costNS += d.problem.copyNS(meta, copyMeta)
	}
	return copyMeta, true
}

// priceResults adds to an offer the cost of copying results to the wanted order. It sets deviates.
func (d *draft) priceResults(offer *offer, call *graph.Call, wanted tensor.Order) {
	for resultIndex, meta := range call.Out {
		result := meta
		if offer.results != nil {
			result = offer.results[resultIndex].Meta()
		}
		result = offer.walk.ResultLayout(resultIndex, result)
		switch {
		case wanted == "" || wanted.Rank() != meta.Rank(): // no order is wanted for this result
			offer.deviates = offer.deviates || !result.SameLayout(meta)
		case !wanted.Matches(result):
			offer.costNS += d.problem.copyNS(result, meta.WithStrides(wanted.Strides(meta.Shape)))
		}
	}
}

// infer infers the results from the copied operands, because the layouts of results may depend on the copies. It
// returns false if inference fails, or if a result becomes a view of an operand, which needs no implementation.
func (o *offer) infer(n *graph.Node, call *graph.Call) bool {
	if len(o.copies) == 0 {
		return true
	}
	operands := slices.Clone(call.In)
	for k, order := range o.copies {
		meta := operands[k].Meta()
		meta = meta.WithStrides(order.Strides(meta.Shape))
		operands[k] = graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()})
	}
	results, err := n.Op.Infer(&graph.Call{In: operands, Attrs: call.Attrs})
	o.results = results
	return err == nil && len(results) == len(call.Out) &&
		!slices.ContainsFunc(results, func(result graph.Result) bool { return result.Alias != graph.NoAlias })
}

// copyNS returns the cost, in nanoseconds, of copying a value between two layouts by the copy op of the graph.
func (p *Problem) copyNS(source, target tensor.Meta) (ns float64) {
	op, err := p.Graph.CopyOp()
	if err != nil || len(op.Impls) == 0 { // no copy op: the pass will return an error
		work := graph.Work{StartedSteps: 1, Footprint: 2 * float64(target.Bytes())}
		work.Bytes[graph.Copied] = work.Footprint
		return Price(p.Profile, work)
	}
	operand := graph.ArgOf(&graph.Value{Meta: source, Type: source.Type()})
	call := &graph.Call{In: []graph.Arg{operand}, Out: []tensor.Meta{target}}
	impl := &op.Impls[0]
	read, _ := impl.Read(call, graph.Walk{}, 0, source)
	return Price(p.Profile, impl.Work(call, graph.Walk{})) + Price(p.Profile, read)
}

// readableOrder returns an order in which the implementation can read an operand: the order of its walk, or row-major.
// It returns false if it can read neither.
func (o *offer) readableOrder(call *graph.Call, operand int, meta tensor.Meta) (tensor.Order, bool) {
	for _, order := range []tensor.Order{o.walk.LoopOrder, tensor.RowMajorOrder(meta.Rank())} {
		if order.Rank() != meta.Rank() {
			continue
		}
		if _, ok := o.impl.Read(call, o.walk, operand, meta.WithStrides(order.Strides(meta.Shape))); ok {
			return order, true
		}
	}
	return "", false
}
