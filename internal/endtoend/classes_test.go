package endtoend_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// withOutputs makes the last float32 values of a graph its outputs. It returns false if shapes depend on data.
func withOutputs(g *graph.Graph) bool {
	made := 0
	for i := len(g.Nodes) - 1; i >= 0 && made < 5; i-- {
		v := g.Nodes[i].Out[0]
		if v.Dynamic {
			return false
		}
		if v.Meta.DType == f32 {
			g.Output(fmt.Sprint("out", made), v)
			made++
		}
	}
	return made > 0 && !g.Dynamic() && g.Err() == nil
}

// drawInputs returns random inputs for a bound graph.
func drawInputs(g *graph.Graph, rng *rand.Rand) map[string]*tensor.Tensor {
	in := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		t := tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
		if v.Meta.DType == f32 {
			data := make([]float32, v.Meta.Numel())
			for i := range data {
				data[i] = float32(rng.IntN(16))/8 - 1
			}
			t = tensor.Must(tensor.FromSlice(data, v.Meta.Shape...))
		}
		in[v.Name] = t
	}
	return in
}

// asBranch returns a graph that runs g as a branch, so that its shapes depend on data. g is valid at the given sizes.
func asBranch(t *testing.T, g *graph.Graph, sizes map[string]int) *graph.Graph {
	t.Helper()
	sizes = maps.Clone(sizes)
	maps.DeleteFunc(sizes, func(name string, _ int) bool { return !usesSymbol(g, name) })
	branch, outer := g.Clone(), graphrun.New("outer")
	require.NoError(t, branch.Bind(sizes))
	outer.Symbols = maps.Clone(g.Symbols)
	var values []any
	for _, v := range g.Inputs {
		if v.Dims == nil {
			values = append(values, outer.InputMeta(v.Name, v.Meta))
		} else {
			values = append(values, outer.InputDecl(v.Name, v.Declared()))
		}
	}
	operands := slices.Concat([]any{outer.Input("yes", tensor.Bool)}, values, values)
	results := outer.ApplyN("if", len(g.Outputs), graph.Attrs{"then_branch": branch, "else_branch": branch}, operands...)
	for i, output := range g.Outputs {
		outer.Output(output.Name, results[i])
	}
	require.NoError(t, outer.Err())
	return outer
}

// boundAlike compares three programs at the same sizes: one that has run at other sizes, a new one with the same hints,
// and one of g whose sizes are fixed. The first two are programs of whole, which is g or [asBranch] of g, and must have
// equal bits. The last one must have equal values up to rounding. Outputs must have the inferred layouts.
func boundAlike(g, whole *graph.Graph, used *graphrun.Program, o graphrun.Options, sizes map[string]int,
	rng *rand.Rand) (compared bool, err error) {
	bound := g.Clone()
	if bound.Bind(sizes) != nil {
		return false, nil // rejected at these sizes
	}
	in := drawInputs(bound, rng)
	ctx := context.Background()
	fixed := o
	fixed.Sizes, fixed.Hints = sizes, nil
	p, err := graphrun.Compile(ctx, g, fixed)
	if err != nil {
		return false, nil // some op has no kernel for this
	}
	want, wantErr := p.Run(ctx, in)
	if whole != g {
		in["yes"] = tensor.Must(tensor.FromSlice([]bool{true}))
	}
	got, err := used.Run(ctx, in)
	if (err == nil) != (wantErr == nil) {
		return false, fmt.Errorf("at %v: %v, and planned for these sizes %v", sizes, err, wantErr)
	}
	if err != nil {
		return false, nil
	}
	fresh, err := graphrun.Compile(ctx, whole, o)
	if err != nil {
		return false, err
	}
	same, err := fresh.Run(ctx, in)
	if err != nil {
		return false, fmt.Errorf("at %v, as the first run: %w", sizes, err)
	}
	for _, o := range bound.Outputs {
		if a := got[o.Name]; !a.SameLayout(o.Value.Meta) {
			return false, fmt.Errorf("at %v: output %s is %v, inferred is %v", sizes, o.Name, a.Meta, o.Value.Meta)
		}
	}
	for name, w := range want {
		if a, b := got[name], same[name]; !a.SameLayout(b.Meta) || !slices.EqualFunc(floats(a), floats(b), sameFloat) {
			return false, fmt.Errorf("at %v: output %s has other bits after runs at other sizes", sizes, name)
		}
		if x, y := floats(got[name]), floats(w); !slices.EqualFunc(x, y, nearFloat) {
			return false, fmt.Errorf("at %v: output %s is %v, planned for these sizes %v", sizes, name, x, y)
		}
	}
	return true, nil
}

func sameFloat(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func nearFloat(a, b float32) bool {
	x, y := float64(a), float64(b)
	return a == b || x != x && y != y || math.Abs(x-y) <= 1e-4*(1+math.Abs(x))
}

// TestClasses runs each program of random graphs at several random sizes, among them 0 and 1.
func TestClasses(t *testing.T) {
	testsize.Long(t)
	runs, seeds := 0, randomGraphs(150)
	for seed := range seeds {
		runs += runClasses(t, seed, seed%3 == 0)
	}
	require.Greater(t, runs, int(seeds)*4/3)
	// Templates took sizes of 1, orders of copies, constants or strides of casts from the sizes for which they were made.
	for _, seed := range []uint64{640, 1672, 1778, 1785, 1869, 1963, 1999, 2104, 2179, 2353} {
		runClasses(t, seed, false)
	}
}

// runClasses runs one random graph, as a branch if inBranch is true, and returns the number of sizes that were
// compared.
func runClasses(t *testing.T, seed uint64, inBranch bool) (runs int) {
	g, hints, rng := symbolicGraph(seed)
	if g == nil || !withOutputs(g) {
		return 0
	}
	require.NoError(t, g.BindWithoutInference(nil)) // no sizes are given
	o := graphrun.Options{Strategy: layout.All()[seed%uint64(len(layout.All()))], Threads: 1 + int(seed%2)}
	if seed%3 > 0 {
		o.Hints = []map[string]int{hints}
	}
	whole := g
	if inBranch {
		whole = asBranch(t, g, hints)
	}
	p, err := graphrun.Compile(ctx, whole, o)
	if err != nil {
		return 0 // some op has no kernel for this
	}
	for range 6 {
		sizes := map[string]int{}
		for _, name := range []string{"N", "C", "H", "W"} {
			b := g.Symbols[name]
			sizes[name] = max(b.Min, []int{0, 1, 2, 3, 5, hints[name], hints[name], hints[name] + 1}[rng.IntN(8)])
			if b.Max > 0 {
				sizes[name] = min(sizes[name], b.Max)
			}
		}
		compared, err := boundAlike(g, whole, p, o, sizes, rng)
		require.NoError(t, err, "seed %d", seed)
		if compared {
			runs++
		}
	}
	return runs
}

func FuzzClasses(f *testing.F) {
	f.Add(uint64(1000), false)
	f.Add(uint64(1000), true)
	f.Fuzz(func(t *testing.T, seed uint64, inBranch bool) { runClasses(t, seed, inBranch) })
}
