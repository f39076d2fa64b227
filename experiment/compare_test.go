package experiment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

var ctx = context.Background()

// floats returns a tensor of multiples of 1/8 around 0.
func floats(shape ...int) *tensor.Tensor {
	data := make([]float32, tensor.Numel(shape))
	for i := range data {
		data[i] = float32(i-len(data)/2) / 8
	}
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// image is a small network of a convolution, and inputs for it.
func image(t *testing.T) (*graph.Graph, map[string]*tensor.Tensor) {
	t.Helper()
	g := graph.New("image", kernels.Lookup)
	x, w := g.Input("x", tensor.Float32, 1, 8, 12, 12), g.Input("w", tensor.Float32, 8, 8, 3, 3)
	g.Output("y", op.Relu(op.Conv2d(x, w, nil).Named("conv")).Named("act"))
	require.NoError(t, g.Err())
	return g, map[string]*tensor.Tensor{"x": floats(1, 8, 12, 12), "w": floats(8, 8, 3, 3)}
}

func candidate(t *testing.T, name string, g *graph.Graph, o graphrun.Options) experiment.Candidate {
	t.Helper()
	p, err := graphrun.Compile(ctx, g, o)
	require.NoError(t, err)
	return experiment.Candidate{Name: name, Program: p}
}

// mine is a strategy of one's own.
type mine struct{ graphrun.Strategy }

func (mine) Name() string { return "mine" }

// A strategy of one's own is measured beside one that is always there.
func ExampleCompare() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4, 4)
	g.Output("y", op.Relu(x))
	var list []experiment.Candidate
	for _, s := range []graphrun.Strategy{graphrun.Propagate, mine{graphrun.Contiguous}} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s})
		if err != nil {
			fmt.Println(err)
			return
		}
		list = append(list, experiment.Candidate{Program: p})
	}
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4, 4)}
	c, err := experiment.Compare(context.Background(), list, in, experiment.Options{Runs: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range c.Rows {
		fmt.Printf("%s ran %d times, copies: %d, base: %q\n", row.Name, row.Runs, row.Copies, row.Base)
	}
	fmt.Println("values differ:", len(c.Differences) > 0)
	fmt.Println(strings.Join(c.Table().Heads[:1], " ")) // c.Table() has all figures as text
	// Output:
	// propagate ran 10 times, copies: 0, base: ""
	// mine ran 10 times, copies: 0, base: "propagate"
	// values differ: false
	// strategy
}

func TestCompare(t *testing.T) {
	g, in := image(t)
	pin := graph.Pin{Format: tensor.ChannelsLast}
	list := []experiment.Candidate{
		candidate(t, "", g, graphrun.Options{}),
		candidate(t, "pinned", g, graphrun.Options{Pins: map[string]graph.Pin{"conv": pin}}),
		candidate(t, "", g, graphrun.Options{Strategy: mine{graphrun.ChannelsLast}}),
	}
	var told [][2]int
	c, err := experiment.Compare(ctx, list, in, experiment.Options{Runs: 8, BoundNS: new(1.0),
		Progress: func(done, total int) { told = append(told, [2]int{done, total}) }})
	require.NoError(t, err)
	require.Len(t, c.Rows, 3)
	assert.False(t, c.Interrupted)
	assert.True(t, c.HasOutputs)
	assert.Empty(t, c.Differences)
	assert.Len(t, told, 5)
	assert.Equal(t, [2]int{4, 5}, told[4])
	for i, row := range c.Rows {
		assert.Equal(t, []string{"optimal", "pinned", "mine"}[i], row.Name)
		assert.Equal(t, i > 0, row.Base == "optimal")
		assert.Equal(t, i > 0, row.P != nil)
		assert.Len(t, row.Samples, 8)
		assert.Equal(t, 8, row.Runs)
		assert.LessOrEqual(t, *row.Low, *row.Median)
		assert.Equal(t, row.CostNS-1, *row.Gap)
		assert.Equal(t, row.PeakBytes+row.Memory.Constants+row.Memory.Packed, row.PeakWithWeights)
		r := list[i].Program.Report()
		assert.Equal(t, r.Costs(), row.Costs)
		// Three values pass each program at least: x and w are read, y is made.
		assert.GreaterOrEqual(t, row.MovedBytes, 4*(8*144+8*8*9+8*100))
	}
	assert.Equal(t, 1.0, *c.Rows[0].Ratio)
	text := c.Table().String()
	assert.Equal(t, 4, strings.Count(text, "\n"))
	for _, word := range []string{"cost/", "median/", "gap", "vs optimal", "copied/", "+weights/", "pinned", "mine"} {
		assert.Contains(t, text, word)
	}
}

// The gap of any strategy refers to the bound that a candidate of the same layout problem proves.
func TestGapOfOwnStrategy(t *testing.T) {
	g, in := image(t)
	again, _ := image(t)
	other := graph.New("other", kernels.Lookup)
	other.Output("y", op.Relu(other.Input("x", tensor.Float32, 1, 8, 12, 12)))
	own := mine{graphrun.ChannelsLast}
	list := []experiment.Candidate{
		candidate(t, "", g, graphrun.Options{Strategy: own}),
		candidate(t, "", g, graphrun.Options{}),
		candidate(t, "again", again, graphrun.Options{Strategy: own}),
		candidate(t, "pinned", g, graphrun.Options{Strategy: own,
			Pins: map[string]graph.Pin{"conv": {Format: tensor.Contiguous}}}),
		candidate(t, "exact", g, graphrun.Options{Strategy: own, Exact: true}),
		candidate(t, "unfused", g, graphrun.Options{Strategy: own, NoFusion: true}),
		candidate(t, "other prices", g, graphrun.Options{Strategy: own, Costs: dearSteps(t)}),
	}
	c, err := experiment.Compare(ctx, list, in, experiment.Options{Runs: 1})
	require.NoError(t, err)
	bound := list[1].Program.Report().LowerBoundNS
	require.NotNil(t, bound)
	for i, row := range c.Rows {
		if i > 2 {
			assert.Nil(t, row.Gap, row.Name)
			continue
		}
		require.NotNil(t, row.Gap, row.Name)
		assert.InDelta(t, row.CostNS / *bound - 1, *row.Gap, 1e-12, row.Name)
		assert.Equal(t, *bound, *row.BoundNS)
	}
	assert.Contains(t, c.Table().Heads, "gap")
}

// dearSteps is a profile with other prices than the default one.
func dearSteps(t *testing.T) *pricing.Profile {
	t.Helper()
	var p pricing.Profile
	text, err := json.Marshal(pricing.DefaultProfile())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &p))
	p.StepPS *= 2
	return &p
}

