package study

import (
	"encoding/csv"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/sorted"
)

// Document is the output of study.
type Document struct {
	Study       string    `json:"study" doc:"The name of the study."`
	Interrupted bool      `json:"interrupted" doc:"Whether the study was interrupted."`
	Missing     []string  `json:"missing" doc:"The tasks without a result."`
	Failures    []Failure `json:"failures" doc:"The tasks that failed."`
	Strategies  []string  `json:"strategies" doc:"The strategies."`
	Conditions  []string  `json:"conditions" doc:"The conditions."`
	Summaries   []Summary `json:"summaries" doc:"A row for each condition, number of threads and strategy."`
	Orders      []Order   `json:"orders" doc:"The order of plans by cost compared with their order by time, for each condition and number of threads; empty without measurement."`
	Tuned       []Tuned   `json:"tuned,omitzero" doc:"The plans that tune chose beside the fastest ones, for conditions with a budget of tune; left out if there are none."`
	Results     []Result  `json:"results" doc:"The results of all tasks."`
}

// Failure is a task that failed, with the reason.
type Failure struct {
	Task    string `json:"task" doc:"The task."`
	Message string `json:"message" doc:"The reason."`
}

// Summary describes a strategy over all graphs.
type Summary struct {
	Condition string  `json:"condition" doc:"The condition."`
	Threads   int     `json:"threads" doc:"The workers of measured runs; 0: nothing was measured."`
	Strategy  string  `json:"strategy" doc:"The strategy."`
	Graphs    int     `json:"graphs" doc:"The number of graphs: models with sizes."`
	MeanGap   float64 `json:"mean_gap" doc:"The geometric mean of the cost divided by the lower bound, less 1."`
	MedianGap float64 `json:"median_gap" doc:"The median gap to the lower bound; of an even number of gaps, the greater of the middle two."`
	WorstGap  float64 `json:"worst_gap" doc:"The greatest gap to the lower bound."`
	WorstOn   string  `json:"worst_on" doc:"The graph with the greatest gap; empty if all plans are optimal."`
	OptimalOn int     `json:"optimal_on" doc:"The number of graphs for which the plan's cost equals the lower bound."`
	// MeanRatio is 1 if the strategy is the fastest for each graph.
	MeanRatio  *float64 `json:"mean_time_ratio" doc:"The geometric mean, over graphs, of the median time divided by the median time of the fastest strategy; null without measurement."`
	WorstRatio *float64 `json:"worst_time_ratio" doc:"The greatest median time divided by the median time of the fastest strategy; null without measurement."`
	SlowestOn  string   `json:"slowest_on" doc:"The graph with the greatest ratio of times; empty if the strategy is the fastest for each graph, or nothing was measured."`
	FastestOn  int      `json:"fastest_on" doc:"The number of graphs for which no strategy has a smaller median time."`
}

// Order compares the order of plans by cost with their order by measured time. Two plans differ in time if their
// medians differ by more than 5% and the Mann-Whitney U test is significant (p < 0.01). Only such pairs count.
type Order struct {
	Condition  string   `json:"condition" doc:"The condition."`
	Threads    int      `json:"threads" doc:"The workers of a run."`
	Different  int      `json:"different_pairs" doc:"The number of pairs of plans that differ in time: the medians differ by more than 5%, and the Mann-Whitney U test has p < 0.01."`
	Misordered []string `json:"misordered" doc:"The pairs of plans that differ in time, where the faster plan does not have the lower cost."`
}

// group identifies a set of results: the results with a condition and a number of threads.
type group struct {
	condition string
	threads   int
}

// groups returns the results of each group, and the groups sorted by condition and number of threads.
func (d *Document) groups() (order []group, byGroup map[group][]*Result) {
	byGroup = map[group][]*Result{}
	for i := range d.Results {
		r := &d.Results[i]
		g := group{r.Task.Condition, r.Task.Threads}
		byGroup[g] = append(byGroup[g], r)
	}
	order = slices.Collect(maps.Keys(byGroup))
	sorted.Func(order, func(a, b group) int {
		if c := slices.Index(d.Conditions, a.condition) - slices.Index(d.Conditions, b.condition); c != 0 {
			return c
		}
		return a.threads - b.threads
	})
	return order, byGroup
}

