package onnx

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// parameterOperands has the operands that are not data but parameters: axes, sizes, pads, splits, lengths and other
// numbers, by operator.
var parameterOperands = map[string][]int{"Reshape": {1}, "Expand": {1}, "Tile": {1, 2}, "Pad": {1, 2, 3},
	"Slice": {1, 2, 3, 4}, "Squeeze": {1}, "Unsqueeze": {1}, "Split": {1}, "TopK": {1}, "Resize": {1, 2, 3},
	"Upsample": {1}, "ReduceSum": {1}, "ReduceMean": {1}, "ReduceMax": {1},
	"ReduceMin": {1}, "ReduceProd": {1}, "ReduceL1": {1},
	"ReduceL2": {1}, "ReduceLogSum": {1}, "ReduceLogSumExp": {1}, "ReduceSumSquare": {1}, "CumSum": {1}, "CumProd": {1},
	"ConstantOfShape": {0}, "Range": {0, 1, 2}, "OneHot": {1, 2}, "DFT": {1, 2}, "STFT": {1, 3}, "HannWindow": {0},
	"HammingWindow": {0}, "BlackmanWindow": {0}, "MelWeightMatrix": {0, 1, 2, 3, 4}, "CenterCropPad": {1},
	"Col2Im": {1, 2}, "AffineGrid": {1}, "Trilu": {1}, "Clip": {1, 2}, "NonMaxSuppression": {2, 3, 4}, "Dropout": {1, 2},
	"Compress": {1}, "MaxUnpool": {2}, "ReverseSequence": {1}, "SplitToSequence": {1}, "MaxRoiPool": {1}, "SequenceAt": {1},
	"SequenceInsert": {2}, "SequenceErase": {1}, "Gather": {1}, "GatherElements": {1}, "GatherND": {1},
	"GroupQueryAttention": {5, 6}, "TensorScatter": {2}, "RNN": {4}, "LSTM": {4}, "GRU": {4}, "Loop": {0, 1}}

// knownOperands has the cases and operands for which an operand must be constant, and the error.
var knownOperands = map[string]string{
	// A Loop as often as a value whose rank depends on data, for lack of the length of its shape.
	"sizes/loop as often as the size at": "its number of dimensions depends on data",
	// A branch that depends on data is converted at sizes for which it is not taken.
	"sizes/if within an if six": "cannot be run",
}

// operandMode is a way to give an operand.
type operandMode string

const (
	asConstant operandMode = "constant"
	asInput    operandMode = "input"             // of known shape
	asOpen     operandMode = "open"              // an input of unknown size
	asSelected operandMode = "selected elements" // the result of a Compress: its length depends on data
)

// TestOperandsOfTheRun gives each operand of each case in all ways. The results must be equal. Each parameter of the
// table must be among the operands.
func TestOperandsOfTheRun(t *testing.T) {
	covered, runs, needed := map[string]bool{}, 0, map[string]bool{}
	for number, v := range append(vectors(t), parameterCases(t)...) {
		var proto pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &proto), v.name)
		family, _, _ := strings.Cut(v.name, "/")
		if slices.Contains([]string{"texts", "sounds", "pipelines"}, family) { // networks
			continue
		}
		operands := operandsOf(t, v, &proto)
		for i, name := range slices.Sorted(maps.Keys(operands)) {
			x := operands[name]
			uses := parametersOf(&proto, name)
			for k, mode := range []operandMode{asConstant, asInput, asOpen, asSelected} {
				isVector := x.value.Rank() == 1 && x.value.Numel() > 0
				if mode == asConstant && v.in[name] == nil || mode == asInput && v.in[name] != nil || k > 1 && !isVector ||
					k > 1 && len(uses) == 0 && x.value.DType != tensor.Int64 {
					continue
				}
				for _, use := range uses {
					covered[use+" "+string(mode)] = true
				}
				key := regexp.MustCompile(`\.v[0-9.]+|, [0-9x]+`).ReplaceAllString(v.name, "") + " " + name
				want := knownOperands[key]
				if (number+i+k)%testsize.Of(3, 1) > 0 && len(uses) == 0 && want == "" {
					continue
				}
				runs++
				err := x.give(v, &proto, name, mode).checkHinted(t, x.value)
				switch {
				case want == "" || err == nil:
					assert.NoError(t, err, "%s %s as %s", v.name, name, mode)
				default:
					needed[key] = true
					assert.ErrorContains(t, err, want, "%s %s as %s", v.name, name, mode)
				}
			}
		}
	}
	t.Logf("%d operands, each in one way", runs)
	require.Greater(t, runs, testsize.Of(800, 2500))
	require.Len(t, needed, len(knownOperands))
	for operator, list := range parameterOperands {
		for _, i := range list {
			use := fmt.Sprint(operator, " ", i)
			assert.True(t, covered[use+" input"] || covered[use+" open"] || covered[use+" constant"], "no case of %s", use)
		}
	}
}

