package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// hidden replaces numbers of a meta by symbols with these hints, each one with probability one half.
func hidden(t *rapid.T, env *sym.Env, m tensor.Meta, at sym.Binding) tensor.Type {
	typ := m.Type()
	hide := func(name string, s *sym.Int) {
		n, _ := s.Known()
		if !rapid.Bool().Draw(t, "hide "+name) {
			return
		}
		v, err := env.Symbol(name, 0, math.MaxInt, n)
		require.NoError(t, err)
		*s, at[name] = v, n
	}
	for d := range typ.Shape {
		hide("s"+string(rune('0'+d)), &typ.Shape[d])
		hide("t"+string(rune('0'+d)), &typ.Strides[d])
	}
	hide("offset", &typ.Offset)
	return typ
}

// guarded reports whether all guards hold for the sizes; they must hold for their own hints.
func guarded(t *rapid.T, env *sym.Env, at sym.Binding) {
	for _, g := range env.Guards() {
		holds, err := g.At(at)
		require.NoError(t, err)
		require.True(t, holds, "guard %v at %v", g, at)
	}
}

// TestUnknownSizesAgree compares every predicate and view of a symbolic type with those of its numbers.
func TestUnknownSizesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		env, at := sym.NewEnv(), sym.Binding{}
		typ := hidden(t, env, m, at)
		rank := m.Rank()
		dim := rapid.IntRange(-rank-1, rank).Draw(t, "dim")
		n := rapid.IntRange(-3, 6).Draw(t, "n")
		step := rapid.IntRange(0, 3).Draw(t, "step")
		size := append([]int{n}, m.Shape...)
		for _, c := range []struct {
			name    string
			unknown func() (tensor.Type, error)
			numbers func() (tensor.Meta, error)
		}{
			{"transpose", func() (tensor.Type, error) {
				return typ.Transpose(0, dim)
			}, func() (tensor.Meta, error) { return m.Transpose(0, dim) }},
			{"select", func() (tensor.Type, error) {
				return typ.Select(dim, sym.Of(n))
			}, func() (tensor.Meta, error) { return m.Select(dim, n) }},
			{"slice", func() (tensor.Type, error) { s := sym.Of(n); return typ.Slice(dim, &s, nil, sym.Of(step)) },
				func() (tensor.Meta, error) { return m.Slice(dim, &n, nil, step) }},
			{"slice end", func() (tensor.Type, error) { s := sym.Of(n); return typ.Slice(dim, nil, &s, sym.Of(1)) },
				func() (tensor.Meta, error) { return m.Slice(dim, nil, &n, 1) }},
			{"narrow", func() (tensor.Type, error) { return typ.Narrow(dim, sym.Of(1), sym.Of(n)) },
				func() (tensor.Meta, error) { return m.Narrow(dim, 1, n) }},
			{"squeeze", func() (tensor.Type, error) {
				return typ.Squeeze()
			}, func() (tensor.Meta, error) { return m.Squeeze() }},
			{"unsqueeze", func() (tensor.Type, error) {
				return typ.Unsqueeze(dim)
			}, func() (tensor.Meta, error) { return m.Unsqueeze(dim) }},
			{"diagonal", func() (tensor.Type, error) {
				return typ.Diagonal(n, 0, dim)
			}, func() (tensor.Meta, error) { return m.Diagonal(n, 0, dim) }},
			{"unfold", func() (tensor.Type, error) { return typ.Unfold(dim, sym.Of(n), sym.Of(step)) },
				func() (tensor.Meta, error) { return m.Unfold(dim, n, step) }},
			{"expand", func() (tensor.Type, error) {
				return typ.Expand(sym.Ints(size...))
			}, func() (tensor.Meta, error) { return m.Expand(size) }},
			{"flat", func() (tensor.Type, error) {
				return typ.View(sym.Ints(-1))
			}, func() (tensor.Meta, error) { return m.View([]int{-1}) }},
			{"halves", func() (tensor.Type, error) {
				return typ.View(sym.Ints(2, -1))
			}, func() (tensor.Meta, error) { return m.View([]int{2, -1}) }},
		} {
			want, wantErr := c.numbers()
			got, err := c.unknown()
			require.Equal(t, wantErr != nil, err != nil, "%s of %v: %v, want %v", c.name, typ, err, wantErr)
			if err == nil {
				numbers, err := got.At(at)
				require.NoError(t, err)
				require.Equal(t, want.String(), numbers.String(), "%s of %v is %v", c.name, typ, got)
			}
		}
		require.Equal(t, m.IsContiguous(), typ.IsContiguous())
		require.Equal(t, m.IsChannelsLast(), typ.IsChannelsLast())
		require.Equal(t, m.IsChannelsLast3d(), typ.IsChannelsLast3d())
		require.Equal(t, m.IsNonOverlappingAndDense(), typ.IsNonOverlappingAndDense())
		require.Equal(t, m.SuggestMemoryFormat(false), typ.SuggestMemoryFormat(false))
		require.Equal(t, m.SuggestMemoryFormat(true), typ.SuggestMemoryFormat(true))
		dense := tensor.Type{Shape: typ.Shape, Strides: tensor.DenseStridesOf(typ.Shape, typ.Strides)}
		numbers, err := dense.At(at)
		require.NoError(t, err)
		require.Equal(t, tensor.DenseStrides(m.Shape, m.Strides), numbers.Strides)
		guarded(t, env, at)
	})
}

