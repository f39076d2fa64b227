package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/steptimes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// TuneOptions configure [Tune]. Zero values are good defaults.
type TuneOptions struct {
	// Budget is the time of the measurements; 0 means a minute. Tune exceeds it by the time of a few runs.
	Budget time.Duration
	// Regret is the bound on the regret, as a share of the cost, at which no further labels are measured; 0 means 0.02.
	Regret float64
	// Before is an earlier result for the same graph, options and machine, whose prices are used. Nil is the result in the
	// Cache of the options, if any.
	Before *pricing.Tuned
	// Seed determines the order of the programs in each round.
	Seed uint64
	// Progress, if set, is called before each measurement, with the state in words and the rest of the budget.
	Progress func(state string, left time.Duration)
}

// Tuning is the result of [Tune].
type Tuning struct {
	// Result is the result for [graphrun.Options.Tuned].
	Result *pricing.Tuned
	// Choice is the comparison of whole runs of the plans found, by which the finalists were chosen. Final is a
	// comparison of the finalists, in other runs; it is nil if there is only one plan.
	Choice, Final *Comparison
	// Regret is the regret of the plan at measured prices.
	Regret *layout.RegretBound
	// Rounds is the number of times that labels were measured.
	Rounds int
	// Interrupted means that the context ended before the end of the measurements; the result then has the prices.
	Interrupted bool
}

// Names of candidates of [Tune].
const (
	measuredName  = "plan at measured prices"
	predictedName = "plan at predicted prices"
	samePlanText  = "the " + predictedName + " is the cheapest at measured prices, too: "
)

// Parts of the budget of [Tune], and of its measurements.
const (
	labelShare    = 0.55                   // the part of the budget for the labels; the rest is for whole runs
	labelRounds   = 6                      // the least number of rounds of a measurement of labels, unless the budget is short
	mostRounds    = 40                     // the greatest number
	labelTime     = 300 * time.Millisecond // of a measurement of labels with more than the least number of rounds
	runsOfTurn    = 2                      // measured runs of a turn
	choiceRuns    = 24                     // the least number of runs of each candidate
	finalRuns     = 48                     // the least number of runs of each finalist
	mostRuns      = 400                    // the greatest number of both
	wholeTime     = 2 * time.Second        // of whole runs, with more than the least number
	fewestRuns    = 8                      // of each candidate, if the budget is short
	bestPlans     = 3                      // the number of cheapest plans among the candidates
	maxPlanCost   = 1.3                    // strategies whose plans cost more than this, relative to the cheapest, are not measured
	stalledRounds = 3                      // rounds without a better bound after which no further labels are measured
	maxCorrection = 2                      // times that labels are measured again because whole runs contradict their sum
	noticedSpread = 0.25                   // the relative interquartile range from which a comparison concludes nothing
)

// Tune measures on this machine which plan of a graph is fastest, with the threads and the sizes of the options.
//
// The labels of a plan are its choices: implementations, orders and copies. Tune runs plans, and takes the times of their
// steps as measured prices of the labels, in the state of the caches in which a plan meets them. It solves the layout
// problem exactly at these prices, and bounds the regret of the solution ([layout.RegretBound]). The plan that may be cheaper
// has the labels that matter, and is measured next. This ends when the bound is below TuneOptions.Regret. Then the
// plans at measured and at predicted prices, the next best plans and the other strategies are measured whole, in turns
// ([Compare]). The fastest of them are measured again, so that luck in the choice does not count. If a plan is
// significantly faster than its price says, its labels are measured again.
//
// The options must not have a Tracer. Their Strategy and Costs give the plan without measured prices; Tuned is ignored. If
// they have a Cache, the result is stored in it. Inputs are not changed. If ctx ends, Tune returns what was measured so
// far, as if the plan at predicted prices were the fastest.
func Tune(ctx context.Context, g *graph.Graph, options graphrun.Options, in map[string]*tensor.Tensor,
	tune TuneOptions) (*Tuning, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	t, err := newTuner(ctx, g, options, in, tune)
	if err != nil {
		return nil, err
	}
	for range 1 + maxCorrection {
		if err := t.measureLabels(); err != nil {
			return t.interrupted(err)
		}
		contradicted, err := t.measurePlans()
		if err != nil {
			return t.interrupted(err)
		}
		if contradicted == nil || t.left() < t.budget/5 {
			break
		}
		t.progress("labels of " + contradicted.name)
		if err := t.measure([]*tunedPlan{t.predicted, t.measured, contradicted}); err != nil {
			return t.interrupted(err)
		}
	}
	if err := t.measureFinal(); err != nil {
		return t.interrupted(err)
	}
	return t.result, nil
}

