package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/graphrun/graphrun/internal/environment"
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
	c.setRegrets(ranking)
	ranking.Fastest = ranking.fastest(allContenders)
	ranking.FewestRuns = runsToDiffer(ranking.Pairs, session)
	ranking.RunsFor2Percent = runsFor2Percent(ranking.Pairs, session)
	c.Verdict = ranking
	ranking.Text = c.verdictText()
}

// setRegrets sets the regret of each row against the row of least median.
func (c *Comparison) setRegrets(ranking *Ranking) {
	best := slices.MinFunc(c.Rows, func(a, b Measurement) int { return cmp.Compare(*a.Median, *b.Median) })
	for i := range c.Rows {
		row := &c.Rows[i]
		if *best.Median > 0 {
			row.Regret = new(*row.Median / *best.Median - 1)
		}
		pair := ranking.pair(cmp.Or(best.MeasuredAs, best.Name), cmp.Or(row.MeasuredAs, row.Name))
		row.RegretSignificant = pair != nil && pair.Significant
	}
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
	for i, corrected := range Holm(pValues) {
		pairs[i].PHolm, pairs[i].Significant = corrected, corrected < Significance
	}
	return pairs
}

// Holm returns p-values with Holm's correction. The k-th smallest of n p-values is multiplied by n-k+1. If a result is
// below the result for the next smaller p-value, it is raised to that result. For example, 0.01, 0.03 and 0.04 become
// 0.03, 0.06 and 0.06.
func Holm(pValues []float64) []float64 {
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

// maxExactSamples is the maximum number of samples of each side (a compared program) for which the probability is
// computed exactly. With more samples, the distribution of the rank sum is close to normal.
const maxExactSamples = 25

// mannWhitney returns the p-value of the two-sided Mann-Whitney U test: twice the probability of the smaller tail. (If
// some samples are equal, the distribution is asymmetric, and the tails differ.) Neither side may be empty, and no
// sample may be NaN.
func mannWhitney(a, b []float64) float64 {
	ranks := rankSamples(a, b)
	if len(ranks.tieSizes) == 1 {
		return 1 // all samples are equal
	}
	if ranks.n1 <= maxExactSamples && ranks.n2 <= maxExactSamples {
		return ranks.exactP()
	}
	return ranks.normalP()
}

// rankStatistics has the rank statistics of two sides. Equal samples share the mean of their ranks. Ranks are doubled,
// so that they are integers. For example, the sides {1, 2, 2} and {2, 3} have the sorted samples 1 2 2 2 3 with the
// ranks 1 3 3 3 5 and the tie sizes {1, 3, 1}. The doubled sum is 2*(1+3+3) = 14.
type rankStatistics struct {
	n1, n2   int   // numbers of samples of the sides
	tieSizes []int // for each distinct sample, in ascending order: the number of equal samples
	// doubledSum is the sum of the doubled ranks of the first side.
	doubledSum int
}

// rankSamples ranks the samples of two sides, which have no NaN.
func rankSamples(a, b []float64) rankStatistics {
	ranks := rankStatistics{n1: len(a), n2: len(b)}
	a, b = slices.Clone(a), slices.Clone(b)
	sorted.Floats(a)
	sorted.Floats(b)
	for before := 0; len(a)+len(b) > 0; {
		least := math.Inf(1)
		if len(a) > 0 {
			least = a[0]
		}
		if len(b) > 0 {
			least = min(least, b[0])
		}
		countA, countB := countEqual(a, least), countEqual(b, least)
		ranks.tieSizes = append(ranks.tieSizes, countA+countB)
		// The equal samples have the ranks before+1 to before+countA+countB. Twice their mean is the sum of both ends.
		ranks.doubledSum += countA * (2*before + countA + countB + 1)
		before += countA + countB
		a, b = a[countA:], b[countB:]
	}
	return ranks
}

// countEqual counts the samples at the start of a sorted list that equal the least sample.
func countEqual(sorted []float64, least float64) int {
	count := 0
	for count < len(sorted) && sorted[count] == least {
		count++
	}
	return count
}

// exactP returns the exact p-value. Among all choices of n1 ranks, it counts the choices whose sum is at most the rank
// sum of the first side (below), and the choices whose sum is at least this rank sum (above).
func (r rankStatistics) exactP() float64 {
	var below, above, allChoices float64
	for sum, count := range r.choicesBySum() {
		allChoices += count
		if sum <= r.doubledSum {
			below += count
		}
		if sum >= r.doubledSum {
			above += count
		}
	}
	return min(1, 2*min(below, above)/allChoices)
}

// choicesBySum returns, for each doubled sum, the number of ways to choose n1 ranks with this sum.
func (r rankStatistics) choicesBySum() []float64 {
	// ways[k][sum] is the number of ways to choose k of the ranks visited so far with this doubled sum.
	ways := make([][]float64, r.n1+1)
	for k := range ways {
		ways[k] = make([]float64, 2*r.n1*(r.n1+r.n2)+1)
	}
	ways[0][0] = 1
	before := 0 // number of samples with lesser ranks
	for _, tied := range r.tieSizes {
		// Add the tied samples, which have one rank. For each number `drawn` of these samples,
		//
		//	ways[k][sum] += (tied choose drawn) * ways[k-drawn][sum - drawn*doubledRank]
		//
		// k and sum descend, so that the terms on the right do not yet have these samples.
		doubledRank := 2*before + tied + 1 // the sum of the first rank, before+1, and the last rank, before+tied
		for k := r.n1; k > 0; k-- {
			choices := 1.0 // the binomial coefficient "tied choose drawn", exact in float64 for tied <= 2*maxExactSamples
			for drawn := 1; drawn <= min(k, tied); drawn++ {
				choices = choices * float64(tied-drawn+1) / float64(drawn)
				greatestSum := min(len(ways[k])-1, 2*k*(before+tied)) // no rank is greater than before+tied
				for sum := greatestSum; sum >= drawn*doubledRank; sum-- {
					ways[k][sum] += float64(choices * ways[k-drawn][sum-drawn*doubledRank])
				}
			}
		}
		before += tied
	}
	return ways[r.n1]
}

// normalP returns the p-value of the normal approximation, with corrections for ties and for continuity. With n =
// n1+n2, the rank sum has mean n1*(n+1)/2 and variance n1*n2/12 * (n + 1 - sum(t^3 - t)/(n*(n-1))), where t stands for
// the number of equal samples at each tie. The correction for continuity brings the sum 1/2 nearer to the mean.
func (r rankStatistics) normalP() float64 {
	n1, n2 := float64(r.n1), float64(r.n2)
	n, ties := n1+n2, 0.0 // ties is the sum of t^3 - t; the conversions below prevent fused multiply-adds
	for _, tied := range r.tieSizes {
		ties += float64(float64(tied) * (float64(float64(tied)*float64(tied)) - 1))
	}
	deviation := math.Sqrt(n1 * n2 / 12 * (n + 1 - ties/(n*(n-1))))
	distance := max(0, math.Abs(float64(float64(r.doubledSum)/2)-float64(n1*(n+1)/2))-0.5)
	return min(1, 2*float64(normalCDF(-distance/deviation)))
}

// normalCDF is the cumulative distribution function of the standard normal distribution.
func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// medianInterval returns an index i into n sorted samples. For every distribution, the median is between the samples i
// and n-1-i with probability [Confidence] or more. It returns false if there are too few samples. For example, if n is
// 6, i is 0: the median is not between the least and the greatest sample with probability 2 * 2^-6.
func medianInterval(n int) (int, bool) {
	// The number of samples below the median has a binomial distribution with p = 1/2. The loop finds the least k for
	// which the probability of at most k such samples exceeds (1-Confidence)/2. The interval then begins at sample k-1.
	// The terms are computed from their logarithms, because the first terms would underflow.
	logTerm, sum := -float64(n)*math.Ln2, 0.0 // log((n choose k) / 2^n) for k = 0, and the sum of the terms up to k
	for k := 0; ; k++ {
		sum += math.Exp(logTerm)
		if 2*sum > 1-Confidence {
			return k - 1, k > 0
		}
		logTerm += math.Log(float64(n-k) / float64(k+1))
	}
}

// Disturbances describes the disturbances of a measurement. Noise has a warning for a Spread above 10%, for a
// significant Drift above 1%, and for a Load above 0.5.
type Disturbances struct {
	Noise  string   `json:"noise" doc:"The warnings of disturbances, in words; empty if there are none."`
	Spread float64  `json:"spread" doc:"The greatest interquartile range of the times of a candidate, divided by their median."`
	Drift  float64  `json:"drift" doc:"The relative change of times from the first to the last round, by the Theil-Sen slope."`
	DriftP float64  `json:"drift_p_value" doc:"The p-value of the Mann-Kendall test for a trend over the rounds."`
	Load   *float64 `json:"load" doc:"The mean number of runnable threads of other processes, on Linux; null if unknown."`
}

// The limits above which [Disturbances] has a warning. driftLevel is the significance level of the test for a trend.
const (
	maxSpread  = 0.1
	maxDrift   = 0.01
	driftLevel = 0.01
)

// disturbancesOf describes the disturbances of measured contenders, which are candidates with their times. In each
// round, every contender runs several times.
func disturbancesOf(allContenders []*contender, load *environment.LoadMeter) Disturbances {
	result := Disturbances{Load: load.Mean()}
	widest := ""
	for _, contender := range allContenders {
		times := slices.Clone(contender.times)
		sorted.Floats(times)
		if median := quantile(times, 0.5); median > 0 {
			if relative := (quantile(times, 0.75) - quantile(times, 0.25)) / median; relative > result.Spread {
				result.Spread, widest = relative, contender.name
			}
		}
	}
	rounds := roundTimes(allContenders)
	result.DriftP = mannKendall(rounds)
	result.Drift = math.Expm1(theilSen(rounds) * float64(len(rounds)-1)) // rounds has logarithms
	result.Noise = strings.Join(result.warnings(widest), "; ")
	return result
}

// warnings returns the warnings of disturbances. widest is the name of the candidate with the greatest spread.
func (result *Disturbances) warnings(widest string) []string {
	var warnings []string
	if result.Spread > maxSpread {
		warnings = append(warnings, fmt.Sprintf("the times of %s vary: their interquartile range is %.0f%% of the median",
			widest, 100*result.Spread))
	}
	if result.DriftP < driftLevel && math.Abs(result.Drift) > maxDrift {
		warnings = append(warnings, fmt.Sprintf("times changed by %+.0f%% from the first to the last round "+
			"(Mann-Kendall test, p %s)", 100*result.Drift, pValueText(result.DriftP)))
	}
	if load := environment.LoadWarning(result.Load); load != "" {
		warnings = append(warnings, load)
	}
	return warnings
}

// maxPeriods is the maximum number of samples of the test for a trend, because the time of the test is quadratic.
const maxPeriods = 500

// roundTimes returns a number for each round: the mean over all contenders of log(time of the turn / median of the
// contender's turns). More than maxPeriods rounds are divided into periods of equal length, and the result has the
// means of the periods.
func roundTimes(allContenders []*contender) []float64 {
	rounds := len(allContenders[0].turnMedians)
	for _, contender := range allContenders {
		rounds = min(rounds, len(contender.turnMedians))
	}
	length := (rounds + maxPeriods - 1) / maxPeriods // length of a period, in rounds
	means := make([]float64, rounds/max(1, length))  // indexed by period; rounds after the last full period are ignored
	for _, contender := range allContenders {
		median := *SpreadOf(contender.turnMedians).Median
		for i, turn := range contender.turnMedians[:len(means)*length] {
			if median > 0 && turn > 0 {
				means[i/length] += math.Log(turn/median) / float64(len(allContenders)*length)
			}
		}
	}
	return means
}

// mannKendall is the p-value of the two-sided Mann-Kendall test for a trend (Mann 1945, Kendall 1975). It uses the
// normal approximation with a correction for ties: n samples have the variance (n(n-1)(2n+5) - sum t(t-1)(2t+5)) / 18,
// where t is the number of equal samples at each tie. It is 1 for a constant list. Samples are in the order of time.
// float64(...) prevents fused multiply-adds.
func mannKendall(list []float64) float64 {
	statistic, count := 0, float64(len(list))
	for i, earlier := range list {
		for _, later := range list[i+1:] {
			switch {
			case earlier < later:
				statistic++
			case earlier > later:
				statistic--
			}
		}
	}
	variance := count * (count - 1) * (2*count + 5) // 18 times the variance of the statistic
	for _, ties := range rankSamples(list, nil).tieSizes {
		t := float64(ties)
		variance -= float64(t * (t - 1) * (float64(2*t) + 5))
	}
	if variance <= 0 {
		return 1
	}
	return min(1, 2*float64(normalCDF(-math.Abs(float64(statistic))/math.Sqrt(variance/18))))
}

// theilSen returns the Theil-Sen slope of a list: the median of the slopes between all pairs of elements, per index.
// It is 0 for fewer than two elements.
func theilSen(list []float64) float64 {
	var slopes []float64
	for i, earlier := range list {
		for j := i + 1; j < len(list); j++ {
			slopes = append(slopes, (list[j]-earlier)/float64(j-i))
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	sorted.Floats(slopes)
	return quantile(slopes, 0.5)
}

// Spread summarizes measured times, in nanoseconds. Fields are nil without enough runs.
type Spread struct {
	Runs   int      `json:"runs" doc:"The number of measured runs."`
	Median *float64 `json:"median_ns" doc:"The median time of a run, in nanoseconds; null without runs."`
	Low    *float64 `json:"low_ns" doc:"The lower end of the median's 95% confidence interval; null for fewer than 6 runs."`
	High   *float64 `json:"high_ns" doc:"The upper end of the median's 95% confidence interval; null for fewer than 6 runs."`
	Min    *float64 `json:"min_ns" doc:"The least time, in nanoseconds; null without runs."`
	P10    *float64 `json:"p10_ns" doc:"The 10th percentile of the times; null without runs."`
	P90    *float64 `json:"p90_ns" doc:"The 90th percentile of the times; null without runs."`
	Max    *float64 `json:"max_ns" doc:"The greatest time, in nanoseconds; null without runs."`
}

// Confidence is the confidence of the interval from [Spread.Low] to [Spread.High].
const Confidence = 0.95

// SpreadOf summarizes times in nanoseconds, in any order. NaN and infinities are ignored. The ends of the confidence
// interval are samples; the binomial distribution determines their positions in the sorted list. The interval is
// therefore valid for any distribution of independent times.
func SpreadOf(times []float64) Spread {
	ascending := finiteValues(times)
	sorted.Floats(ascending)
	if len(ascending) == 0 {
		return Spread{}
	}
	quantileOf := func(q float64) *float64 { return new(quantile(ascending, q)) }
	spread := Spread{Runs: len(ascending), Median: quantileOf(0.5), Min: quantileOf(0), P10: quantileOf(0.1),
		P90: quantileOf(0.9), Max: quantileOf(1)}
	if low, ok := medianInterval(len(ascending)); ok {
		spread.Low, spread.High = &ascending[low], &ascending[len(ascending)-1-low]
	}
	return spread
}

// halfWidth is the half-width of the confidence interval of the median, divided by the median. It is nil if unknown.
func (s *Spread) halfWidth() *float64 {
	if s.Low == nil || *s.Median == 0 {
		return nil
	}
	return new(max(*s.High-*s.Median, *s.Median-*s.Low) / *s.Median)
}

// quantile returns quantile q of sorted values, interpolated. float64(...) prevents fused multiply-adds.
func quantile(sorted []float64, q float64) float64 {
	position := float64(q * float64(len(sorted)-1)) // an index, possibly between two elements
	below := int(position)
	if below+1 >= len(sorted) {
		return sorted[below]
	}
	return sorted[below] + float64((position-float64(below))*(sorted[below+1]-sorted[below]))
}

// finiteValues returns the finite values.
func finiteValues(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// Significance is the p-value below which a difference is significant. With Holm's correction, the probability that
// [Compare] finds any difference between equally fast plans is at most Significance. Disturbances that affect only
// one candidate increase this probability.
const Significance = 0.01

// Versus compares measured times with the times of the base, the first candidate.
type Versus struct {
	Base        string   `json:"base,omitzero" doc:"The name of the base; left out for the base itself."`
	Ratio       *float64 `json:"ratio" doc:"Its median divided by the median of the base; null if one of them was not measured."`
	P           *float64 `json:"p_value" doc:"The p-value of the Mann-Whitney U test on the medians of turns; null for the base and its plan."`
	PHolm       *float64 `json:"p_holm" doc:"The p-value with Holm's correction for the tests of all pairs; null for the base and its plan."`
	Significant bool     `json:"significant" doc:"Whether the difference from the base is significant: p_holm is below 0.01."`
}

// VersusOf compares times with the times of a base, both in nanoseconds and in any order. Like benchstat it uses the
// two-sided Mann-Whitney U test, which assumes no distribution. The test is exact if neither list has more than 25
// times. PHolm equals P, because there is only one test. If all times are equal, P is 1. NaN and infinities are
// ignored. P is nil if one list has no finite time.
func VersusOf(base, times []float64) Versus {
	baseSpread, spread := SpreadOf(base), SpreadOf(times)
	if baseSpread.Runs == 0 || spread.Runs == 0 {
		return Versus{}
	}
	p := mannWhitney(finiteValues(base), finiteValues(times))
	return Versus{Ratio: baseSpread.ratio(&spread), P: &p, PHolm: &p, Significant: p < Significance}
}

// ratio is the median of other divided by the median of s, or nil if a median is unknown.
func (s *Spread) ratio(other *Spread) *float64 {
	if s.Median == nil || other.Median == nil || *s.Median <= 0 {
		return nil
	}
	return new(*other.Median / *s.Median)
}
