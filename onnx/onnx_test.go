package onnx

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

func TestOldBroadcastAlignsAtAxis(t *testing.T) {
	g := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Add", names("x", "b"), names("y"), attrInt("broadcast", 1), attrInt("axis", 1),
			attrInts("consumed_inputs", 0, 0))},
		Input:       infos(info("x", tFloat, 1, 2, 2), info("b", tFloat, 2)),
		Output:      infos(info("y", tFloat)),
		Initializer: []*pb.TensorProto{floats("b", []int64{2}, 10, 20)},
	}
	out := run(t, model(6, g), map[string]*tensor.Tensor{"x": f32([]int{1, 2, 2}, 1, 2, 3, 4)})
	require.Equal(t, []float32{11, 12, 23, 24}, floatsOf(t, out["y"]))
}

func TestOldSoftmaxJoinsDimensions(t *testing.T) {
	g := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Softmax", names("x"), names("y"))},
		Input:  infos(info("x", tFloat, 1, 2, 2)),
		Output: infos(info("y", tFloat)),
	}
	x := map[string]*tensor.Tensor{"x": f32([]int{1, 2, 2}, 0, 0, 0, 0)}
	require.Equal(t, []float32{.25, .25, .25, .25}, floatsOf(t, run(t, model(11, g), x)["y"]))
	require.Equal(t, []float32{.5, .5, .5, .5}, floatsOf(t, run(t, model(13, g), x)["y"]))
}

func TestUnservedOperatorsAreNamedTogether(t *testing.T) {
	g := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Frobnicate", names("x"), names("a")), node1("Frobnicate", names("a"), names("b")),
			{OpType: "Bias", Domain: "com.example", Input: names("b"), Output: names("c")},
			node1("Relu", names("c"), names("y"))},
		Input:  infos(info("x", tFloat, 1)),
		Output: infos(info("y", tFloat)),
	}
	_, err := toGraph(model(13, g), Options{})
	require.EqualError(t, err, "the model needs operators that are not supported: Frobnicate (2), com.example.Bias (1)")
}

func TestSimilarOperatorsAreSuggested(t *testing.T) {
	g := &pb.GraphProto{Node: []*pb.NodeProto{node1("Relux", names("x"), names("y"))}, Input: infos(info("x", tFloat, 1)),
		Output: infos(info("y", tFloat))}
	_, err := toGraph(model(13, g), Options{})
	require.EqualError(t, err, "the model needs operators that are not supported: Relux (1; did you mean Relu?)")
}

func TestTooManyAxesAreRefused(t *testing.T) {
	axes := make([]int64, 5000)
	for i := range axes {
		axes[i] = int64(i)
	}
	g := &pb.GraphProto{Node: []*pb.NodeProto{node1("Unsqueeze", names("x"), names("y"), attrInts("axes", axes...))},
		Input: infos(info("x", tFloat, 1)), Output: infos(info("y", tFloat))}
	_, err := toGraph(model(11, g), Options{})
	require.ErrorContains(t, err, "5001 dimensions are not supported")
}

func TestOldTileNeedsOneAxis(t *testing.T) {
	g := &pb.GraphProto{
		Node:        []*pb.NodeProto{node1("Tile", names("x", "tiles", "axis"), names("y"))},
		Input:       infos(info("x", tFloat, 2)),
		Output:      infos(info("y", tFloat)),
		Initializer: []*pb.TensorProto{protoOf(t, "tiles", i64([]int{1}, 2)), protoOf(t, "axis", i64([]int{0}))},
	}
	_, err := toGraph(model(5, g), Options{})
	require.ErrorContains(t, err, `"axis" has 0 elements, want 1`)
}

func TestErrorsNameTheNode(t *testing.T) {
	g := &pb.GraphProto{
		Node:   []*pb.NodeProto{{Name: "product", OpType: "MatMul", Input: names("x", "x"), Output: names("y")}},
		Input:  infos(info("x", tFloat, 2, 3)),
		Output: infos(info("y", tFloat)),
	}
	_, err := toGraph(model(13, g), Options{})
	require.ErrorContains(t, err, `node "product" (MatMul): `)
	require.ErrorContains(t, err, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)")
}

func TestOperatorSetsOutOfRange(t *testing.T) {
	for _, v := range []int64{0, -1, 29} {
		_, err := toGraph(model(v, &pb.GraphProto{}), Options{})
		require.ErrorContains(t, err, "is not supported: want 1 to 28")
	}
}

// flattening returns PyTorch's export of x.view(x.size(0), -1).
func flattening(batch any) *pb.GraphProto {
	return &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Shape", names("x"), names("s")),
			node1("Gather", names("s", "zero"), names("n"), attrInt("axis", 0)),
			node1("Unsqueeze", names("n"), names("n1"), attrInts("axes", 0)),
			node1("Concat", names("n1", "rest"), names("shape"), attrInt("axis", 0)),
			node1("Reshape", names("x", "shape"), names("y"))},
		Input:       infos(info("x", tFloat, batch, 2, 3)),
		Output:      infos(info("y", tFloat)),
		Initializer: []*pb.TensorProto{int64s("zero", nil, 0), int64s("rest", []int64{1}, -1)},
	}
}

