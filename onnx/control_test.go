package onnx

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/tensor"
)

// choice returns y = cond ? x + 1 : -x, with branches that capture x.
func choice() *pb.GraphProto {
	yes := &pb.GraphProto{Node: []*pb.NodeProto{node1("Add", names("x", "one"), names("a"))},
		Output:      infos(info("a", tFloat)),
		Initializer: []*pb.TensorProto{floats("one", nil, 1)}}
	no := &pb.GraphProto{Node: []*pb.NodeProto{node1("Neg", names("x"), names("b"))}, Output: infos(info("b", tFloat))}
	return &pb.GraphProto{
		Node: []*pb.NodeProto{node1("If", names("cond"), names("y"), attrGraph("then_branch", yes),
			attrGraph("else_branch", no))},
		Input:  infos(info("x", tFloat, 2), info("cond", tBool)),
		Output: infos(info("y", tFloat)),
	}
}

func TestIf(t *testing.T) {
	x := f32([]int{2}, 1, 2)
	for cond, want := range map[bool][]float32{true: {2, 3}, false: {-1, -2}} {
		flag := tensor.Must(tensor.FromSlice([]bool{cond}))
		out := run(t, model(13, choice()), map[string]*tensor.Tensor{"x": x, "cond": flag})
		require.Equal(t, want, floatsOf(t, out["y"]))
	}
}

func TestIfOfAConstantIsInlined(t *testing.T) {
	p := choice()
	p.Input = p.Input[:1] // as an input, cond would be the default of a run
	p.Initializer = []*pb.TensorProto{{Name: "cond", DataType: int32(tBool), Int32Data: []int32{1}}}
	g, err := toGraph(model(13, p), Options{})
	require.NoError(t, err)
	require.Len(t, g.Nodes, 1)
	require.Equal(t, "add", g.Nodes[0].Op.Name)
}

// powers doubles x trips times and collects the values, while the sum is less than a bound that the body captures.
func powers() *pb.GraphProto {
	body := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Add", names("v", "v"), names("w")),
			node1("ReduceSum", names("w"), names("sum"), attrInt("keepdims", 0)),
			node1("Less", names("sum", "bound"), names("go")), node1("Identity", names("w"), names("seen"))},
		Input:  infos(info("i", tInt64), info("c", tBool), info("v", tFloat, 2)),
		Output: infos(info("go", tBool), info("w", tFloat, 2), info("seen", tFloat, 2)),
	}
	return &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Loop", names("trips", "", "x"), names("last", "all"), attrGraph("body", body))},
		Input:  infos(info("trips", tInt64), info("x", tFloat, 2), info("bound", tFloat)),
		Output: infos(info("last", tFloat), info("all", tFloat)),
	}
}

func TestLoop(t *testing.T) {
	for _, c := range []struct {
		trips int64
		bound float32
		last  []float32
		all   []int
	}{{3, 1000, []float32{8, 16}, []int{3, 2}}, {10, 20, []float32{8, 16}, []int{3, 2}},
		{0, 1, []float32{1, 2}, []int{0, 2}}} {
		out := run(t, model(13, powers()), map[string]*tensor.Tensor{"trips": i64(nil, c.trips), "x": f32([]int{2}, 1, 2),
			"bound": f32(nil, c.bound)})
		require.Equal(t, c.last, floatsOf(t, out["last"]))
		require.Equal(t, c.all, out["all"].Shape)
	}
}

