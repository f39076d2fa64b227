package endtoend_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// dynamicConvolution returns a random convolution of an image that is quantized by its own range, as ONNX writes it,
// with zero points, a scale, a bias, and sometimes an activation and a residual sum.
func dynamicConvolution(r *rand.Rand) (g *graph.Graph, in map[string]*tensor.Tensor) {
	g = graph.New("g", kernels.Lookup)
	image := normals(r, 1+r.IntN(2), 1+r.IntN(20), 3+r.IntN(12), 3+r.IntN(12))
	in = map[string]*tensor.Tensor{"x": image}
	x, scale, zero := op.DynamicQuantizeLinear(g.InputMeta("x", image.Meta))
	d, o, k := []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)], 1+r.IntN(70), 1+r.IntN(3)
	groups, per := 1, image.Shape[1]
	if r.IntN(4) == 0 {
		groups, per, o = image.Shape[1], 1, image.Shape[1]
	}
	w := g.Constant("w", bytesOf(r, d, o, per, k, k))
	var zeros *graph.Value
	if r.IntN(3) > 0 {
		zeros = g.Constant("zeros", bytesOf(r, d, [][]int{nil, {o}}[r.IntN(2)]...))
	}
	if r.IntN(5) == 0 {
		zero = nil
	}
	sums := op.ConvInteger(x, w, zero, zeros, op.ConvIntegerAttrs{
		Padding: []int{r.IntN(2), r.IntN(3), r.IntN(2), r.IntN(2)}, Stride: []int{1 + r.IntN(2)},
		Groups: &groups}).Named("sums")
	y := op.Mul(op.To(sums, op.ToAttrs{DType: tensor.Float32}), op.Mul(scale, g.Constant("by", normals(r))))
	if r.IntN(2) == 0 {
		y = op.Mul(y, g.Constant("each", normals(r, o, 1, 1)))
	}
	y = op.Add(y, g.Constant("bias", normals(r, o, 1, 1)))
	if r.IntN(2) == 0 {
		y = op.Relu(y)
	}
	if r.IntN(3) == 0 {
		in["more"] = normals(r, sums.Meta.Shape...)
		y = op.Add(y, g.InputMeta("more", sums.Meta.WithDType(tensor.Float32)))
	}
	g.Output("y", y)
	if r.IntN(4) == 0 {
		g.Output("sums", sums)
	}
	return g, in
}

// Convolutions of dynamically quantized images multiply bytes. Their results have the bits of the definition for all
// strategies and any number of workers, with or without the following ops in the same step.
func TestConvolvedSums(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 2))
	for i := range 60 {
		g, in := dynamicConvolution(r)
		if leavesOut(i, 20) {
			continue
		}
		require.NoError(t, g.Err())
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		apart := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "group" })
		for _, o := range []passes.Options{{Passes: apart}, {}, {Strategy: layout.Optimal}} {
			o.Check = i < 10
			p, err := passes.Run(g, o)
			require.NoError(t, err)
			if o.Passes != nil && loops.CodeAvailable() {
				assert.True(t, slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Name == "conv2d_bytes" }))
			}
			for _, workers := range []int{1, 2} {
				program, err := exec.Compile(p.Graph, exec.Options{Threads: workers})
				require.NoError(t, err)
				got, err := program.Run(t.Context(), in)
				require.NoError(t, err)
				for name, v := range want {
					require.Equal(t, floats(v), floats(got[name]), "%d: %s by %d workers", i, name, workers)
				}
			}
		}
	}
}
