package onnx

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// These tests run valid nodes in forms that few exporters write. ONNX Runtime accepts them.

// runNode runs one node. Constants have the names c0, c1 and so on, and inputs any other name.
func runNode(t *testing.T, opset int64, n *pb.NodeProto, in map[string]*tensor.Tensor,
	constants ...*pb.TensorProto) map[string]*tensor.Tensor {
	t.Helper()
	g := &pb.GraphProto{Node: []*pb.NodeProto{n}, Initializer: constants}
	for i, c := range constants {
		c.Name = fmt.Sprint("c", i)
	}
	for name, x := range in {
		dims := make([]any, len(x.Shape))
		for i, size := range x.Shape {
			dims[i] = size
		}
		elementType := map[tensor.DType]pb.DataType{tensor.Float32: pb.Float, tensor.Int64: pb.Int64,
			tensor.Uint32: pb.Uint32, tensor.Uint64: pb.Uint64, tensor.Int32: pb.Int32}[x.DType]
		g.Input = append(g.Input, info(name, elementType, dims...))
	}
	for _, name := range n.Output {
		if name != "" {
			g.Output = append(g.Output, &pb.ValueInfoProto{Name: name})
		}
	}
	m := model(opset, g)
	m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: "com.microsoft", Version: 1})
	return run(t, m, in)
}

// TestAxesThatOccurTwice counts repeated axes once: -1 and 1 are the same axis of a matrix.
func TestAxesThatOccurTwice(t *testing.T) {
	x := f32([]int{2, 2}, 1, 2, 3, 5)
	for op, want := range map[string][]float32{"ReduceSum": {3, 8}, "ReduceMean": {1.5, 4}, "ReduceMax": {2, 5},
		"ReduceMin": {1, 3}, "ReduceProd": {2, 15}, "ReduceL1": {3, 8}, "ReduceSumSquare": {5, 34},
		"ReduceL2":        {float32(math.Sqrt(5)), float32(math.Sqrt(34))},
		"ReduceLogSum":    {float32(math.Log(3)), float32(math.Log(8))},
		"ReduceLogSumExp": {float32(math.Log(math.Exp(1) + math.Exp(2))), float32(math.Log(math.Exp(3) + math.Exp(5)))}} {
		for keepDims, shape := range map[int64][]int{0: {2}, 1: {2, 1}} {
			byAttribute := runNode(t, 11, node1(op, names("x"), names("y"), attrInts("axes", 1, -1, 1),
				attrInt("keepdims", keepDims)), map[string]*tensor.Tensor{"x": x})["y"]
			byOperand := runNode(t, 18, node1(op, names("x", "c0"), names("y"), attrInt("keepdims", keepDims)),
				map[string]*tensor.Tensor{"x": x}, int64s("", []int64{3}, 1, -1, 1))["y"]
			for _, y := range []*tensor.Tensor{byAttribute, byOperand} {
				assert.Equal(t, shape, y.Shape, op)
				assert.InDeltaSlice(t, want, floatsOf(t, y), 1e-6, op)
			}
		}
	}
	y := runNode(t, 13, node1("Squeeze", names("x", "c0"), names("y")), map[string]*tensor.Tensor{"x": f32([]int{1, 2, 1},
		4, 6)}, int64s("", []int64{3}, 0, -3, 0))["y"]
	assert.Equal(t, []int{2, 1}, y.Shape)
	y = runNode(t, 13, node1("MeanVarianceNormalization", names("x"), names("y"), attrInts("axes", 1, -1)),
		map[string]*tensor.Tensor{"x": x})["y"]
	assert.InDeltaSlice(t, []float32{-1, 1, -1, 1}, floatsOf(t, y), 1e-6)
	// An axis cannot be inserted twice.
	_, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Unsqueeze", names("x", "axes"), names("y"))},
		Initializer: []*pb.TensorProto{int64s("axes", []int64{2}, 0, 0)}, Input: infos(info("x", tFloat, 2)),
		Output: infos(info("y", tFloat))}), Options{})
	require.ErrorContains(t, err, "axis 0 occurs twice")
}

