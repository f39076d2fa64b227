package onnx

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/halftest"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// notInHalf lists the operators that TestHalf does not compare, with the reason.
var notInHalf = map[string]string{
	"If": runsGraph, "Loop": runsGraph, "Scan": runsGraph, "SequenceMap": runsGraph,
	"SequenceAt": movesOnly, "SequenceLength": movesOnly, "SequenceEmpty": movesOnly, "SequenceInsert": movesOnly,
	"SequenceErase": movesOnly, "SequenceConstruct": movesOnly, "ConcatFromSequence": movesOnly,
	"SplitToSequence": movesOnly, "Optional": movesOnly, "OptionalHasElement": movesOnly,
	"OptionalGetElement": movesOnly, "Constant": movesOnly,
	"DynamicQuantizeLinear": float32Only, "com.microsoft.DynamicQuantizeMatMul": float32Only,
	"com.microsoft.DynamicQuantizeLSTM": float32Only, "ai.onnx.ml.CastMap": float32Only, "ai.onnx.ml.ZipMap": float32Only,
	"RandomNormal": isRandom, "RandomUniform": isRandom, "RandomNormalLike": isRandom, "RandomUniformLike": isRandom,
	"Bernoulli": isRandom, "Multinomial": isRandom,
	"StringConcat": stringsOnly, "StringSplit": stringsOnly, "StringNormalizer": stringsOnly,
	"RegexFullMatch": stringsOnly,
}

// Reasons of notInHalf.
const (
	stringsOnly = "its operands are strings"
	runsGraph   = "it runs a graph, whose nodes round one by one"
	movesOnly   = "it moves elements and computes none"
	float32Only = "the standard, or ONNX Runtime, defines it for float32 alone"
	isRandom    = "its random numbers differ by dtype"
)

// cacheOperands has, for operators that round keys into a cache and read them there (docs/accuracy.md), the operand
// that is the cache. With a cache, a result may differ by cacheUnits.
var cacheOperands = map[string]int{"com.microsoft.GroupQueryAttention": 3, "com.microsoft.MultiHeadAttention": 6,
	"com.microsoft.Attention": 4, "com.microsoft.QAttention": 8}

const cacheUnits = 64

// sizesInHalf lists the operators whose float operands from the second on determine
// sizes or name images: they keep their numbers.
var sizesInHalf = map[string]bool{"Resize": true, "Upsample": true, "OneHot": true, "Range": true,
	"MaxRoiPool": true}

var halfElements = map[tensor.DType]pb.DataType{tensor.Float16: pb.Float16, tensor.BFloat16: pb.BFloat16}

// halfDraw is a call of an operator with drawn operands: a vector in which each list of floats is replaced.
type halfDraw struct {
	vector
	format halftest.Format
	seed   uint64
	kept   []string // operands that keep their numbers
	units  float64  // bound of the difference
}

// operand returns numbers of the format in place of the floats of the operand with the given name: the same numbers,
// or numbers near the limits of the format.
func (d halfDraw) operand(name string, list []float64) []float64 {
	hash := fnv.New64a()
	hash.Write([]byte(d.name + "/" + name))
	rng := rand.New(rand.NewPCG(hash.Sum64(), d.seed))
	most := largest(list)
	scale, offset := 1.0, 0.0
	kind := rng.IntN(6)
	if slices.Contains(d.kept, name) {
		kind = -1
	}
	switch kind {
	case 0: // the largest is near the limit
		scale = d.format.Large / max(most, 1)
	case 1: // the largest is 300: its square exceeds float16
		scale = 300 / max(most, 1)
	case 2: // subnormal numbers
		scale = d.format.Tiny() / max(most, 1)
	case 3: // sums cancel
		offset = 64 * max(most, 1)
	}
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = x * scale
		if offset != 0 {
			out[i] += offset * float64(1-2*(i%2))
		}
		out[i] = d.format.Round(out[i]).Float()
	}
	return out
}

