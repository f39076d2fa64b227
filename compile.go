package graphrun

import (
	"context"
	"io"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Run compiles a graph with default options and runs it once. Symbols take their sizes from the inputs. For repeated
// runs, compile once with [Compile].
func Run(ctx context.Context, g *graph.Graph, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	p, err := program.New(g, program.Options{InputsInMemory: true})
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, in)
}

// Compile plans a graph and prepares it to be run. The graph is not changed, and the program does not depend on it. If
// sizes are symbols, the graph is planned for [Options.Hints], or for the sizes that the graph assumes
// ([graph.Graph.Assumed]). A plan has decisions, such as layouts, and the conditions on sizes under which the decisions
// apply. The first run with other sizes applies the decisions of a plan whose conditions hold, or makes a new plan if
// there is no such plan. The plan of a run depends only on the sizes of the run.
//
// Compile fails if no implementation supports a node. The error names the node and its place in the file. It returns a
// [*PinError] for a pin that cannot be met, and a [*MemoryError] if a run would exceed the memory limit.
//
// If ctx ends, Compile stops. The error then names the interrupted stage and wraps [context.Cause]. Strategies find the
// context in [layout.Problem.Context]. The program does not keep the context: planning within a run ends with the
// context of the run.
func Compile(ctx context.Context, g *graph.Graph, o Options) (*Program, error) {
	options := o.internal()
	if g != nil && options.Cache != nil && !usesCatalogue(g) {
		options.Cache = nil // see Options.Cache
	}
	p, err := program.Compile(ctx, g, options)
	if p == nil {
		return nil, err
	}
	return &Program{p}, err
}

// Options choose how a graph is planned and run. Zero values are good defaults.
type Options struct {
	// Strategy chooses layouts and implementations; nil is [Optimal]. Under every strategy, outputs that are not pinned
	// have the layouts that the graph infers.
	Strategy Strategy
	// Threads is the maximum number of workers of a run; 0 is GOMAXPROCS.
	Threads int
	// Sizes fixes sizes of symbols for all runs. A symbol without a size here or in the graph's loader takes its size
	// from the inputs of each run.
	Sizes map[string]int
	// Hints are typical sizes of symbols. The graph is planned for each hint. A run uses the plan of the nearest hint
	// whose conditions hold for the sizes of the run. A symbol that a hint omits has the size that the graph assumes.
	// Without hints, the graph is planned for the assumed sizes of all symbols. [Program.Report] describes the plan of
	// the first hint, for which planning must succeed. If planning fails for a later hint, the report lists the hint in
	// RefusedHints, and runs with these sizes return the same error.
	Hints []map[string]int
	// Pins fix layouts of values or implementations of nodes, by name, in addition to the pins of the graph. A pin that
	// cannot be met is a [*PinError].
	Pins map[string]graph.Pin
	// Passes is the list of passes that plan the graph; nil is [passes.Passes]. [passes.Before] and [passes.After]
	// insert passes into that list. If sizes are symbols, the passes run once for each set of sizes, and once with
	// symbolic types.
	Passes []passes.Pass
	// NoFusion makes each node a separate step. By default pointwise nodes over the same elements share a loop.
	NoFusion bool
	// Exact excludes implementations that compute by another formula than the op's definition, such as Winograd
	// convolutions. Both formulas are equal for real numbers, but floating-point rounding differs
	// ([graph.Impl.Inexact]).
	Exact bool
	// Device is the name of a device that may compute nodes. "vulkan" and "cuda" require that the program imports
	// package gpu of module github.com/graphrun/graphrun/gpu. "auto" is the first device of the machine. Empty and
	// "cpu" are the host. Strategies that solve the layout problem, such as Optimal, choose the place of each value
	// by its price; other strategies use the host. Inputs and outputs are on the host. With Exact, a device that does
	// not round sums and products as IEEE 754 requires is an error.
	Device string
	// SolveLimit is the maximum time of a search by strategy Optimal. Optimal searches only if variable elimination,
	// which takes milliseconds, does not solve the layout problem. 0 is [layout.SolveLimit], 10 seconds. A negative
	// limit disables the search, so that plans do not depend on time. At the limit the best plan found is used, and the
	// report has a lower bound on the cost of all plans.
	SolveLimit time.Duration
	// Slack permits strategy Optimal to choose a more expensive plan if it has fewer copies. It is the maximum
	// additional cost as a share of the least cost, at most 1: 0.005 is 0.5%. If Slack is 0, the strategy chooses among
	// the plans of least cost: first by the number of copies, then by the bytes of the copies. The report says whether
	// it is proved that fewer copies are impossible within the slack.
	Slack float64
	// Costs prices work; nil is a default profile for this processor.
	Costs *pricing.Profile
	// Tuned is a result of measurements of this graph on this machine, which command tune and Tune of package experiment
	// make. The strategy Optimal then uses its prices and its plan. Compile fails if it is for another graph or other
	// options, or if it was measured on another machine, with other Threads or another version. Nil is the result in
	// Cache, if any.
	Tuned *pricing.Tuned
	// Tracer, if set, observes runs.
	Tracer Tracer
	// MemoryLimit is the maximum memory of a run in bytes. 0 is the memory available to the process when the graph is
	// compiled. The values on a device are limited by the memory of the device. A negative value disables both limits.
	MemoryLimit int
	// InputsInMemory says that the inputs of a run are already in memory during compilation.
	InputsInMemory bool
	// KeepGoing omits nodes that fail at any stage, and the nodes that depend on them. A run then returns the other
	// outputs together with the error [*Incomplete].
	KeepGoing bool
	// Check verifies the graph after each pass, and compares the values of small graphs with the reference values. The
	// report lists comparisons that were impossible. For the sizes of a run, the plan that is bound to them is compared
	// with one that is made anew; a difference is an error.
	Check bool
	// Dump, if set, receives the graph as text after each pass.
	Dump io.Writer
	// Progress, if set, is called with the name of each stage: "planning" or "compiling". Runs that plan new sizes call
	// it too, from any goroutine.
	Progress func(stage string)
	// Cache stores constants, packed weights and plans for later processes and for processes that run at the same time:
	// see [OpenCache]. Nil stores nothing. Results have the same bits with and without a cache. The report of a program
	// that was made from a stored plan has no proof of the plan's cost. Graphs with ops outside of package kernels, or
	// whose Lookup extends ops of package kernels, are not stored; the plans of a user-defined strategy or list of passes are not stored.
	Cache *Cache
	// Caches are inputs that a run extends in place, such as the keys and values of earlier tokens: see [GrowingCache] and
	// [RecognizedCaches].
	Caches []GrowingCache
}

