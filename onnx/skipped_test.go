package onnx

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// some converts a model despite its mistakes. It returns the remaining graph and the errors.
func some(t *testing.T, p *pb.ModelProto, o Options) (rest *graph.Graph, told []string) {
	t.Helper()
	data := pb.Marshal(p)
	m, err := Parse(data, t.TempDir())
	require.NoError(t, err)
	g, missing, err := m.GraphSome(o)
	require.NoError(t, err)
	refused := g.InferAll()
	for _, e := range append(missing, g.RootErrors(refused)...) {
		told = append(told, e.Error())
	}
	rest = g.WithoutRejected(refused)
	if !rest.Dynamic() {
		require.NoError(t, graph.Verify(rest, graph.Sorted|graph.Typed))
	}
	return rest, told
}

func outputNames(g *graph.Graph) (list []string) {
	for _, o := range g.Outputs {
		list = append(list, o.Name)
	}
	return list
}

// requireTold checks that exactly the given mistakes are reported.
func requireTold(t *testing.T, told []string, want ...string) {
	t.Helper()
	require.Len(t, told, len(want), "%s", strings.Join(told, "\n"))
	for i, w := range want {
		require.Contains(t, told[i], w)
	}
}

func called(name string, n *pb.NodeProto) *pb.NodeProto {
	n.Name = name
	return n
}

// troubledModel has a node for each kind of mistake, nodes that depend on these, and independent nodes.
func troubledModel() *pb.GraphProto {
	return &pb.GraphProto{
		Node: []*pb.NodeProto{
			node1("Relu", names("x"), names("fine")),
			called("odd", node1("NoSuch", names("x"), names("unknown"))),
			called("turn", node1("Transpose", names("x"), names("turned"), attrInts("perm", 0, 7))),
			called("join", node1("Concat", names("x", "w"), names("joined"), attrInt("axis", 0))),
			called("weigh", node1("Add", names("x", "damaged"), names("weighed"))),
			called("far", node1("Add", names("x", "elsewhere"), names("outside"))),
			called("gone", node1("Add", names("x", "s"), names("gone"))),
			node1("Add", names("unknown", "fine"), names("after")),
			node1("Relu", names("after"), names("more")),
			called("tail", node1("Mul", names("fine", "w2"), names("tail"))),
		},
		Input: infos(info("x", tFloat, 2, 2), info("vast", tFloat, min(1<<40, math.MaxInt), min(1<<40, math.MaxInt)),
			&pb.ValueInfoProto{Name: "s", Type: &pb.TypeProto{SequenceType: &pb.SequenceType{}}}),
		Initializer: []*pb.TensorProto{floats("w", []int64{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9), floats("w2", []int64{2}, 1, 2),
			floats("damaged", []int64{2, 2}, 1),
			{Name: "elsewhere", DataType: int32(tFloat), Dims: []int64{2}, DataLocation: pb.External,
				ExternalData: []*pb.StringStringEntryProto{{Key: "location", Value: "none.bin"}}}},
		Output: infos(info("more", tFloat), info("fine", tFloat), info("unknown", tFloat), info("turned", tFloat),
			info("joined", tFloat),
			info("weighed", tFloat), info("outside", tFloat), info("gone", tFloat), info("damaged", tFloat),
			info("nowhere", tFloat), info("tail", tFloat), info("fine", tFloat)),
	}
}

func TestGraphSome(t *testing.T) {
	g, told := some(t, model(13, troubledModel()), Options{})
	require.Equal(t, []string{"fine", "tail"}, outputNames(g))
	requireTold(t, told, `initializer "damaged": 1 numbers of data`, `initializer "elsewhere": external data`,
		`input "vast": shape [1099511627776, 1099511627776] has`, `input "s": only tensors`,
		`output "damaged": depends on initializer "damaged", which cannot be read`,
		`output "nowhere": it is not made by any node`,
		`node "odd" (NoSuch): the operator is not supported`, `node "turn" (Transpose): `, `node "join" (Concat): `,
		`node "weigh" (Add): depends on initializer "damaged", which cannot be read`,
		`node "far" (Add): depends on initializer "elsewhere"`, `node "gone" (Add): depends on input "s"`)
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{2, 2}, 1, -2, 3, 4)})
	require.Equal(t, []float32{1, 0, 3, 8}, floatsOf(t, out["tail"]))
	_, err := toGraph(model(13, troubledModel()), Options{})
	require.ErrorContains(t, err, "NoSuch (1)")
	newer, err := Parse(pb.Marshal(model(99, troubledModel())), "")
	require.NoError(t, err)
	_, _, err = newer.GraphSome(Options{})
	require.ErrorContains(t, err, "operator set 99 is not supported")
}

