package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// cut is a graph in segments, the same for all runs.
type cut struct {
	graph    *graph.Graph
	segments []graph.Segment
	stepOf   []int // by segment: its number among those with an op that decides shapes
	steps    int   // how many of those there are
	// done are, by segment, the values that nothing reads behind it.
	done [][]*graph.Value
}

func newCut(g *graph.Graph) *cut {
	c := &cut{graph: g, segments: g.Segments()}
	c.stepOf = make([]int, len(c.segments))
	for i, s := range c.segments {
		c.stepOf[i] = c.steps
		if s.Eager {
			c.steps++
		}
	}
	c.findDone()
	return c
}

// findDone finds the last reader of each value, or its maker where only other values of that are
// read. Outputs stay, and so do inputs, which the caller holds and whose shapes bind symbols.
func (c *cut) findDone() {
	c.done = make([][]*graph.Value, len(c.segments))
	seen := graph.NewByValue[bool](c.graph)
	for _, list := range [][]*graph.Value{c.graph.Inputs, c.graph.Constants} {
		for _, v := range list {
			seen.Set(v, true)
		}
	}
	for _, o := range c.graph.Outputs {
		seen.Set(o.Value, true)
	}
	for i, s := range slices.Backward(c.segments) {
		made := s.Out
		if s.Eager {
			made = s.Nodes[0].Out // all of them are noted
		}
		for _, list := range [][]*graph.Value{s.In, s.Awaits, made} {
			for _, v := range list {
				if !seen.At(v) {
					seen.Set(v, true)
					c.done[i] = append(c.done[i], v)
				}
			}
		}
	}
}

// whole reports whether the graph is one segment that is compiled: a run of the graph is then one of
// a program.
func (c *cut) whole() bool { return len(c.segments) == 1 && c.steps == 0 }

// pieces is one run from segment to segment.
type pieces struct {
	caller
	*cut
	known map[*graph.Value]*tensor.Tensor // inputs, and what segments gave
	keep  bool                            // go on past nodes that fail
	// givenBack are the storages of constants in which results of ops that decide shapes lie.
	givenBack map[*tensor.Storage]bool

	traced bool // the tracer wants to see the steps

	failed graph.Errors
	lost   map[*graph.Value]bool // values that are not made because something failed

	given *given // nil where no tensors are given for outputs
}

// piecewise runs a graph in segments and returns its outputs in order. Where it is to keep
// going, the error may be an [*Incomplete] beside outputs of which some are nil.
func (r *Runner) piecewise(ctx context.Context, parent *Run, c *cut, in []*tensor.Tensor,
	keep bool, given *given) (_ []*tensor.Tensor, err error) {
	p := &pieces{caller: caller{r: r, ctx: ctx, run: parent}, cut: c, keep: keep, given: given,
		known: make(map[*graph.Value]*tensor.Tensor, 2*len(in)), lost: map[*graph.Value]bool{}}
	for i, v := range c.graph.Inputs {
		p.known[v] = in[i]
	}
	if r.options.Tracer != nil && !c.whole() {
		p.beginRun(parent)
		defer func() {
			r.options.Tracer.EndRun(p.run, err)
			err = p.run.broken.or(err)
		}()
	}
	for i := range c.segments {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s := &c.segments[i]
		switch err := p.segment(i); {
		case err == nil:
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !keep:
			return nil, err
		default:
			p.fail(s, err)
		}
		for _, v := range c.done[i] {
			p.drop(v)
		}
	}
	return p.outputs()
}

// drop forgets a value that nothing reads any more. Its memory goes back to the pool if it is that of a result in which
// no other value lies.
func (p *pieces) drop(v *graph.Value) {
	t := p.known[v]
	delete(p.known, v)
	if t == nil || !t.Storage().Releasable() || p.givenBack[t.Storage()] {
		return
	}
	for _, other := range p.known {
		if other != nil && other.Storage() == t.Storage() {
			return
		}
	}
	_ = t.Release()
}

// segment runs a segment, as far as what it needs is there.
func (p *pieces) segment(i int) error {
	s, kept := &p.segments[i], true
	if len(p.lost) > 0 {
		rest := s.Without(p.lost)
		if len(rest.Nodes) == 0 {
			return nil
		}
		if len(rest.Nodes) < len(s.Nodes) {
			s, kept = &rest, false
		}
	}
	if s.Eager {
		return p.step(s, p.stepOf[i], kept)
	}
	return p.runSegment(s, kept)
}

// ready returns what a segment is prepared as; what is not to be kept, such as a part of one, is
// prepared for this run.
func (p *pieces) ready(s *graph.Segment, kept bool) (*prepared, error) {
	prepare := func() (*prepared, error) { return p.r.prepare(p.ctx, s, p.known, p.keep) }
	if !kept {
		return prepare()
	}
	return p.r.classes.get(p.ctx, classKey{s, s.Class(p.known)}, prepare)
}

