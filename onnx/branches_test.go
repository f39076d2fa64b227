package onnx

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graphfile"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

func flag(b bool) *tensor.Tensor { return tensor.Must(tensor.FromSlice([]bool{b})) }

func branchOf(out string, nodes ...*pb.NodeProto) *pb.GraphProto {
	return &pb.GraphProto{Node: nodes, Output: infos(info(out, tFloat))}
}

func choose(name string, yes, no *pb.GraphProto) *pb.NodeProto {
	n := node1("If", names("cond"), names("z"), attrGraph("then_branch", yes), attrGraph("else_branch", no))
	n.Name = name
	return n
}

// tooDeep returns an If whose else_branch convolves a value of five dimensions by a weight of three.
func tooDeep() *pb.GraphProto {
	wide := node1("Unsqueeze", names("x"), names("u"), attrInts("axes", 0, 3))
	deep := node1("Conv", names("u", "w"), names("q"))
	deep.Name = "deep"
	return &pb.GraphProto{
		Node: []*pb.NodeProto{choose("rate", branchOf("p", node1("Conv", names("x", "w"), names("p"))),
			branchOf("q", wide, deep)),
			node1("Relu", names("z"), names("y"))},
		Input: infos(info("x", tFloat, 1, 1, 4), info("cond", tBool)), Output: infos(info("y", tFloat)),
		Initializer: []*pb.TensorProto{floats("w", []int64{1, 1, 2}, 1, -1)},
	}
}

func TestBranchThatCannotBeTypedFailsWhenItIsTaken(t *testing.T) {
	g, err := toGraph(model(11, tooDeep()), Options{})
	require.NoError(t, err)
	x := f32([]int{1, 1, 4}, 4, 1, 2, 0)
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": x, "cond": flag(true)})
	require.Equal(t, []float32{3, 0, 2}, floatsOf(t, out["y"]))
	_, err = execute(g, map[string]*tensor.Tensor{"x": x, "cond": flag(false)})
	require.ErrorContains(t, err, `else_branch of node "rate" (If) cannot be run: node "deep" (Conv)`)
	require.ErrorContains(t, err, "weight has 3 dimensions, want 5")
}

// TestRefusedBranchIsKeptInFiles checks that a converted file fails in the same branch only.
func TestRefusedBranchIsKeptInFiles(t *testing.T) {
	g, err := toGraph(model(11, tooDeep()), Options{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.json")
	require.NoError(t, graphfile.SaveFile(path, g))
	again, err := graphfile.Load(path, kernels.Lookup)
	require.NoError(t, err)
	x := f32([]int{1, 1, 4}, 4, 1, 2, 0)
	out := runGraph(t, again, map[string]*tensor.Tensor{"x": x, "cond": flag(true)})
	require.Equal(t, []float32{3, 0, 2}, floatsOf(t, out["y"]))
	_, err = execute(again, map[string]*tensor.Tensor{"x": x, "cond": flag(false)})
	require.ErrorContains(t, err, `else_branch of node "rate" (If) cannot be run`)
}

func TestBranchesThatBothFailAreAMistake(t *testing.T) {
	g := tooDeep()
	g.Node[0] = choose("rate", g.Node[0].Attribute[1].G, g.Node[0].Attribute[1].G)
	_, err := toGraph(model(11, g), Options{})
	require.ErrorContains(t, err, "neither branch can be run: then_branch: ")
}

// ranked returns a model that drops a dimension in one branch. The nodes after the If need the rank.
func ranked(wrap func(n *pb.NodeProto) *pb.NodeProto) *pb.GraphProto {
	yes := branchOf("p", node1("Squeeze", names("x"), names("p"), attrInts("axes", 0)))
	no := branchOf("q", node1("Identity", names("x"), names("q")))
	return &pb.GraphProto{
		Node: []*pb.NodeProto{wrap(choose("rank", yes, no)), node1("Transpose", names("z"), names("t")),
			node1("ReduceSum", names("t"), names("y"), attrInts("axes", -1), attrInt("keepdims", 0))},
		Input: infos(info("x", tFloat, 1, 3), info("cond", tBool)), Output: infos(info("y", tFloat)),
	}
}

func checkRanked(t *testing.T, p *pb.GraphProto) {
	t.Helper()
	x := f32([]int{1, 3}, 1, 2, 4)
	for cond, want := range map[bool][]float32{true: {7}, false: {1, 2, 4}} {
		out := run(t, model(11, p), map[string]*tensor.Tensor{"x": x, "cond": flag(cond)})
		require.Equal(t, want, floatsOf(t, out["y"]))
	}
}

func TestRankThatDependsOnTheBranch(t *testing.T) {
	checkRanked(t, ranked(func(n *pb.NodeProto) *pb.NodeProto { return n }))
}

// TestRankThatDependsOnABranchWithin converts an If that is the last node of a branch whose condition is constant.
func TestRankThatDependsOnABranchWithin(t *testing.T) {
	p := ranked(func(n *pb.NodeProto) *pb.NodeProto {
		n.Output = names("inner")
		outer := node1("If", names("sure"), names("z"), attrGraph("then_branch", branchOf("inner", n)),
			attrGraph("else_branch", branchOf("x2", node1("Identity", names("x"), names("x2")))))
		return outer
	})
	p.Initializer = []*pb.TensorProto{{Name: "sure", DataType: int32(tBool), Int32Data: []int32{1}}}
	checkRanked(t, p)
}

// TestRankFollowsFromRanks converts a pattern of detectors: a gather after a GatherND whose indices NonZero makes.
func TestRankFollowsFromRanks(t *testing.T) {
	p := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("NonZero", names("m"), names("nz")), node1("Transpose", names("nz"), names("at")),
			node1("GatherND", names("x", "at"), names("rows")),
			node1("Gather", names("rows", "order"), names("y"), attrInt("axis", 0))},
		Input:  infos(info("m", tFloat, 3), info("x", tFloat, 3, 2), info("order", tInt64, 2)),
		Output: infos(info("y", tFloat)),
	}
	out := run(t, model(11, p), map[string]*tensor.Tensor{"m": f32([]int{3}, 1, 0, 5),
		"x": f32([]int{3, 2}, 1, 2, 3, 4, 5, 6), "order": i64([]int{2}, 1, 0)})
	require.Equal(t, []int{2, 2}, out["y"].Shape)
	require.Equal(t, []float32{5, 6, 1, 2}, floatsOf(t, out["y"]))
}

