package graphrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Strategy chooses layouts and implementations. Anybody's own will do: it sees a whole
// [layout.Problem] and returns a [layout.Assignment], which the planner applies as it is.
type Strategy = layout.Strategy

// The strategies that are always there.
var (
	// Propagate keeps the layouts that eager PyTorch gives, and drops copies that nobody needs.
	Propagate Strategy = layout.Propagate
	// Contiguous makes everything row-major.
	Contiguous Strategy = layout.Contiguous
	// ChannelsLast gives images their channels last: what convolutions, pools and batch norms make, and
	// what follows it.
	ChannelsLast Strategy = layout.ChannelsLast
	// Greedy, Favourite and Push decide one node at a time: see [layout.Greedy].
	Greedy    Strategy = layout.Greedy
	Favourite Strategy = layout.Favourite
	Push      Strategy = layout.Push
	// Optimal has the least cost of all, and proves it: see [Program.Certificate] and [layout.Model].
	Optimal Strategy = layout.Optimal
)

// Strategies lists the strategies that are always there; [StrategyNamed] of no name is the default.
func Strategies() []Strategy { return layout.All() }

// StrategyNamed returns one of [Strategies] by its name; an empty name is that of the default.
func StrategyNamed(name string) (Strategy, error) { return layout.Named(name) }

// Options choose how a graph is planned and how it runs. Zero values are good defaults.
type Options struct {
	// Strategy chooses layouts and implementations; nil is Optimal. Outputs have the same layout
	// under every strategy: that which the graph has them in, unless they are pinned.
	Strategy Strategy
	// Threads bounds the workers of a run; 0 is GOMAXPROCS.
	Threads int
	// Sizes fixes the sizes of symbols for all runs. Symbols that neither it nor the graph's loader
	// gives a size take it from the inputs of each run.
	Sizes map[string]int
	// Hints are sizes of symbols that runs bring: the graph is planned for each of them, the first of which is what
	// [Program.Report] and the like tell of, and a run takes the plan of the nearest that fits its sizes. Symbols that
	// one leaves out have the size that the graph assumes. Without hints the graph is planned for what it assumes.
	// The first must be possible; any other that is refused is left out, and [Program.RefusedHints] tells why: who
	// brings its sizes meets the same error in that run.
	Hints []map[string]int
	// Pins demand a layout of values, or an implementation of nodes, by their names, beside what the
	// graph demands itself. One that cannot be met is a [*PinError].
	Pins map[string]graph.Pin
	// Passes is the list of passes that plan the graph, in their order; nil is [passes.Passes]. Own ones are put
	// into that by [passes.Before] and [passes.After]. [Report.Passes] tells what each did. Where sizes are open they run
	// for each set of sizes, and once for unknown sizes, when types of values are expressions.
	Passes []passes.Pass
	// NoFusion makes a step of each node: without it, pointwise nodes that go over the same elements are computed in
	// one loop. It leaves the pass "group" out of Passes.
	NoFusion bool
	// Exact has every node computed by the formula of its op's definition, in whatever order it adds up. Without it
	// implementations are taken, where they are faster, that compute by others, equal for real numbers, whose results
	// are rounded otherwise: [graph.Impl.Inexact], as Winograd's convolutions.
	Exact bool
	// SolveLimit is how long strategy Optimal searches for what it cannot settle at once; 0 is [layout.SolveLimit], 10
	// seconds, of which networks take some milliseconds; negative: not at all, so that no plan depends on the time. The
	// best plan that was found is taken then, and [Report.LowerBoundNS] tells how much less any could cost.
	SolveLimit time.Duration
	// Costs prices the work, so that plans can be compared; nil: the prices that are used where nobody
	// measured.
	Costs *layout.Profile
	// Tracer, if set, sees what runs do.
	Tracer Tracer
	// MemoryLimit bounds the bytes that a run may need; 0: what the process may have when the graph is
	// compiled; negative: nobody asks.
	MemoryLimit int
	// InputsHeld says that the inputs of a run are in memory already when the graph is compiled.
	InputsHeld bool
	// KeepGoing delivers whatever can be made: nodes that fail at any stage are left out with what
	// depends on them, and the error of a run is an [*Incomplete] beside its other outputs.
	KeepGoing bool
	// Check verifies the graph after each pass, and the values of small graphs: see
	// [Report.Unchecked] for what could not be compared.
	Check bool
	// Dump, if set, gets the graph after each pass as text.
	Dump io.Writer
	// Progress, if set, is told what is begun: "planning" or "compiling". Runs that plan something call it
	// too, from any goroutine.
	Progress func(stage string)
}

