package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// groupings are ways to write heads that share keys and values: x is [b, groups, s, e], and each group has n heads. The
// ways without repeats set do not give the copies of each group one after another, in the order of the groups.
var groupings = []struct {
	name    string
	repeats bool
	build   func(x *graph.Value, n int) *graph.Value
}{
	{"expand", true, func(x *graph.Value, n int) *graph.Value {
		s := x.Meta.Shape
		return op.Reshape(op.Expand(op.Unsqueeze(x, 2), []int{-1, -1, n, -1, -1}), []int{s[0], s[1] * n, s[2], s[3]})
	}},
	{"repeat_interleave", true, func(x *graph.Value, n int) *graph.Value {
		return op.RepeatInterleave(x, op.RepeatInterleaveAttrs{Repeats: &n, Dim: new(1)})
	}},
	{"split, as exporters write repeat_interleave", true, func(x *graph.Value, n int) *graph.Value {
		return op.Permute(joined(op.Permute(x, []int{0, 2, 1, 3}), 2, n, false), []int{0, 2, 1, 3})
	}},
	{"expand in front", false, func(x *graph.Value, n int) *graph.Value {
		s := x.Meta.Shape
		return op.Reshape(op.Expand(op.Unsqueeze(x, 1), []int{-1, n, -1, -1, -1}), []int{s[0], n * s[1], s[2], s[3]})
	}},
	{"parts the other way round", false, func(x *graph.Value, n int) *graph.Value { return joined(x, 1, n, true) }},
	{"as_strided, which turns each group as well", false, func(x *graph.Value, n int) *graph.Value {
		s := x.Meta.Shape
		x = op.AsStrided(op.Unsqueeze(x, 2), []int{s[0], s[1], n, s[2], s[3]},
			[]int{s[1] * s[2] * s[3], s[2] * s[3], 0, 1, s[2]})
		return op.Reshape(x, []int{s[0], s[1] * n, s[2], s[3]})
	}},
	{"rows", false, func(x *graph.Value, n int) *graph.Value {
		s := x.Meta.Shape
		x = op.Reshape(op.Permute(x, []int{0, 2, 1, 3}), []int{s[0], s[2], s[1], s[3]})
		x = op.Reshape(op.Expand(op.Unsqueeze(x, 2), []int{-1, -1, n, -1, -1}), []int{s[0], s[2] * n, s[1], s[3]})
		return op.Reshape(x, []int{s[0], s[1] * n, s[2], s[3]})
	}},
}

// joined repeats each index of a dimension n times, in reverse order of indices if turned is set.
func joined(x *graph.Value, dim, n int, turned bool) *graph.Value {
	s := x.Meta.Shape
	var list []*graph.Value
	for _, part := range op.Split(x, 1, op.SplitAttrs{Dim: dim}) {
		size := []int{-1, -1, -1, -1, -1}
		size[dim+1] = n
		shape := slices.Clone(s)
		shape[dim] = n
		list = append(list, op.Reshape(op.Expand(op.Unsqueeze(part, dim+1), size), shape))
	}
	if turned {
		slices.Reverse(list)
	}
	return op.Cat(list, op.CatAttrs{Dim: dim})
}

// Heads that share keys and values have the same results as copies for each head, and no copies are made.
func TestGroupedHeads(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for i := range 56 {
		if leavesOut(i, 11) {
			continue
		}
		way := groupings[i%len(groupings)]
		b, groups, n, l, s, e := 1+r.IntN(2), 2+r.IntN(3), 2+r.IntN(3), 1+r.IntN(2)*r.IntN(20), 1+r.IntN(30), 1+r.IntN(20)
		t.Run(fmt.Sprintf("%d %s %dx%dx%d, %d by %d of %d", i, way.name, b, groups, n, l, s, e), func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			q := g.Input("q", tensor.Float32, b, groups*n, l, e)
			k := way.build(g.Input("k", tensor.Float32, b, groups, s, e), n)
			v := way.build(g.Input("v", tensor.Float32, b, groups, s, e), n)
			x := op.Add(op.Mul(op.Matmul(q, op.Permute(k, []int{0, 1, 3, 2})), 0.25), g.Input("mask", tensor.Float32, l, s))
			g.Output("y", op.Permute(op.Matmul(op.Softmax(x, -1), v), []int{0, 2, 1, 3}))
			require.NoError(t, g.Infer())
			in := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				in[v.Name] = operand(r, "", v.Meta)
			}
			want, _ := runAttention(t, g, in, passes.Options{Strategy: layout.Propagate, Passes: asWritten()}, 1)
			o := passes.Options{Strategy: layout.Optimal, Check: true, Options: layout.Options{Exact: true}}
			p, err := passes.Run(g, o)
			require.NoError(t, err)
			found := 0
			for _, d := range p.Decomposed {
				if d.Op == "matmul" {
					assert.Contains(t, d.Why, "repeated")
					found++
				}
			}
			assert.Equal(t, map[bool]int{true: 2}[way.repeats], found, "products rewritten: %v", p.Decomposed)
			for _, m := range p.Graph.Nodes {
				for _, v := range m.Out {
					if way.repeats && v.Alias == nil {
						assert.LessOrEqual(t, v.Meta.Numel(), max(b*groups*s*e, b*groups*n*l*max(e, s)), "%s is a copy", m.Name)
					}
				}
			}
			got, _ := runAttention(t, g, in, o, 2)
			agrees(t, want, got)
		})
	}
}