func TestShapeComputationsFold(t *testing.T) {
	g, err := toGraph(model(11, flattening(4)), Options{})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 1)
	require.Equal(t, []int{4, 6}, g.Outputs[0].Value.Meta.Shape)
}

func TestSymbolsStay(t *testing.T) {
	g, err := toGraph(model(11, flattening("N")), Options{})
	require.NoError(t, err)
	require.Contains(t, g.Symbols, "N")
	require.Len(t, g.Nodes, 1)
	require.False(t, g.Dynamic())
	require.NoError(t, g.Bind(map[string]int{"N": 5}))
	require.Equal(t, []int{5, 6}, g.Outputs[0].Value.Meta.Shape)
}

func TestSymbolsCanBeFixed(t *testing.T) {
	for name, o := range map[string]Options{"dims": {Dims: map[string]int{"N": 7}},
		"shapes": {Shapes: map[string][]int{"x": {7, 2, 3}}}} {
		g, err := toGraph(model(11, flattening("N")), o)
		require.NoError(t, err, name)
		require.Empty(t, g.Symbols, name)
		require.Equal(t, []int{7, 6}, g.Outputs[0].Value.Meta.Shape, name)
	}
}

func TestShapeOfUnknownInput(t *testing.T) {
	_, err := toGraph(model(11, flattening("N")), Options{Shapes: map[string][]int{"X": {7, 2, 3}}})
	require.ErrorContains(t, err, `a shape is given for "X", but the model has no such input; did you mean x?`)
}

func TestAnonymousSizesAreSymbols(t *testing.T) {
	g, err := toGraph(model(11, flattening(nil)), Options{})
	require.NoError(t, err)
	require.Contains(t, g.Symbols, "x_dim0")
}

// TestReshapeOfTwoSymbols imports the reshape of attention's heads, with two symbolic sizes.
func TestReshapeOfTwoSymbols(t *testing.T) {
	at := func(i int64, out string) []*pb.NodeProto {
		return []*pb.NodeProto{node1("Gather", names("s", "i"+strconv.Itoa(int(i))), names(out))}
	}
	nodes := []*pb.NodeProto{node1("Shape", names("x"), names("s"))}
	nodes = append(append(nodes, at(0, "n")...), at(1, "t")...)
	nodes = append(nodes, node1("Concat", names("n", "t", "heads"), names("shape"), attrInt("axis", 0)),
		node1("Reshape", names("x", "shape"), names("h")),
		node1("Transpose", names("h"), names("y"), attrInts("perm", 0, 2, 1, 3)))
	g := &pb.GraphProto{Node: nodes, Input: infos(info("x", tFloat, "N", "T", 12)), Output: infos(info("y", tFloat)),
		Initializer: []*pb.TensorProto{int64s("i0", []int64{1}, 0), int64s("i1", []int64{1}, 1),
			int64s("heads", []int64{2}, 3, 4)}}
	converted, err := toGraph(model(13, g), Options{})
	require.NoError(t, err)
	require.False(t, converted.Dynamic())
	require.NoError(t, converted.Bind(map[string]int{"N": 2, "T": 5}))
	require.Equal(t, []int{2, 3, 5, 4}, converted.Outputs[0].Value.Meta.Shape)
}

func TestComputedShapeRunsPiecewise(t *testing.T) {
	g := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Reshape", names("x", "shape"), names("r")), node1("Relu", names("r"), names("y"))},
		Input:  infos(info("x", tFloat, 2, 3), info("shape", tInt64, 2)),
		Output: infos(info("y", tFloat)),
	}
	out := run(t, model(13, g), map[string]*tensor.Tensor{"x": f32([]int{2, 3}, -1, 2, -3, 4, -5, 6),
		"shape": i64([]int{2}, 3, -1)})
	require.Equal(t, []int{3, 2}, out["y"].Shape)
	require.Equal(t, []float32{0, 2, 0, 4, 0, 6}, floatsOf(t, out["y"]))
}

func TestFunctionsAreInlined(t *testing.T) {
	f := &pb.FunctionProto{Name: "Leak", Domain: "mine", Input: names("a"), Output: names("b"),
		Node:        []*pb.NodeProto{node1("LeakyRelu", names("a"), names("b"), attrRef("alpha", "slope"))},
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}}}
	call := node1("Leak", names("x"), names("y"), attrFloat("slope", 0.5))
	call.Domain = "mine"
	g := &pb.GraphProto{Node: []*pb.NodeProto{call}, Input: infos(info("x", tFloat, 2)), Output: infos(info("y", tFloat))}
	out := run(t, model(13, g, f), map[string]*tensor.Tensor{"x": f32([]int{2}, -2, 2)})
	require.Equal(t, []float32{-1, 2}, floatsOf(t, out["y"]))
}

