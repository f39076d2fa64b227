package index_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
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
		"offsets[0] has to be 0":        {1, 2},
		"but got offsets[-1] of 701":    {0, 800, n + 1},
		"offsets must not decrease":     {0, 5, 4},
		"but offsets[2] is 4 after 800": {0, 800, 4},
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

// TestEmbeddingBagOfMatrix checks that the last row of a matrix of indices is no bag with include_last_offset, and that
// the maximum rejects attributes of gradients.
func TestEmbeddingBagOfMatrix(t *testing.T) {
	op := kernels.Lookup("embedding_bag")
	weight := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 4, 3))
	in := []*tensor.Tensor{weight, tensor.Must(tensor.FromSlice([]int64{0, 1, 2, 3, 1, 1}, 3, 2))}
	c, err := kerneltest.CallOf(op, graph.Attrs{"include_last_offset": true}, []tensor.Meta{in[0].Meta, in[1].Meta})
	require.NoError(t, err)
	out, err := kerneltest.RunCall(op, c, in)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, out[0].Shape)
	for i, want := range []float64{3, 5, 7, 15, 17, 19} {
		assert.Equal(t, want, out[0].At(i/3, i%3).Float(), "element %d", i)
	}
	require.NoError(t, kerneltest.CheckCall(op, c, in))
	assert.Empty(t, op.Parallel(c), "the bags are not the rows")
	infer := func(attrs graph.Attrs, rows int) error {
		indices := tensor.Zeros(tensor.Int64, rows, 2)
		c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{weight.Meta, indices.Meta})
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, c)
		return err
	}
	assert.NoError(t, infer(nil, 0))
	assert.EqualError(t, infer(graph.Attrs{"include_last_offset": true}, 0),
		"include_last_offset: number of offset should be at least 1")
	assert.EqualError(t, infer(graph.Attrs{"mode": 2, "sparse": true}, 3), "max mode does not support sparse weights")
	assert.NoError(t, infer(graph.Attrs{"mode": 1, "sparse": true}, 3))
}

// TestEmbeddingBagEnds checks that a long bag ends with the context if it has no columns or only padding.
func TestEmbeddingBagEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	op := kernels.Lookup("embedding_bag")
	for columns, attrs := range []graph.Attrs{nil, {"padding_idx": 0}} {
		in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 1, columns), tensor.Zeros(tensor.Int64, 1, 1<<17)}
		c, err := kerneltest.CallOf(op, attrs, []tensor.Meta{in[0].Meta, in[1].Meta})
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, c)
		require.NoError(t, err)
		k, err := op.Compile(c)
		require.NoError(t, err)
		m := kerneltest.MemOf(k, c, in, []*tensor.Tensor{tensor.Zeros(tensor.Float32, 1, columns)})
		m.Context = ended
		run := func() (err error) {
			defer interrupt.Catch(&err)
			return k.Phases[0].Run(m, 0)
		}
		assert.ErrorIs(t, run(), context.Canceled, "%d columns", columns)
	}
}

// TestAsStridedScatterInOrder checks that the last of several elements at the same place counts, in the order of
// PyTorch's iterator: results of PyTorch 1.13.
func TestAsStridedScatterInOrder(t *testing.T) {
	op := kernels.Lookup("as_strided_scatter")
	src := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 5), src}
	c, err := kerneltest.CallOf(op, graph.Attrs{"size": []int{2, 3}, "stride": []int{1, 1}, "storage_offset": 1},
		[]tensor.Meta{in[0].Meta, in[1].Meta})
	require.NoError(t, err)
	out, err := kerneltest.RunCall(op, c, in)
	require.NoError(t, err)
	for i, want := range []float64{0, 1, 2, 3, 6} {
		assert.Equal(t, want, out[0].At(i).Float(), "element %d", i)
	}
	require.NoError(t, kerneltest.CheckCall(op, c, in))
}