// TestScalarsHaveAxis0InReductions gives a scalar axis 0 by an attribute, a constant and an input.
func TestScalarsHaveAxis0InReductions(t *testing.T) {
	x := map[string]*tensor.Tensor{"x": f32(nil, 3)}
	for _, axis := range []int64{0, -1} {
		constant := int64s("", []int64{1}, axis)
		for _, y := range []map[string]*tensor.Tensor{
			runNode(t, 11, node1("ReduceSum", names("x"), names("y"), attrInts("axes", axis)), x),
			runNode(t, 18, node1("ReduceMax", names("x", "c0"), names("y")), x, constant),
			runNode(t, 18, node1("ReduceL2", names("x", "axes"), names("y")),
				map[string]*tensor.Tensor{"x": x["x"], "axes": i64([]int{1}, axis)})} {
			require.Equal(t, []float32{3}, floatsOf(t, y["y"]))
			require.Empty(t, y["y"].Shape)
		}
	}
	pad := node1("Pad", names("x", "c0", "", "c1"), names("y"))
	m := model(18, &pb.GraphProto{Node: []*pb.NodeProto{pad}, Input: infos(info("x", tFloat)),
		Output: infos(info("y", tFloat)), Initializer: []*pb.TensorProto{int64s("c0", []int64{2}, 0, 0),
			int64s("c1", []int64{1}, 0)}})
	_, err := toGraph(m, Options{})
	require.ErrorContains(t, err, "axis 0 is out of range: the operand has 0 dimensions")
}

func TestOutputThatIsListedTwice(t *testing.T) {
	m := model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Neg", names("x"), names("y"))},
		Input: infos(info("x", tFloat, 1)), Output: infos(info("y", tFloat, 1), info("y", tFloat, 1))})
	out := run(t, m, map[string]*tensor.Tensor{"x": f32([]int{1}, 3)})
	assert.Equal(t, []float32{-3}, floatsOf(t, out["y"]))
}

// TestStatisticsOfSkipNorms checks x + skip = [[1, 3], [2, 6]], whose rows have the means 2 and 4 and the variances 1
// and 4.
func TestStatisticsOfSkipNorms(t *testing.T) {
	in := map[string]*tensor.Tensor{"x": f32([]int{1, 2, 2}, 1, 1, 1, 1), "skip": f32([]int{1, 2, 2}, 0, 2, 1, 5),
		"w": f32([]int{2}, 1, 1)}
	n := node1("SkipLayerNormalization", names("x", "skip", "w"), names("y", "mean", "inv", "sum"),
		attrFloat("epsilon", 0))
	n.Domain = "com.microsoft"
	out := runNode(t, 13, n, in)
	for name, want := range map[string][]float32{"y": {-1, 1, -1, 1}, "mean": {2, 4}, "inv": {1, 0.5},
		"sum": {1, 3, 2, 6}} {
		assert.InDeltaSlice(t, want, floatsOf(t, out[name]), 1e-6, name)
	}
	assert.Equal(t, []int{1, 2, 1}, out["mean"].Shape)
	n = node1("SkipSimplifiedLayerNormalization", names("x", "skip", "w"), names("y", "", "inv"), attrFloat("epsilon", 0))
	n.Domain = "com.microsoft"
	out = runNode(t, 13, n, in)
	assert.InDeltaSlice(t, []float32{float32(1 / math.Sqrt(5)), float32(1 / math.Sqrt(20))}, floatsOf(t, out["inv"]), 1e-6)
}

// TestBatchNormalizationOfVectors has one channel: (x - 1) / sqrt(4) * 3 + 5.
func TestBatchNormalizationOfVectors(t *testing.T) {
	one := []int64{1}
	in := map[string]*tensor.Tensor{"x": f32([]int{3}, 1, 3, -1)}
	n := node1("BatchNormalization", names("x", "c0", "c1", "c2", "c3"), names("y"), attrFloat("epsilon", 0))
	y := runNode(t, 15, n, in, floats("", one, 3), floats("", one, 5), floats("", one, 1), floats("", one, 4))["y"]
	assert.Equal(t, []int{3}, y.Shape)
	assert.InDeltaSlice(t, []float32{5, 8, 2}, floatsOf(t, y), 1e-6)
	// In training, the mean is 1 and the variance 8/3. The running statistics are averages.
	n = node1("BatchNormalization", names("x", "c0", "c1", "c2", "c3"), names("y", "m", "v"), attrFloat("epsilon", 0),
		attrInt("training_mode", 1), attrFloat("momentum", 0.5))
	out := runNode(t, 15, n, in, floats("", one, 3), floats("", one, 5), floats("", one, 3), floats("", one, 4))
	deviation := float32(math.Sqrt(8.0 / 3))
	assert.InDeltaSlice(t, []float32{5, 5 + 6/deviation, 5 - 6/deviation}, floatsOf(t, out["y"]), 1e-5)
	assert.InDeltaSlice(t, []float32{2}, floatsOf(t, out["m"]), 1e-6)
	assert.InDeltaSlice(t, []float32{(4 + 8.0/3) / 2}, floatsOf(t, out["v"]), 1e-6)
}

