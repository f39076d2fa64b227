package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// undecided returns a graph with inputs x [3,4], a channels-last image [2,3,2,4], their masks m and mi, and mc [3].
func undecided() (g *graph.Graph, x, m, image, mi, mc *graph.Value) {
	g = graph.New("g", kernels.Lookup)
	x, m = g.Input("x", f32, 3, 4), g.Input("m", tensor.Bool, 3, 4)
	image = g.InputFormat("image", f32, tensor.ChannelsLast, 2, 3, 2, 4)
	return g, x, m, image, g.Input("mi", tensor.Bool, 2, 3, 2, 4), g.Input("mc", tensor.Bool, 3)
}

func typeText(s *graph.Symbolic, v *graph.Value) string {
	w := s.Graph.Value(v.Name)
	if w.Dynamic {
		return "dynamic " + tensor.Sizes(w.Type.Shape)
	}
	return strings.TrimPrefix(w.Type.Simplify().String(), w.Type.DType.String())
}

func TestUnbackedSizes(t *testing.T) {
	testsize.Long(t)
	g, x, m, image, _, mc := undecided()
	a := op.MaskedSelect(x, m)
	b := op.MaskedSelect(x, op.Gt(x, 0))
	at := op.Nonzero(m)
	rows := op.Select(op.Transpose(at, 0, 1), 0, 0)
	twice := op.Cat([]*graph.Value{a, b}, op.CatAttrs{})
	third := g.Apply("index", nil, image, nil, mc)[0]
	for _, c := range []struct {
		v    *graph.Value
		want string
	}{
		{op.Relu(a), "[u0]@(1)"},
		{b, "[u1]@(1)"},
		{at, "[u2,2]@(1,u2)"},
		{rows, "[u2]@(1)"},
		{op.IndexSelect(x, rows, 0), "[u2,4]@(4,1)"},
		{op.Relu(op.Transpose(at, 0, 1)), "[2,u2]@(Max(1, u2),1)"},
		{twice, "[u0 + u1]@(1)"},
		{op.Reshape(op.IndexSelect(x, rows, 0), []int{-1}), "[4*u2]@(1)"},
		{op.Mul(op.Unsqueeze(a, 1), op.Select(x, 0, 0)), "[u0,4]@(4,1)"},
		{op.Sum(a), "[]@()"},
		// It is an error in a run if the sizes differ and none is 1.
		{op.Add(a, b), "[Where(Eq(u0, 1) & Ne(u1, 1) & Ne(u1, u0), u1, u0)]@(1)"},
	} {
		require.NoError(t, g.Err())
		assert.True(t, c.v.Dynamic, c.v.Name)
		assert.Equal(t, c.want, typeText(g.Unbacked(), c.v), c.v.Name)
	}
	// Inference rejects the last case: sizes that differ and are not 1. The next node must not get the same symbol.
	repeated := op.RepeatInterleaveTensor(a, op.To(b, op.ToAttrs{DType: tensor.Int64}))
	after := op.Nonzero(m)
	s := g.Unbacked()
	assert.Equal(t, "[u4]@(1)", typeText(s, repeated))
	assert.Equal(t, "[u5,2]@(1,u5)", typeText(s, after))
	assert.Equal(t, "[2,u3,2,4]@(8*Max(1, u3),8,4,1)", typeText(s, third))
	assert.Empty(t, s.Env.Guards())
	assert.Equal(t, at.Name, nameOf(s.Graph.Value(rows.Node.In[0].Value.Name).Alias))
}

