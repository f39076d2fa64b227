package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
)

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
	maxLoad    = 0.5
)

// disturbancesOf describes the disturbances of measured contenders, which are candidates with their times. In each
// round, every contender runs several times.
func disturbancesOf(allContenders []*contender, load *loadMeter) Disturbances {
	result := Disturbances{Load: load.mean()}
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
	if result.Load != nil && *result.Load > maxLoad {
		warnings = append(warnings, fmt.Sprintf("%.1f threads of other processes were runnable on average", *result.Load))
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