// Programs with equal plans are measured once. Options that matter to a run are part of the plan.
func TestEqualPlans(t *testing.T) {
	g, in := image(t)
	again, _ := image(t)
	var ran []string
	pins := map[string]graph.Pin{"y": {Format: tensor.Contiguous}} // as under every strategy
	list := []experiment.Candidate{
		candidate(t, "channels_last", g, graphrun.Options{Strategy: graphrun.ChannelsLast, Threads: 1}),
		candidate(t, "contiguous", g, graphrun.Options{Strategy: graphrun.Contiguous, Threads: 1}),
		candidate(t, "mine", g, graphrun.Options{Strategy: mine{graphrun.ChannelsLast}, Threads: 1}),
		candidate(t, "pinned", g, graphrun.Options{Strategy: graphrun.ChannelsLast, Pins: pins, Threads: 1}),
		candidate(t, "loaded again", again, graphrun.Options{Strategy: graphrun.ChannelsLast, Threads: 1}),
		candidate(t, "two threads", g, graphrun.Options{Strategy: graphrun.ChannelsLast, Threads: 2}),
		candidate(t, "traced", g, graphrun.Options{Strategy: graphrun.ChannelsLast, Threads: 1,
			Tracer: turns{name: "traced", to: &ran}}),
	}
	c, err := experiment.Compare(ctx, list, in, experiment.Options{Runs: 8})
	require.NoError(t, err)
	for i, want := range []string{"", "", "channels_last", "channels_last", "channels_last", "", ""} {
		assert.Equal(t, want, c.Rows[i].MeasuredAs, c.Rows[i].Name)
		if want != "" {
			assert.Equal(t, c.Rows[0].Samples, c.Rows[i].Samples)
			assert.Equal(t, 1.0, *c.Rows[i].Ratio)
			assert.Nil(t, c.Rows[i].P)
			assert.Equal(t, c.Rows[i].Name+" (= channels_last)", c.Table().Rows[i][0])
		}
	}
	v := c.Verdict
	assert.Equal(t, [][]string{{"channels_last", "mine", "pinned", "loaded again"}}, v.SamePlan)
	assert.Len(t, v.Pairs, 6)
	assert.Equal(t, *c.Rows[1].PHolm, v.Pairs[0].PHolm)
	assert.Contains(t, v.Text, "channels_last, mine, pinned and loaded again (the same plan)")
	assert.Empty(t, c.Differences)
	assert.True(t, c.HasOutputs)
}

