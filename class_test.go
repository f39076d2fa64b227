package graphrun

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// residualNet is a network of bottlenecks as resnet50 is, whose batch, height and width are open. blocks are those of
// its four stages; widths begin at width.
func residualNet(width int, blocks ...int) *graph.Graph {
	g := New("bottlenecks")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Symbol: "H"}, graph.Dim{Symbol: "W"})
	weights, channels := 0, 3
	conv := func(x *graph.Value, out, kernel, stride int) *graph.Value {
		weights++
		w := g.Constant(fmt.Sprint("w", weights), tensor.Zeros(tensor.Float32, out, channels, kernel, kernel))
		b := g.Constant(fmt.Sprint("b", weights), tensor.Zeros(tensor.Float32, out))
		channels = out
		return op.Conv2d(x, w, b, op.Conv2dAttrs{Stride: []int{stride, stride}, Padding: []int{kernel / 2, kernel / 2}})
	}
	v := op.Relu(conv(x, width, 7, 2))
	v = op.MaxPool2d(v, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{2, 2}, Padding: []int{1, 1}})
	for stage, n := range blocks {
		for block := range n {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			in, skip := channels, v
			u := op.Relu(conv(v, width<<stage, 1, 1))
			u = op.Relu(conv(u, width<<stage, 3, stride))
			u = conv(u, 4*width<<stage, 1, 1)
			if block == 0 {
				channels = in
				skip = conv(v, 4*width<<stage, 1, stride)
			}
			v = op.Relu(op.Add(u, skip))
		}
	}
	v = op.Flatten(op.Mean(v, op.MeanAttrs{Dim: []int{2, 3}, Keepdim: true}), op.FlattenAttrs{StartDim: 1})
	w := g.Constant("fc", tensor.Zeros(tensor.Float32, 1000, channels))
	return g.Output("y", op.Linear(v, w, g.Constant("fcb", tensor.Zeros(tensor.Float32, 1000))))
}

// Few classes serve all sizes, 0 and 1 among them: guards choose which, and no sizes are planned by themselves.
func TestFewClasses(t *testing.T) {
	for _, s := range Strategies() {
		p, err := Compile(residualNet(4, 1, 2), Options{Strategy: s})
		require.NoError(t, err)
		for _, n := range []int{0, 1, 2, 3, 8} {
			used := map[*class]bool{}
			for _, size := range []int{1, 7, 32, 65} {
				c, err := p.compiledFor(t.Context(), map[string]int{"N": n, "H": size, "W": size + 1}, false)
				require.NoError(t, err)
				require.NotNil(t, c.class, "%s at N=%d, %d by %d", s.Name(), n, size, size+1)
				used[c.class] = true
				assert.True(t, c.class.truth.Hold([]int{size, n, size + 1}))
				if n > 0 && size > 7 {
					assert.Equal(t, p.generic(t.Context()), c.class.hint)
				}
				assert.Equal(t, []int{n, 1000}, c.plan.Graph.Outputs[0].Value.Meta.Shape)
			}
			assert.LessOrEqual(t, len(used), 3, "%s at N=%d", s.Name(), n)
		}
	}
}

// Which class serves sizes does not depend on which sizes came before.
func TestClassesInAnyOrder(t *testing.T) {
	var sizes [][]int
	for _, h := range []int{1, 2, 3, 7, 40} {
		for _, n := range []int{0, 1, 2, 5} {
			sizes = append(sizes, []int{h, n, h + 1}, []int{40, n, h})
		}
	}
	var served []map[string][]int
	for _, backward := range []bool{false, true} {
		p, err := Compile(residualNet(4, 1, 2), Options{Strategy: ChannelsLast})
		require.NoError(t, err)
		hints := map[string][]int{}
		for range 2 {
			slices.Reverse(sizes)
			for _, s := range sizes {
				k := p.classFor(t.Context(), s)
				if k == nil { // planned by itself
					hints[fmt.Sprint(s)] = nil
					continue
				}
				hints[fmt.Sprint(s)] = k.hint
			}
			if backward {
				slices.Reverse(sizes)
			}
		}
		served = append(served, hints)
	}
	assert.Equal(t, served[0], served[1])
	kinds := map[string]bool{}
	for _, hint := range served[0] {
		kinds[fmt.Sprint(hint)] = true
	}
	assert.Greater(t, len(kinds), 1)
}

