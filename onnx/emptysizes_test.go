package onnx

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/halftest"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// inputDim is a dimension of an input.
type inputDim struct {
	input string
	dim   int
}

// resized is a case whose inputs may have other sizes.
type resized struct {
	vector
	proto pb.ModelProto
}

// run runs the case with a group of dimensions of `times` their size. If open is set, the model declares these
// dimensions as the symbol n, which the run binds.
func (c resized) run(t *testing.T, group []inputDim, times int, open bool) (map[string]*tensor.Tensor, error) {
	in := maps.Clone(c.in)
	size := 0
	for _, at := range group {
		size = times * c.in[at.input].Shape[at.dim]
		in[at.input] = repeated(in[at.input], at.dim, times)
	}
	g := *c.proto.Graph
	g.Input = slices.Clone(g.Input)
	for i, p := range g.Input {
		x := in[p.Name]
		if x == nil {
			continue
		}
		dims := make([]any, x.Rank())
		for d, s := range x.Shape {
			if dims[d] = s; open && slices.Contains(group, inputDim{p.Name, d}) {
				dims[d] = "n"
			}
		}
		g.Input[i] = info(p.Name, pb.DataType(p.TensorType().ElemType), dims...)
	}
	m := c.proto
	m.Graph = &g
	if open {
		withHints(t, 7*size+2, 2, 3, 4, 16)
	}
	converted, err := toGraph(&m, Options{})
	if err == nil && open && len(converted.Symbols) > 0 {
		err = converted.Bind(map[string]int{"n": size})
	}
	if err != nil {
		return nil, err
	}
	return execute(converted, in)
}

// repeated repeats x along a dimension.
func repeated(x *tensor.Tensor, dim, times int) *tensor.Tensor {
	shape := slices.Clone(x.Shape)
	shape[dim] *= times
	out := tensor.Zeros(x.DType, shape...)
	index := make([]int, len(shape))
	for k := range out.Numel() {
		for d, rest := len(shape)-1, k; d >= 0; d-- {
			index[d], rest = rest%shape[d], rest/shape[d]
		}
		from := slices.Clone(index)
		from[dim] %= x.Shape[dim]
		out.Set(x.At(from...), index...)
	}
	return out
}

// growth is the factor by which dimensions grow to find those that belong together.
const growth = 7

// group returns the least set of dimensions of one size, with the given dimension, that can grow together. It also
// returns the results of the grown case.
func (c resized) group(t *testing.T, first inputDim) ([]inputDim, map[string]*tensor.Tensor) {
	var others []inputDim
	for _, name := range slices.Sorted(maps.Keys(c.in)) {
		for d, s := range c.in[name].Shape {
			if at := (inputDim{name, d}); s == c.in[first.input].Shape[first.dim] && at != first && len(others) < 7 {
				others = append(others, at)
			}
		}
	}
	for count := range len(others) + 1 {
		for mask := range uint(1) << len(others) {
			if bits.OnesCount(mask) != count {
				continue
			}
			group := []inputDim{first}
			for i, other := range others {
				if mask>>i&1 > 0 {
					group = append(group, other)
				}
			}
			if out, err := c.run(t, group, growth, false); err == nil {
				return group, out
			}
		}
	}
	return nil, nil
}

