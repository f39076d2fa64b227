package experiment_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func compiledBy(t *testing.T, g *graph.Graph, o graphrun.Options) *graphrun.Program {
	t.Helper()
	p, err := graphrun.Compile(ctx, g, o)
	require.NoError(t, err)
	return p
}

func differenceOf(t *testing.T, a, b *graph.Graph, o graphrun.Options) *experiment.Difference {
	t.Helper()
	d, err := experiment.Diff(compiledBy(t, a, graphrun.Options{}), compiledBy(t, b, o))
	require.NoError(t, err)
	return d
}

// A pin changes how a value is laid out, and what that costs.
func ExampleDiff() {
	g := graph.New("g", kernels.Lookup)
	x, w := g.Input("x", tensor.Float32, 1, 8, 12, 12), g.Input("w", tensor.Float32, 8, 8, 3, 3)
	g.Output("y", op.Relu(op.Conv2d(x, w, nil).Named("conv")))
	var programs []*graphrun.Program
	for _, pins := range []map[string]graph.Pin{nil, {"conv": {Format: tensor.ChannelsLast}}} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Propagate, Pins: pins, NoFusion: true})
		if err != nil {
			fmt.Println(err)
			return
		}
		programs = append(programs, p)
	}
	d, err := experiment.Diff(programs[0], programs[1])
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range d.Values {
		fmt.Println(v.Value, "is", v.First.Layout, "in the first plan and", v.Second.Layout, "in the second")
	}
	fmt.Println("the same:", d.Same)
	// Output:
	// conv is row-major in the first plan and channels-last in the second
	// relu is row-major in the first plan and channels-last in the second
	// the same: false
}

// What steps cost more is what the plans do, for every pair of strategies on every example.
func TestDiffAddsUp(t *testing.T) {
	files, err := filepath.Glob("../examples/models/*.json")
	require.NoError(t, err)
	differing := 0
	for _, file := range files {
		g, err := graphrun.Load(ctx, file)
		require.NoError(t, err)
		for _, s := range graphrun.Strategies() {
			for _, fused := range []bool{false, true} {
				d := differenceOf(t, g, g, graphrun.Options{Strategy: s, NoFusion: fused})
				sum := 0.0
				for i, step := range d.Steps {
					assert.Contains(t, experiment.StepDifferences(), step.What)
					assert.InDelta(t, step.SecondNS-step.FirstNS, step.DeltaNS, 1e-6)
					assert.NotZero(t, len(step.First)+len(step.Second))
					sum += step.DeltaNS
					if i > 0 {
						assert.LessOrEqual(t, max(step.DeltaNS, -step.DeltaNS), max(d.Steps[i-1].DeltaNS, -d.Steps[i-1].DeltaNS))
					}
				}
				assert.InDelta(t, d.DeltaNS, sum, 1e-6*d.First.CostNS, "%s under %s", file, s.Name())
				assert.Equal(t, d.Second.Copies-d.First.Copies, len(d.OnlySecond)-len(d.OnlyFirst))
				assert.Empty(t, d.NodesFirst)
				assert.Empty(t, d.NodesSecond)
				assert.Equal(t, s == graphrun.Optimal && !fused || d.Same, d.Same)
				if !d.Same {
					differing++
				}
			}
		}
	}
	assert.Greater(t, differing, 5)
}

// Fusion is told as grouping, with the steps of both plans.
func TestDiffOfGroups(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	g.Output("y", op.Neg(op.Relu(g.Input("x", tensor.Float32, 100)).Named("r")).Named("n"))
	d := differenceOf(t, g, g, graphrun.Options{NoFusion: true})
	require.Len(t, d.Steps, 1)
	assert.Equal(t, "grouping", d.Steps[0].What)
	require.Len(t, d.Steps[0].First, 1)
	assert.Equal(t, []string{"r", "n"}, d.Steps[0].First[0].Ops)
	assert.Len(t, d.Steps[0].Second, 2)
	assert.False(t, d.Same)
}

