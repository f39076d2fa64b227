package graphrun

import (
	"math"
	"slices"
)

// Spread sums up measured times, in nanoseconds. What no run tells is nil.
type Spread struct {
	Runs   int      `json:"runs" doc:"How many runs were measured."`
	Median *float64 `json:"median_ns" doc:"The median time of a run, in nanoseconds; null where none was measured."`
	Low    *float64 `json:"low_ns" doc:"The lower end of the median's 95% confidence interval; null for fewer than 6 runs."`
	High   *float64 `json:"high_ns" doc:"The upper end of the median's 95% confidence interval; null for fewer than 6 runs."`
	Min    *float64 `json:"min_ns" doc:"The least time, in nanoseconds; null where none was measured."`
	P10    *float64 `json:"p10_ns" doc:"The time that a tenth of the runs stay below; null where none was measured."`
	P90    *float64 `json:"p90_ns" doc:"The time that a tenth of the runs exceed; null where none was measured."`
	Max    *float64 `json:"max_ns" doc:"The greatest time, in nanoseconds; null where none was measured."`
}

// Confidence is that of the interval from [Spread.Low] to [Spread.High].
const Confidence = 0.95

// SpreadOf sums up times in nanoseconds, in any order. What is no finite number is left out. The confidence interval is
// between two of the times, which follow from the binomial distribution, whatever that of times is.
func SpreadOf(times []float64) Spread {
	t := slices.Sorted(slices.Values(finite(times)))
	if len(t) == 0 {
		return Spread{}
	}
	at := func(q float64) *float64 { return new(quantile(t, q)) }
	s := Spread{Runs: len(t), Median: at(0.5), Min: at(0), P10: at(0.1), P90: at(0.9), Max: at(1)}
	if k, ok := medianInterval(len(t)); ok {
		s.Low, s.High = &t[k], &t[len(t)-1-k]
	}
	return s
}

// quantile interpolates between the sorted values that are around the place q.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// finite returns the values that are numbers.
func finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// Significance is the probability below which [Versus.Significant] calls a difference one.
const Significance = 0.05

// Versus sets measured times beside those of the base, which is what was named first.
type Versus struct {
	Base  string   `json:"base,omitzero" doc:"What it is compared with; left out for the base itself."`
	Ratio *float64 `json:"ratio" doc:"Its median in parts of the base's; null where one of them was not measured."`
	P     *float64 `json:"p_value" doc:"How likely times differ so by chance (Mann-Whitney U test); null for the base."`
	// Significant says that chance hardly explains the difference.
	Significant bool `json:"significant" doc:"Whether times differ from the base's with a p_value below 0.05."`
}

// VersusOf compares times with those of a base, both in nanoseconds and in any order, by the Mann-Whitney U test, as
// benchstat does: two-sided, exact where there are few, and without a guess at how times are distributed. Where all
// times are equal nothing differs: the probability is 1. What is no finite number is left out; P is nil where one side
// has no time.
func VersusOf(base, times []float64) Versus {
	a, b := SpreadOf(base), SpreadOf(times)
	if a.Runs == 0 || b.Runs == 0 {
		return Versus{}
	}
	v := Versus{P: new(mannWhitney(finite(base), finite(times)))}
	if *a.Median > 0 {
		v.Ratio = new(*b.Median / *a.Median)
	}
	v.Significant = *v.P < Significance
	return v
}