// refusedSizes has the errors that a size of 0 rightly causes, with the operators that give them.
var refusedSizes = []struct{ reason, message, operators string }{
	{"an index, and nothing that it could select", `index .*out of (bounds|range)|is out of bounds|belongs to image`, "*"},
	{"sizes that belong together and did not grow together", `must match|to be smaller than self|is invalid for input`, "*"},
	{"a window is larger than a row with its padding, by more than a stride: its number would be negative",
		`smaller than|Kernel size can't be greater|Output size is too small|maximum size for tensor`,
		"Conv FusedConv ConvInteger QLinearConv CausalConvWithState AveragePool LpPool MaxPool QLinearAveragePool STFT"},
	{"a window of no elements", `a window of size 0|kernel size should be greater than zero|non-empty weight tensor`,
		"Conv ConvTranspose ConvInteger QLinearConv CausalConvWithState"},
	{"an extreme position of no elements, as in ONNX Runtime", `Expected reduction dim`, "ArgMax ArgMin"},
	{"a transform of no elements, as in numpy", `Invalid number of data points|needs a dimension to transform`, "DFT"},
	{"a transposed convolution of no elements", `non-empty .* tensor expected for input`, "ConvTranspose"},
	{"pixels of an image without pixels", `non-empty spatial dimensions`, "GridSample"},
	{"sizes of the result are given", `has no elements|should be greater than 0`, "Resize Upsample"},
	{"padding with elements, and there are none, as in numpy", `cannot be padded`, "Pad"},
	{"cropping of more elements than there are", `Dimension out of range`, "Pad"},
	{"parts of given sizes", `exceeds dimension size`, "Split SplitToSequence"},
	{"the k greatest of fewer elements", `selected index k`, "TopK"},
	{"a size of -1 that any number fits, as in numpy", `ambiguous`, "Reshape"},
	{"samples of no classes", `want \[batch, classes\]`, "Multinomial"},
	{"distinct slices without elements, as in PyTorch", `sized dimensions`, "Unique"},
	{"nodes of trees read the columns", `node .* compares|features\[`,
		"TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"},
	{"numbers of groups, heads or channels that are attributes of ops",
		`must be known before the graph runs|non-positive groups`, "CausalConvWithState LinearAttention"},
	{"members of an empty sequence", `outside a sequence of 0|the sequence is empty`, "*"},
	{"a graph for each member", `a sequence of unknown length`, "SequenceMap ConcatFromSequence"},
	{"operator set 8 has no length of the batch", `a batch of 0|size 0 of "zero" must be known`, "Scan"},
}

// otherShapes lists the operators whose sizes are not linear in those of the operands: they clamp, count windows or
// elements, or take shapes, axes or repetitions as operands.
var otherShapes = strings.Fields(`AveragePool MaxPool LpPool Conv FusedConv ConvInteger QLinearConv QLinearAveragePool
	NonMaxSuppression Unique Slice Split Squeeze Unsqueeze Crop Expand Tile ConstantOfShape Reshape Loop ReduceProd
	GroupQueryAttention Pad If`)

// ofNone has the elements of results of no elements.
var ofNone = map[string]float64{"MatMul": 0, "MatMulInteger": 0, "Einsum": 0, "ReduceSum": 0, "ReduceProd": 1,
	"ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceMax": math.Inf(-1), "ReduceMin": math.Inf(1),
	"ReduceMean": math.NaN(), "ReduceLogSum": math.Inf(-1), "ReduceLogSumExp": math.Inf(-1), "GlobalMaxPool": math.Inf(-1),
	"GlobalAveragePool": math.NaN(), "GlobalLpPool": 0, "CenterCropPad": 0, "Det": 1, "LpPool": 0}

// withoutSizes lists the operators that this test does not resize.
var withoutSizes = map[string]string{
	"HannWindow": sizeOperand, "HammingWindow": sizeOperand, "BlackmanWindow": sizeOperand, "MelWeightMatrix": sizeOperand,
	"Range": sizeOperand, "AffineGrid": sizeOperand,
	"RandomNormal": "its sizes are an attribute", "RandomUniform": "its sizes are an attribute",
	"Constant": "it has no operands", "DictVectorizer": "its operand is a map", "CastMap": "its operand is a map",
	"CategoryMapper": stringOperand, "StringConcat": stringOperand, "StringSplit": stringOperand,
	"StringNormalizer": stringOperand, "RegexFullMatch": stringOperand, "ZipMap": "its result is a map",
	"FeatureVectorizer": "its sizes are an attribute",
}

const stringOperand = "its operands are strings: the vectors have empty ones"

const sizeOperand = "its sizes are the values of operands: TestOperandsOfNoElements"