// Functions and decided branches are converted in place, node by node.
func TestGraphSomeWithin(t *testing.T) {
	pair := &pb.FunctionProto{Domain: "mine", Name: "Pair", Input: names("a", "b"), Output: names("p", "q"),
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}},
		Node: []*pb.NodeProto{node1("Neg", names("a"), names("p")),
			called("inner", node1("NoSuch", names("b"), names("q")))}}
	use := node1("Pair", names("x", "lost"), names("p", "q"))
	use.Domain = "mine"
	two := &pb.GraphProto{Node: []*pb.NodeProto{node1("Abs", names("x"), names("u")),
		called("branch", node1("NoSuch", names("x"), names("v")))},
		Output: infos(info("u", tFloat), info("v", tFloat))}
	loopBody := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Identity", names("c"), names("c2")),
			node1("Add", names("acc", "lost"), names("acc2"))},
		Input:  infos(info("i", pb.Int64), info("c", tBool), info("acc", tFloat)),
		Output: infos(info("c2", tBool), info("acc2", tFloat))}
	g, told := some(t, model(13, &pb.GraphProto{
		Node: []*pb.NodeProto{called("first", node1("NoSuch", names("x"), names("lost"))), use,
			called("if", node1("If", names("yes"), names("u", "v"), attrGraph("then_branch", two),
				attrGraph("else_branch", two))),
			called("static", node1("Loop", names("three", "", "x"), names("s"), attrGraph("body", loopBody))),
			called("dynamic", node1("Loop", names("n", "", "x"), names("d"), attrGraph("body", loopBody))),
			called("either", node1("If", names("cond"), names("e"),
				attrGraph("then_branch", branchOf("t", node1("Abs", names("x"), names("t")))),
				attrGraph("else_branch", branchOf("f", node1("Abs", names("lost"), names("f")))))),
		},
		Input:       infos(info("x", tFloat, 2), info("n", pb.Int64), info("cond", tBool)),
		Initializer: []*pb.TensorProto{{Name: "yes", DataType: int32(tBool), Int32Data: []int32{1}}, int64s("three", nil, 3)},
		Output: infos(info("p", tFloat), info("q", tFloat), info("u", tFloat), info("v", tFloat), info("s", tFloat),
			info("d", tFloat), info("e", tFloat)),
	}, pair), Options{})
	require.Equal(t, []string{"p", "u", "e"}, outputNames(g))
	requireTold(t, told, `node "first" (NoSuch): the operator is not supported`,
		`node "branch" (NoSuch): the operator is not supported`)
	in := map[string]*tensor.Tensor{"x": f32([]int{2}, 1, -2), "n": tensor.Must(tensor.FromSlice([]int64{2})),
		"cond": flag(true)}
	require.Equal(t, []float32{1, 2}, floatsOf(t, runGraph(t, g, in)["e"]))
}