// TestLoopInputsOfShape1 has a body that declares its iteration and its condition with the shape [1].
func TestLoopInputsOfShape1(t *testing.T) {
	body := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Squeeze", names("i", "first"), names("number")),
			node1("Add", names("v", "number"), names("w")), node1("Squeeze", names("c", "first"), names("flag")),
			node1("Identity", names("c"), names("d")),
			node1("Cast", names("flag"), names("seen"), attrInt("to", int64(tInt64)))},
		Input:       infos(info("i", tInt64, 1), info("c", tBool, 1), info("v", tInt64)),
		Output:      infos(info("d", tBool, 1), info("w", tInt64), info("seen", tInt64)),
		Initializer: []*pb.TensorProto{int64s("first", []int64{1}, 0)},
	}
	g := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Loop", names("trips", "go", "x"), names("y", "all"), attrGraph("body", body))},
		Input:  infos(info("trips", tInt64), info("go", tBool), info("x", tInt64)),
		Output: infos(info("y", tInt64), info("all", tInt64, nil)),
	}
	goes := tensor.Must(tensor.FromSlice([]bool{true}))
	in := map[string]*tensor.Tensor{"trips": i64(nil, 4), "go": goes, "x": i64(nil, 10)}
	check := func(out map[string]*tensor.Tensor) {
		t.Helper()
		require.Equal(t, []int64{16}, intsOf(t, out["y"])) // 10 + 0 + 1 + 2 + 3
		require.Equal(t, []int64{1, 1, 1, 1}, intsOf(t, out["all"]))
	}
	check(run(t, model(13, g), in))
	g.Initializer = []*pb.TensorProto{int64s("trips", nil, 4), {Name: "go", DataType: int32(tBool), Int32Data: []int32{1}}}
	g.Input = g.Input[2:] // as inputs, they would be defaults
	converted, err := toGraph(model(13, g), Options{})
	require.NoError(t, err)
	require.False(t, converted.Dynamic(), "the loop is unrolled")
	check(runGraph(t, converted, map[string]*tensor.Tensor{"x": in["x"]}))
}

// TestLoopOfGrowingValue appends to a carried value, so that its shape changes in each iteration.
func TestLoopOfGrowingValue(t *testing.T) {
	body := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Concat", names("v", "more"), names("w"), attrInt("axis", 0)),
			node1("Identity", names("c"), names("d"))},
		Input:       infos(info("i", tInt64), info("c", tBool), info("v", tFloat, nil)),
		Output:      infos(info("d", tBool), info("w", tFloat, nil)),
		Initializer: []*pb.TensorProto{floats("more", []int64{1}, 7)},
	}
	g := &pb.GraphProto{
		Node:  []*pb.NodeProto{node1("Loop", names("trips", "", "x"), names("y"), attrGraph("body", body))},
		Input: infos(info("trips", tInt64), info("x", tFloat, 1)), Output: infos(info("y", tFloat)),
	}
	x := f32([]int{1}, 1)
	out := run(t, model(13, g), map[string]*tensor.Tensor{"trips": i64(nil, 3), "x": x})
	require.Equal(t, []float32{1, 7, 7, 7}, floatsOf(t, out["y"]))

	// A loop with a known number of iterations is unrolled.
	g.Initializer, g.Input = []*pb.TensorProto{int64s("trips", nil, 2)}, g.Input[1:]
	converted, err := toGraph(model(13, g), Options{})
	require.NoError(t, err)
	require.False(t, converted.Dynamic())
	require.Equal(t, []float32{1, 7, 7}, floatsOf(t, runGraph(t, converted, map[string]*tensor.Tensor{"x": x})["y"]))
}

// runningSum scans rows from the last to the first.
func runningSum(rows any) *pb.GraphProto {
	body := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Add", names("s", "row"), names("t")), node1("Identity", names("t"), names("out"))},
		Input:  infos(info("s", tFloat, 2), info("row", tFloat, 2)),
		Output: infos(info("t", tFloat, 2), info("out", tFloat, 2)),
	}
	return &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Scan", names("zero", "x"), names("sum", "sums"), attrGraph("body", body),
			attrInt("num_scan_inputs", 1),
			attrInts("scan_input_directions", 1), attrInts("scan_output_axes", 1))},
		Input:  infos(info("zero", tFloat, 2), info("x", tFloat, rows, 2)),
		Output: infos(info("sum", tFloat), info("sums", tFloat)),
	}
}

