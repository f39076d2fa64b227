package endtoend_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

func init() {
	devices.Register("software", func() (graph.Device, error) { return backend.New(software.Open()), nil })
}

// freeDevice returns prices for which the device computes all that it can.
func freeDevice() *pricing.Profile {
	return pricing.DefaultProfile().WithDevice("software", pricing.DeviceRates{})
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
	want, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	indices := tensor.Empty(tensor.New(tensor.Int64, 3))
	for k := range 3 {
		indices.Set(tensor.IntScalar(int64(2*k)), k)
	}
	in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 4, 6)), "i": indices}
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)
	for _, noFusion := range []bool{false, true} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true,
			NoFusion: noFusion})
		require.NoError(t, err)
		nodes, transfers := placed(p)
		t.Log(nodes, transfers)
		assert.Subset(t, nodes, []string{"matmul", "square", "embedding"})
		assert.NotContains(t, nodes, "cumsum")
		certificate, err := experiment.Certify(p)
		require.NoError(t, err)
		verdict, err := experiment.Verify(ctx, g, certificate)
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

// TestDeviceConcat: a concatenation on a device does not read what a node on the host writes into its result.
func TestDeviceConcat(t *testing.T) {
	g := graphrun.New("concat")
	x := g.Input("x", tensor.Float32, 4, 6)
	g.Output("y", op.Cat([]*graph.Value{op.Relu(x), op.Square(x)}))
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 4, 6))}
	want, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true,
		Pins: map[string]graph.Pin{"relu": {Device: graph.HostDevice}, "cat": {Device: "software"}}})
	require.NoError(t, err)
	out, err := p.Run(context.Background(), in)
	require.NoError(t, err)
	assert.Equal(t, floats(expected["y"]), floats(out["y"]))
}

// TestDeviceStoredRows: a pass over rows reads the row that an earlier pass stored as an output. A device needs no
// machine code of the host for it.
func TestDeviceStoredRows(t *testing.T) {
	for _, columns := range []int{30, 96} {
		g := graphrun.New("rows")
		x := g.Input("x", tensor.Float32, 5, columns)
		w := g.Constant("w", generated(tensor.New(tensor.Float32, columns)))
		normalized := func(x *graph.Value) *graph.Value {
			mean := op.MeanAttrs{Dim: []int{1}, Keepdim: true}
			centered := op.Sub(x, op.Mean(x, mean))
			scaled := op.Div(centered, op.Sqrt(op.Add(op.Mean(op.Square(centered), mean), 1e-5)))
			return op.Add(op.Mul(scaled, w), w)
		}
		first := normalized(x)
		g.Output("first", first)
		g.Output("second", normalized(first))
		require.NoError(t, g.Err())
		in := map[string]*tensor.Tensor{"x": generated(tensor.New(tensor.Float32, 5, columns))}
		want, err := graphrun.Compile(ctx, g, graphrun.Options{})
		require.NoError(t, err)
		expected, err := want.Run(context.Background(), in)
		require.NoError(t, err)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true})
		require.NoError(t, err)
		nodes, _ := placed(p)
		assert.Len(t, nodes, 1, "one row program computes both outputs")
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		for _, name := range []string{"first", "second"} {
			assert.InDeltaSlice(t, floats(expected[name]), floats(out[name]), 1e-5, "%d columns, %s", columns, name)
		}
	}
}

// TestDeviceAttention: the device computes an attention by the kernels of its nodes.
func TestDeviceAttention(t *testing.T) {
	g := graphrun.New("attention")
	q := g.Input("q", tensor.Float32, 2, 8, 4)
	k := g.Input("k", tensor.Float32, 2, 4, 8)
	v := g.Input("v", tensor.Float32, 2, 8, 4)
	weights := op.Softmax(op.Mul(op.Matmul(q, k), 0.5), 2)
	g.Output("y", op.Matmul(weights, v))
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{"q": generated(q.Meta), "k": generated(k.Meta), "v": generated(v.Meta)}
	want, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software", Costs: freeDevice(), Check: true})
	require.NoError(t, err)
	nodes, transfers := placed(p)
	assert.Len(t, transfers, 4, "three inputs, one output: %v", transfers)
	assert.Equal(t, &report.Places{Device: "software", Steps: len(nodes), Uploads: 3, Downloads: 1,
		TransferredBytes: q.Meta.Bytes() + k.Meta.Bytes() + 2*v.Meta.Bytes()}, p.Report().Costs().Places)
	out, err := p.Run(context.Background(), in)
	require.NoError(t, err)
	assert.InDeltaSlice(t, floats(expected["y"]), floats(out["y"]), 1e-5)

	slow := pricing.DefaultProfile().WithDevice("software", pricing.DeviceRates{UploadPS: 1e9, DownloadPS: 1e9})
	p, err = graphrun.Compile(ctx, g, graphrun.Options{Device: "software", Costs: slow})
	require.NoError(t, err)
	if loops.CodeAvailable() { // without machine code, the host computes the nodes, too
		assert.Len(t, p.Graph().Nodes, 1, "transfers cost more than the attention on the host")
	}
	assert.Equal(t, &report.Places{Device: "software"}, p.Report().Costs().Places)
}