// summarize adds the summaries and the orders of the results.
func (d *Document) summarize() {
	order, byGroup := d.groups()
	for _, g := range order {
		for i, name := range d.Strategies {
			d.Summaries = append(d.Summaries, summaryOf(g, i, name, byGroup[g]))
		}
		if g.threads > 0 {
			d.Orders = append(d.Orders, orderOf(g, byGroup[g]))
			d.Tuned = append(d.Tuned, tunedRows(g, byGroup[g])...)
		}
	}
}

// gapTolerance is the largest relative gap that counts as 0, because rounding can cause it.
const gapTolerance = 1e-9

// summaryOf summarizes the plans of a strategy in list, the results of group g. strategyIndex and name are the index
// and the name of the strategy in the study.
func summaryOf(g group, strategyIndex int, name string, list []*Result) Summary {
	summary := Summary{Condition: g.condition, Threads: g.threads, Strategy: name, Graphs: len(list)}
	// The sums of log(cost / bound) and of log(time / least time), and the number of measured graphs.
	logGaps, logRatios, measuredGraphs := 0.0, 0.0, 0
	var gaps []float64
	for _, result := range list {
		plan := &result.Plans[strategyIndex]
		logGaps += math.Log1p(plan.Gap)
		gaps = append(gaps, plan.Gap)
		summary.addGap(plan.Gap, result.Task.graph())
		if fastest := result.fastest(); plan.Median != nil && fastest != 0 {
			ratio := *plan.Median / fastest
			logRatios += math.Log(ratio)
			measuredGraphs++
			summary.addRatio(ratio, result.Task.graph())
		}
	}
	if len(list) > 0 {
		sorted.Floats(gaps)
		summary.MeanGap, summary.MedianGap = math.Expm1(logGaps/float64(len(list))), gaps[len(list)/2]
	}
	if measuredGraphs > 0 {
		summary.MeanRatio = new(math.Exp(logRatios / float64(measuredGraphs)))
	}
	return summary
}

// addGap counts the gap of a plan of a graph.
func (summary *Summary) addGap(gap float64, graph string) {
	if gap <= gapTolerance {
		summary.OptimalOn++
		return
	}
	if summary.WorstOn == "" || gap > summary.WorstGap {
		summary.WorstGap, summary.WorstOn = gap, graph
	}
}

// addRatio counts the ratio of a plan's time to the time of the fastest plan of a graph.
func (summary *Summary) addRatio(ratio float64, graph string) {
	if ratio == 1 {
		summary.FastestOn++
	}
	if summary.WorstRatio != nil && ratio <= *summary.WorstRatio {
		return
	}
	summary.WorstRatio = new(ratio)
	if ratio > 1 {
		summary.SlowestOn = graph
	}
}

// fastest returns the least median time of the plans, in nanoseconds; 0 if nothing was measured.
func (r *Result) fastest() (least float64) {
	for _, p := range r.Plans {
		if p.Median != nil && (least == 0 || *p.Median < least) {
			least = *p.Median
		}
	}
	return least
}

// regretOf returns the regret of a plan against the fastest measured plan; nil if nothing was measured. Results of
// earlier versions do not have it.
func (r *Result) regretOf(p *Plan) *float64 {
	if fastest := r.fastest(); p.Median != nil && fastest > 0 {
		return new(*p.Median/fastest - 1)
	}
	return nil
}

// maxNoises is the maximum number of disturbed tasks whose disturbances are listed.
const maxNoises = 5

