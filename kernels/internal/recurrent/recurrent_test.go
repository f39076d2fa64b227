package recurrent_test

import (
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

func TestOnnxCells(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 1))
	names := []string{"Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid",
		"Elu", "Softsign", "Softplus"}
	for i := range 150 {
		name, gates := []string{"onnx_rnn", "onnx_gru", "onnx_lstm"}[i%3], []int{1, 3, 4}[i%3]
		steps, batch, inputs, hidden, dirs := 1+r.IntN(5), 1+r.IntN(12), 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(2)
		if i%10 == 0 {
			batch, hidden = 20+r.IntN(30), 20
		}
		if i%10 == 1 { // few rows of several panels
			steps, batch, hidden = 4, 1+r.IntN(3), 60+r.IntN(90)
		}
		at := graph.Attrs{"direction": []string{"forward", "reverse"}[r.IntN(2)], "layout": r.IntN(2),
			"linear_before_reset": r.IntN(2)}
		if dirs == 2 {
			at["direction"] = "bidirectional"
		}
		if r.IntN(3) == 0 {
			at["clip"] = 0.7
		}
		if name == "onnx_lstm" {
			at["input_forget"] = r.IntN(2)
		}
		if r.IntN(3) == 0 {
			var list []string
			for range dirs * []int{1, 2, 3}[i%3] {
				list = append(list, names[r.IntN(len(names))])
			}
			at["activations"], at["activation_alpha"], at["activation_beta"] = list, []float64{0.5}, []float64{0.3}
		}
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		rows := hidden * gates
		x, state := []int{steps, batch, inputs}, []int{dirs, batch, hidden}
		if at["layout"] == 1 {
			x, state = []int{batch, steps, inputs}, []int{batch, dirs, hidden}
		}
		some := func(shape ...int) *tensor.Tensor {
			if r.IntN(2) == 0 {
				return nil
			}
			return kerneltest.RandomOperand(r, d, shape...)
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, dirs, rows, inputs),
			kerneltest.RandomOperand(r, d, dirs, rows, hidden), some(dirs, 2*rows), nil, some(state...)}
		if r.IntN(2) == 0 {
			in[4] = tensor.Zeros(tensor.Int32, batch)
			for b := range batch {
				in[4].Set(tensor.IntScalar(int64(r.IntN(steps+1))), b)
			}
		}
		if name == "onnx_lstm" {
			in = append(in, some(state...), some(dirs, 3*hidden))
		}
		kerneltest.CheckKernel(t, name, at, in, kerneltest.RandomConstants(r, in)...)
	}
}

func TestTorchCells(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 1))
	for i := range 100 {
		name, gates := []string{"rnn_tanh", "gru", "lstm", "rnn_relu"}[i%4], []int{1, 3, 4, 1}[i%4]
		steps, batch, inputs, hidden, dirs, layers := 1+r.IntN(5), 1+r.IntN(12), 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(2),
			1+r.IntN(3)
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		at := graph.Attrs{"num_layers": layers, "bidirectional": dirs == 2, "has_biases": r.IntN(2) == 0,
			"batch_first": r.IntN(2) == 0}
		x := []int{steps, batch, inputs}
		if at["batch_first"] == true {
			x = []int{batch, steps, inputs}
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...),
			kerneltest.RandomOperand(r, d, layers*dirs, batch, hidden)}
		if name == "lstm" {
			in = append(in, kerneltest.RandomOperand(r, d, layers*dirs, batch, hidden))
		}
		rows := hidden * gates
		for l := range layers * dirs {
			n := inputs
			if l >= dirs {
				n = dirs * hidden
			}
			if in = append(in, kerneltest.RandomOperand(r, d, rows, n),
				kerneltest.RandomOperand(r, d, rows, hidden)); at["has_biases"] == true {
				in = append(in, kerneltest.RandomOperand(r, d, rows), kerneltest.RandomOperand(r, d, rows))
			}
		}
		kerneltest.CheckKernel(t, name, at, in, kerneltest.RandomConstants(r, in)...)
	}
}

// TestCellsDoNotAllocate runs the steps of layers again and again: of few sequences and of many, both ways, and with
// two products a step.
func TestCellsDoNotAllocate(t *testing.T) {
	if testsize.Race {
		t.Skip("under the race detector a sync.Pool forgets what it is given now and then")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // and so it does when garbage is collected
	r := rand.New(rand.NewPCG(53, 1))
	d := tensor.Float32
	for _, c := range []struct {
		op           string
		gates, batch int
	}{{"onnx_lstm", 4, 20}, {"onnx_lstm", 4, 1}, {"onnx_gru", 3, 20}, {"onnx_gru", 3, 2}, {"onnx_rnn", 1, 1}} {
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, 5, c.batch, 8),
			kerneltest.RandomOperand(r, d, 2, 16*c.gates, 8), kerneltest.RandomOperand(r, d, 2, 16*c.gates, 16)}
		op, call, err := kerneltest.NewCall(c.op, graph.Attrs{"direction": "bidirectional"}, in, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if n := kerneltest.KernelAllocs(t, op, call, in); n > 0 {
			t.Errorf("a run of %s allocates %v times", c.op, n)
		}
	}
}

// TestCellsAreListed finds the products and the gates of a layer among the code of its kernel.
func TestCellsAreListed(t *testing.T) {
	r := rand.New(rand.NewPCG(55, 1))
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, 5, 1, 8),
		kerneltest.RandomOperand(r, tensor.Float32, 1, 48, 8), kerneltest.RandomOperand(r, tensor.Float32, 1, 48, 16)}
	op, c, err := kerneltest.NewCall("onnx_gru", nil, in, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kerneltest.CompileAnyLayouts(op, c)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range k.Code() {
		names[l.Name] = true
	}
	for _, name := range []string{"gates 0 of direction 0", "gates 1 of direction 0"} {
		if !names[name] {
			t.Errorf("%s is not among %v", name, names)
		}
	}
}
