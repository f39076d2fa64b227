// Package layout chooses the layouts of values and the implementations of nodes.
//
// A [Problem] is a typed graph with the prices of a machine ([pricing.Profile]) and constraints: pins, and values whose
// layout is fixed. A [Strategy] solves the problem. Its result is an [Assignment]: an implementation and a walk (an order of
// loops) for each node, and the copies that nodes and outputs read. The layout pass of package passes applies the
// assignment and makes no decisions.
//
// For example, a convolution of (N,C,H,W) images is fastest if it reads and writes channels last, (N,H,W,C). A strategy
// can choose a slower implementation without copies. It can copy the input before the convolution and the result after
// it. Or the nodes after the convolution work channels last, too, and only the last result is copied back.
//
// There are three ways to write a strategy:
//
//   - [Solve] makes an assignment from a preferred order for each value. It chooses labels of a [Model] in the order of
//     the nodes.
//   - [NewModel] states the problem exactly, as a weighted constraint problem (package wcsp) whose costs depend on one
//     or two variables. [Model.Assignment] converts labels of its variables to an assignment.
//   - [Solved] combines the model with any solver of such problems.
//
// [Optimal], the default, solves the model exactly and proves the result. Questions about plans are loops over
// [Model.Solve], which solves a changed problem: [Model.Best] lists the k cheapest plans, [Model.Sensitive] examines
// the effect of the price of copies, [Model.CheapestWithin] looks for plans within a limit on memory, and [Advise]
// finds changes to inputs and outputs that would reduce the cost.
package layout

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Strategy chooses layouts and implementations.
type Strategy interface {
	// Name returns the name of the strategy for users.
	Name() string
	// Choose solves the problem, which it must not modify.
	Choose(*Problem) (*Assignment, error)
}

// Price returns the time that one worker takes for the work, in nanoseconds. A nil profile means
// [pricing.DefaultProfile].
func Price(profile *pricing.Profile, work pricing.Work) float64 {
	if profile == nil {
		profile = pricing.SharedDefaultProfile()
	}
	return profile.PriceNS(work)
}

// PricePS is [Price] in whole picoseconds, at least 0.
func PricePS(profile *pricing.Profile, work pricing.Work) int64 {
	if profile == nil {
		profile = pricing.SharedDefaultProfile()
	}
	return profile.PricePS(work)
}

// LabelOf returns the label of a node of a plan, for a list of prices, without times. The node of an inserted copy has
// the name of the copied value. LabelOf returns false for a node that no price of the host concerns.
func LabelOf(n *graph.Node) (label pricing.LabelPrice, ok bool) {
	if n == nil || n.Impl == nil || n.Impl.OnDevice() {
		return label, false
	}
	call := n.Call()
	label = pricing.LabelPrice{Node: n.Name, Op: n.Op.Name, Implementation: n.Impl.Name, Order: priceOrder(call.Out)}
	if IsInsertedCopy(n) {
		label.Node = n.In[0].Value.Name
	}
	for k, arg := range n.In {
		operand := []int{}
		if arg.Kind == graph.TensorArg {
			operand = priceOrder([]tensor.Meta{call.Meta(k)})
		}
		label.Operands = append(label.Operands, operand)
	}
	return label, true
}

// IsInsertedCopy reports whether n is a copy that a pass inserted. Passes set Why of the nodes that they insert. Views,
// packed constants and uploads are not copies.
func IsInsertedCopy(n *graph.Node) bool {
	if n == nil || n.Why == "" || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg {
		return false
	}
	return !n.IsView() && n.Packing() == nil && !n.UploadsConstant()
}

// priceOrder returns the order of the first of the given results for a [pricing.LabelPrice]. Dimensions of size 1 come
// first. A value within the result of a concatenation has the order that it has in its own buffer.
func priceOrder(results []tensor.Meta) []int {
	if len(results) == 0 {
		return []int{}
	}
	order, _ := tensor.OrderOf(results[0])
	return order.Canonical(results[0].Shape).Dims()
}

