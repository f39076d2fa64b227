package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// What follows from a Pointwise part is filled in, and so is the schema of an op without
// attributes.
func TestDefineFillsIn(t *testing.T) {
	negate := func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
		return iter.Map1(func(a float32) float32 { return -a }), nil
	}
	op, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{Name: "mine", Params: []graph.Param{graphtest.Self}, NoRef: "a test"},
		Lowerings: graph.Lowerings{Pointwise: &graph.Pointwise{Config: graphtest.Unary, Body: negate}},
	})
	require.NoError(t, err)
	assert.Equal(t, graph.FollowsOperands, op.Kind)
	g := graph.New("g", func(string) *graph.Op { return op })
	y := g.Apply("mine", nil, g.Input("x", tensor.Float32, 2, 3))[0]
	require.NoError(t, g.Err())
	assert.Equal(t, tensor.New(tensor.Float32, 2, 3), y.Meta)
	_, err = op.Compile(y.Node.Call())
	assert.NoError(t, err)
	assert.EqualError(t, func() error { _, err := op.Schema.Decode(graph.Attrs{"a": 1}, nil); return err }(),
		`unknown attribute "a": the op has none`)
}

func TestDefineRefuses(t *testing.T) {
	type twice struct {
		A int `attr:"a" default:"1"`
		B int `attr:"a" default:"1"`
	}
	pw := &graph.Pointwise{Config: graphtest.Unary, Body: graphtest.NoBody}
	compile := func(*graph.Call) (*graph.Kernel, error) { return nil, nil }
	for want, change := range map[string]func(*graph.Op){
		`op without a name: Name: the name is empty`:          func(o *graph.Op) { o.Name = "" },
		`op "a b": Name: " " cannot be in a name`:             func(o *graph.Op) { o.Name = "a b" },
		`op "o": Schema: the schema must be made by SchemaOf`: func(o *graph.Op) { o.Schema = &graph.Schema{} },
		`op "o": Schema: two attributes are named "a"`:        func(o *graph.Op) { o.Schema = graph.SchemaOf[twice]() },
		`op "o": Schema: "size" is the name of both an attribute and a required`: func(o *graph.Op) {
			o.Schema, o.Params = graph.SchemaOf[graphtest.SizeAttrs](), []graph.Param{{Name: "size"}}
		},
		`op "o": Params: operand 0 has no name`: func(o *graph.Op) {
			o.Params = []graph.Param{{}}
		},
		`op "o": Params: two operands are named "self"`: func(o *graph.Op) {
			o.Params = []graph.Param{graphtest.Self, graphtest.Self}
		},
		`op "o": Params: operand "list" is a list and must be the last`: func(o *graph.Op) {
			o.Params = []graph.Param{{Name: "list", Variadic: true}, graphtest.Self}
		},
		`op "o": Outputs: the results have names, but VariadicResults says`: func(o *graph.Op) {
			o.Outputs, o.VariadicResults = []string{"a"}, true
		},
		`op "o": Outputs: the list is empty: an op has at least one result`: func(o *graph.Op) {
			o.Outputs = []string{}
		},
		`op "o": Outputs: two outputs are named "a"`: func(o *graph.Op) {
			o.Outputs = []string{"a", "a"}
		},
		`op "o": Pointwise: Config is missing`: func(o *graph.Op) {
			o.Pointwise = &graph.Pointwise{Body: graphtest.NoBody}
		},
		`op "o": Pointwise: Body is missing`: func(o *graph.Op) {
			o.Pointwise = &graph.Pointwise{Config: graphtest.Unary}
		},
		`op "o": Pointwise: the part has 1 results, but the op has 2`: func(o *graph.Op) {
			o.Outputs, o.Pointwise = []string{"a", "b"}, pw
		},
		`op "o": Kind: an op with a Pointwise part is of kind follows, not view`: func(o *graph.Op) {
			o.Kind, o.Pointwise = graph.View, pw
		},
		`op "o": Kind: 77 is not a kind`: func(o *graph.Op) { o.Kind = 77 },
		`op "o": Impls: an op of kind requires needs implementations`: func(o *graph.Op) {
			o.Kind = graph.RequiresLayout
		},
		`op "o": Compile: the function must be nil if there are Impls`: func(o *graph.Op) {
			o.Impls = graphtest.ConvImpls()
		},
		`op "o": Impls: two implementations are named "nchw"`: func(o *graph.Op) {
			o.Compile, o.Impls = nil, append(graphtest.ConvImpls(), graphtest.ConvImpls()[0])
		},
		`op "o": Impls: implementation "a" lacks Lower`: func(o *graph.Op) {
			o.Compile, o.Impls = nil, []graph.Impl{{Name: "a"}}
		},
		`op "o": Impls: implementation 0 has no name`: func(o *graph.Op) {
			o.Compile, o.Impls = nil, []graph.Impl{{Lower: compile}}
		},
		`op "o": Permutes: only a view can permute dimensions`: func(o *graph.Op) {
			o.Permutes = func(*graph.Call) []int { return nil }
		},
		`op "o": Infer: the function is missing`:                                                  func(o *graph.Op) { o.Infer = nil },
		`op "o": Compile: the function is missing`:                                                func(o *graph.Op) { o.Compile = nil },
		`op "o": Ref: the function is missing: an op without a reference needs a reason in NoRef`: func(o *graph.Op) { o.NoRef = "" },
		`op "o": NoRef: the reason is set although Ref is set`: func(o *graph.Op) {
			o.Ref = func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, nil }
		},
	} {
		o := graph.Op{
			Semantics: graph.Semantics{
				Name: "o", Params: []graph.Param{graphtest.Self}, Infer: graphtest.InferLikeFirst,
				NoRef: "a test",
			},
			Lowerings: graph.Lowerings{Compile: compile},
		}
		change(&o)
		_, err := fusion.Define(o)
		if assert.Error(t, err, want) {
			assert.True(t, strings.HasPrefix(err.Error(), want), "got %v, want %s", err, want)
		}
	}
}