// operand is an input or an initializer of a case.
type operand struct {
	value       *tensor.Tensor
	elementType int32
}

// operandsOf returns the operands of a case that are tensors of numbers.
func operandsOf(t *testing.T, v vector, proto *pb.ModelProto) map[string]operand {
	list := map[string]operand{}
	data := bytes.NewReader(v.model)
	file, err := modelfile.Read(context.Background(), data, len(v.model), files.FolderOf(nil, "", ""), nil)
	require.NoError(t, err)
	for _, p := range file.Proto.Graph.Initializer {
		if _, err := modelfile.DTypeOf(p.DataType); err != nil { // strings, and elements of less than a byte
			continue
		}
		x, err := file.Tensor(p)
		require.NoError(t, err)
		list[p.Name] = operand{x, p.DataType}
	}
	for _, in := range proto.Graph.Input {
		if x := v.in[in.Name]; x != nil && !v.texts[in.Name] {
			list[in.Name] = operand{x, in.TensorType().ElemType}
		}
	}
	return list
}

// parametersOf returns the parameters of operators that a value is, such as "Pad 1".
func parametersOf(proto *pb.ModelProto, name string) (list []string) {
	for _, n := range proto.Graph.Node {
		for i, operand := range n.Input {
			if operand == name && slices.Contains(parameterOperands[n.OpType], i) {
				list = append(list, fmt.Sprint(n.OpType, " ", i))
			}
		}
	}
	return list
}

// give returns the case with one operand in the given mode.
func (x operand) give(v vector, proto *pb.ModelProto, name string, mode operandMode) vector {
	g := *proto.Graph
	g.Initializer = slices.DeleteFunc(slices.Clone(g.Initializer), func(p *pb.TensorProto) bool { return p.Name == name })
	g.Input = slices.DeleteFunc(slices.Clone(g.Input), func(p *pb.ValueInfoProto) bool { return p.Name == name })
	in := maps.Clone(v.in)
	delete(in, name)
	given, dims := name, make([]any, x.value.Rank())
	for d, size := range x.value.Shape {
		dims[d] = size
	}
	switch mode {
	case asConstant:
		p := &pb.TensorProto{Name: name, DataType: x.elementType, RawData: x.value.Contiguous().Storage().Bytes()}
		for _, size := range x.value.Shape {
			p.Dims = append(p.Dims, int64(size))
		}
		g.Initializer = append(g.Initializer, p)
	case asOpen:
		dims[0] = "length"
	case asSelected:
		given = "given." + name
		g.Node = append([]*pb.NodeProto{node1("Compress", names(given, "all"), names(name), attrInt("axis", 0))}, g.Node...)
		g.Input = append(g.Input, info("all", tBool, x.value.Shape[0]))
		all := slices.Repeat([]bool{true}, x.value.Shape[0])
		in["all"] = tensor.Must(tensor.FromSlice(all, len(all)))
	}
	if mode != asConstant {
		g.Input = append(g.Input, info(given, pb.DataType(x.elementType), dims...))
		in[given] = x.value
	}
	changed := *proto
	changed.Graph = &g
	v.model, v.in = pb.Marshal(&changed), in
	return v
}

// checkHinted converts the model without sizes, or for the sizes of the inputs if the conversion needs them, and checks
// the results. The first example size of symbols is the length of the operand x.
func (v vector) checkHinted(t *testing.T, x *tensor.Tensor) error {
	if x.Rank() == 1 {
		withHints(t, x.Shape[0], 2, 16, 224)
	}
	m, err := Parse(v.model, "")
	if err != nil {
		return err
	}
	if err := v.checkOpen(m); err == nil || !strings.Contains(err.Error(), "must match") {
		return err
	}
	shapes := map[string][]int{}
	for name, x := range v.in {
		if shapes[name] = x.Shape; v.texts[name] {
			shapes[name] = x.Shape[:x.Rank()-1]
		}
	}
	g, err := m.Graph(Options{Shapes: shapes})
	if err != nil {
		return err
	}
	return v.check(g)
}

