package graphrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Candidate is a program that [Compare] measures beside others. An empty Name is that of the program's strategy.
type Candidate struct {
	Name    string
	Program *Program
}

// CompareOptions choose what [Compare] does. The zero value measures 20 runs.
type CompareOptions struct {
	// Runs is the number of measured runs of each program; 0 is 20. Two more warm caches and buffers up before them.
	Runs int
	// Turn is how often a program runs in a row when it is its turn; 0 is 3. The first of these runs is not measured: it
	// finds in the caches what another program left there, and the following ones what the program itself did, as where
	// one program runs all the time. With 1 every run is measured, and each follows one of another program.
	Turn int
	// Seed chooses the order of the programs within each round.
	Seed uint64
	// BoundNS, if set, is what any plan costs at least, for graph, pins and prices that all programs share: see
	// [LowerBound]. Without it the gap of each is that to the bound that its own plan reports.
	BoundNS *float64
	// Progress, if set, is told before each round how many are done, of how many.
	Progress func(done, total int)
}

// warmUps is the number of runs before the measured rounds; usualTurn is the default of [CompareOptions.Turn].
const (
	warmUps   = 2
	usualTurn = 3
)

// Comparison is what [Compare] measured.
type Comparison struct {
	// Rows are the candidates, in their order. The first is the base.
	Rows []Measurement
	// Interrupted says that the context ended before all runs were done: Rows have what was measured until then.
	Interrupted bool
	// Differences tells of outputs with other values than the base gives, in words; empty where all agree.
	Differences []string
	// Outputs says that each candidate gave outputs, so that values were compared.
	Outputs bool
}

// Measurement is what was measured of a program, and what its plan costs.
type Measurement struct {
	Name string `json:"strategy" doc:"The strategy that was applied, or the name of a candidate."`
	Spread
	Versus
	PlanCosts
	BoundNS *float64  `json:"lower_bound_ns" doc:"What any plan costs at least by the model; null where unknown."`
	Gap     *float64  `json:"gap" doc:"By what part of the bound the estimated cost exceeds it; null where unknown."`
	Samples []float64 `json:"samples_ns" doc:"The time of each run in nanoseconds, in the order of the runs."`
}

