package index_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestEmbeddingBag compares bags of many rows and columns, which a worker reduces in parts, with sums of elements, and
// checks the errors in the data of offsets and indices.
func TestEmbeddingBag(t *testing.T) {
	const rows, columns, n = 7, 2500, 700
	weight := tensor.Zeros(tensor.Float64, rows, columns)
	for i := range rows {
		for j := range columns {
			weight.Set(tensor.FloatScalar(float64(i*j%11)), i, j)
		}
	}
	indices, scales := tensor.Zeros(tensor.Int32, n), tensor.Zeros(tensor.Float64, n)
	for i := range n {
		indices.Set(tensor.IntScalar(int64(i*i%rows)), i)
		scales.Set(tensor.FloatScalar(float64(i%3)), i)
	}
	run := func(attrs graph.Attrs, indices *tensor.Tensor, offsets ...int64) (*tensor.Tensor, error) {
		op := kernels.Lookup("embedding_bag")
		in := []*tensor.Tensor{weight, indices, tensor.Must(tensor.FromSlice(offsets, len(offsets))), scales}
		c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{in[0].Meta, in[1].Meta, in[2].Meta, in[3].Meta})
		require.NoError(t, err)
		if err := kerneltest.CheckCall(op, c, in); err != nil {
			return nil, err
		}
		out, err := kerneltest.RunCall(op, c, in)
		require.NoError(t, err)
		return out[0], nil
	}
	offsets := []int64{0, 0, 3, 650, 690}
	out, err := run(graph.Attrs{"include_last_offset": true, "padding_idx": -3}, indices, offsets...)
	require.NoError(t, err)
	require.Equal(t, []int{4, columns}, out.Shape)
	for bag := range 4 {
		for _, j := range []int{0, 1023, 1024, 2499} {
			want := 0.0
			for i := offsets[bag]; i < offsets[bag+1]; i++ {
				if row := int(i * i % rows); row != rows-3 {
					want += float64(i%3) * float64(row*j%11)
				}
			}
			assert.Equal(t, want, out.At(bag, j).Float(), "bag %d, column %d", bag, j)
		}
	}
	for want, offsets := range map[string][]int64{
		"offsets[0] has to be 0":          {1, 2},
		"can not be greater than input's": {0, n + 1},
		"offsets must not decrease":       {0, 5, 4},
	} {
		_, err := run(nil, indices, offsets...)
		assert.ErrorContains(t, err, want)
	}
	for _, row := range []int64{-1, rows} {
		indices.Set(tensor.IntScalar(row), n-1)
		_, err := run(nil, indices, 0, 5)
		assert.ErrorContains(t, err, "Expected idx >= 0 && idx < num_embeddings")
	}
}

// TestAsStridedScatterInOrder checks that the last of several elements at the same place counts.
func TestAsStridedScatterInOrder(t *testing.T) {
	op := kernels.Lookup("as_strided_scatter")
	src := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 5), src}
	c, err := kerneltest.CallOf(op, graph.Attrs{"size": []int{2, 3}, "stride": []int{1, 1}, "storage_offset": 1},
		[]tensor.Meta{in[0].Meta, in[1].Meta})
	require.NoError(t, err)
	out, err := kerneltest.RunCall(op, c, in)
	require.NoError(t, err)
	for i, want := range []float64{0, 1, 4, 5, 6} {
		assert.Equal(t, want, out[0].At(i).Float(), "element %d", i)
	}
	require.NoError(t, kerneltest.CheckCall(op, c, in))
}
