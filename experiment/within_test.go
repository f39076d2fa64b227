package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// convolutions returns a chain of convolutions with constant weights of the given size. With pin, the second result is
// row-major.
func convolutions(t *testing.T, seed uint64, channels int, pin bool) *graph.Graph {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	g := graphrun.New(fmt.Sprint("seed", seed))
	x := g.Input("x", tensor.Float32, 1, channels, 14, 14)
	for i := range 2 {
		size := 1 + 2*rng.IntN(2)
		w := tensor.Zeros(tensor.Float32, channels, channels, size, size)
		for k := range w.Numel() {
			w.SetFlat(k, tensor.FloatScalar(rng.Float64()-0.5))
		}
		x = op.Conv2d(x, g.Constant(fmt.Sprint("w", i), w), nil, op.Conv2dAttrs{Padding: []int{size / 2, size / 2}})
		if rng.IntN(2) == 0 {
			x = op.Relu(x)
		}
		if pin && i == 1 {
			x.Pinned(tensor.Contiguous)
		}
	}
	g.Output("y", x)
	require.NoError(t, g.Err())
	return g
}

// needOf returns the bytes of a run on one worker.
func needOf(p *graphrun.Program) int {
	r := p.Report()
	return r.PeakBytes + r.Memory.Inputs + r.Memory.Constants + r.Memory.Packed
}

// compiled compiles a graph with a strategy.
func compiled(t *testing.T, g *graph.Graph, s graphrun.Strategy) *graphrun.Program {
	t.Helper()
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s, Threads: 1})
	require.NoError(t, err)
	return p
}

// TestCheapestWithin compares the cost of the cheapest plan within limits that bind, and the lower bound, with all
// plans of small graphs, whose memory is that of their programs.
func TestCheapestWithin(t *testing.T) {
	cases, least, tight := 0, 0, 0
	for seed := range uint64(6) {
		g := convolutions(t, seed, 16+16*int(seed%3), seed%4 == 3)
		p := compiled(t, g, graphrun.Optimal)
		all, timedOut, err := experiment.Best(p, 400)
		require.NoError(t, err)
		require.False(t, timedOut)
		require.Less(t, len(all), 400, "these are not all plans")
		needs := make([]int, len(all))
		for i, c := range all {
			needs[i] = needOf(compiled(t, g, c.Strategy()))
		}
		for _, limit := range limitsOf(needs) {
			cheapest := math.Inf(1)
			for i, c := range all {
				if needs[i] <= limit && c.CostNS < cheapest {
					cheapest = c.CostNS
				}
			}
			found := math.Inf(1)
			w, err := experiment.CheapestWithin(t.Context(), p, limit, math.Inf(1), func(c experiment.Choice) (int, error) {
				need := needOf(compiled(t, g, c.Strategy()))
				if need <= limit {
					found = min(found, c.CostNS)
				}
				return need, nil
			})
			require.NoError(t, err)
			require.LessOrEqual(t, w.LowerBoundNS, cheapest, "seed %d, limit %d", seed, limit)
			require.LessOrEqual(t, w.LeastBytes, slices.Min(needs), "seed %d", seed)
			require.GreaterOrEqual(t, found, cheapest, "seed %d, limit %d", seed, limit)
			cases++
			if found == cheapest {
				least++
			}
			if w.LowerBoundNS > 1.01*all[0].CostNS {
				tight++
			}
		}
	}
	t.Logf("%d limits: the least cost for %d, a bound above the least cost without limit for %d", cases, least, tight)
	require.Greater(t, least, cases*4/5)
	require.Greater(t, tight, cases/5)
}

