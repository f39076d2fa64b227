package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// noiseSource is the noise of a machine: the factor by which the next run is slower than undisturbed. Successive calls
// are successive runs, of any program.
type noiseSource func() float64

// noiseSources are kinds of noise that measurements show. Levels are those of a disturbed machine.
var noiseSources = map[string]func(r *rand.Rand) noiseSource{
	"skewed": func(r *rand.Rand) noiseSource {
		return func() float64 { return math.Exp(0.05 * r.ExpFloat64()) }
	},
	"heavy tails": func(r *rand.Rand) noiseSource {
		return func() float64 { // a Pareto tail without variance
			f := math.Exp(0.02 * r.NormFloat64())
			if r.Float64() < 0.1 {
				f *= 1 + 0.1*math.Pow(1-r.Float64(), -1/1.5)
			}
			return f
		}
	},
	"drift": func(r *rand.Rand) noiseSource {
		run := 0.0
		return func() float64 {
			run++
			return (1 + run/1000 + 0.05*math.Sin(run/40)) * math.Exp(0.02*r.NormFloat64())
		}
	},
	"autocorrelated": func(r *rand.Rand) noiseSource {
		state := 0.0
		return func() float64 {
			state = 0.9*state + 0.03*r.NormFloat64()
			return math.Exp(state)
		}
	},
	"long correlation": func(r *rand.Rand) noiseSource {
		state := 0.0
		return func() float64 {
			state = 0.99*state + 0.02*r.NormFloat64()
			return math.Exp(state + 0.01*r.NormFloat64())
		}
	},
	"bursts": func(r *rand.Rand) noiseSource {
		slow := false
		return func() float64 {
			if slow = slow != (r.Float64() < 0.1); slow {
				return 1.4 * math.Exp(0.05*r.NormFloat64())
			}
			return math.Exp(0.02 * r.NormFloat64())
		}
	},
	"coarse clock": func(r *rand.Rand) noiseSource {
		return func() float64 { return math.Round(20*math.Exp(0.05*r.NormFloat64())) / 20 }
	},
}

// simulate compares programs whose undisturbed times are given, in ms, on a machine.
func simulate(t *testing.T, noise noiseSource, o Options, ms ...float64) *Comparison {
	t.Helper()
	var all []*contender
	for i, x := range ms {
		all = append(all, &contender{name: fmt.Sprint("s", i), report: &report.Plan{}, run: func(context.Context,
			map[string]*tensor.Tensor) (map[string]*tensor.Tensor, time.Duration, error) {
			return nil, time.Duration(x * noise() * 1e6), nil
		}})
	}
	require.NoError(t, o.complete())
	c, err := compare(context.Background(), all, nil, o, nil)
	require.NoError(t, err)
	return c
}

// seeded returns independent random numbers for each seed.
func seeded(seed int) *rand.Rand {
	return rand.New(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}))
}

// TestFalseAlarms simulates 200 comparisons of equal programs for each kind of noise. The family-wise rate is the part
// of comparisons with at least one significant difference; it may be 5%.
func TestFalseAlarms(t *testing.T) {
	const comparisons = 200
	for _, kind := range slices.Sorted(maps.Keys(noiseSources)) {
		for _, c := range []struct {
			candidates int
			Options
		}{{7, Options{}}, {2, Options{}}, {3, Options{Turn: 1, Runs: 10}}, {3, Options{Until: 0.02, Runs: 200}}} {
			name := fmt.Sprintf("%s/candidates=%d/turn=%d/until=%v", kind, c.candidates, c.Turn, c.Until)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				alarms := 0
				for seed := range comparisons {
					c.Seed = uint64(seed)
					c := simulate(t, noiseSources[kind](seeded(seed)), c.Options, slices.Repeat([]float64{10}, c.candidates)...)
					if slices.ContainsFunc(c.Verdict.Pairs, func(p Pair) bool { return p.Significant }) {
						alarms++
					}
				}
				t.Logf("%d of %d comparisons have a false alarm", alarms, comparisons)
				assert.LessOrEqual(t, alarms, comparisons*5/100)
			})
		}
	}
}

