package view_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// TestViewsCopied compiles views as copies, which pinned layouts require.
func TestViewsCopied(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	calls := map[string]func(rank int, shape []int) graph.Attrs{
		"permute":   func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dims": rng.Perm(rank)} },
		"transpose": func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim0": 0, "dim1": -1} },
		"movedim":   func(rank int, _ []int) graph.Attrs { return graph.Attrs{"source": 0, "destination": -1} },
		"slice": func(rank int, shape []int) graph.Attrs {
			return graph.Attrs{"dim": rng.IntN(rank), "start": rng.IntN(3), "step": 1 + rng.IntN(3)}
		},
		"select": func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim": rng.IntN(rank), "index": -1} },
		"narrow": func(rank int, _ []int) graph.Attrs {
			return graph.Attrs{"dim": rng.IntN(rank), "start": 1, "length": 1}
		},
		"squeeze":   func(int, []int) graph.Attrs { return nil },
		"unsqueeze": func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim": rng.IntN(rank + 1)} },
		"expand":    func(_ int, shape []int) graph.Attrs { return graph.Attrs{"size": append([]int{2}, shape...)} },
		"unfold": func(rank int, _ []int) graph.Attrs {
			return graph.Attrs{"dimension": rng.IntN(rank), "size": 2, "step": 1}
		},
		"diagonal":   func(int, []int) graph.Attrs { return graph.Attrs{"offset": rng.IntN(3) - 1} },
		"unbind":     func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim": rng.IntN(rank)} },
		"split":      func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim": rng.IntN(rank), "split_size": 2} },
		"chunk":      func(rank int, _ []int) graph.Attrs { return graph.Attrs{"dim": rng.IntN(rank), "chunks": 3} },
		"detach":     func(int, []int) graph.Attrs { return nil },
		"reshape":    func(int, []int) graph.Attrs { return graph.Attrs{"shape": -1} },
		"ravel":      func(int, []int) graph.Attrs { return nil },
		"flatten":    func(int, []int) graph.Attrs { return graph.Attrs{"start_dim": 1} },
		"as_strided": func(int, []int) graph.Attrs { return graph.Attrs{"size": []int{2}, "stride": []int{1}} },
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		done := 0
		for range 60 {
			shape := kerneltest.RandomSmallShape(rng, 1+rng.IntN(4))
			if kerneltest.CheckAgainstRef(t, rng, name, calls[name](len(shape), shape),
				kerneltest.RandomStrides(rng, kerneltest.RandomDType(rng), shape, true)) {
				done++
			}
		}
		if done == 0 {
			t.Errorf("%s: every call was rejected", name)
		}
	}
}

// TestPermutes checks the permutations that views declare to passes.
func TestPermutes(t *testing.T) {
	x := kit.F32(2, 3, 4)
	for _, tc := range []struct {
		op   string
		a    graph.Attrs
		want []int
	}{
		{"permute", graph.Attrs{"dims": []int{2, 0, 1}}, []int{2, 0, 1}},
		{"transpose", graph.Attrs{"dim0": 0, "dim1": -1}, []int{2, 1, 0}},
		{"movedim", graph.Attrs{"source": 0, "destination": 2}, []int{1, 2, 0}},
		{"swapaxes", graph.Attrs{"axis0": 0, "axis1": 1}, []int{1, 0, 2}},
	} {
		g := graph.New("", kernels.Lookup)
		n := g.Apply(tc.op, tc.a, g.InputMeta("x", x))[0].Node
		if got := n.Op.Permutes(n.Call()); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.op, got, tc.want)
		}
	}
}
