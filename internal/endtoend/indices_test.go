package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// specials returns values that are often equal, zeros of both signs, infinities, and sometimes NaN.
func specials(rng *rand.Rand, m tensor.Meta) *tensor.Tensor {
	x := tensor.Empty(m)
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 2, 0.5, -3, math.Inf(1), math.Inf(-1)}
	if rng.IntN(2) == 0 {
		numbers = numbers[:7]
	}
	nan := rng.IntN(3) * rng.IntN(12)
	rare := m.Numel() > longIndices // otherwise the extremes would all be in the first piece of a row
	at := make([]int, m.Rank())
	for range m.Numel() {
		v := numbers[rng.IntN(len(numbers))]
		switch {
		case rare && rng.IntN(m.Numel()/3) == 0:
			x.Set(extremeScalar(rng, m.DType), at...)
		case !m.DType.IsFloat():
			x.Set(tensor.IntScalar(int64(rng.IntN(7)-3)), at...)
		case nan > 0 && !rare && rng.IntN(20*nan) == 0:
			x.Set(tensor.FloatScalar(math.NaN()), at...)
		default:
			x.Set(tensor.FloatScalar(v), at...)
		}
		for d := m.Rank() - 1; d >= 0; d-- {
			if at[d]++; at[d] < m.Shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return x
}

// longIndices is the number of elements above which extremes are rare.
const longIndices = 4000

// extremeScalar returns an extreme value or NaN.
func extremeScalar(rng *rand.Rand, d tensor.DType) tensor.Scalar {
	switch n := rng.IntN(3); {
	case !d.IsFloat():
		return tensor.IntScalar(int64(9*n - 9))
	case n == 1:
		return tensor.FloatScalar(math.NaN())
	default:
		return tensor.FloatScalar(float64(9*n - 9))
	}
}

// exactBefore adds random ops with exact results on x and on a value that is broadcast.
func exactBefore(rng *rand.Rand, g *graph.Graph, x, w *graph.Value) *graph.Value {
	v := x
	for range 1 + rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			v = apply(g, "neg", nil, v)
		case 1:
			v = apply(g, "abs", nil, v)
		case 2:
			v = apply(g, "add", nil, v, w)
		case 3:
			v = apply(g, "mul", nil, v, w)
		case 4:
			v = apply(g, "sub", nil, v, w)
		default:
			v = apply(g, "to", graph.Attrs{"dtype": []string{"float32", "float64", "int32", "float16", "int64"}[rng.IntN(5)]},
				apply(g, "clamp", graph.Attrs{"min": -4, "max": 4}, v))
		}
	}
	return v
}

var indexOps = []string{"argmax", "argmin", "max", "min", "hardmax", "cumsum", "cumprod"}

// indexGraph returns a graph of an expression and an op that gives indices, or a scan, of its result. Sometimes
// expressions follow.
func indexGraph(rng *rand.Rand, m tensor.Meta, ops []string) (g *graph.Graph, scans bool) {
	g = graph.New("g", kernels.Lookup)
	x := g.InputMeta("x", m)
	shape := append([]int{}, m.Shape...)
	shape[rng.IntN(len(shape))] = 1
	v := exactBefore(rng, g, x, g.Input("w", m.DType, shape...))
	name, attrs := ops[rng.IntN(len(ops))], graph.Attrs{"dim": rng.IntN(m.Rank())}
	switch name {
	case "hardmax":
		v = apply(g, "to", graph.Attrs{"dtype": "float32"}, v)
	case "argmax", "argmin", "max", "min":
		attrs["keepdim"] = rng.IntN(2) == 0
		if rng.IntN(4) == 0 && name[:3] == "arg" {
			delete(attrs, "dim")
		}
	}
	for i, y := range g.Apply(name, attrs, v) {
		if y.Meta.DType != tensor.Bool && rng.IntN(2) == 0 {
			y = apply(g, "add", nil, y, 1)
		}
		if keeps := y.Meta.Rank() == m.Rank(); keeps && rng.IntN(3) == 0 && y.Meta.DType != tensor.Bool {
			y = apply(g, "sub", nil, y, v)
		}
		g.Output(fmt.Sprint("y", i), y)
	}
	return g, name[:3] == "cum"
}

