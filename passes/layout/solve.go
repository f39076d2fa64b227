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
		if d.dependsOnLost(n) {
			continue
		}
		if err := d.decideOrRecord(i, n, wish); err != nil {
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

// dependsOnLost reports whether a node reads a lost value: a result of a failed node, or of a node that depends on one.
// If so, the results of the node are lost, too.
func (d *draft) dependsOnLost(n *graph.Node) bool {
	lost := d.assignment.Lost
	if len(lost) == 0 || !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return lost[a.Value] }) {
		return false
	}
	for _, v := range n.Out {
		d.assignment.Lost[v] = true
	}
	return true
}

// decideOrRecord calls decide for node n, which has index i in the graph. With KeepGoing, it records an error or a
// panic as the failure of the node and returns nil. The results of the node are then lost.
func (d *draft) decideOrRecord(i int, n *graph.Node, wish Wish) (err error) {
	if !d.problem.KeepGoing {
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
			located = d.problem.Graph.NodeError(n, err)
		}
		d.assignment.Failed = append(d.assignment.Failed, located)
		for _, v := range n.Out {
			d.assignment.Lost[v] = true
		}
		err = nil
	}()
	return d.decide(i, n, wish)
}

// decide chooses the implementation of node n, which has index i in the graph. It records the layouts of the results,
// and the copies of operands and results.
func (d *draft) decide(i int, n *graph.Node, wish Wish) error {
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
	if d.assignment.Lost[v] {
		d.assignment.LostOutputs[i] = true
		return nil
	}
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
		if !d.problem.KeepGoing {
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
		d.assignment.LostOutputs[i] = true
		d.assignment.Failed = append(d.assignment.Failed, d.problem.Graph.OutputError(output, err))
		return nil
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
