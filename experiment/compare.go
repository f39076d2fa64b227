package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Candidate is a program to be measured. If Name is empty, the candidate has the name of the program's strategy.
type Candidate struct {
	Name    string
	Program *graphrun.Program
}

// Options configure [Compare]. The zero value measures 20 runs of each program.
type Options struct {
	// Runs is the number of measured runs of each program; 0 means 20. Before the first measured run, two more runs warm
	// up caches and buffers.
	Runs int
	// Until, if set, is the precision at which the measurement ends. The precision is the half-width of the 95% confidence
	// interval of a median, as a fraction of the median (0.01 is 1%). Every median must reach it. At least 20 runs are
	// measured, and at most Runs. If Runs is 0, the measurement ends after at most 1000 runs or a minute.
	// [Ranking.Unreached] lists the programs that did not reach the precision.
	Until float64
	// Turn is the number of consecutive runs of a program; 0 means 3. The first run of a turn is not measured, because
	// the caches contain data of another program; the other runs measure the steady state. If Turn is 1, every run is
	// measured.
	Turn int
	// Seed determines the order of the programs in each round.
	Seed uint64
	// BoundNS, if set, is a lower bound on the cost of any plan, in nanoseconds: see [LowerBound]. All programs must then
	// have the same graph, pins and prices. If BoundNS is nil, the bound of a candidate is the greatest bound in the
	// reports of all candidates with the same graph, sizes, pins, options and prices.
	BoundNS *float64
	// Progress, if set, is called before each round with the number of finished rounds and the number of all rounds. The
	// number of all rounds is 0 if Until is set.
	Progress func(done, total int)

	measureEqualPlans bool // measures equal plans separately, for tests of the statistics
}