// runCountingSteps runs a graph, and sets steps to the number of steps.
func runCountingSteps(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor, o graphrun.Options, steps *int,
) map[string]*tensor.Tensor {
	t.Helper()
	p, err := graphrun.Compile(ctx, g, o)
	require.NoError(t, err)
	*steps = len(p.Report().Steps)
	got, err := p.Run(t.Context(), in)
	require.NoError(t, err)
	return got
}

// TestIndicesOfExpressions compares ops that give indices, and scans, which run in one step with the expressions around
// them, with separate steps and with the definition. All bits must be equal, except for those of NaNs. The values have
// ties, zeros and NaN, any layout, and rows that are cut into pieces.
func TestIndicesOfExpressions(t *testing.T) {
	long := [][]int{{70001}, {9000}, {2, 40000}, {3, 5000}, {5000, 3}, {70000, 2}, {3, 70, 33}, {300, 2, 40}, {90, 300}}
	fused, cut := 0, 0
	for seed := range uint64(450) {
		if leavesOut(int(seed), 13) || int(seed)%testsize.Of(3, 1) > 0 {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 9))
		shape, ops := make([]int, 1+rng.IntN(3)), indexOps
		for d := range shape {
			shape[d] = []int{1, 2, 3, 5, 17, 33, 70}[rng.IntN(7)]
		}
		if seed >= 400 {
			shape, ops = long[seed%uint64(len(long))], indexOps[:4]
		}
		m := tensor.New([]tensor.DType{f32, f32, tensor.Float64, tensor.Float16, tensor.Int32, tensor.Int64,
			tensor.Uint8}[rng.IntN(7)], shape...)
		if len(shape) > 1 && rng.IntN(2) == 0 {
			strides, step := make([]int, len(shape)), 1
			for _, d := range rng.Perm(len(shape)) {
				strides[d], step = step, step*shape[d]
			}
			m = m.WithStrides(strides)
		}
		n := checkIndices(t, rng, m, ops, fmt.Sprintf("seed %d, %v", seed, m))
		if fused += n; seed >= 400 {
			cut += n
		}
	}
	if loops.CodeAvailable() {
		require.Greater(t, fused-cut, testsize.Short(10, testsize.Of(50, 200)))
		require.Greater(t, cut, testsize.Short(0, testsize.Of(10, 40)))
	}
}

// checkIndices runs a random graph with several options, and returns how often it was one step.
func checkIndices(t *testing.T, rng *rand.Rand, m tensor.Meta, ops []string, name string) (fused int) {
	t.Helper()
	g, scans := indexGraph(rng, m, ops)
	require.NoError(t, g.Err(), name)
	require.NoError(t, g.Infer())
	in := map[string]*tensor.Tensor{}
	for _, x := range g.Inputs {
		in[x.Name] = specials(rng, x.Meta)
	}
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	if scans { // their definition uses complex numbers, which have other infinities and zeros
		want = runCountingSteps(t, g, in, graphrun.Options{NoFusion: true, Threads: 1}, new(int))
	}
	for _, o := range []graphrun.Options{{Threads: 1}, {Threads: 2}, {Threads: 3}, {NoFusion: true, Threads: 2}} {
		steps := 0
		got := runCountingSteps(t, g, in, o, &steps)
		for output, y := range want {
			x, z := bitsOf(y), bitsOf(got[output])
			for i := range x {
				if x[i] != z[i] {
					t.Fatalf("%s: %s, no fusion %v: element %d is %v, want %v", name, output, o.NoFusion, i, z[i], x[i])
				}
			}
		}
		if steps == 1 {
			fused++
		}
	}
	return fused
}

// bitsOf returns the elements in row-major order as numbers that differ if their bits differ, the same number for all
// NaNs.
func bitsOf(x *tensor.Tensor) []float64 {
	d := tensor.Float64
	v, _ := tensor.ToSlice[float64](x.CopyTo(tensor.New(d, x.Shape...)))
	for i, e := range v {
		switch {
		case e != e:
			v[i] = math.MaxFloat64
		case e == 0 && math.Signbit(e):
			v[i] = math.SmallestNonzeroFloat64
		}
	}
	return v
}
