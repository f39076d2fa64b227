package calibrate

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/pricing"
)

// simulated is a measurer of calls on a machine that is slower than that of the built-in profile by slowness. Each of
// the inner kernels and each of the sizes of copies has a call; delay multiplies the time of a call in a round.
type simulated struct {
	*measurer
	kernels []string
}

const slowness = 1.3

func simulate(rounds int, delay func(of string, round int) float64) *simulated {
	s := &simulated{measurer: &measurer{options: Options{Rounds: rounds, Budget: time.Minute}},
		kernels: []string{"gemm.f32", "gemm.f64", "gemm.thin", "direct.taps", "loop.simple", "depthwise.pixels"}}
	profile := pricing.DefaultProfile()
	add := func(p *probe, work pricing.Work) {
		p.stepWorks = []pricing.Work{work}
		for round := range rounds {
			p.roundNS = append(p.roundNS, slowness*profile.PriceNS(work)*delay(p.name(), round))
		}
		s.probes = append(s.probes, p)
	}
	for _, bytes := range []float64{16 << 10, 1 << 20, 16 << 20} {
		work := pricing.Work{StartedSteps: 1, Footprint: bytes}
		work.Bytes[pricing.Copied] = bytes
		add(&probe{access: pricing.Copied, footprintBytes: bytes, unit: "a byte"}, work)
	}
	for _, name := range s.kernels {
		s.rates = append(s.rates, graph.Rate{Name: name})
		work := pricing.Work{StartedSteps: 1, Footprint: 4 << 10}
		work.AddUnits(name, 1e6)
		add(&probe{innerKernel: name, unit: "a unit"}, work)
	}
	for i := range s.steps {
		for round := range rounds {
			s.steps[i].roundNS = append(s.steps[i].roundNS, slowness*profile.StepPS/pricing.PSPerNS*delay(StepRate, round))
		}
	}
	return s
}

// fitted returns the result of a simulation, with its rates by name.
func (s *simulated) fitted() (*Result, map[string]Rate) {
	result, rates := s.result(s.fit()), map[string]Rate{}
	for _, rate := range result.Rates {
		rates[rate.Of] = rate
	}
	return result, rates
}

func undisturbed(string, int) float64 { return 1 }

// TestCertainRates: undisturbed rates are certain, and so are rates of which one round was disturbed.
func TestCertainRates(t *testing.T) {
	builtIn := pricing.SharedDefaultProfile().Digest()
	oneRound := func(of string, round int) float64 {
		if of == "gemm.f64" && round == 3 || of == "gemm.f32" && round == 0 || of == StepRate && round == 1 {
			return 3
		}
		return 1
	}
	for _, delay := range []func(string, int) float64{undisturbed, oneRound} {
		result, rates := simulate(5, delay).fitted()
		require.NoError(t, result.Check())
		assert.Empty(t, result.Uncertain())
		assert.Empty(t, result.Noise)
		assert.Len(t, rates, 1+3+6)
		for of, rate := range rates {
			assert.InEpsilon(t, slowness*rate.BuiltInPS, rate.PS, .02, of)
			assert.Equal(t, rate.MeasuredPS, rate.PS, of)
			assert.InDelta(t, 1, rate.Spread, .01, of)
		}
		assert.Equal(t, 5, result.Rounds)
	}
	assert.Equal(t, builtIn, pricing.SharedDefaultProfile().Digest())
}

// TestUncertainRates: rates of which two of five rounds were disturbed keep the built-in rates, scaled as the certain
// rates of their kind, unless they are forced.
func TestUncertainRates(t *testing.T) {
	disturbed := []string{"gemm.f64", "copied 1 MiB"}
	twoRounds := func(of string, round int) float64 {
		if slices.Contains(disturbed, of) && round >= 3 {
			return 2
		}
		return 1
	}
	result, rates := simulate(5, twoRounds).fitted()
	require.NoError(t, result.Check())
	require.Len(t, result.Uncertain(), 2)
	for _, rate := range result.Uncertain() {
		assert.Contains(t, disturbed, rate.Of)
		assert.Greater(t, rate.Spread, 1.9, rate.Of)
		assert.InEpsilon(t, slowness*rate.BuiltInPS, rate.PS, .02, rate.Of)
	}
	assert.InEpsilon(t, rates["gemm.f64"].PS, result.Profile.Kernels["gemm.f64"], 1e-9)
	assert.InEpsilon(t, rates["copied 1 MiB"].PS, result.Profile.Memory.Copied.At(1<<20), 1e-9)
	forced := simulate(5, twoRounds)
	forced.options.Force = true
	result, rates = forced.fitted()
	require.Len(t, result.Uncertain(), 2)
	for _, of := range disturbed {
		assert.Equal(t, rates[of].MeasuredPS, rates[of].PS, of)
	}
}

// TestUndeterminedRates: a rate whose calls take less time than their other work is uncertain in spite of equal rounds.
func TestUndeterminedRates(t *testing.T) {
	s := simulate(5, func(of string, _ int) float64 {
		if of == "gemm.thin" {
			return 1e-6
		}
		return 1
	})
	result, rates := s.fitted()
	require.Len(t, result.Uncertain(), 1)
	assert.InEpsilon(t, slowness*rates["gemm.thin"].BuiltInPS, rates["gemm.thin"].PS, .02)
}

// TestNoise has the notes, and the results that are not used.
func TestNoise(t *testing.T) {
	s := simulate(5, func(_ string, round int) float64 { return 1 + .2*float64(round%2) })
	s.load = environment.LoadMeter{Sum: 30, Samples: 20}
	result, _ := s.fitted()
	require.NoError(t, result.Check())
	assert.Equal(t, "1.5 threads of other processes were runnable on average; "+
		"calls took 20% longer in the slowest round than in the fastest", result.Noise)
	assert.InDelta(t, 1.2, result.RoundSpread, 1e-9)

	s.load.Sum = 1e6
	result, _ = s.fitted()
	require.ErrorContains(t, result.Check(), "threads of other processes were runnable on average, more than twice the")

	s = simulate(2, undisturbed)
	s.options.Rounds = 5
	result, _ = s.fitted()
	assert.Equal(t, "2 of 5 rounds fit into 1m0s", result.Noise)
	require.EqualError(t, result.Check(), "the rates are uncertain: 2 rounds are complete, and 4 are needed")

	s = simulate(5, func(of string, round int) float64 {
		if of == "copied 16 KiB" || of == "copied 16 MiB" || of == StepRate {
			return 1
		}
		return []float64{1, 3, 1.5, 2, 1}[round]
	})
	result, _ = s.fitted()
	require.ErrorContains(t, result.Check(), "7 of 10 rates are uncertain: they differ by more than 1.25")
	require.Error(t, (*Result)(nil).Check())
	assert.Empty(t, (*Result)(nil).Uncertain())
}