// retyped returns the vector with another element type in place of float32, and the drawn operands.
func (d halfDraw) retyped(to pb.DataType, dtype tensor.DType) (
	m *pb.ModelProto, in map[string]*tensor.Tensor, err error) {
	m = &pb.ModelProto{}
	if err := pb.Unmarshal(d.model, m); err != nil {
		return nil, nil, err
	}
	replace := func(p *pb.TensorProto) {
		if p == nil || pb.DataType(p.DataType) != pb.Float {
			return
		}
		var list []float64
		for _, x := range p.FloatData {
			list = append(list, float64(x))
		}
		for raw := p.RawData; len(raw) >= 4; raw = raw[4:] {
			list = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
		x := floatsAs(dtype, d.operand(p.Name, list), len(list))
		p.DataType, p.FloatData, p.RawData = int32(to), nil, slices.Clone(x.Storage().Bytes())
	}
	for _, p := range m.Graph.Initializer {
		replace(p)
	}
	for _, n := range m.Graph.Node {
		for _, a := range n.Attribute {
			replace(a.T)
			switch a.Name {
			case "to", "dtype", "output_datatype", "output_dtype":
				if pb.DataType(a.I) == pb.Float {
					a.I = int64(to)
				}
			}
		}
	}
	for _, output := range m.Graph.Output {
		output.Type = nil // statistics stay float32
	}
	for _, info := range slices.Concat(m.Graph.Input, m.Graph.ValueInfo) {
		if t := info.Type; t != nil && t.TensorType != nil && pb.DataType(t.TensorType.ElemType) == pb.Float {
			t.TensorType.ElemType = int32(to)
		}
	}
	in = map[string]*tensor.Tensor{}
	for name, x := range d.in {
		if in[name] = x; x.DType == tensor.Float32 {
			in[name] = floatsAs(dtype, d.operand(name, halftest.Float64s(x)), x.Shape...)
		}
	}
	return m, in, nil
}

func floatsAs(dtype tensor.DType, list []float64, shape ...int) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(list, shape...)).CopyTo(tensor.New(dtype, shape...))
}

// run returns the outputs. isRejected reports whether the model is rejected before it runs.
func (d halfDraw) run(to pb.DataType, dtype tensor.DType) (out map[string]*tensor.Tensor, isRejected bool, err error) {
	m, in, err := d.retyped(to, dtype)
	if err != nil {
		return nil, true, err
	}
	shapes := map[string][]int{}
	for name, x := range in {
		shapes[name] = x.Shape
	}
	g, err := toGraph(m, Options{Shapes: shapes})
	if err != nil {
		return nil, true, err
	}
	out, err = execute(g, in)
	return out, false, err
}

// check compares the operator in 16 bits with float64, or with float32 if it has no float64.
func (d halfDraw) check() (isRejected bool, err error) {
	got, isRejected, err := d.run(halfElements[d.format.DType], d.format.DType)
	if isRejected {
		return true, err
	}
	single, _, singleErr := d.run(pb.Float, tensor.Float32)
	if singleErr != nil {
		return false, nil // these operands are invalid
	}
	if err != nil {
		return false, err
	}
	double, _, doubleErr := d.run(pb.Double, tensor.Float64)
	for _, x := range double {
		if d.units == cacheUnits && largest(halftest.Float64s(x)) > d.format.Greatest {
			return false, nil // the cache overflows
		}
	}
	for name, x := range got {
		if doubleErr != nil || !slices.Equal(double[name].Shape, single[name].Shape) {
			double = single
		}
		if err := d.format.Compare(x, single[name], double[name], d.units); err != nil {
			return false, fmt.Errorf("output %q: %w", name, err)
		}
	}
	return false, nil
}

// TestHalf runs operators on 16-bit floats.
func TestHalf(t *testing.T) {
	draws := testsize.Of(2, 12)
	accepted, rejected, count := map[string]bool{}, map[string]string{}, 0
	failures := map[string]int{}
	for _, v := range vectors(t) {
		var m pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &m), v.name)
		op, operands := onlyOperator(m.Graph)
		if op == "" || notInHalf[op] != "" {
			continue
		}
		if op == "com.microsoft.GroupQueryAttention" && len(operands) > 8 && operands[7] != "" {
			continue // rotated queries and keys are rounded: small elements of a result are not accurate to some units
		}
		for i := range draws {
			d := halfDraw{vector: v, format: halftest.Formats[i%2], seed: uint64(i / 2)}
			d.units = 1
			if cache, ok := cacheOperands[op]; ok && len(operands) > cache && operands[cache] != "" {
				d.units = cacheUnits
			}
			if sizesInHalf[op] {
				d.kept = operands[1:]
			}
			isRejected, err := d.check()
			switch {
			case isRejected:
				rejected[op] = err.Error()
			case err != nil:
				if failures[op]++; failures[op] < 4 {
					t.Errorf("%s %s draw %d (%s): %v", op, d.format.DType, i, v.name, err)
				}
			default:
				accepted[op] = true
				count++
			}
		}
	}
	t.Logf("%d calls of %d operators", count, len(accepted))
	for domain, list := range domains {
		for name := range list {
			op := convert.Operator{Domain: domain, Name: name}.String()
			if !accepted[op] && failures[op] == 0 && notInHalf[op] == "" {
				t.Errorf("%s is not compared: %s", op, rejected[op])
			}
		}
	}
}

