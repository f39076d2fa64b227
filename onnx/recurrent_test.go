package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// TestRecurrentSizesBehindNonZero converts a layer whose number of positions depends on data. The padding of
// the following pooling depends on the size of the hidden states, which does not.
func TestRecurrentSizesBehindNonZero(t *testing.T) {
	p := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("NonZero", names("m"), names("nz")), node1("Transpose", names("nz"), names("at")),
			node1("GatherND", names("rows", "at"), names("x")), node1("RNN", names("x", "w", "r"), names("hidden")),
			node1("MaxPool", names("hidden"), names("y"), attrInts("kernel_shape", 1, 3), attrInts("strides", 1, 2),
				attrText("auto_pad", "SAME_UPPER"))},
		Initializer: []*pb.TensorProto{floats("w", []int64{1, 2, 1}, 1, 2), floats("r", []int64{1, 2, 2}, 0, 0, 0, 0)},
		Input:       infos(info("m", tFloat, 3), info("rows", tFloat, 3, 1, 1)),
		Output:      infos(info("y", tFloat)),
	}
	out := run(t, model(11, p), map[string]*tensor.Tensor{"m": f32([]int{3}, 1, 0, 5),
		"rows": f32([]int{3, 1, 1}, 0, 3, 100)})
	require.Equal(t, []int{2, 1, 1, 1}, out["y"].Shape)
	require.Equal(t, []float32{0, 1}, floatsOf(t, out["y"]))
}