// TestProductsOfUnsignedIntegers checks sums that exceed the dtype: they are taken modulo 2^32 or 2^64.
func TestProductsOfUnsignedIntegers(t *testing.T) {
	a32 := tensor.Must(tensor.FromSlice([]uint32{1 << 31, 3, 7, 1<<32 - 1}, 2, 2))
	b32 := tensor.Must(tensor.FromSlice([]uint32{3, 5}, 2, 1))
	a64 := tensor.Must(tensor.FromSlice([]uint64{1 << 63, 3, 7, 1<<64 - 1}, 2, 2))
	b64 := tensor.Must(tensor.FromSlice([]uint64{3, 5}, 2, 1))
	for _, op := range names("MatMul", "Gemm") {
		n := node1(op, names("a", "b"), names("y"))
		y, err := tensor.ToSlice[uint32](runNode(t, 13, n, map[string]*tensor.Tensor{"a": a32, "b": b32})["y"])
		require.NoError(t, err)
		assert.Equal(t, []uint32{1<<31 + 15, 16}, y, n.OpType)
		wide, err := tensor.ToSlice[uint64](runNode(t, 13, n, map[string]*tensor.Tensor{"a": a64, "b": b64})["y"])
		require.NoError(t, err)
		assert.Equal(t, []uint64{1<<63 + 15, 16}, wide, n.OpType)
	}
	_, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("MatMul", names("a", "b"), names("y"))},
		Input: infos(info("a", tBool, 2, 2), info("b", tBool, 2, 2)), Output: infos(info("y", tBool))}), Options{})
	require.EqualError(t, err, `node "y" (MatMul): operands of bool and bool cannot be multiplied`)
}

// TestReflectionBeyondTheSize reflects [1, 2, 3] repeatedly, as numpy.pad does: ... 3 2 | 1 2 3 | 2 1 2 3 2 1 ...
func TestReflectionBeyondTheSize(t *testing.T) {
	row := []float32{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2}
	for rank := 1; rank <= 5; rank++ {
		shape, widths := make([]int, rank), make([]int64, 2*rank)
		for i := range shape {
			shape[i] = 1
		}
		shape[rank-1], widths[rank-1], widths[2*rank-1] = 3, 5, 5
		y := runNode(t, 13, node1("Pad", names("x", "c0"), names("y"), attrText("mode", "reflect")),
			map[string]*tensor.Tensor{"x": f32(shape, 1, 2, 3)}, int64s("", []int64{int64(2 * rank)}, widths...))["y"]
		assert.Equal(t, row, floatsOf(t, y), rank)
	}
	y := runNode(t, 13, node1("Pad", names("x", "c0"), names("y"), attrText("mode", "reflect")),
		map[string]*tensor.Tensor{"x": f32([]int{1, 1, 1}, 4)}, int64s("", []int64{6}, 0, 0, 2, 0, 0, 1))["y"]
	assert.Equal(t, []float32{4, 4, 4, 4}, floatsOf(t, y), "one element")
}

// TestPaddingOfOpenSizes pads sizes that the run gives, among them sizes less than the padding, and 0.
func TestPaddingOfOpenSizes(t *testing.T) {
	for mode, wants := range map[string][][]float32{
		"reflect": {{1, 1, 1, 1, 1, 1}, {2, 1, 2, 1, 2, 1, 2}, {2, 3, 2, 1, 2, 3, 2, 1}},
		"edge":    {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 2, 2, 2}, {1, 1, 1, 1, 2, 3, 3, 3}}} {
		g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Pad", names("x", "widths"), names("y"),
			attrText("mode", mode))}, Initializer: []*pb.TensorProto{int64s("widths", []int64{6}, 0, 0, 3, 0, 0, 2)},
			Input: infos(info("x", tFloat, 1, "C", "W")), Output: infos(info("y", tFloat))}), Options{})
		require.NoError(t, err)
		for i, want := range wants {
			require.NoError(t, g.Bind(map[string]int{"C": 1, "W": i + 1}))
			y := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{1, 1, i + 1}, []float32{1, 2, 3}[:i+1]...)})["y"]
			assert.Equal(t, want, floatsOf(t, y), "%s of %d", mode, i+1)
		}
		require.NoError(t, g.Bind(map[string]int{"C": 0, "W": 2}))
		y := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{1, 0, 2})})["y"]
		assert.Equal(t, []int{1, 0, 7}, y.Shape)
		require.ErrorContains(t, g.Bind(map[string]int{"C": 1, "W": 0}), "has no elements, and cannot be padded")
	}
}

