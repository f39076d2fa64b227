package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// pieces is one piecewise run.
type pieces struct {
	caller
	g     *graph.Graph
	known map[*graph.Value]*tensor.Tensor
	done  map[*graph.Node]bool
	keep  bool // go on past nodes that fail

	stepOf map[*graph.Node]int // where the steps of the run are traced

	failed graph.Errors
	lost   map[*graph.Value]bool // values that are not made because something failed
}

// piecewise runs a graph whose shapes are not all known and returns its outputs in order.
// Where it is to keep going, the error may be an [*Incomplete] beside outputs of which some
// are nil.
func (r *Runner) piecewise(ctx context.Context, parent *Run, g *graph.Graph, in []*tensor.Tensor,
	keep bool) (_ []*tensor.Tensor, err error) {
	p := &pieces{caller: caller{r: r, ctx: ctx}, g: g, known: map[*graph.Value]*tensor.Tensor{},
		done: map[*graph.Node]bool{}, keep: keep, lost: map[*graph.Value]bool{}}
	for i, v := range g.Inputs {
		p.known[v] = in[i]
	}
	for _, v := range g.Constants {
		p.known[v] = v.Const
	}
	live := needed(g)
	if r.options.Tracer != nil {
		p.beginRun(parent, live)
		defer func() { r.options.Tracer.EndRun(p.run, err) }()
	}
	for len(p.done) < len(live) {
		before := len(p.done)
		if err := p.segment(live); err != nil {
			return nil, err
		}
		p.drop(live)
		if err := p.eager(live); err != nil {
			return nil, err
		}
		p.drop(live)
		if len(p.done) == before {
			return nil, fmt.Errorf("internal error: %d nodes of %q cannot be run", len(live)-before, g.Name)
		}
	}
	return p.outputs()
}

// outputs lays the outputs out as they are pinned.
func (p *pieces) outputs() (_ []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	made := map[string]bool{}
	out := make([]*tensor.Tensor, len(p.g.Outputs))
	for i, o := range p.g.Outputs {
		t := p.known[o.Value]
		if t == nil {
			continue // it is lost
		}
		if !o.Pin.Holds(t.Meta) {
			m, err := o.Pin.Lay(t.Meta)
			if err != nil && p.keep {
				p.failed = append(p.failed, p.g.FailOutput(o, err))
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			t = t.CopyTo(m)
		} else if o.Value.Const != nil {
			t = t.CopyTo(t.Meta) // the graph's own data is not handed out
		}
		out[i], made[o.Name] = t, true
	}
	return out, Without(p.g, p.failed, func(name string) bool { return made[name] })
}

// lose gives up what a node makes.
func (p *pieces) lose(n *graph.Node) {
	p.done[n] = true
	for _, v := range n.Out {
		p.lost[v] = true
	}
}

// drop gives up the nodes that depend on what is lost.
func (p *pieces) drop(live []*graph.Node) {
	if len(p.lost) == 0 {
		return
	}
	for _, n := range live {
		if p.done[n] {
			continue
		}
		if slices.ContainsFunc(n.In, func(a graph.Arg) bool { return p.lost[a.Value] }) ||
			slices.ContainsFunc(n.Refs(), func(v *graph.Value) bool { return p.lost[v] }) {
			p.lose(n)
		}
	}
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
	err := p.runSegment(nodes, want)
	if err == nil || !p.keep || p.ctx.Err() != nil {
		return err
	}
	var part *Incomplete
	if errors.As(err, &part) {
		p.failed = append(p.failed, part.Failed...)
	} else {
		// What failed is none of the nodes: all that the segment was to make is lost.
		p.failed = append(p.failed, &graph.Error{Err: err})
	}
	for _, v := range want {
		if p.known[v] == nil {
			p.lost[v] = true
		}
	}
	return nil
}

// runSegment plans, compiles and runs some nodes, and notes the wanted values that they
// make.
func (p *pieces) runSegment(nodes []*graph.Node, want []*graph.Value) error {
	s, err := p.g.Segment(nodes, p.known, want)
	var refused graph.Errors
	if err != nil && p.keep && s != nil {
		s, refused = inferSome(s)
	} else if err != nil {
		return err
	}
	o := p.r.inside()
	o.KeepGoing = p.keep
	program, failed, err := p.r.compile(s, o)
	if err != nil {
		return err
	}
	failed = append(refused, failed...)
	in := make(map[string]*tensor.Tensor, len(s.Inputs))
	for _, v := range s.Inputs {
		in[v.Name] = p.known[p.g.Value(v.Name)]
	}
	out, err := program.run(p.ctx, p.run, in)
	var part *Incomplete
	if errors.As(err, &part) {
		failed = append(failed, part.Failed...)
	} else if err != nil {
		return err
	}
	for _, v := range want {
		if out[v.Name] != nil {
			p.known[v] = out[v.Name]
		}
	}
	if len(failed) > 0 {
		return &Incomplete{Failed: failed}
	}
	return nil
}

// inferSome returns a segment without the nodes that inference refuses, and those that are
// refused for a reason of their own.
func inferSome(s *graph.Graph) (*graph.Graph, graph.Errors) {
	refused := s.InferAll()
	return s.Drop(refused), s.RootErrors(refused)
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
		err := p.step(n)
		p.done[n] = true
		switch {
		case err == nil:
		case p.keep && p.ctx.Err() == nil:
			p.failed = append(p.failed, p.g.Fail(n, cause(n, err)))
			p.lose(n)
		default:
			return p.g.Fail(n, cause(n, err))
		}
	}
	return nil
}

// cause takes off an error what names the node that it is then said of.
func cause(n *graph.Node, err error) error {
	if e, ok := err.(*graph.Error); ok && e.Node == n.Name {
		return e.Err
	}
	return err
}

// call runs one such op.
func (p *pieces) call(n *graph.Node) (err error) {
	defer recovered(&err)
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
