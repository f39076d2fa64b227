package main

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file defines a machine (phone) and a strategy (descent). A strategy chooses the layouts of values.
//
//   - An order lists the dimensions of a value, the slowest first. An image may have row-major or channels-last order.
//   - A meta is the dtype, the shape and the strides of a value.
//   - An implementation of an op (graph.Impl) has walks: the orders in which its loops may run and write results.
//     Its function Work returns the work of a walk if each operand has the layout that suits the walk. Read returns
//     the additional work of reading an operand in another layout, or false if the implementation cannot read this
//     layout. The profile gives the price of work.

// phone is the cost profile of a machine with slow memory, on which only contiguous accesses are cheap. The memory
// prices are in picoseconds per byte.
var phone = func() *pricing.Profile {
	p := pricing.DefaultProfile()
	for access, ps := range map[pricing.Access]float64{pricing.Dense: 125, pricing.DenseConstants: 125, pricing.Copied: 250,
		pricing.Tiled: 500, pricing.Strided: 2000, pricing.Gathered: 2000} {
		*p.Memory.CurveOf(access) = []pricing.Level{{Bytes: 1, PS: ps}}
	}
	p.StepPS = 500e3
	return p
}()

// descent is a strategy: coordinate descent over the dimension orders of images. It changes the order of one value at a
// time as long as the cost decreases. It starts once from the layouts of eager PyTorch and once from channels-last
// images, and takes the cheaper result.
type descent struct{}

// Name returns the name of the strategy in reports.
func (descent) Name() string { return "descent" }

// Choose returns the assignment of layouts to values.
func (descent) Choose(problem *layout.Problem) (*layout.Assignment, error) {
	var best *orders
	least := math.Inf(1)
	for _, channelsLast := range []bool{false, true} {
		attempt := begin(problem, channelsLast)
		attempt.descend()
		if cost := attempt.cost(problem.Graph.Nodes, problem.Graph.Inputs); cost < least {
			best, least = attempt, cost
		}
	}
	return layout.Solve(problem, func(v *graph.Value) (tensor.Order, string) {
		return best.order[v], "cheapest order that descent found"
	})
}

// orders has a dimension order for each value whose layout the descent may change.
type orders struct {
	problem *layout.Problem
	order   map[*graph.Value]tensor.Order
	values  []*graph.Value // the values that have an order, as listed by the graph
	readers map[*graph.Value][]*graph.Node
}

// begin returns the start of a descent: channels-last images or the layouts of eager PyTorch. The descent may change
// the layouts of images, except constants, outputs, views and operands of views.
func begin(problem *layout.Problem, channelsLast bool) *orders {
	start := &orders{problem: problem, order: map[*graph.Value]tensor.Order{}, readers: map[*graph.Value][]*graph.Node{}}
	viewed := map[*graph.Value]bool{}
	for _, n := range problem.Graph.Nodes {
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg {
				start.readers[arg.Value] = append(start.readers[arg.Value], n)
				viewed[arg.Value] = viewed[arg.Value] || n.Out[0].Alias != nil
			}
		}
	}
	problem.Graph.Values(func(v *graph.Value) {
		if v.Const != nil || v.Alias != nil || viewed[v] || problem.Output(v) || !problem.Image(v) {
			return
		}
		// Orders lists the order of eager PyTorch first, then row-major and channels-last order.
		if list := problem.Orders(v); len(list) > 1 {
			start.order[v] = list[0]
			if channelsLast {
				start.order[v] = list[len(list)-1]
			}
			start.values = append(start.values, v)
		}
	})
	return start
}

// descend improves the orders of all values until none changes.
func (o *orders) descend() {
	for better := true; better; {
		better = false
		for _, v := range o.values {
			better = o.improve(v) || better
		}
	}
}

// improvement is the maximum ratio of the new cost to the old cost that counts as an improvement. It excludes rounding
// errors.
const improvement = 0.999

