package graphrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Program is a compiled graph. It may be used from several goroutines at once.
type Program struct {
	graph    *graph.Graph // with pins
	options  Options
	infers   bool           // the graph must be inferred again before it is planned
	fixed    map[string]int // sizes of symbols for all runs
	open     []string       // symbols that runs give sizes to
	symbolic []int          // places of inputs that have symbols
	first    *compiled      // for the sizes that Compile saw
	// ownPasses says that the list of passes is the caller's, of which nobody else knows what they do.
	ownPasses bool

	mu     sync.Mutex
	recent []*compiled // for other sizes, the last used first
}

// compiled is a program for one set of sizes.
type compiled struct {
	open   map[string]int // sizes of the open symbols; nil for those that the graph assumes
	done   chan struct{}  // closed when the rest is there
	err    error
	graph  *graph.Graph // bound and inferred
	runs   *graph.Graph // of it what inference does not refuse
	failed graph.Errors // nodes that inference refused
	plan   *passes.Plan // of the graph, or of the segment that is planned ahead
	runner *exec.Runner
	ahead  *exec.Program // what plan is the plan of; nil where nothing was planned ahead
	place  int           // of the segment that this is, where shapes depend on data; negative for none
	took   time.Duration

	asking  sync.Once       // for what follows, see layouts
	problem *layout.Problem // as the strategy saw it
	asked   error           // why there is none
}

// keptSizes bounds the programs that are kept for sizes beside the first.
const keptSizes = 8

// compiledFor returns the program for sizes of the open symbols; nil for those that the graph assumes.
// The first caller who asks for sizes compiles, others wait.
func (p *Program) compiledFor(open map[string]int) (*compiled, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.recent, func(c *compiled) bool { return maps.Equal(c.open, open) })
	var c *compiled
	if i >= 0 {
		c = p.recent[i]
		p.recent = slices.Delete(p.recent, i, i+1)
	} else {
		c = &compiled{open: open, done: make(chan struct{})}
	}
	p.recent = slices.Insert(p.recent, 0, c)
	p.recent = p.recent[:min(len(p.recent), keptSizes)]
	p.mu.Unlock()
	if i >= 0 {
		<-c.done
		return c, c.err
	}
	c.err = errors.New("compiling it ended in a panic") // unless it does not
	defer func() {
		if c.err != nil {
			p.forget(c)
		}
		close(c.done)
	}()
	c.err = c.compile(p)
	return c, c.err
}

// forget drops a program that could not be compiled: there may be more memory another time.
func (p *Program) forget(c *compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = slices.DeleteFunc(p.recent, func(other *compiled) bool { return other == c })
}

// compile binds, infers, plans and compiles the program's graph. It is the one place where these are
// joined.
func (c *compiled) compile(p *Program) (err error) {
	defer tensor.CatchMemory(&err)
	start := time.Now()
	c.graph = p.graph
	if c.runs, err = c.infer(p); err != nil {
		return err
	}
	o, ahead := p.options, true
	plan := func(g *graph.Graph) (*graph.Graph, error) {
		o.Progress("planning")
		how := passes.Options{Strategy: o.Strategy, Profile: o.Costs, Passes: o.Passes, MemoryLimit: o.MemoryLimit,
			Check: o.Check, KeepGoing: o.KeepGoing}
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
	c.runner, err = exec.NewRunner(c.runs, plan, exec.Options{Threads: o.Threads, Costs: o.Costs, Tracer: o.Tracer,
		MemoryLimit: o.MemoryLimit, InputsHeld: o.InputsHeld, KeepGoing: o.KeepGoing})
	if err != nil {
		return err
	}
	if c.ahead = c.runner.Program(); c.ahead == nil {
		c.place, c.ahead, err = c.runner.Ahead()
	}
	ahead = false // from now on it plans segments, in runs
	c.took = time.Since(start)
	return err
}

// infer gives the symbols their sizes, and all values their types. It returns the graph without the
// nodes that are refused, where there may be such.
func (c *compiled) infer(p *Program) (*graph.Graph, error) {
	if !p.infers {
		return c.graph, nil
	}
	c.graph = p.graph.Clone()
	if err := p.bind(c.graph, c.open); err != nil {
		return nil, err
	}
	if !p.options.KeepGoing {
		return c.graph, Infer(c.graph)
	}
	refused := c.graph.InferAll()
	if len(refused) == 0 {
		return c.graph, nil
	}
	c.failed = c.graph.RootErrors(refused)
	return c.graph.Drop(refused), nil
}

// bind gives the symbols of a copy of the program's graph their sizes: those of the open ones, those that
// are fixed, and for others what the graph assumes, which stays assumed.
func (p *Program) bind(g *graph.Graph, open map[string]int) error {
	sizes := g.Bound()
	if sizes == nil {
		return nil
	}
	assumed := g.Assumed()
	maps.Copy(sizes, p.fixed)
	maps.Copy(sizes, open)
	if err := g.BindOnly(sizes); err != nil {
		return err
	}
	for name, n := range assumed {
		_, fixed := p.fixed[name]
		if _, told := open[name]; !told && !fixed {
			g.Assume(name, n)
		}
	}
	return nil
}

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the dtype and shape that the graph declares; one of another layout is copied
// first. An output that is a view of an input shares its storage; two outputs may share storage with
// each other. The error names the node that failed first in the order of the graph; a cancelled context
// gives its cause. Nothing of the run goes on after the return.
//
// Sizes that are open are taken from the shapes of the inputs: the first run that brings some waits
// until the program is planned for them.
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if p == nil || p.options.Strategy == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	c, err := p.suiting(in)
	if err != nil {
		return nil, err
	}
	out, err := c.runner.Run(ctx, in)
	return c.complete(out, err)
}