// tuner is the state of [Tune].
type tuner struct {
	TuneOptions
	ctx     context.Context
	graph   *graph.Graph
	options graphrun.Options // of the plan at predicted prices
	in      map[string]*tensor.Tensor
	random  *rand.Rand
	start   time.Time
	budget  time.Duration
	result  *Tuning
	cache   *diskcache.Cache // where the result is stored; nil for none

	samples     map[string]*labelTimes
	referenceNS float64           // the time of the steps of predicted in the first measurement, to which later times are scaled
	predicted   *tunedPlan        // the plan at predicted prices
	repeated    graphrun.Strategy // makes it again at other prices
	measured    *tunedPlan        // the cheapest plan at the measured prices so far
	profile     *pricing.Profile
	candidates  []*tunedPlan
	finalists   []*tunedPlan
}

// labelTimes are the measured times of a label, in nanoseconds.
type labelTimes struct {
	label pricing.LabelPrice
	times []float64
}

// tunedPlan is a plan that Tune measures.
type tunedPlan struct {
	name    string
	choice  string            // pricing.Tuned.Plan
	labels  []int             // with choice pricing.LabeledPlan
	program *graphrun.Program // with times as its tracer
	times   *steptimes.Tracer
	steps   []stepLabel
	key     string  // equal for plans with equal labels
	runNS   float64 // the time of a run
}

// newTuner compiles and runs the plan at predicted prices.
func newTuner(ctx context.Context, g *graph.Graph, options graphrun.Options, in map[string]*tensor.Tensor,
	tune TuneOptions) (*tuner, error) {
	t := &tuner{TuneOptions: tune, ctx: ctx, graph: g, options: options, in: in, start: time.Now(),
		random: rand.New(rand.NewPCG(tune.Seed, 1)), samples: map[string]*labelTimes{}, result: &Tuning{}}
	if t.budget = tune.Budget; t.budget <= 0 {
		t.budget = time.Minute
	}
	if t.Regret <= 0 {
		t.Regret = 0.02
	}
	if t.Progress == nil {
		t.Progress = func(string, time.Duration) {}
	}
	if options.Tracer != nil {
		return nil, errors.New("Tune needs the tracer of the options for itself")
	}
	if g == nil {
		return nil, errors.New("the graph to tune is nil")
	}
	t.cache, t.options.Tuned, t.options.Cache = options.Cache.Internal(), nil, nil
	internal := program.Options{Threads: options.Threads, Sizes: options.Sizes, Hints: options.Hints, Pins: options.Pins,
		NoFusion: options.NoFusion, Exact: options.Exact, Device: options.Device}
	var err error
	if t.result.Result, err = program.Tuning(g, internal); err != nil {
		return nil, err
	}
	if t.Before == nil {
		t.Before = program.FindTuned(t.cache, t.result.Result)
	} else if err := t.result.Result.Explain(t.Before); err != nil {
		return nil, fmt.Errorf("the earlier result cannot be continued: %w", err)
	}
	t.progress("the plan at predicted prices")
	if t.predicted, err = t.compile(predictedName, pricing.PredictedPlan, t.options); err != nil {
		return nil, err
	}
	if t.repeated, err = Repeated(t.predicted.program); err != nil {
		return nil, err
	}
	t.result.Result.Sizes = t.predicted.program.Internal().FirstBinding().Graph.BoundSizes()
	t.measured = t.predicted
	return t, nil
}

// left returns the rest of the budget.
func (t *tuner) left() time.Duration { return t.budget - time.Since(t.start) }

