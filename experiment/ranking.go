package experiment

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/internal/sorted"
)

// Ranking is the verdict of a comparison. Candidates with equal plans are measured once, under the name of the first of
// these candidates.
//
// Each pair of plans is tested by the two-sided Mann-Whitney U test. A sample is the median of the runs of one turn,
// because consecutive runs are not independent. The probability that at least one pair of equally fast plans differs
// significantly is at most [Significance], by Holm's correction (Holm 1979, A simple sequentially rejective multiple
// test procedure).
type Ranking struct {
	Text     string     `json:"text" doc:"The verdict in words."`
	Fastest  []string   `json:"fastest" doc:"The candidates that no other candidate beats significantly, by time."`
	SamePlan [][]string `json:"same_plan" doc:"The groups of candidates with equal plans."`
	Pairs    []Pair     `json:"pairs" doc:"All pairs of different plans, each plan by its first candidate."`
	// FewestRuns is exact: see runsToDiffer.
	FewestRuns *int `json:"fewest_runs" doc:"The least number of runs of each candidate with which any difference can be significant; null if at least this many were measured, or if there is only one plan."`
	// RunsFor2Percent is Noether's sample size: see runsFor2Percent.
	RunsFor2Percent *int     `json:"runs_for_2_percent" doc:"The number of runs of each candidate that would find a difference of 2% with a probability of 80%, in each pair without a significant difference; null if there is no such pair."`
	Unreached       []string `json:"until_unreached,omitzero" doc:"The candidates whose confidence interval is wider than --until demands."`
	Disturbances
}

// Pair is the comparison of two candidates.
type Pair struct {
	A           string   `json:"a" doc:"A candidate."`
	B           string   `json:"b" doc:"Another candidate."`
	Ratio       *float64 `json:"ratio" doc:"The median of b divided by the median of a; null if the latter is 0."`
	P           float64  `json:"p_value" doc:"The p-value of the Mann-Whitney U test on the medians of turns."`
	PHolm       float64  `json:"p_holm" doc:"The p-value with Holm's correction for the tests of all pairs."`
	Significant bool     `json:"significant" doc:"Whether p_holm is below 0.01."`
}

// setVerdict sets the verdict, and the comparison of each row with the base, which is the first row. There is no
// verdict if a contender was not measured. A contender is a candidate with its measurements: times has the time of each
// run, and turnMedians the median of each turn of consecutive runs. allContenders has one for each row.
// session.contenders has the contenders to measure: of contenders with equal plans, only the first.
func (c *Comparison) setVerdict(allContenders []*contender, session *session) {
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Runs > 0 {
			row.Ratio = c.Rows[0].ratio(&row.Spread)
		}
	}
	if slices.ContainsFunc(session.contenders, func(measured *contender) bool { return len(measured.turnMedians) == 0 }) {
		return
	}
	ranking := &Ranking{Pairs: pairsOf(session.contenders), SamePlan: samePlans(allContenders),
		Disturbances: disturbancesOf(session.contenders, session.load), Unreached: session.wideIntervals()}
	for i := range c.Rows {
		row := &c.Rows[i]
		if pair := ranking.pair(c.Rows[0].Name, cmp.Or(row.MeasuredAs, row.Name)); pair != nil {
			row.P, row.PHolm, row.Significant = &pair.P, &pair.PHolm, pair.Significant
		}
	}
	ranking.Fastest = ranking.fastest(allContenders)
	ranking.FewestRuns = runsToDiffer(ranking.Pairs, session)
	ranking.RunsFor2Percent = runsFor2Percent(ranking.Pairs, session)
	c.Verdict = ranking
	ranking.Text = c.verdictText()
}

// pairsOf tests all pairs of measured contenders.
func pairsOf(measured []*contender) []Pair {
	pairs := []Pair{}
	for i, first := range measured {
		for _, second := range measured[i+1:] {
			spreadA, spreadB := SpreadOf(first.times), SpreadOf(second.times)
			pairs = append(pairs, Pair{A: first.name, B: second.name, Ratio: spreadA.ratio(&spreadB),
				P: mannWhitney(first.turnMedians, second.turnMedians)})
		}
	}
	pValues := make([]float64, len(pairs))
	for i, pair := range pairs {
		pValues[i] = pair.P
	}
	for i, corrected := range holm(pValues) {
		pairs[i].PHolm, pairs[i].Significant = corrected, corrected < Significance
	}
	return pairs
}

// holm returns p-values with Holm's correction. The k-th smallest of n p-values is multiplied by n-k+1. If a result is
// below the result for the next smaller p-value, it is raised to that result. For example, 0.01, 0.03 and 0.04 become
// 0.03, 0.06 and 0.06.
func holm(pValues []float64) []float64 {
	order := make([]int, len(pValues))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return pValues[order[i]] < pValues[order[j]] })
	corrected, last := make([]float64, len(pValues)), 0.0 // last: the result for the next smaller p-value
	for k, i := range order {
		last = max(last, min(1, pValues[i]*float64(len(pValues)-k)))
		corrected[i] = last
	}
	return corrected
}

// samePlans returns the groups of at least two candidates with equal plans, by name.
func samePlans(allContenders []*contender) [][]string {
	groups := [][]string{}
	for _, contender := range measuredContenders(allContenders) {
		group := []string{contender.name}
		for _, other := range allContenders {
			if other.measuredInstead == contender {
				group = append(group, other.name)
			}
		}
		if len(group) > 1 {
			groups = append(groups, group)
		}
	}
	return groups
}

