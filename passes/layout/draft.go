package layout

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

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
	draft := NewDraft(problem)
	for _, list := range [][]*graph.Value{problem.Graph.Inputs, problem.Graph.Constants} {
		for _, v := range list {
			shared, err := draft.shareCopy(v, wish)
			if err != nil {
				return nil, err
			}
			if shared != nil {
				draft.assignment.Inputs = append(draft.assignment.Inputs, shared)
			}
		}
	}
	for i, n := range problem.Graph.Nodes {
		if err := interrupt.Err(problem.Context()); err != nil {
			return nil, err
		}
		if draft.dependsOnLost(n) {
			continue
		}
		if err := draft.decideOrRecord(i, n, wish); err != nil {
			return nil, err
		}
	}
	for i := range problem.Graph.Outputs {
		if err := draft.decideOutput(i); err != nil {
			return nil, err
		}
	}
	return draft.assignment, nil
}

// Wish returns the preferred order of a value and the reason. The order has the rank of the value. An empty order means
// no preference.
type Wish func(v *graph.Value) (order tensor.Order, why string)

// orderOf returns the preferred order of v and the reason. It returns an error if the order has another rank than v.
func (w Wish) orderOf(v *graph.Value) (order tensor.Order, why string, err error) {
	if order, why = w(v); order != "" && order.Rank() != v.Meta.Rank() {
		return "", "", fmt.Errorf("the preferred order (%v) of %q has %d dimensions, but the value has %d", order, v.Name,
			order.Rank(), v.Meta.Rank())
	}
	return order, why, nil
}

// Draft is an assignment under construction: see [Solve]. Nodes are decided in the order of the graph. The choices for
// earlier nodes determine layouts and copies of values, which the draft records. The graph as written has the layouts
// of eager PyTorch: see [Problem].
//
// For example, let the choice for a convolution be channels-last order. The relu that reads its result then gives a
// channels-last result, too, although both results have the order (N,C,H,W) in the graph as written. Both are in
// changedLayouts. If a reshape cannot view the relu's result in this layout, it reads a row-major copy, which all
// readers of this order share.
type Draft struct {
	Problem        *Problem
	assignment     *Assignment
	changedLayouts map[*graph.Value]valueLayout // values whose layout differs from the graph as written
	sharedCopies   map[*graph.Value]*Copy       // copies that all readers of a value read; set by shareCopy
	copies         map[copyKey]*Copy            // all copies so far

	// Buffers that infer reuses for each node.
	call          graph.Call
	inferred      []graph.Result // results of a node with unchanged operands
	inferredMetas []tensor.Meta  // their metas
}

// valueLayout is the layout of a value that follows from the choices so far.
type valueLayout struct {
	symbolicType tensor.Type
	meta         tensor.Meta
	isView       bool // whether the value is a view of an operand
}

// copyKey identifies a copy.
type copyKey struct {
	value        *graph.Value
	order        tensor.Order
	exactStrides bool // with the exact strides of the graph as written
}

// NewDraft starts an assignment.
func NewDraft(problem *Problem) *Draft {
	return &Draft{Problem: problem, changedLayouts: map[*graph.Value]valueLayout{}, sharedCopies: map[*graph.Value]*Copy{},
		copies: map[copyKey]*Copy{},
		assignment: &Assignment{Nodes: make([]Choice, len(problem.Graph.Nodes)),
			Outputs:     make([]*Copy, len(problem.Graph.Outputs)),
			LostOutputs: make([]bool, len(problem.Graph.Outputs)), Lost: map[*graph.Value]bool{}}}
}

// Meta returns the layout of a value that follows from the choices so far. Copies of the value may have other
// layouts.
func (d *Draft) Meta(v *graph.Value) tensor.Meta {
	if v == nil {
		return tensor.Meta{}
	}
	if changed, ok := d.changedLayouts[v]; ok {
		return changed.meta
	}
	return v.Meta
}