// ratio returns the price of a label divided by its prediction: see [pricing.Profile.Ratio]. Devices and nodes without
// implementations have the predicted prices.
func (p *Problem) ratio(node string, op *graph.Op, impl *graph.Impl, results []tensor.Meta) pricing.Ratio {
	switch {
	case impl == nil || impl.OnDevice() || impl.ResultPlace != tensor.Host:
		return pricing.Ratio{Price: 1, Low: 1, High: 1}
	case p.Profile == nil || len(p.Profile.Prices) == 0:
		return p.Profile.Ratio(node, "", "", nil)
	}
	return p.Profile.Ratio(node, op.Name, impl.Name, priceOrder(results))
}

// scaled returns a cost in picoseconds times a factor, at most the cost of what is impossible.
func scaled(cost int64, factor float64) int64 {
	if factor == 1 || cost >= wcsp.Forbidden {
		return cost
	}
	product := math.Round(float64(cost) * factor)
	if product >= float64(wcsp.Forbidden) {
		return wcsp.Forbidden
	}
	return int64(product)
}

// ProfileFor returns a profile adjusted to a graph: reading a constant is cheaper if a larger part of the graph's
// constants fits into the caches. A nil profile means [pricing.DefaultProfile]. A nil graph has no constants.
func ProfileFor(profile *pricing.Profile, g *graph.Graph) *pricing.Profile {
	if profile == nil {
		profile = pricing.SharedDefaultProfile()
	}
	constantBytes := 0.0
	if g != nil {
		for _, v := range g.Constants {
			constantBytes += float64(v.Meta.Bytes())
		}
	}
	return profile.WithConstants(constantBytes)
}

// Options are choices of the user of a plan, which its problem states.
type Options struct {
	// Exact excludes implementations that are [graph.Impl.Inexact].
	Exact bool
	// SolveLimit is the maximum time of the search for the variables that package wcsp cannot eliminate exactly. 0
	// means the constant SolveLimit. A negative number means no search, so that plans do not depend on time. If the
	// search does not finish, a gap remains between the cost and the lower bound.
	SolveLimit time.Duration
	// Device may compute nodes whose implementations it has. Strategies that solve the model exactly choose the places
	// of values; all others leave values on the host. Nil means no device.
	Device graph.Device
	// Slack allows strategy Optimal to choose a more expensive plan with fewer copies. It is the maximum additional
	// cost as a share of the least cost: 0.005 for 0.5%. With 0, only plans of least cost are considered. It is at most
	// MaxSlack.
	Slack float64
}

// Problem is a graph with inferred layouts, and the constraints on changing these layouts. The inferred layouts, as in
// eager PyTorch, are called the layouts of the graph as written. The constraints are the pins of the graph (layouts or
// implementations that the user demands), fixed values, and outputs. Outputs keep the layouts of the graph as written
// unless they are pinned.
type Problem struct {
	// Graph is sorted and typed. It must not be modified.
	Graph *graph.Graph
	// Profile prices the work of implementations; it comes from [ProfileFor].
	Profile *pricing.Profile
	Options

	fixed         map[*graph.Value]bool // see MustKeepLayout
	readAsStorage map[*graph.Value]bool // values that are fixed because an op depends on their storage
	images        map[*graph.Value]bool // see Image; nil until it is needed
	outputs       map[*graph.Value]bool // see Output
	readers       map[*graph.Value]int  // by value in outputs: number of operands of nodes that read the value
}

// NewProblem returns the problem of a graph; nil means an empty graph. A nil profile means [pricing.DefaultProfile].
func NewProblem(g *graph.Graph, profile *pricing.Profile) *Problem {
	if g == nil {
		g = graph.New("", nil)
	}
	problem := &Problem{Graph: g, Profile: ProfileFor(profile, g), fixed: map[*graph.Value]bool{},
		readAsStorage: map[*graph.Value]bool{},
		outputs:       map[*graph.Value]bool{},
		readers:       map[*graph.Value]int{}}
	problem.findOutputs()
	problem.findReads()
	return problem
}

// findOutputs sets outputs, and fixes the outputs that are views.
func (p *Problem) findOutputs() {
	for _, output := range p.Graph.Outputs {
		if output.WholeBase {
			markWithRoots(p.fixed, output.Value)
			markWithRoots(p.readAsStorage, output.Value)
		}
		if output.EffectivePin().SetsLayout() { // the pin determines the layout
			continue
		}
		p.outputs[output.Value] = true
		if output.Value.Alias != nil { // a view has the layout of its root
			markWithRoots(p.fixed, output.Value)
		}
	}
}