// TestCheapestWithinEqualLayers compares plans of equal convolutions, which save the same time per byte, with plans
// that use each implementation for some of them.
func TestCheapestWithinEqualLayers(t *testing.T) {
	const layers, channels = 7, 32
	chain := func(impls ...string) *graph.Graph {
		g := graphrun.New("equal")
		x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, channels, 14, 14)
		for i := range layers {
			w := tensor.Zeros(tensor.Float32, channels, channels, 3, 3)
			x = op.Conv2d(x, g.Constant(fmt.Sprint("w", i), w), nil, op.Conv2dAttrs{Padding: []int{1, 1}})
			if impls != nil {
				x.PinnedTo(graph.Pin{Impl: impls[i]})
			}
		}
		g.Output("y", x)
		require.NoError(t, g.Err())
		return g
	}
	free := compiled(t, chain(), graphrun.Optimal)
	var impls []string
	for _, impl := range free.Graph().Nodes[0].Op.Impls {
		_, err := graphrun.Compile(ctx, chain(slices.Repeat([]string{impl.Name}, layers)...), graphrun.Options{Threads: 1})
		if err == nil {
			impls = append(impls, impl.Name)
		}
	}
	require.Greater(t, len(impls), 1)
	var needs []int
	var costs []float64
	var choose func(chosen []string)
	choose = func(chosen []string) { // each implementation for some of the layers, in the order of impls
		if len(chosen) == layers {
			p := compiled(t, chain(chosen...), graphrun.Optimal)
			needs, costs = append(needs, needOf(p)), append(costs, p.Report().CostNS)
			return
		}
		first := 0
		if len(chosen) > 0 {
			first = slices.Index(impls, chosen[len(chosen)-1])
		}
		for _, name := range impls[first:] {
			choose(append(slices.Clone(chosen), name))
		}
	}
	choose(nil)
	limits := slices.Compact(slices.Sorted(slices.Values(needs)))
	for k := 0; k < len(limits)-1; k += max(1, len(limits)/24) {
		limit, cheapest, found := limits[k], math.Inf(1), math.Inf(1)
		for i, need := range needs {
			if need <= limit {
				cheapest = min(cheapest, costs[i])
			}
		}
		w, err := experiment.CheapestWithin(t.Context(), free, limit, math.Inf(1), func(c experiment.Choice) (int, error) {
			need := needOf(compiled(t, chain(), c.Strategy()))
			if need <= limit {
				found = min(found, c.CostNS)
			}
			return need, nil
		})
		require.NoError(t, err)
		require.LessOrEqual(t, found, cheapest*1.01, "limit %d", limit)
		require.LessOrEqual(t, w.LowerBoundNS, found*(1+1e-9), "limit %d", limit)
	}
	t.Logf("%d plans, %d limits", len(needs), len(limits))
}

// randomChain returns a chain of three convolutions of random sizes, some with an activation or a sum with an earlier
// value. impls, if not nil, are their implementations; an empty name is any implementation.
func randomChain(t *testing.T, seed uint64, impls []string) *graph.Graph {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	g := graphrun.New(fmt.Sprint("chain", seed))
	channels, side := 16<<rng.IntN(2), 10+rng.IntN(10)
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, channels, side, side)
	earlier := x
	for i := range 3 {
		outChannels, size := 16<<rng.IntN(2), 1+2*min(1, rng.IntN(4))
		w := tensor.Zeros(tensor.Float32, outChannels, channels, size, size)
		x = op.Conv2d(x, g.Constant(fmt.Sprint("w", i), w), nil, op.Conv2dAttrs{Padding: []int{size / 2, size / 2}})
		if impls != nil && impls[i] != "" {
			x.PinnedTo(graph.Pin{Impl: impls[i]})
		}
		channels = outChannels
		switch rng.IntN(4) {
		case 0:
			x = op.Relu(x)
		case 1:
			if slices.Equal(earlier.Meta.Shape, x.Meta.Shape) {
				x = op.Add(x, earlier)
			}
		case 2:
			earlier = x
		}
	}
	g.Output("y", x)
	require.NoError(t, g.Err())
	return g
}

// TestCheapestWithinRandomChains compares plans of random chains with the plans that use each combination of
// implementations. A plan may have less memory than another because a step leaves fewer gaps in the arena, which the
// search does not know.
func TestCheapestWithinRandomChains(t *testing.T) {
	cases, least := 0, 0
	for seed := range testsize.Of[uint64](3, 6) {
		free := compiled(t, randomChain(t, seed, nil), graphrun.Optimal)
		var needs []int
		var costs []float64
		var choose func(k int, chosen []string)
		choose = func(k int, chosen []string) {
			if k == len(chosen) {
				p := compiled(t, randomChain(t, seed, chosen), graphrun.Optimal)
				needs, costs = append(needs, needOf(p)), append(costs, p.Report().CostNS)
				return
			}
			for _, impl := range kernels.Lookup("conv2d").Impls {
				next := slices.Clone(chosen)
				next[k] = impl.Name
				if _, err := graphrun.Compile(ctx, randomChain(t, seed, next), graphrun.Options{Threads: 1}); err == nil {
					choose(k+1, next)
				}
			}
		}
		choose(0, make([]string, 3))
		limits := slices.Compact(slices.Sorted(slices.Values(needs)))
		for k := len(limits) / 8; k < len(limits)-1; k += max(1, len(limits)/8) {
			limit, cheapest, found, examined := limits[k], math.Inf(1), math.Inf(1), 0
			for i, need := range needs {
				if need <= limit {
					cheapest = min(cheapest, costs[i])
				}
			}
			w, err := experiment.CheapestWithin(t.Context(), free, limit, math.Inf(1), func(c experiment.Choice) (int, error) {
				examined++
				need := needOf(compiled(t, randomChain(t, seed, nil), c.Strategy()))
				if need <= limit {
					found = min(found, c.CostNS)
				}
				return need, nil
			})
			require.NoError(t, err)
			require.LessOrEqual(t, found, cheapest*1.05, "seed %d, limit %d", seed, limit)
			require.LessOrEqual(t, w.LowerBoundNS, min(found, cheapest)*(1+1e-9), "seed %d, limit %d", seed, limit)
			require.LessOrEqual(t, w.LeastBytes, slices.Min(needs), "seed %d", seed)
			require.Greater(t, float64(w.LeastBytes), 0.5*float64(slices.Min(needs)), "seed %d", seed)
			require.Less(t, examined, 120)
			cases++
			if found <= cheapest*(1+1e-9) {
				least++
			}
		}
		t.Logf("seed %d: %d plans", seed, len(needs))
	}
	t.Logf("%d limits: the least cost for %d", cases, least)
	require.GreaterOrEqual(t, least, cases*9/10)
}