// internal returns the options of package program, which has the same fields.
func (o Options) internal() program.Options {
	return program.Options{Strategy: o.Strategy, Threads: o.Threads, Sizes: o.Sizes, Hints: o.Hints, Pins: o.Pins,
		Passes: o.Passes, NoFusion: o.NoFusion, Exact: o.Exact, Device: o.Device, SolveLimit: o.SolveLimit,
		Slack: o.Slack, Costs: o.Costs, Tuned: o.Tuned, Tracer: o.Tracer, MemoryLimit: o.MemoryLimit,
		InputsInMemory: o.InputsInMemory, KeepGoing: o.KeepGoing, Check: o.Check, Dump: o.Dump, Progress: o.Progress,
		Cache: o.Cache.Internal(), Caches: o.Caches}
}

// GrowingCache is an input whose memory an output shares. The output is the input with further elements behind it along
// a dimension. Without a cache, each run copies the input to the output. With it, a run writes only the new elements:
//
//	Options{Caches: []GrowingCache{{Input: "past", Output: "present", Axis: 2, Capacity: 2048}}}
//
// makes present = cat([past, new], 2) a store of new. The tensor of past, of shape [B, H, P, D], has the strides of
// [B, H, 2048, D], and its storage has space for that many elements. The output is a view of the same storage of shape
// [B, H, P+S, D], and the input of the next run. [Program.CachesOf] allocates caches once:
//
//	in, err := p.CachesOf(in)                // moves the caches, which may be empty, to memory of the capacity
//	for {
//		out, err := p.Run(ctx, in)
//		for _, c := range p.Caches() {
//			in[c.Input] = out[c.Output]
//		}
//		in["input_ids"] = next(out["logits"])
//	}
//
// The input keeps its elements, except that a scatter, as in GroupQueryAttention of ONNX Runtime, may overwrite some.
// If a run fails, elements behind those of the input are undefined.
//
// Compile fails if the output is no concatenation of the input and another value, or if something else reads an input
// that a scatter overwrites. A run fails, and writes nothing, if the result would exceed the capacity, or if a tensor
// has other strides, too little storage, or shares memory with another tensor of the run. RunInto needs no tensor for
// the output; a tensor that is given must be the view of the cache.
type GrowingCache = graph.GrowingCache