// Copy returns the copy of a value in an order. All calls for the same order return the same copy. why is the reason
// shown to users.
func (d *Draft) Copy(v *graph.Value, order tensor.Order, why string) *Copy {
	return d.copy(copyKey{value: v, order: order}, why)
}

// copy returns the copy with a key, and creates it at the first call.
func (d *Draft) copy(key copyKey, why string) *Copy {
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
func (d *Draft) copyMeta(copied *Copy) tensor.Meta {
	return copied.Lay(d.Meta(copied.Value))
}

// readLayout returns the layout in which other nodes read v, and the shared copy that they read. The copy is nil if
// they read v itself.
func (d *Draft) readLayout(v *graph.Value) (tensor.Meta, *Copy) {
	if c := d.sharedCopies[v]; c != nil {
		return d.copyMeta(c), c
	}
	return d.Meta(v), nil
}

// dependsOnLost reports whether a node depends on a lost value, a result of a failed node. If so, it marks the node's
// results as lost.
func (d *Draft) dependsOnLost(n *graph.Node) bool {
	lost := d.assignment.Lost
	if len(lost) == 0 || !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return lost[a.Value] }) {
		return false
	}
	for _, v := range n.Out {
		d.assignment.Lost[v] = true
	}
	return true
}

// decideOrRecord decides node n, which has index i in the graph. With KeepGoing, if a node fails or panics, the error
// is recorded and its results are lost.
func (d *Draft) decideOrRecord(i int, n *graph.Node, wish Wish) (err error) {
	if !d.Problem.KeepGoing {
		return d.decide(i, n, wish)
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("internal error: %v\n%s", panicked, debug.Stack())
		}
		if err == nil {
			return
		}
		var located *graph.Error
		if !errors.As(err, &located) {
			located = d.Problem.Graph.NodeError(n, err)
		}
		d.assignment.Failed = append(d.assignment.Failed, located)
		for _, v := range n.Out {
			d.assignment.Lost[v] = true
		}
		err = nil
	}()
	return d.decide(i, n, wish)
}

// decide decides the layouts of the results of node n, and the copies that the node needs. i is the index of the node
// in the graph.
func (d *Draft) decide(i int, n *graph.Node, wish Wish) error {
	choice := &d.assignment.Nodes[i]
	call, results, err := d.infer(n, choice)
	if err != nil {
		return d.Problem.Graph.NodeError(n, err)
	}
	if len(results) == 0 || results[0].Alias == graph.NoAlias {
		if results, err = d.chooseImpl(n, choice, call, results, wish); err != nil {
			return err
		}
	}
	for k, v := range n.Out {
		d.recordResult(v, choice, results[k], k)
		resultCopy, err := d.shareCopy(v, wish)
		if err != nil {
			return d.Problem.Graph.NodeError(n, err)
		}
		if resultCopy != nil {
			choice.ResultCopies = append(choice.ResultCopies, resultCopy)
		}
	}
	return nil
}

// infer infers the results of a node from the current layouts of its operands. If the op of a view node rejects the
// current layout of its operand, infer tries a row-major copy, then a copy with the layout of the graph as written.
func (d *Draft) infer(n *graph.Node, choice *Choice) (*graph.Call, []graph.Result, error) {
	call := &d.call
	*call = graph.Call{In: n.In, Attrs: n.Attrs}
	if anyChanged := d.replaceOperands(n, choice, call); !anyChanged && !n.Pin.SetsLayout() {
		d.setWrittenResults(n)
		call.Out = d.inferredMetas
		return call, d.inferred, nil
	}
	results, err := n.Op.Infer(call)
	if err != nil && n.Op.Kind == graph.View && n.In[0].Kind == graph.TensorArg {
		results, err = d.inferViewOfCopy(n, choice, call, err)
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	return call, results, err
}

// replaceOperands makes a call read the current layouts of the operands of node n, and a choice their copies. It
// reports whether it replaced any operand.
func (d *Draft) replaceOperands(n *graph.Node, choice *Choice, call *graph.Call) (anyChanged bool) {
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg || n.Op.RunDynamic != nil && arg.Value.Const != nil {
			continue // inference reads the data of the constant itself
		}
		meta, operandCopy := d.readLayout(arg.Value)
		readsPinnedCopy := operandCopy != nil && operandCopy.Pinned
		if readsPinnedCopy && d.Problem.needsLayoutAsWritten(n) && arg.Value.Meta.IsNonOverlappingAndDense() {
			operandCopy = d.copyAsWritten(arg.Value,
				fmt.Sprintf("%s views %q in the layout of the graph as written", n.Name, arg.Value.Name))
			meta = d.copyMeta(operandCopy)
		}
		if _, isChanged := d.changedLayouts[arg.Value]; isChanged || operandCopy != nil {
			if !anyChanged {
				call.In, anyChanged = slices.Clone(n.In), true
			}
			d.replaceOperand(choice, call, k, arg.Value, meta, operandCopy)
		}
	}
	return anyChanged
}