// The sizes of buffers are expressions whose values are what values of bound programs take.
func TestClassMemory(t *testing.T) {
	p, err := Compile(residualNet(4, 1, 2), Options{})
	require.NoError(t, err)
	k := p.classAt(t.Context(), p.generic(t.Context()))
	var r ClassReport
	memory := p.buffers(k, &r)
	require.NotNil(t, memory)
	assert.Equal(t, "4000*N", r.Memory.Outputs)
	assert.Contains(t, r.Memory.AtOnce, "N")
	for _, sizes := range [][]int{{16, 2, 16}, {64, 1, 48}, {33, 8, 70}} {
		c, err := p.compiledFor(t.Context(), p.named(sizes), false)
		require.NoError(t, err)
		require.Same(t, k, c.class)
		bytes, err := memory.Sizes(nil, sizes)
		require.NoError(t, err)
		assert.Equal(t, bytes[0], c.ahead.Need().Outputs)
		g := c.plan.Graph
		m, ok := memoryOfValues(g)
		require.True(t, ok)
		atOnce, known := m.atOnce.Known()
		require.True(t, known)
		assert.Equal(t, atOnce, bytes[1], "%v", sizes)
		largest := 0
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v.Root() != g.Outputs[0].Value.Root() {
					largest = max(largest, v.Meta.Bytes())
				}
			}
		}
		assert.GreaterOrEqual(t, bytes[1], largest)
	}
}

// Own passes, and planning that keeps going, have plans by class like the rest, with the same results.
func TestClassesOfOwnPasses(t *testing.T) {
	runs := 0
	own, err := passes.Before(passes.Passes(), "layout", passes.Pass{Name: "count", Run: func(p *passes.Plan) error {
		runs++
		p.Note("%d nodes", len(p.Graph.Nodes))
		return nil
	}})
	require.NoError(t, err)
	for _, o := range []Options{{Passes: own}, {KeepGoing: true}} {
		p, err := Compile(residualNet(4, 1), o)
		require.NoError(t, err)
		plain, err := Compile(residualNet(4, 1), Options{})
		require.NoError(t, err)
		for _, n := range []int{1, 2, 5} {
			sizes := map[string]int{"N": n, "H": 32, "W": 40}
			c, err := p.compiledFor(t.Context(), sizes, false)
			require.NoError(t, err)
			require.NotNil(t, c.class)
			assert.Equal(t, p.generic(t.Context()), c.class.hint)
			other, err := plain.compiledFor(t.Context(), sizes, false)
			require.NoError(t, err)
			assert.Len(t, c.plan.Graph.Nodes, len(other.plan.Graph.Nodes))
		}
	}
	assert.Greater(t, runs, 3, "the pass runs for each set of sizes")
}

// An own pass that goes by sizes changes the graph under the decisions: these sizes have a plan of their own.
func TestOwnPassBySizes(t *testing.T) {
	g := New("two")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3})
	a := op.Softmax(x, 1)
	g.Output("y", op.Cumsum(op.Flip(op.Flip(a, []int{1}), []int{1}), 1))
	require.NoError(t, g.Err())
	twice := passes.Pass{Name: "twice", Run: func(p *passes.Plan) error {
		if first := p.Graph.Nodes[0]; first.Out[0].Meta.Shape[0] < 7 {
			return nil
		}
		last := p.Graph.Nodes[len(p.Graph.Nodes)-1] // flips undo one another
		for p.Graph.Nodes[0].Out[0] != last.In[0].Value {
			i := len(p.Graph.Nodes) - 2
			last.In[0].Value = p.Graph.Nodes[i].In[0].Value
			p.Graph.Nodes = slices.Delete(p.Graph.Nodes, i, i+1)
		}
		return nil
	}}
	own, err := passes.Before(passes.Passes(), "decompose", twice)
	require.NoError(t, err)
	p, err := Compile(g, Options{Passes: own, NoFusion: true}) // nodes are counted
	require.NoError(t, err)
	for n, nodes := range map[int]int{3: 4, 9: 2} {
		data := make([]float32, 3*n)
		for i := range data {
			data[i] = float32(i % 5)
		}
		in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(data, n, 3))}
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		want, err := Run(context.Background(), g, in)
		require.NoError(t, err)
		assert.Equal(t, want["y"].String(), out["y"].String())
		c, err := p.suiting(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, nodes == 4, c.class != nil)
		assert.Len(t, c.plan.Graph.Nodes, nodes)
	}
}

// Guards are evaluated without allocation.
func TestGuardsAllocateNothing(t *testing.T) {
	p, err := Compile(residualNet(4, 1, 2), Options{Strategy: ChannelsLast})
	require.NoError(t, err)
	sizes := []int{48, 3, 64}
	k := p.classFor(t.Context(), sizes)
	require.NotNil(t, k)
	require.NotEmpty(t, k.guards)
	assert.Zero(t, testing.AllocsPerRun(100, func() { k.holds(t.Context(), p, sizes) }))
}