// TestDeviceScalar: a value with 0 dimensions that the device computes is downloaded for readers on the host. A kernel
// reads a value with 0 dimensions from the host without a copy.
func TestDeviceScalar(t *testing.T) {
	g := graphrun.New("scalar")
	x := g.Input("x", tensor.Float32, 4, 6)
	s := g.Input("s", tensor.Float32)
	g.Output("y", op.Mul(x, op.Add(s, s)))
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{"x": generated(x.Meta), "s": generated(s.Meta)}
	want, err := graphrun.Compile(ctx, g, graphrun.Options{NoFusion: true})
	require.NoError(t, err)
	expected, err := want.Run(context.Background(), in)
	require.NoError(t, err)
	_, err = graphrun.Compile(ctx, g, graphrun.Options{Device: "software", NoFusion: true, Strategy: graphrun.Propagate,
		Pins: map[string]graph.Pin{"add": {Device: "software"}}})
	require.ErrorContains(t, err, "pin add=device:software: this strategy does not use devices")
	for _, c := range []struct {
		add, mul           string
		uploads, downloads int
	}{{"software", graph.HostDevice, 0, 1}, {graph.HostDevice, "software", 1, 1}, {"software", "software", 1, 1}} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software", NoFusion: true, Check: true,
			Pins: map[string]graph.Pin{"add": {Device: c.add}, "mul": {Device: c.mul}}})
		require.NoError(t, err)
		places := p.Report().Costs().Places
		assert.Equal(t, []int{c.uploads, c.downloads}, []int{places.Uploads, places.Downloads}, "%+v", c)
		out, err := p.Run(context.Background(), in)
		require.NoError(t, err)
		assert.Equal(t, floats(expected["y"]), floats(out["y"]))
	}
}

// inexact is a device that does not round sums of float32 correctly.
type inexact struct{ device.Device }

func (d inexact) Info() device.Info {
	info := d.Device.Info()
	info.ExactOps.Exact32 = false
	return info
}

// TestDeviceExact: exact results need a device that rounds as IEEE 754 requires.
func TestDeviceExact(t *testing.T) {
	devices.Register("inexact", func() (graph.Device, error) { return backend.New(inexact{software.Open()}), nil })
	g := graphrun.New("exact")
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, 4)))
	require.NoError(t, g.Err())
	for _, exact := range []bool{false, true} {
		_, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "inexact", Exact: exact})
		if exact {
			assert.ErrorContains(t, err, "does not round as IEEE 754 requires: sums and products of float32")
		} else {
			assert.NoError(t, err)
		}
	}
}

// counting is a device that counts its buffers of at least 16 KiB that the host does not see.
type counting struct {
	device.Device
	allocated, live atomic.Int32
}

func (c *counting) Alloc(bytes int, host bool) (*device.Buffer, error) {
	b, err := c.Device.Alloc(bytes, host)
	if err != nil || host || bytes < 16<<10 {
		return b, err
	}
	c.allocated.Add(1)
	c.live.Add(1)
	free := b.Free
	b.Free = func() {
		c.live.Add(-1)
		free()
	}
	return b, nil
}

