package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/steptimes"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// tunedNetwork is a small network with several plans, and its inputs.
func tunedNetwork(t *testing.T) (*graph.Graph, map[string]*tensor.Tensor) {
	t.Helper()
	g := networks.Bottlenecks(8, 8)
	require.NoError(t, graphrun.Infer(t.Context(), g))
	in := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		in[v.Name] = tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
	}
	return g, in
}

// TestTune measures a small network. Its result can be written, read, used and continued, and is refused elsewhere.
func TestTune(t *testing.T) {
	g, in := tunedNetwork(t)
	cache := graphrun.OpenCache(t.TempDir(), graphrun.CacheOptions{})
	options := graphrun.Options{Threads: 1, Cache: cache}
	states := 0
	tuning, err := Tune(t.Context(), g, options, in, TuneOptions{Budget: 500 * time.Millisecond,
		Progress: func(state string, left time.Duration) { states++ }})
	require.NoError(t, err)
	require.Greater(t, states, 2)
	require.False(t, tuning.Interrupted)
	require.Positive(t, tuning.Rounds)
	result := tuning.Result
	require.NotEmpty(t, result.Prices)
	require.NotEmpty(t, result.Summary)
	require.Equal(t, len(result.Prices), tuning.Regret.Prices)
	require.Positive(t, result.NS)
	for _, price := range result.Prices {
		require.GreaterOrEqual(t, price.Samples, 2*runsOfTurn)
		require.LessOrEqual(t, price.LowNS, price.MeasuredNS)
	}

	var text bytes.Buffer
	require.NoError(t, result.Write(&text))
	read, err := pricing.ReadTuned(&text)
	require.NoError(t, err)
	wanted, got := mustJSON(t, result), mustJSON(t, read)
	require.Equal(t, wanted, got)

	// The plan at measured prices is used, from the file and from the cache.
	read.Plan = pricing.MeasuredPlan
	compiled := func(o graphrun.Options) (*graphrun.Program, error) { return graphrun.Compile(t.Context(), g, o) }
	p, err := compiled(graphrun.Options{Threads: 1, Tuned: read})
	require.NoError(t, err)
	require.Equal(t, len(result.Prices), p.Report().Profile.Prices)
	require.True(t, p.Report().Optimal)
	_, err = p.Run(t.Context(), in)
	require.NoError(t, err)
	p, err = compiled(options)
	require.NoError(t, err)
	if result.Plan == pricing.MeasuredPlan {
		require.Equal(t, len(result.Prices), p.Report().Profile.Prices)
	} else {
		require.Zero(t, p.Report().Profile.Prices)
	}
	read.Plan, read.Labels = pricing.LabeledPlan, map[string]string{"no variable": "of the problem"}
	p, err = compiled(graphrun.Options{Threads: 1, Tuned: read})
	require.NoError(t, err, "at sizes with another problem, the plan is the cheapest at the prices")
	require.True(t, p.Report().Optimal)
	read.Plan = "no strategy"
	_, err = compiled(graphrun.Options{Threads: 1, Tuned: read})
	require.ErrorContains(t, err, "no strategy")
	read.Plan = pricing.MeasuredPlan

	// It is refused elsewhere.
	_, err = compiled(graphrun.Options{Threads: 2, Tuned: read})
	require.ErrorContains(t, err, "it was measured with threads=1, and the program has threads=2")
	_, err = compiled(graphrun.Options{Threads: 1, NoFusion: true, Tuned: read})
	require.ErrorContains(t, err, "for another graph or other options")
	for want, change := range map[string]func(*pricing.Tuned){
		"on another machine (abacus; this is": func(other *pricing.Tuned) { other.Machine = "abacus" },
		"with graphrun v0, and this is":       func(other *pricing.Tuned) { other.Release = "v0" },
	} {
		other := *read
		change(&other)
		_, err = compiled(graphrun.Options{Threads: 1, Tuned: &other})
		require.ErrorContains(t, err, want)
		_, err = Tune(t.Context(), g, graphrun.Options{Threads: 1}, in, TuneOptions{Before: &other})
		require.ErrorContains(t, err, want)
	}

	// Continued, it keeps its prices.
	again, err := Tune(t.Context(), g, options, in, TuneOptions{Budget: time.Millisecond})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(again.Result.Prices), len(result.Prices))
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestTuneRefuses what it cannot measure.
func TestTuneRefuses(t *testing.T) {
	g, in := tunedNetwork(t)
	var none context.Context
	_, err := Tune(none, g, graphrun.Options{}, in, TuneOptions{})
	require.ErrorContains(t, err, "the context is nil")
	_, err = Tune(t.Context(), nil, graphrun.Options{}, in, TuneOptions{})
	require.ErrorContains(t, err, "graph")
	_, err = Tune(t.Context(), g, graphrun.Options{Tracer: steptimes.New()}, in, TuneOptions{})
	require.ErrorContains(t, err, "tracer")
	_, err = Tune(t.Context(), g, graphrun.Options{Strategy: graphrun.Propagate}, in, TuneOptions{})
	require.ErrorContains(t, err, "strategy propagate does not state the problem of layouts")
	_, err = Tune(t.Context(), g, graphrun.Options{}, nil, TuneOptions{})
	require.ErrorContains(t, err, "is missing")
	ctx, cancel := context.WithCancel(t.Context())
	tuning, err := Tune(ctx, g, graphrun.Options{}, in, TuneOptions{Progress: func(state string, _ time.Duration) {
		if state != "measuring the plan at predicted prices; 0 prices" {
			cancel()
		}
	}})
	require.NoError(t, err)
	require.True(t, tuning.Interrupted)
	require.Equal(t, pricing.PredictedPlan, tuning.Result.Plan)
	require.Contains(t, tuning.Result.Summary, "nothing is concluded")
}