// findReads counts the readers of outputs, and fixes the values whose storage an op reads.
func (p *Problem) findReads() {
	for _, n := range p.Graph.Nodes {
		for i, arg := range n.In {
			if arg.Kind != graph.TensorArg {
				continue
			}
			if n.Op.ReadsStorage || n.Op.Stores && i == 0 {
				markWithRoots(p.fixed, arg.Value)
				markWithRoots(p.readAsStorage, arg.Value)
			}
			if p.outputs[arg.Value] {
				p.readers[arg.Value]++
			}
		}
	}
}

// markWithRoots marks a value and all values that it is a view of, directly or through other views.
func markWithRoots(marked map[*graph.Value]bool, v *graph.Value) {
	for ; v != nil; v = v.Alias {
		marked[v] = true
	}
}

// Context returns the context of the graph ([graph.Graph.SetContext]). Slow strategies and solvers should check it.
// Once the context has ended, planning ignores the result of [Strategy.Choose] and returns the cause of the context.
func (p *Problem) Context() context.Context {
	if p == nil {
		return context.Background()
	}
	return p.Graph.Context()
}

// options returns the options for a solver of the problem.
func (p *Problem) options() wcsp.Options {
	return wcsp.Options{Context: p.Context(), TimeLimit: p.SearchTimeLimit()}
}

// Permits reports whether an implementation may compute node n. The pin of the node and [Problem.Exact] may exclude it.
func (p *Problem) Permits(n *graph.Node, impl *graph.Impl) bool {
	if n == nil || impl == nil || n.Pin.Device != "" && n.Pin.Device != p.deviceName(impl.ResultPlace) {
		return false
	}
	return (n.Pin.Impl == "" || impl.Name == n.Pin.Impl) && !(p.Exact && impl.Inexact)
}

// MustKeepLayout reports whether a value must keep the layout of the graph as written. The reason is that an op reads
// its storage or that an output is a view of it.
func (p *Problem) MustKeepLayout(v *graph.Value) bool { return p.fixed[v] }

// needsLayoutAsWritten reports whether the operand of a view node must have the layout of the graph as written. This is
// true if an op reads the storage of the operand or of a view of the operand, or if an output is a view of the operand.
func (p *Problem) needsLayoutAsWritten(n *graph.Node) bool {
	isFixedView := func(v *graph.Value) bool { return v.Alias != nil && p.fixed[v] }
	return n.Op.ReadsStorage || slices.ContainsFunc(n.Out, isFixedView)
}

// Output reports whether a value is an output that keeps the layout of the graph as written.
func (p *Problem) Output(v *graph.Value) bool { return p.outputs[v] }

// Orders returns the dimension orders that a value may have. A pinned value has only the order of its pin. Any other
// value may have its inferred order, row-major order and, if the value is an image, channels-last order.
func (p *Problem) Orders(v *graph.Value) []tensor.Order {
	if v == nil {
		return nil
	}
	var list []tensor.Order
	add := func(order tensor.Order) {
		if order != "" && !slices.Contains(list, order) {
			list = append(list, order)
		}
	}
	if pin := v.EffectivePin(); pin.SetsLayout() {
		order, err := pin.OrderFor(v.Meta.Rank())
		if err == nil {
			add(order)
		}
		return list
	}
	if order, dense := tensor.OrderOf(v.Meta); dense {
		add(order)
	}
	if p.fixed[v] {
		return list
	}
	add(tensor.RowMajorOrder(v.Meta.Rank()))
	if p.Image(v) {
		add(channelsLastOrder(v.Meta.Rank()))
	}
	return list
}

// channelsLastOrder returns channels-last for a rank, or "".
func channelsLastOrder(rank int) tensor.Order {
	for _, format := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast3d} {
		if order, err := format.Order(rank); err == nil {
			return order
		}
	}
	return ""
}

// Image reports whether a value is an image or volume with channels in dimension 1. Such values are the operands and
// results of convolutions, pools, batch norms and similar ops. Pointwise ops, concatenation and padding of images give
// images.
func (p *Problem) Image(v *graph.Value) bool {
	if p.images == nil {
		p.findImages()
	}
	return p.images[v]
}