// An op that Define did not make, a copy of one that it made, and no op at all are mistakes
// of the graph, in Go and in a file.
func TestUndefinedOps(t *testing.T) {
	loose := &graph.Op{Semantics: graph.Semantics{Name: "loose"},
		Lowerings: graph.Lowerings{Pointwise: &graph.Pointwise{Config: graphtest.Unary, Body: graphtest.NoBody}}}
	changed := *graphtest.Catalogue["relu"]
	ops := func(name string) *graph.Op {
		return map[string]*graph.Op{"loose": loose, "changed": &changed}[name]
	}
	for op, want := range map[string]string{
		"loose":   `node "loose" (loose): op "loose" was not made by graph.Define`,
		"changed": `node "changed" (changed): op "relu" was not made by graph.Define`,
		"other":   `node "other" (other): there is no op "other"`,
	} {
		g := graph.New("g", ops)
		y := g.Apply(op, nil, g.Input("x", tensor.Float32, 2))[0]
		g.Output("y", y)
		assert.EqualError(t, g.Err(), want)
		_, err := g.Insert("n", op, nil, nil, "")
		assert.Error(t, err)
		assert.Nil(t, g.Op(op))
		file := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
			"nodes": [{"name": "` + op + `", "op": "` + op + `", "inputs": ["x"]}], "outputs": [{"name": "y", "value": "` +
			op + `"}]}`
		_, err = graphfile.Read(strings.NewReader(file), ops, graphfile.Options{Name: "f.json", Dir: "."})
		assert.ErrorContains(t, err, want[strings.LastIndex(want, "): ")+3:])
	}
	g := graph.New("g", nil)
	g.Apply("relu", nil, g.Input("x", tensor.Float32, 2))
	assert.ErrorContains(t, g.Err(), "the graph has no catalogue of ops")
}

// Mistakes wait for Err, the builder goes on, and only the first of a chain is told.
func TestBuilderMistakesWait(t *testing.T) {
	for want, build := range map[string]func(g *graph.Graph) *graph.Value{
		`constant "c": the tensor is nil`: func(g *graph.Graph) *graph.Value { return g.Constant("c", nil) },
		`constant "c": it has no dtype`: func(g *graph.Graph) *graph.Value {
			return g.Constant("c", new(tensor.Tensor))
		},
		`input "i": negative size -2 of dimension 0`: func(g *graph.Graph) *graph.Value {
			return g.Input("i", tensor.Float32, -2)
		},
		`input "i": invalid dtype dtype(99)`: func(g *graph.Graph) *graph.Value {
			return g.Input("i", tensor.DType(99), 2)
		},
		`input "i": memory format "memory_format(9)"`: func(g *graph.Graph) *graph.Value {
			return g.InputFormat("i", tensor.Float32, 9, 2)
		},
		`input "i": negative size -1 of dimension 0`: func(g *graph.Graph) *graph.Value {
			return g.InputDims("i", tensor.Float32, 0, graph.Dim{Size: -1})
		},
		`input "i": mismatch in length of strides and shape`: func(g *graph.Graph) *graph.Value {
			return g.InputMeta("i", tensor.Meta{DType: tensor.Int8, Shape: []int{1}})
		},
		`node "relu" (relu): operand 0: value "z" belongs to another graph`: func(g *graph.Graph) *graph.Value {
			return g.Apply("relu", nil, &graph.Value{Name: "z"})[0]
		},
		`node "relu" (relu): operand "self" is missing`: func(g *graph.Graph) *graph.Value {
			return g.Apply("relu", nil, (*graph.Value)(nil))[0]
		},
		`node "relu" (relu): the number of results is -3`: func(g *graph.Graph) *graph.Value {
			return g.ApplyN("relu", -3, nil, g.Input("x", tensor.Int8))[0]
		},
		`node "permute" (permute): attribute "dims" has no val`: func(g *graph.Graph) *graph.Value {
			return g.Apply("permute", graph.Attrs{"dims": graph.ValueRef{}}, g.Input("x", tensor.Int8))[0]
		},
		`node "call" (call): attribute "body": the graph would contain itself`: func(g *graph.Graph) *graph.Value {
			g.Output("o", g.Input("x", tensor.Int8))
			return g.Apply("call", graph.Attrs{"body": g})[0]
		},
		`two values are named "a"`: func(g *graph.Graph) *graph.Value {
			g.Input("a", tensor.Int8)
			return g.Input("a", tensor.Float32, 2, 2)
		},
		`a value needs a name`: func(g *graph.Graph) *graph.Value { return g.Input("", tensor.Float32, 2, 2) },
	} {
		g := graph.New("g", graphtest.Lookup)
		v := build(g)
		require.NotNil(t, v)
		g.Output("y", g.Apply("add", nil, v, g.Apply("relu", nil, v)[0])[0].Named("sum").Pinned(tensor.Contiguous))
		if assert.Error(t, g.Err(), want) {
			assert.True(t, strings.HasPrefix(g.Err().Error(), want), "got %v, want %s", g.Err(), want)
			assert.Equal(t, 1, strings.Count(g.Err().Error(), "\n")+1, "%v", g.Err())
		}
	}
}

// What the caller does with slices and maps afterwards does not reach the graph.
func TestGraphKeepsItsOwn(t *testing.T) {
	shape, dims := []int{2, 3}, []int{1, 0}
	attrs := graph.Attrs{"dims": dims}
	g := graph.New("g", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, shape...)
	y := g.Apply("permute", attrs, x)[0]
	shape[0], dims[0], dims[1] = 7, 5, 5
	delete(attrs, "dims")
	assert.Equal(t, []int{2, 3}, x.Meta.Shape)
	var b strings.Builder
	require.NoError(t, graphfile.Save(&b, g.Output("y", y)))
	assert.Contains(t, b.String(), `"dims": [1, 0]`)
}

// The zero Graph has no graphtest.Catalogue and no maps: it gives errors, and never panics.
func TestZeroGraph(t *testing.T) {
	g := new(graph.Graph)
	x := g.Input("x", tensor.Float32, 2)
	g.Output("y", x)
	require.NoError(t, g.Err())
	g.Apply("relu", nil, x)
	assert.Error(t, g.Err())
	_, err := graph.Evaluate(nil, nil)
	assert.EqualError(t, err, "the graph is nil")
	assert.EqualError(t, graph.Verify(nil, graph.Sorted), "the graph is nil")
}

// Inputs are looked at before anything is computed from them.
func TestEvaluateLooksAtInputs(t *testing.T) {
	g := graph.New("g", graphtest.Lookup)
	g.Output("y", g.Input("x", tensor.Float32, 2, 3))
	broken := tensor.Zeros(tensor.Float32, 2, 3)
	broken.Offset = 100
	for want, in := range map[string]map[string]*tensor.Tensor{
		`input "x" is missing`: nil,
		`input "x" is int8 of shape [2, 3], the graph wants float32 of shape [2, 3]`: {
			"x": tensor.Zeros(tensor.Int8, 2, 3)},
		`input "x" is float32 of shape [3, 2], the graph wants float32 of shape [2, 3]`: {
			"x": tensor.Zeros(tensor.Float32, 3, 2)},
		`input "x": setStorage: sizes [2, 3]`: {"x": broken},
		`the graph has no input "z"`:          {"x": tensor.Zeros(tensor.Float32, 2, 3), "z": tensor.Zeros(tensor.Float32)},
	} {
		_, err := graph.Evaluate(g, in)
		assert.ErrorContains(t, err, want)
	}
}