// TestNestedBranchesStopAtTheLimit converts functions that call themselves in both branches. An error that concerns the
// whole model is an error of the conversion, not of the branch.
func TestNestedBranchesStopAtTheLimit(t *testing.T) {
	call := node1("Again", names("x", "cond"), names("z"))
	call.Domain = "mine"
	body := choose("fork", branchOf("z1", &pb.NodeProto{OpType: "Again", Domain: "mine", Input: names("x", "cond"),
		Output: names("z1")}),
		branchOf("z2", &pb.NodeProto{OpType: "Again", Domain: "mine", Input: names("x", "cond"), Output: names("z2")}))
	f := &pb.FunctionProto{Name: "Again", Domain: "mine", Input: names("x", "cond"), Output: names("z"),
		Node:        []*pb.NodeProto{body},
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}, {Domain: "mine", Version: 1}}}
	g := &pb.GraphProto{Node: []*pb.NodeProto{call}, Input: infos(info("x", tFloat, 2), info("cond", tBool)),
		Output: infos(info("z", tFloat))}
	_, err := toGraph(model(13, g, f), Options{})
	require.ErrorContains(t, err, "nested too deep")
}

// uneven returns an If on a size. The first branch is taken for sizes above 2, and requires a multiple of 3, unlike the
// hints of the importer. The branch itself, or the nodes after the If, make rows of three.
func uneven(later bool) *pb.ModelProto {
	three := node1("Reshape", names("xx", "threes"), names("r"))
	yes, no := branchOf("r", three), branchOf("s", node1("Reshape", names("xx", "row"), names("s")))
	following := node1("Reshape", names("c", "all"), names("flat"))
	if later { // ranks differ, so that what follows belongs to the branches
		yes = branchOf("t", node1("Unsqueeze", names("xx", "zero1"), names("t")))
		no = branchOf("s", node1("Identity", names("threeones"), names("s")))
		following = node1("Reshape", names("c", "threes"), names("flat"))
	}
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("bound", nil, 2), int64s("threes", []int64{2}, -1, 3),
			int64s("row", []int64{2}, 1, -1), int64s("all", []int64{1}, -1), int64s("zero1", []int64{1}, 0),
			floats("threeones", []int64{3}, 1, 1, 1)},
		Node: []*pb.NodeProto{node1("Greater", names("n", "bound"), names("cond")),
			node1("Concat", names("x", "x"), names("xx"), attrInt("axis", 0)),
			node1("If", names("cond"), names("c"), attrGraph("then_branch", yes), attrGraph("else_branch", no)),
			following, node1("Relu", names("flat"), names("z"))},
		Input: infos(info("x", tFloat, "N")), Output: infos(info("z", tFloat, nil)),
	}
	return model(13, firstSize(p))
}

