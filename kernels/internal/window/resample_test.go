package window_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestResizeTruncates computes sums near integers, where truncation exposes every difference in rounding. The kernel
// and the reference must agree for every order of dimensions in memory.
func TestResizeTruncates(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 1))
	op := kernels.Lookup("resize")
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Float32} {
		for _, mode := range []string{"linear", "cubic"} {
			for _, scales := range [][]float64{{1, 1, 0.6, 2}, {1, 1, 2, 0.6}, {1, 1, 0.6, 0.7}, {1, 1.5, 1.7, 2.3}} {
				at := graph.Attrs{"antialias": true, "mode": mode, "scales": scales}
				for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}} {
					m := tensor.New(d, 2, 3, 7, 9)
					o, err := tensor.NewOrder(order...)
					require.NoError(t, err)
					m = m.WithStrides(o.Strides(m.Shape))
					c, err := kerneltest.CallOf(op, at, []tensor.Meta{m})
					require.NoError(t, err)
					x := kerneltest.Filled(m, func(tensor.DType) tensor.Scalar { return tensor.IntScalar(r.Int64N(3)) })
					want, err := op.Ref(c, []*tensor.Tensor{x})
					require.NoError(t, err)
					got, err := kerneltest.RunCall(op, c, []*tensor.Tensor{x}, want[0].WithStrides(o.Strides(want[0].Shape)))
					require.NoError(t, err)
					require.NoError(t, kerneltest.CompareTensors(got[0], want[0]), "%v %v %v", d, at, order)
				}
			}
		}
	}
}

// TestCropOfExpanded crops an operand with stride 0 by a region that begins outside it: the results outside the operand
// have the extrapolation value.
func TestCropOfExpanded(t *testing.T) {
	row := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 1, 1, 4))
	m, err := row.Expand([]int{1, 1, 3, 4})
	require.NoError(t, err)
	x := tensor.Must(tensor.FromStorage(m, row.Storage()))
	op := kernels.Lookup("resize")
	attrs := graph.Attrs{"scales": []float64{1, 1}, "axes": []int{2, 3}, "roi": []float64{-1, 0, 1, 1},
		"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
	c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{m})
	require.NoError(t, err)
	out, err := kerneltest.RunCall(op, c, []*tensor.Tensor{x})
	require.NoError(t, err)
	got, err := tensor.ToSlice[float32](out[0])
	require.NoError(t, err)
	require.Equal(t, []float32{9, 9, 9, 9, 1, 2, 3, 4, 1, 2, 3, 4}, got)
}

// TestResizeWithoutAxes resizes no axis: the result is the operand.
func TestResizeWithoutAxes(t *testing.T) {
	x := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	op := kernels.Lookup("resize")
	for _, policy := range []string{"stretch", "not_larger", "not_smaller"} {
		attrs := graph.Attrs{"sizes": []int{}, "axes": []int{}, "keep_aspect_ratio_policy": policy}
		c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{x.Meta})
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, c, []*tensor.Tensor{x})
		require.NoError(t, err)
		require.NoError(t, kerneltest.CompareTensors(out[0], x), policy)
	}
}