// deciding has ops whose results have shapes that depend on data.
var deciding = []func(g *graph.Graph, x, m, image, mi, mc *graph.Value) []*graph.Value{
	func(_ *graph.Graph, x, m, _, _, _ *graph.Value) []*graph.Value {
		return []*graph.Value{op.MaskedSelect(x, m)}
	},
	func(_ *graph.Graph, _, m, _, _, _ *graph.Value) []*graph.Value { return []*graph.Value{op.Nonzero(m)} },
	func(_ *graph.Graph, _, _, _, mi, _ *graph.Value) []*graph.Value {
		return []*graph.Value{op.Nonzero(mi)}
	},
	func(g *graph.Graph, x, m, _, _, _ *graph.Value) []*graph.Value { return g.Apply("index", nil, x, m) },
	func(g *graph.Graph, x, _, _, _, mc *graph.Value) []*graph.Value { return g.Apply("index", nil, x, mc) },
	func(g *graph.Graph, _, _, image, _, mc *graph.Value) []*graph.Value {
		return g.Apply("index", nil, image, nil, mc)
	},
	func(g *graph.Graph, _, _, image, mi, _ *graph.Value) []*graph.Value {
		return g.Apply("index", nil, image, mi)
	},
	func(g *graph.Graph, _, m, _, _, _ *graph.Value) []*graph.Value {
		return g.ApplyN("_unique2", 3, graph.Attrs{"return_inverse": true, "return_counts": true}, m)
	},
	func(g *graph.Graph, x, m, _, _, _ *graph.Value) []*graph.Value {
		return g.ApplyN("unique_dim", 3, graph.Attrs{"dim": 1, "return_inverse": true}, op.Mul(x, m))
	},
	func(g *graph.Graph, _, _, _, mi, _ *graph.Value) []*graph.Value {
		return g.ApplyN("unique", 4, graph.Attrs{"dim": -2}, mi)
	},
	func(g *graph.Graph, _, _, image, _, mc *graph.Value) []*graph.Value {
		return g.Apply("compress", graph.Attrs{"dim": 1}, image, mc)
	},
	func(g *graph.Graph, _, _, image, _, mc *graph.Value) []*graph.Value {
		return g.Apply("repeat_interleave", graph.Attrs{"dim": 1}, image, op.To(mc, op.ToAttrs{DType: tensor.Int64}))
	},
	func(g *graph.Graph, _, m, _, _, _ *graph.Value) []*graph.Value {
		return g.Apply("one_hot", nil, op.To(m, op.ToAttrs{DType: tensor.Int64}))
	},
}

// following has ops that read such a value, and sometimes another one.
var following = []struct {
	op    string
	attrs graph.Attrs
	two   bool
}{
	{"relu", nil, false}, {"neg", nil, false}, {"add", nil, true}, {"mul", nil, true}, {"eq", nil, true},
	{"unsqueeze", graph.Attrs{"dim": 1}, false}, {"unsqueeze", graph.Attrs{"dim": -1}, false},
	{"transpose", graph.Attrs{"dim0": 0, "dim1": -1}, false}, {"reshape", graph.Attrs{"shape": []int{-1}}, false},
	{"reshape", graph.Attrs{"shape": []int{2, -1}}, false}, {"view", graph.Attrs{"shape": []int{-1, 1}}, false},
	{"flatten", nil, false}, {"flatten", graph.Attrs{"start_dim": 1}, false}, {"squeeze", nil, false},
	{"slice", graph.Attrs{"start": 1}, false}, {"slice", graph.Attrs{"start": -3, "end": 5, "step": 2}, false},
	{"select", graph.Attrs{"dim": -1, "index": 0}, false},
	{"narrow", graph.Attrs{"dim": 0, "start": 1, "length": 2}, false},
	{"flip", graph.Attrs{"dims": []int{0}}, false}, {"roll", graph.Attrs{"shifts": []int{1}, "dims": []int{0}}, false},
	{"cat", nil, true}, {"stack", nil, true}, {"sum", graph.Attrs{"dim": []int{0}}, false}, {"sum", nil, false},
	{"amax", graph.Attrs{"dim": []int{-1}, "keepdim": true}, false}, {"cumsum", graph.Attrs{"dim": 0}, false},
	{"contiguous", nil, false}, {"clone", graph.Attrs{"memory_format": "channels_last"}, false},
	{"repeat", graph.Attrs{"repeats": []int{2, 1, 1, 3, 1}}, false}, {"tile", graph.Attrs{"dims": []int{2}}, false},
	{"diagonal", nil, false}, {"unfold", graph.Attrs{"dimension": 0, "size": 2, "step": 2}, false},
	{"movedim", graph.Attrs{"source": []int{0}, "destination": []int{-1}}, false}, {"tril", nil, false},
	{"expand", graph.Attrs{"size": []int{2, -1, -1}}, false}, {"expand_as", nil, true}, {"where", nil, true},
	{"matmul", nil, true}, {"outer", nil, true}, {"softmax", graph.Attrs{"dim": -1}, false},
	{"constant_pad_nd", graph.Attrs{"pad": []int{1, 2}}, false}, {"empty_like", nil, false}, {"index_select", nil, true},
	{"as_strided", graph.Attrs{"size": []int{1}, "stride": []int{1}}, false}, {"masked_fill", nil, true},
	{"topk", graph.Attrs{"k": 1}, false}, {"argmax", graph.Attrs{"dim": 0}, false},
	{"max_pool2d", graph.Attrs{"kernel_size": []int{2, 2}}, false}, {"nonzero", nil, false},
}