// TestSizesOfZero sets each dimension of each input of each small case to 0, together with the dimensions that must be
// equal. It does so when the model is converted, and when it runs.
func TestSizesOfZero(t *testing.T) {
	covered, runs, tried := map[convert.Operator]bool{}, 0, map[convert.Operator]int{}
	for _, v := range vectors(t) {
		var proto pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &proto), v.name)
		last := proto.Graph.Node[len(proto.Graph.Node)-1]
		operator, key := last.OpType, convert.Operator{Domain: last.Domain, Name: last.OpType}
		family, _, _ := strings.Cut(v.name, "/")
		isNetwork := len(proto.Graph.Node) > 8 || family == "pipelines" && len(proto.Graph.Node) > 1
		hasTexts := slices.Contains(slices.Collect(maps.Values(v.texts)), true)
		if isNetwork || hasTexts {
			continue
		}
		if tried[key]++; tried[key] > testsize.Of(2, 100) {
			continue
		}
		c := resized{vector: v, proto: proto}
		c.in = map[string]*tensor.Tensor{}
		for _, in := range proto.Graph.Input {
			if x := v.in[in.Name]; x != nil {
				c.in[in.Name] = x
			}
		}
		base, err := c.run(t, nil, 1, false)
		if err != nil {
			continue // maps, and models whose other sizes must be bound
		}
		seen := map[inputDim]bool{}
		for _, in := range proto.Graph.Input {
			if c.in[in.Name] == nil {
				continue
			}
			for d, size := range c.in[in.Name].Shape {
				first := inputDim{in.Name, d}
				if size == 0 || seen[first] {
					continue
				}
				group, grown := c.group(t, first)
				if group == nil {
					continue // a size that attributes or constants determine
				}
				for _, at := range group {
					seen[at] = true
				}
				noteOperators(proto.Graph, covered)
				runs++
				fixed := c.checkNone(t, operator, group, base, grown, false)
				open := c.checkNone(t, operator, group, base, grown, true)
				for name := range fixed {
					if open != nil {
						require.NoError(t, compare(open[name], fixed[name]), "%s %v %s", v.name, group, name)
					}
				}
			}
		}
	}
	t.Logf("%d sizes of %d operators", runs, len(covered))
	require.Greater(t, runs, testsize.Of(300, 1200))
	for domain, list := range domains {
		for name := range list {
			operator := convert.Operator{Domain: domain, Name: name}
			assert.True(t, covered[operator] || withoutSizes[name] != "", "no size of %s was 0", operator)
		}
	}
}

// checkNone runs the case with sizes of 0, and checks the shapes of the results, and those that have elements.
func (c resized) checkNone(t *testing.T, operator string, group []inputDim, base, grown map[string]*tensor.Tensor,
	open bool) map[string]*tensor.Tensor {
	name := fmt.Sprintf("%s %v, open: %v", c.name, group, open)
	out, err := c.run(t, group, 0, open)
	if err != nil {
		for _, r := range refusedSizes {
			isListed := r.operators == "*" || slices.Contains(strings.Fields(r.operators), operator)
			if isListed && regexp.MustCompile(r.message).MatchString(err.Error()) {
				return nil
			}
		}
		t.Errorf("%s: %v", name, err)
		return nil
	}
	for result, x := range out {
		want := slices.Clone(base[result].Shape)
		if !slices.Contains(otherShapes, operator) {
			for d := range want {
				want[d] -= (grown[result].Shape[d] - want[d]) / (growth - 1)
			}
			require.Equal(t, want, x.Shape, "%s: %s", name, result)
		}
		element, isKnown := ofNone[operator]
		if !isKnown || group[0].input != "a" || math.IsNaN(element) && !x.DType.IsFloat() {
			continue
		}
		for _, e := range halftest.Float64s(x) {
			if math.IsInf(element, 0) && !x.DType.IsFloat() {
				element = map[bool]float64{true: 0, false: 255}[element < 0] // of uint8
			}
			require.True(t, e == element || math.IsNaN(e) && math.IsNaN(element), "%s: %v, want %v", name, e, element)
		}
	}
	return out
}

