package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/catalogue"
	"github.com/graphrun/graphrun/cli/internal/check"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
)

type checkDoc struct {
	Version int `json:"version"`
	check.Document
}

// checkFails returns the document of a file that cannot run.
func checkFails(t *testing.T, path string) checkDoc {
	t.Helper()
	r := call(t, "check", path, "--json")
	doc := decode[checkDoc](t, r.out)
	if r.code != exit.CodeFailed || doc.Version != 1 || doc.Runs {
		t.Fatalf("exit %d: %+v\n%s", r.code, doc, r.errors)
	}
	return doc
}

// TestCheckListsEverythingMissing checks a model with an unknown operator, a damaged weight and a missing file. Nodes
// that only depend on these are not listed.
func TestCheckListsEverythingMissing(t *testing.T) {
	path := troubledONNX(t)
	doc := checkFails(t, path)
	if len(doc.Missing) != 1 || doc.Missing[0].Op != "NoSuch" || !slices.Equal(doc.Missing[0].Nodes, []string{"odd"}) {
		t.Errorf("%+v", doc.Missing)
	}
	var messages []string
	for _, m := range doc.Rejected {
		messages = append(messages, m.Message)
	}
	all := strings.Join(messages, "\n")
	for _, want := range []string{`initializer "bad": 1 numbers of data`, `initializer "far": external data`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nwant %s", all, want)
		}
	}
	if strings.Contains(all, "depends on") || strings.Contains(all, "NoSuch") {
		t.Error(all)
	}
	text := call(t, "check", path)
	if text.code != exit.CodeFailed || !strings.Contains(text.out, "NoSuch") || !strings.Contains(text.out, `"bad"`) {
		t.Errorf("exit %d\n%s", text.code, text.out)
	}
}

func TestCheckSuggestsOperators(t *testing.T) {
	node := &onnxpb.NodeProto{Name: "a", OpType: "Relux", Input: []string{"x"}, Output: []string{"y"}}
	model := func(version int64) string {
		return write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
			OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: version}},
			Graph:       &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node}}})))
	}
	want := check.Missing{Op: "Relux", Nodes: []string{"a"}, DidYouMean: "Relu"}
	doc := checkFails(t, model(13))
	if len(doc.Missing) != 1 || doc.Missing[0].DidYouMean != want.DidYouMean || doc.Missing[0].Op != want.Op {
		t.Errorf("%+v", doc.Missing)
	}
	if len(doc.Rejected) != 0 {
		t.Errorf("%+v", doc.Rejected)
	}
	if doc := checkFails(t, model(99)); len(doc.Rejected) != 1 ||
		!strings.Contains(doc.Rejected[0].Message, "operator set 99 is not supported") {
		t.Errorf("%+v", doc)
	}
}

// TestCheckBehindMissingOperators checks nodes whose operands are results of an unsupported operator. An error that
// another type of the operand would avoid is not listed, unless the model declares the type.
func TestCheckBehindMissingOperators(t *testing.T) {
	text := func(name, value string) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeString, S: []byte(value)}
	}
	node := func(op, in, out string, attrs ...*onnxpb.AttributeProto) *onnxpb.NodeProto {
		return &onnxpb.NodeProto{Name: out, OpType: op, Input: strings.Fields(in), Output: []string{out}, Attribute: attrs}
	}
	g := &onnxpb.GraphProto{Node: []*onnxpb.NodeProto{node("NoSuch", "", "a"), node("Relu", "a", "b"),
		node("GridSample", "b b", "c", text("mode", "nearesd")),
		node("Cast", "b", "d", &onnxpb.AttributeProto{Name: "to", Type: onnxpb.AttributeInt, I: 99}),
		node("Not", "b", "e"), node("Reshape", "c b", "f"), node("SequenceLength", "b", "g"), node("MatMul", "b d", "h"),
		node("Conv", "b d", "i", text("auto_pad", "SAME"))}}
	for _, name := range strings.Fields("c d e f g h i") {
		g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: name})
	}
	model := func() string {
		return write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8, Graph: g,
			OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 17}}})))
	}
	path := model()
	requireRejected(t, path, "c", "d")
	for _, want := range []string{"NoSuch", `node "c" (GridSample): mode "nearesd" is not supported; did you mean nearest?`,
		`node "d" (Cast): attribute "to"`} {
		if out := call(t, "check", path).out; !strings.Contains(out, want) {
			t.Errorf("%s\nwant %s", out, want)
		}
	}
	declared := func(name string, sizes ...any) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, size := range sizes {
			dim := &onnxpb.Dimension{DimParam: "N"}
			if n, ok := size.(int); ok {
				dim = &onnxpb.Dimension{DimValue: new(int64)}
				*dim.DimValue = int64(n)
			}
			shape.Dim = append(shape.Dim, dim)
		}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{TensorType: &onnxpb.TensorType{
			ElemType: int32(onnxpb.Float), Shape: shape}}}
	}
	g.ValueInfo = []*onnxpb.ValueInfoProto{declared("b", "N", 3, 8, 8), declared("d", 4, 3, 5, 5)}
	requireRejected(t, model(), "c", "d", "i")
}