// TestDeviceMemory: the programs of all sizes share a constant on the device, and only the sizes that were used last
// keep memory there.
func TestDeviceMemory(t *testing.T) {
	testsize.Long(t)
	c := &counting{Device: software.Open()}
	devices.Register("counting", func() (graph.Device, error) { return backend.New(c), nil })
	g := graphrun.New("sizes")
	g.Symbols = map[string]graph.Bounds{"N": {Min: 1}}
	x := g.InputDecl("x", graph.Decl{DType: tensor.Float32, Dims: []graph.Dim{{Symbol: "N"}, {Size: 4096}}})
	w := g.Constant("w", generated(tensor.New(tensor.Float32, 4096)))
	g.Output("y", op.Mul(op.Relu(x), w))
	require.NoError(t, g.Err())
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "counting", Costs: freeDevice()})
	require.NoError(t, err)
	const sizes, kept = 20, 16
	for n := 1; n <= sizes; n++ {
		x := generated(tensor.New(tensor.Float32, n, 4096))
		_, err = p.Run(context.Background(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		assert.EqualValues(t, 1+n, c.allocated.Load(), "the constant, and an arena for each size")
	}
	assert.LessOrEqual(t, int(c.live.Load()), 1+kept)
}

// small is a device with little memory.
type small struct{ device.Device }

func (s small) Info() device.Info {
	info := s.Device.Info()
	info.Memory = 64 << 10
	return info
}

// TestDeviceMemoryLimit: a graph whose constants and values exceed the memory of the device is rejected.
func TestDeviceMemoryLimit(t *testing.T) {
	devices.Register("small", func() (graph.Device, error) { return backend.New(small{software.Open()}), nil })
	compile := func(rows, limit int) error {
		g := graphrun.New("limit")
		x := g.Input("x", tensor.Float32, rows, 4096)
		g.Output("y", op.Mul(op.Relu(x), g.Constant("w", generated(tensor.New(tensor.Float32, 4096)))))
		require.NoError(t, g.Err())
		_, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "small", MemoryLimit: limit, Costs: freeDevice()})
		return err
	}
	require.NoError(t, compile(1, 0))
	err := compile(4, 0)
	var tooLarge *graphrun.MemoryError
	require.ErrorAs(t, err, &tooLarge)
	assert.ErrorContains(t, err, "the memory of the device interpreter (software, other) is 64 KiB")
	assert.Equal(t, 4096*4, tooLarge.Need.Constants)
	require.NoError(t, compile(4, -1))
}

// TestDeviceReport: a report has the memory on the device. A transfer has no advice, since inputs and outputs are on
// the host. No plan lacks the transfers that a pin needs.
func TestDeviceReport(t *testing.T) {
	g := graphrun.New("report")
	x := g.Input("x", tensor.Float32, 4, 64)
	g.Output("y", op.Mul(op.Relu(x), g.Constant("w", generated(tensor.New(tensor.Float32, 64)))))
	require.NoError(t, g.Err())
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software",
		Pins: map[string]graph.Pin{"mul": {Device: "software"}, "relu": {Device: "software"}}})
	require.NoError(t, err)
	memory := p.Report().Memory
	assert.Equal(t, 64*4, memory.DeviceConstants)
	assert.GreaterOrEqual(t, memory.DeviceArena, 4*64*4)
	assert.Less(t, memory.Total, 4*64*4*3, "memory of the host: input, output, constant")
	for _, value := range []string{"x", "mul"} {
		explanation, err := inspect.Explain(p, value)
		require.NoError(t, err)
		require.Len(t, explanation.Copies, 1, value)
		assert.Empty(t, explanation.Copies[0].Advice, value)
		assert.Nil(t, explanation.Copies[0].WithoutNS, value)
	}
}

// generated returns a tensor of random numbers.
func generated(m tensor.Meta) *tensor.Tensor {
	return normal(rand.New(rand.NewPCG(1, uint64(m.Numel()))), m)
}

// TestDeviceRates: a device has the prices of a profile if they are its own, or those of any device of the driver.
// The certificate names the device.
func TestDeviceRates(t *testing.T) {
	g := graphrun.New("rates")
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, 4)))
	require.NoError(t, g.Err())
	estimated := backend.New(software.Open()).Rates()
	for name, used := range map[string]bool{"": true, "interpreter": true, "another": false} {
		rates := pricing.DeviceRates{Device: name, StepPS: 7}
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Device: "software",
			Costs: pricing.DefaultProfile().WithDevice("software", rates)})
		require.NoError(t, err)
		want := estimated
		if used {
			want = rates
			want.Device = "interpreter"
		}
		certificate, err := experiment.Certify(p)
		require.NoError(t, err)
		assert.Equal(t, want, certificate.Profile.Devices["software"], name)
		_, err = experiment.Verify(ctx, g, certificate)
		require.NoError(t, err)
		rates = certificate.Profile.Devices["software"]
		rates.Device = "another"
		certificate.Profile = certificate.Profile.WithDevice("software", rates)
		certificate.ProfileDigest = machine.DigestOfJSON(certificate.Profile)
		_, err = experiment.Verify(ctx, g, certificate)
		require.ErrorContains(t, err, `is for the device "another", but the software device of this machine is "interpreter"`)
		certificate.Options.Device = "absent"
		certificate.OptionsDigest = machine.DigestOfJSON(certificate.Options)
		_, err = experiment.Verify(ctx, g, certificate)
		require.ErrorContains(t, err, `the certificate is for a device: there is no device "absent"`)
	}
}