// findImages sets images.
func (p *Problem) findImages() {
	p.images = map[*graph.Value]bool{}
	mark := func(v *graph.Value) {
		if rank := v.Meta.Rank(); rank == 4 || rank == 5 {
			p.images[v] = true
		}
	}
	for _, n := range p.Graph.Nodes { // in topological order, so that operands are marked before their readers
		if len(n.Out) == 0 || len(n.In) == 0 || !p.computesImage(n) {
			continue
		}
		if arg := n.In[0]; n.Op.ImageRole == graph.ImageOp && arg.Kind == graph.TensorArg {
			mark(arg.Value)
		}
		for _, v := range n.Out {
			if v.Meta.Rank() == n.Out[0].Meta.Rank() {
				mark(v)
			}
		}
	}
}

// computesImage reports whether the first result of a node is an image, if it has rank 4 or 5. The images among the
// operands are known.
func (p *Problem) computesImage(n *graph.Node) bool {
	if n.Op.ImageRole == graph.ImagePreserving || n.Op.Kind == graph.FollowsOperands {
		return slices.ContainsFunc(n.In, func(arg graph.Arg) bool {
			return arg.Kind == graph.TensorArg && p.images[arg.Value] && arg.Value.Meta.Rank() == n.Out[0].Meta.Rank()
		})
	}
	return n.Op.ImageRole == graph.ImageOp
}

// ReaderNeeds is the reason shown for a copy whose reader does not accept the original layout.
const ReaderNeeds = "its reader needs this layout"

// Copy describes a replacement that one or more readers read instead of Value. If View is set, the replacement is a
// second view: the view node of Value is repeated on a copy of its operand. If Original is set, the replacement is
// Value itself. Otherwise the replacement is a copy in another layout.
type Copy struct {
	Value *graph.Value
	Order tensor.Order
	// Place is the place of the copy. If its source is in another place, the copy is a transfer, with the layout of the
	// source.
	Place tensor.Place
	// Strides, if not nil, are the exact strides of the copy: the strides of the value in the graph as written. They
	// matter for outputs with dimensions of size 1. If Strides is nil, Order determines the strides.
	Strides []int
	// Pinned marks the copy that a pin demands. It is never elided. If a node computes the value, the copy gets the
	// name of the value.
	Pinned bool
	Why    string // the reason, for users
	// From is the source of the copy. A nil From means Value itself.
	From *Copy
	// View means that the copy is the result of a second node with the op of Value's node, a view. The operand of the
	// second node is From. If the op cannot make a view of From, it copies From to Order.
	View bool
	// Original means that the copy is Value itself.
	Original bool
}

// Lay returns the layout of the copy. meta is the layout of the copied value.
func (c *Copy) Lay(meta tensor.Meta) tensor.Meta {
	meta.Offset = 0
	if c.Strides != nil {
		return meta.WithStrides(c.Strides)
	}
	return meta.WithStrides(c.Order.Strides(meta.Shape))
}

// Choice is the decision for one node.
type Choice struct {
	Impl *graph.Impl // nil for a view
	Walk graph.Walk
	// In has, by operand, the copy to read. A nil or missing entry means the value itself.
	In []*Copy
	// ResultCopies lists copies of the results for all readers.
	ResultCopies []*Copy
	// Removed means that the node is unused and is removed.
	Removed bool
}

// Assignment is a solution of a [Problem]: a choice for each node, by its index in the graph.
type Assignment struct {
	Nodes []Choice
	// Inputs lists copies of inputs and constants for all readers.
	Inputs []*Copy
	// Outputs holds, by index of the graph's outputs, the copy to return. A nil entry means the value itself.
	Outputs []*Copy
	// Model and Solution are set by strategies that solve the problem exactly.
	Model    *Model
	Solution *wcsp.Solution
	// Preference is set by strategy Optimal.
	Preference *Preference
	// Placed lists the values that are written directly into the result of a concatenation, so that they need no copy.
	Placed []*graph.Value
}

// String names the value and its layout.
func (c *Copy) String() string { return fmt.Sprintf("%q in order %v", c.Value.Name, c.Order) }
