package onnx

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// chainOf returns nodes that compute y = ((x + x) + x) + x and so on, in order.
func chainOf(length int) []*pb.NodeProto {
	var nodes []*pb.NodeProto
	last := "x"
	for i := range length {
		next := "y"
		if i < length-1 {
			next = "v" + string(rune('a'+i))
		}
		nodes = append(nodes, node1("Add", names(last, "x"), names(next)))
		last = next
	}
	return nodes
}

// TestNodesInAnyOrder runs a graph, a function, and the bodies of If, Loop and Scan with their nodes in all orders.
func TestNodesInAnyOrder(t *testing.T) {
	const length = 5
	x := f32([]int{2}, 1, -3)
	r := rand.New(rand.NewPCG(1, 2))
	shuffled := func() []*pb.NodeProto {
		nodes := chainOf(length)
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		return nodes
	}
	in, out := infos(info("x", tFloat, 2)), infos(info("y", tFloat, 2))
	body := func() *pb.GraphProto { return &pb.GraphProto{Name: "b", Node: shuffled(), Output: out} }
	trips, yes := int64s("trips", nil, 1), &pb.TensorProto{Name: "yes", DataType: int32(tBool), Int32Data: []int32{1}}
	weights := []*pb.TensorProto{trips, yes}
	for kind, model := range map[string]func() *pb.ModelProto{
		"graph": func() *pb.ModelProto { return model(13, &pb.GraphProto{Node: shuffled(), Input: in, Output: out}) },
		"function": func() *pb.ModelProto {
			return model(13, &pb.GraphProto{Node: []*pb.NodeProto{{OpType: "F", Domain: "mine", Input: names("x"),
				Output: names("y")}}, Input: in, Output: out}, &pb.FunctionProto{Name: "F", Domain: "mine", Input: names("x"),
				Output: names("y"), Node: shuffled(), OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}}})
		},
		"if": func() *pb.ModelProto { // the condition depends on data, and the If is before the node that computes it
			return model(13, &pb.GraphProto{Node: []*pb.NodeProto{
				node1("If", names("c"), names("y"), attrGraph("then_branch", body()), attrGraph("else_branch", body())),
				node1("Greater", names("greatest", "zero"), names("c")),
				node1("ReduceMax", names("x"), names("greatest"), attrInt("keepdims", 0)),
			}, Initializer: []*pb.TensorProto{floats("zero", nil, 0)}, Input: in, Output: out})
		},
		"loop": func() *pb.ModelProto { // the result of the loop has the name of a value of its body
			loop := &pb.GraphProto{Name: "b", Node: append(shuffled(), node1("Identity", names("go"), names("on"))),
				Input:  infos(info("i", tInt64), info("go", tBool), info("old", tFloat, 2)),
				Output: infos(info("on", tBool), info("y", tFloat, 2))}
			slices.Reverse(loop.Node)
			return model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Loop", names("trips", "yes", "x"), names("y"),
				attrGraph("body", loop))}, Initializer: weights, Input: in, Output: out})
		},
		"scan": func() *pb.ModelProto {
			scan := &pb.GraphProto{Name: "b", Node: shuffled(), Input: infos(info("s", tFloat, 2)), Output: out}
			return model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Squeeze", names("rows", "axes"), names("y")),
				node1("Scan", names("ones"), names("rows"), attrInt("num_scan_inputs", 1), attrGraph("body", scan))},
				Initializer: []*pb.TensorProto{floats("ones", []int64{1, 2}, 1, 1), int64s("axes", []int64{1}, 0)}, Input: in,
				Output: out})
		},
	} {
		for range 20 {
			got := run(t, model(), map[string]*tensor.Tensor{"x": x})["y"]
			require.Equal(t, []float32{length + 1, -3 * (length + 1)}, floatsOf(t, got), kind)
		}
	}
}