// TestChosen: a plan other than the cheapest at measured prices is used only if it is significantly faster, and the plan
// at predicted prices if it is not slower. A disturbed comparison concludes nothing.
func TestChosen(t *testing.T) {
	quiet := func(r *rand.Rand) noiseSource { return func() float64 { return 1 + 0.001*r.Float64() } }
	for _, c := range []struct {
		measured, predicted, other float64
		noise                      string
		want                       string
		text                       string
	}{
		{10, 11, 12, "", measuredName, "the plan at measured prices is fastest: 10.0 ms a run, 9.1% less than the plan at " +
			"predicted prices (11.0 ms, p < 0.001)"},
		{10, 11, 9, "", "plan 2", "the plan 2 is fastest: 9.00 ms a run, 18.2% less"},
		{11, 10, 12, "", predictedName, "the plan at predicted prices is fastest: 10.0 ms a run, 9.1% less than the plan at " +
			"measured prices"},
		{10, 10.5, 11, "heavy tails", "", "p = "},
	} {
		noise := quiet(seeded(1))
		if c.noise != "" {
			noise = noiseSources[c.noise](seeded(1))
		}
		final := simulate(t, noise, Options{Runs: 24}, c.measured, c.predicted, c.other)
		rename := map[string]string{"s0": measuredName, "s1": predictedName, "s2": "plan 2"}
		plans := make([]*tunedPlan, 3)
		for i := range final.Rows {
			name := rename[final.Rows[i].Name]
			final.Rows[i].Name = name
			plans[i] = &tunedPlan{name: name, key: name, runNS: *final.Rows[i].Median}
		}
		for i := range final.Verdict.Pairs {
			pair := &final.Verdict.Pairs[i]
			pair.A, pair.B = rename[pair.A], rename[pair.B]
		}
		tuner := &tuner{result: &Tuning{Final: final}, predicted: plans[1], finalists: plans}
		chosen := tuner.chosen()
		if c.want != "" {
			require.Equal(t, c.want, chosen.name)
			require.Contains(t, tuner.differenceText(chosen), c.text)
		}
		require.Empty(t, disturbanceOf(&Ranking{}))
		final.Verdict.Spread = 0.5
		require.Contains(t, disturbanceOf(final.Verdict), "50% of the median")
	}
}

// TestCertifiedRegret: a certificate at measured prices has the bound on the regret; intervals that were changed
// afterwards are found.
func TestCertifiedRegret(t *testing.T) {
	g := graph.New("two", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1, 16, 20, 20)
	w := g.Constant("w", tensor.Zeros(tensor.Float32, 16, 16, 3, 3))
	conv := op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}})
	g.Output("y", op.Conv2d(op.Softmax(conv, 1), w, nil, op.Conv2dAttrs{Padding: []int{1, 1}}))
	require.NoError(t, graphrun.Infer(t.Context(), g))
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	prices := &pricing.Prices{}
	for _, step := range stepLabels(p) {
		price := priced(step.label, []float64{90, 100, 110, 95, 105, 100, 99, 101})
		price.PredictedNS = 120
		prices.AddPrice(price)
	}
	p, err = graphrun.Compile(t.Context(), g, graphrun.Options{Costs: pricing.DefaultProfile().WithPrices(prices)})
	require.NoError(t, err)
	certified := func() *Certificate {
		c, err := Certify(p)
		require.NoError(t, err)
		return c
	}
	c := certified()
	require.NotNil(t, c.Regret)
	regret, err := Regret(p)
	require.NoError(t, err)
	verdict, err := Verify(t.Context(), g, c)
	require.NoError(t, err)
	require.Equal(t, len(prices.Prices), verdict.Prices)
	require.Equal(t, regret.NS, *verdict.RegretNS)

	change := func(change func(*Certificate)) error {
		c := certified()
		profile := *c.Profile
		profile.Prices = append([]pricing.LabelPrice{}, profile.Prices...)
		c.Profile = &profile
		solution := *c.Regret
		c.Regret = &solution
		change(c)
		_, err := Verify(t.Context(), g, c)
		return err
	}
	require.ErrorContains(t, change(func(c *Certificate) { c.Profile.Prices[0].LowNS /= 2 }), "digest of the profile")
	require.ErrorContains(t, change(func(c *Certificate) {
		for i := range c.Profile.Prices {
			c.Profile.Prices[i].HighNS *= 2
		}
		c.ProfileDigest = machine.DigestOfJSON(c.Profile)
	}), "regret")
	require.ErrorContains(t, change(func(c *Certificate) { c.Regret.Bound++ }), "regret")
	require.ErrorContains(t, change(func(c *Certificate) { c.Regret.Cost-- }), "regret")
	require.ErrorContains(t, change(func(c *Certificate) { c.Regret.Labels = nil }), "regret")
	require.ErrorContains(t, change(func(c *Certificate) { c.Regret.Proof = nil }), "no proof")
}
