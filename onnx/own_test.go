package onnx

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// mineModel applies operator op of the domain "mine" to x of shape [N, 3] and the weight w of shape [3].
func mineModel(op string, functions ...*pb.FunctionProto) *pb.ModelProto {
	n := node1(op, names("x", "w", ""), names("y"), attrInt("axis", 1))
	n.Domain, n.Name = "mine", "own"
	return model(17, &pb.GraphProto{Name: "g", Node: []*pb.NodeProto{n},
		Input: infos(info("x", pb.Float, "N", 3)), Output: infos(info("y", pb.Float)),
		Initializer: []*pb.TensorProto{floats("w", []int64{3}, 1, 2, 3)}}, functions...)
}

// own converts a model with a converter for mine.Own.
func own(t *testing.T, m *pb.ModelProto, c Converter) (*graph.Graph, error) {
	t.Helper()
	return graphWith(t, m, Options{Operators: Operators{"mine": {"Own": c}}})
}

func graphWith(t *testing.T, m *pb.ModelProto, o Options) (*graph.Graph, error) {
	t.Helper()
	data := pb.Marshal(m)
	read, err := Parse(data, "")
	require.NoError(t, err)
	return read.Graph(o)
}

// A converter reads operands, attributes and versions, and returns results of ops.
func TestOwnOperator(t *testing.T) {
	var shapes [][]int
	g, err := own(t, mineModel("Own"), func(n Node) ([]Value, error) {
		domain, name, version := n.Operator()
		assert.Equal(t, []any{"mine", "Own", 1, "own", 1}, []any{domain, name, version, n.Name(), n.Outputs()})
		in := n.Inputs()
		assert.Equal(t, []bool{true, true, false}, []bool{in[0].IsPresent(), in[1].IsPresent(), in[2].IsPresent()})
		assert.Nil(t, in[0].Data())
		assert.Equal(t, []int{3}, in[1].Data().Shape)
		shape, ok := n.Shape(in[0])
		assert.True(t, ok)
		shapes = append(shapes, shape)
		assert.Equal(t, tensor.Float32, in[0].DType())
		attrs, err := n.Attrs()
		assert.NoError(t, err)
		assert.Equal(t, graph.Attrs{"axis": 1}, attrs)
		double, err := n.Apply("mul", nil, in[1], 2)
		if !assert.NoError(t, err) {
			return nil, err
		}
		assert.NotNil(t, double[0].Data(), "what is known is computed here")
		return n.Apply("add", graph.Attrs{"alpha": 3}, in[0], double[0])
	})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 1)
	assert.Equal(t, [][]int{{-1, 3}}, shapes)
	assert.Equal(t, "y", g.Nodes[0].Out[0].Name)
	require.NoError(t, g.Bind(map[string]int{"N": 5}))
	assert.Equal(t, []int{5, 3}, g.Value("y").Meta.Shape)
	out, err := graph.Evaluate(g, map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 5, 3)})
	require.NoError(t, err)
	assert.Equal(t, 18.0, out["y"].At(4, 2).Float())
}

// TestOwnOperatorAttributes reads attributes with and without the type, which old exporters do not write.
func TestOwnOperatorAttributes(t *testing.T) {
	for _, typed := range []bool{true, false} {
		m := mineModel("Own")
		m.Graph.Node[0].Attribute = []*pb.AttributeProto{attrInt("i", 3), attrFloat("f", 0.1), attrInts("list", 1, 2),
			{Name: "s", Type: pb.AttributeString, S: []byte("text")}, attrFloat("zero", 0)}
		want := graph.Attrs{"i": 3, "f": 0.1, "list": []int{1, 2}, "s": "text", "zero": 0.0}
		if !typed {
			for _, a := range m.Graph.Node[0].Attribute {
				a.Type = pb.AttributeUndefined
			}
			want["zero"] = 0
		}
		_, err := own(t, m, func(n Node) ([]Value, error) {
			attrs, err := n.Attrs()
			assert.NoError(t, err)
			assert.Equal(t, want, attrs)
			f, err := n.Float("f", 1)
			assert.NoError(t, err)
			i, err := n.Int("i", 1)
			assert.NoError(t, err)
			s, err := n.Text("s", "")
			assert.NoError(t, err)
			omitted, err := n.Float("omitted", 2.5)
			assert.NoError(t, err)
			assert.Equal(t, []any{0.1, 3, "text", 2.5}, []any{f, i, s, omitted})
			if typed {
				_, err = n.Float("i", 1)
				assert.EqualError(t, err, `attribute "i" is of type int, want float`)
			}
			return n.Apply("relu", nil, n.Inputs()[0])
		})
		require.NoError(t, err)
	}
}