// improve gives a value the order for which the nodes that compute and read the value cost least. It reports whether
// the order has changed.
func (o *orders) improve(v *graph.Value) bool {
	nodes, inputs := o.readers[v], []*graph.Value{v} // for a graph input: its readers, and its copy to the order
	if v.Node != nil {
		nodes, inputs = append([]*graph.Node{v.Node}, nodes...), nil // the node that computes v, and the readers
	}
	previous := o.order[v]
	best, least := previous, o.cost(nodes, inputs)
	for _, order := range o.problem.Orders(v) {
		o.order[v] = order
		if cost := o.cost(nodes, inputs); cost < least*improvement {
			best, least = order, cost
		}
	}
	o.order[v] = best
	return best != previous
}

// cost returns the cost in nanoseconds of nodes, and of copies of graph inputs to their orders.
func (o *orders) cost(nodes []*graph.Node, inputs []*graph.Value) (ns float64) {
	for _, n := range nodes {
		ns += o.nodeCost(n)
	}
	for _, v := range inputs {
		ns += layout.Price(o.problem.Profile, copyWork(v.Meta, o.metaInOrder(v)))
	}
	return ns
}

// metaInOrder returns the meta of a value in its order.
func (o *orders) metaInOrder(v *graph.Value) tensor.Meta {
	order := o.order[v]
	if order == "" || order.Matches(v.Meta) {
		return v.Meta
	}
	return v.Meta.WithStrides(order.Strides(v.Meta.Shape))
}

// nodeCost returns the cost of a node with its cheapest implementation, including the copies of operands and results
// that this implementation needs.
func (o *orders) nodeCost(n *graph.Node) float64 {
	call := &graph.Call{Attrs: n.Attrs} // the call of the node on operands in their present orders
	for _, arg := range n.In {
		if arg.Kind == graph.TensorArg {
			meta := o.metaInOrder(arg.Value)
			arg.Value = &graph.Value{Name: arg.Value.Name, Meta: meta, Type: meta.Type(), Const: arg.Value.Const}
		}
		call.In = append(call.In, arg)
	}
	results, err := n.Op.Infer(call)
	if err != nil || len(results) == 0 || results[0].Alias != graph.NoAlias {
		return 0 // a view costs nothing; where no view is possible, the copy costs the same in every order
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	least := math.Inf(1)
	wanted := o.metaInOrder(n.Out[0])
	order, _ := tensor.OrderOf(wanted)
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		for _, walk := range impl.Walks(call, []tensor.Order{order}) {
			written := walk.ResultLayout(0, call.Out[0]) // copied to the wanted layout if it differs
			ns := layout.Price(o.problem.Profile, impl.Work(call, walk)) +
				layout.Price(o.problem.Profile, copyWork(written, wanted))
			for k, arg := range call.In {
				if arg.Kind == graph.TensorArg {
					ns += o.readCost(impl, call, walk, k, arg)
				}
			}
			least = min(least, ns)
		}
	}
	return least
}

// readCost returns the cost of reading arg, operand k, in its layout. If the implementation cannot read this
// layout, the cost includes a copy.
func (o *orders) readCost(impl *graph.Impl, call *graph.Call, walk graph.Walk, k int, arg graph.Arg) float64 {
	meta := arg.Meta()
	work, ok := impl.Read(call, walk, k, meta)
	if ok {
		return layout.Price(o.problem.Profile, work)
	}
	readableOrder := tensor.RowMajorOrder(meta.Rank())
	if walk.LoopOrder.Rank() == meta.Rank() {
		readableOrder = walk.LoopOrder
	}
	readable := meta.WithStrides(readableOrder.Strides(meta.Shape))
	work, _ = impl.Read(call, walk, k, readable)
	ns := layout.Price(o.problem.Profile, work)
	if arg.Value.Const != nil {
		return ns // a constant is copied once, at compile time
	}
	return ns + layout.Price(o.problem.Profile, copyWork(meta, readable))
}

// copyWork returns the work of a copy between two layouts. The work is zero if the layouts are equal.
func copyWork(from, to tensor.Meta) (work pricing.Work) {
	if from.SameLayout(to) {
		return work
	}
	work.Bytes[pricing.Tiled] = 2 * float64(to.Bytes())
	work.Footprint = work.Bytes[pricing.Tiled]
	work.StartedSteps++
	return work
}
