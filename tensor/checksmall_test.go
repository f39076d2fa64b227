//go:build !386 && !arm

package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// TestCheckOfOrdinaryValues compares Check with its rule, for sizes near the limit of its fast path.
func TestCheckOfOrdinaryValues(t *testing.T) {
	sizes := rapid.OneOf(rapid.IntRange(0, 5), rapid.SampledFrom([]int{-1, 1 << 31, 1<<31 + 1, 1 << 32, 1 << 47, 1 << 62}))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "rank")
		m := tensor.Meta{DType: tensor.Float32, Shape: make([]int, n), Strides: make([]int, n),
			Offset: sizes.Draw(t, "offset")}
		wrong := m.Offset < 0
		numel, span, limit := 1.0, float64(m.Offset), float64(tensor.MaxBytes/4)
		for d := range n {
			m.Shape[d], m.Strides[d] = sizes.Draw(t, "size"), sizes.Draw(t, "stride")
			wrong = wrong || m.Shape[d] < 0 || m.Strides[d] < 0 || float64(m.Strides[d]) > limit && m.Shape[d] >= 0
			numel *= float64(max(m.Shape[d], 1))
			span += float64(max(m.Shape[d]-1, 0)) * float64(m.Strides[d])
		}
		wrong = wrong || numel > limit || span > limit
		require.Equal(t, wrong, m.Check() != nil, "%v", m)
		ty := tensor.Type{DType: m.DType, Offset: sym.Of(m.Offset)}
		for d := range n {
			ty.Shape, ty.Strides = append(ty.Shape, sym.Of(m.Shape[d])), append(ty.Strides, sym.Of(m.Strides[d]))
		}
		require.Equal(t, m.Check() == nil, ty.Check() == nil, "%v", m)
		require.True(t, ty.IsMeta(m))
		m.Offset++
		require.False(t, ty.IsMeta(m))
	})
}
