package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Planner chooses layouts and inserts copies: what a graph goes through before it is
// compiled (passes.Run).
type Planner func(*graph.Graph) (*graph.Graph, error)

// Runner runs any graph. One whose shapes are all known is compiled once. One with shapes
// that depend on data runs piecewise: what can be inferred is compiled and run, then the
// ops whose results decide shapes, then what has become known by them, until all is done.
//
// A Runner is safe for concurrent use. It keeps the programs of static graphs, such as
// the bodies of loops, by the layouts of their inputs.
type Runner struct {
	graph   *graph.Graph
	plan    Planner
	options Options
	static  *Program

	mu       sync.Mutex
	programs map[programKey]*Program
}

type programKey struct {
	graph *graph.Graph
	metas string
}

// NewRunner prepares a graph, which must be sorted and inferred.
func NewRunner(g *graph.Graph, plan Planner, o Options) (*Runner, error) {
	if g == nil || plan == nil {
		return nil, errors.New("a runner needs a graph and a planner: one of them is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	r := &Runner{graph: g, plan: plan, options: o, programs: map[programKey]*Program{}}
	if g.Dynamic() {
		return r, nil
	}
	p, err := r.compile(g)
	r.static = p
	return r, err
}

// Program returns the compiled program, nil for a graph that runs piecewise.
func (r *Runner) Program() *Program { return r.static }

func (r *Runner) compile(g *graph.Graph) (*Program, error) {
	planned, err := r.plan(g)
	if err != nil {
		return nil, err
	}
	return Compile(planned, r.options)
}

// Run runs the graph on inputs by name, as [Program.Run] does.
func (r *Runner) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if r.static != nil {
		return r.static.Run(ctx, in)
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if err := checkNames(r.graph.Inputs, in); err != nil {
		return nil, err
	}
	list := make([]*tensor.Tensor, len(r.graph.Inputs))
	for i, v := range r.graph.Inputs {
		t := in[v.Name]
		if err := checkInput(v, t); err != nil {
			return nil, err
		}
		if !t.SameAddresses(v.Meta) || t.Offset != v.Meta.Offset {
			t = laidOut(t, v.Meta)
		}
		list[i] = tensor.Must(t.View(v.Meta))
	}
	out, err := r.piecewise(ctx, r.graph, list)
	if err != nil {
		return nil, err
	}
	res := map[string]*tensor.Tensor{}
	for i, o := range r.graph.Outputs {
		res[o.Name] = out[i]
	}
	return res, nil
}

// caller is what ops with Eager see of a run.
type caller struct {
	r   *Runner
	ctx context.Context
}

// Run runs a subgraph on inputs in its order.
func (rt caller) Run(g *graph.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if rt.ctx.Err() != nil {
		return nil, context.Cause(rt.ctx)
	}
	metas := make([]tensor.Meta, len(in))
	var key strings.Builder
	for i, t := range in {
		metas[i] = t.Meta
		fmt.Fprint(&key, t.Meta, ";")
	}
	rt.r.mu.Lock()
	p := rt.r.programs[programKey{g, key.String()}]
	rt.r.mu.Unlock()
	if p == nil {
		s, err := g.WithInputs(metas)
		if err != nil {
			return nil, err
		}
		if s.Dynamic() {
			return rt.r.piecewise(rt.ctx, s, in)
		}
		if p, err = rt.r.compile(s); err != nil {
			return nil, err
		}
		rt.r.keep(programKey{g, key.String()}, p)
	}
	out := make([]*tensor.Tensor, len(p.outputs))
	return out, p.RunInto(rt.ctx, in, out)
}

// keptPrograms bounds the programs of subgraphs that a runner keeps.
const keptPrograms = 64

func (r *Runner) keep(k programKey, p *Program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.programs) >= keptPrograms {
		clear(r.programs)
	}
	r.programs[k] = p
}

// pieces is one piecewise run.
type pieces struct {
	caller
	g     *graph.Graph
	known map[*graph.Value]*tensor.Tensor
	done  map[*graph.Node]bool
}

// piecewise runs a graph whose shapes are not all known and returns its outputs in order.
func (r *Runner) piecewise(ctx context.Context, g *graph.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p := &pieces{caller{r, ctx}, g, map[*graph.Value]*tensor.Tensor{}, map[*graph.Node]bool{}}
	for i, v := range g.Inputs {
		p.known[v] = in[i]
	}
	for _, v := range g.Constants {
		p.known[v] = v.Const
	}
	live := needed(g)
	for len(p.done) < len(live) {
		before := len(p.done)
		if err := p.segment(live); err != nil {
			return nil, err
		}
		if err := p.eager(live); err != nil {
			return nil, err
		}
		if len(p.done) == before {
			return nil, fmt.Errorf("internal error: %d nodes of %q cannot be run", len(live)-before, g.Name)
		}
	}
	out := make([]*tensor.Tensor, len(g.Outputs))
	for i, o := range g.Outputs {
		t := p.known[o.Value]
		if o.Pin != tensor.NoFormat && !t.Is(o.Pin) {
			st, err := o.Pin.Strides(t.Shape)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			t = t.CopyTo(t.Meta.WithStrides(st))
		} else if o.Value.Const != nil {
			t = t.CopyTo(t.Meta) // the graph's own data is not handed out
		}
		out[i] = t
	}
	return out, nil
}

// needed returns the nodes that outputs depend on, in order.
func needed(g *graph.Graph) []*graph.Node {
	live := map[*graph.Value]bool{}
	for _, o := range g.Outputs {
		live[o.Value] = true
	}
	var nodes []*graph.Node
	for _, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return live[v] }) {
			continue
		}
		nodes = append(nodes, n)
		for _, a := range n.In {
			live[a.Value] = true
		}
		for _, v := range n.Refs() {
			live[v] = true
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// segment runs all nodes that can be inferred from what is known.
func (p *pieces) segment(live []*graph.Node) error {
	inside := map[*graph.Value]bool{}
	var nodes []*graph.Node
	for _, n := range live {
		if p.done[n] || n.Op.Eager != nil || !p.ready(n, inside) {
			continue
		}
		nodes = append(nodes, n)
		for _, v := range n.Out {
			inside[v] = true
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	for _, n := range nodes {
		p.done[n] = true
	}
	want := p.wanted(live, inside)
	s, err := p.g.Segment(nodes, p.known, want)
	if err != nil {
		return err
	}
	program, err := p.r.compile(s)
	if err != nil {
		return err
	}
	in := make([]*tensor.Tensor, len(s.Inputs))
	for i, v := range s.Inputs {
		in[i] = p.known[p.g.Value(v.Name)]
	}
	out := make([]*tensor.Tensor, len(want))
	if err := program.RunInto(p.ctx, in, out); err != nil {
		return err
	}
	for i, v := range want {
		p.known[v] = out[i]
	}
	return nil
}

// ready reports whether a node's operands are known or made inside the segment, and the
// values of its attributes known.
func (p *pieces) ready(n *graph.Node, inside map[*graph.Value]bool) bool {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && p.known[a.Value] == nil && !inside[a.Value] {
			return false
		}
	}
	return !slices.ContainsFunc(n.Refs(), func(v *graph.Value) bool { return p.known[v] == nil })
}

// wanted returns the values made inside a segment that are read outside it.
func (p *pieces) wanted(live []*graph.Node, inside map[*graph.Value]bool) []*graph.Value {
	var want []*graph.Value
	add := func(v *graph.Value) {
		if inside[v] {
			delete(inside, v)
			want = append(want, v)
		}
	}
	for _, n := range live {
		if p.done[n] {
			continue
		}
		for _, a := range n.In {
			add(a.Value)
		}
		for _, v := range n.Refs() {
			add(v)
		}
	}
	for _, o := range p.g.Outputs {
		add(o.Value)
	}
	return want
}

// eager runs the ops whose results decide shapes, as far as their operands are known.
func (p *pieces) eager(live []*graph.Node) error {
	for _, n := range live {
		if p.done[n] || n.Op.Eager == nil || !p.ready(n, nil) {
			continue
		}
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if err := p.call(n); err != nil {
			return p.g.Fail(n, err)
		}
		p.done[n] = true
	}
	return nil
}

// call runs one such op.
func (p *pieces) call(n *graph.Node) error {
	s, err := p.g.Segment([]*graph.Node{n}, p.known, nil)
	if err != nil {
		return err
	}
	call := s.Nodes[0].Call()
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			in[i] = p.known[a.Value]
		case graph.NumberArg:
			in[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	out, err := n.Op.Eager(p.caller, call, in)
	if err != nil {
		return err
	}
	if len(out) != len(n.Out) {
		return fmt.Errorf("made %d values, \"outputs\" names %d", len(out), len(n.Out))
	}
	for i, v := range n.Out {
		p.known[v] = out[i]
	}
	return nil
}
