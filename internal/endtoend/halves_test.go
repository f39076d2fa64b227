package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Products of 16-bit floats have float32 sums, which are rounded once, whichever op computes them. A value that several
// products read is converted once.
func TestHalfProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 32))
	eps := map[tensor.DType]float64{tensor.Float16: 1. / 1024, tensor.BFloat16: 1. / 128}
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		for _, tc := range []struct {
			name     string
			products int
			reads    int // number of values that are converted, except for constants
			build    func(g *graph.Graph) *graph.Value
		}{
			{"linear", 1, 1, func(g *graph.Graph) *graph.Value {
				return op.Relu(op.Linear(g.Input("x", d, 5, 33), constant(r, g, "w", d, 40, 33),
					constant(r, g, "b", d, 40)))
			}},
			{"layers of one value", 3, 1, func(g *graph.Graph) *graph.Value {
				x := g.Input("x", d, 2, 7, 24)
				q, k := op.Linear(x, constant(r, g, "q", d, 24, 24), nil), op.Linear(x, constant(r, g, "k", d, 24, 24), nil)
				return op.Add(op.Mul(q, k), op.Linear(x, constant(r, g, "v", d, 24, 24), nil))
			}},
			{"one after the other", 2, 1, func(g *graph.Graph) *graph.Value {
				x := op.Relu(op.Linear(g.Input("x", d, 9, 24), constant(r, g, "u", d, 48, 24), nil))
				return op.Linear(x, constant(r, g, "w", d, 16, 48), nil)
			}},
			{"matmul", 1, 2, func(g *graph.Graph) *graph.Value {
				return op.Matmul(g.Input("x", d, 2, 6, 17), g.Input("y", d, 2, 17, 20))
			}},
			{"conv2d", 1, 1, func(g *graph.Graph) *graph.Value {
				return op.Conv2d(g.Input("x", d, 1, 8, 9, 9), constant(r, g, "w", d, 16, 8, 3, 3), nil, op.Conv2dAttrs{
					Padding: []int{1}})
			}},
		} {
			t.Run(fmt.Sprint(d, " ", tc.name), func(t *testing.T) {
				g := graph.New("g", kernels.Lookup)
				g.Output("y", tc.build(g))
				require.NoError(t, g.Infer())
				in := map[string]*tensor.Tensor{}
				for _, v := range g.Inputs {
					in[v.Name] = operand(r, "", v.Meta)
				}
				plain := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "rewrite" })
				want, _ := runAttention(t, g, in, passes.Options{Strategy: layout.Optimal, Passes: plain}, 1)
				o := passes.Options{Strategy: layout.Optimal, Options: layout.Options{Exact: true}, Check: true}
				got, _ := runAttention(t, g, in, o, 2)
				p, err := passes.Run(g, o)
				require.NoError(t, err)
				assert.Len(t, p.Decomposed, tc.products)
				converted := map[*graph.Value]bool{}
				for _, n := range p.Graph.Nodes {
					for _, a := range n.In {
						if a.Kind == graph.TensorArg && a.Value.Node == nil && a.Value.Const == nil {
							assert.False(t, converted[a.Value], "%s is read once more by %s", a.Value.Name, n.Name)
							converted[a.Value] = true
						}
					}
				}
				assert.Len(t, converted, tc.reads)
				eachIndex(want.Shape, func(index []int) {
					a, b := want.At(index...).Float(), got.At(index...).Float()
					if math.Abs(a-b) > 2*eps[d]*max(1, math.Abs(a)) {
						t.Fatalf("%v at %v, not %v", b, index, a)
					}
				})
			})
		}
	}
}

// constant adds a constant of random numbers.
func constant(r *rand.Rand, g *graph.Graph, name string, d tensor.DType, shape ...int) *graph.Value {
	return g.Constant(name, operand(r, "", tensor.New(d, shape...)))
}

// TestHalfConvolutions compares convolutions whose large weights are held in 16 bits with convolutions of the same
// numbers in float32.
func TestHalfConvolutions(t *testing.T) {
	if jit.Available() != nil {
		t.Skip("kernels in Go read float32")
	}
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		for _, impl := range []string{"direct_nhwc", "nhwc", "direct_planes"} {
			for _, groups := range []int{1, 2} {
				t.Run(fmt.Sprint(d, impl, groups), func(t *testing.T) {
					r := rand.New(rand.NewPCG(3, 4))
					weight := operand(r, "", tensor.New(d, 108*groups, 160, 3, 3))
					x := operand(r, "", tensor.New(d, 2, 160*groups, 9, 10))
					var results []*tensor.Tensor
					var packed []report.Packing
					for _, w := range []*tensor.Tensor{weight, weight.CopyTo(tensor.New(tensor.Float32, weight.Shape...))} {
						g := graph.New("g", kernels.Lookup)
						widen := op.ToAttrs{DType: tensor.Float32}
						y := op.Conv2d(op.To(g.Input("x", d, x.Shape...), widen), op.To(g.Constant("w", w), widen), nil,
							op.Conv2dAttrs{Padding: []int{1}, Stride: []int{1, 2}, Groups: &groups})
						y.Node.Pin = graph.Pin{Impl: impl}
						g.Output("y", y)
						p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 2})
						require.NoError(t, err)
						packed = append(packed, p.Report().Packed...)
						out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
						require.NoError(t, err)
						results = append(results, out["y"])
					}
					require.Len(t, packed, 2)
					assert.True(t, strings.HasPrefix(packed[0].Form, d.String()), packed[0].Form)
					assert.Equal(t, packed[1].Bytes, 2*packed[0].Bytes)
					assert.Equal(t, results[1].Storage().Bytes(), results[0].Storage().Bytes())
				})
			}
		}
	}
}
