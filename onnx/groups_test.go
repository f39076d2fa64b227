package onnx

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// groupsModel computes the negative of an instance normalization between two reshapes. x is reshaped to `there`, and
// the normalized value to `back`. weight and bias have one element for each group.
func groupsModel(batch any, channels int, there, back []int64, weight, bias []float32) *pb.ModelProto {
	groups := int64(len(weight))
	return model(17, &pb.GraphProto{
		Input: infos(info("x", tFloat, batch, channels, 4, 5)),
		Initializer: []*pb.TensorProto{int64s("there", []int64{3}, there...),
			int64s("back", []int64{int64(len(back))}, back...),
			floats("w", []int64{groups}, weight...), floats("b", []int64{groups}, bias...)},
		Node: []*pb.NodeProto{node1("Reshape", names("x", "there"), names("r")),
			node1("InstanceNormalization", names("r", "w", "b"), names("n"), attrFloat("epsilon", 0.1)),
			node1("Reshape", names("n", "back"), names("z")), node1("Neg", names("z"), names("y"))},
		Output: infos(info("y", tFloat)),
	})
}

// wantNegatedNorm returns the result of groupsModel. Each of the samples has one group for each weight.
func wantNegatedNorm(x []float32, samples int, weight, bias []float32) (y []float32) {
	size := len(x) / samples / len(weight) // elements of a group
	for i := 0; i < len(x); i += size {
		var sum, squares float64
		for _, v := range x[i : i+size] {
			sum += float64(v)
		}
		mean := sum / float64(size)
		for _, v := range x[i : i+size] {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
		group := i / size % len(weight)
		for _, v := range x[i : i+size] {
			scaled := (float64(v) - mean) / math.Sqrt(squares/float64(size)+0.1)
			y = append(y, -float32(scaled*float64(weight[group])+float64(bias[group])))
		}
	}
	return y
}

// A group normalization as exporters write it becomes one op, which fuses with the ops after it. If the last shape is
// another one, or the groups are not of channels, the nodes are converted as written.
func TestGroupsNormedAsExported(t *testing.T) {
	ones, zeros := []float32{1, 1, 1}, []float32{0, 0, 0}
	for _, c := range []struct {
		name         string
		batch        any
		there, back  []int64
		weight, bias []float32
		operands     int // of group_norm; 0 for none
	}{
		{"plain", 2, []int64{0, 3, -1}, []int64{2, 6, 4, 5}, ones, zeros, 1},
		{"rest", 2, []int64{0, 3, -1}, []int64{-1, 6, 4, 5}, ones, zeros, 1},
		{"scaled", 2, []int64{2, 3, 40}, []int64{2, 6, 4, 5}, []float32{1, 2, 3}, []float32{0, 5, -1}, 3},
		{"shifted", 2, []int64{2, 3, 40}, []int64{2, 6, 4, 5}, ones, []float32{0, 5, -1}, 3},
		{"any batch", "N", []int64{0, 3, -1}, []int64{0, 6, 4, 5}, ones, zeros, 1},
		{"other shape", 2, []int64{0, 3, -1}, []int64{2, 6, 20}, ones, zeros, 0},
		{"turned", 2, []int64{0, 3, -1}, []int64{2, 6, 5, 4}, ones, zeros, 0},
		{"across channels", 2, []int64{0, 4, -1}, []int64{2, 6, 4, 5}, []float32{1, 1, 1, 1}, []float32{0, 0, 0, 0}, 0},
		{"across samples", 2, []int64{4, 3, -1}, []int64{2, 6, 4, 5}, ones, zeros, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := counting(2, 6, 4, 5)
			for i, v := range floatsOf(t, x) {
				x.Set(tensor.FloatScalar(float64(int(v)*7919%31)), i/120, i/20%6, i/5%4, i%5)
			}
			g, err := toGraph(groupsModel(c.batch, 6, c.there, c.back, c.weight, c.bias), Options{})
			require.NoError(t, err)
			normed := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Name == "group_norm" })
			require.Equal(t, c.operands > 0, normed >= 0)
			if normed >= 0 {
				isNull := func(a graph.Arg) bool { return a.Kind == graph.Null }
				require.Len(t, slices.DeleteFunc(slices.Clone(g.Nodes[normed].In), isNull), c.operands)
			}
			p, err := passes.Run(g, passes.Options{})
			require.NoError(t, err)
			if normed >= 0 && loops.CodeAvailable() {
				require.Len(t, p.Graph.Nodes, 1, "the following op is fused")
			}
			got := run(t, groupsModel(c.batch, 6, c.there, c.back, c.weight, c.bias), map[string]*tensor.Tensor{"x": x})["y"]
			want := wantNegatedNorm(floatsOf(t, x), max(2, int(c.there[0])), c.weight, c.bias)
			require.InDeltaSlice(t, want, floatsOf(t, got), 1e-4)
		})
	}
}
