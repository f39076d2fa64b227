package program

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// Options are the options of the root package, which documents the fields.
type Options struct {
	Strategy       layout.Strategy
	Threads        int
	Sizes          map[string]int
	Hints          []map[string]int
	Pins           map[string]graph.Pin
	Passes         []passes.Pass
	NoFusion       bool
	Exact          bool
	Device         string
	SolveLimit     time.Duration
	Slack          float64
	Costs          *layout.Profile
	Tracer         exec.Tracer
	MemoryLimit    int
	InputsInMemory bool
	KeepGoing      bool
	Check          bool
	Dump           io.Writer
	Progress       func(stage string)
	Cache          *diskcache.Cache
	Caches         []graph.GrowingCache
}

// complete checks the options, copies the maps and slices that the caller may change, and sets defaults.
func (o *Options) complete(g *graph.Graph) (err error) {
	if o.Threads < 0 {
		return fmt.Errorf("Options.Threads is %d: want a positive number, or 0, which stands for GOMAXPROCS", o.Threads)
	}
	if o.Sizes, err = sizesByName(g, o.Sizes); err != nil {
		return fmt.Errorf("Options.Sizes: %w", err)
	}
	if err := layout.CheckSlack(o.Slack); err != nil {
		return fmt.Errorf("Options.Slack: %w", err)
	}
	o.Hints = slices.Clone(o.Hints)
	for i, hint := range o.Hints {
		if o.Hints[i], err = sizesByName(g, hint); err != nil {
			return fmt.Errorf("Options.Hints[%d]: %w", i, err)
		}
	}
	if o.Strategy == nil {
		o.Strategy = layout.Default()
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Tracer = exec.SafeTracer(o.Tracer)
	o.Pins, o.Passes, o.Caches = maps.Clone(o.Pins), slices.Clone(o.Passes), slices.Clone(o.Caches)
	return nil
}

// removeGroupPass removes the pass that groups nodes for fusion.
func (o *Options) removeGroupPass() {
	if o.Passes == nil {
		o.Passes = passes.Passes()
	}
	o.Passes = slices.DeleteFunc(o.Passes, func(pass passes.Pass) bool { return pass.Name == "group" })
}

// fixedSizes returns the sizes of the symbols that have one size for all runs: the sizes of the options, and the sizes
// that were given with the graph. If a symbol has hints, a size that was given with the graph does not fix the symbol.
func (o *Options) fixedSizes(g *graph.Graph) map[string]int {
	fixed := givenSizes(g)
	maps.Copy(fixed, o.Sizes)
	for _, hint := range o.Hints {
		for name := range hint {
			if _, ok := o.Sizes[name]; !ok {
				delete(fixed, name)
			}
		}
	}
	return fixed
}

// givenSizes returns the sizes of symbols that were given when the graph was loaded or bound.
func givenSizes(g *graph.Graph) map[string]int {
	sizes := g.BoundSizes()
	if sizes == nil {
		sizes = map[string]int{}
	}
	for name := range g.Assumed() {
		delete(sizes, name)
	}
	return sizes
}