// Equal graphs with different constants have different plans.
func TestPlansWithOtherConstants(t *testing.T) {
	program := func(name string, x float32) experiment.Candidate {
		g := graph.New(name, kernels.Lookup)
		added := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{x, x}, 2)))
		g.Output("y", op.Add(g.Input("x", tensor.Float32, 2), added))
		return candidate(t, name, g, graphrun.Options{})
	}
	c, err := experiment.Compare(ctx, []experiment.Candidate{program("one", 1), program("two", 2), program("same", 1)},
		map[string]*tensor.Tensor{"x": floats(2)}, experiment.Options{Runs: 1})
	require.NoError(t, err)
	assert.Empty(t, c.Rows[1].MeasuredAs)
	assert.Len(t, c.Differences, 1)
	assert.Empty(t, c.Verdict.SamePlan)
}

// turns notes which program runs.
type turns struct {
	graphrun.Tracer // is told of nothing but runs, since BeginRun says no
	name            string
	to              *[]string
}

func (t turns) BeginRun(*exec.Run) bool { *t.to = append(*t.to, t.name); return false }
func (turns) EndRun(*exec.Run, error)   {}

// In each round every program has a turn of so many runs, in an order that differs, and that follows from the seed; the
// last turn is as long as runs are left.
func TestCompareTakesTurns(t *testing.T) {
	g, in := image(t)
	run := func(turn int, seed uint64) []string {
		var ran []string
		var list []experiment.Candidate
		for _, name := range []string{"a", "b", "c"} {
			list = append(list, candidate(t, name, g, graphrun.Options{Tracer: turns{name: name, to: &ran}}))
		}
		c, err := experiment.Compare(ctx, list, in, experiment.Options{Runs: 20, Turn: turn, Seed: seed})
		require.NoError(t, err)
		for _, row := range c.Rows {
			assert.Len(t, row.Samples, 20)
		}
		return ran
	}
	for turn, lengths := range map[int][]int{1: slices.Repeat([]int{1}, 20), 0: slices.Repeat([]int{3}, 10),
		4: {4, 4, 4, 4, 4, 4, 3}} {
		ran := run(turn, 1)
		orders, at := map[string]int{}, 0
		for _, n := range append([]int{2}, lengths...) { // two runs of each warm up
			require.LessOrEqual(t, at+3*n, len(ran))
			order := []string{ran[at], ran[at+n], ran[at+2*n]}
			assert.ElementsMatch(t, []string{"a", "b", "c"}, order)
			for i := range 3 * n {
				assert.Equal(t, order[i/n], ran[at+i])
			}
			orders[strings.Join(order, "")]++
			at += 3 * n
		}
		assert.Len(t, ran, at)
		assert.Greater(t, len(orders), 2)
		assert.Equal(t, ran, run(turn, 1))
		assert.NotEqual(t, ran, run(turn, 2))
	}
}

