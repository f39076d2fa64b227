package program

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// A few specializations serve all sizes, including 0 and 1. Every size is served by one.
func TestFewSpecializations(t *testing.T) {
	for _, s := range layout.All() {
		p, err := Compile(context.Background(), networks.Bottlenecks(4, 1, 2), Options{Strategy: s})
		require.NoError(t, err)
		for _, n := range []int{0, 1, 2, 3, 8} {
			used := map[*Specialization]bool{}
			for _, size := range []int{1, 7, 32, 65} {
				binding, err := p.bindingForSizes(t.Context(), map[string]int{"N": n, "H": size, "W": size + 1}, false)
				require.NoError(t, err)
				require.NotNil(t, binding.decisionsFrom, "%s at N=%d, %d by %d", s.Name(), n, size, size+1)
				used[binding.decisionsFrom] = true
				assert.True(t, binding.decisionsFrom.hintClass(t.Context(), p).guardEvaluator.Hold([]int{size, n, size + 1}))
				if n > 0 && size > 7 {
					assert.Equal(t, p.NondegenerateSizes(t.Context()), binding.decisionsFrom.Hint)
				}
				assert.Equal(t, []int{n, 1000}, binding.Plan.Graph.Outputs[0].Value.Meta.Shape)
			}
			assert.LessOrEqual(t, len(used), 3, "%s at N=%d", s.Name(), n)
		}
	}
}

// TestDecoderShares: an attention with grouped queries over a cache, whose length is in another symbol than the length
// of the mask, shares its plan from token to token: the matrices that heads share are read in place for all sizes.
func TestDecoderShares(t *testing.T) {
	g, err := graphfile.Parse(strings.NewReader(`{"version": 1, "symbols": {"B": {}, "S": {}, "P": {}, "T": {}}, "inputs": [
		{"name": "q", "dtype": "float32", "shape": ["B", 8, "S", 16]},
		{"name": "past", "dtype": "float32", "shape": ["B", 2, "P", 16]},
		{"name": "new", "dtype": "float32", "shape": ["B", 2, "T - P", 16]},
		{"name": "v", "dtype": "float32", "shape": ["B", 2, 1, "T", 16]}], "nodes": [
		{"name": "k", "op": "cat", "inputs": ["past", "new"], "attrs": {"dim": 2}},
		{"name": "k1", "op": "unsqueeze", "inputs": ["k"], "attrs": {"dim": 2}},
		{"name": "k4", "op": "expand", "inputs": ["k1"], "attrs": {"size": [-1, -1, 4, -1, -1]}},
		{"name": "k8", "op": "reshape", "inputs": ["k4"], "attrs": {"shape": ["B", 8, "T", 16]}},
		{"name": "kt", "op": "transpose", "inputs": ["k8"], "attrs": {"dim0": 2, "dim1": 3}},
		{"name": "scores", "op": "matmul", "inputs": ["q", "kt"]},
		{"name": "weights", "op": "softmax", "inputs": ["scores"], "attrs": {"dim": -1}},
		{"name": "v4", "op": "expand", "inputs": ["v"], "attrs": {"size": [-1, -1, 4, -1, -1]}},
		{"name": "v8", "op": "reshape", "inputs": ["v4"], "attrs": {"shape": ["B", 8, "T", 16]}},
		{"name": "y", "op": "matmul", "inputs": ["weights", "v8"]}], "outputs": ["y"]}`), kernels.Lookup,
		graphfile.Options{})
	require.NoError(t, err)
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	for length, most := range map[int]int{1: 1, 5: 1} {
		used := map[*Specialization]bool{}
		for past := range 6 {
			sizes := map[string]int{"B": 1, "S": length, "P": 20 + past, "T": 20 + past + length}
			binding, err := p.bindingForSizes(t.Context(), sizes, false)
			require.NoError(t, err)
			require.NotNil(t, binding.decisionsFrom, "%v", sizes)
			used[binding.decisionsFrom] = true
		}
		require.LessOrEqual(t, len(used), most)
	}
}

