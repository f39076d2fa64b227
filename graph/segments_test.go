package graph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// dependencyError is a random graph of additions, ops that decide shapes, attributes that are values, and nodes
// that depend on constants alone.
func dependencyError(rng *rand.Rand, nodes int) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	vals := []*graph.Value{g.Input("x", tensor.Float32, 4), g.Constant("c", tensor.Zeros(tensor.Float32, 4))}
	for range nodes {
		a, b := vals[rng.IntN(len(vals))], vals[rng.IntN(len(vals))]
		switch rng.IntN(6) {
		case 0:
			a = g.Apply("masked_select", nil, a, g.Apply("gt", nil, a, 0)[0])[0]
		case 1:
			k := g.Apply("sum", graph.Attrs{"dtype": tensor.Int64}, g.Apply("gt", nil, b, 0)[0])[0]
			a = g.Apply("narrow", graph.Attrs{"dim": 0, "start": 0, "length": graph.ValueRef{Value: k}}, a)[0]
		case 2:
			a = g.Apply("neg", nil, a)[0]
		default:
			a = g.Apply("add", nil, a, b)[0]
		}
		vals = append(vals, a)
	}
	for i := range 3 {
		g.Output(fmt.Sprint("y", i), vals[len(vals)-1-i])
	}
	return g
}

// Every needed node is in a segment behind all that it waits for; what crosses from one to another is
// handed over, and nothing else is.
func TestSegments(t *testing.T) {
	several := 0
	for seed := range uint64(200) {
		g := dependencyError(rand.New(rand.NewPCG(seed, 1)), 40)
		require.NoError(t, g.Err())
		all := g.Segments()
		made := map[*graph.Value]bool{} // and handed over
		for _, v := range g.Inputs {
			made[v] = true
		}
		in := map[*graph.Node]int{}
		for i, s := range all {
			inside := map[*graph.Value]bool{}
			for _, n := range s.Nodes {
				in[n]++
				assert.Equal(t, s.Dynamic, n.Op.Name == "masked_select", n.Name)
				for _, a := range n.In {
					known := a.Value == nil || a.Value.Const != nil || inside[a.Value]
					assert.True(t, known || made[a.Value] && slices.Contains(s.In, a.Value), n.Name)
				}
				for _, v := range n.AttrRefs() {
					assert.True(t, made[v] && slices.Contains(s.AttrInputs, v), n.Name)
				}
				for _, v := range n.Out {
					inside[v] = true
				}
			}
			for _, v := range s.Out {
				assert.True(t, inside[v])
				made[v] = true
			}
			assert.True(t, slices.IsSorted(s.After))
			for _, k := range s.After {
				assert.Less(t, k, i)
				assert.True(t, slices.ContainsFunc(all[k].Out, func(v *graph.Value) bool {
					return slices.Contains(s.In, v) || slices.Contains(s.AttrInputs, v)
				}))
			}
		}
		for _, o := range g.Outputs {
			assert.True(t, made[o.Value] || o.Value.Const != nil)
		}
		for _, times := range in {
			if times > 1 {
				several++
			}
		}
	}
	assert.Positive(t, several, "nodes that depend on constants alone are in several")
}

// The number of segments is as small as the graph allows: what becomes ready together is one.
func TestSegmentsAreFew(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	a, b := op.Neg(op.Nonzero(x)), op.Neg(op.Nonzero(op.Relu(x)))
	g.Output("a", a).Output("b", op.Add(b, 1)).Output("c", op.Relu(op.Neg(x)))
	op.Nonzero(op.Neg(x)) // nobody needs it
	require.NoError(t, g.Err())
	var sizes []int
	for _, s := range g.Segments() {
		sizes = append(sizes, len(s.Nodes))
	}
	assert.Equal(t, []int{3, 1, 1, 3}, sizes, "relu, neg and relu; two times nonzero; what follows")
}

func TestSegmentsTakeLinearTime(t *testing.T) {
	const n = 20000
	g := graph.New("g", kernels.Lookup)
	c := op.Neg(g.Constant("c", tensor.Zeros(tensor.Float32)))
	v := g.Input("x", tensor.Float32, 2)
	for range n {
		v = op.Add(op.MaskedSelect(v, op.Gt(v, 0)), c)
	}
	g.Output("y", v)
	require.NoError(t, g.Err())
	start := time.Now()
	assert.Len(t, g.Segments(), 2*n+1)
	assert.Less(t, time.Since(start), 5*time.Second)
}

// The graph of a form, bound to the sizes of values, is the graph of the segment for these values.
func TestSegmentForms(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "n"}, graph.Dim{Size: 3})
	places := op.Nonzero(x)
	g.Output("rows", op.Softmax(op.Transpose(places, 0, 1).Named("columns"), 1, op.SoftmaxAttrs{DType: tensor.Float32}))
	g.Output("sum", op.Add(op.Sum(x, op.SumAttrs{Dim: []int{0}}), op.Sum(places)))
	require.NoError(t, g.Err())
	for _, openSymbols := range [][]string{nil, {"n"}} {
		segments := g.Segments()
		require.Len(t, segments, 3)
		assert.Nil(t, segments[1].Form(nil, openSymbols), "a dynamic node")
		behind, key := segments[2], ""
		for _, count := range []int{5, 0, 1, 7} {
			known := map[*graph.Value]*tensor.Tensor{g.Inputs[0]: tensor.Zeros(tensor.Float32, 4, 3)}
			for _, v := range behind.In {
				known[v] = tensor.Zeros(tensor.Float32, 3)
				if v == places {
					known[v] = tensor.Empty(tensor.Meta{DType: tensor.Int64, Shape: []int{count, 2}, Strides: []int{1, count}})
				}
			}
			form := behind.Form(known, openSymbols)
			require.NotNil(t, form)
			require.Equal(t, map[string]int{"u0": count}, form.Sizes, "the segment does not depend on n")
			if key == "" {
				key = form.Key
			}
			assert.Equal(t, key, form.Key)
			open, err := form.Graph(t.Context())
			require.NoError(t, err)
			require.NoError(t, open.Bind(form.Sizes))
			want, err := behind.At(t.Context(), known)
			require.NoError(t, err)
			for k, output := range want.Outputs {
				assert.Equal(t, output.Value.Meta, open.Outputs[k].Value.Meta, "%s of %d", output.Name, count)
			}
		}
	}
}