// A forced implementation is a difference of its own.
func TestDiffOfImplementations(t *testing.T) {
	g, _ := image(t)
	impls := kernels.Lookup("conv2d").Impls
	require.Greater(t, len(impls), 1)
	found := false
	for _, impl := range impls {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Pins: map[string]graph.Pin{"conv": {Impl: impl.Name}}})
		if err != nil {
			continue // it does not support the call
		}
		d, err := experiment.Diff(compiledBy(t, g, graphrun.Options{}), p)
		require.NoError(t, err)
		i := slices.IndexFunc(d.Steps, func(s experiment.StepDifference) bool { return s.What == "implementation" })
		if i >= 0 {
			found = true
			assert.Equal(t, impl.Name, d.Steps[i].Second[0].Impl)
			assert.NotEqual(t, impl.Name, d.Steps[i].First[0].Impl)
		}
	}
	assert.True(t, found)
}

// numbered is a chain whose values are named by numbers from first on, as exporters do.
func numbered(first int, ops ...func(*graph.Value) *graph.Value) *graph.Graph {
	g := graph.New("numbered", kernels.Lookup)
	v := g.Input("x", tensor.Float32, 2, 8, 4, 4)
	for i, apply := range ops {
		v = apply(v).Named(fmt.Sprint(first + i))
	}
	return g.Output("y", v)
}

func relu(v *graph.Value) *graph.Value    { return op.Relu(v) }
func neg(v *graph.Value) *graph.Value     { return op.Neg(v) }
func exp(v *graph.Value) *graph.Value     { return op.Exp(v) }
func sigmoid(v *graph.Value) *graph.Value { return op.Sigmoid(v) }
func last(v *graph.Value) *graph.Value {
	return op.Contiguous(v, op.ContiguousAttrs{MemoryFormat: tensor.ChannelsLast})
}

// Values are matched by content: names that count on mean other values, and a node that is new is told as such.
func TestDiffMatchesByContent(t *testing.T) {
	a := numbered(10, relu, neg, exp, relu)
	assert.True(t, differenceOf(t, a, numbered(11, relu, neg, exp, relu), graphrun.Options{}).Same,
		"12 is neg there, and exp here")

	d := differenceOf(t, a, numbered(10, relu, neg, sigmoid, exp, relu), graphrun.Options{})
	assert.Equal(t, []string{"12"}, d.NodesSecond, "what comes after it is found by what becomes of it")
	assert.Empty(t, d.NodesFirst)
	d = differenceOf(t, numbered(10, relu, neg, sigmoid, exp, relu), a, graphrun.Options{})
	assert.Equal(t, []string{"12"}, d.NodesFirst)
	assert.Empty(t, d.NodesSecond)
	d = differenceOf(t, a, numbered(10, relu, sigmoid, exp, relu), graphrun.Options{})
	assert.Equal(t, []string{"11"}, d.NodesFirst)
	assert.Equal(t, []string{"11"}, d.NodesSecond, "another op is another node")

	// With another layout at the start all that follows is laid out otherwise, under other names.
	o := graphrun.Options{NoFusion: true}
	one, err := experiment.Diff(compiledBy(t, numbered(10, relu, neg, exp), o),
		compiledBy(t, numbered(20, last, relu, neg, exp), o))
	require.NoError(t, err)
	var values []string
	for _, v := range one.Values {
		values = append(values, v.Value+" is "+v.Other)
	}
	assert.Equal(t, []string{"10 is 21", "11 is 22", "12 is 23"}, values)
	assert.Equal(t, []int{1, 8}, []int{one.Values[0].First.Strides[3], one.Values[0].Second.Strides[3]})
}

// Branches that are alike are told apart by name.
func TestDiffOfLikeBranches(t *testing.T) {
	build := func(names ...string) *graph.Graph {
		g := graph.New("branches", kernels.Lookup)
		x := g.Input("x", tensor.Float32, 2, 8, 4, 4)
		for _, name := range names {
			g.Output("out_"+name, op.Relu(op.Exp(x).Named(name)).Named("r_"+name))
		}
		return g
	}
	d := differenceOf(t, build("a", "b", "c"), build("c", "a", "b"), graphrun.Options{})
	assert.True(t, d.Same, "%+v", d)
	pin := graphrun.Options{Pins: map[string]graph.Pin{"b": {Format: tensor.ChannelsLast}}}
	pin.NoFusion = true // so that each value is stored
	d, err := experiment.Diff(compiledBy(t, build("a", "b", "c"), graphrun.Options{NoFusion: true}),
		compiledBy(t, build("c", "b", "a"), pin))
	require.NoError(t, err)
	var values []string
	for _, v := range d.Values {
		values = append(values, v.Value+v.Other)
	}
	assert.Equal(t, []string{"b", "r_b"}, values)
}