// TestOperandsOfNoElements has operators whose sizes are values of operands, constant and of a run, and results of no
// elements that numpy and the text of the standard give.
func TestOperandsOfNoElements(t *testing.T) {
	cases := []struct {
		op       string
		operands []*tensor.Tensor
		want     *tensor.Tensor
		attrs    []*pb.AttributeProto
	}{
		{"Range", []*tensor.Tensor{i64(nil, 5), i64(nil, 1), i64(nil, 1)}, i64([]int{0}), nil},
		{"Range", []*tensor.Tensor{i64(nil, 1), i64(nil, 5), i64(nil, -2)}, i64([]int{0}), nil},
		{"Range", []*tensor.Tensor{i64(nil, 4), i64(nil, 4), i64(nil, 3)}, i64([]int{0}), nil},
		{"Range", []*tensor.Tensor{f32(nil, 5), f32(nil, 1.5), f32(nil, 0.5)}, f32([]int{0}), nil},
		{"Range", []*tensor.Tensor{f32(nil, -5), f32(nil, 1.5), f32(nil, -0.5)}, f32([]int{0}), nil},
		{"Range", []*tensor.Tensor{f32(nil, 5), f32(nil, 1.5), f32(nil, -2)}, f32([]int{2}, 5, 3), nil},
		{"HannWindow", []*tensor.Tensor{i64(nil, 0)}, f32([]int{0}), nil},
		{"BlackmanWindow", []*tensor.Tensor{i64(nil, 0)}, f32([]int{0}), []*pb.AttributeProto{attrInt("periodic", 0)}},
		{"ConstantOfShape", []*tensor.Tensor{i64([]int{2}, 3, 0)}, f32([]int{3, 0}), nil},
		{"AffineGrid", []*tensor.Tensor{f32([]int{0, 2, 3}), i64([]int{4}, 0, 2, 3, 4)}, f32([]int{0, 3, 4, 2}), nil},
		{"Tile", []*tensor.Tensor{counting(2, 3), i64([]int{2}, 2, 0)}, f32([]int{4, 0}), nil},
		{"Expand", []*tensor.Tensor{counting(2, 1), i64([]int{2}, 1, 0)}, f32([]int{2, 0}), nil},
		{"TopK", []*tensor.Tensor{counting(2, 3), i64([]int{1}, 0)}, f32([]int{2, 0}), nil},
		{"Slice", []*tensor.Tensor{counting(2, 3), i64([]int{1}, 2), i64([]int{1}, 1), i64([]int{1}, 1)},
			f32([]int{2, 0}), nil},
		{"Gather", []*tensor.Tensor{counting(2, 3), i64([]int{0})}, f32([]int{0, 3}), nil},
		{"Gather", []*tensor.Tensor{f32([]int{0, 3}), i64([]int{2}, 0, 2)}, f32([]int{0, 2}),
			[]*pb.AttributeProto{attrInt("axis", 1)}},
		{"OneHot", []*tensor.Tensor{i64([]int{2}, 0, 0), i64(nil, 0), f32([]int{2}, 0, 1)}, f32([]int{2, 0}), nil},
		{"CenterCropPad", []*tensor.Tensor{counting(2, 3), i64([]int{2}, 2, 0)}, f32([]int{2, 0}), nil},
		{"Pad", []*tensor.Tensor{f32([]int{0, 3}), i64([]int{4}, 1, 0, 1, 0), f32(nil, 7)},
			f32([]int{2, 3}, 7, 7, 7, 7, 7, 7), nil},
		{"Pad", []*tensor.Tensor{f32([]int{0, 3}), i64([]int{4}, 0, 1, 0, 1)}, f32([]int{0, 5}), nil},
		{"Pad", []*tensor.Tensor{counting(2, 3), i64([]int{4}, 0, -1, 0, -2)}, f32([]int{2, 0}), nil},
		{"CumSum", []*tensor.Tensor{f32([]int{2, 0}), i64(nil, 1)}, f32([]int{2, 0}),
			[]*pb.AttributeProto{attrInt("exclusive", 1), attrInt("reverse", 1)}},
		{"ReduceMax", []*tensor.Tensor{f32([]int{2, 0}), i64([]int{1}, 1)}, f32([]int{2, 1}, minusInf, minusInf), nil},
		{"ReduceMin", []*tensor.Tensor{i64([]int{0, 1}), i64([]int{1}, 0)}, i64([]int{1, 1}, math.MaxInt64), nil},
		{"Conv", []*tensor.Tensor{f32([]int{1, 0, 3}), f32([]int{2, 0, 2}), f32([]int{2}, 4, 5)},
			f32([]int{1, 2, 2}, 4, 4, 5, 5), nil},
		{"Conv", []*tensor.Tensor{f32([]int{1, 1, 0}), counting(2, 1, 3)}, f32([]int{1, 2, 0}),
			[]*pb.AttributeProto{attrInts("pads", 1, 1)}},
		{"Conv", []*tensor.Tensor{f32([]int{1, 1, 0}), counting(1, 1, 2), f32([]int{1}, 6)}, f32([]int{1, 1, 1}, 6),
			[]*pb.AttributeProto{attrInts("pads", 1, 1)}},
		{"ConvInteger", []*tensor.Tensor{bytes8(1, 0, 3), bytes8(2, 0, 2)}, ints32([]int{1, 2, 2}, 0, 0, 0, 0), nil},
		{"ConvInteger", []*tensor.Tensor{bytes8(1, 1, 3), bytes8(0, 1, 2)}, ints32([]int{1, 0, 2}), nil},
		{"QLinearConv", []*tensor.Tensor{bytes8(1, 0, 3), f32(nil, 2), scalar8(5), bytes8(2, 0, 2), f32(nil, 0.5),
			scalar8(5), f32(nil, 0.25), scalar8(7), ints32([]int{2}, 4, -1)},
			tensor.Must(tensor.FromSlice([]uint8{23, 23, 3, 3}, 1, 2, 2)), nil}, // 4 * 2 * 0.5 / 0.25 + 7 = 23
		{"MaxRoiPool", []*tensor.Tensor{counting(1, 2, 3, 3), f32([]int{0, 5})}, f32([]int{0, 2, 1, 2}),
			[]*pb.AttributeProto{attrInts("pooled_shape", 1, 2)}},
		{"MaxRoiPool", []*tensor.Tensor{f32([]int{1, 1, 0, 3}), f32([]int{1, 5}, 0, 0, 0, 2, 2)},
			f32([]int{1, 1, 1, 2}, 0, 0), []*pb.AttributeProto{attrInts("pooled_shape", 1, 2)}},
		{"MaxPool", []*tensor.Tensor{f32([]int{2, 0, 4})}, f32([]int{2, 0, 3}),
			[]*pb.AttributeProto{attrInts("kernel_shape", 2)}},
		{"AveragePool", []*tensor.Tensor{f32([]int{1, 2, 0})}, f32([]int{1, 2, 0}),
			[]*pb.AttributeProto{attrInts("kernel_shape", 3), attrInts("pads", 1, 1)}},
	}
	for number, c := range cases {
		for _, known := range []string{"", "bcdefghi", "abcdefghi"} {
			got := single(t, 20, c.op, known, c.operands, 1, c.attrs...)[0]
			require.NoError(t, compare(got, c.want), "case %d, %s, constants %q", number, c.op, known)
		}
	}
}

