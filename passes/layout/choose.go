package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses the implementation and the walk (the order of the loops) of a node by cost. A draft tracks the
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