// parameterCases are calls whose results for constant operands are the wanted results.
func parameterCases(t *testing.T) (list []vector) {
	x := counting(2, 4, 5)
	cases := []struct {
		op       string
		operands []*tensor.Tensor
		attrs    []*pb.AttributeProto
	}{
		{"Reshape", []*tensor.Tensor{x, i64([]int{3}, 0, 2, -1)}, nil},
		{"Expand", []*tensor.Tensor{counting(4, 1), i64([]int{3}, 2, 1, 3)}, nil},
		{"Tile", []*tensor.Tensor{x, i64([]int{3}, 2, 1, 2)}, nil},
		{"Tile", []*tensor.Tensor{counting(1, 4, 1), i64([]int{3}, 3, 1, 2)}, nil}, // an expand, if the counts are constant
		{"Tile", []*tensor.Tensor{counting(1, 4), i64([]int{2}, 0, 1)}, nil},
		{"Unsqueeze", []*tensor.Tensor{x, i64([]int{2}, 4, -5)}, nil},
		{"Squeeze", []*tensor.Tensor{counting(1, 3, 1), i64([]int{2}, 2, 0)}, nil},
		{"Slice", []*tensor.Tensor{x, i64([]int{2}, 1, -1), i64([]int{2}, 100, -100), i64([]int{2}, 1, -1),
			i64([]int{2}, 2, -2)}, nil},
		{"Slice", []*tensor.Tensor{x, i64([]int{1}, 3), i64([]int{1}, 1), i64([]int{1}, 1), i64([]int{1}, 1)}, nil},
		{"Slice", []*tensor.Tensor{x, i64([]int{1}, 1), i64([]int{1}, 3), i64([]int{1}, 1), i64([]int{1}, -1)}, nil},
		{"Pad", []*tensor.Tensor{x, i64([]int{6}, 1, 0, 2, 0, 1, 0), f32(nil, 7)}, nil},
		{"Pad", []*tensor.Tensor{x, i64([]int{2}, 1, 2), f32(nil, 7), i64([]int{1}, -2)}, nil},
		{"Pad", []*tensor.Tensor{x, i64([]int{6}, 0, 1, 2, 1, 3, 4)}, []*pb.AttributeProto{attrText("mode", "reflect")}},
		{"Pad", []*tensor.Tensor{x, i64([]int{6}, 1, 1, 2, 1, 3, 4)}, []*pb.AttributeProto{attrText("mode", "edge")}},
		{"Pad", []*tensor.Tensor{x, i64([]int{6}, 1, 1, 2, 1, 3, 4)}, []*pb.AttributeProto{attrText("mode", "wrap")}},
		// The index of the last dimension is too long for a constant; the index of the first is not.
		{"Pad", []*tensor.Tensor{x, i64([]int{6}, 1, 0, 70000, 0, 0, 0)}, []*pb.AttributeProto{attrText("mode", "wrap")}},
		{"ReduceSum", []*tensor.Tensor{x, i64([]int{2}, 0, -1)}, []*pb.AttributeProto{attrInt("keepdims", 0)}},
		{"ReduceMax", []*tensor.Tensor{x, i64([]int{1}, 1)}, nil},
		{"CumSum", []*tensor.Tensor{x, i64(nil, 1)}, []*pb.AttributeProto{attrInt("exclusive", 1), attrInt("reverse", 1)}},
		{"TopK", []*tensor.Tensor{x, i64([]int{1}, 2)}, []*pb.AttributeProto{attrInt("largest", 0)}},
		{"Trilu", []*tensor.Tensor{x, i64(nil, -1)}, []*pb.AttributeProto{attrInt("upper", 0)}},
		{"ConstantOfShape", []*tensor.Tensor{i64([]int{2}, 2, 3)}, nil},
		{"Range", []*tensor.Tensor{f32(nil, 1), f32(nil, 5), f32(nil, 1.5)}, nil},
		{"Clip", []*tensor.Tensor{x, f32(nil, 3), f32(nil, 9)}, nil},
		{"OneHot", []*tensor.Tensor{i64([]int{3}, 0, -1, 2), i64(nil, 4), f32([]int{2}, 5, 6)},
			[]*pb.AttributeProto{attrInt("axis", 0)}},
		{"Resize", []*tensor.Tensor{counting(1, 1, 3, 4), nil, f32([]int{4}, 1, 1, 2, 0.5)},
			[]*pb.AttributeProto{attrText("mode", "linear")}},
		{"Split", []*tensor.Tensor{x, i64([]int{2}, 1, 3)}, []*pb.AttributeProto{attrInt("axis", 1)}},
		{"Slice", []*tensor.Tensor{x, i64([]int{2}, -3, 1), i64([]int{2}, -1, 0)}, nil},
		{"ReduceProd", []*tensor.Tensor{x, i64([]int{2}, -1, 0)}, []*pb.AttributeProto{attrInt("keepdims", 0)}},
		{"ReduceMin", []*tensor.Tensor{x, i64([]int{0})}, nil},
		{"ReduceL2", []*tensor.Tensor{x, i64([]int{0})}, []*pb.AttributeProto{attrInt("noop_with_empty_axes", 1)}},
		{"ReduceLogSumExp", []*tensor.Tensor{x, i64([]int{1}, -2)}, []*pb.AttributeProto{attrInt("keepdims", 0)}},
		{"CenterCropPad", []*tensor.Tensor{x, i64([]int{3}, 5, 1, 5)}, nil},
		{"CenterCropPad", []*tensor.Tensor{x, i64([]int{2}, 2, 3)}, []*pb.AttributeProto{attrInts("axes", -1, 0)}},
		{"Col2Im", []*tensor.Tensor{counting(2, 12, 4), i64([]int{2}, 5, 4), i64([]int{2}, 2, 3)},
			[]*pb.AttributeProto{attrInts("strides", 2, 1), attrInts("dilations", 3, 1), attrInts("pads", 1, 0, 0, 0)}},
		{"DFT", []*tensor.Tensor{counting(2, 4, 5, 1), nil, i64(nil, -3)}, nil},
		{"DFT", []*tensor.Tensor{counting(2, 4, 5, 2), i64(nil, 7), i64(nil, 1)},
			[]*pb.AttributeProto{attrInt("inverse", 1)}},
		{"Unsqueeze", []*tensor.Tensor{f32(nil, 3), i64([]int{2}, -1, 0)}, nil},
	}
	for _, c := range cases {
		g, in := &pb.GraphProto{}, map[string]*tensor.Tensor{}
		n := node1(c.op, nil, nil, c.attrs...)
		for i, operand := range c.operands {
			name := ""
			if operand != nil {
				name = string(rune('a' + i))
				g.Initializer = append(g.Initializer, protoOf(t, name, operand))
			}
			n.Input = append(n.Input, name)
		}
		outputs := 1
		if c.op == "TopK" || c.op == "Split" {
			outputs = 2
		}
		for i := range outputs {
			n.Output = append(n.Output, fmt.Sprint("out", i))
			g.Output = append(g.Output, &pb.ValueInfoProto{Name: n.Output[i]})
		}
		g.Node = []*pb.NodeProto{n}
		m := model(20, g)
		list = append(list, vector{name: "parameters/" + c.op, model: pb.Marshal(m), in: in, wants: run(t, m, in)})
	}
	return list
}

