package kernels

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func TestOnnxCells(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 1))
	names := []string{"Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"}
	for i := range 150 {
		kind := []cellKind{cellRNN, cellGRU, cellLSTM}[i%3]
		name := []string{"onnx_rnn", "onnx_gru", "onnx_lstm"}[kind]
		steps, batch, inputs, hidden, dirs := 1+r.IntN(5), 1+r.IntN(12), 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(2)
		if i%10 == 0 {
			batch, hidden = 20+r.IntN(30), 20
		}
		at := graph.Attrs{"direction": []string{"forward", "reverse"}[r.IntN(2)], "layout": r.IntN(2), "linear_before_reset": r.IntN(2)}
		if dirs == 2 {
			at["direction"] = "bidirectional"
		}
		if r.IntN(3) == 0 {
			at["clip"] = 0.7
		}
		if kind == cellLSTM {
			at["input_forget"] = r.IntN(2)
		}
		if r.IntN(3) == 0 {
			var list []string
			for range dirs * []int{1, 2, 3}[kind] {
				list = append(list, names[r.IntN(len(names))])
			}
			at["activations"], at["activation_alpha"], at["activation_beta"] = list, []float64{0.5}, []float64{0.3}
		}
		d := floatDTypes[r.IntN(len(floatDTypes))]
		rows := hidden * kind.gates()
		x, state := []int{steps, batch, inputs}, []int{dirs, batch, hidden}
		if at["layout"] == 1 {
			x, state = []int{batch, steps, inputs}, []int{batch, dirs, hidden}
		}
		some := func(shape ...int) *tensor.Tensor {
			if r.IntN(2) == 0 {
				return nil
			}
			return randomOperand(r, d, shape...)
		}
		in := []*tensor.Tensor{randomOperand(r, d, x...), randomOperand(r, d, dirs, rows, inputs), randomOperand(r, d, dirs, rows, hidden), some(dirs, 2*rows), nil, some(state...)}
		if r.IntN(2) == 0 {
			in[4] = tensor.Zeros(tensor.Int32, batch)
			for b := range batch {
				in[4].Set(tensor.IntScalar(int64(r.IntN(steps+1))), b)
			}
		}
		if kind == cellLSTM {
			in = append(in, some(state...), some(dirs, 3*hidden))
		}
		checkCompound(t, name, at, in, someConstants(r, in)...)
	}
}

func TestTorchCells(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 1))
	for i := range 100 {
		kind := []cellKind{cellRNN, cellGRU, cellLSTM, cellRNN}[i%4]
		name := []string{"rnn_tanh", "gru", "lstm", "rnn_relu"}[i%4]
		steps, batch, inputs, hidden, dirs, layers := 1+r.IntN(5), 1+r.IntN(12), 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(2), 1+r.IntN(3)
		d := floatDTypes[r.IntN(len(floatDTypes))]
		at := graph.Attrs{"num_layers": layers, "bidirectional": dirs == 2, "has_biases": r.IntN(2) == 0, "batch_first": r.IntN(2) == 0}
		x := []int{steps, batch, inputs}
		if at["batch_first"] == true {
			x = []int{batch, steps, inputs}
		}
		in := []*tensor.Tensor{randomOperand(r, d, x...), randomOperand(r, d, layers*dirs, batch, hidden)}
		if kind == cellLSTM {
			in = append(in, randomOperand(r, d, layers*dirs, batch, hidden))
		}
		rows := hidden * kind.gates()
		for l := range layers * dirs {
			n := inputs
			if l >= dirs {
				n = dirs * hidden
			}
			if in = append(in, randomOperand(r, d, rows, n), randomOperand(r, d, rows, hidden)); at["has_biases"] == true {
				in = append(in, randomOperand(r, d, rows), randomOperand(r, d, rows))
			}
		}
		checkCompound(t, name, at, in, someConstants(r, in)...)
	}
}

// TestCellsDoNotAllocate runs the steps of a layer again and again.
func TestCellsDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 1))
	d := tensor.Float32
	in := []*tensor.Tensor{randomOperand(r, d, 5, 20, 8), randomOperand(r, d, 1, 64, 8), randomOperand(r, d, 1, 64, 16)}
	op, c, err := compoundCall("onnx_lstm", nil, in, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if n := compoundAllocs(t, op, c, in); n > 0 {
		t.Errorf("a run allocates %v times", n)
	}
}

// compoundAllocs counts a run's allocations.
func compoundAllocs(t *testing.T, op *graph.Op, c *graph.Call, in []*tensor.Tensor) float64 {
	k, err := compileAny(op, c)
	if err != nil {
		t.Fatal(err)
	}
	var outs []*tensor.Tensor
	for _, m := range c.Out {
		outs = append(outs, tensor.Empty(m))
	}
	m := memOf(k, c, in, outs)
	return testing.AllocsPerRun(20, func() {
		for _, ph := range k.Phases {
			for i := range ph.Chunks {
				if err := ph.Run(m, i); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