// The nearest of the hints serves sizes, and each is planned before the first run.
func TestHints(t *testing.T) {
	hints := []map[string]int{{"N": 1, "H": 32, "W": 32}, {"N": 64, "H": 32, "W": 32}}
	p, err := Compile(residualNet(4, 1), Options{Hints: hints})
	require.NoError(t, err)
	require.Len(t, p.planned, 2)
	for n, at := range map[int]int{1: 0, 2: 0, 7: 0, 9: 1, 64: 1, 100: 1} {
		c, err := p.compiledFor(t.Context(), map[string]int{"N": n, "H": 32, "W": 40}, false)
		require.NoError(t, err)
		require.NotNil(t, c.class)
		assert.Equal(t, p.hints[at], c.class.hint, "N=%d", n)
	}
	for _, bad := range []map[string]int{{"M": 1}, {"N": -1}} {
		_, err = Compile(residualNet(4, 1), Options{Hints: []map[string]int{bad}})
		assert.Error(t, err)
	}
	_, err = Compile(residualNet(4, 1), Options{Hints: hints, Sizes: map[string]int{"N": 3}})
	assert.ErrorContains(t, err, "N=3 is fixed for all runs")
}

// A binding that was made before is found without allocation.
func TestBindingIsFound(t *testing.T) {
	p, err := Compile(residualNet(4, 1), Options{})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 3, 32, 32)}
	first, err := p.suiting(t.Context(), in)
	require.NoError(t, err)
	least := testing.AllocsPerRun(100, func() {
		if c, err := p.suiting(t.Context(), in); err != nil || c != first {
			panic("another program")
		}
	})
	assert.Zero(t, least)
}

// Many goroutines bring sizes at once: each set is bound once, and results do not depend on who comes first.
func TestBindingsAtOnce(t *testing.T) {
	p, err := Compile(residualNet(4, 1), Options{Threads: 2})
	require.NoError(t, err)
	var wg sync.WaitGroup
	seen := make([][]*compiled, 4)
	for n := range seen {
		seen[n] = make([]*compiled, 6)
		for k := range seen[n] {
			wg.Go(func() {
				in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n, 3, 16, 16)}
				out, err := p.Run(context.Background(), in)
				if assert.NoError(t, err) {
					assert.Equal(t, []int{n, 1000}, out["y"].Shape)
				}
				seen[n][k], _ = p.suiting(t.Context(), in)
			})
		}
	}
	wg.Wait()
	for n := range seen {
		for _, c := range seen[n] {
			assert.Same(t, seen[n][0], c)
		}
	}
}

// BenchmarkBind binds a network like resnet50 to sizes, each time anew.
func BenchmarkBind(b *testing.B) {
	p, err := Compile(residualNet(64, 3, 4, 6, 3), Options{})
	require.NoError(b, err)
	bind := func(n int) {
		c := &compiled{told: map[string]int{"N": n, "H": 224, "W": 224}}
		require.NoError(b, c.compile(b.Context(), p, []int{224, n, 224}))
		require.NotNil(b, c.class)
	}
	bind(2)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		bind(1 + i%8)
	}
}

// BenchmarkFindBinding finds the program for the sizes of a run's inputs.
func BenchmarkFindBinding(b *testing.B) {
	p, err := Compile(residualNet(4, 1), Options{})
	require.NoError(b, err)
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 3, 32, 32)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.suiting(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// Proofs for all sizes, and sizes that break what does not hold.
func TestForAll(t *testing.T) {
	g := residualNet(4, 1)
	g.Symbols = map[string]graph.Bounds{"N": {Min: 1, Max: 64}, "H": {Min: 32, Max: 256}, "W": {Min: 32, Max: 256}}
	require.NoError(t, g.BindOnly(nil))
	p, err := Compile(g, Options{Strategy: ChannelsLast, NoFusion: true}) // in which every value is in memory
	require.NoError(t, err)
	classes, err := p.Classes()
	require.NoError(t, err)
	require.NotEmpty(t, classes)
	assert.Less(t, len(classes[0].Guards), 20)
	r, err := p.ForAll("conv2d=channels_last")
	require.NoError(t, err)
	assert.True(t, r.Proved, r.Why)
	r, err = p.ForAll("contiguous(conv2d)")
	require.NoError(t, err)
	assert.False(t, r.Proved)
	assert.NotNil(t, r.Broken)
	r, err = p.ForAll("no-copies")
	require.NoError(t, err)
	assert.NotNil(t, r.Broken, "the input is copied to channels_last")
	g = residualNet(4, 1) // at N = 0 another class serves
	g.Symbols = map[string]graph.Bounds{"N": {Min: 0, Max: 64}, "H": {Min: 32, Max: 32}, "W": {Min: 32, Max: 32}}
	require.NoError(t, g.BindOnly(nil))
	whole, err := Compile(g, Options{})
	require.NoError(t, err)
	r, err = whole.ForAll("no-copies")
	require.NoError(t, err)
	if r.Broken == nil { // a copy pays where convolutions are computed without machine code
		assert.True(t, r.Proved, "%s %v", r.Why, r.Cases)
		assert.Greater(t, len(r.Cases), 1)
	}
	_, err = p.ForAll("fast")
	assert.ErrorContains(t, err, "there is no property")
}