// TestSqueezedSizesOfTheRun rejects computed axes of dimensions that have other sizes than 1, or that occur twice, as
// constant axes of such dimensions are rejected.
func TestSqueezedSizesOfTheRun(t *testing.T) {
	for _, length := range []any{1, "n"} {
		g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Squeeze", names("x", "axes"), names("y"))},
			Input:  infos(info("x", tFloat, 2, 1, 3), info("axes", tInt64, length)),
			Output: infos(info("y", tFloat))}), Options{})
		require.NoError(t, err)
		squeezed := func(axes ...int64) (*tensor.Tensor, error) {
			if length == "n" {
				require.NoError(t, g.Bind(map[string]int{"n": len(axes)}))
			}
			out, err := execute(g, map[string]*tensor.Tensor{"x": counting(2, 1, 3), "axes": i64([]int{len(axes)}, axes...)})
			return out["y"], err
		}
		for _, axis := range []int64{1, -2} {
			y, err := squeezed(axis)
			require.NoError(t, err)
			require.NoError(t, compare(y, counting(2, 3)))
		}
		for _, axis := range []int64{0, -1, 3} {
			_, err := squeezed(axis)
			require.Error(t, err, axis)
		}
		if length == "n" {
			y, err := squeezed()
			require.NoError(t, err)
			require.Equal(t, []int{2, 1, 3}, y.Shape)
			_, err = squeezed(1, 1)
			require.Error(t, err)
		}
	}
}

// TestPartsOfTheRunCoverTheAxis refuses sizes of parts that a run gives if their sum is not the size of the axis, also
// if no reader needs the parts that lie beyond it.
func TestPartsOfTheRunCoverTheAxis(t *testing.T) {
	for _, op := range []string{"Split", "SplitToSequence"} {
		for _, sizes := range [][]int64{{1, 2}, {2, 9}} {
			g := &pb.GraphProto{Input: infos(info("x", pb.Float, 6), info("sizes", pb.Int64, 2)),
				Output: infos(info("first", pb.Float)), Node: []*pb.NodeProto{
					node1("Split", names("x", "sizes"), names("first", "second"))}}
			if op == "SplitToSequence" {
				g.Node = []*pb.NodeProto{node1(op, names("x", "sizes"), names("parts")),
					node1("SequenceAt", names("parts", "zero"), names("first"))}
				g.Initializer = []*pb.TensorProto{int64s("zero", nil, 0)}
			}
			loaded, err := toGraph(model(17, g), Options{})
			require.NoError(t, err)
			_, err = execute(loaded, map[string]*tensor.Tensor{"x": f32([]int{6}, 1, 2, 3, 4, 5, 6),
				"sizes": tensor.Must(tensor.FromSlice(sizes, 2))})
			assert.ErrorContains(t, err, "expects split_sizes to sum exactly to 6", "%s %v", op, sizes)
		}
	}
}
