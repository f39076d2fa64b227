package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// A convolution, its batch_norm and an activation become a convolution and one loop if the statistics are constants.
// The deviations are powers of two, so that scaling is exact.
func TestNormOfAConvolutionIsOneLoop(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	in := iota32(2*3*5*5, 2, 3, 5, 5)
	x := g.InputMeta("x", in.Meta)
	w := g.Constant("w", iota32(4*3*3*3, 4, 3, 3, 3))
	side := g.Constant("side", tensor.Must(tensor.FromSlice([]float32{1, 2, 0.5, 3}, 4)))
	variance := g.Constant("variance", tensor.Must(tensor.FromSlice([]float32{1, 4, 0.25, 16}, 4)))
	norm := op.BatchNorm(op.Conv2d(x, w, nil), side, side, side, variance, op.BatchNormAttrs{Eps: new(0.0)})
	g.Output("y", op.Relu(op.Add(norm, norm)))
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err)
		var loops []*graph.Node
		for _, n := range p.Graph.Nodes {
			if _, fused := n.Attrs.(*fusion.Fusion); fused {
				loops = append(loops, n)
				continue
			}
			require.NotEqual(t, graph.FollowsOperands, n.Op.Kind, "%s beside the loop", n.Name)
		}
		require.Len(t, loops, 1)
	}
	holds(t, g, map[string]*tensor.Tensor{"x": in})
}

// The results of composite ops have the inferred layouts for any layout of the operand: permuted, a slice, with
// dimensions of size 1.
func TestPartsAreLaidOutAsTheWhole(t *testing.T) {
	testsize.Long(t)
	for _, in := range []tensor.Meta{
		tensor.New(f32, 2, 4, 1, 3).WithStrides([]int{30, 1, 7, 10}),
		tensor.New(f32, 1, 4, 3).WithStrides([]int{1, 3, 1}),
		tensor.New(f32, 3, 4).WithStrides([]int{1, 3}),
	} {
		g := graph.New("g", kernels.Lookup)
		x := g.InputMeta("x", in)
		side := g.Constant("side", tensor.Must(tensor.FromSlice([]float32{1, 4, 0.25, 16}, 4)))
		g.Output("norm", op.BatchNorm(x, side, side, side, side, op.BatchNormAttrs{Eps: new(0.0)}))
		g.Output("prelu", op.Prelu(x, side))
		bytes := g.Constant("zero", tensor.Zeros(tensor.Uint8, 4))
		g.Output("quantized", op.QuantizeLinear(x, side, bytes))
		g.Output("back", op.DequantizeLinear(op.QuantizeLinear(x, side, bytes), side, bytes))
		g.Output("hardmax", op.Hardmax(x, op.HardmaxAttrs{Dim: new(1)}))
		holds(t, g, map[string]*tensor.Tensor{"x": iota32(in.Numel(), in.Shape...).CopyTo(in)})
	}
}

// Plain numbers are part of a loop, also for ops that do not pass them to the iterator.
func TestNumbersWithinALoop(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 6)
	big := op.Gt(x, 2)
	g.Output("first", op.Relu(op.Where(big, 7.5, x))).Output("second", op.Neg(op.Where(big, x, -1.0)))
	holds(t, g, map[string]*tensor.Tensor{"x": iota32(6, 6)})
}

// Quantized convolutions become convolutions of bytes if the processor multiplies bytes. Their results are exactly
// those of the definition under all strategies.
func TestQuantizedConvolutionsAreOfBytes(t *testing.T) {
	testsize.Long(t)
	g := graph.New("g", kernels.Lookup)
	in := tensor.Zeros(tensor.Uint8, 1, 5, 9, 9)
	for i := range in.Numel() {
		in.SetFlat(i, tensor.IntScalar(int64(i*37%256)))
	}
	v := g.InputMeta("x", in.Meta)
	scale := g.Constant("scale", tensor.Must(tensor.FromSlice([]float32{0.02})))
	point := g.Constant("point", tensor.Must(tensor.FromSlice([]uint8{3})))
	none := g.Constant("none", tensor.Zeros(tensor.Int8, 1))
	for _, name := range []string{"first", "second"} {
		w := tensor.Zeros(tensor.Int8, 5, 5, 3, 3)
		for i := range w.Numel() {
			w.SetFlat(i, tensor.IntScalar(int64(i*29%255-127)))
		}
		v = op.QlinearConv(v, scale, point, g.Constant(name, w), scale, none, scale, point, nil,
			op.QlinearConvAttrs{Padding: []int{1}})
	}
	g.Output("y", v)
	p, err := passes.Run(g, passes.Options{Strategy: layout.Optimal, Check: true})
	require.NoError(t, err)
	n := 0
	for _, node := range p.Graph.Nodes {
		if node.Op.Name == "conv2d_bytes" {
			n++
		}
	}
	if jit.Available() == nil && machine.HostFeatures().Has(machine.AVX2) {
		require.Equal(t, 2, n)
	}
	holds(t, g, map[string]*tensor.Tensor{"x": in})
}
