package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// textWeight returns a weight of strings.
func textWeight(name string, dims []int64, list ...string) *pb.TensorProto {
	t := &pb.TensorProto{Name: name, Dims: dims, DataType: int32(pb.String)}
	for _, s := range list {
		t.StringData = append(t.StringData, []byte(s))
	}
	return t
}

// textChoice returns y = cond ? x : "b", "c".
func textChoice() *pb.GraphProto {
	yes := &pb.GraphProto{Node: []*pb.NodeProto{node1("Identity", names("x"), names("a"))},
		Output: infos(info("a", pb.String))}
	no := &pb.GraphProto{Node: []*pb.NodeProto{node1("Identity", names("words"), names("b"))},
		Output:      infos(info("b", pb.String)),
		Initializer: []*pb.TensorProto{textWeight("words", []int64{2}, "b", "c")}}
	return &pb.GraphProto{
		Node: []*pb.NodeProto{node1("If", names("cond"), names("y"), attrGraph("then_branch", yes),
			attrGraph("else_branch", no))},
		Input:  infos(info("x", pb.String, 2), info("cond", tBool)),
		Output: infos(info("y", pb.String)),
	}
}

// TestIfOfTexts runs both branches of an If whose results are strings.
func TestIfOfTexts(t *testing.T) {
	m := model(13, textChoice())
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	x, err := g.Labels["x"].Encode([]string{"c", "b"}, 2)
	require.NoError(t, err)
	for cond, want := range map[bool][]string{true: {"c", "b"}, false: {"b", "c"}} {
		flag := tensor.Must(tensor.FromSlice([]bool{cond}))
		out := run(t, m, map[string]*tensor.Tensor{"x": x, "cond": flag})
		got, err := g.Labels["y"].Decode(out["y"])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestIfOfTextsAndNumbers rejects a result that has strings in only one branch.
func TestIfOfTextsAndNumbers(t *testing.T) {
	p := textChoice()
	yes := p.Node[0].Attribute[0].G
	yes.Node = []*pb.NodeProto{node1("Shape", names("x"), names("s")), node1("Concat", names("s", "s"), names("a"),
		attrInt("axis", 0))}
	_, err := toGraph(model(13, p), Options{})
	require.ErrorContains(t, err, "result 0 has strings in only one branch")
}

// TestLoopOfTexts replaces "a" by "b" and "b" by "c" in each iteration, and collects the strings.
func TestLoopOfTexts(t *testing.T) {
	for _, known := range []bool{false, true} {
		body := &pb.GraphProto{
			Node: []*pb.NodeProto{node1("Equal", names("v", "A"), names("isA")), node1("Equal", names("v", "B"), names("isB")),
				node1("Where", names("isB", "C", "v"), names("u")), node1("Where", names("isA", "B", "u"), names("w")),
				node1("Identity", names("w"), names("seen")), node1("Identity", names("c"), names("go"))},
			Input:  infos(info("i", tInt64), info("c", tBool), info("v", pb.String, 2)),
			Output: infos(info("go", tBool), info("w", pb.String, 2), info("seen", pb.String, 2)),
			Initializer: []*pb.TensorProto{textWeight("A", nil, "a"), textWeight("B", nil, "b"),
				textWeight("C", nil, "c")},
		}
		p := &pb.GraphProto{
			Node:   []*pb.NodeProto{node1("Loop", names("trips", "", "x"), names("last", "all"), attrGraph("body", body))},
			Input:  infos(info("x", pb.String, 2)),
			Output: infos(info("last", pb.String), info("all", pb.String)),
		}
		trips := i64(nil, 2)
		in := map[string]*tensor.Tensor{}
		if known {
			p.Initializer = []*pb.TensorProto{{Name: "trips", DataType: int32(tInt64), Int64Data: []int64{2}}}
		} else {
			p.Input, in["trips"] = append(p.Input, info("trips", tInt64)), trips
		}
		m := model(13, p)
		g, err := toGraph(m, Options{})
		require.NoError(t, err)
		in["x"], err = g.Labels["x"].Encode([]string{"a", "c"}, 2)
		require.NoError(t, err)
		out := run(t, m, in)
		for name, want := range map[string][]string{"last": {"c", "c"}, "all": {"b", "c", "c", "c"}} {
			got, err := g.Labels[name].Decode(out[name])
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
	}
}
