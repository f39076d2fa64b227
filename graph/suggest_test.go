package graph_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/kernels"
)

func TestOpsThatWereMeant(t *testing.T) {
	for name, want := range map[string]string{
		"rlu": "relu", "ReLU": "relu", "aten::relu": "relu", "aten::relu_": "relu", "aten::add.Tensor": "add",
		"relu_": "relu",
		"Conv":  "conv2d", "Conv2d": "conv2d", "multiply": "mul", "astype": "to", "torch.nn.functional.softmax": "softmax",
		"np.subtract":   "sub",
		"tf.reduce_sum": "sum", "ReduceMean": "mean", "BatchNormalization": "batch_norm", "BatchNorm2d": "batch_norm",
		"LayerNorm": "layer_norm",
		"MatMul":    "matmul", "matmull": "matmul", "Gemm": "addmm", "Concat": "concat", "concatt": "concat", "Cast": "to",
		"Transpose": "transpose", "LeakyRelu": "leaky_relu",
		"ReLU6": "relu6", "MaxPool2d": "max_pool2d", "maxpool2d": "max_pool2d", "GELU": "gelu", "Sigmoid": "sigmoid",
		"tranpose":    "transpose",
		"expand_dims": "unsqueeze", "Tensor.permute": "permute", "nn.Linear": "linear", "logsoftmax": "log_softmax",
		"GatherND": "gather_nd",
		"cov2d":    "conv2d", "prims::mul": "mul", "qwertyuiop": "", "": "",
	} {
		if got := graph.SuggestOp(name, kernels.Lookup); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// TestSuggestionsAreOps runs every name that another library has, and every op with one
// letter left out, through the suggester.
func TestSuggestionsAreOps(t *testing.T) {
	for name, op := range suggest.OpAliases {
		if kernels.Lookup(op) == nil {
			t.Errorf("%q stands for %q, which is no op", name, op)
		}
		if kernels.Lookup(name) == nil && kernels.Lookup(graph.SuggestOp(name, kernels.Lookup)) == nil {
			t.Errorf("%q: nothing was suggested", name)
		}
	}
	for _, o := range kernels.All() {
		if len(o.Name) < 5 {
			continue
		}
		short := o.Name[:2] + o.Name[3:]
		if kernels.Lookup(short) == nil && kernels.Lookup(graph.SuggestOp(short, kernels.Lookup)) == nil {
			t.Errorf("%q: nothing was suggested, %q is near", short, o.Name)
		}
	}
}
