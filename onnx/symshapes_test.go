package onnx

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// firstSize adds nodes to a graph that compute the first size of x, named n.
func firstSize(p *pb.GraphProto) *pb.GraphProto {
	p.Initializer = append(p.Initializer, int64s("zero", nil, 0))
	p.Node = append([]*pb.NodeProto{node1("Shape", names("x"), names("shape")),
		node1("Gather", names("shape", "zero"), names("n"))}, p.Node...)
	return p
}

// attrOf returns an attribute, as written, of the node that makes a value.
func attrOf(t *testing.T, g *graph.Graph, value, name string) any {
	t.Helper()
	v := g.Value(value)
	require.NotNil(t, v, value)
	for attr, x := range v.Node.AttrsAsGiven() {
		if attr == name {
			return x
		}
	}
	t.Fatalf("node of %q has no attribute %q", value, name)
	return nil
}

// kept saves a graph and loads it again.
func kept(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.json")
	require.NoError(t, graphfile.SaveFile(path, g))
	again, err := graphfile.Load(path, kernels.Lookup)
	require.NoError(t, err)
	return again
}

// forSizes runs a model with symbolic sizes, the graph file that it is converted to, and the model converted for the
// given sizes. It checks that the output z is the same.
func forSizes(t *testing.T, m *pb.ModelProto, in map[string]*tensor.Tensor, bound map[string]int) *tensor.Tensor {
	t.Helper()
	want := run(t, m, in)["z"]
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	for _, g := range []*graph.Graph{g, kept(t, g)} {
		require.NoError(t, g.Bind(bound))
		got := runGraph(t, g, in)["z"]
		require.NoError(t, compareScaled(got, want, 0), "%v", bound)
	}
	return want
}

func ramp(shape ...int) *tensor.Tensor {
	x := tensor.Zeros(tensor.Float32, shape...)
	for i := range x.Numel() {
		x.SetFlat(i, tensor.IntScalar(int64(i)))
	}
	return x
}

// atMost expands a vector of ones to the first size of x, but at most to 10.
func atMost() *pb.ModelProto {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("ten", []int64{1}, 10), int64s("at", []int64{1}, 0),
			floats("one", []int64{1}, 1)},
		Node: []*pb.NodeProto{node1("Unsqueeze", names("n", "at"), names("n1")),
			node1("Min", names("n1", "ten"), names("least")),
			node1("Expand", names("one", "least"), names("y")), node1("Neg", names("y"), names("z"))},
		Input:  infos(info("x", tFloat, "N")),
		Output: infos(info("z", tFloat, nil)),
	}
	return model(13, firstSize(p))
}