// Graphs of other sizes differ in what that changes, and not in strides alone.
func TestDiffOfSizes(t *testing.T) {
	sized := func(n int) *graph.Graph {
		g := graph.New("sized", kernels.Lookup)
		return g.Output("y", op.Relu(g.Input("x", tensor.Float32, n, 8, 4, 4)).Named("r"))
	}
	d := differenceOf(t, sized(2), sized(4), graphrun.Options{})
	assert.Empty(t, d.Values, "both are row-major")
	assert.Empty(t, d.NodesFirst)
	assert.Greater(t, d.DeltaNS, 0.0)
}

func TestDiffRefuses(t *testing.T) {
	g, _ := image(t)
	p := compiledBy(t, g, graphrun.Options{})
	_, err := experiment.Diff(p, nil)
	assert.EqualError(t, err, "program 1 was not made by Compile")
	_, err = experiment.Diff(new(graphrun.Program), p)
	assert.EqualError(t, err, "program 0 was not made by Compile")
	dynamic := graph.New("g", kernels.Lookup)
	dynamic.Output("y", op.Nonzero(dynamic.Input("x", tensor.Float32, 3)))
	_, err = experiment.Diff(p, compiledBy(t, dynamic, graphrun.Options{}))
	assert.ErrorContains(t, err, "the shapes of the graph depend on data, so there is no plan of the whole graph")
}

// Groups that overlap are one difference, however many there are: 64 nodes are a loop at most, counted from the end.
func TestDiffOfShiftedGroups(t *testing.T) {
	chain := func(n int) *graph.Graph {
		g := graph.New("chain", kernels.Lookup)
		v := g.Input("x", tensor.Float32, 10)
		for range n {
			v = op.Add(v, 1)
		}
		return g.Output("y", v)
	}
	d := differenceOf(t, chain(1000), chain(1003), graphrun.Options{})
	require.Len(t, d.Steps, 1)
	assert.Equal(t, "grouping", d.Steps[0].What)
	assert.Len(t, d.Steps[0].First, d.First.Steps)
	assert.Len(t, d.Steps[0].Second, d.Second.Steps)
	assert.Len(t, d.NodesSecond, 3)
	assert.InDelta(t, d.DeltaNS, d.Steps[0].DeltaNS, 1e-6)
}

// The bound that one plan proves holds for every plan of the same problem. With pins it is another problem.
func TestDiffSharesBounds(t *testing.T) {
	g, _ := image(t)
	again, _ := image(t)
	proved := compiledBy(t, g, graphrun.Options{})
	require.NotNil(t, proved.Report().LowerBoundNS)
	pins := map[string]graph.Pin{"conv": {Format: tensor.Contiguous}}
	for _, c := range []struct {
		g      *graph.Graph
		o      graphrun.Options
		shared bool
	}{
		{g, graphrun.Options{Strategy: graphrun.Propagate}, true},
		{again, graphrun.Options{Strategy: graphrun.Propagate}, true},
		{g, graphrun.Options{Strategy: graphrun.Propagate, Pins: pins}, false},
	} {
		other := compiledBy(t, c.g, c.o)
		forward, err := experiment.Diff(proved, other)
		require.NoError(t, err)
		backward, err := experiment.Diff(other, proved)
		require.NoError(t, err)
		for _, bound := range []*float64{forward.Second.BoundNS, backward.First.BoundNS} {
			if c.shared {
				require.NotNil(t, bound)
				assert.Equal(t, *proved.Report().LowerBoundNS, *bound)
			} else {
				assert.Nil(t, bound)
			}
		}
	}
}
