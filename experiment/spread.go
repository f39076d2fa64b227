package experiment

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

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
