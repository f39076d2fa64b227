package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// colours is a model that looks strings up: outputs are the strings, and a map of each row of numbers.
func colours(t *testing.T) string {
	t.Helper()
	info := func(name string, of onnxpb.DataType) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.Dimension{{DimParam: "N"}, {DimValue: new(int64(2))}}}
		return &onnxpb.ValueInfoProto{Name: name,
			Type: &onnxpb.TypeProto{TensorType: &onnxpb.TensorType{ElemType: int32(of), Shape: shape}}}
	}
	texts := func(name string, list ...string) *onnxpb.AttributeProto {
		a := &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeStrings}
		for _, s := range list {
			a.Strings = append(a.Strings, []byte(s))
		}
		return a
	}
	node := func(op, in, out string, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{Name: out, OpType: op, Domain: "ai.onnx.ml", Input: []string{in}, Output: []string{out},
			Attribute: attrs}
	}
	keys := texts("keys_strings", "red", "green")
	return write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}, {Domain: "ai.onnx.ml", Version: 3}},
		Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{node("LabelEncoder", "colour", "word", keys, texts("values_strings", "stop", "go")),
				node("LabelEncoder", "colour", "number", keys, &onnxpb.AttributeProto{Name: "values_floats",
					Type: onnxpb.AttributeFloats, Floats: []float32{1, 2}}),
				node("ZipMap", "number", "maps", texts("classlabels_strings", "a", "b"))},
			Input:  []*onnxpb.ValueInfoProto{info("colour", onnxpb.String)},
			Output: []*onnxpb.ValueInfoProto{info("word", onnxpb.String), info("maps", onnxpb.Float)},
		}})))
}

// TestStringsOfModels runs a model with strings from a file, and checks its text, JSON and .npz outputs.
func TestStringsOfModels(t *testing.T) {
	path := colours(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "colour.npy"))
	require.NoError(t, err)
	require.NoError(t, npz.WriteStrings(file, []string{"green", "red", "violet", "red", "red", "red"}, []int{3, 2}))
	require.NoError(t, file.Close())
	outPath := filepath.Join(t.TempDir(), "out.npz")
	args := []string{"run", path, "--input", "colour=" + file.Name()}
	require.Equal(t, `word  int64    [3,2]  strides [2,1]  strings "go", "stop", "_Unused", "stop" and 2 more
maps  float32  [3,2]  strides [2,1]  maps {a: 2, b: 1}, {a: -0, b: 1}, {a: 1, b: 1}
`, succeed(t, append(args, "--outputs", outPath)...))
	doc := decode[struct {
		Version int             `json:"version"`
		Outputs []run.OutputDoc `json:"outputs"`
	}](t, succeed(t, append(args, "--json")...))
	want := []string{"go", "stop", "_Unused", "stop", "stop", "stop"}
	require.Equal(t, want, doc.Outputs[0].Strings)
	require.Nil(t, doc.Outputs[0].Maps)
	require.Nil(t, doc.Outputs[0].Min)
	require.Len(t, doc.Outputs[1].Maps, 3)
	require.Equal(t, 2.0, *doc.Outputs[1].Maps[0]["a"])
	out, err := npz.ReadFile(outPath)
	require.NoError(t, err)
	got, err := npz.Strings(out["word"])
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Contains(t, succeed(t, "run", path, "--seed", "1"), "strings ") // generated codes stand for strings

	converted := filepath.Join(t.TempDir(), "m.json")
	r := call(t, "convert", path, converted)
	require.Zero(t, r.code)
	require.Contains(t, r.errors, "graph files have no maps; the results maps are numbers")
	args[1] = converted
	doc = decode[struct {
		Version int             `json:"version"`
		Outputs []run.OutputDoc `json:"outputs"`
	}](t, succeed(t, append(args, "--json")...))
	require.Equal(t, want, doc.Outputs[0].Strings)
}

// TestUnknownStrings runs a model that moves and compares strings that it does not know, and reads its .npz file.
func TestUnknownStrings(t *testing.T) {
	info := func(name string, of onnxpb.DataType) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.Dimension{{DimParam: "N"}}}
		return &onnxpb.ValueInfoProto{Name: name,
			Type: &onnxpb.TypeProto{TensorType: &onnxpb.TensorType{ElemType: int32(of), Shape: shape}}}
	}
	path := write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 19}},
		Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{
				{Name: "c", OpType: "Concat", Input: []string{"x", "y"}, Output: []string{"c"},
					Attribute: []*onnxpb.AttributeProto{{Name: "axis", Type: onnxpb.AttributeInt}}},
				{Name: "e", OpType: "Equal", Input: []string{"x", "y"}, Output: []string{"e"}}},
			Input:  []*onnxpb.ValueInfoProto{info("x", onnxpb.String), info("y", onnxpb.String)},
			Output: []*onnxpb.ValueInfoProto{info("c", onnxpb.String), info("e", onnxpb.Bool)},
		}})))
	args := []string{"run", path, "--outputs", filepath.Join(t.TempDir(), "out.npz")}
	for name, texts := range map[string][]string{"x": {"ab", "ä"}, "y": {"ab", "b"}} {
		file, err := os.Create(filepath.Join(t.TempDir(), name+".npy"))
		require.NoError(t, err)
		require.NoError(t, npz.WriteStrings(file, texts, []int{2}))
		require.NoError(t, file.Close())
		args = append(args, "--input", name+"="+file.Name())
	}
	require.Contains(t, succeed(t, args...), `strings "ab", "ä", "ab", "b"`)
	out, err := npz.ReadFile(args[3])
	require.NoError(t, err)
	list, err := npz.Strings(out["c"])
	require.NoError(t, err)
	require.Equal(t, []string{"ab", "ä", "ab", "b"}, list)
	equal, err := tensor.ToSlice[bool](out["e"])
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, equal)
}

// TestStringsForNumbers checks that an input of numbers rejects strings.
func TestStringsForNumbers(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "int64", "shape": [2]}],
		"nodes": [{"name": "y", "op": "neg", "inputs": ["x"]}], "outputs": ["y"]}`)
	var b bytes.Buffer
	require.NoError(t, npz.WriteNPZ(&b, []npz.Entry{{Name: "x", Tensor: tensor.Zeros(tensor.Int64, 2),
		Strings: []string{"a", "b"}}}))
	r := call(t, "run", path, "--inputs", write(t, "in.npz", b.String()))
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errors, `input "x": the file holds strings or uint32[2, 1], the graph wants int64[2]`)
}

// TestGeneratedStrings runs a graph that computes strings and lists none, with inputs in two layouts: generated strings
// and those of a file are known to the run.
func TestGeneratedStrings(t *testing.T) {
	for _, strides := range []string{"[2, 1]", "[1, 2]"} {
		path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "string", "shape": [2, 2], "strides": `+
			strides+`}], "nodes": [{"name": "y", "op": "string_concat", "inputs": ["x", "x"]}], `+
			`"outputs": [{"value": "y", "dtype": "string"}]}`)
		require.Regexp(t, `strings "\d\d", "\d\d", "\d\d", "\d\d"`, succeed(t, "run", path))
		succeed(t, "bench", path, "--runs", "1")
		file, err := os.Create(filepath.Join(t.TempDir(), "x.npy"))
		require.NoError(t, err)
		require.NoError(t, npz.WriteStrings(file, []string{"a", "b", "c", "d"}, []int{2, 2}))
		require.NoError(t, file.Close())
		require.Contains(t, succeed(t, "run", path, "--input", "x="+file.Name()), `strings "aa", "bb", "cc", "dd"`)
	}
}
