package onnx

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/halftest"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// needSizes lists cases, inputs and dimensions that must be known when a model is converted, with the error's text.
var needSizes = map[string]string{
	"control/scan of a batch zero 0": "size 0 of \"zero\" must be known before the graph runs", // it is unrolled
	"control/sequence map x 0":       "a sequence of unknown length is not supported",
}

// withHints converts models for other hints.
func withHints(t *testing.T, sizes ...int) {
	old := convert.Hints
	convert.Hints = nil
	for _, n := range sizes {
		convert.Hints = append(convert.Hints, convert.HintSet{First: n})
	}
	t.Cleanup(func() { convert.Hints = old })
}

// TestVectorsOfUnknownSizes makes each dimension of each input of each case symbolic, converts the model for other
// sizes if it accepts others, and runs it for the size of the case.
func TestVectorsOfUnknownSizes(t *testing.T) {
	opened, needed, step := 0, 0, testsize.Of(4, 1)
	for _, v := range vectors(t) {
		m, err := Parse(v.model, "")
		require.NoError(t, err, v.name)
		if g, err := m.Graph(Options{}); err != nil || len(g.Symbols) > 0 {
			continue // what TestVectors binds
		}
		var proto pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &proto), v.name)
		for _, in := range proto.Graph.Input {
			for d, dim := range in.Shape().Dim {
				if dim.DimValue == nil || *dim.DimValue < 2 {
					continue
				}
				n := int(*dim.DimValue)
				opened++
				name := fmt.Sprintf("%s %s %d", v.name, in.Name, d)
				if needSizes[name] == "" && opened%step > 0 {
					continue
				}
				dims := in.Shape().Dim
				dims[d] = &pb.Dimension{DimParam: "S"}
				open, err := Parse(pb.Marshal(&proto), "")
				require.NoError(t, err, name)
				dims[d] = dim
				withHints(t, n+1, 2*n, 3*n, n)
				switch err, want := v.checkOpen(open), needSizes[name]; {
				case want == "":
					assert.NoError(t, err, name)
				default:
					needed++
					assert.ErrorContains(t, err, want, name)
				}
			}
		}
	}
	require.Greater(t, opened, 2000)
	require.Equal(t, len(needSizes), needed, "cases that are not there need no sizes")
}

// TestResizeByAFactorOfUnknownSizes resizes by a factor whose products in float32 are those of a fraction up to some
// size. The size of the result is an expression, and the symbol is bounded by that size, or a guard is recorded if the
// size is below 2^16.
func TestResizeByAFactorOfUnknownSizes(t *testing.T) {
	for scale, most := range map[float32]int{0.6: 1 << 20, 1.37: 0} {
		p := &pb.GraphProto{Initializer: []*pb.TensorProto{floats("scales", []int64{4}, 1, 1, scale, scale)},
			Node: []*pb.NodeProto{node1("Resize", names("x", "", "scales"), names("y"), attrText("mode", "linear")),
				node1("Relu", names("y"), names("z"))},
			Input: infos(info("x", tFloat, "N", 2, "H", "W")), Output: infos(info("z", tFloat, nil))}
		m := model(13, p)
		g, err := toGraph(m, Options{})
		require.NoError(t, err)
		require.False(t, g.Dynamic())
		require.Equal(t, graph.Bounds{Max: most}, g.Symbols["H"])
		s, err := g.Symbolic(map[string]int{"N": 2, "H": 7, "W": 8})
		require.NoError(t, err)
		for _, guard := range s.Guards {
			require.Empty(t, guard.Binds, "%v", guard.Cond)
		}
		forSizes(t, m, map[string]*tensor.Tensor{"x": ramp(1, 2, 5, 10)}, map[string]int{"N": 1, "H": 5, "W": 10})
	}
}

// TestResizeKeepsOpenDimensions: sizes that are equal to those of the input are not attributes of the resize.
func TestResizeKeepsOpenDimensions(t *testing.T) {
	p := &pb.GraphProto{Node: []*pb.NodeProto{
		node1("Shape", names("x"), names("rows"), attrInt("end", 2)),
		node1("Shape", names("image"), names("size"), attrInt("start", 2)),
		node1("Concat", names("rows", "size"), names("sizes"), attrInt("axis", 0)),
		node1("Resize", names("x", "", "", "sizes"), names("z"), attrText("mode", "linear"))},
		Input:  infos(info("x", tFloat, "N", 2, "H", "W"), info("image", tFloat, "N", 3, "A", "B")),
		Output: infos(info("z", tFloat, nil))}
	m := model(15, p)
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	attrs := g.Outputs[0].Value.Node.AttrsAsGiven()
	require.Equal(t, []int{2, 3}, maps.Collect(attrs)["axes"])
	require.Equal(t, []any{"A", "B"}, maps.Collect(attrs)["sizes"])
	forSizes(t, m, map[string]*tensor.Tensor{"x": ramp(2, 2, 5, 10), "image": ramp(2, 3, 7, 1)},
		map[string]int{"N": 2, "H": 5, "W": 10, "A": 7, "B": 1})
}

// TestTypesOfComputedTopK takes as many values as a vector of open length says. The dtypes are known, so CastLike
// converts.
func TestTypesOfComputedTopK(t *testing.T) {
	g, err := toGraph(model(17, &pb.GraphProto{
		Node: []*pb.NodeProto{node1("TopK", names("x", "k"), names("values", "at")),
			node1("CastLike", names("values", "at"), names("y"))},
		Input: infos(info("x", tFloat, 4), info("k", tInt64, "one")), Output: infos(info("y", tInt64))}), Options{})
	require.NoError(t, err)
	require.NoError(t, g.Bind(map[string]int{"one": 1}))
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{4}, 1.5, 4.5, -2, 3.5), "k": i64([]int{1}, 2)})
	require.Equal(t, []int64{4, 3}, intsOf(t, out["y"]))
}

// TestHalfOfUnknownSize checks that an operator that is computed in float32 rounds a result whose dtype inference does
// not know, because its sizes are those of the run.
func TestHalfOfUnknownSize(t *testing.T) {
	g, err := toGraph(model(18, &pb.GraphProto{Node: []*pb.NodeProto{node1("Col2Im", names("x", "image", "block"), names("y"))},
		Input:       infos(info("x", pb.BFloat16, 1, 4, 1), info("image", tInt64, 2)),
		Initializer: []*pb.TensorProto{int64s("block", []int64{2}, 2, 2)}, Output: infos(info("y", pb.BFloat16))}), Options{})
	require.NoError(t, err)
	x := f32([]int{1, 4, 1}, 1, 2, 3, 4).CopyTo(tensor.New(tensor.BFloat16, 1, 4, 1))
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": x, "image": i64([]int{2}, 2, 2)})
	require.Equal(t, tensor.BFloat16, out["y"].DType)
	require.Equal(t, []float64{1, 2, 3, 4}, halftest.Float64s(out["y"]))
}
