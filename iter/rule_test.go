package iter_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// TestRuleOfUnknownSizes sets the same iteration up over numbers and over symbols with those numbers as
// hints: what is decided must be the same at these sizes, and its guards must hold for them.
func TestRuleOfUnknownSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(t, "shape")
		env, at := sym.NewEnv(), sym.Binding{}
		var types []tensor.Type
		var metas []tensor.Meta
		for k := range rapid.IntRange(1, 3).Draw(t, "operands") {
			m := operandOf(t, shape)
			typ := m.Type()
			for d := range typ.Shape {
				hide(t, env, at, []string{"s", "u", "v"}[k]+string(rune('0'+d)), &typ.Shape[d])
				hide(t, env, at, []string{"a", "b", "c"}[k]+string(rune('0'+d)), &typ.Strides[d])
			}
			types, metas = append(types, typ), append(metas, m)
		}
		unknown, known := iter.New().Output(iter.UndefinedOutput()), iter.New().Output(iter.UndefinedOutput())
		for k := range types {
			unknown, known = unknown.Input(iter.OperandOfType(types[k])), known.Input(iter.OperandOfMeta(metas[k]))
		}
		want, wantErr := known.PromoteInputsToCommonDType(true).Build()
		got, err := unknown.PromoteInputsToCommonDType(true).Rule()
		require.Equal(t, wantErr == nil, err == nil, "%v: %v, want %v", types, err, wantErr)
		for _, g := range env.Guards() {
			holds, err := g.At(at)
			require.NoError(t, err)
			require.True(t, holds, "guard %v at %v", g, at)
		}
		if err != nil {
			return
		}
		m, err := got.Type(0).At(at)
		require.NoError(t, err)
		require.Equal(t, want.Output().String(), m.String(), "%v is laid out as %v", types, got.Type(0))
		require.Equal(t, want.FastSetup(), got.FastSetup())
		require.Equal(t, want.Perm(), got.Perm())
	})
}

// operandOf draws an operand that broadcasts to a shape.
func operandOf(t *rapid.T, shape []int) tensor.Meta {
	drop := rapid.IntRange(0, len(shape)).Draw(t, "dimensions left out")
	m := tensor.Meta{DType: rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.Int32}).Draw(t, "dtype")}
	for _, s := range shape[drop:] {
		if rapid.IntRange(0, 4).Draw(t, "one") == 0 {
			s = 1
		}
		m.Shape = append(m.Shape, s)
	}
	order, err := tensor.NewOrder(rapid.Permutation(ascending(len(m.Shape))).Draw(t, "order")...)
	require.NoError(t, err)
	m.Strides = order.Strides(m.Shape)
	if rapid.IntRange(0, 3).Draw(t, "gaps") == 0 {
		for d := range m.Strides {
			m.Strides[d] *= 2
		}
	}
	return m
}

func ascending(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	return v
}

// hide turns a number into a symbol with that number as its hint, sometimes.
func hide(t *rapid.T, env *sym.Env, at sym.Binding, name string, s *sym.Int) {
	n, _ := s.Known()
	if !rapid.Bool().Draw(t, "hide "+name) {
		return
	}
	v, err := env.Symbol(name, 0, math.MaxInt, n)
	require.NoError(t, err)
	*s, at[name] = v, n
}