// TestGreatestNumbersAsAttributes pads with the numbers whose shortest text is beyond the dtype.
func TestGreatestNumbersAsAttributes(t *testing.T) {
	for _, x := range []float32{math.MaxFloat32, -math.MaxFloat32} {
		y := runNode(t, 10, node1("Pad", names("x"), names("y"), attrInts("pads", 1, 0), attrFloat("value", x)),
			map[string]*tensor.Tensor{"x": f32([]int{1}, 2)})["y"]
		assert.Equal(t, []float32{x, 2}, floatsOf(t, y))
		y = runNode(t, 13, node1("Pad", names("x", "c0", "c1"), names("y")),
			map[string]*tensor.Tensor{"x": f32([]int{1}, 2)}, int64s("", []int64{2}, 1, 0), floats("", nil, x))["y"]
		assert.Equal(t, []float32{x, 2}, floatsOf(t, y))
	}
	y := runNode(t, 6, node1("Clip", names("x"), names("y"), attrFloat("min", -math.MaxFloat32),
		attrFloat("max", math.MaxFloat32)), map[string]*tensor.Tensor{"x": f32([]int{2}, 2, float32(math.Inf(1)))})["y"]
	assert.Equal(t, []float32{2, math.MaxFloat32}, floatsOf(t, y))
}

// TestLengthsOfScan8 adds up the first lengths[i] elements of each row, forwards and backwards. The other sums are 0.
func TestLengthsOfScan8(t *testing.T) {
	body := func() *pb.GraphProto {
		return &pb.GraphProto{Name: "b", Node: []*pb.NodeProto{node1("Add", names("s", "x"), names("next")),
			node1("Identity", names("next"), names("sum"))},
			Input:  infos(info("s", tFloat, 1), info("x", tFloat, 1)),
			Output: infos(info("next", tFloat, 1), info("sum", tFloat, 1))}
	}
	in := map[string]*tensor.Tensor{"start": f32([]int{2, 1}, 0, 0), "rows": f32([]int{2, 3, 1}, 1, 2, 4, 10, 20, 40)}
	lengths := int64s("", []int64{2}, 2, 3)
	n := node1("Scan", names("c0", "start", "rows"), names("last", "sums"), attrInt("num_scan_inputs", 1),
		attrGraph("body", body()))
	out := runNode(t, 8, n, in, lengths)
	assert.Equal(t, []float32{3, 70}, floatsOf(t, out["last"]))
	assert.Equal(t, []float32{1, 3, 0, 10, 30, 70}, floatsOf(t, out["sums"]))
	assert.Equal(t, []int{2, 3, 1}, out["sums"].Shape)
	n.Attribute = append(n.Attribute, attrInts("directions", 1))
	out = runNode(t, 8, n, in, lengths)
	assert.Equal(t, []float32{2, 3, 0, 40, 60, 70}, floatsOf(t, out["sums"]))

	// The lengths are known only when the graph runs.
	n.Attribute = n.Attribute[:2]
	n.Input[0] = "lengths"
	in["lengths"] = i64([]int{2}, 3, 1)
	out = runNode(t, 8, n, in)
	assert.Equal(t, []float32{7, 10}, floatsOf(t, out["last"]))
	assert.Equal(t, []float32{1, 3, 7, 10, 0, 0}, floatsOf(t, out["sums"]))
	for _, length := range []int64{-1, 4} {
		g, err := toGraph(model(8, &pb.GraphProto{Node: []*pb.NodeProto{n}, Input: infos(info("lengths", tInt64, 2),
			info("start", tFloat, 2, 1), info("rows", tFloat, 2, 3, 1)), Output: infos(info("sums", tFloat))}), Options{})
		require.NoError(t, err)
		in["lengths"] = i64([]int{2}, 3, length)
		_, err = execute(g, in)
		require.ErrorContains(t, err, "length", "%d of 3 steps", length)
	}
}

