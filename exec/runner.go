package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Planner chooses layouts and inserts copies: what a graph goes through before it is
// compiled (passes.Run). One that keeps going may return a graph without the nodes that it
// refuses together with a [graph.Errors] that lists those.
type Planner func(*graph.Graph) (*graph.Graph, error)

// Runner runs any graph. One whose shapes are all known is compiled once. One with shapes that
// depend on data is cut once ([graph.Graph.Segments]); a run goes from segment to segment, and each
// is planned and compiled when it is first run with values of its class ([graph.Segment.Class]).
// So are the bodies of loops and branches.
//
// A Runner is safe for concurrent use. The programs that it keeps, those used last, take as much memory
// as [Options.MemoryLimit] says, else half of what the process may have.
type Runner struct {
	graph   *graph.Graph
	plan    Planner
	options Options
	static  *Program
	failed  graph.Errors // nodes of the static graph that planning refused
	cut     *cut         // of a graph that is not static

	classes classes
	mu      sync.Mutex
	bodies  map[*graph.Graph]*cut
}

// NewRunner prepares a graph, which must be sorted and inferred.
func NewRunner(g *graph.Graph, plan Planner, o Options) (*Runner, error) {
	if g == nil || plan == nil {
		return nil, errors.New("a runner needs a graph and a planner: one of them is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	g, err := g.Settled()
	if err != nil {
		return nil, err
	}
	r := &Runner{graph: g, plan: plan, options: o, bodies: map[*graph.Graph]*cut{}}
	r.classes.kept.Number, r.classes.kept.Bytes = maxClasses, max(o.MemoryLimit, 0)
	if g.Dynamic() {
		r.cut = newCut(g)
		return r, nil
	}
	p, failed, err := r.compile(g, o)
	if r.static, r.failed = p, failed; len(failed) == 0 {
		r.graph = nil // it holds constants that the program may have packed
	}
	return r, err
}

// Program returns the compiled program, nil for a graph that runs in segments.
func (r *Runner) Program() *Program { return r.static }

// Ahead prepares what can be prepared before a run of a graph that is cut: the first segment whose shapes
// are known ([graph.Segment.Ahead]), for inputs that are laid out as the graph declares them. Runs then find it
// prepared. It returns the segment's place, and its program; without such a segment, -1 and nil.
func (r *Runner) Ahead() (segment int, p *Program, err error) {
	if r.cut == nil {
		return -1, nil, nil
	}
	for i := range r.cut.segments {
		s := &r.cut.segments[i]
		if g, err := s.Ahead(); err != nil || g == nil || g.Dynamic() {
			continue // what is refused, a run tells or leaves out
		}
		known := make(map[*graph.Value]*tensor.Tensor, len(r.graph.Inputs)+len(s.In))
		for _, v := range slices.Concat(r.graph.Inputs, s.In) {
			known[v] = &tensor.Tensor{Meta: v.Meta} // nothing reads it
		}
		ready, err := r.classes.get(classKey{s, s.Class(known)}, func() (*prepared, error) {
			return r.prepare(s, known, r.options.KeepGoing)
		})
		if err != nil {
			return -1, nil, err
		}
		return i, ready.program, nil
	}
	return -1, nil, nil
}

// compile plans and compiles. Where o says to keep going, failed lists what planning
// refused.
func (r *Runner) compile(g *graph.Graph, o Options) (_ *Program, failed graph.Errors, err error) {
	planned, err := r.plan(g)
	if err != nil && !(o.KeepGoing && planned != nil && errors.As(err, &failed)) {
		return nil, nil, err
	}
	p, err := Compile(planned, o)
	return p, failed, err
}

// prepare makes a segment ready for the values at hand.
func (r *Runner) prepare(s *graph.Segment, known map[*graph.Value]*tensor.Tensor, keep bool) (_ *prepared, err error) {
	defer recovered(&err)
	g, err := s.At(known)
	p := &prepared{}
	if err != nil && keep && g != nil && !s.Eager {
		g, p.failed = inferSome(g)
	} else if err != nil {
		return nil, err
	}
	switch {
	case s.Eager:
		p.call = g.Nodes[0].Call()
		return p, nil
	case g.Dynamic():
		p.inner = newCut(g)
		return p, nil
	}
	o := r.options
	o.InputsHeld, o.KeepGoing = true, keep // its inputs are there
	program, refused, err := r.compile(g, o)
	p.program, p.failed = program, append(p.failed, refused...)
	return p, err
}

// inferSome returns a segment without the nodes that inference refuses, and those that are
// refused for a reason of their own.
func inferSome(s *graph.Graph) (*graph.Graph, graph.Errors) {
	refused := s.InferAll()
	return s.Drop(refused), s.RootErrors(refused)
}

// Run runs the graph on inputs by name, as [Program.Run] does.
func (r *Runner) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if r.static != nil {
		return r.complete(r.static.Run(ctx, in))
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
	out, err := r.piecewise(ctx, nil, r.cut, list, r.options.KeepGoing)
	if err != nil && !errors.As(err, new(*Incomplete)) {
		return nil, err
	}
	res := map[string]*tensor.Tensor{}
	for i, o := range r.graph.Outputs {
		if out[i] != nil {
			res[o.Name] = out[i]
		}
	}
	return res, err
}

// complete adds to the outcome of a static run what planning had refused.
func (r *Runner) complete(out map[string]*tensor.Tensor, err error) (map[string]*tensor.Tensor, error) {
	if len(r.failed) == 0 {
		return out, err
	}
	var part *Incomplete // allocated: not in a run without refusals
	if err != nil && !errors.As(err, &part) {
		return out, err
	}
	failed := slices.Clone(r.failed)
	if part != nil {
		failed = append(failed, part.Failed...)
	}
	return out, Without(r.graph, failed, func(name string) bool { return out[name] != nil })
}

// caller is what ops with Eager see of a run.
type caller struct {
	r   *Runner
	ctx context.Context
	run *Run // nil without a tracer
}

// Run runs a subgraph on inputs in its order. Where a part of it fails, all of it does.
func (rt caller) Run(g *graph.Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if rt.ctx.Err() != nil {
		return nil, context.Cause(rt.ctx)
	}
	c, err := rt.r.body(g)
	if err != nil {
		return nil, err
	}
	if len(in) != len(g.Inputs) {
		return nil, fmt.Errorf("want %d inputs, got %d", len(g.Inputs), len(in))
	}
	for i, t := range in {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", g.Inputs[i].Name, err)
		}
	}
	return rt.r.piecewise(rt.ctx, rt.run, c, in, false)
}

// maxBodies bounds the graphs whose cuts are kept. More are those of an op that makes graphs as it
// runs.
const maxBodies = 1024

// body returns the cut of a subgraph.
func (r *Runner) body(g *graph.Graph) (*cut, error) {
	if g == nil {
		return nil, errors.New("the graph to run is nil")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.bodies[g]; c != nil {
		return c, nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if len(r.bodies) >= maxBodies {
		clear(r.bodies)
	}
	c := newCut(g)
	r.bodies[g] = c
	return c, nil
}