// progress reports what is measured next.
func (t *tuner) progress(doing string) {
	state := fmt.Sprintf("measuring %s; %d prices", doing, len(t.samples))
	if t.result.Regret != nil {
		state += fmt.Sprintf(", regret at most %.2g%%", 100*t.result.Regret.Share)
	}
	t.Progress(state, max(0, t.left()))
}

// interrupted returns what was measured until the context ended, or the error of a measurement.
func (t *tuner) interrupted(err error) (*Tuning, error) {
	if t.ctx.Err() == nil {
		return nil, err
	}
	t.result.Interrupted = true
	t.conclude(t.predicted, "interrupted: nothing is concluded")
	return t.result, nil
}

// prices returns the measured prices. They replace those of an earlier result with fewer runs.
func (t *tuner) prices() *pricing.Prices {
	list := &pricing.Prices{Version: pricing.PricesVersion}
	before := map[string]int{}
	if t.Before != nil {
		list.Prices = slices.Clone(t.Before.Prices)
		for i := range list.Prices {
			before[labelKey(&list.Prices[i])] = list.Prices[i].Samples
		}
	}
	for key, measured := range t.samples {
		if len(measured.times) >= min(before[key], labelRounds*runsOfTurn) {
			list.AddPrice(priced(measured.label, measured.times))
		}
	}
	return list
}

// labelKey identifies a label.
func labelKey(label *pricing.LabelPrice) string {
	return fmt.Sprintf("%q %s %s %v %v", label.Node, label.Op, label.Implementation, label.Order, label.Operands)
}

// compile compiles a plan.
func (t *tuner) compile(name, choice string, options graphrun.Options) (*tunedPlan, error) {
	plan := &tunedPlan{name: name, choice: choice, times: steptimes.New()}
	options.Tracer = plan.times
	var err error
	if plan.program, err = graphrun.Compile(t.ctx, t.graph, options); err != nil {
		return nil, err
	}
	plan.steps = stepLabels(plan.program)
	var key strings.Builder
	for i := range plan.steps {
		key.WriteString(labelKey(&plan.steps[i].label))
		key.WriteByte('\n')
	}
	plan.key = key.String()
	return plan, nil
}

// compileLabels compiles the plan of labels of the problem at the measured prices.
func (t *tuner) compileLabels(name string, labels []int) (*tunedPlan, error) {
	options := t.options
	options.Costs = t.profile
	options.Strategy = layout.Given(&wcsp.Solution{Version: wcsp.Version, Labels: labels})
	plan, err := t.compile(name, pricing.LabeledPlan, options)
	if err == nil {
		plan.labels = labels
	}
	return plan, err
}

// measureLabels measures labels until the regret of the cheapest plan at their prices is low.
func (t *tuner) measureLabels() error {
	lowest, stalled := math.Inf(1), 0
	for {
		if err := t.solve(); err != nil {
			return err
		}
		unmeasured := t.unmeasured(t.measured)
		if t.result.Regret.Share < 0.98*lowest || unmeasured > 0 {
			lowest, stalled = min(lowest, t.result.Regret.Share), 0
		} else {
			stalled++
		}
		isFirst := t.result.Rounds == 0
		isSure := unmeasured == 0 && (t.result.Regret.Share <= t.Regret || stalled >= stalledRounds)
		if !isFirst && (isSure || time.Since(t.start) > time.Duration(labelShare*float64(t.budget))) {
			return nil
		}
		plans := []*tunedPlan{t.predicted}
		if t.measured.key != t.predicted.key {
			plans = append(plans, t.measured)
		}
		if unmeasured == 0 || isFirst {
			other, err := t.compileLabels("the plan that may be cheaper", t.result.Regret.Other())
			if err != nil {
				return err
			}
			if other.key != t.predicted.key && other.key != t.measured.key {
				plans = append(plans, other)
			}
		}
		t.progress(fmt.Sprintf("labels of %d plans", len(plans)))
		if err := t.measure(plans); err != nil {
			return err
		}
	}
}

