package exec_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/tensor"
)

type headAttrs struct {
	K int `attr:"k" doc:"number of elements"`
}

var dynamicOps = map[string]*graph.Op{
	// positive returns the positive elements: how many there are depends on the data.
	"positive": defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "positive", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return []graph.Result{{Type: tensor.Meta{DType: tensor.Float32}.Type(), Alias: graph.NoAlias, Dynamic: true}}, nil
			},
		},
		Lowerings: graph.Lowerings{
			RunDynamic: func(_ graph.Runtime, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				v, err := tensor.ToSlice[float32](in[0])
				if err != nil {
					return nil, err
				}
				var kept []float32
				for _, x := range v {
					if x > 0 {
						kept = append(kept, x)
					}
				}
				if len(kept) == 0 {
					return nil, errors.New("nothing is positive")
				}
				t, err := tensor.FromSlice(kept, len(kept))
				return []*tensor.Tensor{t}, err
			},
		},
	}),
	// count returns the number of positive elements.
	"count": defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "count", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(tensor.New(tensor.Int64).Type()), nil },
		},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				n := c.Meta(0).Numel()
				return &graph.Kernel{Phases: []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
					k := int64(0)
					for _, x := range unsafe.Slice((*float32)(m.Ptrs[1]), n) {
						if x > 0 {
							k++
						}
					}
					*(*int64)(m.Ptrs[0]) = k
					return nil
				}}}}, nil
			},
		},
	}),
	"head": defined(graph.Op{Semantics: graph.Semantics{
		Name: "head", Params: []graph.Param{one}, Schema: graph.SchemaOf[headAttrs](),
		Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			m, err := c.Meta(0).Narrow(0, 0, c.Attrs.(*headAttrs).K)
			return []graph.Result{{Type: m.Type(), Alias: 0}}, err
		},
	}}),
	// twice runs a subgraph two times, one on the result of the other.
	"twice": defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "twice", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return []graph.Result{{Type: tensor.Meta{DType: tensor.Float32}.Type(), Alias: graph.NoAlias, Dynamic: true}}, nil
			},
		},
		Lowerings: graph.Lowerings{
			RunDynamic: func(rt graph.Runtime, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				out, err := rt.Run(halving, in)
				if err != nil {
					return nil, err
				}
				return rt.Run(halving, out)
			},
		},
	}),
}

var halving = func() *graph.Graph {
	g := graph.New("halving", lookup)
	g.Output("y", g.Apply("half", nil, g.Input("x", tensor.Float32, 1))[0])
	return g
}()

func lookupDynamic(name string) *graph.Op {
	if o := dynamicOps[name]; o != nil {
		return o
	}
	return lookup(name)
}

func TestPiecewise(t *testing.T) {
	g := graph.New("g", lookupDynamic)
	x := g.Input("x", tensor.Float32, 6)
	p := g.Apply("positive", nil, g.Apply("half", nil, x)[0])[0]
	k := g.Apply("count", nil, x)[0]
	h := g.Apply("head", graph.Attrs{"k": graph.ValueRef{Value: k}}, x)[0]
	g.Output("sum", g.Apply("add", nil, g.Apply("half", nil, h)[0], p)[0])
	g.Output("twice", g.Apply("twice", nil, p)[0]).Output("x", x)
	g.Apply("positive", nil, g.Apply("mul", nil, x, -1)[0]) // no output needs it
	require.NoError(t, g.Err())
	assert.True(t, g.Dynamic())
	assert.True(t, h.Dynamic)

	r, err := compileParts(g, nil, exec.Options{Threads: 2, Costs: anyWork()})
	require.NoError(t, err)
	assert.True(t, r.FirstBinding().Segmented())
	run := func(v ...float32) (map[string]*tensor.Tensor, error) {
		return r.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(v, 6))})
	}
	out, err := run(2, -4, 6, -8, 10, -12)
	require.NoError(t, err)
	assert.Equal(t, []float32{1 + 1, -2 + 3, 3 + 5}, bits(t, out["sum"]))
	assert.Equal(t, []float32{0.25, 0.75, 1.25}, bits(t, out["twice"]))
	out, err = run(-2, -4, -6, -8, -10, 12)
	require.NoError(t, err)
	assert.Equal(t, []float32{-1 + 6}, bits(t, out["sum"]))

	_, err = run(-1, -1, -1, -1, -1, -1)
	assert.EqualError(t, err, `node "positive" (positive): nothing is positive`)
	_, err = r.Run(context.Background(), nil)
	assert.EqualError(t, err, `input "x" is missing`)
}