// These are what users of this package meet of package exec.
type (
	// Tracer sees what runs do.
	Tracer = exec.Tracer
	// Need is the memory that a run takes, by what it is for.
	Need = exec.Need
	// MemoryError says that a run needs more memory than it may have.
	MemoryError = exec.MemoryError
	// Incomplete says what a run that keeps going has left out.
	Incomplete = exec.Incomplete
)

// PinError is a demand of [Options.Pins] that cannot be met.
type PinError struct {
	Name string
	Pin  graph.Pin
	Err  error
}

// Error tells what was demanded of what, and why it cannot be.
func (e *PinError) Error() string { return fmt.Sprintf("pin %s=%v: %v", e.Name, e.Pin, e.Err) }

// Unwrap returns why it cannot be met.
func (e *PinError) Unwrap() error { return e.Err }

// Run compiles a graph with default options and runs it once. Symbols take their sizes from the inputs.
// A graph that runs more often is better compiled once, by [Compile].
func Run(ctx context.Context, g *graph.Graph, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	p, err := newProgram(g, Options{InputsHeld: true})
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, in)
}

// Compile plans a graph and prepares it to be run. The graph is not changed, and the program does not
// depend on it any more. Where sizes are open, it is compiled for [Options.Hints], or for what the graph assumes
// ([graph.Graph.Assumed]). A run that brings others waits until they are bound: by the decisions of a plan that serves
// them, which is made once and follows from the sizes alone.
//
// The error names the node that no implementation supports, with its place in the file, or is a
// [*PinError] or an [*MemoryError].
func Compile(g *graph.Graph, o Options) (*Program, error) {
	return CompileContext(context.Background(), g, o)
}

var errNoContext = errors.New("the context is nil: context.Background() is one that never ends")

// CompileContext is [Compile] that ends when the context does: the error is then [context.Cause], with the place at
// which it ended. Strategies find the context in the problem ([layout.Problem.Context]). The program does not depend on
// the context: planning within a run ends with the context of the run.
func CompileContext(ctx context.Context, g *graph.Graph, o Options) (*Program, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	p, err := newProgram(g, o)
	if err != nil {
		return nil, err
	}
	hints := p.options.Hints
	if len(hints) == 0 {
		hints = []map[string]int{nil}
	}
	for i, hint := range hints {
		c, err := p.compiledFor(ctx, hint, true)
		if err != nil && ends.Err(ctx) != nil {
			return nil, fmt.Errorf("compiling the graph: %w", err)
		}
		switch {
		case err != nil && i > 0:
			p.refused = append(p.refused, RefusedHint{hint, err.Error()})
		case err != nil && len(hint) > 0:
			return nil, fmt.Errorf("for %s: %w", sizesText(hint), err)
		case err != nil:
			return nil, err
		case i == 0:
			p.first = c
		}
	}
	if len(p.open) == 0 {
		p.graph = nil // nothing is planned any more
		p.first.release()
	}
	return p, nil
}

