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
	w := g.Constant("w", generated(tensor.New(tensor.Float32, 6, 5)))
	b := g.Constant("b", generated(tensor.New(tensor.Float32, 5)))
	h := op.Relu(op.Mul(x, 0.5))
	y := op.Add(op.Matmul(h, w), b)
	// Functions are left out: without machine code, those of the host have other bits.
	g.Output("y", op.Transpose(op.Square(y), 0, 1))
	require.NoError(t, g.Err())
	want, err := graphrun.Compile(g, graphrun.Options{NoFusion: true})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 4, 6))}
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)

	p, err := graphrun.Compile(g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true, NoFusion: true})
	require.NoError(t, err)
	nodes, transfers := placed(p)
	t.Log(nodes, transfers)
	assert.NotEmpty(t, nodes)
	certificate, err := experiment.Certify(p)
	require.NoError(t, err)
	verdict, err := experiment.Verify(g, certificate)
	require.NoError(t, err)
	assert.True(t, verdict.Optimal)
	for range 2 {
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		assert.Equal(t, expected["y"].Contiguous().Storage().Bytes(), out["y"].Contiguous().Storage().Bytes())
	}
}

// generated returns a tensor of random numbers.
func generated(m tensor.Meta) *tensor.Tensor {
	return normal(rand.New(rand.NewPCG(1, uint64(m.Numel()))), m)
}
