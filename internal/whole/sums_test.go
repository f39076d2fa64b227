package whole_test

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
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/product"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// bytesOf draws a tensor over the whole range of a dtype of a byte.
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

// dynamicLayer is a linear layer of numbers that are quantised by the range they turn out to have, as ONNX writes it:
// weights with zero points and scales for all or by column, which may be constants; a bias, a residual sum that lies
// otherwise, an activation, and who reads what it makes.
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
	switch r.IntN(4) {
	case 0:
		y = op.Relu(y)
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

// What follows the sums of a product of bytes, which begins with a conversion, is computed in its step, to the same
// bits as apart from it, for any number of workers.
func TestTailsOfSums(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 1))
	for i := range 60 {
		g, in := dynamicLayer(r)
		require.NoError(t, g.Err())
		var want map[string]*tensor.Tensor
		apart := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "group" })
		for _, o := range []passes.Options{{Passes: apart}, {}, {Strategy: layout.Optimal}} {
			o.Check = i < 10
			p, err := passes.Run(g, o)
			require.NoError(t, err)
			if o.Passes == nil && loops.Compiles() && product.MultipliesBytes() {
				begins(t, p)
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

// begins holds that the sums are in memory only where somebody reads them as such.
func begins(t *testing.T, p *passes.Plan) {
	t.Helper()
	for _, made := range p.Groups {
		if made.Parts[0] == "sums" {
			return
		}
	}
	assert.Fail(t, "the sums are apart", "%v", p.Apart)
}