// Compare measures programs of one graph side by side, on the same inputs, which they must not change. In each round
// every program has a turn, in an order that is drawn anew, so that whatever slows the machine down slows all of them.
// What is measured is a program in its steady state, that has the machine for itself: see [CompareOptions.Turn].
// Programs may be compiled in any way: by strategies, costs or passes of one's own, with pins or without.
//
// Values of outputs are compared with those of the first program: integers and bools exactly; floats of programs that
// are both exact ([Options.Exact]) within a few units in the last place, since another order of summation is all that
// plans may change; floats of others within 2e-5 (float32) of the output's largest value. That they differ is no error
// but listed in [Comparison.Differences].
//
// When ctx ends there is no error: what was measured until then is returned. The error is that of a run, or that there
// are no candidates, that two have one name, or a [*MemoryError] where there is no memory for all at the same time.
func Compare(ctx context.Context, candidates []Candidate, in map[string]*tensor.Tensor,
	o CompareOptions) (*Comparison, error) {
	if ctx == nil {
		return nil, errors.New("Compare needs a context: it is nil")
	}
	all, err := contenders(candidates)
	if err != nil {
		return nil, err
	}
	if o.Runs <= 0 {
		o.Runs = 20
	}
	if o.Turn <= 0 {
		o.Turn = usualTurn
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	c := &Comparison{}
	if c.Interrupted, err = measure(ctx, all, in, o); err != nil {
		return nil, err
	}
	c.sumUp(all, o.BoundNS)
	return c, nil
}

// contender is a candidate while it is measured.
type contender struct {
	name    string
	program *Program
	times   []float64                 // ns
	out     map[string]*tensor.Tensor // of the last run
}

// contenders checks candidates, and that their runs can be in memory at the same time: each program keeps its arena and
// the outputs of its last run, while one of them makes others.
func contenders(candidates []Candidate) ([]*contender, error) {
	if len(candidates) == 0 {
		return nil, errors.New("there is nothing to compare: no candidates")
	}
	var all []*contender
	var programs []*Program
	names, most := map[string]bool{}, 0
	for i, x := range candidates {
		if x.Program == nil || x.Program.options.Strategy == nil {
			return nil, fmt.Errorf("candidate %d was not made by Compile", i)
		}
		if x.Name == "" {
			x.Name = x.Program.options.Strategy.Name()
		}
		if names[x.Name] {
			return nil, fmt.Errorf("two candidates are called %q", x.Name)
		}
		names[x.Name] = true
		all = append(all, &contender{name: x.Name, program: x.Program})
		programs = append(programs, x.Program)
		most = max(most, x.Program.Need().Outputs)
	}
	n := Together(programs...)
	n.Outputs += most
	if err := n.Check(0, n.Held()+n.Inputs); err != nil {
		return nil, fmt.Errorf("%d programs side by side: %w", len(all), err)
	}
	return all, nil
}

// measure runs all in rounds, until there were enough or ctx ends.
func measure(ctx context.Context, all []*contender, in map[string]*tensor.Tensor,
	o CompareOptions) (cut bool, err error) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	each := max(1, o.Turn-1) // measured runs of a turn
	rounds := 1 + (o.Runs+each-1)/each
	for i := range rounds {
		o.Progress(i, rounds)
		first, runs := 0, warmUps
		if i > 0 {
			first = o.Turn - each
			runs = first + min(each, o.Runs-(i-1)*each)
		}
		for _, k := range r.Perm(len(all)) {
			for j := range runs {
				if ctx.Err() != nil {
					return true, nil
				}
				err := all[k].once(ctx, in, i > 0 && j >= first)
				switch {
				case err == nil:
				case ctx.Err() != nil:
					return true, nil
				case len(all) > 1:
					return false, fmt.Errorf("%w (strategy %s)", err, all[k].name)
				default:
					return false, err
				}
			}
		}
	}
	return false, nil
}

// once runs the program, and notes the time if it is measured.
func (c *contender) once(ctx context.Context, in map[string]*tensor.Tensor, measured bool) error {
	start := time.Now()
	out, err := c.program.Run(ctx, in)
	took := time.Since(start)
	if err != nil {
		return err
	}
	c.out = out
	if measured {
		c.times = append(c.times, float64(took))
	}
	return nil
}

// sumUp makes the rows, and compares the outputs of the last runs with the base's, as far as there were runs.
func (c *Comparison) sumUp(all []*contender, bound *float64) {
	base := all[0]
	c.Outputs = true
	for i, x := range all {
		r := x.program.Report()
		m := Measurement{Name: x.name, Spread: SpreadOf(x.times), PlanCosts: r.Costs(), Samples: filled(x.times)}
		if b := cmp.Or(bound, r.LowerBoundNS); b != nil && *b > 0 && !math.IsInf(*b, 0) {
			gap := m.CostNS / *b - 1
			if math.Abs(gap) < 1e-12 { // sums in another order
				gap = 0
			}
			m.BoundNS, m.Gap = b, &gap
		}
		if i > 0 {
			m.Versus = VersusOf(base.times, x.times)
			m.Base = base.name
			c.Differences = append(c.Differences, disagree(base, x)...)
		} else if m.Runs > 0 {
			m.Ratio = new(1.0)
		}
		c.Outputs = c.Outputs && x.out != nil
		c.Rows = append(c.Rows, m)
	}
}

// LowerBound returns what any plan of a graph costs at least under the options, as the strategy "optimal" proves it;
// their Strategy does not count. Nil where there is no such strategy, or where it proves nothing. The error is that the
// graph cannot be planned so.
func LowerBound(g *graph.Graph, o Options) (*float64, error) {
	s, err := StrategyNamed("optimal")
	if err != nil {
		return nil, nil
	}
	o.Strategy, o.Tracer, o.Check, o.Dump = s, nil, false, nil
	p, err := Compile(g, o)
	if err != nil {
		return nil, err
	}
	return p.Report().LowerBoundNS, nil
}
