package index_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestRankings compares sort, argsort and topk with their references. The lengths of the lines are below and above the
// lengths at which the algorithm changes.
func TestRankings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range tensor.DTypes() {
		if dtype.IsComplex() {
			continue
		}
		for _, length := range []int{1, 2, 33, 700, 1500} {
			for name, draw := range rankedValues(rng) {
				x := kerneltest.Filled(tensor.New(dtype, length, 2), draw)
				ascending := graph.Attrs{"dim": 0, "descending": rng.IntN(2) == 0}
				t.Run(name, func(t *testing.T) {
					kerneltest.CheckKernel(t, "sort", ascending, []*tensor.Tensor{x})
					kerneltest.CheckKernel(t, "argsort", ascending, []*tensor.Tensor{x})
					for _, k := range []int{0, 1, length / 5, length / 2} {
						if dtype != tensor.Bool && k <= length {
							attrs := graph.Attrs{"dim": 0, "k": k, "largest": rng.IntN(2) == 0}
							kerneltest.CheckKernel(t, "topk", attrs, []*tensor.Tensor{x})
						}
					}
				})
			}
		}
	}
}

// rankedValues returns generators of elements, by name.
func rankedValues(rng *rand.Rand) map[string]func(dtype tensor.DType) tensor.Scalar {
	specials := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, math.MaxFloat64,
		math.SmallestNonzeroFloat64}
	count := int64(0)
	return map[string]func(dtype tensor.DType) tensor.Scalar{
		"few": func(tensor.DType) tensor.Scalar { return tensor.IntScalar(int64(rng.IntN(3))) },
		"any": func(dtype tensor.DType) tensor.Scalar {
			if dtype.IsFloat() {
				return tensor.FloatScalar(math.Ldexp(rng.Float64()-0.5, rng.IntN(2000)-1000))
			}
			return tensor.IntScalar(int64(rng.Uint64()))
		},
		"specials": func(dtype tensor.DType) tensor.Scalar {
			if dtype.IsFloat() {
				return tensor.FloatScalar(specials[rng.IntN(len(specials))])
			}
			return tensor.IntScalar([]int64{math.MinInt64, math.MaxInt64, -1, 0, 1}[rng.IntN(5)])
		},
		"increasing": func(tensor.DType) tensor.Scalar { count++; return tensor.IntScalar(count) },
	}
}