var minusInf = float32(math.Inf(-1))

// bytes8 returns zeros of uint8.
func bytes8(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Uint8, shape...) }

func scalar8(x uint8) *tensor.Tensor { return tensor.Must(tensor.FromSlice([]uint8{x})) }

func ints32(shape []int, list ...int32) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(list, shape...))
}

// TestScanOfNoSteps: the states remain, and results have no slices.
func TestScanOfNoSteps(t *testing.T) {
	body := &pb.GraphProto{Input: infos(info("s", tFloat, 3), info("x", tFloat, 3)),
		Node:   []*pb.NodeProto{node1("Add", names("s", "x"), names("next")), node1("Neg", names("next"), names("each"))},
		Output: infos(info("next", tFloat, 3), info("each", tFloat, 3))}
	for _, steps := range []any{0, "T"} {
		p := &pb.GraphProto{Node: []*pb.NodeProto{node1("Scan", names("s0", "x"), names("s1", "y"), attrGraph("body", body),
			attrInt("num_scan_inputs", 1))},
			Input:  infos(info("s0", tFloat, 3), info("x", tFloat, steps, 3)),
			Output: infos(info("s1", tFloat), info("y", tFloat))}
		g, err := toGraph(model(17, p), Options{})
		require.NoError(t, err)
		if len(g.Symbols) > 0 {
			require.NoError(t, g.Bind(map[string]int{"T": 0}))
		}
		out := runGraph(t, g, map[string]*tensor.Tensor{"s0": f32([]int{3}, 1, 2, 3), "x": f32([]int{0, 3})})
		require.Equal(t, []float32{1, 2, 3}, floatsOf(t, out["s1"]))
		require.Equal(t, []int{0, 3}, out["y"].Shape)
	}
}