// A mistake of a converter is an error that names the node.
func TestOwnOperatorFails(t *testing.T) {
	var kept Node
	for want, c := range map[string]Converter{
		`it is not for me`: func(Node) ([]Value, error) {
			return nil, errors.New("it is not for me")
		},
		`output 0 ("y") is not supported`: func(Node) ([]Value, error) {
			return nil, nil
		},
		`its converter returns 2 values, but the node has 1 outputs`: func(n Node) ([]Value, error) {
			return n.Inputs()[:2], nil
		},
		`the op "rleu" is not in the catalogue`: func(n Node) ([]Value, error) {
			return n.Apply("rleu", nil, n.Inputs()[0])
		},
		`operand 0 of relu is a string: want a Value, a tensor or a number`: func(n Node) ([]Value, error) {
			return n.Apply("relu", nil, "x")
		},
		`takes at most 1 operand, got 2`: As("relu"),
		`operand 1 of add: `: func(n Node) ([]Value, error) {
			return n.Apply("add", nil, n.Inputs()[0], new(tensor.Tensor))
		},
	} {
		_, err := own(t, mineModel("Own"), func(n Node) ([]Value, error) { kept = n; return c(n) })
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), `node "own" (Own): `)
			assert.Contains(t, err.Error(), want)
		}
	}
	_, err := kept.Apply("relu", nil, kept.Inputs()[0])
	assert.EqualError(t, err, "the node is no longer valid: its converter has returned")
	_, err = Node{}.Apply("relu", nil)
	assert.Error(t, err)
	_, err = Node{}.Attrs()
	assert.Error(t, err)
	_, err = Node{}.Float("f", 0)
	assert.Error(t, err)
}

// A custom converter takes precedence over a function of the model. Without the converter, the function is converted.
func TestOwnOperatorBeforeFunction(t *testing.T) {
	f := &pb.FunctionProto{Name: "Own", Domain: "mine", Input: names("a", "b", "c"), Output: names("d"),
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}}, Node: []*pb.NodeProto{node1("Neg", names("a"), names("d"))}}
	g, err := graphWith(t, mineModel("Own", f), Options{})
	require.NoError(t, err)
	assert.Equal(t, "neg", g.Nodes[0].Op.Name)
	g, err = own(t, mineModel("Own", f), func(n Node) ([]Value, error) { return n.Apply("abs", nil, n.Inputs()[0]) })
	require.NoError(t, err)
	assert.Equal(t, "abs", g.Nodes[0].Op.Name)
}

// Operators rejects operators that have a converter, and Replaced rejects operators without one.
func TestOperatorsAreRefused(t *testing.T) {
	c := As("relu")
	for want, o := range map[string]Options{
		"Options.Operators: Relu already has a converter; to replace it, use Options.Replaced": {
			Operators: Operators{"ai.onnx": {"Relu": c}}},
		"Options.Operators: the converter of mine.Own is nil": {
			Operators: Operators{"mine": {"Own": nil}}},
		"Options.Replaced: Rleu has no converter to replace; did you mean Relu?": {
			Replaced: Operators{"": {"Rleu": c}}},
		"the model needs operators that are not supported: mine.Own (1; did you mean own?)": {
			Operators: Operators{"mine": {"own": c}}},
	} {
		_, err := graphWith(t, mineModel("Own"), o)
		assert.EqualError(t, err, want)
	}
	m := model(17, &pb.GraphProto{Name: "g", Node: []*pb.NodeProto{node1("Relu", names("x"), names("y"))},
		Input: infos(info("x", pb.Float, 3)), Output: infos(info("y", pb.Float))})
	g, err := graphWith(t, m, Options{Replaced: Operators{"": {"Relu": As("neg")}}})
	require.NoError(t, err)
	assert.Equal(t, "neg", g.Nodes[0].Op.Name)
}