// The specialization for sizes does not depend on earlier sizes.
func TestSpecializationsInAnyOrder(t *testing.T) {
	var sizes [][]int
	for _, h := range []int{1, 2, 3, 7, 40} {
		for _, n := range []int{0, 1, 2, 5} {
			sizes = append(sizes, []int{h, n, h + 1}, []int{40, n, h})
		}
	}
	var served []map[string][]int
	for _, backward := range []bool{false, true} {
		p, err := Compile(context.Background(), networks.Bottlenecks(4, 1, 2), Options{Strategy: layout.ChannelsLast})
		require.NoError(t, err)
		hints := map[string][]int{}
		for range 2 {
			slices.Reverse(sizes)
			for _, s := range sizes {
				spec := p.SpecializationFor(t.Context(), s)
				if spec == nil { // planned by itself
					hints[fmt.Sprint(s)] = nil
					continue
				}
				hints[fmt.Sprint(s)] = spec.Hint
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

// Programs with the user's passes or with KeepGoing have specializations, too, with the same plans.
func TestSpecializationsOfOwnPasses(t *testing.T) {
	runs := 0
	own, err := passes.Before(passes.Passes(), "layout", passes.Pass{Name: "count", Run: func(p *passes.Plan) error {
		runs++
		p.Note("%d nodes", len(p.Graph.Nodes))
		return nil
	}})
	require.NoError(t, err)
	for _, options := range []Options{{Passes: own}, {KeepGoing: true}} {
		p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), options)
		require.NoError(t, err)
		plain, err := Compile(context.Background(), networks.Bottlenecks(4, 1), Options{})
		require.NoError(t, err)
		for _, n := range []int{1, 2, 5} {
			sizes := map[string]int{"N": n, "H": 32, "W": 40}
			binding, err := p.bindingForSizes(t.Context(), sizes, false)
			require.NoError(t, err)
			require.NotNil(t, binding.decisionsFrom)
			assert.Equal(t, p.NondegenerateSizes(t.Context()), binding.decisionsFrom.Hint)
			other, err := plain.bindingForSizes(t.Context(), sizes, false)
			require.NoError(t, err)
			assert.Len(t, binding.Plan.Graph.Nodes, len(other.Plan.Graph.Nodes))
		}
	}
	assert.Greater(t, runs, 3, "the pass runs for each set of sizes")
}

// If a pass changes the graph depending on sizes, the decisions do not apply, and these sizes have a plan of their own.
func TestOwnPassBySizes(t *testing.T) {
	g := graph.New("two", kernels.Lookup)
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
	p, err := Compile(context.Background(), g, Options{Passes: own, NoFusion: true}) // nodes are counted
	require.NoError(t, err)
	for n, nodes := range map[int]int{3: 4, 9: 2} {
		data := make([]float32, 3*n)
		for i := range data {
			data[i] = float32(i % 5)
		}
		in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(data, n, 3))}
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		plain, err := New(g, Options{})
		require.NoError(t, err)
		want, err := plain.Run(context.Background(), in)
		require.NoError(t, err)
		assert.Equal(t, want["y"].String(), out["y"].String())
		binding, err := p.bindingForInputs(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, nodes == 4, binding.decisionsFrom != nil)
		assert.Len(t, binding.Plan.Graph.Nodes, nodes)
	}
}

// Guards are evaluated without allocation.
func TestGuardsAllocateNothing(t *testing.T) {
	p, err := Compile(context.Background(), networks.Bottlenecks(4, 1, 2), Options{Strategy: layout.ChannelsLast})
	require.NoError(t, err)
	sizes := []int{48, 3, 64}
	spec := p.SpecializationFor(t.Context(), sizes)
	require.NotNil(t, spec)
	require.NotEmpty(t, spec.hintClass(t.Context(), p).guards)
	assert.Zero(t, testing.AllocsPerRun(100, func() { spec.Serves(t.Context(), p, sizes) }))
}

