package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
)

// renamed is a strategy under a name of its own.
type renamed struct{ graphrun.Strategy }

func (renamed) Name() string { return "mine" }

// doubled is an op that multiplies by 2.
func doubled(t *testing.T) *graph.Op {
	t.Helper()
	o, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "doubled", Doc: "Multiplies by 2.", Params: []graph.Param{{Name: "x"}},
			Schema: graph.SchemaOf[struct{}](), NoRef: "a test",
		},
		Lowerings: graph.Lowerings{
			Pointwise: &graph.Pointwise{
				Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
					return rule.UnaryFloat(outs[0], c.In[0].Operand()), nil
				},
				Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
					return iter.Map1(func(x float32) float32 { return 2 * x }), nil
				},
			},
		},
	})
	require.NoError(t, err)
	return o
}

// Commands work with a strategy, an op and a pass of the user.
func TestExtensions(t *testing.T) {
	pass := passes.Pass{Name: "observed", Doc: "counts nodes", Run: func(p *passes.Plan) error {
		p.Note("%d nodes observed", len(p.Graph.Nodes))
		return nil
	}}
	again := pass
	again.Name, again.After, again.Run = "again", "observed", func(p *passes.Plan) error {
		p.Note("observed again")
		return nil
	}
	file := write(t, "own.json", `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 5], "memory_format": "channels_last"}],
 "nodes": [{"name": "twice", "op": "doubled", "inputs": ["x"]}, {"name": "y", "op": "relu", "inputs": ["twice"]}],
 "outputs": ["y"]}`)
	assert.NotZero(t, call(t, "plan", file, "--strategy", "mine").code, "without extensions")
	ext := extend(t, WithStrategy(renamed{graphrun.Contiguous}), WithOps(doubled(t)), WithPasses(pass), WithPasses(again))
	picture := t.TempDir() + "/own.html"
	for _, c := range []struct{ line, want string }{
		{"run " + file + " --strategy mine", "float32"},
		{"infer " + file, "doubled"},
		{"plan " + file + " --strategy mine", "2 nodes observed"},
		{"plan " + file, "observed again"},
		{"explain " + file + " twice --strategy mine", "mine"},
		{"bench " + file + " --strategy mine --runs 2 --profile", "mine"},
		{"compare " + file + " --runs 2", "mine"},
		{"diff " + file + " --strategies propagate,mine", "mine"},
		{"view " + file + " -o " + picture + " --strategy mine", ""},
		{"ops doubled", "Multiplies by 2."},
		{"ops", "doubled"},
		{"plan --help", "mine"},
	} {
		r := callIn(t, t.Context(), ext, strings.Fields(c.line)...)
		assert.Zero(t, r.code, "%s: %s", c.line, r.errors)
		assert.Contains(t, r.out, c.want, c.line)
	}
	r := callIn(t, t.Context(), ext, "plan", file, "--strategy", "mime")
	assert.Contains(t, r.errors, "did you mean mine?")
}

// Commands convert an added ONNX operator.
func TestAddedOperators(t *testing.T) {
	x := &onnxpb.TypeProto{TensorType: &onnxpb.TensorType{ElemType: int32(onnxpb.Float),
		Shape: &onnxpb.TensorShapeProto{Dim: []*onnxpb.Dimension{{DimValue: new(int64(2))}}}}}
	file := write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 17}, {Domain: "com.example", Version: 1}},
		Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{{Name: "twice", OpType: "Twice", Domain: "com.example", Input: []string{"x"},
				Output: []string{"y"}}},
			Input:  []*onnxpb.ValueInfoProto{{Name: "x", Type: x}},
			Output: []*onnxpb.ValueInfoProto{{Name: "y"}}}})))
	ext := extend(t, WithOperators(onnx.Operators{"com.example": {"Other": onnx.As("relu")}}), WithOperators(
		onnx.Operators{"com.example": {"Twice": func(n onnx.Node) ([]onnx.Value, error) {
			return n.Apply("add", nil, n.Inputs()[0], n.Inputs()[0])
		}}}))
	for _, line := range []string{"run " + file, "plan " + file, "check " + file, "ops --onnx Twice Other"} {
		assert.NotZero(t, call(t, strings.Fields(line)...).code, "without the operator: %s", line)
		r := callIn(t, t.Context(), ext, strings.Fields(line)...)
		assert.Zero(t, r.code, "%s: %s", line, r.errors)
	}
	for _, rejected := range []onnx.Operators{{"": {"Add": onnx.As("add")}}, {"com.example": {"None": nil}}} {
		_, err := extensionsOf([]Option{WithOperators(rejected)})
		assert.ErrorContains(t, err, "cli.WithOperators")
	}
}

// own is a command that prints its name, or fails.
func own(name string, err error) *cobra.Command {
	return &cobra.Command{Use: name, RunE: func(c *cobra.Command, _ []string) error {
		c.Println(c.Name())
		return err
	}}
}

// An added command runs, and its errors are failures.
func TestAddedCommand(t *testing.T) {
	ext := extend(t, WithCommand(own("own", nil)), WithCommand(own("bad", errors.New("it failed"))))
	assert.Zero(t, callIn(t, t.Context(), ext, "own").code)
	r := callIn(t, t.Context(), ext, "bad")
	assert.Equal(t, exit.CodeFailed, r.code)
	assert.Contains(t, r.errors, "it failed")
	assert.Contains(t, callIn(t, t.Context(), ext, "--help").out, "bad")
}

// group is a strategy with the name of a group of strategies.
type group struct{ graphrun.Strategy }

func (group) Name() string { return "published" }

// Names that exist already are errors.
func TestExtensionsRefuse(t *testing.T) {
	o := doubled(t)
	extended, err := graph.Extend(kernels.Lookup("relu"))
	require.NoError(t, err)
	again, err := graph.Extend(o)
	require.NoError(t, err)
	for _, options := range [][]Option{
		{WithStrategy(nil)}, {WithStrategy(graphrun.Optimal)}, {WithOps(nil)}, {WithOps(o, o)},
		{WithOps(extended, extended)}, {WithOps(o, again)},
		{WithStrategy(renamed{graphrun.Optimal}), WithStrategy(renamed{graphrun.Propagate})},
		{WithStrategy(group{graphrun.Optimal})}, {WithCommand(nil)}, {WithCommand(&cobra.Command{Use: "own"})},
		{WithPasses(passes.Pass{Name: "p", After: "infr", Run: func(*passes.Plan) error { return nil }})},
		{WithPasses(passes.Passes()...)}, {WithPasses(passes.Pass{Name: "p"})},
		{WithCommand(own("plan", nil))},
		{WithCommand(own("own", nil)), WithCommand(own("own", nil))},
	} {
		_, err := extensionsOf(options)
		assert.Error(t, err)
	}
}