// TestOrderIsKept checks that nodes in order keep their places, also if a branch has a value with the name of a later
// value outside.
func TestOrderIsKept(t *testing.T) {
	inner := &pb.GraphProto{Name: "b", Node: []*pb.NodeProto{node1("Neg", names("x"), names("z")),
		node1("Abs", names("z"), names("r"))}, Output: infos(info("r", tFloat, 2))}
	m := model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Relu", names("x"), names("d")),
		node1("If", names("c"), names("y"), attrGraph("then_branch", inner), attrGraph("else_branch", inner)),
		node1("Neg", names("d"), names("z")), node1("Abs", names("x"), names("a"))},
		Input: infos(info("x", tFloat, 2), info("c", tBool)), Output: infos(info("y", tFloat, 2), info("z", tFloat, 2),
			info("a", tFloat, 2))})
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	var got []string
	for _, n := range g.Nodes {
		got = append(got, n.Name)
	}
	assert.Equal(t, []string{"d", "y", "z", "a"}, got)
}

func TestCyclesAreNamed(t *testing.T) {
	cyclic := func() []*pb.NodeProto {
		return []*pb.NodeProto{node1("Neg", names("x"), names("fine")), node1("Add", names("c", "x"), names("a")),
			node1("Neg", names("a"), names("b")), node1("Neg", names("b"), names("c")),
			node1("Add", names("s", "x"), names("s"))}
	}
	in := infos(info("x", tFloat, 2))
	const cycles = "node \"s\" (Add): the graph has a cycle: s -> s\n" +
		"node \"a\" (Add): the graph has a cycle: a -> b -> c -> a"
	branch := &pb.GraphProto{Name: "b", Node: cyclic(), Output: infos(info("c", tFloat, 2))}
	for kind, nodes := range map[string][]*pb.NodeProto{
		"graph": cyclic(),
		"branch": {node1("If", names("cond"), names("fine"), attrGraph("then_branch", branch),
			attrGraph("else_branch", &pb.GraphProto{Name: "e", Output: infos(info("x", tFloat, 2))}))},
	} {
		m := model(13, &pb.GraphProto{Node: nodes, Input: append(slices.Clone(in), info("cond", tBool)),
			Output: infos(info("fine", tFloat, 2))})
		_, err := toGraph(m, Options{})
		require.Error(t, err, kind)
		assert.Equal(t, cycles, err.Error(), kind)
	}
	// Without the cycle, the rest can be converted.
	m := model(13, &pb.GraphProto{Node: cyclic(), Input: in, Output: infos(info("fine", tFloat, 2), info("c", tFloat, 2))})
	p, err := Parse(pb.Marshal(m), "")
	require.NoError(t, err)
	g, mistakes, err := p.GraphSome(Options{})
	require.NoError(t, err)
	assert.Empty(t, mistakes)
	rejected := g.InferAll()
	assert.Contains(t, g.RootErrors(rejected).Error(), "the graph has a cycle: a -> b -> c -> a")
	rest := g.WithoutRejected(rejected)
	require.Len(t, rest.Outputs, 1)
	assert.Equal(t, "fine", rest.Outputs[0].Name)
}

// TestManyCycles checks that cycles take little time and text, however many there are.
func TestManyCycles(t *testing.T) {
	const size = 70000 // more nodes than those in which all cycles are searched at once
	pairs, ring := &pb.GraphProto{}, &pb.GraphProto{}
	for i := range size {
		pairs.Node = append(pairs.Node, node1("Neg", names(fmt.Sprint("v", i^1)), names(fmt.Sprint("v", i))))
		ring.Node = append(ring.Node, node1("Neg", names(fmt.Sprint("v", (i+1)%size)), names(fmt.Sprint("v", i))))
	}
	for _, p := range []*pb.GraphProto{pairs, ring} {
		p.Output = infos(info("v0", tFloat))
		start := time.Now()
		_, err := toGraph(model(13, p), Options{})
		require.ErrorContains(t, err, "the graph has a cycle: ")
		assert.Less(t, len(err.Error()), 2000)
		assert.Less(t, time.Since(start), 20*time.Second) // one search for each cycle takes a minute
	}
}
