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
// compiled (passes.Run). One that keeps going may return a graph without the nodes that it
// refuses together with a [graph.Errors] that lists those.
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
	failed  graph.Errors // nodes of the static graph that planning refused

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
	p, failed, err := r.compile(g, o)
	r.static, r.failed = p, failed
	return r, err
}

// Program returns the compiled program, nil for a graph that runs piecewise.
func (r *Runner) Program() *Program { return r.static }

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

// inside are the options of what runs within a run: its inputs are there, and where a part
// of it fails, all of it does.
func (r *Runner) inside() Options {
	o := r.options
	o.InputsHeld, o.KeepGoing = true, false
	return o
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
	out, err := r.piecewise(ctx, nil, r.graph, list, r.options.KeepGoing)
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
	var part *Incomplete
	if err != nil && !errors.As(err, &part) || len(r.failed) == 0 {
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
			return rt.r.piecewise(rt.ctx, rt.run, s, in, false)
		}
		if p, _, err = rt.r.compile(s, rt.r.inside()); err != nil {
			return nil, err
		}
		rt.r.keep(programKey{g, key.String()}, p)
	}
	out := make([]*tensor.Tensor, len(p.outputs))
	return out, p.runInto(rt.ctx, rt.run, in, out)
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
