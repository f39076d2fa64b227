package passes_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// attends builds softmax(q @ k * scale + ...) @ v, with what between makes of the scores.
func attends(g *graph.Graph, between func(scores *graph.Value) *graph.Value) *graph.Value {
	q, k := g.Input("q", f32, 6, 2, 5, 4), g.Input("k", f32, 6, 2, 7, 4)
	scores := op.Matmul(q, op.Transpose(k, 2, 3)).Named("scores")
	return op.Matmul(between(scores), g.Input("v", f32, 6, 2, 7, 3)).Named("y")
}

// Weights, or scores, that are the second matrix of the last product as well are there as a whole.
func TestAttentionOfItself(t *testing.T) {
	for _, by := range []string{"weights", "scores"} {
		g := graph.New("g", kernels.Lookup)
		scores := op.Matmul(g.Input("q", f32, 2, 5, 4), g.Input("k", f32, 2, 4, 5)).Named("scores")
		of := map[string]*graph.Value{"scores": scores, "weights": op.Softmax(scores, -1).Named("weights")}
		g.Output("y", op.Matmul(of["weights"], of[by]).Named("y"))
		p := planned(t, g)
		for _, made := range p.Groups {
			assert.NotContains(t, made.Parts, "scores", by)
		}
		if loops.CodeAvailable() {
			why := ""
			for _, a := range p.Unfused {
				if a.Node == "scores" && a.Reader == "y" {
					why = a.Why
				}
			}
			assert.Equal(t, `as an attention it cannot be one step: needs all of "`+by+
				`" before the last product begins`, why)
		}
	}
}

// Products without matrices, or of matrices without elements, stay apart.
func TestAttentionOfNothing(t *testing.T) {
	for _, c := range []struct{ batch, rows, cols, inner int }{{0, 5, 7, 4}, {2, 0, 7, 4}, {2, 5, 7, 0}} {
		g := graph.New("g", kernels.Lookup)
		q, k := g.Input("q", f32, c.batch, c.rows, c.inner), g.Input("k", f32, c.batch, c.inner, c.cols)
		w := op.Softmax(op.Matmul(q, k).Named("scores"), -1).Named("weights")
		g.Output("y", op.Matmul(w, g.Input("v", f32, c.batch, c.cols, 3)).Named("y"))
		for _, made := range planned(t, g).Groups {
			assert.NotContains(t, made.Parts, "scores", "%v", c)
		}
	}
}

// What lies between two products and folds rows is one step with them, however it is written.
func TestAttention(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	soft := func(x *graph.Value) *graph.Value { return op.Softmax(x, -1).Named("weights") }
	for _, c := range []struct {
		name    string
		between func(g *graph.Graph, x *graph.Value) *graph.Value
		want    []string
		apart   string
	}{
		{"plain", func(_ *graph.Graph, x *graph.Value) *graph.Value { return soft(x) },
			[]string{"scores", "weights", "y"}, ""},
		{"scaled and masked", func(g *graph.Graph, x *graph.Value) *graph.Value {
			return soft(op.Add(op.Mul(x, 0.5).Named("scaled"), g.Input("mask", f32, 1, 5, 7)).Named("masked"))
		}, []string{"scores", "scaled", "masked", "weights", "y"}, ""},
		{"masked by bools", func(g *graph.Graph, x *graph.Value) *graph.Value {
			return soft(op.Where(g.Input("mask", tensor.Bool, 6, 1, 1, 7), x, -1e9).Named("masked"))
		}, []string{"scores", "masked", "weights", "y"}, ""},
		{"masks of windows", func(g *graph.Graph, x *graph.Value) *graph.Value {
			x = op.Add(x, g.Input("bias", f32, 2, 5, 7)).Named("biased")
			x = op.Add(op.Reshape(x, []int{2, 3, 2, 5, 7}).Named("apart"), g.Input("mask", f32, 3, 1, 5, 7)).Named("masked")
			return soft(op.Reshape(x, []int{6, 2, 5, 7}).Named("together"))
		}, []string{"scores", "biased", "apart", "masked", "together", "weights", "y"}, ""},
		{"a softmax of parts", func(_ *graph.Graph, x *graph.Value) *graph.Value {
			most := op.Amax(x, op.AmaxAttrs{Dim: []int{-1}, Keepdim: true}).Named("most")
			e := op.Exp(op.Sub(x, most).Named("below")).Named("e")
			return op.Div(e, op.Sum(e, op.SumAttrs{Dim: []int{-1}, Keepdim: true}).Named("sum")).Named("weights")
		}, []string{"scores", "most", "below", "e", "sum", "weights", "y"}, ""},
		{"weights that are wanted", func(g *graph.Graph, x *graph.Value) *graph.Value {
			w := soft(x)
			g.Output("w", w)
			return w
		}, nil, `as an attention it would not store "weights", which is an output`},
		{"scores that somebody reads", func(g *graph.Graph, x *graph.Value) *graph.Value {
			g.Output("most", op.Argmax(x).Named("argmax"))
			return soft(x)
		}, nil, `as an attention it would not store "scores", which argmax reads`},
		{"no rows", func(_ *graph.Graph, x *graph.Value) *graph.Value { return op.Relu(x).Named("weights") }, nil, ""},
		{"other rows", func(_ *graph.Graph, x *graph.Value) *graph.Value {
			return op.Softmax(x, -2).Named("weights")
		}, nil, `as an attention it cannot be one step: "weights" folds other dimensions than rows of scores`},
		{"turned", func(_ *graph.Graph, x *graph.Value) *graph.Value {
			return soft(op.Reshape(op.Permute(x, []int{1, 0, 2, 3}).Named("turned"), []int{6, 2, 5, 7}))
		}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			g.Output("y", attends(g, func(x *graph.Value) *graph.Value { return c.between(g, x) }))
			p := planned(t, g)
			var parts []string
			for _, made := range p.Groups {
				if made.Node == "y" {
					parts = made.Parts
				}
			}
			assert.Equal(t, c.want, parts)
			why := ""
			for _, a := range p.Unfused {
				if a.Node == "scores" && a.Reader == "y" {
					why = a.Why
				}
			}
			assert.Equal(t, c.apart, why)
		})
	}
}