// The specialization of the nearest hint serves sizes. All hints are planned by Compile.
func TestHints(t *testing.T) {
	hints := []map[string]int{{"N": 1, "H": 32, "W": 32}, {"N": 64, "H": 32, "W": 32}}
	p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), Options{Hints: hints})
	require.NoError(t, err)
	require.Len(t, p.specializations, 2)
	for n, at := range map[int]int{1: 0, 2: 0, 7: 0, 9: 1, 64: 1, 100: 1} {
		binding, err := p.bindingForSizes(t.Context(), map[string]int{"N": n, "H": 32, "W": 40}, false)
		require.NoError(t, err)
		require.NotNil(t, binding.decisionsFrom)
		assert.Equal(t, p.hints[at], binding.decisionsFrom.Hint, "N=%d", n)
	}
	for _, bad := range []map[string]int{{"M": 1}, {"N": -1}} {
		_, err = Compile(context.Background(), networks.Bottlenecks(4, 1), Options{Hints: []map[string]int{bad}})
		assert.Error(t, err)
	}
	_, err = Compile(context.Background(), networks.Bottlenecks(4, 1),
		Options{Hints: hints, Sizes: map[string]int{"N": 3}})
	assert.ErrorContains(t, err, "N=3 is fixed for all runs")
}

// An existing binding is found without allocation, and a run in memory of the caller allocates nothing.
func TestBindingIsFound(t *testing.T) {
	p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), Options{Threads: 1})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 3, 32, 32)}
	first, err := p.bindingForInputs(t.Context(), in)
	require.NoError(t, err)
	least := testing.AllocsPerRun(100, func() {
		if again, err := p.bindingForInputs(t.Context(), in); err != nil || again != first {
			panic("another program")
		}
	})
	assert.Zero(t, least)
	if testsize.Race {
		t.Skip("under the race detector a sync.Pool forgets what it is given now and then")
	}
	out, err := p.Run(t.Context(), in)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(20, func() {
		if err := p.RunInto(t.Context(), in, out); err != nil {
			panic(err)
		}
	}))
}

// Goroutines that run the same new sizes at once get one binding.
func TestBindingsAtOnce(t *testing.T) {
	p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), Options{Threads: 2})
	require.NoError(t, err)
	var wg sync.WaitGroup
	seen := make([][]*Binding, 4)
	for n := range seen {
		seen[n] = make([]*Binding, 6)
		for k := range seen[n] {
			wg.Go(func() {
				in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n, 3, 16, 16)}
				out, err := p.Run(context.Background(), in)
				if assert.NoError(t, err) {
					assert.Equal(t, []int{n, 1000}, out["y"].Shape)
				}
				seen[n][k], _ = p.bindingForInputs(t.Context(), in)
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

// BenchmarkBind binds a network like resnet50 to sizes.
func BenchmarkBind(b *testing.B) {
	p, err := Compile(context.Background(), networks.Bottlenecks(64, 3, 4, 6, 3), Options{})
	require.NoError(b, err)
	bind := func(n int) {
		binding := &Binding{sizes: map[string]int{"N": n, "H": 224, "W": 224}}
		require.NoError(b, binding.compile(b.Context(), p, []int{224, n, 224}))
		require.NotNil(b, binding.decisionsFrom)
	}
	bind(2)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		bind(1 + i%8)
	}
}

// BenchmarkFindBinding finds an existing binding for the inputs of a run.
func BenchmarkFindBinding(b *testing.B) {
	p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), Options{})
	require.NoError(b, err)
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 3, 32, 32)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.bindingForInputs(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEqualDecisions: plans for 8 and 9 images make the same decisions, and plans without fusion other ones.
func TestEqualDecisions(t *testing.T) {
	decisions := func(n int, options Options) *passes.Decisions {
		options.Hints = []map[string]int{{"N": n, "H": 32, "W": 32}}
		p, err := Compile(context.Background(), networks.Bottlenecks(4, 1), options)
		require.NoError(t, err)
		require.Len(t, p.specializations, 1)
		return p.specializations[0].Decisions
	}
	eight := decisions(8, Options{})
	assert.True(t, eight.Equal(decisions(9, Options{})))
	assert.False(t, eight.Equal(decisions(8, Options{NoFusion: true})))
	assert.False(t, eight.Equal(decisions(8, Options{Strategy: layout.Contiguous})))
	assert.False(t, eight.Equal(nil))
}