func TestScan(t *testing.T) {
	in := map[string]*tensor.Tensor{"zero": f32([]int{2}, 0, 0), "x": f32([]int{3, 2}, 1, 10, 2, 20, 3, 30)}
	check := func(out map[string]*tensor.Tensor) {
		require.Equal(t, []float32{6, 60}, floatsOf(t, out["sum"]))
		require.Equal(t, []int{2, 3}, out["sums"].Shape)
		require.Equal(t, []float32{3, 5, 6, 30, 50, 60}, floatsOf(t, out["sums"]))
	}
	check(run(t, model(13, runningSum(3)), in))
	// A scan of symbolic length becomes a node.
	g, err := toGraph(model(13, runningSum("T")), Options{})
	require.NoError(t, err)
	require.NoError(t, g.Bind(map[string]int{"T": 3}))
	check(runGraph(t, g, in))
}

// TestScanBackwardsOfUnknownLength scans one row backwards, beside rows whose number depends on data.
func TestScanBackwardsOfUnknownLength(t *testing.T) {
	body := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Sum", names("s", "selected", "row"), names("t"))},
		Input:  infos(info("s", tFloat, 2), info("selected", tFloat, 2), info("row", tFloat, 2)),
		Output: infos(info("t", tFloat, 2)),
	}
	g := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("Compress", names("y", "keep"), names("kept"), attrInt("axis", 0)),
			node1("Scan", names("zero", "kept", "x"), names("sum"), attrGraph("body", body),
				attrInt("num_scan_inputs", 2), attrInts("scan_input_directions", 0, 1))},
		Input:  infos(info("zero", tFloat, 2), info("y", tFloat, 3, 2), info("keep", tBool, 3), info("x", tFloat, 1, 2)),
		Output: infos(info("sum", tFloat)),
	}
	keep, err := tensor.FromSlice([]bool{false, true, false}, 3)
	require.NoError(t, err)
	out := run(t, model(13, g), map[string]*tensor.Tensor{"zero": f32([]int{2}, 0, 0), "keep": keep,
		"y": f32([]int{3, 2}, 1, 10, 2, 20, 3, 30), "x": f32([]int{1, 2}, 100, 200)})
	require.Equal(t, []float32{102, 220}, floatsOf(t, out["sum"]))
}

func TestSequences(t *testing.T) {
	g := &pb.GraphProto{
		Node: []*pb.NodeProto{node1("SplitToSequence", names("x"), names("s"), attrInt("axis", 1), attrInt("keepdims", 0)),
			node1("SequenceAt", names("s", "minus"), names("last")), node1("SequenceErase", names("s", "minus"), names("s1")),
			node1("SequenceInsert", names("s1", "last", "first"), names("s2")), node1("SequenceLength", names("s2"), names("n")),
			node1("ConcatFromSequence", names("s2"), names("y"), attrInt("axis", 1), attrInt("new_axis", 1))},
		Input: infos(info("x", tFloat, 1, 3)), Output: infos(info("y", tFloat), info("n", tInt64)),
		Initializer: []*pb.TensorProto{int64s("minus", nil, -1), int64s("first", nil, 0)},
	}
	out := run(t, model(17, g), map[string]*tensor.Tensor{"x": f32([]int{1, 3}, 1, 2, 3)})
	require.Equal(t, []float32{3, 1, 2}, floatsOf(t, out["y"]))
	require.Equal(t, []int64{3}, intsOf(t, out["n"]))
}

// TestSequencesOfOneDType: the members of a sequence have one dtype, which an empty sequence declares.
func TestSequencesOfOneDType(t *testing.T) {
	for _, first := range []*pb.NodeProto{node1("SequenceEmpty", nil, names("s"), attrInt("dtype", int64(tFloat))),
		node1("SequenceConstruct", names("x"), names("s"))} {
		_, err := toGraph(model(17, &pb.GraphProto{Node: []*pb.NodeProto{first,
			node1("SequenceInsert", names("s", "i"), names("s2")), node1("SequenceLength", names("s2"), names("n"))},
			Input: infos(info("x", tFloat, 1), info("i", tInt64, 1)), Output: infos(info("n", tInt64))}), Options{})
		require.ErrorContains(t, err, "a sequence of float32 cannot have a member of int64")
	}
	_, err := toGraph(model(17, &pb.GraphProto{Node: []*pb.NodeProto{node1("SequenceConstruct", names("x", "i"), names("s")),
		node1("SequenceLength", names("s"), names("n"))},
		Input: infos(info("x", tFloat, 1), info("i", tInt64, 1)), Output: infos(info("n", tInt64))}), Options{})
	require.ErrorContains(t, err, "a sequence of float32 cannot have a member of int64")
}

