package program

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"runtime"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/graphdigest"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
)

// This file applies the results of measurements ([pricing.Tuned]), from Options.Tuned or from the cache of files.

// Tuning returns a result without prices for a graph and options, with the properties that a program must have to use
// it: the digest of the call, the machine, the threads and the release. options must not choose prices.
func Tuning(g *graph.Graph, options Options) (*pricing.Tuned, error) {
	if err := options.complete(g); err != nil {
		return nil, err
	}
	return options.tuning(g)
}

// tuning is [Tuning] for complete options.
func (o *Options) tuning(g *graph.Graph) (*pricing.Tuned, error) {
	h := sha256.New()
	if err := o.writeCall(h, g); err != nil {
		return nil, err
	}
	return &pricing.Tuned{Version: pricing.PricesVersion, Graph: g.Name, Call: hex.EncodeToString(h.Sum(nil)),
		Machine: fmt.Sprintf("%s, %s, %d cores", machine.CPUName(), machine.HostFeatures().Name(), runtime.NumCPU()),
		Threads: cmp.Or(o.Threads, runtime.GOMAXPROCS(0)), Release: environment.Release()}, nil
}

// writeCall writes the graph and the options that choose among its plans.
func (o *Options) writeCall(h hash.Hash, g *graph.Graph) error {
	for _, name := range sorted.Keys(o.Pins) {
		fmt.Fprintf(h, "%q %v\n", name, o.Pins[name])
	}
	fmt.Fprintf(h, "%t %t %q\n", o.NoFusion, o.Exact, cmp.Or(o.Device, graph.HostDevice))
	return graphdigest.WriteStructure(h, g.WithConstantDefaults(), o.fixedSizes(g))
}

// tunedKey returns the key of a result in the cache of files.
func tunedKey(t *pricing.Tuned) diskcache.Key {
	h := diskcache.NewHash("tuned")
	fmt.Fprintf(h, "%s\n%s\n%d\n%s", t.Call, t.Machine, t.Threads, t.Release)
	return diskcache.KeyOf(h)
}

// StoreTuned stores a result in a cache of files, where later programs find it. It returns false if it was not stored.
func StoreTuned(cache *diskcache.Cache, t *pricing.Tuned) bool {
	var text bytes.Buffer
	return t.Write(&text) == nil && cache.Add(tunedKey(t), text.Bytes()) != nil
}

// FindTuned returns the result in a cache of files that has the call, machine, threads and release of another one. It
// returns nil if there is none.
func FindTuned(cache *diskcache.Cache, wanted *pricing.Tuned) *pricing.Tuned {
	entry := cache.Find(tunedKey(wanted))
	if entry == nil {
		return nil
	}
	found, err := pricing.ReadTuned(bytes.NewReader(entry.Bytes()))
	runtime.KeepAlive(entry) // the memory of entry is unmapped when entry is collected
	if err != nil || wanted.Explain(found) != nil {
		return nil
	}
	return found
}

// applyTuned sets the prices and the strategy of a result. It fails if a result of the caller is for another graph,
// machine, number of threads or release.
func (o *Options) applyTuned(g *graph.Graph) error {
	if o.Tuned == nil && o.Cache == nil {
		return nil
	}
	wanted, err := o.tuning(g)
	if o.Tuned == nil {
		if err != nil {
			return nil // a graph without a digest is not tuned
		}
		o.Tuned = FindTuned(o.Cache, wanted)
	} else if err = cmp.Or(err, wanted.Explain(o.Tuned)); err != nil {
		return fmt.Errorf("the tuned plan cannot be used: %w", err)
	}
	if o.Tuned == nil || o.Tuned.Plan == pricing.PredictedPlan || o.Strategy.Name() != layout.Optimal.Name() {
		return nil
	}
	o.Costs = o.Costs.WithPrices(&pricing.Prices{Version: pricing.PricesVersion, Prices: o.Tuned.Prices})
	switch o.Tuned.Plan {
	case pricing.MeasuredPlan:
	case pricing.LabeledPlan:
		o.Strategy = labeled{Strategy: layout.GivenNames(o.Tuned.Labels)}
	default:
		strategy, err := layout.Named(o.Tuned.Plan)
		if err != nil {
			return fmt.Errorf("the tuned plan cannot be used: %w", err)
		}
		o.Strategy = strategy
	}
	return nil
}

// labeled is the strategy of the labels of a result. At sizes with another layout problem it is Optimal.
type labeled struct{ layout.Strategy }

// Name returns the name of strategy Optimal, whose prices the plan has.
func (labeled) Name() string { return "tuned" }

// Choose applies the labels if they fit the problem.
func (l labeled) Choose(problem *layout.Problem) (*layout.Assignment, error) {
	chosen, err := l.Strategy.Choose(problem)
	var misfit *layout.GivenError
	if errors.As(err, &misfit) {
		return layout.Optimal.Choose(problem)
	}
	return chosen, err
}

// LabelNames returns the names of labels by variable of a problem, as [pricing.Tuned.Labels].
func LabelNames(problem *wcsp.Problem, labels []int) map[string]string {
	names := make(map[string]string, len(labels))
	for i, variable := range problem.Variables {
		names[variable.Name] = variable.Labels[labels[i]]
	}
	return names
}