// onlyOperator returns the operator and the operands of a graph with one node besides constants, or "".
func onlyOperator(g *pb.GraphProto) (op string, operands []string) {
	for _, n := range g.Node {
		if n.OpType == "Constant" {
			continue
		}
		if op != "" {
			return "", nil
		}
		operands, op = n.Input, convert.Operator{Domain: convert.CanonicalDomain(n.Domain), Name: n.OpType}.String()
	}
	return op, operands
}

// halves returns float16 numbers: value(i) at index i.
func halves(value func(i int) float64, shape ...int) *tensor.Tensor {
	list := make([]float64, tensor.Numel(shape))
	for i := range list {
		list[i] = value(i)
	}
	return floatsAs(tensor.Float16, list, shape...)
}

// TestHalfOverflow has operators whose intermediate results exceed float16 while their results do not.
func TestHalfOverflow(t *testing.T) {
	all := func(x float64) func(int) float64 { return func(int) float64 { return x } }
	check := func(got *tensor.Tensor, want func(i int) float64) {
		t.Helper()
		require.Equal(t, tensor.Float16, got.DType)
		for i, x := range halftest.Float64s(got) {
			require.InDelta(t, want(i), x, halftest.Formats[0].Unit(want(i))/2*1.001, "element %d", i)
		}
	}
	// The scores are 40*40*64/8 = 12800 for all keys, so that a result is the mean of the values.
	q, v := halves(all(40), 1, 1, 2, 64), halves(func(i int) float64 { return float64(i) }, 1, 1, 2, 4)
	check(single(t, 23, "Attention", "", []*tensor.Tensor{q, q, v}, 1)[0],
		func(i int) float64 { return float64(i%4) + 2 })
	// Scores of -12800 and the mask exceed float16 together, for all keys.
	k, mask := halves(all(-40), 1, 1, 2, 64), halves(all(-65504), 1, 1, 2, 2)
	check(single(t, 23, "Attention", "", []*tensor.Tensor{q, k, v, mask}, 1)[0],
		func(i int) float64 { return float64(i%4) + 2 })
	// Five squares of 300, of which the channels at the ends lack two or one.
	const size, alpha, beta, bias = 5, 1e-4, 0.75, 1
	check(single(t, 13, "LRN", "", []*tensor.Tensor{halves(all(300), 1, 6, 1, 1)}, 1, attrInt("size", size))[0],
		func(i int) float64 {
			count := min(i+2, 5) - max(i-2, 0) + 1
			return 300 / math.Pow(bias+alpha/size*float64(count)*300*300, beta)
		})
	image := halves(all(40000), 1, 1, 3, 3)
	upper, kernel := attrText("auto_pad", "SAME_UPPER"), attrInts("kernel_shape", 2, 2)
	check(single(t, 19, "AveragePool", "", []*tensor.Tensor{image}, 1, upper, kernel)[0], all(40000))
	check(single(t, 18, "LpPool", "", []*tensor.Tensor{halves(all(4000), 1, 1, 2, 2)}, 1, kernel)[0], all(8000))
	check(single(t, 18, "ReduceL2", "", []*tensor.Tensor{halves(all(3000), 16)}, 1)[0], all(12000))
}

// TestMixedWithHalf has 16-bit operands beside float32 operands whose digits the results need.
func TestMixedWithHalf(t *testing.T) {
	x := halves(func(int) float64 { return 1 }, 1, 1, 2, 2)
	one, mean, zero := f32([]int{1}, 1), f32([]int{1}, 1.0001), f32([]int{1}, 0)
	variance := f32([]int{1}, 1e-8)
	got := single(t, 15, "BatchNormalization", "", []*tensor.Tensor{x, one, zero, mean, variance}, 1,
		attrFloat("epsilon", 0))[0]
	want := (1 - float64(float32(1.0001))) / math.Sqrt(float64(float32(1e-8)))
	require.InDelta(t, want, halftest.Float64s(got)[0], halftest.Formats[0].Unit(want)/2*1.001)

	// The grid is half an element of 2048 beside the border of two elements.
	row := halves(func(i int) float64 { return float64(i % 2) }, 1, 1, 1, 2048)
	grid := f32([]int{1, 1, 1, 2}, float32(1.5/2048), 0)
	got = single(t, 20, "GridSample", "", []*tensor.Tensor{row, grid}, 1)[0]
	position := (1+float64(float32(1.5/2048)))*1024 - 0.5 // 1024.25: a quarter of element 1025
	require.InDelta(t, position-1024, halftest.Float64s(got)[0], 1e-3)
}

