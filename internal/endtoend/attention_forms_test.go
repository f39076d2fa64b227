package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// formSizes has the sizes of an attention: b batches of groups, each of n heads that share keys and values.
type formSizes struct{ b, groups, n, l, s, e, v int }

// attentionForm is a way to write an attention as a graph.
type attentionForm struct {
	name  string
	build func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value
}

// attentionWeights returns the weights for scores.
func attentionWeights(x *graph.Value) *graph.Value { return op.Softmax(op.Mul(x, 0.3), -1) }

// einsums returns an attention by two equations, whose letters are keys of the sizes.
func einsums(scores, values string) func(*graph.Graph, tensor.DType, formSizes) *graph.Value {
	return func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value {
		size := map[rune]int{'b': z.b, 'g': z.groups, 'n': z.n, 'i': z.l, 'j': z.s, 'd': z.e, 'v': z.v}
		input := func(name, labels string) *graph.Value {
			var shape []int
			for _, l := range labels {
				shape = append(shape, size[l])
			}
			return g.Input(name, d, shape...)
		}
		operands, result, _ := strings.Cut(scores, "->")
		q, k, _ := strings.Cut(operands, ",")
		x := attentionWeights(op.Einsum([]*graph.Value{input("q", q), input("k", k)}, scores))
		operands, _, _ = strings.Cut(values, "->")
		if v, weights, _ := strings.Cut(operands, ","); weights == result {
			return op.Einsum([]*graph.Value{input("v", v), x}, values)
		}
		_, v, _ := strings.Cut(operands, ",")
		return op.Einsum([]*graph.Value{x, input("v", v)}, values)
	}
}

// decoded returns an attention of one query row. repeat repeats keys and values for all heads of a group.
func decoded(repeat func(x *graph.Value, n int) *graph.Value) func(*graph.Graph, tensor.DType, formSizes) *graph.Value {
	return func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value {
		joined := func(name string, size int) *graph.Value { // a cache and one more row
			old := g.Input(name+"past", d, z.b, z.groups, z.s, size)
			x := op.Cat([]*graph.Value{old, g.Input(name, d, z.b, z.groups, 1, size)}, op.CatAttrs{Dim: 2})
			g.Output(name+"new", x)
			return repeat(x, z.n)
		}
		k, v := joined("k", z.e), joined("v", z.v)
		q := g.Input("q", d, z.b, z.groups*z.n, 1, z.e)
		x := op.Add(op.Matmul(q, op.Transpose(k, 2, 3)), g.Input("mask", d, z.b, 1, 1, z.s+1))
		return op.Matmul(attentionWeights(x), v)
	}
}

var attentionForms = []attentionForm{
	{"labels of heads", einsums("bnid,bnjd->bnij", "bnij,bnjv->bniv")},
	{"labels of heads side by side", einsums("bind,bjnd->bnij", "bnij,bjnv->binv")},
	{"labels of sequences first", einsums("ibnd,jbnd->bnij", "bnij,jbnv->ibnv")},
	{"labels of channels first", einsums("bdi,bdj->bij", "bij,bvj->bvi")},
	{"labels of shared heads", einsums("bnid,bjd->bnij", "bnij,bjv->bniv")},
	{"labels of grouped heads", einsums("bignd,bjgd->bgnij", "bgnij,bjgv->bignv")},
	{"labels with values first", einsums("bnid,bnjd->bnij", "bnjv,bnij->bniv")},
	{"no batch", einsums("id,jd->ij", "ij,jv->iv")},
	{"values first, turned", func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value {
		q, k := g.Input("q", d, z.b, z.l, z.e), g.Input("k", d, z.b, z.e, z.s)
		return op.Matmul(g.Input("v", d, z.b, z.v, z.s), op.Permute(attentionWeights(op.Matmul(q, k)), []int{0, 2, 1}))
	}},
	{"heads as rows", func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value {
		q := op.Reshape(g.Input("q", d, z.b, z.l, z.n, z.e), []int{z.b, z.l * z.n, z.e})
		x := op.Matmul(q, op.Transpose(g.Input("k", d, z.b, z.s, z.e), 1, 2))
		x = op.Add(op.Reshape(x, []int{z.b, z.l, z.n, z.s}), g.Input("mask", d, z.b, 1, 1, z.s))
		x = op.Add(x, g.Input("bias", d, z.l, z.n, z.s))
		return op.Matmul(op.Reshape(attentionWeights(x), []int{z.b, z.l * z.n, z.s}), g.Input("v", d, z.b, z.s, z.v))
	}},
	{"one row, shared keys", func(g *graph.Graph, d tensor.DType, z formSizes) *graph.Value {
		q := g.Input("q", d, z.b, z.n, 1, z.e)
		x := attentionWeights(op.Matmul(q, op.Transpose(g.Input("k", d, z.b, 1, z.s, z.e), 2, 3)))
		return op.Matmul(x, g.Input("v", d, z.b, 1, z.s, z.v))
	}},
	{"a cache", decoded(groupings[0].build)},
	{"a cache, repeated by rows", decoded(groupings[1].build)},
}

// asWritten returns the passes without those that rewrite nodes or that group several nodes into one step.
func asWritten() []passes.Pass {
	return slices.DeleteFunc(ungroupedPasses(), func(p passes.Pass) bool { return p.Name == "rewrite" })
}

// Each form is one step, which gives the same values as its nodes one by one, for any number of workers and with Exact.
func TestAttentionForms(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	r := rand.New(rand.NewPCG(2026, 11))
	times := 10
	if testing.Short() {
		times = 1
	}
	for i := range times * len(attentionForms) {
		form := attentionForms[i%len(attentionForms)]
		d := []tensor.DType{tensor.Float32, tensor.Float64}[r.IntN(4)/3]
		z := formSizes{b: 1 + r.IntN(3), groups: 1 + r.IntN(3), n: 2 + r.IntN(4), l: 1 + r.IntN(30), s: 2 + r.IntN(90),
			e: 1 + r.IntN(70), v: 1 + r.IntN(140)}
		t.Run(fmt.Sprint(i, " ", form.name, d, z), func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			g.Output("y", form.build(g, d, z))
			require.NoError(t, g.Infer())
			in := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				in[v.Name] = operand(r, "", v.Meta)
			}
			want, _ := runAttention(t, g, in, passes.Options{Strategy: layout.Propagate, Passes: asWritten()}, 1)
			for _, o := range []passes.Options{{Strategy: layout.Propagate},
				{Strategy: layout.Optimal, Options: layout.Options{Exact: true}}} {
				got, fused := runAttention(t, g, in, o, 1)
				again, _ := runAttention(t, g, in, o, 3)
				assert.True(t, fused, "one step")
				agrees(t, want, got)
				assert.Equal(t, want.Strides, got.Strides)
				assert.Equal(t, got.Storage().Bytes(), again.Storage().Bytes(), "by several workers")
			}
		})
	}
}