// newProgram checks options, and notes what they and the graph fix.
func newProgram(g *graph.Graph, o Options) (*Program, error) {
	if g == nil {
		return nil, errors.New("the graph to compile is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("Options.Threads is %d: want a positive number, or 0, which stands for GOMAXPROCS", o.Threads)
	}
	o.Hints = slices.Clone(o.Hints)
	sizes, err := sizesNamed(g, o.Sizes)
	if err != nil {
		return nil, fmt.Errorf("Options.Sizes: %w", err)
	}
	o.Sizes = sizes
	for i, hint := range o.Hints {
		if o.Hints[i], err = sizesNamed(g, hint); err != nil {
			return nil, fmt.Errorf("Options.Hints[%d]: %w", i, err)
		}
	}
	if o.Strategy == nil {
		o.Strategy = layout.Default()
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Pins, o.Passes = maps.Clone(o.Pins), slices.Clone(o.Passes)
	own := o.Passes != nil
	if o.NoFusion {
		if o.Passes == nil {
			o.Passes = passes.Passes()
		}
		o.Passes = slices.DeleteFunc(o.Passes, func(p passes.Pass) bool { return p.Name == "group" })
	}
	p := &Program{graph: g, options: o, fixed: given(g), ownPasses: own, pool: new(tensor.Pool)}
	p.bound.Number, p.bound.Bytes = keptBindings, max(o.MemoryLimit, 0)
	maps.Copy(p.fixed, o.Sizes)
	for _, hint := range o.Hints { // what a loader gave are sizes for inputs that were made up
		for name := range hint {
			if _, is := o.Sizes[name]; !is {
				delete(p.fixed, name)
			}
		}
	}
	p.findOpen()
	if err := p.checkHints(); err != nil {
		return nil, err
	}
	p.infers = len(g.Symbols) > 0 || len(o.Pins) > 0 || o.KeepGoing || !inferred(g)
	if p.infers || g.Dynamic() {
		// It is read when runs are planned, and by then the caller may have changed it.
		p.graph = g.Clone()
	}
	return p, p.pin()
}

// given returns the sizes of symbols that somebody gave when the graph was loaded or bound.
func given(g *graph.Graph) map[string]int {
	sizes := g.Bound()
	if sizes == nil {
		sizes = map[string]int{}
	}
	for name := range g.Assumed() {
		delete(sizes, name)
	}
	return sizes
}

// inferred reports whether every value has a type, or waits for data.
func inferred(g *graph.Graph) bool {
	return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return len(n.Out) == 0 || !n.Out[0].Dynamic && !n.Out[0].Meta.DType.Valid()
	})
}

// findOpen finds the symbols that runs give sizes to, and the inputs that have symbols.
func (p *Program) findOpen() {
	for i, v := range p.graph.Inputs {
		symbolic := false
		for _, d := range v.Dims {
			if d.Expr != "" {
				symbolic = true
				p.openWithin(d.Expr)
			}
			if d.Symbol == "" {
				continue
			}
			symbolic = true
			if _, fixed := p.fixed[d.Symbol]; !fixed && !slices.Contains(p.open, d.Symbol) {
				p.open = append(p.open, d.Symbol)
			}
		}
		if symbolic {
			p.symbolic = append(p.symbolic, i)
		}
	}
	slices.Sort(p.open)
	p.findPlaces()
	bound := p.graph.Bound()
	for _, name := range p.open {
		p.assumed = append(p.assumed, bound[name])
	}
}

// openWithin notes the symbols of an expression that runs give sizes to.
func (p *Program) openWithin(text string) {
	open := map[string]sym.Int{}
	lookups(text, sym.NewEnv(), open, map[string]int{}, p.fixed)
	for name := range open {
		if !slices.Contains(p.open, name) {
			p.open = append(p.open, name)
		}
	}
}

// checkHints refuses hints that are of no open symbol.
func (p *Program) checkHints() error {
	for i, hint := range p.options.Hints {
		for _, name := range slices.Sorted(maps.Keys(hint)) {
			if _, is := p.options.Sizes[name]; is {
				return fmt.Errorf("Options.Hints[%d]: %s=%d is fixed for all runs", i, name, p.fixed[name])
			}
			if !slices.Contains(p.open, name) {
				return fmt.Errorf("Options.Hints[%d]: no input has a size %s", i, name)
			}
		}
		sizes := slices.Clone(p.assumed)
		for k, name := range p.open {
			if n, is := hint[name]; is {
				sizes[k] = n
			}
		}
		p.hints = append(p.hints, sizes)
	}
	return nil
}

// pin demands what the options do.
func (p *Program) pin() error {
	for _, name := range slices.Sorted(maps.Keys(p.options.Pins)) {
		pin := p.options.Pins[name]
		if err := p.graph.Pin(name, pin); err != nil {
			return &PinError{name, pin, err}
		}
	}
	return nil
}

// RefusedHint is a hint for which there is no plan.
type RefusedHint struct {
	Sizes map[string]int `json:"sizes" doc:"The sizes of the hint, by symbol."`
	Why   string         `json:"why" doc:"Why the graph cannot be planned for them."`
}

// RefusedHints lists those of [Options.Hints], beside the first, for which the graph cannot be planned. Runs are served
// by the plans of the others.
func (p *Program) RefusedHints() []RefusedHint {
	if p == nil {
		return nil
	}
	return slices.Clone(p.refused)
}

// sizesText lists sizes of symbols: "H=224, N=8".
func sizesText(sizes map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		list = append(list, fmt.Sprintf("%s=%d", name, sizes[name]))
	}
	return strings.Join(list, ", ")
}