// complete checks the options and sets defaults.
func (o *Options) complete() error {
	if math.IsNaN(o.Until) || o.Until < 0 || o.Until >= 1 {
		return fmt.Errorf("Options.Until is %v: it must be a fraction of the median between 0 and 1, such as 0.01", o.Until)
	}
	if o.Runs <= 0 && o.Until == 0 {
		o.Runs = defaultRuns
	}
	if o.Turn <= 0 {
		o.Turn = defaultTurn
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	return nil
}

// Comparison is the result of [Compare].
type Comparison struct {
	// Rows are the candidates, in their order. The first is the base.
	Rows []Measurement
	// Interrupted means that the context ended before all runs were measured. Rows then have fewer runs.
	Interrupted bool
	// Differences lists, in words, outputs whose values differ from the outputs of the base.
	Differences []string
	// HasOutputs means that all candidates returned outputs. Their values were then compared.
	HasOutputs bool
	// Verdict ranks the candidates by time. It is nil if a candidate was not measured.
	Verdict *Ranking
}

// Measurement has the times of a program and the costs of its plan.
type Measurement struct {
	Name       string `json:"strategy" doc:"The strategy that was applied, or the name of a candidate."`
	MeasuredAs string `json:"measured_as,omitzero" doc:"The candidate with an equal plan that was measured instead; left out if the candidate was measured itself."`
	Spread
	Versus
	report.Costs
	BoundNS *float64  `json:"lower_bound_ns" doc:"A lower bound on the estimated cost of any plan; null if unknown."`
	Gap     *float64  `json:"gap" doc:"The estimated cost less the bound, divided by the bound; null if unknown."`
	Samples []float64 `json:"samples_ns" doc:"The time of each run in nanoseconds, in the order of the runs."`
}

// Compare measures programs of one graph on the same inputs, which the programs must not change. Each round
// runs every program, in a random order, so that disturbances affect all programs in the same way. Compare measures the
// steady state of a program on an otherwise idle machine: see [Options.Turn]. Programs may be compiled in any way: with
// the caller's strategies, costs or passes, with or without pins. Programs with equal plans are measured once.
//
// Every pair of plans is tested for a difference: see [Ranking]. Outputs are compared with the outputs of the first
// program. Integers and bools must be equal. If both programs are exact (graphrun.Options.Exact), only the order of
// summation differs, and floats must agree within a few units in the last place. Otherwise they must agree within 2e-5
// (float32) of the output's largest value. Differences are not an error: they are listed in [Comparison.Differences].
//
// If ctx ends, Compare returns the measurements so far and no error. It fails if a run fails, if there are no
// candidates, or if two candidates have the same name. It returns a [*graphrun.MemoryError] if memory does not suffice
// for all programs at the same time.
func Compare(ctx context.Context, candidates []Candidate, inputs map[string]*tensor.Tensor,
	options Options) (*Comparison, error) {
	if ctx == nil {
		return nil, errors.New("Compare needs a context: it is nil")
	}
	if err := options.complete(); err != nil {
		return nil, err
	}
	allContenders, err := contenders(candidates)
	if err != nil {
		return nil, err
	}
	if !options.measureEqualPlans {
		joinEqualPlans(ctx, allContenders)
	}
	return compare(ctx, allContenders, inputs, options, new(loadMeter))
}

// compare measures contenders and summarizes the measurements. If load is not nil, it also samples the load of the
// machine.
func compare(ctx context.Context, allContenders []*contender, in map[string]*tensor.Tensor, options Options,
	load *loadMeter) (*Comparison, error) {
	session := &session{contenders: measuredContenders(allContenders), hasSeveralCandidates: len(allContenders) > 1,
		inputs: in, Options: options, random: rand.New(rand.NewPCG(options.Seed, 0)), load: load}
	comparison := &Comparison{}
	var err error
	if comparison.Interrupted, err = session.measure(ctx); err != nil {
		return nil, err
	}
	comparison.addRows(allContenders, bounds(ctx, allContenders, options.BoundNS))
	comparison.setVerdict(allContenders, session)
	return comparison, nil
}

// contender is a candidate with its measurements.
type contender struct {
	name            string
	report          *report.Plan
	exact           bool
	measuredInstead *contender // an earlier contender with an equal plan; nil if this contender is measured
	identity                   // identity of the plan and of its layout problem
	run             timedRun

	times       []float64                 // by measured run: its time in nanoseconds
	turnMedians []float64                 // by turn: the median time of its measured runs, in nanoseconds
	out         map[string]*tensor.Tensor // outputs of the last run, by name
}

// timedRun runs a program once and returns its outputs and the time of the run.
type timedRun func(ctx context.Context, in map[string]*tensor.Tensor) (out map[string]*tensor.Tensor,
	took time.Duration, err error)

// contenders returns the candidates as contenders. It checks that memory suffices for all of them together. Each
// program keeps its arena and the outputs of its last run while another run allocates new outputs.
func contenders(candidates []Candidate) ([]*contender, error) {
	if len(candidates) == 0 {
		return nil, errors.New("Compare needs at least one candidate")
	}
	var allContenders []*contender
	var programs []*graphrun.Program
	names, maxOutputs := map[string]bool{}, 0
	for i, candidate := range candidates {
		plan := candidate.Program.Report()
		if plan == nil {
			return nil, fmt.Errorf("candidate %d was not made by Compile", i)
		}
		candidate.Name = cmp.Or(candidate.Name, plan.Strategy)
		if names[candidate.Name] {
			return nil, fmt.Errorf("two candidates are called %q", candidate.Name)
		}
		names[candidate.Name] = true
		allContenders = append(allContenders, &contender{name: candidate.Name, report: plan, exact: plan.Exact,
			run: timedRunOf(candidate.Program), identity: identityOf((*program.Program)(candidate.Program), plan)})
		programs = append(programs, candidate.Program)
		maxOutputs = max(maxOutputs, candidate.Program.Need().Outputs)
	}
	need := Together(programs...)
	need.Outputs += maxOutputs
	const limit = 0                   // the memory that is available to the process
	held := need.Held() + need.Inputs // the inputs are in memory, too
	if err := need.Check(limit, held); err != nil {
		return nil, fmt.Errorf("%d programs do not fit into memory together: %w", len(allContenders), err)
	}
	return allContenders, nil
}

// timedRunOf returns the timedRun of a program.
func timedRunOf(compiled *graphrun.Program) timedRun {
	return func(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, time.Duration, error) {
		start := time.Now()
		out, err := compiled.Run(ctx, in)
		return out, time.Since(start), err
	}
}

// joinEqualPlans sets measuredInstead of contenders with equal plans.
func joinEqualPlans(ctx context.Context, allContenders []*contender) {
	for i, contender := range allContenders {
		for _, earlier := range measuredContenders(allContenders[:i]) {
			if contender.samePlan(ctx, &earlier.identity) {
				contender.measuredInstead = earlier
				break
			}
		}
	}
}

// measuredContenders returns the contenders that are measured, one for each group with equal plans.
func measuredContenders(allContenders []*contender) []*contender {
	return slices.DeleteFunc(slices.Clone(allContenders), func(c *contender) bool { return c.measuredInstead != nil })
}

// bounds returns, for each contender, a lower bound on the cost of any plan. It is callerBound or, if that is nil, the
// greatest bound that a plan of the same layout problem proves. An entry is nil if no bound is known.
func bounds(ctx context.Context, allContenders []*contender, callerBound *float64) []*float64 {
	list := make([]*float64, len(allContenders))
	for i, contender := range allContenders {
		list[i] = cmp.Or(callerBound, contender.report.LowerBoundNS)
		for _, other := range allContenders {
			bound := other.report.LowerBoundNS
			isGreater := bound != nil && (list[i] == nil || *bound > *list[i])
			if callerBound == nil && isGreater && contender.sameProblem(ctx, &other.identity) {
				list[i] = bound
			}
		}
	}
	return list
}

// addRows makes the rows, and compares the outputs of the last runs with the outputs of the base. bounds has the lower
// bound of each contender, or nil.
func (c *Comparison) addRows(allContenders []*contender, bounds []*float64) {
	c.HasOutputs = true
	for i, contender := range allContenders {
		row := Measurement{Name: contender.name, Costs: contender.report.Costs()}
		row.setBound(bounds[i])
		if contender.measuredInstead != nil {
			row.MeasuredAs = contender.measuredInstead.name
			contender = contender.measuredInstead
		}
		row.Spread, row.Samples = SpreadOf(contender.times), program.NotNil(contender.times)
		if i > 0 {
			row.Base = allContenders[0].name
			if contender != allContenders[0] && row.MeasuredAs == "" {
				c.Differences = append(c.Differences, outputDifferences(allContenders[0], contender)...)
			}
		}
		c.HasOutputs = c.HasOutputs && contender.out != nil
		c.Rows = append(c.Rows, row)
	}
}

// setBound sets the lower bound and the gap if the bound is known, positive and finite.
func (m *Measurement) setBound(bound *float64) {
	if bound == nil || !(*bound > 0) || math.IsInf(*bound, 0) {
		return
	}
	gap := m.CostNS / *bound - 1
	if math.Abs(gap) < 1e-12 { // rounding of sums can make a gap of 0 appear as a tiny gap
		gap = 0
	}
	m.BoundNS, m.Gap = bound, &gap
}