// replaceOperand makes operand k of a call and of a choice read operandCopy, or v itself if operandCopy is nil. meta is
// the layout that is read.
func (d *Draft) replaceOperand(choice *Choice, call *graph.Call, k int, v *graph.Value, meta tensor.Meta,
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

// setWrittenResults sets d.inferred and d.inferredMetas to the results of a node in the graph as written.
func (d *Draft) setWrittenResults(n *graph.Node) {
	d.inferred, d.inferredMetas = d.inferred[:0], d.inferredMetas[:0]
	for _, v := range n.Out {
		result := graph.Result{Type: v.Type, Alias: graph.NoAlias}
		if v.Alias != nil {
			result.Alias = slices.IndexFunc(n.In, func(arg graph.Arg) bool { return arg.Value == v.Alias })
		}
		d.inferred, d.inferredMetas = append(d.inferred, result), append(d.inferredMetas, v.Meta)
	}
}

// inferViewOfCopy infers the results of a view node with the first of viewOperands that its op accepts. err is the
// error for the current layout of the operand.
func (d *Draft) inferViewOfCopy(n *graph.Node, choice *Choice, call *graph.Call, err error) ([]graph.Result, error) {
	var results []graph.Result
	operand := n.In[0].Value
	call.In = slices.Clone(call.In)
	for _, operandCopy := range d.viewOperands(n) {
		if choice.In != nil {
			choice.In[0] = nil
		}
		meta := d.Meta(operand)
		if operandCopy != nil {
			meta = d.copyMeta(operandCopy)
		}
		d.replaceOperand(choice, call, 0, operand, meta, operandCopy)
		if results, err = n.Op.Infer(call); err == nil {
			break
		}
	}
	return results, err
}

// viewOperands lists the operands that infer tries for a view: first the row-major copy, then the copy in the layout of
// the graph as written. A nil entry means the operand itself.
func (d *Draft) viewOperands(n *graph.Node) []*Copy {
	v, why := n.In[0].Value, fmt.Sprintf("%s cannot view the chosen layout", n.Name)
	list := []*Copy{d.Copy(v, tensor.RowMajorOrder(v.Meta.Rank()), why)}
	if _, isChanged := d.changedLayouts[v]; !isChanged && !v.EffectivePin().SetsLayout() {
		return append(list, nil)
	}
	return append(list, d.copyAsWritten(v, why))
}

// recordResult stores the layout of v, a result of a node, if this layout differs from the graph as written.
// resultIndex is the index of v among the node's results.
func (d *Draft) recordResult(v *graph.Value, choice *Choice, result graph.Result, resultIndex int) {
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
	if isView != (v.Alias != nil) || !meta.SameLayout(v.Meta) || meta.Offset != v.Meta.Offset {
		d.changedLayouts[v] = valueLayout{symbolicType: meta.Type(), meta: meta, isView: isView}
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

// shareCopy records the copy that all readers of v read, and returns it. It returns nil if no copy is needed: v has the
// layout of its pin, its fixed layout or its preferred order.
func (d *Draft) shareCopy(v *graph.Value, wish Wish) (shared *Copy, err error) {
	switch pin := v.EffectivePin(); {
	case pin.SetsLayout():
		shared, err = d.pinnedCopy(v, pin)
	case d.Problem.MustKeepLayout(v):
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
func (d *Draft) pinnedCopy(v *graph.Value, pin graph.Pin) (*Copy, error) {
	meta := d.Meta(v)
	if pin.Matches(meta) {
		return nil, nil
	}
	order, err := pin.OrderFor(meta.Rank())
	if err != nil {
		return nil, err
	}
	pinned := d.copy(copyKey{value: v, order: order, exactStrides: pin.Matches(v.Meta)}, whyPinned(v))
	pinned.Pinned = true
	return pinned, nil
}

// fixedLayoutCopy returns the copy of v in the layout of the graph as written, or nil if readers can read v itself.
func (d *Draft) fixedLayoutCopy(v *graph.Value) *Copy {
	current, isChanged := d.changedLayouts[v]
	// No copy is needed for a view of the graph as written that is still a view: its root is fixed, too.
	if !isChanged || current.isView && v.Alias != nil || !current.isView && current.meta.SameAddresses(v.Meta) {
		return nil
	}
	return d.copyAsWritten(v, fmt.Sprintf("%q is read in the layout of the graph as written", v.Name))
}

// preferredCopy returns the copy of v in its preferred order, or nil if v has no preferred order, has this order, or
// is an output that no node reads.
func (d *Draft) preferredCopy(v *graph.Value, wish Wish) (*Copy, error) {
	order, why, err := wish.orderOf(v)
	if err != nil || order == "" || order.Matches(d.Meta(v)) || d.isUnreadOutput(v) {
		return nil, err
	}
	return d.Copy(v, order, why), nil
}

// isUnreadOutput reports whether a value is an output that no node reads.
func (d *Draft) isUnreadOutput(v *graph.Value) bool {
	return d.Problem.outputs[v] && d.Problem.readers[v] == 0
}

// copyAsWritten returns a copy with the strides of the graph as written.
func (d *Draft) copyAsWritten(v *graph.Value, why string) *Copy {
	order, _ := tensor.OrderOf(v.Meta)
	return d.copy(copyKey{value: v, order: order, exactStrides: true}, why)
}

// decideOutput decides which copy of its value output i returns.
func (d *Draft) decideOutput(i int) error {
	output := d.Problem.Graph.Outputs[i]
	v := output.Value
	if d.assignment.Lost[v] {
		d.assignment.LostOutputs[i] = true
		return nil
	}
	pin := output.EffectivePin()
	if !pin.SetsLayout() {
		d.assignment.Outputs[i] = d.outputAsWritten(output)
		return nil
	}
	meta, shared := d.readLayout(v)
	d.assignment.Outputs[i] = shared
	if pin.Matches(meta) {
		return nil
	}
	order, err := pin.OrderFor(meta.Rank())
	if err != nil {
		if !d.Problem.KeepGoing {
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
		d.assignment.LostOutputs[i] = true
		d.assignment.Failed = append(d.assignment.Failed, d.Problem.Graph.OutputError(output, err))
		return nil
	}
	d.assignment.Outputs[i] = d.Copy(v, order, fmt.Sprintf("output %q is pinned to %v", output.Name, pin))
	return nil
}

// outputAsWritten returns the copy that an output without a pin returns, or nil if it returns the value itself.
func (d *Draft) outputAsWritten(output graph.Output) *Copy {
	v := output.Value
	if d.Meta(v).SameLayout(v.Meta) {
		return nil
	}
	if shared := d.sharedCopies[v]; shared != nil && d.copyMeta(shared).SameLayout(v.Meta) {
		return shared
	}
	return d.copyAsWritten(v, fmt.Sprintf("output %q keeps the layout of the graph as written", output.Name))
}
