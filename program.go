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
	"github.com/graphrun/graphrun/internal/ends"
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

	pool     *tensor.Pool // of results; results refer to it, not to the program
	bound    bindings
	hints    [][]int // of the open symbols, as options give them
	refused  []RefusedHint
	planning ends.Mutex // guards planned and regions, also while one is planned
	planned  []*class
	regions  []*region

	whyOnce sync.Once
	why     *without // see there

	genericLock  ends.Mutex // guards the fields below, see generic
	genericFound bool
	genericSizes []int
}

// compiled is a program for one set of sizes.
type compiled struct {
	told   map[string]int // sizes of open symbols; others are those that the graph assumes
	hinted bool           // they are a hint, for which a class is planned
	class  *class         // by which it was planned; nil where plans serve one set of sizes
	done   chan struct{}  // closed when the rest is there
	err    error
	// interrupted says that compiling failed because the context of its caller ended.
	interrupted bool

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

// compiledFor returns the program for sizes of open symbols by name; the others have the sizes that the graph assumes.
// The first caller compiles, and other callers for the same sizes wait until their own contexts end. If the first
// caller's context ends, one of the others compiles.
func (p *Program) compiledFor(ctx context.Context, told map[string]int, hinted bool) (*compiled, error) {
	sizes := slices.Clone(p.assumed)
	for i, name := range p.open {
		if n, is := told[name]; is {
			sizes[i] = n
		}
	}
	c := &compiled{told: told, hinted: hinted, done: make(chan struct{})}
	key := keyOf(sizes)
	for at := p.bound.Put(key, c); at != c; at = p.bound.Put(key, c) {
		if err := ends.Wait(ctx, at.done); err != nil {
			return nil, fmt.Errorf("waiting for the plan of another run: %w", err)
		}
		if !at.interrupted {
			return at, at.err
		}
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
	c.err = c.compile(ctx, p, sizes)
	c.interrupted = c.err != nil && ends.Err(ctx) != nil
	return c, c.err
}

// compile binds, infers, plans and compiles the program's graph. It is the one place where these are
// joined.
func (c *compiled) compile(ctx context.Context, p *Program, sizes []int) (err error) {
	defer tensor.CatchMemory(&err)
	defer ends.Catch(&err)
	ends.Look(ctx)
	start := time.Now()
	c.graph = p.graph
	if c.runs, err = c.infer(ctx, p); err != nil {
		return err
	}
	c.took = time.Since(start)
	return c.prepare(ctx, p, sizes)
}

// infer gives the symbols their sizes, and all values their types. It returns the graph without the
// nodes that are refused, where there may be such.
func (c *compiled) infer(ctx context.Context, p *Program) (*graph.Graph, error) {
	if !p.infers {
		return c.graph, nil
	}
	c.graph = p.graph.Clone()
	c.graph.SetContext(ctx)
	defer c.graph.SetContext(context.Background())
	if err := p.bind(c.graph, c.told); err != nil {
		return nil, err
	}
	if err := c.graph.Settle(); err != nil {
		return nil, err
	}
	if !p.options.KeepGoing {
		return c.graph, inferUnder(ctx, c.graph)
	}
	refused := c.graph.InferAll()
	ends.Look(ctx)
	if len(refused) == 0 {
		return c.graph, nil
	}
	c.failed = c.graph.RootErrors(refused)
	runs := c.graph.Drop(refused)
	runs.SetContext(context.Background())
	return runs, nil
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
// The memory of an output belongs to the caller as long as the output, or a slice of its bytes, is in
// use. [tensor.Tensor.Release] gives it back to the program for later runs; [Program.RunInto] writes to
// memory of the caller's. Either saves the cost of new memory, which for large outputs is as much as a
// simple computation.
//
// Sizes that are open are taken from the shapes of the inputs: the first run that brings some waits
// until the program is planned for them.
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	c, err := p.suiting(ctx, in)
	if err != nil {
		return nil, err
	}
	out, err := c.runner.Run(ctx, in)
	return out, c.complete(err)
}

// RunInto is [Program.Run] that writes outputs into the caller's tensors, by name. Outputs that out lacks are not
// returned.
//
// A tensor has the dtype and shape of the output, else the error states both; if the shape depends on data, other
// tensors may have been written by then. It may have any strides under which no two elements overlap, and any offset;
// bytes between its elements are not written. If its strides are those of [Program.Run]'s output, a kernel writes it
// directly, else one copy does. The error names a tensor that shares memory with an input, a constant or another tensor
// of out, before anything is written. After any other error the contents of the tensors are arbitrary; under
// [Options.KeepGoing], so are those of the outputs that the [*Incomplete] lists.
//
// Several goroutines may call it at once, each with tensors of its own.
func (p *Program) RunInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	c, err := p.suiting(ctx, in)
	if err != nil {
		return err
	}
	if p.options.KeepGoing { // else the runner does
		if err := exec.CheckOutputs(c.graph.Outputs, out); err != nil {
			return err
		}
	}
	return c.complete(c.runner.RunInto(ctx, in, out))
}

// suiting returns the program for the sizes of a run's inputs.
func (p *Program) suiting(ctx context.Context, in map[string]*tensor.Tensor) (*compiled, error) {
	if p == nil || p.options.Strategy == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if len(p.open) == 0 && p.first != nil && len(p.symbolic) == 0 {
		return p.first, nil
	}
	if len(p.open) <= maxQuick {
		var room [maxQuick]int
		if sizes := room[:len(p.open)]; p.quick(in, sizes) {
			if c, ok := p.bound.Find(keyOf(sizes)); ok {
				if ends.Wait(ctx, c.done) == nil && c.err == nil {
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
	c, err := p.compiledFor(ctx, told, false)
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

// complete adds the nodes that inference refused to the error of a run.
func (c *compiled) complete(err error) error {
	if len(c.failed) == 0 {
		return err
	}
	return exec.After(err, c.graph, c.failed, c.runs.Outputs)
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
