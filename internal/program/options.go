package program

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
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
	Costs          *pricing.Profile
	Tuned          *pricing.Tuned
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
	if err := o.applyTuned(g); err != nil {
		return err
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

// overridable is the program for runs that override defaults of inputs ([graph.Value.Default]). The program of all
// other runs has the defaults as constants, which are folded and packed.
type overridable struct {
	graph   *graph.Graph // with the defaults as inputs
	options Options
	program func() (*Program, error) // makes the program at the first call
}

// newOverridable returns the overridable of a graph. The options are those of the caller.
func newOverridable(g *graph.Graph, options Options) *overridable {
	o := &overridable{graph: g.Clone(), options: options} // the caller may change g
	o.program = sync.OnceValues(func() (*Program, error) { return newProgram(o.graph, o.options) })
	return o
}

// forInputs returns the program for a run with the given inputs, and the inputs completed by defaults.
func (p *Program) forInputs(in map[string]*tensor.Tensor) (*Program, map[string]*tensor.Tensor, error) {
	if p.Overrides(in) {
		var err error
		if p, err = p.overridable.program(); err != nil {
			return nil, nil, err
		}
	}
	if p == nil {
		return p, in, nil
	}
	if len(p.defaults) > 0 {
		in = graph.FillDefaults(p.defaults, in)
	}
	return p, p.withScalars(in), nil
}

// withScalars returns the inputs of a run. Where a scalar is declared, a tensor of one element becomes a scalar, as in
// ONNX Runtime: exporters and users write [1] for such inputs.
func (p *Program) withScalars(in map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	copied := false
	for _, name := range p.scalars {
		t := in[name]
		if t.Check() != nil || t.Rank() == 0 || t.Numel() != 1 {
			continue // the run reports errors
		}
		meta := tensor.New(t.DType)
		meta.Offset = t.Offset
		if scalar, err := t.View(meta); err == nil {
			if !copied {
				in, copied = maps.Clone(in), true
			}
			in[name] = scalar
		}
	}
	return in
}

// Overrides reports whether a run with the given inputs overrides a default that the program has as a constant.
func (p *Program) Overrides(in map[string]*tensor.Tensor) bool {
	return p != nil && p.overridable != nil && slices.ContainsFunc(p.overridable.graph.Inputs, func(v *graph.Value) bool {
		return v.HasConstantDefault() && in[v.Name] != nil
	})
}

// openDevice returns the device that the options name, or nil for the host. The rates in the cost profile (o.Costs)
// replace the device's own rates, unless they were measured on another device. Rates that name no device hold for any
// device.
func (o *Options) openDevice() (graph.Device, error) {
	device, err := devices.Open(o.Device)
	if err != nil || device == nil {
		return nil, err
	}
	if why := device.Inexact(); o.Exact && why != "" {
		return nil, fmt.Errorf("device %s cannot be used with exact results: it does not round as IEEE 754 requires: %s",
			device.Describe(), why)
	}
	if o.Costs != nil {
		openedHardware := device.Rates().Device
		rates, ok := o.Costs.Devices[device.Name()]
		if rates.Device == "" {
			rates.Device = openedHardware
		}
		if ok && rates.Device == openedHardware {
			device = device.WithRates(rates)
		}
	}
	return device, nil
}

// Device returns the device of the program; nil for the host.
func (p *Program) Device() graph.Device { return p.device }