// suits reports whether all inputs with symbols have the shapes that the program is compiled for.
func (c *compiled) suits(p *Program, in map[string]*tensor.Tensor) bool {
	for _, i := range p.symbolic {
		v := c.graph.Inputs[i]
		if t := in[v.Name]; t == nil || !slices.Equal(t.Shape, v.Meta.Shape) {
			return false
		}
	}
	return true
}

// suiting returns the program for the sizes of a run's inputs.
func (p *Program) suiting(in map[string]*tensor.Tensor) (*compiled, error) {
	if p.first != nil && p.first.suits(p, in) {
		return p.first, nil
	}
	inputs := p.symbolicInputs()
	shapeOf := func(name string) ([]int, bool) {
		if t := in[name]; t != nil {
			return t.Shape, true
		}
		return nil, false
	}
	if err := p.checkFixed(inputs, shapeOf); err != nil {
		return nil, err
	}
	if len(p.open) == 0 && p.first != nil {
		return p.first, nil
	}
	sizes, err := sizesOf(inputs, shapeOf, nil)
	if err != nil {
		return nil, err
	}
	open := map[string]int{}
	for _, name := range p.open {
		if n, told := sizes[name]; told {
			open[name] = n
		}
	}
	if p.first != nil && p.first.has(open) {
		return p.first, nil
	}
	if len(open) == 0 {
		open = nil
	}
	c, err := p.compiledFor(open)
	if err != nil && open != nil {
		return nil, fmt.Errorf("for %s: %w", sizesText(open), err)
	}
	return c, err
}

// symbolicInputs returns the inputs that have symbols.
func (p *Program) symbolicInputs() []*graph.Value {
	g := p.graph
	if g == nil {
		g = p.first.graph
	}
	list := make([]*graph.Value, len(p.symbolic))
	for i, at := range p.symbolic {
		list[i] = g.Inputs[at]
	}
	return list
}

// checkFixed refuses an input of another size than the program was compiled for, in words that tell
// which symbol it is.
func (p *Program) checkFixed(inputs []*graph.Value, shapeOf func(string) ([]int, bool)) error {
	for _, v := range inputs {
		shape, ok := shapeOf(v.Name)
		if !ok || len(shape) != len(v.Dims) {
			continue // the run says what is wrong
		}
		for i, d := range v.Dims {
			if n, fixed := p.fixed[d.Symbol]; d.Symbol != "" && fixed && n != shape[i] {
				return fmt.Errorf("input %q has shape %s: the program is compiled for %s=%d, which was given, and %s is %d there",
					v.Name, tensor.ListString(shape), d.Symbol, n, d.Symbol, shape[i])
			}
		}
	}
	return nil
}

// has reports whether the program was compiled for these sizes of open symbols.
func (c *compiled) has(open map[string]int) bool {
	bound := c.graph.Bound()
	for name, n := range open {
		if bound[name] != n {
			return false
		}
	}
	return true
}

// complete adds to the outcome of a run what inference had refused.
func (c *compiled) complete(out map[string]*tensor.Tensor, err error) (map[string]*tensor.Tensor, error) {
	if len(c.failed) == 0 {
		return out, err
	}
	var part *exec.Incomplete // allocated: not in a run without refusals
	if err != nil && !errors.As(err, &part) {
		return out, err
	}
	failed := slices.Clone(c.failed)
	if part != nil {
		failed = append(failed, part.Failed...)
	}
	return out, exec.Without(c.graph, failed, func(name string) bool { return out[name] != nil })
}

// Graph returns the graph as it runs, with the layouts, copies and implementations that were chosen; of
// one whose shapes depend on data, and that is planned in segments, the graph as it is inferred. It is for
// the sizes that Compile saw, and must not be changed.
func (p *Program) Graph() *graph.Graph {
	switch {
	case p == nil || p.first == nil:
		return nil
	case p.first.runner.Program() == nil:
		return p.first.runs
	}
	return p.first.plan.Graph
}

// Need returns the memory that a run takes, for the sizes that Compile saw; where shapes depend on data, that
// of the segment that is planned ahead.
func (p *Program) Need() Need {
	if p == nil || p.first == nil || p.first.ahead == nil {
		return Need{}
	}
	return p.first.ahead.Need()
}

// Together is what runs of several programs of the same graph need at the same time: they share inputs
// and constants.
func Together(programs ...*Program) Need {
	var list []*exec.Program
	for _, p := range programs {
		if p != nil && p.first != nil && p.first.ahead != nil {
			list = append(list, p.first.ahead)
		}
	}
	return exec.Together(list...)
}
