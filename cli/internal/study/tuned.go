package study

import (
	"context"
	"fmt"
	"math"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/pricing"
)

// This file concerns conditions with a budget of tune: the plans at measured prices, and how far the plan that tune
// chose is from the fastest one.

// Names of the plans that a budget of tune adds.
const (
	tunedPlan     = "tuned"
	predictedPlan = "predicted"
)

// variant is a plan of a task: a name and the options that make it.
type variant struct {
	name    string
	options graphrun.Options
}

// tuned tunes the graph of a task, and returns the variants at the measured prices, the plan that tune chose, and the
// plan at the prices of the profile.
func tuned(ctx context.Context, t *Task, w *inputs.Workload, options graphrun.Options, variants []variant,
	result *Result) ([]variant, error) {
	predicted, err := graphrun.Compile(ctx, w.Graph, options)
	if err != nil {
		return nil, err
	}
	repeated, err := experiment.Repeated(predicted)
	if err != nil {
		return nil, err
	}
	tuning, err := experiment.Tune(ctx, w.Graph, options, w.Inputs.Values, experiment.TuneOptions{Budget: t.tune,
		Seed: uint64(t.Seed)})
	switch {
	case err != nil:
		return nil, w.Inputs.HintAtGeneratedValues(err)
	case tuning.Interrupted:
		return nil, context.Cause(ctx)
	}
	result.Tuned, result.Regret = tuning.Result.Summary, tuning.Regret
	atMeasured := options.Costs.WithPrices(&pricing.Prices{Version: pricing.PricesVersion, Prices: tuning.Result.Prices})
	for i := range variants {
		variants[i].options.Costs = atMeasured
	}
	chosen, again := variant{tunedPlan, options}, variant{predictedPlan, options}
	again.options.Costs, again.options.Strategy = atMeasured, repeated
	switch chosen.options.Tuned = tuning.Result; tuning.Result.Plan {
	case pricing.PredictedPlan: // with its cost at the measured prices, as for the others
		chosen.options = again.options
	}
	return append(variants, chosen, again), nil
}

// Tuned compares the plan that tune chose with the fastest plan of a task. The fastest plan is chosen by the first third
// of the runs, and compared in the others, so that luck in the choice does not count.
type Tuned struct {
	Graph     string  `json:"graph" doc:"The model with its sizes."`
	Condition string  `json:"condition" doc:"The condition."`
	Threads   int     `json:"threads" doc:"The workers of a run."`
	Fastest   string  `json:"fastest" doc:"The plan that was fastest in the first third of the runs."`
	Ratio     float64 `json:"ratio" doc:"The median time of the tuned plan divided by that of the fastest plan, in the other runs."`
	Low       float64 `json:"low" doc:"The ratio with the ends of the 95% confidence intervals of the medians that are best for the tuned plan."`
	High      float64 `json:"high" doc:"The ratio with the ends that are worst for it."`
	Predicted float64 `json:"over_predicted" doc:"The median time of the tuned plan divided by that of the plan at predicted prices."`
	P         float64 `json:"p_holm" doc:"The p-value of the difference from the plan at predicted prices, with Holm's correction for all graphs of the condition and number of threads."`
	Regret    float64 `json:"regret" doc:"The bound on the regret of the cheapest plan at the measured prices, as a share of its cost."`
	Summary   string  `json:"summary" doc:"The result of tune in words."`
}

// tunedRows compares the tuned plans of a group of results with the fastest ones.
func tunedRows(g group, list []*Result) (rows []Tuned) {
	var pValues []float64
	for _, r := range list {
		plans := map[string]*Plan{}
		for i := range r.Plans {
			plans[r.Plans[i].Strategy] = &r.Plans[i]
		}
		chosen, predicted := plans[tunedPlan], plans[predictedPlan]
		if chosen == nil || predicted == nil || r.Regret == nil || len(chosen.Samples) < 3 {
			continue
		}
		row := Tuned{Graph: r.Task.graph(), Condition: g.condition, Threads: g.threads, Regret: r.Regret.Share,
			Summary: r.Tuned}
		first := len(chosen.Samples) / 3
		fastest, least := chosen, math.Inf(1)
		for _, plan := range r.measuredPlans() {
			if median := experiment.SpreadOf(plan.Samples[:min(first, len(plan.Samples))]).Median; median != nil &&
				*median < least {
				fastest, least = plan, *median
			}
		}
		row.Fastest, row.Ratio, row.Low, row.High = fastest.Strategy, 1, 1, 1
		if fastest.Plan != chosen.Plan {
			a, b := experiment.SpreadOf(chosen.Samples[first:]), experiment.SpreadOf(fastest.Samples[first:])
			row.Ratio = *a.Median / *b.Median
			row.Low, row.High = row.Ratio, row.Ratio
			if a.Low != nil && b.Low != nil {
				row.Low, row.High = *a.Low / *b.High, *a.High / *b.Low
			}
		}
		row.Predicted, row.P = 1, 1
		if predicted.Plan != chosen.Plan {
			versus := experiment.VersusOf(predicted.Samples, chosen.Samples)
			row.Predicted, row.P = *versus.Ratio, *versus.P
		}
		rows, pValues = append(rows, row), append(pValues, row.P)
	}
	for i, p := range experiment.Holm(pValues) {
		rows[i].P = p
	}
	return rows
}

// newTunedTable returns the table of [Tuned] without rows.
func newTunedTable() *term.Table {
	number := term.NumberCol
	return term.NewTable(term.NameCol("graph"), term.UntruncatedCol("fastest"), number("tuned / fastest"),
		number("interval"), number("tuned / predicted"), number("p"), number("regret at most %"))
}

// slower is the significance level of a tuned plan that is slower than the plan at predicted prices.
const slower = 0.05

// tunedTables calls add for each condition and number of threads, with a sentence about the tuned plans and a table of
// them.
func (d *Document) tunedTables(add func(text string, t *term.Table)) {
	for first := 0; first < len(d.Tuned); {
		last, worst, slowerOn, logFastest, logPredicted := first, &d.Tuned[first], 0, 0.0, 0.0
		t := newTunedTable()
		for ; last < len(d.Tuned) && d.Tuned[last].Condition == d.Tuned[first].Condition &&
			d.Tuned[last].Threads == d.Tuned[first].Threads; last++ {
			row := &d.Tuned[last]
			logFastest, logPredicted = logFastest+math.Log(row.Ratio), logPredicted+math.Log(row.Predicted)
			if row.Ratio > worst.Ratio {
				worst = row
			}
			if row.Predicted > 1 && row.P < slower {
				slowerOn++
			}
			t.Add(row.Graph, row.Fastest, fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.3f to %.3f", row.Low, row.High),
				fmt.Sprintf("%.3f", row.Predicted), fmt.Sprintf("%.2g", row.P), percent(row.Regret, 1))
		}
		count := float64(last - first)
		add(fmt.Sprintf("Tuned plans: %s, %s: %.3f of the time of the fastest (geometric mean; at most %.3f, on %s), "+
			"%.3f of the time of the plans at predicted prices; significantly slower than these on %d of %s",
			d.Tuned[first].Condition, format.Count(d.Tuned[first].Threads, "thread"), math.Exp(logFastest/count),
			worst.Ratio, worst.Graph, math.Exp(logPredicted/count), slowerOn, format.Count(last-first, "graph")), t)
		first = last
	}
}
