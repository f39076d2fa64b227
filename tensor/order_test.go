package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

func TestOrdersOfFormats(t *testing.T) {
	for _, c := range []struct {
		format tensor.MemoryFormat
		rank   int
		dims   []int
	}{
		{tensor.Contiguous, 3, []int{0, 1, 2}}, {tensor.Contiguous, 0, []int{}},
		{tensor.ChannelsLast, 4, []int{0, 2, 3, 1}}, {tensor.ChannelsLast3d, 5, []int{0, 2, 3, 4, 1}},
	} {
		o, err := c.format.Order(c.rank)
		require.NoError(t, err)
		assert.Equal(t, c.dims, o.Dims())
		assert.Equal(t, c.format, o.Format())
		assert.Equal(t, c.format.String(), o.String())
		shape := []int{2, 3, 4, 5, 6}[:c.rank]
		want, err := c.format.Strides(shape)
		require.NoError(t, err)
		assert.Equal(t, want, o.Strides(shape))
	}
	_, err := tensor.ChannelsLast.Order(3)
	assert.EqualError(t, err, "required rank 4 tensor to use channels_last format")
	_, err = tensor.Preserve.Order(3)
	assert.Error(t, err)
}

func TestParseOrder(t *testing.T) {
	o, err := tensor.ParseOrder("0, 2,1")
	require.NoError(t, err)
	assert.Equal(t, "0,2,1", o.String())
	assert.Equal(t, tensor.NoFormat, o.Format())
	for _, bad := range []string{"0,0", "1,2", "-1,0", "0;1", "a"} {
		_, err := tensor.ParseOrder(bad)
		assert.Error(t, err, bad)
	}
}

// Strides made for an order hold for that order, up to dimensions of size 1.
func TestOrderOfWhatLiesInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5).Draw(t, "shape")
		o, err := tensor.NewOrder(rapid.Permutation(indices(len(shape))).Draw(t, "order")...)
		require.NoError(t, err)
		m := tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: o.Strides(shape)}
		got, dense := tensor.OrderOf(m)
		require.True(t, dense)
		require.True(t, got.Same(o, shape), "%v is in %v, laid out in %v", m, got, o)
		again, err := tensor.ParseOrder(joined(o.Dims()))
		require.NoError(t, err)
		require.Equal(t, o, again)

		dims := rapid.Permutation(indices(len(shape))).Draw(t, "view")
		v, err := m.Permute(dims)
		require.NoError(t, err)
		got, _ = tensor.OrderOf(v)
		require.True(t, got.Same(o.Permute(dims), v.Shape), "%v by %v is in %v, not in %v", o, dims, got, o.Permute(dims))
	})
}

func joined(dims []int) string {
	s := ""
	for i, d := range dims {
		if i > 0 {
			s += ","
		}
		s += string(rune('0' + d))
	}
	return s
}

func TestOrderOfGaps(t *testing.T) {
	o, dense := tensor.OrderOf(tensor.Meta{DType: tensor.Float32, Shape: []int{2, 3}, Strides: []int{1, 4}})
	assert.False(t, dense)
	assert.Equal(t, "1,0", o.String())
}