// What one would hold against a comparison is an error, and tells of whom.
func TestCompareRefuses(t *testing.T) {
	g, in := image(t)
	one := candidate(t, "", g, graphrun.Options{})
	for want, list := range map[string][]experiment.Candidate{
		"Compare needs at least one candidate": nil,
		`two candidates are called "optimal"`:  {one, one},
		"candidate 1 was not made by Compile":  {one, {Program: new(graphrun.Program)}},
		"candidate 0 was not made by Compile":  {{Name: "none"}},
	} {
		_, err := experiment.Compare(ctx, list, in, experiment.Options{Runs: 1})
		assert.EqualError(t, err, want)
	}
	_, err := experiment.Compare(ctx, []experiment.Candidate{one}, nil, experiment.Options{Runs: 1})
	assert.ErrorContains(t, err, `input "x" is missing`)
	_, err = experiment.Compare(ctx, []experiment.Candidate{one, {Name: "again", Program: one.Program}}, nil,
		experiment.Options{Runs: 1})
	assert.ErrorContains(t, err, "(strategy ")
	var none context.Context
	for _, until := range []float64{-0.01, 1, math.NaN(), math.Inf(1)} {
		_, err = experiment.Compare(ctx, []experiment.Candidate{one}, in, experiment.Options{Until: until})
		assert.ErrorContains(t, err, "Options.Until is ")
	}
	_, err = experiment.Compare(none, []experiment.Candidate{one}, in, experiment.Options{})
	assert.EqualError(t, err, "Compare needs a context: it is nil")
}

// When the context ends, what was measured until then is there.
func TestCompareInterrupted(t *testing.T) {
	g, in := image(t)
	list := []experiment.Candidate{candidate(t, "a", g, graphrun.Options{}), candidate(t, "b", g, graphrun.Options{})}
	for rounds, want := range map[int]int{0: 0, 1: 0, 5: 8} {
		some, cancel := context.WithCancel(ctx)
		c, err := experiment.Compare(some, list, in, experiment.Options{Runs: 50, Progress: func(done, _ int) {
			if done == rounds {
				cancel()
			}
		}})
		require.NoError(t, err)
		assert.True(t, c.Interrupted)
		assert.Equal(t, rounds > 0, c.HasOutputs)
		for _, row := range c.Rows {
			assert.Len(t, row.Samples, want)
			assert.Equal(t, want, row.Runs)
			if want == 0 {
				assert.Nil(t, row.P)
				assert.Nil(t, row.Median)
				assert.Nil(t, row.Ratio)
			}
		}
		assert.NotEmpty(t, c.Table().String())
	}
}

// Values that differ are told by output and program; NaN is like NaN.
func TestCompareTellsOfValues(t *testing.T) {
	program := func(name string, add float64, both bool) experiment.Candidate {
		g := graph.New(name, kernels.Lookup)
		x := g.Input("x", tensor.Float32, 3)
		g.Output("nan", op.Sqrt(x))
		g.Output("y", op.Add(x, add))
		if both {
			g.Output("z", op.Neg(x))
		}
		return candidate(t, name, g, graphrun.Options{})
	}
	in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{-1, float32(math.NaN()), 1}, 3))}
	c, err := experiment.Compare(ctx, []experiment.Candidate{program("one", 1, true), program("same", 1, true),
		program("two", 2, true), program("less", 1, false)}, in, experiment.Options{Runs: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{
		`output "y" under one and two: the relative difference to the largest value is 0.25, but only 2e-05 is tolerated`,
		`output "z" under one and less: the output is missing in one of them`}, c.Differences)
}

// The bound is that which a strategy proves: no plan costs less. There is none where no strategy proves one.
func TestLowerBound(t *testing.T) {
	g, _ := image(t)
	bound, err := experiment.LowerBound(g, graphrun.Options{Strategy: graphrun.ChannelsLast})
	require.NoError(t, err)
	var proved *float64
	for _, s := range graphrun.Strategies() {
		r := compiledBy(t, g, graphrun.Options{Strategy: s}).Report()
		if r.LowerBoundNS != nil {
			proved = r.LowerBoundNS
		}
		if bound != nil {
			assert.LessOrEqual(t, *bound, r.CostNS*(1+1e-9), s.Name())
		}
	}
	assert.Equal(t, proved, bound)
}
