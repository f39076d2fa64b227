package view_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestJoins runs cat and the like on mixed layouts and dtypes.
func TestJoins(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	done := map[string]int{}
	for range 1500 {
		op := []string{"cat", "stack", "hstack", "vstack", "concat"}[rng.IntN(5)]
		shape := kerneltest.RandomSmallShape(rng, rng.IntN(5))
		d := kerneltest.RandomDType(rng)
		var a graph.Attrs
		if op != "hstack" && op != "vstack" {
			a = graph.Attrs{"dim": rng.IntN(len(shape) + 1)}
		}
		var metas []tensor.Meta
		for range 1 + rng.IntN(3) {
			s := slices.Clone(shape)
			if op == "cat" && a["dim"].(int) < len(s) {
				s[a["dim"].(int)] = rng.IntN(4)
			}
			if op == "cat" && rng.IntN(6) == 0 {
				s = []int{0}
			}
			if rng.IntN(4) == 0 {
				d = kerneltest.RandomDType(rng)
			}
			metas = append(metas, kerneltest.RandomStrides(rng, d, s, true))
		}
		if kerneltest.CheckAgainstRef(t, rng, op, a, metas...) {
			done[op]++
		}
	}
	for _, op := range []string{"cat", "stack", "hstack", "vstack", "concat"} {
		if done[op] < 50 {
			t.Errorf("%s: only %d calls were accepted", op, done[op])
		}
	}
}

// TestRearranged runs the ops that copy elements to other positions.
func TestRearranged(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	list := func(n, lo, hi int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = lo + rng.IntN(hi-lo)
		}
		return out
	}
	calls := map[string]func(rank int) graph.Attrs{
		"pad": func(rank int) graph.Attrs {
			return graph.Attrs{"pad": list(2*rng.IntN(rank+1), -2, 4), "value": 3}
		},
		"constant_pad_nd": func(rank int) graph.Attrs { return graph.Attrs{"pad": list(2*rank, -1, 3)} },
		"roll": func(rank int) graph.Attrs {
			k := rng.IntN(3)
			return graph.Attrs{"shifts": list(max(k, 1), -9, 10), "dims": list(k, -rank, rank)}
		},
		"flip":   func(rank int) graph.Attrs { return graph.Attrs{"dims": rng.Perm(rank)[:rng.IntN(rank+1)]} },
		"repeat": func(rank int) graph.Attrs { return graph.Attrs{"repeats": list(rank+rng.IntN(2), 1, 4)} },
		"tile":   func(rank int) graph.Attrs { return graph.Attrs{"dims": list(rng.IntN(rank+2), 1, 3)} },
		"tril":   func(int) graph.Attrs { return graph.Attrs{"diagonal": rng.IntN(9) - 4} },
		"triu":   func(int) graph.Attrs { return graph.Attrs{"diagonal": rng.IntN(9) - 4} },
		"reflect": func(rank int) graph.Attrs {
			return graph.Attrs{"pad": list(2*max(1, rank-2), -1, 3), "mode": "reflect"}
		},
		"replicate": func(rank int) graph.Attrs {
			return graph.Attrs{"pad": list(2*max(1, rank-2), -1, 5), "mode": "replicate"}
		},
		"circular": func(rank int) graph.Attrs {
			return graph.Attrs{"pad": list(2*max(1, rank-2), -2, 4), "mode": "circular"}
		},
		"upsample_nearest2d": func(int) graph.Attrs {
			if rng.IntN(2) == 0 {
				return graph.Attrs{"output_size": list(2, 1, 20)}
			}
			return graph.Attrs{"scale_factors": []float64{0.5 + 3*rng.Float64(), 2}}
		},
	}
	for name, attrsOf := range calls {
		op, done := name, 0
		if slices.Contains([]string{"reflect", "replicate", "circular"}, name) {
			op = "pad"
		}
		for range 150 {
			rank := 1 + rng.IntN(5)
			if op == "upsample_nearest2d" {
				rank = 4
			}
			d := tensor.Float32
			if rng.IntN(2) == 0 {
				d = kerneltest.RandomDType(rng)
			}
			if kerneltest.CheckAgainstRef(t, rng, op, attrsOf(rank),
				kerneltest.RandomStrides(rng, d, kerneltest.RandomSmallShape(rng, rank), true)) {
				done++
			}
		}
		if done < 10 {
			t.Errorf("%s: only %d calls were accepted", name, done)
		}
	}
}