// An operator of ONNX Runtime has a converter in its domain only. A function of the model takes precedence over it, and
// Options.Replaced replaces it.
func TestOperatorOfOtherDomain(t *testing.T) {
	of := func(domain string, functions ...*pb.FunctionProto) *pb.ModelProto {
		n := node1("QuickGelu", names("x"), names("y"))
		n.Domain = domain
		m := model(17, &pb.GraphProto{Name: "g", Node: []*pb.NodeProto{n},
			Input: infos(info("x", pb.Float, 3)), Output: infos(info("y", pb.Float))})
		m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: microsoftDomain, Version: 1})
		m.Functions = functions
		return m
	}
	ops := func(m *pb.ModelProto, o Options) (list []string) {
		g, err := graphWith(t, m, o)
		require.NoError(t, err)
		for _, n := range g.Nodes {
			list = append(list, n.Op.Name)
		}
		return list
	}
	assert.Equal(t, []string{"mul", "sigmoid", "mul"}, ops(of(microsoftDomain), Options{}))
	f := &pb.FunctionProto{Name: "QuickGelu", Domain: microsoftDomain, Input: names("a"), Output: names("b"),
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}}, Node: []*pb.NodeProto{node1("Neg", names("a"), names("b"))}}
	assert.Equal(t, []string{"neg"}, ops(of(microsoftDomain, f), Options{}))
	own := Operators{microsoftDomain: {"QuickGelu": As("silu")}}
	assert.Equal(t, []string{"silu"}, ops(of(microsoftDomain), Options{Replaced: own}))
	_, err := graphWith(t, of(microsoftDomain), Options{Operators: own})
	assert.EqualError(t, err,
		"Options.Operators: com.microsoft.QuickGelu already has a converter; to replace it, use Options.Replaced")
	_, err = graphWith(t, of(""), Options{})
	assert.EqualError(t, err, "the model needs operators that are not supported: "+
		"QuickGelu (1; did you mean com.microsoft.QuickGelu?)")
}

// Ops are looked up in a custom catalogue.
func TestOwnLookup(t *testing.T) {
	asked := map[string]bool{}
	lookup := func(name string) *graph.Op { asked[name] = true; return kernels.Lookup(name) }
	neg := func(n Node) ([]Value, error) { return n.Apply("neg", nil, n.Inputs()[0]) }
	_, err := graphWith(t, mineModel("Own"), Options{Lookup: lookup, Operators: Operators{"mine": {"Own": neg}}})
	require.NoError(t, err)
	assert.True(t, asked["neg"])
}

// Asymmetric padding is an attribute of the op, so that no copy is needed.
func TestUnevenPadding(t *testing.T) {
	for _, c := range []struct {
		pads []int64
		ops  []string
	}{
		{[]int64{0, 1, 2, 1}, []string{"conv2d"}},
		{[]int64{1, 1, 1, 1}, []string{"conv2d"}},
		{[]int64{-1, 0, 0, 0}, []string{"constant_pad_nd", "conv2d"}},
	} {
		conv := node1("Conv", names("x", "w"), names("y"), attrInts("pads", c.pads...))
		m := model(17, &pb.GraphProto{Name: "g", Node: []*pb.NodeProto{conv},
			Input:  infos(info("x", pb.Float, 1, 1, 5, 5), info("w", pb.Float, 1, 1, 3, 3)),
			Output: infos(info("y", pb.Float))})
		g, err := graphWith(t, m, Options{})
		require.NoError(t, err)
		var ops []string
		for _, n := range g.Nodes {
			ops = append(ops, n.Op.Name)
		}
		assert.Equal(t, c.ops, ops, "%v", c.pads)
		assert.Equal(t, []int{1, 1, 3 + int(c.pads[0]+c.pads[2]), 3 + int(c.pads[1]+c.pads[3])}, g.Value("y").Meta.Shape)
	}
}
