package gpu_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/calibrate"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/gpu"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// TestCopyBandwidth measures the copies of all devices.
func TestCopyBandwidth(t *testing.T) {
	list, err := gpu.Open()
	if len(list) == 0 {
		t.Skipf("no device: %v", err)
	}
	for _, d := range list {
		defer d.Close()
		rate, err := gpu.CopyBandwidth(d)
		if err != nil || rate < 1e6 {
			t.Errorf("%s: %g bytes per second, %v", d.Info().Name, rate, err)
		}
	}
}

// TestGraph runs a small network on the first device of each driver, and compares the result with that of the host.
func TestGraph(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) *tensor.Tensor {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = float32(rng.NormFloat64())
		}
		return tensor.Must(tensor.FromSlice(data, shape...))
	}
	g := graphrun.New("network")
	h := g.Input("x", tensor.Float32, 1, 3, 16, 16)
	kernel := g.Constant("kernel", random(8, 3, 3, 3))
	h = op.Relu(op.Conv2d(h, kernel, nil, op.Conv2dAttrs{Padding: []int{1, 1}}))
	h = op.MaxPool2d(h, []int{2, 2})
	h = op.Cat([]*graph.Value{h, op.Sigmoid(h)}, op.CatAttrs{Dim: 1})
	h = op.Matmul(op.Reshape(h, []int{16, 64}), g.Constant("weight", random(64, 10)))
	g.Output("y", op.Softmax(op.Mul(h, 0.1), 1))
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Tensor{"x": random(1, 3, 16, 16)}
	run := func(o graphrun.Options) ([]float64, int) {
		p, err := graphrun.Compile(t.Context(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		placed := 0
		for _, n := range p.Graph().Nodes {
			if n.Impl.OnDevice() && !n.Impl.IsTransfer() {
				placed++
			}
		}
		var list []float64
		for i := range 160 {
			list = append(list, out["y"].At(i/10, i%10).Float())
		}
		return list, placed
	}
	want, _ := run(graphrun.Options{})
	for _, name := range devices.Names() {
		if _, err := devices.Open(name); err != nil || slices.Contains([]string{graph.HostDevice, "auto"}, name) {
			continue
		}
		costs := pricing.DefaultProfile().WithDevice(name, pricing.DeviceRates{})
		got, placed := run(graphrun.Options{Device: name, Costs: costs, Check: true})
		if placed < 4 {
			t.Errorf("%s: only %d nodes run on the device", name, placed)
		}
		for i := range want {
			if math.Abs(want[i]-got[i]) > 1e-5 {
				t.Fatalf("%s: element %d is %g, want %g", name, i, got[i], want[i])
			}
		}
	}
}

// TestCalibrate measures the first device of each driver. The device then has the measured prices.
func TestCalibrate(t *testing.T) {
	g := graphrun.New("relu")
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, 4)))
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range devices.Names() {
		device, err := devices.Open(name)
		if err != nil || device == nil || name == "auto" {
			continue
		}
		result, err := calibrate.Run(context.Background(), calibrate.Options{Rounds: 1, CallTime: time.Microsecond,
			MaxBytes: 1 << 20, Device: device})
		if err != nil {
			t.Fatal(err)
		}
		rates := result.Profile.Devices[name]
		if rates.Device != device.Rates().Device || !(rates.StepPS+rates.WaitPS > 0) || !(rates.BytePS > 0) {
			t.Errorf("%s: %+v", name, rates)
		}
		p, err := graphrun.Compile(t.Context(), g, graphrun.Options{Device: name, Costs: result.Profile})
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := experiment.Certify(p)
		if err != nil {
			t.Fatal(err)
		}
		if used := certificate.Profile.Devices[name]; used != rates {
			t.Errorf("%s: %+v, want %+v", name, used, rates)
		}
	}
}
