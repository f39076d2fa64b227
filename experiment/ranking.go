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

// setVerdict sets the verdict, and the comparison of each row with the base. There is no verdict if a contender was not
// measured.
func (c *Comparison) setVerdict(all []*contender, s *session) {
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Runs > 0 {
			row.Ratio = c.Rows[0].ratio(&row.Spread)
		}
	}
	if slices.ContainsFunc(s.contenders, func(measured *contender) bool { return len(measured.turnMedians) == 0 }) {
		return
	}
	r := &Ranking{Pairs: pairsOf(s.contenders), SamePlan: samePlans(all),
		Disturbances: disturbancesOf(s.contenders, s.load), Unreached: s.wideIntervals()}
	for i := range c.Rows {
		row := &c.Rows[i]
		if p := r.pair(c.Rows[0].Name, cmp.Or(row.MeasuredAs, row.Name)); p != nil {
			row.P, row.PHolm, row.Significant = &p.P, &p.PHolm, p.Significant
		}
	}
	r.Fastest = r.fastest(all)
	r.FewestRuns = runsToDiffer(r.Pairs, s)
	r.RunsFor2Percent = runsFor2Percent(r.Pairs, s)
	c.Verdict = r
	r.Text = c.verdictText()
}

// fastest returns the names of the fastest contenders, sorted by median. These are the contenders that no other
// contender beats significantly.
func (r *Ranking) fastest(all []*contender) []string {
	byTime := slices.Clone(all)
	sorted.Func(byTime, func(a, b *contender) int { return cmp.Compare(a.median(), b.median()) })
	names := []string{}
	for i, c := range byTime {
		if !slices.ContainsFunc(byTime[:i], func(faster *contender) bool {
			p := r.pair(faster.measuredAs().name, c.measuredAs().name)
			return p != nil && p.Significant
		}) {
			names = append(names, c.name)
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

// samePlans returns the groups of at least two candidates with equal plans, by name.
func samePlans(all []*contender) [][]string {
	groups := [][]string{}
	for _, contender := range measuredContenders(all) {
		group := []string{contender.name}
		for _, other := range all {
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

// pairsOf tests all pairs.
func pairsOf(all []*contender) []Pair {
	pairs := []Pair{}
	for i, a := range all {
		for _, b := range all[i+1:] {
			spreadA, spreadB := SpreadOf(a.times), SpreadOf(b.times)
			pairs = append(pairs, Pair{A: a.name, B: b.name, Ratio: spreadA.ratio(&spreadB),
				P: mannWhitney(a.turnMedians, b.turnMedians)})
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

// pair returns the test of the measured candidates named a and b. It returns nil if they are the same candidate.
func (r *Ranking) pair(a, b string) *Pair {
	for i, p := range r.Pairs {
		if p.A == a && p.B == b || p.A == b && p.B == a {
			return &r.Pairs[i]
		}
	}
	return nil
}

// holm returns p-values with Holm's correction. The k-th smallest of n p-values is multiplied by n-k+1. A result is
// then raised, if necessary, to the result for the next smaller p-value, so that results are in the same order as the
// p-values.
func holm(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return values[order[i]] < values[order[j]] })
	corrected, last := make([]float64, len(values)), 0.0 // last: the result for the next smaller p-value
	for k, i := range order {
		last = max(last, min(1, values[i]*float64(len(values)-k)))
		corrected[i] = last
	}
	return corrected
}

// runsFor2Percent returns the number of runs that would detect a difference of 2% in the pairs without a significant
// difference. It is nil if there is no such pair, or if the number cannot be estimated for any of them.
func runsFor2Percent(pairs []Pair, s *session) *int {
	turns := map[string][]float64{} // by name of the contender
	for _, contender := range s.contenders {
		turns[contender.name] = contender.turnMedians
	}
	var largest *int
	for _, p := range pairs {
		turnCount, ok := turnsToDetect(turns[p.A], turns[p.B], 0.02, Significance/float64(len(pairs)))
		runs := turnCount * s.runsPerTurn()
		if !p.Significant && ok && (largest == nil || runs > *largest) {
			largest = &runs
		}
	}
	return largest
}

// runsToDiffer returns the least number of runs of each candidate with which any pair could differ significantly. It
// returns nil if at least this many runs were measured, or if there are no pairs.
func runsToDiffer(pairs []Pair, s *session) *int {
	if len(pairs) == 0 {
		return nil
	}
	level := Significance / float64(len(pairs)) // Holm's correction of the least p-value
	var turns []int                             // number of turns of each contender
	for _, contender := range s.contenders {
		turns = append(turns, len(contender.turnMedians))
	}
	sorted.Ints(turns)
	if n := len(turns); leastP(turns[n-1], turns[n-2]) < level { // the two with the most turns
		return nil
	}
	return new((fewestSamples(level)-1)*s.runsPerTurn() + 1) // the last turn needs a single run
}

// testPower is the probability with which the test finds a difference, for the number of samples of turnsToDetect.
const testPower = 0.8

// turnsToDetect returns the number of samples on each side with which the Mann-Whitney test finds a relative difference
// `effect` with the probability testPower. level is the level of the test. The number is
//
//	n = (z(1-level/2) + z(testPower))² / (6 (p - 1/2)²)
//
// where z is the quantile function of the normal distribution, and p is the probability that a sample is less than
// another sample times 1+effect (Noether 1987, Sample size determination for some common nonparametric tests). p is
// estimated from the samples, each divided by the median of its side. turnsToDetect returns false if a side has fewer
// than 5 samples, because they are too few to estimate p. It also returns false if the number exceeds a million.
func turnsToDetect(a, b []float64, effect, level float64) (int, bool) {
	var scaled []float64 // all samples, divided by the medians of their sides
	for _, side := range [][]float64{a, b} {
		median := *SpreadOf(side).Median
		if median <= 0 || len(side) < 5 {
			return 0, false
		}
		for _, x := range side {
			scaled = append(scaled, x/median)
		}
	}
	sorted.Floats(scaled)
	less, n := 0, len(scaled) // less counts the pairs (x, y) with x <= y*(1+effect), without pairs of a sample with itself
	for _, x := range scaled {
		first, _ := slices.BinarySearch(scaled, x/(1+effect)) // the first y
		less += n - first - 1
	}
	deviation := float64(less)/(float64(n)*float64(n-1)) - 0.5
	z := float64(normalQuantile(1-float64(level/2))) + float64(normalQuantile(testPower))
	if needed := math.Ceil(z * z / (6 * deviation * deviation)); deviation > 0 && needed <= 1e6 {
		return max(fewestSamples(level), int(needed)), true
	}
	return 0, false
}

// fewestSamples returns the least number of samples on each side with which the p-value of the exact Mann-Whitney test
// can be below a level.
func fewestSamples(level float64) int {
	n := 1
	for leastP(n, n) >= level {
		n++
	}
	return n
}

// leastP returns the least p-value that the exact two-sided Mann-Whitney test of n and m samples can have: 2 divided by
// (n+m)!/(n! m!), the number of choices of ranks.
func leastP(n, m int) float64 {
	p := 2.0
	for i := 1; i <= min(n, m); i++ {
		p *= float64(i) / float64(max(n, m)+i)
	}
	return min(1, p)
}

// normalQuantile is the inverse of normalCDF.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