// solve finds the cheapest plan at the measured prices, its regret, and the plan that may be cheaper.
func (t *tuner) solve() error {
	t.profile = t.options.Costs.WithPrices(t.prices())
	options := t.options
	options.Costs = t.profile
	plan, err := t.compile(measuredName, pricing.MeasuredPlan, options)
	if err != nil {
		return err
	}
	if plan.key == t.measured.key {
		plan.runNS = t.measured.runNS
	}
	t.measured = plan
	model, err := plan.program.Internal().Model()
	if err != nil {
		return err
	}
	t.result.Regret, err = model.Regret(plan.program.Internal().FirstBinding().Plan.Solution.Labels, false)
	return err
}

// unmeasured counts the labels of a plan without a measured price.
func (t *tuner) unmeasured(plan *tunedPlan) (count int) {
	prices := t.profile.Prices
	for i := range plan.steps {
		key := labelKey(&plan.steps[i].label)
		if !slices.ContainsFunc(prices, func(price pricing.LabelPrice) bool { return labelKey(&price) == key }) {
			count++
		}
	}
	return count
}

// measure runs plans in turns, and adds the times of their steps. The first plan, of which all measurements have runs,
// tells how fast the machine is at present.
func (t *tuner) measure(plans []*tunedPlan) error {
	rounds := labelRounds
	if round := t.timeOf(plans); round > 0 {
		rounds = min(max(labelRounds, int(labelTime/round)), mostRounds, max(2, int(t.budget/8/round)))
	}
	for range rounds {
		for _, k := range t.random.Perm(len(plans)) {
			plan := plans[k]
			for i := range 1 + runsOfTurn {
				if err := t.ctx.Err(); err != nil {
					return err
				}
				plan.times.Pause(i == 0)
				start := time.Now()
				if _, err := plan.program.Run(t.ctx, t.in); err != nil {
					return err
				}
				if i > 0 {
					plan.runNS = float64(time.Since(start))
				}
			}
		}
	}
	t.result.Rounds++
	scale := 1.0
	for k, plan := range plans {
		samples, totals := plan.times.Take()
		if k == 0 {
			median := *SpreadOf(totals).Median
			if t.referenceNS == 0 {
				t.referenceNS = median
			}
			scale = t.referenceNS / median
		}
		for i := range plan.steps {
			step := &plan.steps[i]
			t.addTimes(&step.label, samples[step.step], scale)
		}
	}
	runtime.GC() // of programs that are no longer needed
	return nil
}

// timeOf estimates the time of a round of plans.
func (t *tuner) timeOf(plans []*tunedPlan) time.Duration {
	sum := 0.0
	for _, plan := range plans {
		sum += float64((1 + runsOfTurn) * cmp.Or(plan.runNS, t.predicted.runNS))
	}
	return time.Duration(sum)
}

// addTimes adds measured times of a label.
func (t *tuner) addTimes(label *pricing.LabelPrice, times []float64, scale float64) {
	key := labelKey(label)
	known := t.samples[key]
	if known == nil {
		known = &labelTimes{label: *label}
		t.samples[key] = known
	}
	for _, ns := range times {
		known.times = append(known.times, ns*scale)
	}
}

// measurePlans measures whole runs of the candidates. It sets the finalists, and returns the plan that is significantly
// faster than the plan at measured prices, if any.
func (t *tuner) measurePlans() (contradicted *tunedPlan, err error) {
	if t.candidates, err = t.findCandidates(); err != nil {
		return nil, err
	}
	t.finalists = t.candidates[:1]
	if len(t.candidates) == 1 {
		return nil, nil
	}
	t.progress(fmt.Sprintf("whole runs of %d plans", len(t.candidates)))
	if t.result.Choice, err = t.compare(t.candidates, choiceRuns, 0.4); err != nil {
		return nil, err
	}
	verdict := t.result.Choice.Verdict
	byTime := slices.Clone(t.candidates)
	slices.SortStableFunc(byTime, func(a, b *tunedPlan) int {
		return cmp.Compare(t.result.Choice.medianOf(a.name), t.result.Choice.medianOf(b.name))
	})
	t.finalists = []*tunedPlan{t.candidates[0]} // the plan at measured prices, at predicted prices, and the fastest two
	for _, plan := range append([]*tunedPlan{t.candidates[1]}, byTime[:2]...) {
		if !slices.Contains(t.finalists, plan) {
			t.finalists = append(t.finalists, plan)
		}
	}
	pair := verdict.pair(byTime[0].name, measuredName)
	if byTime[0] != t.candidates[0] && pair != nil && pair.Significant {
		return byTime[0], nil
	}
	return nil, nil
}

