// Package endtoend_test runs graphs from the builder through passes to results, and compares the results with the
// reference evaluation. Each case in this file once gave a wrong result.
package endtoend_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

const f32 = tensor.Float32

func iota32(n int, shape ...int) *tensor.Tensor {
	d := make([]float32, n)
	for i := range d {
		d[i] = float32(i + 1)
	}
	return tensor.Must(tensor.FromSlice(d, shape...))
}

// holds checks that every strategy, with any number of workers, gives the results of the reference evaluation, and that
// outputs have their pinned layouts.
func holds(t *testing.T, g *graph.Graph, in map[string]*tensor.Tensor) (want map[string]*tensor.Tensor) {
	t.Helper()
	require.NoError(t, g.Err())
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err, s.Name())
		for i, o := range p.Graph.Outputs {
			require.True(t, o.Pin.Matches(o.Value.Meta), "%s: output %s", s.Name(), o.Name)
			if as := g.Outputs[i].Value.Meta; !o.Pin.SetsLayout() {
				require.Equal(t, as.Strides, o.Value.Meta.Strides, "%s: output %s", s.Name(), o.Name)
			}
		}
		for _, threads := range []int{1, 4} {
			program, err := exec.Compile(p.Graph, exec.Options{Threads: threads})
			require.NoError(t, err, s.Name())
			got, err := program.Run(context.Background(), in)
			require.NoError(t, err, s.Name())
			for name, w := range want {
				require.Equal(t, floats(w), floats(got[name]), "%s, %d threads, output %s", s.Name(), threads, name)
			}
		}
	}
	return want
}

func floats(x *tensor.Tensor) []float32 {
	v, _ := tensor.ToSlice[float32](x.CopyTo(tensor.New(f32, x.Shape...)))
	return v
}

func planned(g *graph.Graph) (*graph.Graph, error) {
	p, err := passes.Run(g, passes.Options{})
	if err != nil {
		return nil, err
	}
	return p.Graph, nil
}

// compiled compiles a graph whose shapes may depend on data.
func compiled(g *graph.Graph, threads int) (*program.Program, error) {
	return program.Compile(context.Background(), g, program.Options{Threads: threads, Strategy: layout.Propagate})
}

// A slice must not replace its copy if a view counts offsets from the copy's start.
func TestCloneOfOffsetThenView(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 4, 3)
	s := op.Slice(x, op.SliceAttrs{Dim: 0, Start: new(2), End: new(4)})
	c := op.Clone(s)
	g.Output("y", op.Neg(op.Permute(c, []int{1, 0})))
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(12, 4, 3)})
}

func TestCloneThenAsStrided(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 4, 3)
	s := op.Slice(x, op.SliceAttrs{Dim: 0, Start: new(2), End: new(4)})
	c := op.Clone(s)
	g.Output("y", op.Neg(op.AsStrided(c, []int{3}, []int{1}, op.AsStridedAttrs{StorageOffset: new(0)})))
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(12, 4, 3)})
}

// A pin applies to all outputs of a node.
func TestPinnedSplit(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 4, 3, 3)
	s := g.Apply("split", graph.Attrs{"split_size": 2, "dim": 1}, x)
	s[0].Pinned(tensor.ChannelsLast)
	g.Output("a", s[0]).Output("b", s[1])
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(72, 2, 4, 3, 3)})
	p, _ := passes.Run(g, passes.Options{})
	require.True(t, p.Graph.Outputs[0].Value.Meta.IsChannelsLast())
	require.True(t, p.Graph.Outputs[1].Value.Meta.IsChannelsLast(), "%v", p.Graph.Outputs[1].Value.Meta)
}

// A pin that some outputs meet as views and others only as copies.
func TestPinnedSplitMixed(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.InputMeta("x", tensor.Meta{DType: f32, Shape: []int{2, 3}, Strides: []int{1, 2}})
	s := g.Apply("split_with_sizes", graph.Attrs{"split_sizes": []int{1, 2}, "dim": 1}, x)
	s[0].Pinned(tensor.Contiguous)
	g.Output("a", op.Neg(s[0])).Output("b", op.Neg(s[1]))
	in := tensor.Empty(x.Meta)
	tensor.CopyElements(in, iota32(6, 2, 3))
	holds(t, g, map[string]*tensor.Tensor{"x": in})
}