// drawUndecided returns a random graph of ops whose shapes depend on data, and of ops that read their results. Ops that
// are rejected before a run are left out.
func drawUndecided(rng *rand.Rand, names map[string]int) *graph.Graph {
	g, x, m, image, mi, mc := undecided()
	list := []*graph.Value{x, image}
	for range 1 + rng.IntN(2) {
		out := deciding[rng.IntN(len(deciding))](g, x, m, image, mi, mc)
		list = append(list, out[rng.IntN(len(out))])
	}
	for range 2 + rng.IntN(4) {
		f := following[rng.IntN(len(following))]
		in := []any{list[len(list)-1-rng.IntN(min(len(list), 3))]}
		if f.two {
			in = append(in, list[rng.IntN(len(list))])
		}
		if f.op == "where" {
			in = append([]any{g.Apply("gt", nil, in[0], 0)[0]}, in...)
		}
		if f.op == "masked_fill" {
			in = []any{in[0], g.Apply("gt", nil, in[1], 0)[0], 0}
		}
		if c := g.Clone(); c.Err() == nil {
			at := make([]any, len(in))
			for i, v := range in {
				at[i] = v
				if w, ok := v.(*graph.Value); ok {
					at[i] = c.Value(w.Name)
				}
			}
			if c.Apply(f.op, f.attrs, at...); c.Err() != nil {
				continue
			}
		}
		list = append(list, g.Apply(f.op, f.attrs, in...)[0])
		names[f.op]++
	}
	for i, v := range list[2:] {
		g.Output(fmt.Sprint("out", i), v)
	}
	return g
}

// TestUnbackedSizesHold runs random graphs. Types that are inferred before a run must be those of the run for the sizes
// of the symbols.
func TestUnbackedSizesHold(t *testing.T) {
	testsize.Long(t)
	rng := rand.New(rand.NewPCG(27, 4))
	names := map[string]int{}
	ran, typed, dynamic := 0, 0, 0
	graphs := int(randomGraphs(750))
	for range graphs {
		g := drawUndecided(rng, names)
		require.NoError(t, g.Err())
		s := g.Unbacked()
		in := map[string]*tensor.Tensor{}
		for _, v := range g.Inputs {
			data := tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
			likely := []float64{0, 0.1, 0.5, 1}[rng.IntN(4)]
			for i := range data.Numel() {
				if rng.Float64() < likely {
					data.SetFlat(i, tensor.FloatScalar(1))
				}
			}
			in[v.Name] = data.CopyTo(v.Meta)
		}
		got, err := graph.Evaluate(g, in)
		if err != nil {
			continue
		}
		ran++
		sizes := sym.Binding{}
		for _, o := range g.Outputs {
			for d, size := range s.Graph.Value(o.Value.Name).Type.Shape {
				if _, known := size.Known(); !known && strings.HasPrefix(size.String(), "u") && size.Size() == 1 {
					sizes[size.String()] = got[o.Name].Shape[d]
				}
			}
		}
		for _, o := range g.Outputs {
			w, run := s.Graph.Value(o.Value.Name), got[o.Name]
			if w.Dynamic {
				dynamic++
				if w.Type.Shape != nil {
					assert.Len(t, run.Shape, len(w.Type.Shape), "%s", o.Value.Node.Op.Name)
				}
				continue
			}
			m, err := w.Type.At(sizes)
			if err != nil {
				continue // no output has the shape that determines the size
			}
			typed++
			m.Offset = run.Offset
			if !assert.Equal(t, m.String(), run.Meta.String(), "%v = %s of %v, sizes %v", w.Type, o.Value.Node.Op.Name,
				o.Value.Node.In[0].Value.Type, sizes) {
				t.Log(s.Graph)
				return
			}
		}
	}
	t.Logf("%d graphs ran, %d types were compared, %d were not known: %v", ran, typed, dynamic, names)
	assert.Greater(t, ran, graphs/5)
	assert.Greater(t, typed, 2*dynamic)
}
