// Package layout chooses how values are laid out and by which implementations nodes are computed: the problem,
// the assignments that solve it, and the strategies that find one.
//
// A strategy sees the whole [Problem] and returns an [Assignment]. The layout pass of package passes
// applies it, and decides nothing. [Draft] helps to make one: it walks the nodes in order and knows how
// everything is laid out under the choices so far.
package layout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Strategy finds an assignment.
type Strategy interface {
	// Name is what users call the strategy.
	Name() string
	// Choose solves the problem, which it must not change.
	Choose(*Problem) (*Assignment, error)
}

// Profile is what a machine was measured to do; it prices work. A Level is a point of what its bytes take.
type (
	Profile = machine.Profile
	Level   = machine.Level
)

// DefaultProfile returns the prices that are used where nobody measured.
func DefaultProfile() *Profile { return machine.DefaultProfile() }

// Price is what work takes one worker, in nanoseconds. A nil profile stands for [DefaultProfile].
func Price(p *Profile, w graph.Work) float64 {
	if p == nil {
		p = machine.UsualProfile()
	}
	return p.NS(w)
}

// PS is what work takes one worker, in picoseconds, rounded; 0 at least. A nil profile stands for [DefaultProfile].
//
// The price of a node is that of its work, as its implementation has it for its walk, and that of reading each
// operand as it lies, added up.
func PS(p *Profile, w graph.Work) int64 {
	if p == nil {
		p = machine.UsualProfile()
	}
	return p.PS(w)
}

// For returns a profile for the nodes of a graph: constants lie in the caches as far as they all do together. A nil
// profile stands for [DefaultProfile]; nil is a graph without constants.
func For(p *Profile, g *graph.Graph) *Profile {
	if p == nil {
		p = machine.UsualProfile()
	}
	kept := 0.0
	if g != nil {
		for _, v := range g.Constants {
			kept += float64(v.Meta.Bytes())
		}
	}
	return p.Keeping(kept)
}

// Problem is a graph whose values are laid out as inference gives them, and what must hold of every other way
// to lay them out: pins, which are the graph's own; values that are fixed; and outputs, which are
// handed over as they are in the graph as written unless they are pinned.
type Problem struct {
	// Graph is sorted and typed. It must not be changed.
	Graph *graph.Graph
	// Profile prices the work of implementations, as [For] gives it for the graph.
	Profile *Profile
	// KeepGoing asks for an assignment of what can be had: see [Assignment.Failed].
	KeepGoing bool
	// Exact leaves implementations out that compute by another formula than an op's definition: [graph.Impl.Inexact].
	Exact bool
	// SolveLimit is how long what elimination does not settle is searched for: 0 stands for [SolveLimit]; negative: not at
	// all, so that no plan depends on the time. What is not settled has a gap to its bound.
	SolveLimit time.Duration

	fixed   map[*graph.Value]bool
	storage map[*graph.Value]bool // of those, what an op reads the storage of
	images  map[*graph.Value]bool
	outputs map[*graph.Value]bool
	readers map[*graph.Value]int
	comes   map[*graph.Value]tensor.Order // inputs that come otherwise than the graph says: see [Advise]
}

// NewProblem states the problem of a graph; nil counts as empty. A nil profile stands for
// [DefaultProfile].
func NewProblem(g *graph.Graph, p *Profile) *Problem {
	if g == nil {
		g = graph.New("", nil)
	}
	pr := &Problem{Graph: g, Profile: For(p, g), fixed: map[*graph.Value]bool{}, storage: map[*graph.Value]bool{},
		outputs: map[*graph.Value]bool{},
		readers: map[*graph.Value]int{}}
	fix := func(v *graph.Value) {
		for ; v != nil; v = v.Alias {
			pr.fixed[v] = true
		}
	}
	for _, o := range g.Outputs {
		if o.Demand().Lays() {
			continue
		}
		pr.outputs[o.Value] = true
		if o.Value.Alias != nil { // a view has the layout of its root
			fix(o.Value)
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			if n.Op.Storage {
				fix(a.Value)
				for v := a.Value; v != nil; v = v.Alias {
					pr.storage[v] = true
				}
			}
			if pr.outputs[a.Value] {
				pr.readers[a.Value]++
			}
		}
	}
	return pr
}

// Context returns the context of the search for an assignment: that of the graph ([graph.Graph.SetContext]). Strategies
// and solvers that take long should check it. Once it has ended, the error of [Strategy.Choose] is ignored: planning
// ends with the cause of the context.
func (p *Problem) Context() context.Context {
	if p == nil {
		return context.Background()
	}
	return p.Graph.Context()
}

// options are those of a solver of the problem.
func (p *Problem) options() wcsp.Options {
	return wcsp.Options{Context: p.Context(), TimeLimit: p.Search()}
}

// Offers reports whether an implementation may compute a node: not one that is inexact where plans are to be exact, nor
// another one than that to which the node is pinned.
func (p *Problem) Offers(n *graph.Node, m *graph.Impl) bool {
	if n == nil || m == nil {
		return false
	}
	return (n.Pin.Impl == "" || m.Name == n.Pin.Impl) && !(p.Exact && m.Inexact)
}

// Fixed reports whether a value must be laid out as in the graph as written: an op reads its storage rather
// than its elements, or an output shows it through a view.
func (p *Problem) Fixed(v *graph.Value) bool { return p.fixed[v] }