// runSegment runs a compiled segment and notes what it gives.
func (p *pieces) runSegment(s *graph.Segment, kept bool) error {
	ready, err := p.ready(s, kept)
	if err != nil {
		return err
	}
	failed := slices.Clone(ready.failed)
	in := make([]*tensor.Tensor, len(s.In))
	for i, v := range s.In {
		in[i] = p.known[v]
	}
	var out []*tensor.Tensor
	var outputs []graph.Output
	if ready.inner != nil {
		outputs = ready.inner.graph.Outputs
		out, err = p.r.piecewise(p.ctx, p.run, ready.inner, in, p.keep, nil)
	} else {
		outputs = ready.program.outputs
		out = p.given.list(p.cut, s, ready.program)
		err = ready.program.runInto(p.ctx, p.run, in, out)
	}
	var part *Incomplete
	if errors.As(err, &part) {
		failed = append(failed, part.Failed...)
	} else if err != nil {
		return err
	}
	byName := make(map[string]*tensor.Tensor, len(out))
	for i, o := range outputs {
		byName[o.Name] = out[i]
	}
	for _, v := range s.Out {
		if t := byName[v.Name]; t != nil {
			p.known[v] = t
		}
	}
	if len(failed) > 0 {
		return &Incomplete{Failed: failed}
	}
	return nil
}

// fail notes why a segment failed, and gives up what it did not make.
func (p *pieces) fail(s *graph.Segment, err error) {
	var part *Incomplete
	if errors.As(err, &part) {
		p.failed = append(p.failed, part.Failed...)
	} else if one, ok := err.(*graph.Error); ok {
		p.failed = append(p.failed, one)
	} else {
		// What failed is none of the nodes: all that the segment was to make is lost.
		p.failed = append(p.failed, &graph.Error{Err: err})
	}
	for _, v := range s.Out {
		if p.known[v] == nil {
			p.lost[v] = true
		}
	}
}

// outputs lays the outputs out as they are pinned.
func (p *pieces) outputs() (_ []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	made := map[string]bool{}
	out := make([]*tensor.Tensor, len(p.graph.Outputs))
	for i, o := range p.graph.Outputs {
		t := p.known[o.Value]
		if o.Value.Const != nil {
			t = o.Value.Const
		}
		if t == nil {
			continue // it is lost
		}
		if p.given != nil {
			out[i], made[o.Name] = t, true // it is copied to where the caller wants it
			continue
		}
		if !o.Pin.Holds(t.Meta) {
			m, err := o.Pin.Lay(t.Meta)
			if err != nil && p.keep {
				p.failed = append(p.failed, p.graph.FailOutput(o, err))
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", o.Name, err)
			}
			m.Offset = 0
			if t, err = pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads); err != nil {
				return nil, err
			}
		} else if o.Value.Const != nil || p.givenBack[t.Storage()] {
			m := t.Meta
			m.Offset = 0
			// The graph's own data is not handed out.
			if t, err = pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads); err != nil {
				return nil, err
			}
		}
		out[i], made[o.Name] = t, true
	}
	return out, Without(p.graph, p.failed, func(name string) bool { return made[name] })
}

// call runs an op that decides shapes.
func (p *pieces) call(s *graph.Segment, kept bool) (err error) {
	defer recovered(&err)
	n := s.Nodes[0]
	ready, err := p.ready(s, kept)
	if err != nil {
		return err
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			if in[i] = a.Value.Const; in[i] == nil {
				in[i] = p.known[a.Value]
			}
		case graph.NumberArg:
			in[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	out, err := n.Op.Eager(p.caller, ready.call, in)
	if err != nil {
		return err
	}
	if len(out) != len(n.Out) {
		return fmt.Errorf("made %d values, \"outputs\" names %d", len(out), len(n.Out))
	}
	for i, v := range n.Out {
		if p.known[v], err = p.laidOut(out[i], n.Pin); err != nil {
			return err
		}
		p.noteGivenBack(n, p.known[v])
	}
	return nil
}

// laidOut returns a tensor as it is pinned: itself, or a copy.
func (p *pieces) laidOut(t *tensor.Tensor, pin graph.Pin) (*tensor.Tensor, error) {
	if t == nil || pin.Holds(t.Meta) {
		return t, nil
	}
	m, err := pin.Lay(t.Meta)
	if err != nil {
		return nil, err
	}
	m.Offset = 0
	return pooledCopy(p.ctx, p.r.options.Pool, t, m, p.r.options.Threads)
}

// noteGivenBack notes a result that is in a constant operand, as that of a branch that hands its
// input on.
func (p *pieces) noteGivenBack(n *graph.Node, result *tensor.Tensor) {
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && a.Value.Const != nil && result != nil && a.Value.Const.Storage() == result.Storage() {
			if p.givenBack == nil {
				p.givenBack = map[*tensor.Storage]bool{}
			}
			p.givenBack[result.Storage()] = true
		}
	}
}

// cause takes off an error what names the node that it is then said of.
func cause(n *graph.Node, err error) error {
	if e, ok := err.(*graph.Error); ok && e.Node == n.Name {
		return e.Err
	}
	return err
}
