package endtoend_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// doubling returns a loop body. It doubles the carried value, collects it, and continues while its sum is less than
// 100.
func doubling() *graph.Graph {
	b := graph.New("body", kernels.Lookup)
	b.Input("i", tensor.Int64)
	b.Input("going", tensor.Bool)
	x := b.Input("x", f32, 2)
	y := op.Mul(x, 2)
	return b.Output("on", op.Lt(op.Sum(y), 100)).Output("x", y).Output("seen", y)
}

// checkRunAndSaved checks that a run and the reference evaluation of a graph give the wanted outputs, before and after
// saving and loading it.
func checkRunAndSaved(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor, want map[string][]float32) {
	t.Helper()
	require.NoError(t, g.Err())
	var file strings.Builder
	require.NoError(t, graphfile.Save(&file, g))
	again, err := graphfile.Read(strings.NewReader(file.String()), kernels.Lookup,
		graphfile.Options{Name: "g.json", Dir: "."})
	require.NoError(t, err)
	for _, g := range []*graph.Graph{g, again} {
		ref, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		r, err := compiled(g, 2)
		require.NoError(t, err)
		got, err := r.Run(context.Background(), in)
		require.NoError(t, err)
		for name, w := range want {
			require.Equal(t, w, floats(got[name]), name)
			require.Equal(t, w, floats(ref[name]), "%s by reference", name)
		}
	}
}

func TestLoop(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2)
	out := g.ApplyN("loop", 2, graph.Attrs{"body": doubling(), "carried": 1}, 10, true, x)
	g.Output("last", op.Neg(out[0])).Output("all", out[1])
	in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{3, 10}, 2))}
	checkRunAndSaved(t, g, in, map[string][]float32{"last": {-24, -80}, "all": {6, 20, 12, 40, 24, 80}})

	two := graph.New("two", kernels.Lookup)
	out = two.ApplyN("loop", 2, graph.Attrs{"body": doubling(), "carried": 1}, 2, true, two.Input("x", f32, 2))
	two.Output("last", out[0]).Output("all", out[1])
	checkRunAndSaved(t, two, in, map[string][]float32{"last": {12, 40}, "all": {6, 20, 12, 40}})
}

func TestIf(t *testing.T) {
	branch := func(f func(g *graph.Graph, x *graph.Value) *graph.Value) *graph.Graph {
		b := graph.New("branch", kernels.Lookup)
		return b.Output("y", f(b, b.Input("x", f32, 2)))
	}
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2)
	y := g.ApplyN("if", 1, graph.Attrs{
		"then_branch": branch(func(g *graph.Graph, x *graph.Value) *graph.Value { return op.Neg(x) }),
		"else_branch": branch(func(g *graph.Graph, x *graph.Value) *graph.Value { return op.Add(x, 1) }),
	}, op.Gt(op.Sum(x), 0), x, x)[0]
	g.Output("y", op.Mul(y, 2))
	at := func(a, b float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{a, b}, 2))}
	}
	checkRunAndSaved(t, g, at(1, 2), map[string][]float32{"y": {-2, -4}})
	checkRunAndSaved(t, g, at(1, -2), map[string][]float32{"y": {4, -2}})
}

func TestScan(t *testing.T) {
	b := graph.New("body", kernels.Lookup)
	sum := op.Add(b.Input("sum", f32, 2), b.Input("row", f32, 2))
	b.Output("sum", sum).Output("so_far", sum)
	g := graph.New("g", kernels.Lookup)
	out := g.ApplyN("scan", 2, graph.Attrs{"body": b, "states": 1, "num_scan_inputs": 1,
		"scan_input_directions": []bool{true}},
		g.Input("start", f32, 2), g.Input("rows", f32, 3, 2))
	g.Output("sum", out[0]).Output("so_far", out[1])
	checkRunAndSaved(t, g, map[string]*tensor.Tensor{
		"start": tensor.Must(tensor.FromSlice([]float32{100, 200}, 2)),
		"rows":  tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)),
	}, map[string][]float32{"sum": {109, 212}, "so_far": {105, 206, 108, 210, 109, 212}})
}

// An attribute that is computed, and another shape that depends on data.
func TestComputedShapes(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 6)
	k := op.Sum(op.Gt(x, 0))
	top := g.ApplyN("topk", 2, graph.Attrs{"k": graph.ValueRef{Value: k}}, x)
	g.Output("top", top[0]).Output("where", g.Apply("nonzero", nil, op.Gt(x, 0))[0])
	checkRunAndSaved(t, g, map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{-1, 5, 2, -4, 7, 0}, 6))},
		map[string][]float32{"top": {7, 5, 2}, "where": {1, 2, 4}})
}

// Outputs never share memory with constants of the graph, although a loop without iterations and an empty branch return
// a constant.
func TestConstantsAreNotHandedOut(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	k := g.Constant("k", tensor.Must(tensor.FromSlice([]float32{3, 10}, 2)))
	loop := g.ApplyN("loop", 2, graph.Attrs{"body": doubling(), "carried": 1}, g.Input("trips", tensor.Int64), true, k)
	same := graph.New("same", kernels.Lookup)
	same.Output("y", same.Input("x", f32, 2))
	own := graph.New("own", kernels.Lookup)
	own.Input("x", f32, 2)
	own.Output("y", own.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2}, 2))))
	yes := g.Input("yes", tensor.Bool)
	first := g.ApplyN("if", 1, graph.Attrs{"then_branch": same, "else_branch": own}, yes, k, k)
	g.Output("loop", loop[0]).Output("view", op.View(loop[0], op.ViewAttrs{Size: []int{2, 1}})).Output("if",
		first[0]).Output("k", k)
	require.NoError(t, g.Err())
	require.NoError(t, g.Infer())
	r, err := compiled(g, 0)
	require.NoError(t, err)
	for _, yes := range []bool{true, false, true, false} {
		out, err := r.Run(t.Context(), map[string]*tensor.Tensor{"trips": tensor.Must(tensor.FromSlice([]int64{0})),
			"yes": tensor.Must(tensor.FromSlice([]bool{yes}))})
		require.NoError(t, err)
		require.Equal(t, []float32{3, 10}, floats(out["loop"]))
		require.Equal(t, []float32{3, 10}, floats(out["view"]))
		require.Equal(t, map[bool][]float32{true: {3, 10}, false: {1, 2}}[yes], floats(out["if"]))
		require.Equal(t, []float32{3, 10}, floats(out["k"]))
		for _, o := range out {
			b := o.Storage().Bytes()
			for i := range b {
				b[i] = 0xff
			}
		}
	}
}
