package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Attention of 16-bit floats in one step is about as near to the results of float32 as its nodes one by one. Rows that
// see nothing are NaN in both.
func TestHalfAttentions(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	r := rand.New(rand.NewPCG(2026, 16))
	eps := map[tensor.DType]float64{tensor.Float16: 1. / 2048, tensor.BFloat16: 1. / 256}
	cases, found := 40, map[tensor.DType]int{}
	if testing.Short() {
		cases = 4
	}
	for i := range cases {
		c := drawAttention(r)
		c.d, c.constant = []tensor.DType{tensor.Float16, tensor.BFloat16}[i%2], false
		t.Run(fmt.Sprint(i, c), func(t *testing.T) {
			g, wide := attentionGraph(t, r, c), c
			wide.d = tensor.Float32
			in, inWide, largest := map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}, 0.0
			for _, v := range g.Inputs {
				in[v.Name], inWide[v.Name] = halfOperand(r, v)
				if v.Name == "v" {
					eachIndex(v.Meta.Shape, func(at []int) { largest = max(largest, math.Abs(in["v"].At(at...).Float())) })
				}
			}
			parts := passes.Options{Strategy: layout.Propagate, Passes: ungroupedPasses()}
			want, _ := runAttention(t, attentionGraph(t, r, wide), inWide, parts, 1)
			single, _ := runAttention(t, g, in, parts, 1)
			got, fused := runAttention(t, g, in, passes.Options{Strategy: layout.Optimal}, 1)
			again, _ := runAttention(t, g, in, passes.Options{Strategy: layout.Optimal}, 3)
			assert.Equal(t, got.Storage().Bytes(), again.Storage().Bytes(), "by several workers")
			assert.Equal(t, c.d, got.DType)
			if fused {
				found[c.d]++
			}
			off, byParts := distanceOf(t, want, got), distanceOf(t, want, single)
			assert.LessOrEqual(t, off, 1.5*byParts+eps[c.d]*largest, "of values up to %v", largest)
		})
	}
	for d := range eps {
		assert.Greater(t, found[d], cases/3, "attentions of %v that run in one step", d)
	}
}

func attentionGraph(t *testing.T, r *rand.Rand, c attentionCase) *graph.Graph {
	t.Helper()
	g := graph.New("g", kernels.Lookup)
	c.build(r, g)
	require.NoError(t, g.Infer())
	return g
}

// halfOperand returns random data of an input, and the same numbers in float32. It replaces -100 in masks, because next
// to it scores of 16 bits have steps of at least a half.
func halfOperand(r *rand.Rand, v *graph.Value) (x, wide *tensor.Tensor) {
	x = operand(r, v.Name, v.Meta)
	if x.DType == tensor.Bool {
		return x, x
	}
	wide = tensor.Empty(tensor.New(tensor.Float32, x.Shape...))
	eachIndex(x.Shape, func(at []int) {
		if x.At(at...).Float() == -100 {
			x.Set(tensor.FloatScalar(-4), at...)
		}
		wide.Set(x.At(at...), at...)
	})
	return x, wide
}

// distanceOf returns the largest difference of elements. It fails the test if an element is NaN in only one tensor.
func distanceOf(t *testing.T, want, got *tensor.Tensor) (off float64) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape)
	eachIndex(want.Shape, func(at []int) {
		a, b := want.At(at...).Float(), got.At(at...).Float()
		if math.IsNaN(a) != math.IsNaN(b) {
			t.Fatalf("%v at %v, not %v", b, at, a)
		}
		if !math.IsNaN(a) {
			off = max(off, math.Abs(a-b))
		}
	})
	return off
}
