package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// bytesOf returns random elements over the whole range of int8 or uint8.
func bytesOf(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(d, shape...)
	for i := range t.Numel() {
		v := r.Int64N(256)
		if d == tensor.Int8 {
			v -= 128
		}
		t.SetFlat(i, tensor.IntScalar(v))
	}
	return t
}

func normals(r *rand.Rand, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(tensor.Float32, shape...)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.FloatScalar(r.NormFloat64()))
	}
	return t
}

// dynamicLayer returns a random linear layer of dynamically quantized numbers, as ONNX writes it. Weights have zero
// points and scales, for all or by column, which may be constants. There may be a bias, an activation, a residual sum
// in another layout, and another reader of the sums.
func dynamicLayer(r *rand.Rand) (g *graph.Graph, in map[string]*tensor.Tensor) {
	g, in = graph.New("g", kernels.Lookup), map[string]*tensor.Tensor{}
	operand := func(t *tensor.Tensor, constant bool) *graph.Value {
		name := fmt.Sprint("v", len(in), len(g.Constants))
		if constant {
			return g.Constant(name, t)
		}
		in[name] = t
		return g.InputMeta(name, t.Meta)
	}
	m, n, k := 1+r.IntN(40), 1+r.IntN(90), 1+r.IntN(80)
	shape := [][]int{{m, k}, {2, m, k}, {2, 1, m, k}}[r.IntN(3)]
	x, scale, zero := op.DynamicQuantizeLinear(operand(normals(r, shape...), false))
	d, constant := []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)], r.IntN(3) > 0
	weight, per := []int{k, n}, [][]int{nil, {n}}[r.IntN(2)]
	if len(shape) == 4 && r.IntN(2) == 0 {
		weight = []int{3, k, n}
	}
	w := operand(bytesOf(r, d, weight...), constant)
	var columns *graph.Value
	if r.IntN(2) == 0 {
		columns = operand(bytesOf(r, d, per...), constant)
	}
	sums := op.MatmulInteger(x, w, zero, columns).Named("sums")
	y := op.To(sums, op.ToAttrs{DType: tensor.Float32})
	y = op.Mul(y, op.Mul(scale, operand(normals(r, per...), constant)))
	if r.IntN(3) > 0 {
		y = op.Add(y, operand(normals(r, n), constant))
	}
	switch r.IntN(5) {
	case 0:
		y = op.Relu(y)
	case 3:
		y = op.Relu6(op.Add(op.Mul(y, 0.5), operand(normals(r, sums.Meta.Shape...), false)))
	case 1:
		y = op.Gelu(y)
	case 2:
		other := normals(r, sums.Meta.Shape...)
		strides, step := make([]int, other.Rank()), 1
		for i, size := range other.Shape {
			strides[i], step = step, step*size
		}
		y = op.Add(operand(other.CopyTo(other.Meta.WithStrides(strides)), false), y)
	}
	g.Output("y", y)
	if r.IntN(4) == 0 {
		g.Output("sums", sums)
	}
	return g, in
}

// Ops on the sums of a product of bytes, which begin with a conversion, run in its step. They have the same bits as in
// separate steps, for any number of workers.
func TestTailsOfSums(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 1))
	for i := range 80 {
		g, in := dynamicLayer(r)
		if leavesOut(i, 12) {
			continue
		}
		require.NoError(t, g.Err())
		var want map[string]*tensor.Tensor
		apart := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "group" })
		for _, o := range []passes.Options{{Passes: apart}, {}, {Strategy: layout.Optimal}} {
			o.Check = i < 10
			p, err := passes.Run(g, o)
			require.NoError(t, err)
			if o.Passes == nil && loops.CodeAvailable() && machine.HostFeatures().Has(machine.AVX2) {
				requireFusedSums(t, p)
			}
			for _, workers := range []int{1, 2} {
				program, err := exec.Compile(p.Graph, exec.Options{Threads: workers})
				require.NoError(t, err)
				got, err := program.Run(t.Context(), in)
				require.NoError(t, err)
				if want == nil {
					want = got
				}
				for name, v := range want {
					require.Equal(t, floats(v), floats(got[name]), "%d: %s by %d workers", i, name, workers)
				}
			}
		}
	}
}

