package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Candidate is a program to be measured. An empty Name is the name of the program's strategy.
type Candidate struct {
	Name    string
	Program *graphrun.Program
}

// Options configure [Compare]. The zero value measures 20 runs of each program.
type Options struct {
	// Runs is the number of measured runs of each program; 0 means 20. Before the first measured run, two more runs warm
	// up caches and buffers.
	Runs int
	// Turn is the number of consecutive runs of a program; 0 means 3. The first run of a turn is not measured, because the
	// caches hold data of another program; the following runs measure the steady state. If Turn is 1 every run is
	// measured, each after a run of another program.
	Turn int
	// Seed determines the order of the programs in each round.
	Seed uint64
	// BoundNS, if set, is a lower bound on the cost of any plan, in nanoseconds: see [LowerBound]. All programs must then
	// have the same graph, pins and prices. If it is nil, the gap of a program is relative to the bound that its own plan
	// reports.
	BoundNS *float64
	// Progress, if set, is called before each round with the number of finished rounds and the number of all rounds.
	Progress func(done, total int)
}

// warmUps is the number of runs before the measured rounds; defaultTurn is the default of [Options.Turn].
const (
	warmUps     = 2
	defaultTurn = 3
)

// Comparison is the result of [Compare].
type Comparison struct {
	// Rows are the candidates, in their order. The first is the base.
	Rows []Measurement
	// Interrupted says that the context ended before all runs: Rows have the measurements until then.
	Interrupted bool
	// Differences lists, in words, outputs whose values differ from those of the base.
	Differences []string
	// Outputs says that all candidates returned outputs, so that values were compared.
	Outputs bool
}

// Measurement has the times of a program and the costs of its plan.
type Measurement struct {
	Name string `json:"strategy" doc:"The strategy that was applied, or the name of a candidate."`
	Spread
	Versus
	report.Costs
	BoundNS *float64  `json:"lower_bound_ns" doc:"A lower bound on the estimated cost of any plan; null if unknown."`
	Gap     *float64  `json:"gap" doc:"The estimated cost less the bound, divided by the bound; null if unknown."`
	Samples []float64 `json:"samples_ns" doc:"The time of each run in nanoseconds, in the order of the runs."`
}

// Compare measures programs of one graph on the same inputs, which the programs must not change. In each round every
// program has a turn, in a random order, so that disturbances affect all programs alike. Compare measures the steady
// state of a program on an otherwise idle machine: see [Options.Turn]. Programs may be compiled in any way: with the
// caller's strategies, costs or passes, with or without pins.
//
// Values of outputs are compared with those of the first program. Integers and bools must be equal. If both programs
// are exact (graphrun.Options.Exact), only the order of summation differs, and floats must agree within a few units in
// the last place. Otherwise they must agree within 2e-5 (float32) of the output's largest value. Differences are not an
// error: they are listed in [Comparison.Differences].
//
// If ctx ends, Compare returns the measurements until then without an error. It fails if a run fails, if there are no
// candidates, or if two candidates have the same name. It returns a [*graphrun.MemoryError] if memory does not suffice
// for all programs at the same time.
func Compare(ctx context.Context, candidates []Candidate, in map[string]*tensor.Tensor,
	o Options) (*Comparison, error) {
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
		o.Turn = defaultTurn
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	c := &Comparison{}
	if c.Interrupted, err = measure(ctx, all, in, o); err != nil {
		return nil, err
	}
	c.summarize(all, o.BoundNS)
	return c, nil
}

// contender is a candidate with its measurements.
type contender struct {
	name    string
	program *graphrun.Program
	report  *report.Plan
	exact   bool
	times   []float64                 // ns
	out     map[string]*tensor.Tensor // of the last run
}

// contenders checks the candidates, and that memory suffices. Each program keeps its arena and the outputs of its last
// run while another run allocates new outputs.
func contenders(candidates []Candidate) ([]*contender, error) {
	if len(candidates) == 0 {
		return nil, errors.New("there is nothing to compare: no candidates")
	}
	var all []*contender
	var programs []*graphrun.Program
	names, most := map[string]bool{}, 0
	for i, x := range candidates {
		r := x.Program.Report()
		if r == nil {
			return nil, fmt.Errorf("candidate %d was not made by Compile", i)
		}
		x.Name = cmp.Or(x.Name, r.Strategy)
		if names[x.Name] {
			return nil, fmt.Errorf("two candidates are called %q", x.Name)
		}
		names[x.Name] = true
		all = append(all, &contender{name: x.Name, program: x.Program, report: r, exact: r.Exact})
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

// measure runs all contenders in rounds, until the last round or until ctx ends.
func measure(ctx context.Context, all []*contender, in map[string]*tensor.Tensor,
	o Options) (interrupted bool, err error) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	each := max(1, o.Turn-1) // measured runs per turn
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

// once runs the program, and records the time if it is measured.
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

// summarize makes the rows, and compares the outputs of the last runs with those of the base.
func (c *Comparison) summarize(all []*contender, bound *float64) {
	base := all[0]
	c.Outputs = true
	for i, x := range all {
		r := x.report
		m := Measurement{Name: x.name, Spread: SpreadOf(x.times), Costs: r.Costs(), Samples: notNil(x.times)}
		if b := cmp.Or(bound, r.LowerBoundNS); b != nil && *b > 0 && !math.IsInf(*b, 0) {
			gap := m.CostNS / *b - 1
			if math.Abs(gap) < 1e-12 { // rounding of sums
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
