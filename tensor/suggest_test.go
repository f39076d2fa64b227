package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// permutations calls f with all permutations of n numbers, in lexical order.
func permutations(n int, f func([]int)) {
	var extend func(done []int)
	extend = func(done []int) {
		if len(done) == n {
			f(done)
			return
		}
		for i := range n {
			if !slices.Contains(done, i) {
				extend(append(slices.Clone(done), i))
			}
		}
	}
	extend(nil)
}

// TestSuggestedFormatsOfAllSmallSizes compares the formulas, guarded inference and the code for numbers with
// PyTorch's suggest_memory_format, for all sizes up to 3 (2 for rank 5), 0 included, in all orders of
// dimensions and with the strides of channels-last. Each formula is made once.
func TestSuggestedFormatsOfAllSmallSizes(t *testing.T) {
	for _, row := range load[struct {
		Rank, Sizes, Values int
		ChannelsLast        []int `json:"channels_last"`
	}](t, "suggest.json") {
		s := newSuggested(t, row.Rank)
		at, shape := 0, make([]int, row.Rank)
		for {
			check := func(strides []int) {
				s.check(shape, strides, slices.Contains(row.ChannelsLast, at), at%37 == 0)
				at++
			}
			permutations(row.Rank, func(order []int) {
				strides, step := make([]int, row.Rank), 1
				for _, d := range order {
					strides[d] = step
					step *= max(1, shape[d])
				}
				check(strides)
			})
			own, err := s.format.Strides(shape)
			require.NoError(t, err)
			check(own)
			d := row.Rank - 1
			for ; d >= 0 && shape[d] == row.Sizes-1; d-- {
				shape[d] = 0
			}
			if d < 0 {
				break
			}
			shape[d]++
		}
		assert.Equal(t, row.Values, at)
		assert.Greater(t, len(row.ChannelsLast), 50)
	}
}

// suggested holds formulas over the sizes x0, x1, ... and the strides y0, y1, ... of a rank.
type suggested struct {
	t              *testing.T
	sizes, strides []string
	format         tensor.MemoryFormat
	like, exact    sym.Bool
	own            sym.Bool // of channels-last strides of any sizes
}

func newSuggested(t *testing.T, rank int) *suggested {
	s := &suggested{t: t, format: tensor.ChannelsLast}
	like, exact := tensor.SuggestsChannelsLast, tensor.SuggestsChannelsLastExactly
	if rank == 5 {
		s.format, like, exact = tensor.ChannelsLast3d, tensor.SuggestsChannelsLast3d, tensor.SuggestsChannelsLast3dExactly
	}
	for d := range rank {
		s.sizes, s.strides = append(s.sizes, fmt.Sprint("x", d)), append(s.strides, fmt.Sprint("y", d))
	}
	env, hints := sym.NewEnv(), slices.Repeat([]int{3}, rank)
	typ := tensor.Type{DType: tensor.Float32, Shape: unknown(env, s.sizes, hints...),
		Strides: unknown(env, s.strides, hints...)}
	s.like, s.exact = typ.Condition(like), typ.Condition(exact)
	own, err := tensor.NewTypeFormat(tensor.Float32, typ.Shape, s.format)
	require.NoError(t, err)
	s.own = own.Condition(like)
	require.Empty(t, env.Guards())
	return s
}

// check compares all ways with PyTorch's answer; guarded inference only if guarded is set.
func (s *suggested) check(shape, strides []int, want, guarded bool) {
	at := sym.Binding{}
	for d := range shape {
		at[s.sizes[d]], at[s.strides[d]] = shape[d], strides[d]
	}
	m := tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: strides}
	own, err := s.format.Strides(shape)
	require.NoError(s.t, err)
	same := slices.Equal(own, strides)
	for _, f := range []struct {
		cond sym.Bool
		want bool
	}{{s.like, want}, {s.exact, want && same}} {
		got, err := f.cond.At(at)
		require.NoError(s.t, err)
		require.Equal(s.t, f.want, got, "%v: %v", m, f.cond)
	}
	if same {
		got, err := s.own.At(at)
		require.NoError(s.t, err)
		require.Equal(s.t, want, got, "%v: %v", m, s.own)
	}
	require.Equal(s.t, want, m.SuggestMemoryFormat(false) == s.format, "%v", m)
	require.Equal(s.t, want && same, m.SuggestMemoryFormat(true) == s.format, "%v", m)
	if !guarded {
		return
	}
	for _, exactMatch := range []bool{false, true} {
		env := sym.NewEnv()
		typ := tensor.Type{DType: m.DType, Shape: unknown(env, s.sizes, shape...),
			Strides: unknown(env, s.strides, strides...)}
		require.Equal(s.t, want && (same || !exactMatch), typ.SuggestMemoryFormat(exactMatch) == s.format, "%v", m)
		for _, g := range env.Guards() {
			holds, err := g.At(at)
			require.NoError(s.t, err)
			require.True(s.t, holds, "%v: guard %v", m, g)
		}
	}
}
