package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// attentionCase is an attention of random sizes, written as exporters write it.
type attentionCase struct {
	d                       tensor.DType
	windows, heads          int
	l, s, e, v              int
	mask, shown, split, out int
	constant                bool // the mask
}

func drawAttention(r *rand.Rand) attentionCase {
	c := attentionCase{d: []tensor.DType{tensor.Float32, tensor.Float64}[r.IntN(4)/3], windows: 1 + r.IntN(4),
		heads: 1 + r.IntN(3), l: 1 + r.IntN(40), s: 1 + r.IntN(40), e: 1 + r.IntN(20), v: 1 + r.IntN(20), mask: r.IntN(5),
		shown: r.IntN(2), split: r.IntN(2), out: r.IntN(3), constant: r.IntN(2) == 0}
	if r.IntN(12) == 0 { // several blocks of rows
		c.l, c.s = 70+r.IntN(300), 600+r.IntN(500)
	}
	return c
}

// build adds the nodes. Heads are dimensions of inputs of their own, or parts of the rows of one input.
func (c attentionCase) build(r *rand.Rand, g *graph.Graph) {
	input := func(name string, d tensor.DType, shape ...int) *graph.Value {
		if c.constant {
			return g.Constant(name, operand(r, name, tensor.New(d, shape...)))
		}
		return g.Input(name, d, shape...)
	}
	head := func(name string, rows, size int, last bool) *graph.Value {
		if c.shown == 0 {
			return g.Input(name, c.d, c.windows, c.heads, rows, size)
		}
		x := op.Reshape(g.Input(name, c.d, c.windows, rows, c.heads*size), []int{c.windows, rows, c.heads, size})
		if last {
			return op.Permute(x, []int{0, 2, 3, 1})
		}
		return op.Permute(x, []int{0, 2, 1, 3})
	}
	q, v := head("q", c.l, c.e, false), head("v", c.s, c.v, false)
	k := head("k", c.s, c.e, true)
	if c.shown == 0 {
		k = op.Transpose(k, 2, 3)
	}
	x := op.Mul(op.Matmul(q, k), 1/math.Sqrt(float64(c.e)))
	switch c.mask {
	case 1:
		x = op.Add(x, input("mask", c.d, c.heads, c.l, c.s))
	case 2:
		x = op.Where(input("seen", tensor.Bool, c.windows, 1, 1, c.s), x, math.Inf(-1))
	case 3:
		x = op.Add(x, input("mask", c.d, 1, c.s))
	case 4: // by windows, which all batches share
		x = op.Reshape(x, []int{1, c.windows, c.heads, c.l, c.s})
		x = op.Add(x, input("mask", c.d, c.windows, 1, c.l, c.s))
		x = op.Reshape(x, []int{c.windows, c.heads, c.l, c.s})
	}
	if c.split == 1 {
		x = op.Reshape(x, []int{c.windows * c.heads, c.l, c.s})
		v = op.Reshape(v, []int{c.windows * c.heads, c.s, c.v})
	}
	y := op.Matmul(op.Softmax(x, -1), v)
	if c.out > 0 && c.split == 0 {
		y = op.Permute(y, []int{0, 2, 1, 3})
	}
	if c.out > 1 {
		y = op.Reshape(y, []int{c.windows, -1})
	}
	g.Output("y", y)
}

// operand returns random data. Masks have -100, which leads to subnormal weights, and infinities. Some rows have
// only infinities.
func operand(r *rand.Rand, name string, m tensor.Meta) *tensor.Tensor {
	x := tensor.Empty(m)
	eachIndex(x.Shape, func(index []int) {
		switch {
		case x.DType == tensor.Bool:
			x.Set(tensor.BoolScalar(r.IntN(3) > 0), index...)
		case name == "mask":
			x.Set(tensor.FloatScalar([]float64{0, 0, r.NormFloat64(), -100, math.Inf(-1)}[r.IntN(5)]), index...)
		default:
			x.Set(tensor.FloatScalar(r.NormFloat64()), index...)
		}
	})
	return x
}

func eachIndex(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	for n := range tensor.Numel(shape) {
		for d := len(shape) - 1; d >= 0; d-- {
			index[d], n = n%shape[d], n/shape[d]
		}
		f(index)
	}
}

// Attention in one step gives the same values as its nodes one by one, for any mask, any number of workers and with
// Exact.
func TestAttentions(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	r := rand.New(rand.NewPCG(2026, 7))
	found := 0
	cases := testsize.Of(50, 150)
	if testing.Short() { // fewer cases: -short is not for results
		cases = 15
	}
	for i := range cases {
		c := drawAttention(r)
		t.Run(fmt.Sprint(i, c), func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			c.build(r, g)
			require.NoError(t, g.Infer())
			in := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				in[v.Name] = operand(r, v.Name, v.Meta)
			}
			want, _ := runAttention(t, g, in, passes.Options{Strategy: layout.Propagate, Passes: ungroupedPasses()}, 1)
			for _, o := range []passes.Options{{Strategy: layout.Propagate},
				{Strategy: layout.Optimal, Options: layout.Options{Exact: true}}} {
				got, fused := runAttention(t, g, in, o, 1)
				again, _ := runAttention(t, g, in, o, 3)
				if fused {
					found++
				}
				agrees(t, want, got)
				assert.Equal(t, got.Storage().Bytes(), again.Storage().Bytes(), "by several workers")
			}
		})
	}
	assert.Greater(t, found, cases*4/3, "attentions that run in one step")
}

// ungroupedPasses returns the passes without the one that groups several nodes into one step.
func ungroupedPasses() (list []passes.Pass) {
	for _, p := range passes.Passes() {
		if p.Name != "group" {
			list = append(list, p)
		}
	}
	return list
}

func runAttention(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor, o passes.Options,
	workers int) (y *tensor.Tensor, fused bool) {
	t.Helper()
	p, err := passes.Run(g, o)
	require.NoError(t, err)
	program, err := exec.Compile(p.Graph, exec.Options{Threads: workers})
	require.NoError(t, err)
	out, err := program.Run(t.Context(), in)
	require.NoError(t, err)
	for _, n := range p.Graph.Nodes {
		fused = fused || n.Op.Name == "fused_attention"
	}
	return out["y"], fused
}

// agrees compares values with a tolerance for rounding. NaN must be NaN in both: rows that see nothing are NaN.
func agrees(t *testing.T, want, got *tensor.Tensor) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape)
	tolerance := 1e-5
	if want.DType == tensor.Float64 {
		tolerance = 1e-12
	}
	eachIndex(want.Shape, func(index []int) {
		a, b := want.At(index...).Float(), got.At(index...).Float()
		if math.IsNaN(a) != math.IsNaN(b) || math.Abs(a-b) > tolerance {
			t.Fatalf("%v at %v, not %v", b, index, a)
		}
	})
}