// requireRejected checks that one operator is missing, and the names of the rejected nodes.
func requireRejected(t *testing.T, path string, want ...string) {
	t.Helper()
	doc := checkFails(t, path)
	var rejected []string
	for _, m := range doc.Rejected {
		rejected = append(rejected, m.Node)
	}
	if len(doc.Missing) != 1 || !slices.Equal(rejected, want) {
		t.Errorf("%+v, want %v", doc, want)
	}
}

func TestCheckGraphFiles(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
		"nodes": [{"name": "a", "op": "rleu", "inputs": ["x"]}, {"name": "b", "op": "relu", "inputs": ["a"]},
			{"name": "c", "op": "view", "inputs": ["x"], "attrs": {"size": [3]}}],
		"outputs": ["b", "c"]}`)
	doc := checkFails(t, path)
	if len(doc.Missing) != 1 || doc.Missing[0].DidYouMean != "relu" || len(doc.Rejected) != 1 ||
		doc.Rejected[0].Node != "c" {
		t.Errorf("%+v", doc)
	}
	if out := succeed(t, "check", "../examples/models/residual.json"); !strings.Contains(out, "nothing is missing") {
		t.Error(out)
	}
	if r := call(t, "check", write(t, "none.onnx", "no model")); r.code != exit.CodeUsage {
		t.Errorf("exit %d", r.code)
	}
}

type operatorsDoc struct {
	Version int `json:"version"`
	catalogue.OperatorsDocument
}

func TestOperatorsOfModels(t *testing.T) {
	all := decode[operatorsDoc](t, succeed(t, "ops", "--onnx", "--json"))
	if all.Version != 1 || len(all.Operators) < 200 {
		t.Errorf("version %d, %d operators", all.Version, len(all.Operators))
	}
	for _, o := range all.Operators {
		if o.Since < 1 || o.Restrictions == nil {
			t.Errorf("%+v", o)
		}
	}
	some := decode[operatorsDoc](t, succeed(t, "ops", "--onnx", "RotaryEmbedding", "--json"))
	if len(some.Operators) != 2 || some.Operators[0].Since != 23 || some.Operators[1].Domain != "com.microsoft" ||
		len(some.Operators[1].Restrictions) == 0 {
		t.Errorf("%+v", some.Operators)
	}
	if out := succeed(t, "ops", "--onnx", "--search", "qlinear"); !strings.Contains(out, "QLinearAdd") ||
		strings.Contains(out, "Relux") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--kind", "view"}, {"Relux"}} {
		if r := call(t, append([]string{"ops", "--onnx"}, args...)...); r.code != exit.CodeUsage {
			t.Errorf("%v: exit %d", args, r.code)
		}
	}
}

type missingDoc struct {
	Version int `json:"version"`
	catalogue.MissingDocument
}

// TestMissingNames checks that the list has no op and that reasons and patterns select names.
func TestMissingNames(t *testing.T) {
	all := decode[missingDoc](t, succeed(t, "ops", "--missing", "--json"))
	if all.Version != 1 || all.Names != 571 || len(all.Missing) == 0 || all.Names-len(all.Missing) < 275 {
		t.Errorf("version %d, %d of %d names are missing", all.Version, len(all.Missing), all.Names)
	}
	reasons := map[string]string{}
	for _, m := range all.Missing {
		reasons[m.Name] = m.Reason
		if m.Reason == "" || slices.Contains(catalogued(), m.Name) {
			t.Errorf("%+v", m)
		}
	}
	for _, name := range []string{"add", "clamp", "special.expit", "nn.functional.relu", "float"} {
		if reasons[name] != "" {
			t.Errorf("%s is missing", name)
		}
	}
	some := decode[missingDoc](t, succeed(t, "ops", "--missing", "masked.*", "--search", "prototype", "--json"))
	if len(some.Missing) == 0 || slices.ContainsFunc(some.Missing, func(m catalogue.MissingName) bool {
		return !strings.HasPrefix(m.Name, "masked.")
	}) {
		t.Errorf("%+v", some.Missing)
	}
	if out := succeed(t, "ops", "--missing"); !strings.Contains(out, "\nto_sparse ") ||
		!strings.Contains(out, " there are no sparse tensors\n") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--kind", "view"}, {"--onnx"}, {"relu"}} {
		if r := call(t, append([]string{"ops", "--missing"}, args...)...); r.code != exit.CodeUsage {
			t.Errorf("%v: exit %d", args, r.code)
		}
	}
}