// Nodes that depend on an unavailable input are rejected, even if they depend on its shape only.
func TestGraphSomeWithoutInputs(t *testing.T) {
	p := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Shape", names("x"), names("shape")), node1("Reshape", names("y", "shape"), names("r")),
			node1("Neg", names("y"), names("n"))},
		Input: infos(info("x", tFloat, "N", 2), info("y", tFloat, 4)), Output: infos(info("r", tFloat), info("n", tFloat))}
	lost := Options{Dims: map[string]int{"N": 2}, UnavailableInputs: map[string]error{"x": errors.New("torn")}}
	g, told := some(t, model(13, p), lost)
	require.Equal(t, []string{"n"}, outputNames(g))
	requireTold(t, told, `input "x": torn`, `node "shape" (Shape): depends on input "x", which cannot be read`)
	require.Len(t, g.Inputs, 1)
	full, err := toGraph(model(13, p), lost) // it does not ask
	require.NoError(t, err)
	require.Len(t, full.Outputs, 2)
}

// Symbols stay symbols. The conversion with the fewest mistakes is returned.
func TestGraphSomeWithSymbols(t *testing.T) {
	p := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Neg", names("x"), names("n")), called("odd", node1("NoSuch", names("x"), names("lost"))),
			node1("Relu", names("lost"), names("after"))},
		Input: infos(info("x", tFloat, "N", 2)), Output: infos(info("n", tFloat), info("after", tFloat))}
	data := pb.Marshal(model(13, p))
	m, err := Parse(data, "")
	require.NoError(t, err)
	g, missing, err := m.GraphSome(Options{})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Empty(t, g.Warnings())
	require.NoError(t, g.BindWithoutInference(map[string]int{"N": 5}))
	refused := g.InferAll()
	require.Equal(t, `node "odd" (NoSuch): the operator is not supported`, g.RootErrors(refused).Error())
	require.Len(t, refused, 2)
	rest := g.WithoutRejected(refused)
	require.Equal(t, []int{5, 2}, rest.Outputs[0].Value.Meta.Shape)
}

// Without mistakes the graph equals that of Graph.
func TestGraphSomeOfWhatIsRight(t *testing.T) {
	p := model(11, tooDeep())
	want, err := toGraph(p, Options{})
	require.NoError(t, err)
	g, told := some(t, p, Options{})
	require.Empty(t, told)
	kinds := func(g *graph.Graph) (list []string) {
		for _, n := range g.Nodes {
			list = append(list, n.Op.Name+" "+n.Name)
		}
		return list
	}
	require.True(t, slices.Equal(kinds(want), kinds(g)), "%v and %v", kinds(want), kinds(g))
}

// TestUnsupportedInputs replaces inputs of valid models by results of an unsupported operator, some with declared
// types. The models have no other mistakes, so that no other node may be rejected for a reason of its own.
func TestUnsupportedInputs(t *testing.T) {
	list, random := vectors(t), rand.New(rand.NewPCG(1, 2))
	for range testsize.Of(60, 3000) {
		v := list[random.IntN(len(list))]
		var m pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &m))
		all := random.IntN(2) == 0
		var inputs []*pb.ValueInfoProto
		var nodes []*pb.NodeProto
		for i, input := range m.Graph.Input {
			if all || random.IntN(2) == 0 {
				nodes = append(nodes, called(fmt.Sprint("unknown ", i), node1("NoSuch", nil, names(input.Name))))
				if random.IntN(2) == 0 {
					m.Graph.ValueInfo = append(m.Graph.ValueInfo, input)
				}
			} else {
				inputs = append(inputs, input)
			}
		}
		m.Graph.Node, m.Graph.Input = append(nodes, m.Graph.Node...), inputs
		changed, err := Parse(pb.Marshal(&m), "")
		require.NoError(t, err, v.name)
		_, missing, err := changed.GraphSome(Options{})
		require.NoError(t, err, v.name)
		for _, e := range missing {
			if !errors.Is(e, ErrNoConverter) && !errors.Is(e, ErrUnavailableOperand) {
				t.Errorf("%s: %v", v.name, e)
			}
		}
	}
}