// TestRunsToTell simulates a difference of 2% with the number of runs that a shorter comparison predicts. It must be
// found in about 80% of comparisons.
func TestRunsToTell(t *testing.T) {
	quiet := func(r *rand.Rand) noiseSource {
		return func() float64 { return math.Exp(0.05 * r.NormFloat64()) }
	}
	found, predicted := 0, 0
	for seed := range 100 {
		short := simulate(t, quiet(seeded(seed)), Options{Runs: 40, Seed: uint64(seed)}, 10, 10)
		runs := *short.Verdict.RunsFor2Percent
		predicted += runs
		long := simulate(t, quiet(seeded(1000+seed)), Options{Runs: runs, Seed: uint64(seed)}, 10, 10.2)
		if long.Verdict.Pairs[0].Significant {
			found++
		}
	}
	t.Logf("%d of 100 with %d runs on average", found, predicted/100)
	assert.Greater(t, found, 65)
	assert.Less(t, found, 95)
}

// The verdict of clear differences, in words.
func TestVerdictWords(t *testing.T) {
	quiet := func(seed int) noiseSource {
		r := seeded(seed)
		return func() float64 { return math.Exp(0.001 * r.NormFloat64()) }
	}
	for want, ms := range map[string][]float64{
		"s1 is fastest: 14.2 ms; s0 is 3% slower (p < 0.001); s2 takes 2.6 times as long (p < 0.001)": {14.63, 14.2, 36.9},
		"s0 is fastest: 10.00 ms; s1 is 0.5% slower (p < 0.001)":                                      {10, 10.05},
		"s0 takes 14.2 ms": {14.2},
	} {
		c := simulate(t, quiet(1), Options{}, ms...)
		assert.Equal(t, want, c.Verdict.Text)
		assert.Empty(t, c.Verdict.Noise)
	}
	c := simulate(t, quiet(2), Options{}, 10, 10, 20, 20)
	assert.Regexp(t, `^fastest, without a significant difference: s[01] 10.0+ ms, s[01] 10.0+ ms; `+
		`s[23] takes 2.0 times as long \(p < 0.001\); s[23] takes 2.0 times as long \(p < 0.001\); `+
		`no significant difference between s[23] and s[23]; \d+ runs of each would find a difference of 2%$`, c.Verdict.Text)
	assert.ElementsMatch(t, []string{"s0", "s1"}, c.Verdict.Fastest)
	// Turns of s0 vary so much that its least median proves nothing, while s2 is slower than s1.
	turns := [][]float64{{1, 1, 1, 1, 30, 30, 30}, {2, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6}, {4, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6}}
	noisy := &Comparison{}
	s := &session{load: &environment.LoadMeter{}}
	for i, list := range turns {
		s.contenders = append(s.contenders, &contender{name: fmt.Sprint("s", i), times: list, turnMedians: list})
		noisy.Rows = append(noisy.Rows, Measurement{Name: fmt.Sprint("s", i), Spread: SpreadOf(list)})
	}
	noisy.setVerdict(s.contenders, s)
	assert.Equal(t, []string{"s0", "s1"}, noisy.Verdict.Fastest)
	assert.Contains(t, noisy.Verdict.Text,
		"; s2 is 87% slower than s1 (p < 0.01); no significant difference between s0 and s2; ")
	wild := simulate(t, noiseSources["heavy tails"](seeded(3)), Options{Runs: 12}, 10, 10)
	wild.Verdict.RunsFor2Percent = nil
	assert.Regexp(t, `; times vary too much to estimate the number of runs that would find a difference of 2%$`,
		wild.verdictText())
}

