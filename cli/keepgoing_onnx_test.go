package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// troubledONNX is a model with an unknown operator, a damaged weight, a weight in a missing file, an input y, and an
// output behind each.
func troubledONNX(t *testing.T) string {
	t.Helper()
	info := func(name string, dims ...any) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, d := range dims {
			dim := &onnxpb.Dimension{}
			switch x := d.(type) {
			case int:
				dim.DimValue = new(int64(x))
			case string:
				dim.DimParam = x
			}
			shape.Dim = append(shape.Dim, dim)
		}
		of := &onnxpb.TensorType{ElemType: int32(onnxpb.Float), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name,
			Type: &onnxpb.TypeProto{TensorType: of}}
	}
	node := func(name, op, out string, in ...string) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{Name: name, OpType: op, Input: in, Output: []string{out}}
	}
	weight := func(name string, data ...float32) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.Float), Dims: []int64{2}, FloatData: data}
	}
	far := weight("far")
	far.DataLocation = onnxpb.External
	far.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: "none.bin"}}
	data := onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}},
		Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{node("neg", "Neg", "n", "x"), node("odd", "NoSuch", "u", "x"),
				node("then", "Relu", "r", "u"),
				node("weigh", "Add", "a", "n", "bad"), node("off", "Add", "f", "n", "far"), node("scale", "Mul", "s", "x", "good"),
				node("shape", "Shape", "ys", "y"), node("flat", "Expand", "e", "x", "ys")},
			Initializer: []*onnxpb.TensorProto{weight("bad", 1), weight("good", 2, 3), far},
			Input:       []*onnxpb.ValueInfoProto{info("x", 2), info("y", "M", 2)},
			Output:      []*onnxpb.ValueInfoProto{info("n"), info("r"), info("a"), info("f"), info("s"), info("e")},
		}})
	return write(t, "m.onnx", string(data))
}

func TestKeepGoingPastWhatModelsHaveWrong(t *testing.T) {
	path := troubledONNX(t)
	x := npyFile(t, counted(tensor.Float32, 2))
	y := npyFile(t, counted(tensor.Float32, 3, 2))
	told := []string{"graphrun: " + path + `: initializer "bad": 1 numbers of data`, `initializer "far": external data`,
		`node "odd" (NoSuch): the operator is not supported`,
		`node "weigh" (Add): depends on initializer "bad", which cannot be read`,
		`node "off" (Add): depends on initializer "far"`,
		`output "r" is left out: it depends on node "odd"`, `output "a" is left out: it depends on node "weigh"`}
	for _, c := range []struct {
		args, made string
		more       []string
	}{
		{"", "n s e", nil},
		{"--input x=" + x + " --input y=" + y, "n s e", nil},
		{"--input x=" + x + " --input y=nowhere.npy", "n s",
			[]string{`input "y": nowhere.npy`, `output "e" is left out: it depends on node "shape"`}},
		{"--input x=" + x + " --input y=" + x, "n s",
			[]string{`input "y": the file holds float32[2], the graph wants float32[M, 2]`}},
	} {
		out := filepath.Join(t.TempDir(), "out.npz")
		args := append([]string{"run", path, "--outputs", out}, strings.Fields(c.args)...)
		r := call(t, append(args, "--keep-going")...)
		got, err := npz.ReadFile(out)
		if r.code != exit.CodeFailed || err != nil || len(got) != len(strings.Fields(c.made)) {
			t.Errorf("%s: exit %d, made %v, %v\n%s", c.args, r.code, got, err, r.errors)
		}
		for _, name := range strings.Fields(c.made) {
			if got[name] == nil {
				t.Errorf("%s: no %s", c.args, name)
			}
		}
		for _, want := range append(c.more, told...) {
			if !strings.Contains(r.errors, want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, r.errors)
			}
		}
		r = call(t, append(args, "--keep-going", "--json")...)
		if doc := decode[runOmissions](t, r.out); len(doc.Outputs)+len(doc.LeftOut) != 6 {
			t.Errorf("%s: %+v", c.args, doc)
		}
		valid(t, "run", r.out)
		if r := call(t, args...); r.code != exit.CodeUsage || r.out != "" {
			t.Errorf("%s without --keep-going: exit %d", c.args, r.code)
		}
	}
	r := call(t, "run", path, "--input", "y="+y, "--keep-going")
	if r.code != exit.CodeFailed || r.out != "" || !strings.Contains(r.errors, `input "x": it is missing`) ||
		strings.Count(r.errors, "is left out") != 6 {
		t.Errorf("without x: exit %d\n%s%s", r.code, r.out, r.errors)
	}
	r = call(t, "infer", path, "--keep-going", "--json")
	if r.code != exit.CodeFailed || !strings.Contains(r.out, `"name": "s"`) || strings.Contains(r.out, `"name": "r"`) ||
		!strings.Contains(r.out, `"node": "odd", "op": "NoSuch"`) || !strings.Contains(r.out, `initializer \"bad\"`) {
		t.Errorf("infer: exit %d\n%s", r.code, r.out)
	}
	valid(t, "infer", r.out)
	if r := call(t, "run", write(t, "torn.onnx", string(read(t, path)[:40])), "--keep-going"); r.code != exit.CodeUsage {
		t.Errorf("a torn model: exit %d", r.code)
	}
}