// limitsOf returns limits that exclude some of the needs: just below a need.
func limitsOf(needs []int) (list []int) {
	lowest := math.MaxInt
	for _, n := range needs {
		lowest = min(lowest, n)
	}
	seen := map[int]bool{}
	for _, n := range needs {
		if !seen[n] && n > lowest && len(list) < 8 {
			seen[n] = true
			list = append(list, n-1)
		}
	}
	return list
}

// TestCheapestWithinKeepsPins checks that a plan within a limit obeys a pin of a value.
func TestCheapestWithinKeepsPins(t *testing.T) {
	g := convolutions(t, 1, 32, true)
	p := compiled(t, g, graphrun.Optimal)
	plans := 0
	_, err := experiment.CheapestWithin(t.Context(), p, needOf(p)-1, math.Inf(1), func(c experiment.Choice) (int, error) {
		q := compiled(t, g, c.Strategy())
		out, err := q.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 32, 14, 14)})
		require.NoError(t, err)
		require.True(t, out["y"].IsContiguous())
		plans++
		return needOf(q), nil
	})
	require.NoError(t, err)
	require.Positive(t, plans)
}

// TestCheapestWithinFails returns an error for a missing function, the error of the function, and that of the context.
func TestCheapestWithinFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := compiled(t, convolutions(t, 1, 16, false), graphrun.Optimal)
	_, err := experiment.CheapestWithin(t.Context(), p, 1, math.Inf(1), nil)
	require.ErrorContains(t, err, "need is nil")
	failed := errors.New("failed")
	_, err = experiment.CheapestWithin(t.Context(), p, 1, math.Inf(1), func(experiment.Choice) (int, error) {
		return 0, failed
	})
	require.ErrorIs(t, err, failed)
	cancel()
	_, err = experiment.CheapestWithin(ctx, p, 1, math.Inf(1), func(experiment.Choice) (int, error) { return 2, nil })
	require.ErrorIs(t, err, context.Canceled)
}

// TestMemoryWithinLimit compares the need of the plan within a limit that binds with the memory that a program holds
// after a run.
func TestMemoryWithinLimit(t *testing.T) {
	const channels = 192
	live := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	free := compiled(t, convolutions(t, 2, channels, false), graphrun.Optimal)
	limit := needOf(free) * 9 / 10
	var choice *experiment.Choice
	_, err := experiment.CheapestWithin(t.Context(), free, limit, math.Inf(1), func(c experiment.Choice) (int, error) {
		need := needOf(compiled(t, convolutions(t, 2, channels, false), c.Strategy()))
		if need <= limit && (choice == nil || c.CostNS < choice.CostNS) {
			choice = &c
		}
		return need, nil
	})
	require.NoError(t, err)
	strategies := []graphrun.Strategy{graphrun.Optimal}
	if choice != nil { // without assembly the plan of least cost is the smallest
		strategies = append(strategies, choice.Strategy())
	}
	for _, s := range strategies {
		before := live()
		p := compiled(t, convolutions(t, 2, channels, false), s)
		in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, channels, 14, 14)}
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		held := live() - before
		t.Logf("%s: planned %d, measured %d", s.Name(), needOf(p), held)
		require.InEpsilon(t, needOf(p), held, 0.1, s.Name())
		runtime.KeepAlive(out)
		runtime.KeepAlive(in)
		runtime.KeepAlive(p)
	}
}