// TestSharedFunctionAttribute checks a node with two attributes that refer to the same attribute of the function.
func TestSharedFunctionAttribute(t *testing.T) {
	f := &pb.FunctionProto{Name: "Gate", Domain: "mine", Input: names("a"), Output: names("b"),
		Node: []*pb.NodeProto{node1("HardSigmoid", names("a"), names("b"), attrRef("alpha", "both"),
			attrRef("beta", "both"))},
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}}}
	call := node1("Gate", names("x"), names("y"), attrFloat("both", 0.25))
	call.Domain = "mine"
	g := &pb.GraphProto{Node: []*pb.NodeProto{call}, Input: infos(info("x", tFloat, 2)), Output: infos(info("y", tFloat))}
	out := run(t, model(13, g, f), map[string]*tensor.Tensor{"x": f32([]int{2}, 1, -2)})
	require.Equal(t, []float32{0.5, 0}, floatsOf(t, out["y"]))
}

func TestFunctionsThatCallThemselves(t *testing.T) {
	call := node1("Again", names("a"), names("b"))
	call.Domain = "mine"
	f := &pb.FunctionProto{Name: "Again", Domain: "mine", Input: names("a"), Output: names("b"),
		Node:        []*pb.NodeProto{call},
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}, {Domain: "mine", Version: 1}}}
	g := &pb.GraphProto{Node: []*pb.NodeProto{call}, Input: infos(info("a", tFloat, 2)), Output: infos(info("b", tFloat))}
	_, err := toGraph(model(13, g, f), Options{})
	require.ErrorContains(t, err, "nested too deep")
}

func externalModel(location, offset, length string) *pb.ModelProto {
	w := &pb.TensorProto{Name: "w", DataType: int32(tFloat), Dims: []int64{2}, DataLocation: pb.External,
		ExternalData: []*pb.StringStringEntryProto{{Key: "location", Value: location}, {Key: "offset", Value: offset},
			{Key: "length", Value: length}}}
	return model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Add", names("x", "w"), names("y"))},
		Input: infos(info("x", tFloat, 2)), Output: infos(info("y", tFloat)), Initializer: []*pb.TensorProto{w}})
}

func loadFrom(t *testing.T, dir string, m *pb.ModelProto) (*graph.Graph, error) {
	t.Helper()
	data := pb.Marshal(m)
	path := filepath.Join(dir, "model.onnx")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return Load(path, Options{})
}

func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), append([]byte{0, 0, 0, 0}, rawFloats(1, 2)...), 0o600))
	g, err := loadFrom(t, dir, externalModel("w.bin", "4", "8"))
	require.NoError(t, err)
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{2}, 10, 20)})
	require.Equal(t, []float32{11, 22}, floatsOf(t, out["y"]))
}

func TestExternalDataIsConfined(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "w.bin"), rawFloats(1, 2), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), rawFloats(1, 2), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(outside, "w.bin"), filepath.Join(dir, "link.bin")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "folder")))
	for _, c := range [][4]string{
		{"link.bin", "0", "8", "outside the folder"},
		{"folder/w.bin", "0", "8", "outside the folder"},
		{"../" + filepath.Base(outside) + "/w.bin", "0", "8", "outside the folder"},
		{filepath.Join(outside, "w.bin"), "0", "8", "outside the folder"},
		{"w.bin", "4", "8", "pass the end"},
		{"w.bin", "-4", "8", "pass the end"},
		{"w.bin", "0", "4000000000", "dtype and shape need 8"},
		{"w.bin", "x", "8", `external data: offset "x": want a number of bytes`},
		{".", "0", "8", ".: this is a folder, not a file"},
		{"w.bin", "0", "-8", `external data: length "-8": want a number of bytes`},
		{"absent.bin", "0", "8", "external data: absent.bin: there is no such file"},
	} {
		_, err := loadFrom(t, dir, externalModel(c[0], c[1], c[2]))
		require.ErrorContains(t, err, c[3], c[0])
	}
}

func TestNotAModel(t *testing.T) {
	for _, data := range [][]byte{nil, []byte("PK\x03\x04 no model"), {0x08, 0x08}} {
		_, err := Parse(data, "")
		require.ErrorContains(t, err, "not an ONNX model")
		require.NotContains(t, err.Error(), "proto")
	}
	_, err := Parse([]byte("PK\x03\x04 no model"), "")
	require.EqualError(t, err, "not an ONNX model: it is a zip archive, as .npz files and PyTorch's .pt files are")
	_, err = Parse(nil, "")
	require.EqualError(t, err, "not an ONNX model: the file is empty")
	_, err = Open(t.Context(), filepath.Join(t.TempDir(), "none.onnx"))
	require.ErrorContains(t, err, "none.onnx: there is no such file")
	require.NotContains(t, err.Error(), "open")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestEmptyModelIsRefused(t *testing.T) {
	for _, m := range []*Model{nil, {}} {
		_, err := m.Graph(Options{})
		require.EqualError(t, err, "the model is empty: Open, Read or Parse returns a model")
		_, _, err = m.GraphSome(Options{})
		require.EqualError(t, err, "the model is empty: Open, Read or Parse returns a model")
		_, err = m.Signature()
		require.EqualError(t, err, "the model is empty: Open, Read or Parse returns a model")
		require.Equal(t, "N", m.Symbol("N"))
	}
}