// findCandidates compiles the plans to compare: the plan at measured prices, the plan at predicted
// prices, the next best plans, and other strategies. Of equal plans it takes the first.
func (t *tuner) findCandidates() ([]*tunedPlan, error) {
	list, keys := []*tunedPlan{t.measured}, map[string]bool{t.measured.key: true}
	add := func(plan *tunedPlan) {
		if !keys[plan.key] {
			keys[plan.key], list = true, append(list, plan)
		}
	}
	if !keys[t.predicted.key] {
		options := t.options // the same plan, with its cost at the measured prices
		options.Costs, options.Strategy = t.profile, t.repeated
		predicted, err := t.compile(predictedName, pricing.PredictedPlan, options)
		if err != nil {
			return nil, err
		}
		predicted.runNS = t.predicted.runNS
		t.predicted = predicted
		add(predicted)
	}
	best, _, err := Best(t.measured.program, bestPlans)
	if err != nil {
		return nil, err
	}
	for i, choice := range best[min(1, len(best)):] {
		plan, err := t.compileLabels(fmt.Sprintf("plan %d", i+2), choice.solution.Labels)
		if err != nil {
			return nil, err
		}
		add(plan)
	}
	if t.left() < t.budget/5 { // other strategies rarely are the fastest
		return list, nil
	}
	limit := maxPlanCost * t.measured.program.Report().CostNS
	for _, strategy := range []layout.Strategy{layout.Propagate, layout.Contiguous, layout.ChannelsLast} {
		options := t.options
		options.Strategy, options.Costs = strategy, t.profile
		plan, err := t.compile(strategy.Name(), strategy.Name(), options)
		if err != nil {
			return nil, err
		}
		if plan.program.Report().CostNS <= limit {
			add(plan)
		}
	}
	return list, nil
}

// compare compares whole runs of plans. It makes fewer runs if they would take more than a share of the rest of the
// budget.
func (t *tuner) compare(plans []*tunedPlan, runs int, share float64) (*Comparison, error) {
	candidates := make([]Candidate, len(plans))
	for i, plan := range plans {
		plan.times.Pause(true)
		candidates[i] = Candidate{Name: plan.name, Program: plan.program}
	}
	if round := t.timeOf(plans); round > 0 {
		affordable := int(share*float64(t.left())/float64(round)) * runsOfTurn
		runs = min(max(runs, int(wholeTime/round)*runsOfTurn), mostRuns, max(fewestRuns, affordable))
	}
	c, err := Compare(t.ctx, candidates, t.in, Options{Runs: runs, Turn: 1 + runsOfTurn, Seed: t.random.Uint64()})
	var memory *graphrun.MemoryError
	if errors.As(err, &memory) && len(plans) > 2 { // of the plans together
		return t.compare(plans[:2], runs, share)
	}
	if err != nil {
		return nil, err
	}
	if c.Interrupted || c.Verdict == nil {
		return nil, cmp.Or(t.ctx.Err(), errors.New("the runs have no verdict"))
	}
	for i, plan := range plans {
		plan.runNS = *c.Rows[i].Median
	}
	return c, nil
}

// medianOf returns the median time of a candidate.
func (c *Comparison) medianOf(name string) float64 {
	for i := range c.Rows {
		if c.Rows[i].Name == name && c.Rows[i].Median != nil {
			return *c.Rows[i].Median
		}
	}
	return math.Inf(1)
}