// TestLoopInBranchOverOpenSize runs a loop in a branch. The number of iterations is a size that the branch computes.
func TestLoopInBranchOverOpenSize(t *testing.T) {
	body := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Add", names("v", "one"), names("w")), node1("Identity", names("c"), names("d"))},
		Input:  infos(info("i", tInt64), info("c", tBool), info("v", tFloat)),
		Output: infos(info("d", tBool), info("w", tFloat))}
	loop := func() *pb.GraphProto {
		return &pb.GraphProto{Output: infos(info("last", tFloat)), Node: []*pb.NodeProto{
			node1("Shape", names("x"), names("shape")), node1("Gather", names("shape", "zero"), names("length")),
			node1("Loop", names("length", "", "start"), names("last"), attrGraph("body", body))}}
	}
	g, err := toGraph(model(13, &pb.GraphProto{
		Node: []*pb.NodeProto{node1("If", names("cond"), names("y"), attrGraph("then_branch", loop()),
			attrGraph("else_branch", loop()))},
		Input:       infos(info("x", tFloat, "N"), info("cond", tBool), info("start", tFloat)),
		Initializer: []*pb.TensorProto{floats("one", nil, 1), int64s("zero", nil, 0)},
		Output:      infos(info("y", tFloat))}), Options{})
	require.NoError(t, err)
	for n := range 4 {
		p, err := program.New(g, program.Options{})
		require.NoError(t, err)
		out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n),
			"cond": flag(n%2 == 0), "start": f32(nil, 10)})
		require.NoError(t, err)
		require.Equal(t, []float32{10 + float32(n)}, floatsOf(t, out["y"]))
	}
}

// TestSplitIntoPartsOfTheRun splits along each axis into parts whose sizes and number the run gives.
func TestSplitIntoPartsOfTheRun(t *testing.T) {
	x := counting(2, 3, 4)
	part := func(axis, i int, sizes *tensor.Tensor) (*tensor.Tensor, error) {
		dims := []any{"parts"}[:sizes.Rank()]
		g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{
			node1("SplitToSequence", names("x", "sizes"), names("parts"), attrInt("axis", int64(axis))),
			node1("SequenceAt", names("parts", "i"), names("y"))}, Output: infos(info("y", tFloat)),
			Input: infos(info("x", tFloat, 2, 3, 4), info("sizes", tInt64, dims...), info("i", tInt64))}), Options{})
		require.NoError(t, err)
		if len(dims) > 0 {
			require.NoError(t, g.Bind(map[string]int{"parts": sizes.Shape[0]}))
		}
		out, err := execute(g, map[string]*tensor.Tensor{"x": x, "sizes": sizes, "i": i64(nil, int64(i))})
		return out["y"], err
	}
	for axis, size := range x.Shape {
		length := int64(size)
		for _, sizes := range []*tensor.Tensor{i64(nil, 2), i64([]int{3}, 1, 0, length-1), i64([]int{1}, length)} {
			start := int64(0)
			for i := 0; start < length; i++ {
				end := start + 2
				if sizes.Rank() == 1 {
					end = start + sizes.At(i).Int()
				}
				want := single(t, 13, "Slice", "bcd", []*tensor.Tensor{x, i64([]int{1}, start), i64([]int{1}, end),
					i64([]int{1}, int64(axis))}, 1)[0]
				y, err := part(axis, i, sizes)
				require.NoError(t, err)
				require.NoError(t, compare(y, want), "axis %d, part %d of %v", axis, i, sizes)
				start = end
			}
		}
		for _, sizes := range []*tensor.Tensor{i64([]int{2}, length+1, -1), i64([]int{1}, 1), i64(nil, 0), i64(nil, -1)} {
			_, err := part(axis, 0, sizes)
			require.Error(t, err, "axis %d: %v", axis, sizes)
		}
	}
}