// With too few runs for any significant difference, the verdict has the least number of runs that suffices. With one
// run less no difference is significant, however large.
func TestTooFewRuns(t *testing.T) {
	quiet := func() float64 { return 1 }
	distinct := []float64{10, 20, 30, 40, 50}
	for plans := 2; plans <= len(distinct); plans++ {
		for turn := range 5 {
			o := Options{Runs: 1, Turn: turn}
			v := simulate(t, ascending(), o, distinct[:plans]...).Verdict
			require.NotNil(t, v.FewestRuns)
			for o.Runs = *v.FewestRuns - 1; o.Runs <= *v.FewestRuns; o.Runs++ {
				reached := o.Runs == *v.FewestRuns
				found := simulate(t, ascending(), o, distinct[:plans]...).Verdict
				assert.Equal(t, reached, found.FewestRuns == nil)
				assert.Equal(t, reached, slices.ContainsFunc(found.Pairs, func(p Pair) bool { return p.Significant }))
				assert.Equal(t, reached, !strings.Contains(found.Text, "too few"))
			}
		}
	}
	for want, runs := range map[string]int{
		"1 run is too few to find any difference between these plans: at least 9 runs of each are needed; lowest medians: " +
			"s0 10.0 ms, s1 20.0 ms": 1,
		"8 runs are too few to find any difference between these plans: at least 9 runs of each are needed; lowest " +
			"medians: s0 10.0 ms, s1 20.0 ms": 8,
	} {
		assert.Equal(t, want, simulate(t, quiet, Options{Runs: runs}, 10, 20).Verdict.Text)
	}
	assert.NotContains(t, simulate(t, quiet, Options{Runs: 4}, 10, 10, 10, 10, 10, 10).Verdict.Text, "fastest")
	assert.Nil(t, simulate(t, quiet, Options{Runs: 1}, 10).Verdict.FewestRuns)
	for n := 1; n <= 8; n++ {
		for m := 1; m <= 8; m++ {
			assert.InEpsilon(t, mannWhitney(distinctTimes(0, n), distinctTimes(100, m)), leastP(n, m), 1e-12)
		}
	}
}

// ascending is a source of noise without ties.
func ascending() noiseSource {
	f := 1.0
	return func() float64 { f += 1e-6; return f }
}

// distinctTimes returns n times from first on.
func distinctTimes(first float64, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = first + float64(i)
	}
	return list
}

// Disturbances give warnings with their figures; an undisturbed measurement gives none.
func TestDisturbances(t *testing.T) {
	r, run := seeded(1), 0.0
	drifting := simulate(t, func() float64 { run++; return 1 + run/600 }, Options{}, 10, 20).Verdict
	assert.Regexp(t, `^times changed by \+9% from the first to the last round \(Mann-Kendall test, p < 0.001\)$`,
		drifting.Noise)
	assert.InDelta(t, 0.09, drifting.Drift, 0.01)
	varying := simulate(t, func() float64 { return 1 + r.Float64() }, Options{Runs: 200}, 10).Verdict
	assert.Regexp(t, `^the times of s0 vary: their interquartile range is 3\d% of the median$`, varying.Noise)
	loaded := disturbancesOf([]*contender{{times: []float64{1}, turnMedians: []float64{1}}},
		&environment.LoadMeter{Sum: 9, Samples: 4})
	assert.Equal(t, "2.2 threads of other processes were runnable on average", loaded.Noise)
	alarms := 0
	for seed := range 200 {
		r := seeded(seed)
		v := simulate(t, func() float64 { return math.Exp(0.05 * r.NormFloat64()) }, Options{}, 10, 20).Verdict
		if v.DriftP < driftLevel {
			alarms++
		}
	}
	t.Logf("%d of 200 comparisons have a false trend", alarms)
	assert.LessOrEqual(t, alarms, 6)
}

// TestUntil ends when all intervals are narrow, or at the limit of runs.
func TestUntil(t *testing.T) {
	r := seeded(1)
	noise := func() float64 { return math.Exp(0.05 * r.NormFloat64()) }
	c := simulate(t, noise, Options{Until: 0.01}, 10, 20)
	assert.Empty(t, c.Verdict.Unreached)
	for _, row := range c.Rows {
		assert.LessOrEqual(t, *row.halfWidth(), 0.01)
		assert.Greater(t, row.Runs, 60)
		assert.Less(t, row.Runs, 400)
	}
	c = simulate(t, noise, Options{Until: 0.001}, 10, 20)
	assert.Equal(t, []string{"s0", "s1"}, c.Verdict.Unreached)
	assert.Equal(t, maxRunsWithUntil, c.Rows[0].Runs)
	assert.Contains(t, c.Verdict.Text, "; the confidence interval of s0 and s1 is wider than demanded")
	c = simulate(t, noise, Options{Until: 0.001, Runs: 31}, 10)
	assert.Equal(t, 31, c.Rows[0].Runs)
	c = simulate(t, noise, Options{Until: 0.5}, 10)
	assert.Equal(t, defaultRuns, c.Rows[0].Runs)
}
