package window_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/window"
	"github.com/graphrun/graphrun/tensor"
)

// gridInputs returns an operand and a grid. Most elements are finite. Most coordinates are inside the operand, the
// others outside or not finite.
func gridInputs(r *rand.Rand, x, grid tensor.Meta) []*tensor.Tensor {
	return []*tensor.Tensor{
		kerneltest.Filled(x, func(tensor.DType) tensor.Scalar {
			if r.IntN(20) == 0 {
				return tensor.FloatScalar([]float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1)}[r.IntN(4)])
			}
			return tensor.FloatScalar(r.NormFloat64())
		}),
		kerneltest.Filled(grid, func(tensor.DType) tensor.Scalar {
			switch r.IntN(20) {
			case 0:
				return tensor.FloatScalar([]float64{math.Inf(1), math.Inf(-1), math.NaN(), 1e30, -1, 1}[r.IntN(6)])
			}
			return tensor.FloatScalar(2.4*r.Float64() - 1.2)
		})}
}

// channelsLast returns m with channels as the fastest dimension.
func channelsLast(m tensor.Meta) tensor.Meta {
	step := m.Shape[1]
	m.Strides[1] = 1
	for d := m.Rank() - 1; d > 1; d-- {
		m.Strides[d], step = step, step*m.Shape[d]
	}
	m.Strides[0] = step
	return m
}

// TestGridSampler compares the kernel with the reference, for operands that are read by channels and by positions, rows
// that merge and rows that do not, and more than one group of positions and block of channels.
func TestGridSampler(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := [][2][]int{
		{{2, 3, 4, 5}, {2, 7, 41, 2}}, {{1, 300, 3, 2}, {1, 2, 3, 2}}, {{3, 2, 1, 4}, {3, 1, 1, 2}},
		{{1, 18, 3, 4}, {1, 50, 43, 2}},
		{{2, 3, 3, 4, 5}, {2, 3, 5, 19, 3}}, {{1, 2, 1, 1, 1}, {1, 2, 3, 4, 3}}}
	for _, s := range shapes {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
			for mode := range 3 {
				if mode == 2 && len(s[0]) == 5 {
					continue
				}
				attrs := graph.Attrs{"interpolation_mode": mode, "padding_mode": r.IntN(3), "align_corners": r.IntN(2) == 0}
				x, grid := tensor.New(d, s[0]...), tensor.New(d, s[1]...)
				switch r.IntN(3) {
				case 0:
					x = channelsLast(x)
				case 1:
					grid.Strides[len(grid.Strides)-2], grid.Strides[len(grid.Strides)-1] = 1, grid.Shape[len(grid.Shape)-2]
				}
				name := fmt.Sprint(x, grid, attrs)
				c, err := kerneltest.CallOf(window.GridSampler, attrs, []tensor.Meta{x, grid})
				require.NoError(t, err, name)
				require.NoError(t, kerneltest.CheckCall(window.GridSampler, c, gridInputs(r, x, grid)), name)
			}
		}
	}
}

func BenchmarkGridSampler(b *testing.B) {
	warp := func(n, h, w int) tensor.Meta { return kit.F32(n, h, w, 2) }
	for _, one := range []struct {
		name    string
		x, grid tensor.Meta
		mode    int
	}{
		{"detection", kit.F32(8, 16, 32, 32), warp(8, 1344, 4), 0},
		{"features", kit.F32(1, 64, 96, 96), warp(1, 96, 96), 0},
		{"channels_last", kit.NHWC(1, 64, 96, 96), warp(1, 96, 96), 0},
		{"image", kit.F32(4, 3, 224, 224), warp(4, 224, 224), 0},
		{"nearest", kit.F32(1, 64, 96, 96), warp(1, 96, 96), 1},
		{"bicubic", kit.F32(1, 64, 96, 96), warp(1, 96, 96), 2},
	} {
		b.Run(one.name, func(b *testing.B) {
			c, err := kerneltest.CallOf(window.GridSampler, graph.Attrs{"interpolation_mode": one.mode},
				[]tensor.Meta{one.x, one.grid})
			require.NoError(b, err)
			_, err = kerneltest.Infer(window.GridSampler, c)
			require.NoError(b, err)
			k, err := kerneltest.CompileAnyLayouts(window.GridSampler, c)
			require.NoError(b, err)
			in := gridInputs(rand.New(rand.NewPCG(1, 2)), one.x, one.grid)
			out := []*tensor.Tensor{tensor.Empty(c.Out[0])}
			for b.Loop() {
				require.NoError(b, kerneltest.RunKernel(k, c, in, out))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*out[0].Numel()), "ns/element")
		})
	}
}