// A pinned view is a copy, and as_strided reads the copy.
func TestPinnedViewUnderAsStrided(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3)
	c := op.Permute(x, []int{1, 0}).Pinned(tensor.Contiguous)
	g.Output("y", op.Neg(op.AsStrided(c, []int{6}, []int{1})))
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(6, 2, 3)})
}

func TestPinnedSumUnderAsStrided(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3, 4, 5)
	c := op.Softmax(x, 1).Pinned(tensor.ChannelsLast)
	g.Output("y", op.Neg(op.AsStrided(c, []int{120}, []int{1}))).Output("c", c)
	in := iota32(120, 2, 3, 4, 5)
	require.NoError(t, g.Err())
	_, err := passes.Run(g, passes.Options{Check: true})
	require.NoError(t, err)
	p, err := passes.Run(g, passes.Options{})
	require.NoError(t, err)
	require.True(t, p.Graph.Outputs[1].Value.Meta.IsChannelsLast())
	_ = in
}

// A reshape that is a copy in the graph may be a view for another layout.
func TestReshapeBecomesViewUnderAsStrided(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 3, 3, 4, 5)
	f := op.Flatten(op.Neg(x), op.FlattenAttrs{StartDim: 2})
	s := op.Slice(f, op.SliceAttrs{Dim: 0, Start: new(1), End: new(3)})
	r := op.Reshape(op.Transpose(s, 1, 2), []int{40, 3})
	g.Output("y", op.Neg(op.AsStrided(r, []int{6}, []int{1}, op.AsStridedAttrs{StorageOffset: new(0)})))
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(180, 3, 3, 4, 5)})
}

// A view with a wider dtype cannot start at every offset.
func TestComplexViewOutputOddOffset(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 3, 2)
	g.Output("y", g.Apply("view_as_complex", nil, x)[0])
	require.NoError(t, g.Err())
	p, err := exec.Compile(g, exec.Options{Threads: 1})
	require.NoError(t, err)
	base := iota32(7, 7)
	in := tensor.Must(base.View(tensor.Meta{DType: f32, Shape: []int{3, 2}, Strides: []int{2, 1}, Offset: 1}))
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	y, _ := tensor.ToSlice[complex64](out["y"])
	require.Equal(t, []complex64{complex(2, 3), complex(4, 5), complex(6, 7)}, y)
}

// Two permutations cancel, and the value between them is an output.
func TestCancelIntermediateOutput(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3, 4)
	a := op.Permute(x, []int{2, 0, 1}).Named("a")
	b := op.Permute(a, []int{1, 2, 0}).Named("b")
	g.Output("a", a).Output("b", b).Output("v", op.View(b, op.ViewAttrs{Size: []int{24}})).OutputFormat("b2", b,
		tensor.Contiguous)
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(24, 2, 3, 4)})
}

func TestDynamicAsStridedOfOtherLayout(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3)
	g.Output("y", op.AsStrided(x, []int{6}, []int{1}))
	g.Output("n", g.Apply("nonzero", nil, x)[0])
	require.NoError(t, g.Err())
	r, err := compiled(g, 1)
	require.NoError(t, err)
	in := tensor.Empty(tensor.Meta{DType: f32, Shape: []int{2, 3}, Strides: []int{1, 2}})
	tensor.CopyElements(in, iota32(6, 2, 3))
	out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	y, _ := tensor.ToSlice[float32](out["y"])
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, y)
}

func TestDynamicConstantOutputIsACopy(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3)
	c := g.Constant("c", iota32(3, 3))
	g.Output("c", c).Output("n", g.Apply("nonzero", nil, x)[0])
	require.NoError(t, g.Err())
	r, err := compiled(g, 1)
	require.NoError(t, err)
	out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": iota32(6, 2, 3)})
	require.NoError(t, err)
	require.NotSame(t, c.Const.Storage(), out["c"].Storage())
}

// A node must have results.
func TestUnbindNothing(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	g.Apply("unbind", graph.Attrs{"dim": 0}, g.Input("x", f32, 0, 3))
	require.ErrorContains(t, g.Err(), "makes no values")
}