// TestHalfOfUnknownDType: an attention whose number of heads need not divide the open sizes has results of unknown shape
// and dtype. The results have the dtype of the operands in the run.
func TestHalfOfUnknownDType(t *testing.T) {
	n := node1("Attention", names("x", "w", "b"), names("y", "present"), attrInt("num_heads", 3),
		attrInt("unidirectional", 1))
	n.Domain = microsoftDomain
	m := model(17, &pb.GraphProto{Node: []*pb.NodeProto{n}, Output: infos(info("y", pb.Float16), info("present", pb.Float16)),
		Input: infos(info("x", pb.Float16, "A", "B", "C"), info("w", pb.Float16, "D", "E"), info("b", pb.Float16, "F"))})
	m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: microsoftDomain, Version: 1})
	ones := func(int) float64 { return 1 }
	out := run(t, m, map[string]*tensor.Tensor{"x": halves(ones, 2, 4, 2), "w": halves(ones, 2, 18), "b": halves(ones, 18)})
	for _, name := range names("y", "present") {
		require.Equal(t, tensor.Float16, out[name].DType, name)
		for _, x := range halftest.Float64s(out[name]) {
			require.Equal(t, 3.0, x)
		}
	}
}

// TestHalfMaskFilter hides keys by a number that exceeds float16: each query attends to the visible keys alone.
func TestHalfMaskFilter(t *testing.T) {
	x, weight := halves(func(i int) float64 { return float64(i%5) - 2 }, 1, 3, 4), halves(func(i int) float64 {
		return float64(i%7)/4 - 0.75
	}, 4, 12)
	bias, mask := halves(func(int) float64 { return 0 }, 12), tensor.Must(tensor.FromSlice([]int32{1, 1, 0}, 1, 3))
	for _, filter := range []float32{-3.4028235e38, float32(math.Inf(-1))} {
		results := map[pb.DataType][]float64{}
		for _, kind := range []pb.DataType{pb.Float16, pb.Float} {
			n := node1("Attention", names("x", "w", "b", "m"), names("y"), attrInt("num_heads", 2),
				attrFloat("mask_filter_value", filter))
			n.Domain = microsoftDomain
			g := &pb.GraphProto{Node: []*pb.NodeProto{n}, Output: infos(info("y", kind, 1, 3, 4)),
				Input: infos(info("x", kind, 1, 3, 4), info("w", kind, 4, 12), info("b", kind, 12),
					info("m", pb.Int32, 1, 3))}
			m := model(17, g)
			m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: microsoftDomain, Version: 1})
			in := map[string]*tensor.Tensor{"x": x, "w": weight, "b": bias, "m": mask}
			if kind == pb.Float {
				for _, name := range names("x", "w", "b") {
					in[name] = floatsAs(tensor.Float32, halftest.Float64s(in[name]), in[name].Shape...)
				}
			}
			results[kind] = halftest.Float64s(run(t, m, in)["y"])
		}
		for i, want := range results[pb.Float] {
			require.InDelta(t, want, results[pb.Float16][i], halftest.Formats[0].Unit(want), "element %d", i)
		}
	}
}

// TestHalfOfOpenChannels checks that a composite operator rounds once also if it needs a branch for a weight that may
// have no channels. Results are 10500 + 1 and 13700 + 2: rounded before the bias is added, they would be 8 less.
func TestHalfOfOpenChannels(t *testing.T) {
	half := func(x *tensor.Tensor) *tensor.Tensor { return x.CopyTo(tensor.New(tensor.Float16, x.Shape...)) }
	g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("ConvTranspose", names("x", "w", "b"), names("y"),
		attrInts("pads", 1, 0))}, Input: infos(info("x", pb.Float16, 1, 2, 3), info("w", pb.Float16, 2, "M", 2),
		info("b", pb.Float16, "M")), Output: infos(info("y", pb.Float16))}), Options{})
	require.NoError(t, err)
	require.NoError(t, g.Bind(map[string]int{"M": 3}))
	x, w := f32([]int{1, 2, 3}, 100, 200, 300, 400, 500, 600), counting(2, 3, 2)
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": half(x), "w": half(w), "b": half(f32([]int{3}, 0, 1, 2))})["y"]
	require.Equal(t, tensor.Float16, out.DType)
	exact := single(t, 13, "ConvTranspose", "bc", []*tensor.Tensor{x, w, f32([]int{3}, 0, 1, 2)}, 1, attrInts("pads", 1, 0))[0]
	require.Equal(t, halftest.Float64s(half(exact)), halftest.Float64s(out))
	require.NoError(t, g.Bind(map[string]int{"M": 0}))
	none := map[string]*tensor.Tensor{"x": half(x), "w": half(f32([]int{2, 0, 2})), "b": half(f32([]int{0}))}
	require.Equal(t, []int{1, 0, 3}, runGraph(t, g, none)["y"].Shape)
}
