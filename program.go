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
	places   []place        // the same, for who reads the sizes of a run
	assumed  []int          // sizes of the open symbols where nobody tells them
	first    *compiled      // for the sizes that Compile saw
	// ownPasses says that the list of passes is the caller's: nobody else could plan the graph again.
	ownPasses bool

	bound    bindings
	hints    [][]int // of the open symbols, as options give them
	refused  []RefusedHint
	planning sync.Mutex // of planned and regions; held by who plans a class or finds a region
	planned  []*class
	regions  []*region

	whyOnce sync.Once
	why     *without // see there

	genericOnce  sync.Once
	genericSizes []int // see generic
}

// compiled is a program for one set of sizes.
type compiled struct {
	told   map[string]int // sizes of open symbols; others are those that the graph assumes
	hinted bool           // they are a hint, for which a class is planned
	class  *class         // by which it was planned; nil where plans serve one set of sizes
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

	// unpacked are constants of the graph without data, which those of the plan have packed: see release.
	unpacked map[string]*graph.Value

	asking  sync.Once       // for what follows, see layouts
	problem *layout.Problem // as the strategy saw it
	asked   error           // why there is none
}

// compiledFor returns the program for sizes of open symbols by name; others are as the graph assumes. The first caller
// who asks for sizes compiles, others wait.
func (p *Program) compiledFor(told map[string]int, hinted bool) (*compiled, error) {
	sizes := slices.Clone(p.assumed)
	for i, name := range p.open {
		if n, is := told[name]; is {
			sizes[i] = n
		}
	}
	c := &compiled{told: told, hinted: hinted, done: make(chan struct{})}
	key := keyOf(sizes)
	if at := p.bound.Put(key, c); at != c {
		<-at.done
		return at, at.err
	}
	c.err = errors.New("compiling it ended in a panic") // unless it does not
	defer func() {
		if c.err != nil {
			p.bound.Drop(key, c) // there may be more memory another time
		} else {
			p.bound.Count(key, c, c.bytes())
		}
		close(c.done)
	}()
	c.err = c.compile(p, sizes)
	return c, c.err
}

// compile binds, infers, plans and compiles the program's graph. It is the one place where these are
// joined.
func (c *compiled) compile(p *Program, sizes []int) (err error) {
	defer tensor.CatchMemory(&err)
	start := time.Now()
	c.graph = p.graph
	if c.runs, err = c.infer(p); err != nil {
		return err
	}
	c.took = time.Since(start)
	return c.prepare(p, sizes)
}

// infer gives the symbols their sizes, and all values their types. It returns the graph without the
// nodes that are refused, where there may be such.
func (c *compiled) infer(p *Program) (*graph.Graph, error) {
	if !p.infers {
		return c.graph, nil
	}
	c.graph = p.graph.Clone()
	if err := p.bind(c.graph, c.told); err != nil {
		return nil, err
	}
	if err := c.graph.Settle(); err != nil {
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

// suiting returns the program for the sizes of a run's inputs.
func (p *Program) suiting(in map[string]*tensor.Tensor) (*compiled, error) {
	if len(p.open) == 0 && p.first != nil && len(p.symbolic) == 0 {
		return p.first, nil
	}
	if len(p.open) <= maxQuick {
		var room [maxQuick]int
		if sizes := room[:len(p.open)]; p.quick(in, sizes) {
			if c, ok := p.bound.Find(keyOf(sizes)); ok {
				if <-c.done; c.err == nil {
					return c, nil
				} // else it was dropped: another time there may be more memory
			}
		}
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
	sizes, err := sizesOf(inputs, shapeOf, p.fixed, p.source().Symbols)
	if err != nil {
		return nil, err
	}
	told := map[string]int{}
	for _, name := range p.open {
		if n, is := sizes[name]; is {
			told[name] = n
		}
	}
	c, err := p.compiledFor(told, false)
	if err != nil && len(told) > 0 {
		return nil, fmt.Errorf("for %s: %w", sizesText(told), err)
	}
	return c, err
}

// symbolicInputs returns the inputs that have symbols.
func (p *Program) symbolicInputs() []*graph.Value {
	g := p.source()
	list := make([]*graph.Value, len(p.symbolic))
	for i, at := range p.symbolic {
		list[i] = g.Inputs[at]
	}
	return list
}

// source is the graph as it was compiled, or as the only plan has it.
func (p *Program) source() *graph.Graph {
	if p.graph == nil {
		return p.first.graph
	}
	return p.graph
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
