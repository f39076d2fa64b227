package endtoend_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func init() {
	devices.Register("software", func() (graph.Device, error) { return backend.New(software.Open()), nil })
}

// freeDevice returns prices for which the device computes all that it can.
func freeDevice() *machine.Profile {
	return machine.DefaultProfile().WithDevice("software", machine.DeviceRates{Device: "free"})
}

// placed returns the names of the nodes of a program on the device, and of the transfers.
func placed(p *graphrun.Program) (nodes, transfers []string) {
	for _, n := range p.Graph().Nodes {
		switch {
		case n.Impl.IsTransfer():
			transfers = append(transfers, n.Name)
		case n.Impl.OnDevice():
			nodes = append(nodes, n.Name)
		}
	}
	return nodes, transfers
}

// TestDevicePlacement: with free work on a device, nodes with a kernel run there, others on the host.
func TestDevicePlacement(t *testing.T) {
	g := graphrun.New("places")
	x := g.Input("x", tensor.Float32, 4, 6)
	i := g.Input("i", tensor.Int64, 3)
	w := g.Constant("w", generated(tensor.New(tensor.Float32, 6, 5)))
	b := g.Constant("b", generated(tensor.New(tensor.Float32, 5)))
	h := op.Relu(op.Mul(x, 0.5))
	y := op.Softmax(op.Add(op.Matmul(h, w), b), 1)
	sums := op.Cumsum(op.Transpose(op.Square(y), 0, 1), 1) // the device has no scans
	g.Output("y", op.Embedding(sums, i))
	require.NoError(t, g.Err())
	want, err := graphrun.Compile(g, graphrun.Options{})
	require.NoError(t, err)
	indices := tensor.Empty(tensor.New(tensor.Int64, 3))
	for k := range 3 {
		indices.Set(tensor.IntScalar(int64(2*k)), k)
	}
	in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 4, 6)), "i": indices}
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)
	for _, noFusion := range []bool{false, true} {
		p, err := graphrun.Compile(g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true,
			NoFusion: noFusion})
		require.NoError(t, err)
		nodes, transfers := placed(p)
		t.Log(nodes, transfers)
		assert.Subset(t, nodes, []string{"matmul", "square", "embedding"})
		assert.NotContains(t, nodes, "cumsum")
		certificate, err := experiment.Certify(p)
		require.NoError(t, err)
		verdict, err := experiment.Verify(g, certificate)
		require.NoError(t, err)
		assert.True(t, verdict.Optimal)
		for range 2 {
			out, err := p.Run(context.Background(), in)
			require.NoError(t, err)
			assert.InDeltaSlice(t, floats(expected["y"]), floats(out["y"]), 1e-6)
		}
		indices.Set(tensor.IntScalar(5), 1)
		_, err = p.Run(context.Background(), in)
		assert.ErrorContains(t, err, "embedding: an index is out of bounds")
		indices.Set(tensor.IntScalar(2), 1)
	}
}

// generated returns a tensor of random numbers.
func generated(m tensor.Meta) *tensor.Tensor {
	return normal(rand.New(rand.NewPCG(1, uint64(m.Numel()))), m)
}