// measureFinal measures the finalists, and concludes which plan is used.
func (t *tuner) measureFinal() (err error) {
	if len(t.finalists) == 1 {
		t.progress("whole runs")
		if t.result.Final, err = t.compare(t.finalists, choiceRuns, 0.5); err != nil {
			return err
		}
		t.conclude(t.measured, samePlanText+timeText(t.measured.runNS)+" a run")
		return nil
	}
	t.progress(fmt.Sprintf("whole runs of %d finalists", len(t.finalists)))
	if t.result.Final, err = t.compare(t.finalists, finalRuns, 0.9); err != nil {
		return err
	}
	final := t.result.Final
	if disturbance := disturbanceOf(final.Verdict); disturbance != "" {
		t.conclude(t.predicted, "the machine was disturbed ("+disturbance+"): nothing is concluded; the "+predictedName+
			" stays")
		return nil
	}
	t.conclude(t.chosen(), "")
	return nil
}

// disturbanceOf returns why a comparison concludes nothing; empty if it does. Drift affects all plans equally, because
// they run in turns, and so does a load that does not spread the times.
func disturbanceOf(verdict *Ranking) string {
	text := fmt.Sprintf("the interquartile range of times is %.0f%% of the median", 100*verdict.Spread)
	load := environment.LoadWarning(verdict.Load)
	switch {
	case load != "" && verdict.Spread > maxSpread:
		return text + ", and " + load
	case verdict.Spread > noticedSpread:
		return text
	}
	return ""
}

// chosen returns the finalist to use: the plan at measured prices, unless another one is significantly faster, or the
// plan at predicted prices is not slower.
func (t *tuner) chosen() *tunedPlan {
	final := t.result.Final
	chosen := t.finalists[0]
	for _, plan := range t.finalists[1:] {
		pair := final.Verdict.pair(plan.name, chosen.name)
		isFaster := final.medianOf(plan.name) < final.medianOf(chosen.name)
		if isFaster && (plan == t.predicted || pair != nil && pair.Significant) {
			chosen = plan
		}
	}
	return chosen
}

// conclude sets the result. Without a text, it states the difference from the plan at predicted prices.
func (t *tuner) conclude(plan *tunedPlan, text string) {
	result := t.result.Result
	result.Prices, result.Plan, result.Labels = t.prices().Prices, plan.choice, nil
	if plan.choice == pricing.LabeledPlan {
		if model, err := t.measured.program.Internal().Model(); err == nil {
			result.Labels = program.LabelNames(model.WCSP, plan.labels)
		}
	}
	result.NS, result.PredictedNS = plan.runNS, t.predicted.runNS
	if plan.key == t.predicted.key {
		result.PredictedNS = plan.runNS
	}
	if text == "" {
		text = t.differenceText(plan)
		if load := environment.LoadWarning(t.result.Final.Verdict.Load); load != "" {
			text += "; note: " + load
		}
	}
	if t.result.Regret != nil && plan.choice == pricing.MeasuredPlan {
		text += "; " + t.result.Regret.String()
	}
	result.Summary = text
	program.StoreTuned(t.cache, result)
}

// differenceText states the difference of the chosen plan from the plan at predicted prices, with its certainty.
func (t *tuner) differenceText(chosen *tunedPlan) string {
	final, measured, base := t.result.Final, t.finalists[0], t.predicted
	if measured.key == base.key {
		base = measured // one plan, which was measured by this name
	}
	if chosen == measured && base == measured {
		return samePlanText + timeText(chosen.runNS) + " a run"
	}
	other := base
	if chosen == base { // it is not slower than the plan at measured prices
		other = measured
	}
	pair := final.Verdict.pair(chosen.name, other.name)
	p := pValueText(pair.PHolm)
	if pair.Significant {
		return fmt.Sprintf("the %s is fastest: %s a run, %.1f%% less than the %s (%s, p %s)", chosen.name,
			timeText(chosen.runNS), 100*(1-chosen.runNS/other.runNS), other.name, timeText(other.runNS), p)
	}
	text := fmt.Sprintf("not distinguishable: the %s, which is used, takes %s a run, the %s %s (p %s)", chosen.name,
		timeText(chosen.runNS), other.name, timeText(other.runNS), p)
	if n := final.Verdict.RunsFor2Percent; n != nil {
		text += fmt.Sprintf("; %d runs of each would find a difference of 2%%", *n)
	}
	return text
}