// pair returns the test of the measured candidates with the names a and b. It returns nil if they are the same
// candidate.
func (r *Ranking) pair(a, b string) *Pair {
	for i, tested := range r.Pairs {
		if tested.A == a && tested.B == b || tested.A == b && tested.B == a {
			return &r.Pairs[i]
		}
	}
	return nil
}

// fastest returns the names of the fastest contenders, sorted by median. These are the contenders that no other
// contender beats significantly.
func (r *Ranking) fastest(allContenders []*contender) []string {
	byTime := slices.Clone(allContenders)
	sorted.Func(byTime, func(a, b *contender) int { return cmp.Compare(a.median(), b.median()) })
	names := []string{}
	for i, candidate := range byTime {
		beatsCandidate := func(faster *contender) bool {
			pair := r.pair(faster.measuredAs().name, candidate.measuredAs().name)
			return pair != nil && pair.Significant
		}
		if !slices.ContainsFunc(byTime[:i], beatsCandidate) {
			names = append(names, candidate.name)
		}
	}
	return names
}

// measuredAs returns the contender whose runs represent the given contender.
func (contender *contender) measuredAs() *contender {
	return cmp.Or(contender.measuredInstead, contender)
}

// median returns the median time of a run, in nanoseconds.
func (contender *contender) median() float64 { return *SpreadOf(contender.measuredAs().times).Median }

// runsToDiffer returns the least number of runs of each candidate with which any pair could differ significantly. It
// returns nil if at least this many runs were measured, or if there are no pairs.
func runsToDiffer(pairs []Pair, session *session) *int {
	if len(pairs) == 0 {
		return nil
	}
	level := Significance / float64(len(pairs)) // Holm's correction of the least p-value
	var turns []int                             // number of turns of each contender
	for _, contender := range session.contenders {
		turns = append(turns, len(contender.turnMedians))
	}
	sorted.Ints(turns)
	// A pair needs two contenders, so there are at least two numbers.
	if count := len(turns); leastP(turns[count-1], turns[count-2]) < level { // the two with the most turns
		return nil
	}
	return new((fewestSamples(level)-1)*session.runsPerTurn() + 1) // the last turn needs a single run
}

// runsFor2Percent returns the number of runs that would detect a difference of 2% in the pairs without a significant
// difference. It is nil if there is no such pair, or if the number cannot be estimated for any of them.
func runsFor2Percent(pairs []Pair, session *session) *int {
	turnMedians := map[string][]float64{} // the key is the name of the contender
	for _, contender := range session.contenders {
		turnMedians[contender.name] = contender.turnMedians
	}
	var largest *int
	const effect = 0.02
	level := Significance / float64(len(pairs)) // as in runsToDiffer
	for _, pair := range pairs {
		turnCount, ok := turnsToDetect(turnMedians[pair.A], turnMedians[pair.B], effect, level)
		runs := turnCount * session.runsPerTurn()
		if !pair.Significant && ok && (largest == nil || runs > *largest) {
			largest = &runs
		}
	}
	return largest
}

// testPower is the power of the test in turnsToDetect: the probability that the test finds the difference.
const testPower = 0.8

// turnsToDetect returns the number of samples on each side with which the Mann-Whitney test finds a relative difference
// `effect` with the probability testPower. level is the level of the test. The number n is
//
//	n = (z(1-level/2) + z(testPower))² / (6 (p - 1/2)²)
//
// where z is the quantile function of the normal distribution, and p is the probability that a sample is less than
// another sample times 1+effect (Noether 1987, Sample size determination for some common nonparametric tests). p is
// estimated from the samples, each divided by the median of its side. turnsToDetect returns false if a side has fewer
// than 5 samples, because they are too few to estimate p. It also returns false if the number exceeds a million.
func turnsToDetect(a, b []float64, effect, level float64) (int, bool) {
	var scaled []float64 // all samples, divided by the medians of their sides
	for _, samples := range [][]float64{a, b} {
		median := *SpreadOf(samples).Median
		if median <= 0 || len(samples) < 5 {
			return 0, false
		}
		for _, sample := range samples {
			scaled = append(scaled, sample/median)
		}
	}
	sorted.Floats(scaled)
	count := len(scaled)
	less := 0 // number of pairs (x, y) of two samples with x <= y*(1+effect)
	for _, x := range scaled {
		first, _ := slices.BinarySearch(scaled, x/(1+effect)) // the index of the least y
		less += count - first - 1                             // x itself is not counted
	}
	deviation := float64(less)/(float64(count)*float64(count-1)) - 0.5 // p - 1/2
	// float64(...) prevents fused multiply-adds.
	z := float64(normalQuantile(1-float64(level/2))) + float64(normalQuantile(testPower))
	if needed := math.Ceil(z * z / (6 * deviation * deviation)); deviation > 0 && needed <= 1e6 {
		return max(fewestSamples(level), int(needed)), true
	}
	return 0, false
}

// fewestSamples returns the least number of samples on each side with which the p-value of the exact Mann-Whitney test
// can be below a level.
func fewestSamples(level float64) int {
	samples := 1
	for leastP(samples, samples) >= level {
		samples++
	}
	return samples
}

// leastP returns the least p-value that the exact two-sided Mann-Whitney test of n and m samples can have. It is 2
// divided by (n+m)!/(n! m!), the number of choices of ranks.
func leastP(n, m int) float64 {
	least := 2.0
	for i := 1; i <= min(n, m); i++ {
		least *= float64(i) / float64(max(n, m)+i)
	}
	return min(1, least)
}

// normalQuantile is the inverse of normalCDF.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