func TestExpandToTheLeastOfASize(t *testing.T) {
	g, err := toGraph(atMost(), Options{})
	require.NoError(t, err)
	require.Equal(t, []any{"Min(10, N)"}, attrOf(t, g, "y", "size"))
	require.False(t, g.Dynamic())
	for _, n := range []int{0, 1, 4, 10, 11, 200} {
		z := forSizes(t, atMost(), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
		require.Equal(t, []int{min(n, 10)}, z.Shape)
	}
}

// TestExpandOfAConstantStays checks that a large view that repeats an element does not become a constant.
func TestExpandOfAConstantStays(t *testing.T) {
	for size, nodes := range map[int64]int{16: 1, 1 << 38: 2} { // the views of few elements are constants
		p := &pb.GraphProto{
			Initializer: []*pb.TensorProto{floats("one", []int64{1}, 1), int64s("shape", []int64{2}, size, 4)},
			Node: []*pb.NodeProto{node1("Expand", names("one", "shape"), names("wide")),
				node1("Slice", names("wide", "first", "last"), names("part")),
				node1("Add", names("x", "part"), names("y"))},
			Input:  infos(info("x", tFloat, 2, 4)),
			Output: infos(info("y", tFloat, nil)),
		}
		p.Initializer = append(p.Initializer, int64s("first", []int64{1}, 0), int64s("last", []int64{1}, 2))
		g, err := toGraph(model(13, p), Options{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(g.Nodes), nodes)
		for _, v := range g.Constants {
			require.LessOrEqual(t, v.Meta.Numel(), convert.FoldLimit, v.Name)
		}
	}
}

// larger is choice with the condition that the first size of x exceeds a bound.
func larger(bound int64) *pb.ModelProto {
	p := choice()
	p.Input = infos(info("x", tFloat, "N", "M"))
	p.Output[0].Name = "z"
	p.Initializer = []*pb.TensorProto{int64s("bound", nil, bound)}
	p.Node[0].Output[0] = "chosen"
	p.Node = append([]*pb.NodeProto{node1("Greater", names("n", "bound"), names("cond"))}, p.Node...)
	p.Node = append(p.Node, node1("Relu", names("chosen"), names("z")))
	return model(13, firstSize(p))
}

func TestIfOnASize(t *testing.T) {
	g, err := toGraph(larger(100), Options{})
	require.NoError(t, err)
	require.Equal(t, "Lt(100, N)", attrOf(t, g, "chosen", "condition"))
	require.Empty(t, g.Warnings())
	for n, first := range map[int]float32{101: 1, 100: 0, 1: 0, 5000: 1} {
		z := forSizes(t, larger(100), map[string]*tensor.Tensor{"x": ramp(n, 2)}, map[string]int{"N": n, "M": 2})
		require.Equal(t, first, floatsOf(t, z)[0], n)
	}
	g, err = toGraph(larger(-1), Options{})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 2, "a condition that holds for all sizes is decided")
}

// TestIfOnASizeIsSettled checks that the nodes of the branch replace the If once sizes are known, and that the
// condition is a guard of symbolic inference.
func TestIfOnASizeIsSettled(t *testing.T) {
	g, err := toGraph(larger(100), Options{})
	require.NoError(t, err)
	for n, op := range map[int]string{7: "neg", 700: "add"} {
		c := g.Clone()
		require.NoError(t, c.BindWithoutInference(map[string]int{"N": n, "M": 3}))
		require.NoError(t, c.InlineControlFlow())
		require.NoError(t, c.Infer())
		require.NoError(t, graph.Verify(c, graph.Sorted))
		require.Len(t, c.Nodes, 2)
		require.Equal(t, op, c.Nodes[0].Op.Name)
		require.Equal(t, "chosen", c.Nodes[0].Out[0].Name)

		s, err := g.Symbolic(map[string]int{"N": n, "M": 3})
		require.NoError(t, err)
		require.Equal(t, op, s.Graph.Nodes[0].Op.Name)
		require.NotEmpty(t, s.Guards)
		require.Equal(t, n > 100, s.Holds(map[string]int{"N": 101, "M": 3}))
		require.Equal(t, n <= 100, s.Holds(map[string]int{"N": 100, "M": 3}))
	}
	require.Equal(t, "if_sizes", g.Nodes[0].Op.Name, "the graph itself stays open")
}

// branched returns an If on a size whose branches differ in rank. One branch has another If.
func branched() *pb.ModelProto {
	inner := node1("If", names("small"), names("i"), attrGraph("then_branch", branchOf("p", node1("Neg", names("x"),
		names("p")))), attrGraph("else_branch", branchOf("q", node1("Concat", names("x", "x"), names("q"),
		attrInt("axis", 0)))))
	yes := branchOf("a", node1("Reshape", names("x", "shape2"), names("r")), node1("Add", names("r", "r"), names("a")))
	no := branchOf("i", inner)
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("bound", nil, 6), int64s("three", nil, 3), int64s("at", []int64{1}, 0),
			int64s("two", []int64{1}, 2), int64s("half", nil, 2), int64s("all", []int64{1}, -1)},
		Node: []*pb.NodeProto{node1("Greater", names("n", "bound"), names("cond")),
			node1("Less", names("n", "three"), names("small")), node1("Div", names("n", "half"), names("h")),
			node1("Unsqueeze", names("h", "at"), names("h1")),
			node1("Concat", names("h1", "two"), names("shape2"), attrInt("axis", 0)),
			node1("If", names("cond"), names("c"), attrGraph("then_branch", yes), attrGraph("else_branch", no)),
			node1("Reshape", names("c", "all"), names("flat")), node1("Relu", names("flat"), names("z"))},
		Input: infos(info("x", tFloat, "N")), Output: infos(info("z", tFloat, nil)),
	}
	return model(13, firstSize(p))
}

