package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// copying returns the passes without the one that writes values within others.
func copying() []passes.Pass {
	return slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "place" })
}

// joiner builds random graphs that join values: images with different numbers of channels, and rows.
type joiner struct {
	g      *graph.Graph
	rng    *rand.Rand
	in     map[string]*tensor.Tensor
	values []*graph.Value
}

func (j *joiner) fill(m tensor.Meta) *tensor.Tensor {
	x := tensor.Empty(m)
	for i := range x.Numel() {
		x.SetFlat(i, tensor.FloatScalar(float64(j.rng.IntN(65)-32)/32))
	}
	return x
}

func (j *joiner) input(f tensor.MemoryFormat, shape ...int) *graph.Value {
	m, err := tensor.NewFormat(f32, shape, f)
	if err != nil {
		m = tensor.New(f32, shape...)
	}
	v := j.g.InputMeta(fmt.Sprint("in", len(j.in)), m)
	j.in[v.Name] = j.fill(m)
	return v
}

func (j *joiner) constant(shape ...int) *graph.Value {
	return j.g.Constant(j.g.UniqueName("c"), j.fill(tensor.New(f32, shape...)))
}

func (j *joiner) any() *graph.Value { return j.values[j.rng.IntN(len(j.values))] }

// image adds a random op whose result has the same height and width.
func (j *joiner) image() *graph.Value {
	v := j.any()
	c, o := v.Meta.Shape[1], []int{1, 3, 8, 16, 17, 32}[j.rng.IntN(6)]
	switch j.rng.IntN(12) {
	case 0, 1:
		return op.Relu(op.Conv2d(v, j.constant(o, c, 3, 3), j.constant(o), op.Conv2dAttrs{Padding: []int{1, 1}}))
	case 2:
		return op.Conv2d(v, j.constant(o, c, 1, 1), nil)
	case 3:
		return op.Add(op.Conv2d(v, j.constant(c, c, 1, 1), j.constant(c)), v)
	case 4:
		return op.Conv2d(v, j.constant(c, 1, 3, 3), j.constant(c), op.Conv2dAttrs{Groups: new(c), Padding: []int{1, 1}})
	case 5:
		return op.MaxPool2d(v, []int{3}, op.MaxPool2dAttrs{Stride: []int{1}, Padding: []int{1}})
	case 6:
		return op.Sigmoid(op.Mul(v, 0.5))
	case 7:
		return op.Narrow(v, 1, 0, j.rng.IntN(c+1)) // sometimes without channels
	case 8:
		return op.Contiguous(op.Neg(v))
	case 9:
		return op.ConvTranspose2d(v, j.constant(c, o, 1, 1), nil)
	}
	return j.cat(1)
}