// noises returns the disturbances of measured tasks, in sentences.
func (d *Document) noises() (list []string) {
	disturbedTasks := 0
	for i := range d.Results {
		r := &d.Results[i]
		if r.Noise == "" {
			continue
		}
		if disturbedTasks++; disturbedTasks <= maxNoises {
			list = append(list, r.Task.String()+": disturbed measurement: "+r.Noise)
		}
	}
	if more := disturbedTasks - maxNoises; more > 0 {
		list = append(list, "disturbed measurements of "+format.Count(more, "other task"))
	}
	return list
}

// minDifference is the relative difference of median times above which two plans may differ in time: see [Order].
const minDifference = 0.05

// orderOf counts the pairs of plans that differ in time, over all results of a group. A plan that several strategies
// share counts once, for the first strategy.
func orderOf(g group, list []*Result) Order {
	order := Order{Condition: g.condition, Threads: g.threads, Misordered: []string{}}
	for _, result := range list {
		plans := result.measuredPlans()
		for i, a := range plans {
			for _, b := range plans[:i] {
				// Ratio is the median time of b divided by the median time of a.
				versus := experiment.VersusOf(a.Samples, b.Samples)
				if versus.Ratio == nil || !versus.Significant || max(*versus.Ratio, 1 / *versus.Ratio) <= 1+minDifference {
					continue
				}
				order.Different++
				if bIsSlower, bCostsMore := *versus.Ratio > 1, b.CostNS > a.CostNS; bIsSlower != bCostsMore {
					order.Misordered = append(order.Misordered, result.Task.graph()+": "+b.Strategy+", "+a.Strategy)
				}
			}
		}
	}
	return order
}

// measuredPlans returns the distinct plans that were measured.
func (r *Result) measuredPlans() (plans []*Plan) {
	for i := range r.Plans {
		plan := &r.Plans[i]
		isRepeated := slices.ContainsFunc(plans, func(other *Plan) bool { return other.Plan == plan.Plan })
		if plan.Median != nil && !isRepeated {
			plans = append(plans, plan)
		}
	}
	return plans
}

// writeCSV writes the records as CSV.
func (d *Document) writeCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(d.records()) }

// records returns the rows of the CSV file: a row with the names of the columns, and a row for each result and
// strategy. Unknown values are empty.
func (d *Document) records() [][]string {
	heads := []string{"model"}
	for _, name := range d.symbols() {
		heads = append(heads, "dim_"+name)
	}
	list := [][]string{append(heads, "condition", "threads", "strategy", "plan", "cost_ns", "lower_bound_ns", "gap",
		"certified", "variables", "steps", "copies", "copied_bytes", "moved_bytes", "peak_bytes", "layout_ms", "runs",
		"median_ns", "low_ns", "high_ns", "measured_regret")}
	for _, result := range d.Results {
		for _, plan := range result.Plans {
			row := []string{result.Task.Model}
			for _, name := range d.symbols() {
				size := ""
				if n, ok := result.Task.Dims[name]; ok {
					size = strconv.Itoa(n)
				}
				row = append(row, size)
			}
			list = append(list, append(row, result.Task.Condition, strconv.Itoa(result.Task.Threads), plan.Strategy, plan.Plan,
				format.Decimal(&plan.CostNS), format.Decimal(&result.BoundNS), format.Decimal(&plan.Gap),
				strconv.FormatBool(result.Certified), strconv.Itoa(result.Variables), strconv.Itoa(plan.Steps),
				strconv.Itoa(plan.Copies), strconv.Itoa(plan.CopiedBytes), strconv.Itoa(plan.MovedBytes),
				strconv.Itoa(plan.PeakBytes), format.Decimal(&plan.LayoutMS), strconv.Itoa(plan.Runs),
				format.Decimal(plan.Median), format.Decimal(plan.Low), format.Decimal(plan.High),
				format.Decimal(result.regretOf(&plan))))
		}
	}
	return list
}

// symbols lists the symbols of all results.
func (d *Document) symbols() []string {
	names := map[string]bool{}
	for _, r := range d.Results {
		for name := range r.Task.Dims {
			names[name] = true
		}
	}
	return sorted.Keys(names)
}