func TestBranchesOnSizesWithinBranches(t *testing.T) {
	for n, first := range map[int]int{1: 1, 2: 2, 3: 6, 6: 12, 8: 8, 20: 20} {
		z := forSizes(t, branched(), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
		require.Equal(t, []int{first}, z.Shape, n)
	}
}

// looped runs a body once for each element of x. The body uses a size of x that no carried value has.
func looped() *pb.ModelProto {
	body := &pb.GraphProto{
		Input: infos(info("i", tInt64), info("going", tBool), info("v", tFloat, nil)),
		Node: []*pb.NodeProto{node1("Identity", names("going"), names("on")),
			node1("ConstantOfShape", names("n1"), names("zeros")), node1("ReduceMax", names("v"), names("m"),
				attrInts("axes", 0), attrInt("keepdims", 1)), node1("Add", names("zeros", "m"), names("s")),
			node1("Concat", names("v", "m"), names("w"), attrInt("axis", 0))},
		Output: infos(info("on", tBool), info("w", tFloat, nil), info("s", tFloat, nil)),
	}
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("at", []int64{1}, 0), floats("start", []int64{2}, 1, 2)},
		Node: []*pb.NodeProto{node1("Unsqueeze", names("n", "at"), names("n1")),
			node1("Loop", names("n", "", "start"), names("last", "z"), attrGraph("body", body))},
		Input: infos(info("x", tFloat, "N")), Output: infos(info("last", tFloat, nil), info("z", tFloat, nil, nil)),
	}
	return model(13, firstSize(p))
}

func TestLoopOverASize(t *testing.T) {
	for _, n := range []int{0, 1, 3, 7} {
		z := forSizes(t, looped(), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
		require.Equal(t, []int{n, n}, z.Shape, n)
	}
}

// Once sizes are known, the iterations replace the loop. For unknown sizes, their number is a guard.
func TestLoopOverASizeIsWrittenOut(t *testing.T) {
	g, err := toGraph(looped(), Options{})
	require.NoError(t, err)
	require.True(t, g.Dynamic(), "the graph itself stays open")
	loops := func(g *graph.Graph) (n int) {
		for _, m := range g.Nodes {
			if m.Op.Name == "loop" {
				n++
			}
		}
		return n
	}
	for n, want := range map[int]int{0: 1, 1: 0, 4: 0, 5000: 1} { // 5000 iterations are too many nodes
		c := g.Clone()
		require.NoError(t, c.BindWithoutInference(map[string]int{"N": n}))
		require.NoError(t, c.InlineControlFlow())
		require.Equal(t, want, loops(c), "N=%d", n)
		require.NoError(t, c.Infer())
		require.Equal(t, want > 0, c.Dynamic(), "N=%d", n)
		if want == 0 {
			require.Equal(t, []int{n + 2}, c.Outputs[0].Value.Meta.Shape)
			require.Equal(t, []int{n, n}, c.Outputs[1].Value.Meta.Shape)
		}
	}
	s, err := g.Symbolic(map[string]int{"N": 4})
	require.NoError(t, err)
	require.Zero(t, loops(s.Graph))
	require.True(t, s.Holds(map[string]int{"N": 4}))
	require.False(t, s.Holds(map[string]int{"N": 5}))
	require.True(t, slices.ContainsFunc(s.Guards, func(by graph.Guard) bool {
		return by.Node != nil && by.Node.Op.Name == "loop" && by.Cond.String() == "Eq(N, 4)"
	}), "%v", s.Guards)
	for _, n := range []int{0, 1, 3} {
		forSizes(t, looped(), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
	}
}

// scaled makes zeros, in number the size of x times a factor rounded down, as exporters write it.
func scaled(factor float32, op string) *pb.ModelProto {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("at", []int64{1}, 0), floats("factor", nil, factor)},
		Node: []*pb.NodeProto{node1("Cast", names("n"), names("f"), attrInt("to", int64(tFloat))),
			node1(op, names("f", "factor"), names("g")), node1("Floor", names("g"), names("h")),
			node1("Cast", names("h"), names("k"), attrInt("to", int64(tInt64))),
			node1("Unsqueeze", names("k", "at"), names("k1")), node1("ConstantOfShape", names("k1"), names("z"))},
		Input: infos(info("x", tFloat, "N")), Output: infos(info("z", tFloat, nil)),
	}
	return model(13, firstSize(p))
}