// bares reports whether a node's operand must be laid out as in the graph as written: an op reads its storage or that
// of a view of it, or an output is a view of it.
func (p *Problem) bares(n *graph.Node) bool {
	return n.Op.Storage || slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil && p.fixed[v] })
}

// Output reports whether a value is handed over laid out as in the graph as written.
func (p *Problem) Output(v *graph.Value) bool { return p.outputs[v] }

// Orders returns the orders that a value may be given: that in which it is laid out, row-major, what its pin
// demands, and for images channels-last.
func (p *Problem) Orders(v *graph.Value) []tensor.Order {
	var list []tensor.Order
	add := func(o tensor.Order) {
		if o != "" && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	if v == nil {
		return nil
	}
	if pin := v.Demand(); pin.Lays() {
		o, err := pin.For(v.Meta.Rank())
		if err == nil {
			add(o)
		}
		return list
	}
	if o, dense := tensor.OrderOf(v.Meta); dense {
		add(o)
	}
	if p.fixed[v] {
		return list
	}
	add(tensor.RowMajorOrder(v.Meta.Rank()))
	if p.Image(v) {
		add(lastOrder(v.Meta.Rank()))
	}
	return list
}

// lastOrder is channels-last for a rank; empty where there is none.
func lastOrder(rank int) tensor.Order {
	for _, f := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast3d} {
		if o, err := f.Order(rank); err == nil {
			return o
		}
	}
	return ""
}

// Image reports whether a value is an image or a volume, with its channels in dimension 1: what
// convolutions, pools, batch norms and the like read or make, and what follows them element by
// element, by concatenation and by padding.
func (p *Problem) Image(v *graph.Value) bool {
	if p.images == nil {
		p.findImages()
	}
	return p.images[v]
}

func (p *Problem) findImages() {
	p.images = map[*graph.Value]bool{}
	mark := func(v *graph.Value) {
		if r := v.Meta.Rank(); r == 4 || r == 5 {
			p.images[v] = true
		}
	}
	for _, n := range p.Graph.Nodes {
		if len(n.Out) == 0 || len(n.In) == 0 {
			continue
		}
		is := n.Op.Images == graph.ImageOp
		if n.Op.Images == graph.ImagePasser || n.Op.Kind == graph.Follows {
			is = slices.ContainsFunc(n.In, func(a graph.Arg) bool {
				return a.Kind == graph.TensorArg && p.images[a.Value] && a.Value.Meta.Rank() == n.Out[0].Meta.Rank()
			})
		}
		if !is {
			continue
		}
		if a := n.In[0]; n.Op.Images == graph.ImageOp && a.Kind == graph.TensorArg {
			mark(a.Value)
		}
		for _, v := range n.Out {
			if v.Meta.Rank() == n.Out[0].Meta.Rank() {
				mark(v)
			}
		}
	}
}

// Copy is a copy of a value in another layout, one for all who read it; or something else that stands for the value.
type Copy struct {
	Value *graph.Value
	Order tensor.Order
	// Strides are the very strides that the copy has, where dimensions of size 1 matter: those of the
	// graph as written. Nil: those of the order.
	Strides []int
	// Pinned says that the copy is what the pin demands, and stays whoever could do without it. Of a
	// node's value it takes the name over.
	Pinned bool
	Why    string
	// From is what is copied; nil: the value itself.
	From *Copy
	// View says that nothing is copied: what stands for the value is what its node makes of From, which stands for the
	// operand that the value is a view of. Where that cannot be viewed the node copies it, into Order.
	View bool
	// Bare says that Value itself is meant.
	Bare bool
}

// Lay returns the layout of the copy of a value that has layout m.
func (c *Copy) Lay(m tensor.Meta) tensor.Meta {
	m.Offset = 0
	if c.Strides != nil {
		return m.WithStrides(c.Strides)
	}
	return m.WithStrides(c.Order.Strides(m.Shape))
}

// Choice is what was decided of a node.
type Choice struct {
	Impl *graph.Impl // nil for a view
	Walk graph.Walk
	// In holds the copy that stands for each operand; nil for one that is read as it is. So are
	// operands that a short list leaves out.
	In []*Copy
	// Written says that results that are laid out in the order of the graph as written get its very strides.
	Written bool
	// After are copies of the results for all that read them.
	After []*Copy
	// Drop says that nobody reads what the node makes, which is left out.
	Drop bool
}

// Assignment is a solution: a choice for each node, by its place in the graph.
type Assignment struct {
	Nodes []Choice
	// Inputs are copies of inputs and constants for all that read them.
	Inputs []*Copy
	// Outputs holds, by the graph's outputs, the copy that is handed over; nil for the value itself.
	Outputs []*Copy
	// Failed are nodes and outputs for which nothing was found, each for a reason of its own, and
	// Lost the values that there will not be.
	Failed graph.Errors
	Lost   map[*graph.Value]bool
	// LostOutputs holds, by the graph's outputs, those that there will not be.
	LostOutputs []bool
	// Final says that the copies in the graph have been weighed, too: none is to be dropped that is not dropped here.
	Final bool
	// Model and Solution are what the assignment follows from, of a strategy that states the problem exactly: nil of
	// others.
	Model    *Model
	Solution *wcsp.Solution
	// Within are the results that are to be written where a node that joins them with others has them, and whose costs
	// are known as those of that.
	Within []*graph.Value
}

// String names the value and its layout.
func (c *Copy) String() string { return fmt.Sprintf("%q in order %v", c.Value.Name, c.Order) }