// TestJoinRefusals compares messages with PyTorch 1.13's.
func TestJoinRefusals(t *testing.T) {
	x, v := kit.F32(2, 3, 4, 5), kit.F32()
	for _, tc := range []struct {
		op    string
		a     graph.Attrs
		metas []tensor.Meta
		want  string
	}{
		{"cat", nil, []tensor.Meta{v, v}, "zero-dimensional tensor (at position 0) cannot be concatenated"},
		{"cat", graph.Attrs{"dim": 4}, []tensor.Meta{x, x}, "Dimension out of range (expected to be in range of [-4, " +
			"3], but got 4)"},
		{"cat", nil, []tensor.Meta{x, kit.F32(3, 4, 5)}, "Tensors must have same number of dimensions: got 4 and 3"},
		{"cat", graph.Attrs{"dim": 2}, []tensor.Meta{x, kit.F32(2, 2, 4, 5)}, "Sizes of tensors must match except in " +
			"dimension 2. Expected size 3 but got size 2 for tensor number 1 in the list."},
		{"stack", nil, []tensor.Meta{x, kit.F32(3, 4, 5)}, "stack expects each tensor to be equal size, but got [2, 3, 4, " +
			"5] at entry 0 and [3, 4, 5] at entry 1"},
		{"pad", graph.Attrs{"pad": []int{1}}, []tensor.Meta{x}, "Padding length must be divisible by 2"},
		{"pad", graph.Attrs{"pad": []int{5, 1, 2, 2}, "mode": "reflect"}, []tensor.Meta{x}, "Argument #4: Padding size " +
			"should be less than the corresponding input dimension, but got: padding (5, 1) at dimension 3 of input 4"},
		{"pad", graph.Attrs{"pad": []int{6, 1, 4, 2}, "mode": "circular"}, []tensor.Meta{x},
			"Padding value causes wrapping around more than once."},
		{"pad", graph.Attrs{"pad": []int{1, 1}, "mode": "foo"}, []tensor.Meta{x}, "Unrecognized padding mode foo"},
		{"roll", graph.Attrs{"shifts": []int{1, 2}, "dims": 1}, []tensor.Meta{x},
			"shifts and dimensions must align. shifts: 2, dims:1"},
		{"flip", graph.Attrs{"dims": []int{0, 0}}, []tensor.Meta{x}, "dim 0 appears multiple times in the list of dims"},
		{"repeat", graph.Attrs{"repeats": 2}, []tensor.Meta{x}, "Number of dimensions of repeat dims can not be smaller " +
			"than number of dimensions of tensor"},
		{"repeat", graph.Attrs{"repeats": []int{1, -2, 1, 1}}, []tensor.Meta{x}, "Trying to create tensor with negative " +
			"dimension -6: [2, -6, 4, 5]"},
		{"upsample_nearest2d", nil, []tensor.Meta{x}, "Must specify exactly one of output_size and scale_factors"},
		{"arange", graph.Attrs{"end": 5, "step": 0}, nil, "step must be nonzero"},
		{"contiguous", graph.Attrs{"memory_format": "preserve"}, []tensor.Meta{kit.NHWC(2, 3, 4, 5)},
			"preserve memory format is unsupported by the contiguous operator"},
	} {
		g := graph.New("", kernels.Lookup)
		var args []any
		for i, m := range tc.metas {
			args = append(args, g.InputMeta(string(rune('a'+i)), m))
		}
		g.Apply(tc.op, tc.a, args...)
		if err := g.Err(); err == nil || !strings.HasSuffix(err.Error(), ": "+tc.want) {
			t.Errorf("%s %v: %v, want %s", tc.op, tc.a, err, tc.want)
		}
	}
}
