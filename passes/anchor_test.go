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

// A product or a convolution begins the step of the loops that read it, where that saves passes over memory.
func TestHeads(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	norm := func(x *graph.Value) *graph.Value { return op.LayerNorm(x, nil, nil, []int{32}).Named("norm") }
	for _, c := range []struct {
		name  string
		build func(g *graph.Graph, v, x *graph.Value) *graph.Value
		want  [][]string
		apart string // why the head is not in the step of the loop that reads it
	}{
		{"a chain", func(_ *graph.Graph, v, _ *graph.Value) *graph.Value {
			return op.Exp(op.Relu(v).Named("relu")).Named("exp")
		}, [][]string{{"v", "relu", "exp"}}, ""},
		{"two heads", func(g *graph.Graph, v, x *graph.Value) *graph.Value {
			return op.Add(v, op.Matmul(x, g.Input("u", f32, 32, 32)).Named("later")).Named("sum")
		}, [][]string{{"later", "sum"}}, "the step of sum already has the anchor later"},
		{"a sum that two folds read in one step", func(_ *graph.Graph, v, x *graph.Value) *graph.Value {
			sum := op.Add(v, x).Named("sum")
			return op.Mul(norm(sum), op.Softmax(sum, -1)).Named("product")
		}, [][]string{{"sum", "norm", "softmax", "product"}}, "the step of product reduces rows of it"},
		{"a sum that only a norm reads", func(_ *graph.Graph, v, x *graph.Value) *graph.Value {
			return norm(op.Add(v, x).Named("sum"))
		}, [][]string{{"sum", "norm"}}, "the step of norm reduces rows of it"},
		{"a stored sum that a norm reads", func(g *graph.Graph, v, x *graph.Value) *graph.Value {
			sum := op.Add(v, x).Named("sum")
			g.Output("sum", sum)
			return norm(sum)
		}, [][]string{{"v", "sum"}}, ""},
		{"a shape that grows", func(g *graph.Graph, v, _ *graph.Value) *graph.Value {
			return op.Add(v, g.Input("more", f32, 5, 8, 32)).Named("sum")
		}, nil, "its readers iterate over different rows"},
		{"only half a float", func(_ *graph.Graph, v, _ *graph.Value) *graph.Value {
			return op.To(v, op.ToAttrs{DType: tensor.Float16}).Named("half")
		}, nil, "no result of the step of half has elements of the size of float32, whose buffer it could share"},
		{"another reader before", func(_ *graph.Graph, v, _ *graph.Value) *graph.Value {
			return op.Add(v, op.Argsort(v).Named("ranks")).Named("sum")
		}, nil, "ranks also reads it, and comes earlier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			x := g.Input("x", f32, 8, 32)
			v := op.Matmul(x, g.Input("w", f32, 32, 32)).Named("v")
			g.Output("y", c.build(g, v, x))
			p := planned(t, g)
			var groups [][]string
			for _, made := range p.Groups {
				groups = append(groups, made.Parts)
			}
			assert.Equal(t, c.want, groups)
			why := ""
			for _, a := range p.Unfused {
				if a.Node == "v" {
					why = a.Why
				}
			}
			assert.Equal(t, c.apart, why)
		})
	}
}