// A buffer has hundreds of readers, and its memory is then reused.
func TestManyUsers(t *testing.T) {
	seeds, layers := uint64(4), 4
	if testing.Short() {
		seeds, layers = 1, 2 // the race detector is slow with many threads that wait
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", f32, 64, 64)
		h := op.Neg(x)
		for range layers {
			var layer []*graph.Value
			for k := range 70 {
				a := op.Add(h, float64(k))
				if rng.IntN(3) == 0 {
					a = op.Sum(op.Transpose(a, 0, 1), op.SumAttrs{Dim: []int{rng.IntN(2)}, Keepdim: true})
				}
				layer = append(layer, a)
			}
			for len(layer) > 1 {
				i := rng.IntN(len(layer) - 1)
				s := op.Mul(op.Add(layer[i], layer[i+1]), 0.5)
				layer = append(layer[:i], layer[i+1:]...)
				layer[i] = s
			}
			h = op.Add(op.Sigmoid(layer[0]), x)
		}
		g.Output("y", h)
		p, err := planned(g)
		require.NoError(t, err)
		var want []float32
		for _, threads := range []int{1, 2, 8, 16} {
			program, err := exec.Compile(p, exec.Options{Threads: threads})
			require.NoError(t, err)
			for range 3 {
				out, err := program.Run(context.Background(), map[string]*tensor.Tensor{"x": iota32(64*64, 64, 64)})
				require.NoError(t, err)
				if want == nil {
					want = floats(out["y"])
				}
				require.Equal(t, want, floats(out["y"]), "seed %d, %d threads", seed, threads)
			}
		}
	}
}

// An implementation needs a copy of its operand, and results have the layout of the operand. The output must still have
// the inferred layout.
func TestResultLaidOutAsTheCopyOfItsOperand(t *testing.T) {
	for _, read := range []bool{false, true} {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", f32, 2, 3, 8)
		y := g.Apply("avg_pool1d", graph.Attrs{"kernel_size": 2}, x)[0]
		g.Output("y", y)
		if read {
			g.Output("z", op.Flatten(op.Neg(y), op.FlattenAttrs{StartDim: 1}))
		}
		require.NoError(t, g.Pin(y.Node.Name, graph.Pin{Impl: "pixels"}))
		require.NoError(t, g.Infer())
		holds(t, g, map[string]*tensor.Tensor{"x": iota32(48, 2, 3, 8)})
	}
}

// Inference reads the data of the repeats. A copy in another layout, for a strategy or a pin, must not hide them.
func TestCopyOfConstantThatDecidesShapes(t *testing.T) {
	for _, pin := range []graph.Pin{{}, {Format: tensor.Contiguous}} {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", f32, 2, 3)
		repeats := tensor.Empty(tensor.Meta{DType: tensor.Int64, Shape: []int{3}, Strides: []int{2}})
		for i := range 3 {
			repeats.SetFlat(i, tensor.IntScalar(int64(i)))
		}
		g.Output("y", g.Apply("repeat_interleave", graph.Attrs{"dim": 1}, x, g.Constant("repeats", repeats))[0])
		require.NoError(t, g.Pin("repeats", pin))
		require.NoError(t, g.Infer())
		holds(t, g, map[string]*tensor.Tensor{"x": iota32(6, 2, 3)})
	}
}

// Without training, dropout returns its operand, also if the result is pinned to another layout and computed by
// constant folding.
func TestPinnedDropoutOfConstant(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	c := g.Constant("c", iota32(120, 2, 3, 4, 5))
	d := g.Apply("dropout", nil, c)[0]
	d.Pinned(tensor.ChannelsLast)
	g.Output("y", d)
	require.NoError(t, g.Infer())
	holds(t, g, nil)
}

// Repeats without elements have no address.
func TestRepeatNothing(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 0)
	repeats := g.Constant("repeats", tensor.Empty(tensor.Meta{DType: tensor.Int64, Shape: []int{0}, Strides: []int{0}}))
	g.Output("y", g.Apply("repeat_interleave", graph.Attrs{"dim": 1}, x, repeats)[0])
	holds(t, g, map[string]*tensor.Tensor{"x": tensor.Zeros(f32, 2, 0)})
}

// If where becomes part of a fusion, its plain number is not an operand of the fusion. It was once taken for the first
// result in the fusion.
func TestNumberInFusedWhere(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, c := g.Input("x", f32, 6), g.Input("c", tensor.Bool, 6)
	y := g.Apply("neg", nil, g.Apply("sqrt", nil, x)[0])[0]
	g.Output("y", g.Apply("where", nil, c, y, 2.5)[0])
	first := g.Apply("where", nil, c, 2.5, x)[0]
	g.Output("z", g.Apply("neg", nil, first)[0])
	require.NoError(t, g.Err())
	cond := tensor.Zeros(tensor.Bool, 6)
	cond.Set(tensor.BoolScalar(true), 2)
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(6, 6), "c": cond})
}