// cat joins up to five values along a dimension. A value may occur twice.
func (j *joiner) cat(dim int) *graph.Value {
	var list []*graph.Value
	channels := 0
	for range 1 + j.rng.IntN(5) {
		v := j.any()
		if j.rng.IntN(8) == 0 {
			s := slices.Clone(v.Meta.Shape)
			v = j.constant(s...)
		}
		if channels += v.Meta.Shape[1]; channels > 200 {
			break
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return j.any()
	}
	return op.Cat(list, op.CatAttrs{Dim: dim})
}

// ending joins values along other dimensions, and adds outputs.
func (j *joiner) ending() {
	v := j.any()
	twice := op.Neg(v)
	switch j.rng.IntN(6) {
	case 0:
		j.g.Output("batch", op.Cat([]*graph.Value{op.Relu(v), twice, op.Relu(v)}))
	case 1:
		j.g.Output("wide", op.Cat([]*graph.Value{twice, op.Relu(v)}, op.CatAttrs{Dim: -1}))
	case 2:
		j.g.Output("high", op.Cat([]*graph.Value{twice, v}, op.CatAttrs{Dim: 2}))
	case 3:
		j.g.Output("promoted", op.Cat([]*graph.Value{op.To(v, op.ToAttrs{DType: tensor.Float64}), twice,
			op.Exp(op.To(v, op.ToAttrs{DType: tensor.Float64}))}, op.CatAttrs{Dim: 1}))
	case 4:
		rows := op.Reshape(op.Mul(v, 2), []int{-1, v.Meta.Shape[3]})
		a := op.Linear(rows, j.constant(5, v.Meta.Shape[3]), j.constant(5))
		b := op.Relu(op.Linear(rows, j.constant(16, v.Meta.Shape[3]), nil))
		j.g.Output("rows", op.Cat([]*graph.Value{a, b, rows}, op.CatAttrs{Dim: 1}))
	}
	j.g.Output("last", j.values[len(j.values)-1]).Output("some", j.any())
}

func joins(seed uint64) (*graph.Graph, map[string]*tensor.Tensor) {
	j := &joiner{g: graph.New("joins", kernels.Lookup), rng: rand.New(rand.NewPCG(seed, 5)),
		in: map[string]*tensor.Tensor{}}
	n, h, w := 1+j.rng.IntN(2), 1+j.rng.IntN(9), 1+j.rng.IntN(9)
	for range 1 + j.rng.IntN(3) {
		f := tensor.Contiguous
		if j.rng.IntN(2) == 0 {
			f = tensor.ChannelsLast
		}
		j.values = append(j.values, j.input(f, n, 1+j.rng.IntN(20), h, w))
	}
	for range 4 + j.rng.IntN(14) {
		if v := j.image(); v.Meta.Shape[1] > 0 {
			j.values = append(j.values, v)
		} else {
			j.values = append(j.values, op.Cat([]*graph.Value{v, j.any()}, op.CatAttrs{Dim: 1}))
		}
	}
	j.ending()
	return j.g, j.in
}

// Values that are written within others have the same bits as values that are copied, for any number of workers and
// under all strategies.
func TestWrittenWithin(t *testing.T) {
	graphs, placed, besides := 0, 0, 0.0
	strategies := []layout.Strategy{layout.Optimal, layout.Propagate, graphrun.ChannelsLast, graphrun.Contiguous}
	for seed := range randomGraphs(160) {
		if leavesOut(int(seed), 3) {
			continue
		}
		graphs++
		g, in := joins(seed)
		require.NoError(t, g.Err(), "seed %d", seed)
		s := strategies[seed%4]
		plain, err := passes.Run(g, passes.Options{Strategy: s, Passes: copying()})
		require.NoError(t, err, "seed %d", seed)
		plan, err := passes.Run(g, passes.Options{Strategy: s, Check: seed%8 < 4})
		require.NoError(t, err, "seed %d", seed)
		placed += len(plan.Placed)
		require.NoError(t, graph.Verify(plan.Graph, graph.Sorted|graph.Typed|graph.LaidOut), "seed %d", seed)
		without := plain.CostNS
		if plan.Solution != nil { // the problem has places, and SavedNS is what pass place saves in addition
			without = float64(plan.Solution.Cost) / 1000
			besides += plan.SavedNS
			assert.LessOrEqual(t, plan.CostNS, plain.CostNS*(1+1e-9), "seed %d", seed)
		}
		assert.InDelta(t, without, plan.CostNS+plan.SavedNS, 1e-6*without, "seed %d", seed)
		first, err := exec.Compile(plain.Graph, exec.Options{Threads: 1})
		require.NoError(t, err, "seed %d", seed)
		want, err := first.Run(t.Context(), in)
		require.NoError(t, err, "seed %d", seed)
		for _, threads := range []int{1, 4} {
			program, err := exec.Compile(plan.Graph, exec.Options{Threads: threads})
			require.NoError(t, err, "seed %d", seed)
			for range 2 { // the second run uses the memory of the first
				got, err := program.Run(t.Context(), in)
				require.NoError(t, err, "seed %d", seed)
				for name, w := range want {
					require.Equal(t, w.Strides, got[name].Strides, "seed %d, output %s", seed, name)
					require.Equal(t, floats(w), floats(got[name]), "seed %d, %d workers, output %s", seed, threads, name)
				}
			}
		}
	}
	require.Greater(t, placed, graphs)
	t.Log("saved besides", besides)
}

// A dense block copies nothing: the operands of each concatenation are the first operands of the last one.
func TestDenseBlockCopiesNothing(t *testing.T) {
	j := &joiner{g: graph.New("block", kernels.Lookup), rng: rand.New(rand.NewPCG(1, 1)), in: map[string]*tensor.Tensor{}}
	x := op.MaxPool2d(j.input(tensor.ChannelsLast, 1, 32, 14, 14), []int{2})
	list := []*graph.Value{x}
	for range 5 {
		all := op.Cat(list, op.CatAttrs{Dim: 1})
		c := all.Meta.Shape[1]
		y := op.Relu(op.Conv2d(op.Relu(op.Mul(all, j.constant(1, c, 1, 1))), j.constant(32, c, 1, 1), nil))
		list = append(list, op.Conv2d(y, j.constant(16, 32, 3, 3), nil, op.Conv2dAttrs{Padding: []int{1, 1}}))
	}
	j.g.Output("y", op.Cat(list, op.CatAttrs{Dim: 1}))
	require.NoError(t, j.g.Err())
	p, err := passes.Run(j.g, passes.Options{Strategy: graphrun.ChannelsLast})
	require.NoError(t, err)
	assert.Len(t, p.Placed, 6+5, "six that are joined, and five that are joined of the first ones")
	for _, n := range p.Graph.Nodes {
		if n.Op.Name == "cat" {
			assert.Zero(t, p.Cost(n), n.Name)
		}
	}
	assert.Positive(t, p.SavedNS)
}

// Images in a batch of one have the same strides alone and within a concatenation. They are written within it by a plan
// for this size, and by the decisions of a plan for another size.
func TestOneImageIsWrittenWithin(t *testing.T) {
	g := graph.New("images", kernels.Lookup)
	x := g.InputDims("x", f32, tensor.Contiguous, graph.Dim{Symbol: "N"}, graph.Dim{Size: 4}, graph.Dim{Size: 3},
		graph.Dim{Size: 1})
	a, b := op.MaxPool2d(x, []int{3}, op.MaxPool2dAttrs{Stride: []int{1}, Padding: []int{1}}), op.Flip(x, []int{1})
	near := op.Cat([]*graph.Value{a, b}, op.CatAttrs{Dim: 1})
	g.Output("y", op.Neg(op.Cat([]*graph.Value{x, near, b}, op.CatAttrs{Dim: 1})))
	require.NoError(t, g.Err())
	at := func(n int) *graph.Graph {
		sized := g.Clone()
		require.NoError(t, sized.Bind(map[string]int{"N": n}))
		return sized
	}
	two, err := passes.Run(at(2), passes.Options{Record: true})
	require.NoError(t, err)
	require.NotEmpty(t, two.Placed)
	for placed, o := range map[int]passes.Options{3: {}, len(two.Placed): {Follow: two.Decisions}} {
		p, err := passes.Run(at(1), o)
		require.NoError(t, err)
		assert.Len(t, p.Placed, placed)
		require.NoError(t, graph.Verify(p.Graph, graph.Sorted|graph.Typed|graph.LaidOut))
		program, err := exec.Compile(p.Graph, exec.Options{Threads: 1})
		require.NoError(t, err)
		in := map[string]*tensor.Tensor{"x": (&joiner{rng: rand.New(rand.NewPCG(1, 2))}).fill(tensor.New(f32, 1, 4, 3, 1))}
		want, err := graph.Evaluate(at(1), in)
		require.NoError(t, err)
		got, err := program.Run(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, floats(want["y"]), floats(got["y"]))
	}
}