// The row-major layouts of the planner are reshaped without a guard.
func TestReshapeOfRowMajorNeedsNoGuard(t *testing.T) {
	env := sym.NewEnv()
	n, err := env.Symbol("N", 0, math.MaxInt, 8)
	require.NoError(t, err)
	typ := tensor.NewType(tensor.Float32, n, sym.Of(64), sym.Of(7), sym.Of(7))
	flat, err := typ.View([]sym.Int{n, sym.Of(-1)})
	require.NoError(t, err)
	assert.Equal(t, "float32[N,3136]@(3136,1)", flat.String())
	for _, g := range env.Guards() {
		// The -1 is ambiguous without elements: PyTorch rejects N = 0, so a guard must exclude it.
		assert.Equal(t, "Ne(N, 0)", g.String())
	}
	back, err := flat.View([]sym.Int{n.Mul(sym.Of(8)), sym.Of(8), sym.Of(49)})
	require.NoError(t, err)
	assert.Equal(t, "float32[8*N,8,49]@(392,49,1)", back.String())
	assert.LessOrEqual(t, len(env.Guards()), 1)
}

// TestReducedDropsDimensions compares Reduced of a symbolic type with Reduced of its numbers.
func TestReducedDropsDimensions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, env, at := drawMeta(t), sym.NewEnv(), sym.Binding{}
		typ := hidden(t, env, m, at)
		mask := make([]bool, m.Rank())
		want := []int{}
		keepdim := rapid.Bool().Draw(t, "keepdim")
		for d, n := range m.Shape {
			if mask[d] = rapid.Bool().Draw(t, "reduced"); !mask[d] {
				want = append(want, n)
			} else if keepdim {
				want = append(want, 1)
			}
		}
		got, err := typ.Reduced(mask, keepdim).At(at)
		require.NoError(t, err)
		require.Equal(t, tensor.New(m.DType, want...).String(), got.String(), "%v without %v", m, mask)
	})
	require.Panics(t, func() { tensor.New(tensor.Float32, 2, 3).Type().Reduced([]bool{true}, false) })
}

// TestReshapedTellsCopies checks that a shape that needs a copy is no error, and a shape of another size is.
func TestReshapedTellsCopies(t *testing.T) {
	typ := tensor.New(tensor.Float32, 2, 3).WithStrides([]int{1, 2}).Type()
	_, ok, err := typ.Reshaped(sym.Ints(6))
	require.NoError(t, err)
	require.False(t, ok)
	got, ok, err := typ.Reshaped(sym.Ints(2, 1, -1))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "float32[2,1,3]@(1,6,2)", got.String())
	_, _, err = typ.Reshaped(sym.Ints(5))
	require.ErrorContains(t, err, "is invalid for input of size 6")
}