func TestSizesScaledInFloatingPoint(t *testing.T) {
	for _, c := range []struct {
		factor float32
		op     string
		want   string
		most   int
	}{{2, "Mul", "2*N", 1 << 20}, {0.5, "Mul", "N//2", 1 << 24}, {1.5, "Mul", "N + N//2", 1 << 20},
		{3, "Div", "N//3", 1 << 20}, {4, "Div", "N//4", 1 << 24}} {
		g, err := toGraph(scaled(c.factor, c.op), Options{})
		require.NoError(t, err)
		require.Equal(t, []any{c.want}, attrOf(t, g, "z", "size"))
		require.Equal(t, graph.Bounds{Max: c.most}, g.Symbols["N"])
		require.ErrorContains(t, g.Bind(map[string]int{"N": c.most + 1}), "outside its bounds")
		for _, n := range []int{0, 1, 2, 5, 9} {
			forSizes(t, scaled(c.factor, c.op), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
		}
	}
	// The product with the float 1/3 is rounded before it is rounded down. No expression describes that.
	g, err := toGraph(scaled(1.0/3, "Mul"), Options{})
	require.NoError(t, err)
	require.True(t, g.Dynamic())
	require.Equal(t, graph.Bounds{}, g.Symbols["N"])
	for _, n := range []int{0, 3, 9, 11} {
		forSizes(t, scaled(1.0/3, "Mul"), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
	}
}

// TestMistakesOfSizesAreTold converts a model that requires the size 5.
func TestMistakesOfSizesAreTold(t *testing.T) {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("five", []int64{1}, 5)},
		Node:        []*pb.NodeProto{node1("Reshape", names("x", "five"), names("y"))},
		Input:       infos(info("x", tFloat, "N")),
		Output:      infos(info("y", tFloat, 5)),
	}
	_, err := toGraph(model(13, p), Options{Dims: map[string]int{"N": 4}})
	require.ErrorContains(t, err, "shape '[5]' is invalid for input of size 4")
	_, err = toGraph(model(13, p), Options{Dims: map[string]int{"N": 5}})
	require.NoError(t, err)
}