// RecognizedCaches stands for all caches whose inputs and outputs have the names that exporters give them, such as
// past_key_values.0.key and present.0.key. Optimum, onnxruntime-genai and ONNX Runtime's scripts use such names.
// [Program.Caches] lists the caches that were found; Compile fails if there are none, or if one of them cannot grow.
func RecognizedCaches(capacity int) []GrowingCache { return []GrowingCache{{Capacity: capacity}} }

// Cache is a directory of stored weights and plans: see [OpenCache]. It may be used from several goroutines.
type Cache struct{ files *diskcache.Cache }

// Internal returns the cache for other packages of this module; nil if there is none.
func (c *Cache) Internal() *diskcache.Cache {
	if c == nil {
		return nil
	}
	return c.files
}

// CacheOptions are the options of a [Cache]. Zero values are good defaults.
type CacheOptions struct {
	// MaxBytes is the maximum total size of the files; 0 means 16 GiB. The least recently used files are removed first.
	MaxBytes int64
	// Warn is called once, with the first error of a write. Nothing is written after this error. If Warn is nil,
	// package slog logs the error.
	Warn func(error)
}

// OpenCache returns the cache in a directory, which the first write creates with access for this user only. Programs
// and processes may share it. Its files are immutable. The name of a file is a digest of the model, the options, the
// cost profile, the processor's instruction set and the build of the executable. Programs map the files of the cache
// into memory. Damaged files are made again. Only graphrun may write to the directory.
//
// OpenCache does not fail. Without access to the directory, programs are compiled without the cache. If a file cannot
// be written, [CacheOptions] receives one warning, and nothing more is written.
func OpenCache(dir string, o CacheOptions) *Cache {
	return &Cache{diskcache.Open(dir, diskcache.Options(o))}
}

// usesCatalogue reports whether all ops of a graph, and those by which passes replace them, are in package kernels.
func usesCatalogue(g *graph.Graph) bool {
	for _, op := range kernels.All() {
		if own := g.Op(op.Name); own != nil && own != op {
			return false
		}
	}
	for _, n := range g.Nodes {
		if n.Op == nil || kernels.Lookup(n.Op.Name) != n.Op {
			return false
		}
		for _, attr := range n.AttrsAsGiven() {
			if body, ok := attr.(*graph.Graph); ok && body != nil && !usesCatalogue(body) {
				return false
			}
		}
	}
	return true
}

// Strategy chooses layouts and implementations. A user-defined strategy gets a [layout.Problem] and returns a
// [layout.Assignment], which the planner applies unchanged.
type Strategy = layout.Strategy

// The most common strategies. [Strategies] lists all strategies.
var (
	// Propagate keeps the layouts of eager PyTorch, and drops redundant copies.
	Propagate Strategy = layout.Propagate
	// Contiguous makes all values row-major.
	Contiguous Strategy = layout.Contiguous
	// ChannelsLast makes images channels-last. Images are the results of convolutions, poolings and batch norms, and
	// the values computed from these results.
	ChannelsLast Strategy = layout.ChannelsLast
	// Optimal has the least total cost, with a proof.
	Optimal Strategy = layout.Optimal
)

// Strategies lists the built-in strategies.
func Strategies() []Strategy { return layout.All() }

// StrategyNamed returns the strategy of [Strategies] with the name, and the default strategy for an empty name.
func StrategyNamed(name string) (Strategy, error) { return layout.Named(name) }

// Tracer observes runs.
type Tracer = exec.Tracer

// Need is the memory of a run, by purpose.
type Need = exec.Need

// MemoryError reports that a run needs more memory than its limit allows.
type MemoryError = exec.MemoryError

// Incomplete lists the outputs that a run with [Options.KeepGoing] could not compute, with the causes.
type Incomplete = exec.Incomplete

// PinError is a pin of [Options.Pins] that cannot be met.
type PinError = graph.PinError
