package graphrun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// class is a plan for all sizes at which its guards hold: layouts, implementations, copies, groups, and what is
// computed ahead were chosen once, at the sizes of its hint. Other sizes are bound by the same decisions, without a
// search.
//
// Which class serves sizes follows from these alone, and not from what was run before: so do the bits of results.
type class struct {
	hint      []int // the sizes of the open symbols for which it was priced
	decisions *passes.Decisions
	plan      *passes.Plan // for its hint; it holds the constants that all bindings share
	err       error        // why there is none

	asking ends.Mutex // guards the fields below, see guarded
	asked  bool
	guards []graph.Guard
	truth  *sym.Evaluator // of the guards; nil where they are not known: it serves its hint alone
	why    error          // they are not
}

// keptClasses bounds the classes that are kept beside those of [Options.Hints].
const keptClasses = 32

// classes reports whether plans of the program serve more than one set of sizes. Somebody's own passes run for each set
// of sizes, and what they leave is held against the decisions of the class; where planning keeps going, sizes at which
// something is refused have a plan of their own. Graphs that run in segments are another matter: see [Program.Classes].
func (p *Program) classes() bool { return len(p.open) > 0 }

// distance tells how far sizes are apart: the sum of the logarithms of their ratios.
func distance(a, b []int) (d float64) {
	for i := range a {
		d += math.Abs(math.Log(float64(max(a[i], 1)) / float64(max(b[i], 1))))
	}
	return d
}

// classAt returns the class of a hint, which is planned when it is first asked for; nil where there is no hint, or the
// graph cannot be planned for it.
//
// It panics when the context ends, as all functions that plan classes do: see [ends.Look].
func (p *Program) classAt(ctx context.Context, hint []int) *class {
	if hint == nil {
		return nil
	}
	defer p.lock(ctx)()
	i := slices.IndexFunc(p.planned, func(k *class) bool { return slices.Equal(k.hint, hint) })
	if i < 0 {
		k := &class{hint: hint}
		k.err = k.make(ctx, p)
		ends.Look(ctx)
		i = p.addClass(k)
	}
	if k := p.planned[i]; k.err == nil {
		return k
	}
	return nil
}

// lock takes the lock of planned classes and regions. It panics when the context ends: see [ends.Look].
func (p *Program) lock(ctx context.Context) (unlock func()) {
	if p.planning.Lock(ctx) != nil {
		ends.Look(ctx)
	}
	return p.planning.Unlock
}

// addClass keeps a class, and drops the oldest of those that nobody gave a hint for where there are too many. It
// returns its place.
func (p *Program) addClass(k *class) int {
	if len(p.planned) >= keptClasses+len(p.hints) {
		i := slices.IndexFunc(p.planned, func(k *class) bool {
			return !slices.ContainsFunc(p.hints, func(h []int) bool { return slices.Equal(h, k.hint) })
		})
		p.planned = slices.Delete(p.planned, i, i+1)
	}
	p.planned = append(p.planned, k)
	return len(p.planned) - 1
}

// make plans a class without compiling it.
func (k *class) make(ctx context.Context, p *Program) (err error) {
	defer tensor.CatchMemory(&err)
	g, err := p.at(ctx, k.hint)
	if err != nil {
		return err
	}
	o := p.planOptions(ctx)
	o.Record = true
	if k.plan, err = passes.Run(g, o); err != nil {
		return err
	}
	k.decisions = k.plan.Decisions
	if len(k.plan.Failed) > 0 {
		return k.plan.Failed
	}
	return nil
}

// at returns the graph with sizes of the open symbols, inferred.
func (p *Program) at(ctx context.Context, sizes []int) (*graph.Graph, error) {
	told := make(map[string]int, len(sizes))
	for i, name := range p.open {
		told[name] = sizes[i]
	}
	ends.Look(ctx)
	g := p.graph.Clone()
	if err := p.bind(g, told); err != nil {
		return nil, err
	}
	return g, inferUnder(ctx, g)
}

// prepare plans and compiles an inferred graph: by the class that its sizes belong to, or by itself where there is
// none.
func (c *compiled) prepare(ctx context.Context, p *Program, sizes []int) error {
	if !p.classes() || c.runs.Dynamic() {
		return c.plans(ctx, p, passes.Options{})
	}
	if !c.hinted && p.first != nil && len(c.failed) == 0 {
		if k := p.classFor(ctx, sizes); k != nil {
			err := c.plans(ctx, p, passes.Options{Follow: k.decisions})
			if err == nil {
				c.class = k
				return nil
			}
			if errors.As(err, new(*MemoryError)) || ends.Err(ctx) != nil {
				return err
			}
		}
	}
	if err := c.plans(ctx, p, passes.Options{Record: c.hinted}); err != nil || !c.hinted {
		return err
	}
	if len(c.failed)+len(c.plan.Failed) > 0 {
		return nil // it is a plan of what is left at these sizes
	}
	c.class = &class{hint: sizes, decisions: c.plan.Decisions, plan: c.plan}
	defer p.lock(ctx)()
	p.addClass(c.class)
	return nil
}

// planOptions are those of the program for its passes.
func (p *Program) planOptions(ctx context.Context) passes.Options {
	o := p.options
	return passes.Options{Context: ctx,
		Strategy: o.Strategy, Profile: o.Costs, Passes: o.Passes, MemoryLimit: o.MemoryLimit,
		Threads: o.Threads, Check: o.Check, KeepGoing: o.KeepGoing, Exact: o.Exact,
		SolveLimit: o.SolveLimit}
}

// plans plans and compiles the graph. Of how it is planned, with says what to record or to follow.
func (c *compiled) plans(ctx context.Context, p *Program, with passes.Options) (err error) {
	o, ahead := p.options, true
	plan := func(g *graph.Graph) (*graph.Graph, error) {
		o.Progress("planning")
		how := p.planOptions(ctx)
		if !ahead {
			how.Context = nil // the segment has the context of the run
		}
		how.Record, how.Follow = with.Record, with.Follow
		if ahead {
			how.Dump = o.Dump
		}
		made, err := passes.Run(g, how)
		if err != nil {
			return nil, fmt.Errorf("%w (strategy %s)", err, o.Strategy.Name())
		}
		if ahead {
			c.plan = made
		}
		o.Progress("compiling")
		if len(made.Failed) > 0 {
			return made.Graph, made.Failed
		}
		return made.Graph, nil
	}
	start := time.Now()
	c.runner, err = exec.NewRunner(c.runs, plan, exec.Options{Context: ctx,
		Threads: o.Threads, Costs: o.Costs, Tracer: o.Tracer,
		MemoryLimit: o.MemoryLimit, InputsHeld: o.InputsHeld, KeepGoing: o.KeepGoing, Pool: p.pool})
	if err != nil {
		return err
	}
	if c.ahead = c.runner.Program(); c.ahead == nil {
		c.place, c.ahead, err = c.runner.Ahead(ctx)
	}
	ahead = false // from now on it plans segments, in runs
	c.took += time.Since(start)
	return err
}