// requireFusedSums checks that a group starts with the sums, so that they are in memory only if they are an output.
func requireFusedSums(t *testing.T, p *passes.Plan) {
	t.Helper()
	for _, made := range p.Groups {
		if made.Parts[0] == "sums" {
			return
		}
	}
	assert.Fail(t, "the sums are apart", "%v", p.Unfused)
}

// Every implementation applies ops to sums of int32, and to floats that become int32 in the same memory.
func TestTailsIntoOtherDTypes(t *testing.T) {
	i32 := func(g *graph.Graph, name string, shape ...int) *graph.Value {
		return g.Input(name, tensor.Int32, shape...)
	}
	for _, c := range []struct {
		name string
		make func(g *graph.Graph) *graph.Value
	}{
		{"tiny", func(g *graph.Graph) *graph.Value { return op.Matmul(i32(g, "x", 2, 3), i32(g, "w", 3, 5)) }},
		{"thin", func(g *graph.Graph) *graph.Value { return op.Matmul(i32(g, "x", 1, 40), i32(g, "w", 40, 90)) }},
		{"batches", func(g *graph.Graph) *graph.Value { return op.Matmul(i32(g, "x", 3, 17, 30), i32(g, "w", 3, 30, 35)) }},
		{"linear", func(g *graph.Graph) *graph.Value {
			return op.Linear(i32(g, "x", 20, 40), i32(g, "w", 50, 40), i32(g, "b", 50))
		}},
		{"conv2d", func(g *graph.Graph) *graph.Value {
			return op.Conv2d(i32(g, "x", 2, 6, 9, 8), i32(g, "w", 12, 6, 3, 3), nil, op.Conv2dAttrs{Padding: []int{1}})
		}},
		{"depthwise", func(g *graph.Graph) *graph.Value {
			return op.Conv2d(i32(g, "x", 2, 6, 9, 8), i32(g, "w", 6, 1, 3, 3), nil, op.Conv2dAttrs{Groups: new(6)})
		}},
		{"floats", func(g *graph.Graph) *graph.Value {
			return op.Matmul(g.Input("x", f32, 20, 30), g.Input("w", f32, 30, 40))
		}},
	} {
		for name, tail := range map[string]func(v *graph.Value) *graph.Value{
			"converted": func(v *graph.Value) *graph.Value {
				d := tensor.Float32
				if v.Meta.DType == d {
					d = tensor.Int32
				}
				return op.Relu(op.Mul(op.To(v, op.ToAttrs{DType: d}), 3))
			},
			"bounded": func(v *graph.Value) *graph.Value { return op.Relu(op.Add(op.Mul(v, 3), 1)) },
		} {
			t.Run(c.name+", "+name, func(t *testing.T) { headsAgree(t, c.make, tail) })
		}
	}
}

// headsAgree compares a product and the ops after it with their definitions, for all implementations.
func headsAgree(t *testing.T, head func(g *graph.Graph) *graph.Value, tail func(v *graph.Value) *graph.Value) {
	r := rand.New(rand.NewPCG(91, 2))
	g := graph.New("g", kernels.Lookup)
	v := head(g).Named("sums")
	g.Output("y", tail(v))
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{}
	for _, i := range g.Inputs {
		x := tensor.Zeros(i.Meta.DType, i.Meta.Shape...)
		for k := range x.Numel() {
			x.SetFlat(k, tensor.IntScalar(r.Int64N(200)-100))
		}
		in[i.Name] = x
	}
	want, err := graph.Evaluate(g, in)
	require.NoError(t, err)
	ran := 0
	for _, impl := range v.Node.Op.Impls {
		require.NoError(t, g.Pin("sums", graph.Pin{Impl: impl.Name}))
		p, err := passes.Run(g, passes.Options{})
		if err != nil {
			continue // it does not support the call
		}
		ran++
		if loops.CodeAvailable() {
			requireFusedSums(t, p)
		}
		program, err := exec.Compile(p.Graph, exec.Options{Threads: 2})
		require.NoError(t, err)
		got, err := program.Run(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, want["y"].Meta.DType, got["y"].Meta.DType)
		require.Equal(t, floats(want["y"]), floats(got["y"]), impl.Name)
	}
	require.NotZero(t, ran)
}