// TestRegionsOfNoImage checks that a run rejects regions of images that do not exist.
func TestRegionsOfNoImage(t *testing.T) {
	for _, image := range []float32{-1, 1} {
		g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("MaxRoiPool", names("x", "regions"), names("y"),
			attrInts("pooled_shape", 1, 1))}, Input: infos(info("x", tFloat, 1, 1, 2, 2), info("regions", tFloat, 1, 5)),
			Output: infos(info("y", tFloat))}), Options{})
		require.NoError(t, err)
		_, err = execute(g, map[string]*tensor.Tensor{"x": counting(1, 1, 2, 2), "regions": f32([]int{1, 5}, image, 0, 0, 1, 1)})
		require.ErrorContains(t, err, "out of bounds")
	}
}

// TestKeysOfSizesThatDependOnData looks up values whose shape depends on data.
func TestKeysOfSizesThatDependOnData(t *testing.T) {
	encoder := mlNode("LabelEncoder", attrFloats("keys_floats", 0, 2, 1.5), attrInts("values_int64s", 10, 20, 30))
	encoder.Input = names("values")
	m := model(17, &pb.GraphProto{Input: infos(info("x", pb.Float, 4)), Output: infos(info("y", pb.Int64)),
		Node: []*pb.NodeProto{node1("NonZero", names("x"), names("indices")),
			node1("Cast", names("indices"), names("values"), attrInt("to", int64(pb.Float))), encoder}})
	m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: mlDomain, Version: 2})
	y := run(t, m, map[string]*tensor.Tensor{"x": f32([]int{4}, 1, 0, 1, 0)})["y"]
	assert.Equal(t, []int{1, 2}, y.Shape)
	assert.Equal(t, []int64{10, 20}, intsOf(t, y))
}

// TestSlicesOfSizesThatDependOnData splits a value of which only the number of slices is known before a run.
func TestSlicesOfSizesThatDependOnData(t *testing.T) {
	m := model(17, &pb.GraphProto{Input: infos(info("x", pb.Float, 2, 2)), Output: infos(info("y", pb.Int64)),
		Initializer: []*pb.TensorProto{int64s("one", nil, 1)},
		Node: []*pb.NodeProto{node1("NonZero", names("x"), names("indices")),
			node1("SplitToSequence", names("indices"), names("rows"), attrInt("axis", 0), attrInt("keepdims", 0)),
			node1("SequenceAt", names("rows", "one"), names("y"))}})
	y := run(t, m, map[string]*tensor.Tensor{"x": f32([]int{2, 2}, 0, 1, 0, 1)})["y"]
	assert.Equal(t, []int64{1, 1}, intsOf(t, y))
}

// TestShapesOfTheRunInBranches reads the elements of a shape that depends on data in the nodes after an If, which are
// part of its branches because the rank of its result depends on data.
func TestShapesOfTheRunInBranches(t *testing.T) {
	branch := func(n *pb.NodeProto) *pb.GraphProto {
		return &pb.GraphProto{Node: []*pb.NodeProto{n}, Output: infos(info(n.Output[0], pb.Float))}
	}
	m := model(17, &pb.GraphProto{Input: infos(info("x", pb.Float, 1, 3), info("c", pb.Bool)),
		Initializer: []*pb.TensorProto{int64s("one", nil, 1), int64s("first", []int64{1}, 0)},
		Output:      infos(info("count", pb.Int64), info("turned", pb.Float)),
		Node: []*pb.NodeProto{node1("NonZero", names("x"), names("indices")), node1("Shape", names("indices"), names("shape")),
			node1("If", names("c"), names("z"), attrGraph("then_branch", branch(node1("Squeeze", names("x", "first"), names("p")))),
				attrGraph("else_branch", branch(node1("Identity", names("x"), names("q"))))),
			node1("Gather", names("shape", "one"), names("count")), node1("Transpose", names("z"), names("turned"))}})
	for _, c := range []bool{true, false} {
		out := run(t, m, map[string]*tensor.Tensor{"x": f32([]int{1, 3}, 1, 0, 2), "c": flag(c)})
		assert.Equal(t, []int64{2}, intsOf(t, out["count"]))
		assert.Equal(t, 3, out["turned"].Numel())
	}
}
