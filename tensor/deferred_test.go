package tensor_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// TestWeightsAreRestored frees the memory of weights. They are restored when they are read, once for all readers.
func TestWeightsAreRestored(t *testing.T) {
	storage := tensor.NewWeights(8)
	copy(storage.Bytes(), "weights.")
	before := storage.Bytes()
	restored := 0
	restore := func(dst []byte) {
		restored++
		copy(dst, "weights.")
	}
	require.True(t, storage.Discard(restore))
	assert.False(t, storage.Discard(restore), "the bytes are not in memory")
	assert.Equal(t, 8, storage.Len())
	assert.Equal(t, 0, restored, "Len reads no bytes")
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { assert.Equal(t, "weights.", string(storage.Bytes())) })
	}
	readers.Wait()
	assert.Equal(t, 1, restored)
	assert.Equal(t, "weights.", string(before), "memory that is still used stays valid")
	w := tensor.Must(tensor.FromStorage(tensor.New(tensor.Uint8, 8), storage))
	require.True(t, storage.Discard(restore))
	assert.Equal(t, "uint8 119", w.DType.String()+" "+w.At(0).String())

	assert.False(t, tensor.NewStorage(8).Discard(restore), "other storage keeps its memory")
}

// TestWidened converts 16-bit floats when they are read.
func TestWidened(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		all := tensor.Zeros(dtype, 3, 4)
		for i := range 12 {
			all.SetFlat(i, tensor.FloatScalar(float64(i)/4))
		}
		meta := tensor.Meta{DType: dtype, Shape: []int{2, 4}, Strides: []int{4, 1}, Offset: 4}
		part, err := all.View(meta) // the last two rows
		require.NoError(t, err)
		wide := part.Widened(tensor.New(tensor.Float32, 2, 4))
		require.NotNil(t, wide)
		require.Equal(t, 32, wide.Storage().Len())
		column, err := wide.View(tensor.Meta{DType: tensor.Float32, Shape: []int{2}, Strides: []int{4}, Offset: 1})
		require.NoError(t, err)
		narrow := column.Unwidened()
		require.Same(t, all.Storage(), narrow.Storage())
		for i, want := range []float64{1.25, 2.25} {
			assert.Equal(t, want, narrow.At(i).Float(), "before the conversion")
			assert.Equal(t, want, column.At(i).Float())
		}
		require.True(t, wide.Storage().Discard(nil))
		assert.Equal(t, 2.75, wide.At(1, 3).Float(), "converted again")

		assert.Nil(t, part.Unwidened())
		assert.Nil(t, part.Widened(tensor.New(tensor.Float64, 2, 4)))
		assert.Nil(t, part.Widened(tensor.Meta{DType: tensor.Float32, Shape: []int{2, 4}, Strides: []int{1, 2}}),
			"the elements have another order")
		assert.Nil(t, tensor.Zeros(tensor.Float32, 2).Widened(tensor.New(tensor.Float32, 2)))
	}
}