// A branch is converted for sizes at which it is taken, even if the conversion fails at the hints.
func TestBranchOnSizesIsJudgedWhereItIsTaken(t *testing.T) {
	for _, later := range []bool{false, true} {
		for _, n := range []int{1, 2, 3, 6, 30} {
			forSizes(t, uneven(later), map[string]*tensor.Tensor{"x": ramp(n)}, map[string]int{"N": n})
		}
		g, err := toGraph(uneven(later), Options{})
		require.NoError(t, err)
		require.NoError(t, g.BindWithoutInference(map[string]int{"N": 4}))
		_, err = execute(g, map[string]*tensor.Tensor{"x": ramp(4)})
		require.ErrorContains(t, err, "invalid for input of size 8")
	}
}

// TestSqueezedSizeOfBranch squeezes an axis of open size in a branch: the nodes after the If have its rank.
func TestSqueezedSizeOfBranch(t *testing.T) {
	yes := branchOf("p", node1("Squeeze", names("x"), names("p"), attrInts("axes", 0)))
	m := model(11, &pb.GraphProto{
		Node: []*pb.NodeProto{choose("rank", yes, branchOf("q", node1("Identity", names("x"), names("q")))),
			node1("Transpose", names("z"), names("y"))},
		Input: infos(info("x", tFloat, "N", 2), info("cond", tBool)), Output: infos(info("y", tFloat))})
	for n := 1; n < 3; n++ {
		g, err := toGraph(m, Options{})
		require.NoError(t, err)
		require.NoError(t, g.Bind(map[string]int{"N": n}))
		x := f32([]int{n, 2}, []float32{1, 2, 3, 4}[:2*n]...)
		out := runGraph(t, g, map[string]*tensor.Tensor{"x": x, "cond": flag(false)})
		require.Equal(t, []int{2, n}, out["y"].Shape)
		out, err = execute(g, map[string]*tensor.Tensor{"x": x, "cond": flag(true)})
		if n == 1 {
			require.NoError(t, err)
			require.Equal(t, []float32{1, 2}, floatsOf(t, out["y"]))
		} else {
			require.Error(t, err)
		}
	}
}

// TestMapsOfBranches has maps as results of branches, and maps that an If with another rank in each branch passes on.
func TestMapsOfBranches(t *testing.T) {
	zip := func(out string) *pb.NodeProto {
		n := node1("ZipMap", names("x"), names(out),
			&pb.AttributeProto{Name: "classlabels_int64s", Type: pb.AttributeInts, Ints: []int64{7, 9}})
		n.Domain = "ai.onnx.ml"
		return n
	}
	passed := &pb.GraphProto{
		Node: []*pb.NodeProto{zip("y"), choose("rank",
			branchOf("p", node1("ReduceSum", names("x"), names("p"), attrInt("keepdims", 0))),
			branchOf("q", node1("Neg", names("x"), names("q")))), node1("Shape", names("z"), names("s"))},
		Input:  infos(info("x", tFloat, 1, 2), info("cond", tBool)),
		Output: infos(&pb.ValueInfoProto{Name: "y"}, info("s", tInt64))}
	made := &pb.GraphProto{Node: []*pb.NodeProto{choose("made", branchOf("p", zip("p")), branchOf("q", zip("q")))},
		Input: passed.Input, Output: infos(&pb.ValueInfoProto{Name: "z"})}
	for i, p := range []*pb.GraphProto{passed, made} {
		m := model(11, p)
		m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: "ai.onnx.ml", Version: 1})
		g, err := toGraph(m, Options{})
		require.NoError(t, err)
		out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{1, 2}, 0.25, 0.75), "cond": flag(true)})
		name := []string{"y", "z"}[i]
		maps, err := g.Labels[name].Maps(out[name])
		require.NoError(t, err)
		require.Equal(t, []map[string]float64{{"7": 0.25, "9": 0.75}}, maps)
	}
}
