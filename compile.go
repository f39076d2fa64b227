package graphrun

import (
	"context"
	"io"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Run compiles a graph with default options and runs it once. Symbols take their sizes from the inputs. For repeated
// runs, compile once with [Compile].
func Run(ctx context.Context, g *graph.Graph, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	p, err := program.New(g, program.Options{InputsHeld: true})
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, in)
}

// Compile plans a graph and prepares it to be run. The graph is not changed, and the program does not depend on it.
// Open sizes are planned for [Options.Hints], or for the sizes that the graph assumes ([graph.Graph.Assumed]). A run
// with other sizes waits until they are bound, by the decisions of a plan that serves them; which plan that is depends
// on the sizes alone.
//
// The error names the node that no implementation supports, with its place in the file, or it is a [*PinError] or a
// [*MemoryError].
func Compile(g *graph.Graph, o Options) (*Program, error) {
	return CompileContext(context.Background(), g, o)
}

// CompileContext is [Compile] that ends when the context does: the error is then [context.Cause], after the stage that
// was interrupted. Strategies find the context in the problem ([layout.Problem.Context]). The program does not depend
// on the context: planning within a run ends with the context of that run.
func CompileContext(ctx context.Context, g *graph.Graph, o Options) (*Program, error) {
	p, err := program.Compile(ctx, g, program.Options(o))
	return (*Program)(p), err
}

// Options choose how a graph is planned and run. Zero values are good defaults.
type Options struct {
	// Strategy chooses layouts and implementations; nil is [Optimal]. Under every strategy, outputs have the layouts
	// that the graph infers, unless they are pinned.
	Strategy Strategy
	// Threads bounds the workers of a run; 0 is GOMAXPROCS.
	Threads int
	// Sizes fixes sizes of symbols for all runs. Symbols without a size here or in the graph's loader take it from
	// the inputs of each run.
	Sizes map[string]int
	// Hints are typical sizes of symbols. The graph is planned for each hint, and a run follows the plan of the nearest
	// hint whose conditions hold at its sizes. Symbols that a hint lacks have the sizes that the graph assumes; without
	// hints the graph is planned for these. [Program.Report] describes the plan of the first hint, which must be
	// possible. A later hint that is rejected is listed in its RefusedHints, and runs with these sizes have the same
	// error.
	Hints []map[string]int
	// Pins demand layouts of values or implementations of nodes, by name, in addition to the graph's own pins. A pin
	// that cannot be met is a [*PinError].
	Pins map[string]graph.Pin
	// Passes is the list of passes that plan the graph; nil is [passes.Passes], to which [passes.Before] and
	// [passes.After] add. With open sizes, passes run for each set of sizes, and once for unknown sizes, where types of
	// values are expressions.
	Passes []passes.Pass
	// NoFusion makes each node a step of its own. By default pointwise nodes over the same elements share a loop.
	NoFusion bool
	// Exact excludes implementations that compute by another formula than the op's definition, such as Winograd
	// convolutions: they are equal for real numbers, and round differently ([graph.Impl.Inexact]).
	Exact bool
	// SolveLimit bounds the time of strategy Optimal beyond variable elimination, which solves networks in
	// milliseconds. 0 is [layout.SolveLimit], 10 seconds; a negative limit is no such search, so that plans do not
	// depend on time. At the limit the best plan found is used, and the report has a lower bound on its cost.
	SolveLimit time.Duration
	// Costs prices work; nil is a default profile for this processor.
	Costs *layout.Profile
	// Tracer, if set, observes runs.
	Tracer Tracer
	// MemoryLimit bounds the bytes of a run. 0 is the memory available to the process when the graph is compiled; a
	// negative limit is none.
	MemoryLimit int
	// InputsHeld says that the inputs of a run are already in memory during compilation.
	InputsHeld bool
	// KeepGoing leaves out nodes that fail at any stage, with their dependents. The error of a run is then an
	// [*Incomplete] beside the other outputs.
	KeepGoing bool
	// Check verifies the graph after each pass, and the values of small graphs. The report lists comparisons that could
	// not be made.
	Check bool
	// Dump, if set, receives the graph as text after each pass.
	Dump io.Writer
	// Progress, if set, is called with the name of each stage: "planning" or "compiling". Runs that plan call it too,
	// from any goroutine.
	Progress func(stage string)
}

// Strategy chooses layouts and implementations. A strategy of one's own gets a [layout.Problem] and returns a
// [layout.Assignment], which the planner applies as it is.
type Strategy = layout.Strategy

// The strategies that are used most; [Strategies] has all.
var (
	// Propagate keeps the layouts of eager PyTorch, and drops redundant copies.
	Propagate Strategy = layout.Propagate
	// Contiguous makes all values row-major.
	Contiguous Strategy = layout.Contiguous
	// ChannelsLast makes images channels-last: the results of convolutions, pools and batch norms, and what follows
	// them.
	ChannelsLast Strategy = layout.ChannelsLast
	// Optimal has the least total cost, with a proof.
	Optimal Strategy = layout.Optimal
)

// Strategies lists the built-in strategies.
func Strategies() []Strategy { return layout.All() }

// StrategyNamed returns one of [Strategies] by its name; an empty name is that of the default.
func StrategyNamed(name string) (Strategy, error) { return layout.Named(name) }

// Tracer observes runs. It and the following are types of other packages that users of this one meet.
type Tracer = exec.Tracer

// Need is the memory of a run, by purpose.
type Need = exec.Need

// MemoryError says that a run needs more memory than it may have.
type MemoryError = exec.MemoryError

// Incomplete lists what a run with [Options.KeepGoing] has left out, and why.
type Incomplete = exec.Incomplete

// PinError is a pin of [Options.Pins] that cannot be met.
type PinError = graph.PinError
