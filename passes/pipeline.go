package passes

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
)

// Pass is one rewrite of the graph. Needs and Makes are the properties that must hold
// before and that hold after it; what holds is verified when checking is on.
type Pass struct {
	Name, Doc    string
	Needs, Makes graph.Props
	Run          func(p *Plan) error
}

// pipeline is the way from the graph as written to the graph as run.
var pipeline = []Pass{
	{"infer", "gives every value eager PyTorch's dtype, shape and layout", graph.Sorted, graph.Typed, inferTypes},
	{"cancel", "drops permutations that undo one another", graph.Typed, 0, cancelPermutes},
	{"layout", "chooses layouts by the strategy and inserts the copies they need", graph.Typed, graph.LaidOut, chooseLayouts},
	{"elide", "drops copies that do nothing, copies of copies, and copies that every consumer can do without", graph.LaidOut, 0, elideCopies},
	{"dead", "drops nodes that no output needs", graph.LaidOut, 0, dropDead},
}

// Passes returns the pipeline, for display.
func Passes() []Pass { return slices.Clone(pipeline) }

// Options choose what Run does.
type Options struct {
	// Strategy chooses layouts and implementations; nil means [layout.Propagate]. [layout.Named] finds
	// those that are always there.
	Strategy layout.Strategy
	// Profile prices work; nil means [layout.DefaultProfile].
	Profile *layout.Profile
	// Check verifies the graph after every pass, and evaluates small graphs by reference
	// before and after it, on data that is made up. An error names the pass; what could not
	// be evaluated, and why, is in [Plan.Unchecked].
	Check bool
	// Dump, if set, receives the graph after every pass as text.
	Dump io.Writer
	// KeepGoing drops nodes that are refused, and what depends on them, instead of failing
	// on the first: see Plan.Failed.
	KeepGoing bool
}

// Plan is the outcome: the graph as it will run, and what was done to it.
type Plan struct {
	Graph    *graph.Graph
	Strategy string
	Copies   []Copy    // inserted copies that are left
	Elided   []Elision // nodes that were dropped
	CostNS   float64   // sum of Cost over all nodes
	// Failed lists the nodes that were refused, each for a reason of its own, where the
	// passes were to keep going.
	Failed graph.Errors
	// Unchecked is what Options.Check could not compare; nil where it compared everything,
	// or was not asked.
	Unchecked []Unchecked

	strategy  layout.Strategy
	profile   *layout.Profile
	keepGoing bool
}

// Copy is a copy that a pass inserted: of which value, between which strides (in
// elements), the bytes of the value, what it costs by [Plan.Cost], and why.
type Copy struct {
	Node     *graph.Node
	Value    string
	From, To []int
	Bytes    int
	CostNS   float64
	Why      string
}

// Elision is a node that was dropped, and why.
type Elision struct{ Node, Why string }

// Strategies returns the names of the layout strategies, the default first.
func Strategies() []string {
	var names []string
	for _, s := range layout.All() {
		names = append(names, s.Name())
	}
	return names
}

// Run plans a graph, which must be sorted and is not changed.
func Run(g *graph.Graph, o Options) (*Plan, error) {
	if g == nil {
		return nil, errors.New("there is no graph to plan: it is nil")
	}
	if o.Strategy == nil {
		o.Strategy = layout.Propagate
	}
	if o.Profile == nil {
		o.Profile = layout.DefaultProfile()
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if g.Dynamic() {
		return nil, errors.New("shapes depend on data: the graph can be run, piece by piece, but not planned as a whole")
	}
	p := &Plan{Graph: g.Clone(), Strategy: o.Strategy.Name(), strategy: o.Strategy, profile: o.Profile, keepGoing: o.KeepGoing}
	props := graph.Sorted
	var check *checker
	if o.Check {
		if err := graph.Verify(p.Graph, props); err != nil {
			return nil, err
		}
		check = newChecker(g)
		check.some = o.KeepGoing
		p.Unchecked = check.unchecked
	}
	for _, pass := range pipeline {
		if missing := pass.Needs &^ props; missing != 0 {
			panic(fmt.Sprintf("passes: %s needs %v", pass.Name, missing))
		}
		if err := pass.Run(p); err != nil {
			return nil, err
		}
		props |= pass.Makes
		if o.Dump != nil {
			fmt.Fprintf(o.Dump, "after %s: %s\n", pass.Name, pass.Doc)
			dump(o.Dump, p.Graph)
		}
		if o.Check {
			if err := check.after(p.Graph, props); err != nil {
				return nil, fmt.Errorf("after pass %s: %w", pass.Name, err)
			}
		}
	}
	p.summarise()
	return p, nil
}

func inferTypes(p *Plan) error {
	if !p.keepGoing {
		return p.Graph.Infer()
	}
	if refused := p.Graph.InferAll(); len(refused) > 0 {
		p.Failed = p.Graph.RootErrors(refused)
		p.Graph = p.Graph.Drop(refused)
	}
	return nil
}

// summarise lists the inserted copies that are left and adds the costs up.
func (p *Plan) summarise() {
	for _, n := range p.Graph.Nodes {
		cost := p.Cost(n)
		p.CostNS += cost
		if n.Why == "" {
			continue
		}
		from, to := n.In[0].Value.Meta, n.Out[0].Meta
		p.Copies = append(p.Copies, Copy{Node: n, Value: n.In[0].Value.Name, From: from.Strides, To: to.Strides,
			Bytes: to.Bytes(), CostNS: cost, Why: n.Why})
	}
}