// TestSqueezedSizeIsOne squeezes an axis of open size, which must be 1: the later nodes have the rank of the result.
func TestSqueezedSizeIsOne(t *testing.T) {
	for _, opset := range []int64{11, 13} {
		squeeze := node1("Squeeze", names("x", "axes"), names("z"))
		if opset < 13 {
			squeeze = node1("Squeeze", names("x"), names("z"), attrInts("axes", 0))
		}
		m := model(opset, &pb.GraphProto{
			Node: []*pb.NodeProto{squeeze, node1("Transpose", names("z"), names("y"), attrInts("perm", 1, 0)),
				node1("Shape", names("z"), names("shape"))},
			Input: infos(info("x", tFloat, "batch size", "N", 2)), Initializer: []*pb.TensorProto{int64s("axes", []int64{1}, 0)},
			Output: infos(info("y", tFloat), info("shape", tInt64))})
		g, err := toGraph(m, Options{})
		require.NoError(t, err)
		require.Len(t, g.Symbols, 1)
		require.NoError(t, g.Bind(map[string]int{"N": 3}))
		out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{1, 3, 2}, 1, 2, 3, 4, 5, 6)})
		require.Equal(t, []float32{1, 3, 5, 2, 4, 6}, floatsOf(t, out["y"].Contiguous()))
		require.Equal(t, []int64{3, 2}, intsOf(t, out["shape"]))
		_, err = toGraph(m, Options{Dims: map[string]int{"batch size": 2}})
		require.ErrorContains(t, err, "dimension 0 has size 2, not 1")
		p, err := Parse(pb.Marshal(m), "")
		require.NoError(t, err)
		_, skipped, err := p.GraphSome(Options{})
		require.NoError(t, err)
		require.Empty(t, skipped)
	}
}

// TestEmptyImagesWithSamePadding convolves images of no height with the padding that gives ceil(size/stride) windows,
// where the size of the window or of the image is open.
func TestEmptyImagesWithSamePadding(t *testing.T) {
	for stride := range int64(3) {
		for _, kernel := range []any{2, "K"} {
			same := &pb.AttributeProto{Name: "auto_pad", Type: pb.AttributeString, S: []byte("SAME_UPPER")}
			g, err := toGraph(model(13, &pb.GraphProto{
				Node:  []*pb.NodeProto{node1("Conv", names("x", "w"), names("y"), attrInts("strides", stride+1, 2), same)},
				Input: infos(info("x", tFloat, 2, 3, "H", 5), info("w", tFloat, 4, 3, kernel, 1)), Output: infos(info("y", tFloat))}),
				Options{})
			require.NoError(t, err)
			p, err := program.New(g, program.Options{})
			require.NoError(t, err)
			out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 2, 3, 0, 5),
				"w": tensor.Zeros(tensor.Float32, 4, 3, 2, 1)})
			require.NoError(t, err, "stride %d, kernel %v", stride+1, kernel)
			require.Equal(t, []int{2, 4, 0, 3}, out["y"].Shape)
		}
	}
}

// TestPixelsOfAHalvedImage: the number of pixels of an image is known as an expression after five halvings and two
// doublings, as in detectors that compute a grid of anchors from it.
func TestPixelsOfAHalvedImage(t *testing.T) {
	g := &pb.GraphProto{Input: infos(info("x0", tFloat, 1, 1, "H", "W")), Output: infos(info("z", tFloat)),
		Initializer: []*pb.TensorProto{int64s("flat", []int64{1}, -1),
			{Name: "scales", DataType: int32(tFloat), Dims: []int64{4}, FloatData: []float32{1, 1, 4, 4}}}}
	for i := range 5 {
		g.Node = append(g.Node, node1("MaxPool", names(fmt.Sprint("x", i)), names(fmt.Sprint("x", i+1)),
			attrInts("kernel_shape", 3, 3), attrInts("strides", 2, 2), attrInts("pads", 1, 1, 1, 1)))
	}
	g.Node = append(g.Node, node1("Resize", names("x5", "", "scales"), names("y")),
		node1("Reshape", names("y", "flat"), names("pixels")), node1("Shape", names("pixels"), names("shape")),
		node1("ConstantOfShape", names("shape"), names("z")))
	converted, err := toGraph(model(13, g), Options{})
	require.NoError(t, err)
	require.False(t, converted.Dynamic())
	p, err := program.New(converted, program.Options{})
	require.NoError(t, err)
	out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x0": tensor.Zeros(tensor.Float32, 1, 1, 97, 64)})
	require.NoError(t, err)
	require.Equal(t, []int{4 * 4 * 4 * 2}, out["z"].Shape)
}