// Attributes that are values are in graph files, in any order, and round-trip.
func TestRefsInFiles(t *testing.T) {
	const file = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
"nodes": [{"name": "h", "op": "head", "inputs": ["x"], "attrs": {"k": {"value": "k"}}},
 {"name": "k", "op": "count", "inputs": ["x"]}], "outputs": ["h"]}`
	g, err := graphfile.Read(strings.NewReader(file), lookupDynamic, graphfile.Options{Name: "g.json", Dir: "."})
	require.NoError(t, err)
	assert.Equal(t, "k", g.Nodes[0].Name, "the value comes before the attribute that reads it")
	r, err := compileParts(g, nil, exec.Options{})
	require.NoError(t, err)
	out, err := r.Run(context.Background(),
		map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{1, 2, -3, 4}, 4))})
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, -3}, bits(t, out["h"]))

	var saved strings.Builder
	require.NoError(t, graphfile.Save(&saved, g))
	assert.Contains(t, saved.String(), `"k": {"value": "k"}`)
	again, err := graphfile.Read(strings.NewReader(saved.String()), lookupDynamic,
		graphfile.Options{Name: "g.json", Dir: "."})
	require.NoError(t, err)
	assert.True(t, again.Clone().Dynamic())

	_, err = graphfile.Read(strings.NewReader(strings.Replace(file, `{"value": "k"}`, `{"value": "h"}`, 1)), lookupDynamic,
		graphfile.Options{Name: "g.json", Dir: "."})
	assert.ErrorContains(t, err, "the graph has a cycle: h -> h")
	_, err = graphfile.Read(strings.NewReader(strings.Replace(file, `{"value": "k"}`, `{"value": "q"}`, 1)), lookupDynamic,
		graphfile.Options{Name: "g.json", Dir: "."})
	assert.ErrorContains(t, err, `g.json:2:66: node "h" (head): attribute "k": there is no value "q"`)
}

// An attribute read from a constant is known at once.
func TestRefToConstant(t *testing.T) {
	g := graph.New("g", lookupDynamic)
	k := g.Constant("k", tensor.Must(tensor.FromSlice([]int64{2}, 1)))
	h := g.Apply("head", graph.Attrs{"k": graph.ValueRef{Value: k}}, g.Input("x", tensor.Float32, 4))[0]
	require.NoError(t, g.Err())
	assert.False(t, h.Dynamic)
	assert.Equal(t, []int{2}, h.Meta.Shape)
}

// What no later segment reads is let go while the run goes on.
func TestSegmentsLetGo(t *testing.T) {
	var read []weak.Pointer[tensor.Storage]
	var held []int // by call: how many of those read before are in memory
	note := defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "note", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: dynamicOps["positive"].Infer,
		},
		Lowerings: graph.Lowerings{
			RunDynamic: func(_ graph.Runtime, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				runtime.GC()
				n := 0
				for _, p := range read {
					if p.Value() != nil {
						n++
					}
				}
				held, read = append(held, n), append(read, weak.Make(in[0].Storage()))
				return []*tensor.Tensor{in[0].CopyTo(tensor.New(tensor.Float32, in[0].Shape...))}, nil
			},
		},
	})
	g := graph.New("g", func(name string) *graph.Op {
		if name == "note" {
			return note
		}
		return lookupDynamic(name)
	})
	v := g.Input("x", tensor.Float32, 6)
	first := v
	for range 6 {
		v = g.Apply("note", nil, g.Apply("half", nil, v)[0])[0]
		if first == g.Inputs[0] {
			first = v
		}
	}
	g.Output("y", g.Apply("add", nil, g.Apply("half", nil, v)[0], first)[0]).Output("v", v)
	require.NoError(t, g.Err())
	r, err := compileParts(g, nil, exec.Options{Threads: 1})
	require.NoError(t, err)
	out, err := r.Run(t.Context(), six(64, 64, 64, 64, 64, 64))
	require.NoError(t, err)
	assert.Equal(t, []float32{32.5, 32.5, 32.5, 32.5, 32.5, 32.5}, bits(t, out["y"]))
	assert.Len(t, held, 6)
	assert.LessOrEqual(t, slices.Max(held), 1, "%v", held)
}
