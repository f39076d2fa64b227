package onnx

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// single runs one operator. Operands are named a, b, c, ... Operands in known are initializers, and others inputs.
func single(t *testing.T, opset int64, op string, known string, operands []*tensor.Tensor, outputs int,
	attrs ...*pb.AttributeProto) []*tensor.Tensor {
	t.Helper()
	g := &pb.GraphProto{}
	n := node1(op, nil, nil, attrs...)
	in := map[string]*tensor.Tensor{}
	for i, x := range operands {
		name := string(rune('a' + i))
		if x == nil {
			n.Input = append(n.Input, "")
			continue
		}
		n.Input = append(n.Input, name)
		p := protoOf(t, name, x)
		if containsRune(known, name) {
			g.Initializer = append(g.Initializer, p)
			continue
		}
		in[name] = x
		dims := make([]any, len(x.Shape))
		for k, s := range x.Shape {
			dims[k] = s
		}
		g.Input = append(g.Input, info(name, pb.DataType(p.DataType), dims...))
	}
	for i := range outputs {
		name := "out" + string(rune('0'+i))
		n.Output = append(n.Output, name)
		g.Output = append(g.Output, &pb.ValueInfoProto{Name: name}) // the type is inferred
	}
	g.Node = []*pb.NodeProto{n}
	res := run(t, model(opset, g), in)
	var out []*tensor.Tensor
	for _, name := range n.Output {
		out = append(out, res[name])
	}
	return out
}

func containsRune(s, r string) bool {
	for _, c := range s {
		if string(c) == r {
			return true
		}
	}
	return false
}

func protoOf(t *testing.T, name string, x *tensor.Tensor) *pb.TensorProto {
	t.Helper()
	p := &pb.TensorProto{Name: name, RawData: x.Contiguous().Storage().Bytes()}
	for code := int32(1); code <= int32(pb.Float8E5M2FNUZ); code++ {
		if d, err := modelfile.DTypeOf(code); err == nil && d == x.DType {
			p.DataType = code
		}
	}
	for _, s := range x.Shape {
		p.Dims = append(p.Dims, int64(s))
	}
	return p
}

func counting(shape ...int) *tensor.Tensor {
	data := make([]float32, tensor.Numel(shape))
	for i := range data {
		data[i] = float32(i)
	}
	return f32(shape, data...)
}

func attrText(name, s string) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeString, S: []byte(s)}
}

func TestCenterCropPad(t *testing.T) {
	out := single(t, 18, "CenterCropPad", "b", []*tensor.Tensor{counting(2, 5), i64([]int{2}, 3, 2)}, 1)[0]
	require.Equal(t, []int{3, 2}, out.Shape)
	require.Equal(t, []float32{1, 2, 6, 7, 0, 0}, floatsOf(t, out))
}

func TestCol2Im(t *testing.T) {
	// Blocks of 2 that overlap by one add up in the middle.
	x := f32([]int{1, 2, 3}, 1, 2, 3, 10, 20, 30)
	out := single(t, 18, "Col2Im", "bc", []*tensor.Tensor{x, i64([]int{1}, 4), i64([]int{1}, 2)}, 1)[0]
	require.Equal(t, []float32{1, 12, 23, 30}, floatsOf(t, out))
}

func TestGroupNormalizationScalesGroupsOrChannels(t *testing.T) {
	x := f32([]int{1, 4, 1}, -1, 1, -1, 1)
	byGroup := single(t, 18, "GroupNormalization", "bc", []*tensor.Tensor{x, f32([]int{2}, 1, 2), f32([]int{2}, 0, 10)}, 1,
		attrInt("num_groups", 2), attrFloat("epsilon", 0))[0]
	require.Equal(t, []float32{-1, 1, 8, 12}, floatsOf(t, byGroup))
	byChannel := single(t, 21, "GroupNormalization", "bc", []*tensor.Tensor{x, f32([]int{4}, 1, 2, 3, 4),
		f32([]int{4}, 0, 0, 0, 10)}, 1, attrInt("num_groups", 2), attrFloat("epsilon", 0))[0]
	require.Equal(t, []float32{-1, 2, -3, 14}, floatsOf(t, byChannel))
}

func TestMaxPoolIndicesOfUnevenPadding(t *testing.T) {
	out := single(t, 12, "MaxPool", "", []*tensor.Tensor{counting(1, 2, 2, 3)}, 2, attrInts("kernel_shape", 2, 2),
		attrInts("pads", 1, 0, 0, 1))
	require.Equal(t, []float32{1, 2, 2, 4, 5, 5, 7, 8, 8, 10, 11, 11}, floatsOf(t, out[0]))
	require.Equal(t, []int64{1, 2, 2, 4, 5, 5, 7, 8, 8, 10, 11, 11}, intsOf(t, out[1]))
}

func TestAveragePoolOfUnevenPadding(t *testing.T) {
	x := f32([]int{1, 1, 3}, 3, 6, 9)
	out := single(t, 19, "AveragePool", "", []*tensor.Tensor{x}, 1, attrInts("kernel_shape", 2), attrInts("pads", 0, 1))[0]
	require.Equal(t, []float32{4.5, 7.5, 9}, floatsOf(t, out))
	out = single(t, 19, "AveragePool", "", []*tensor.Tensor{x}, 1, attrInts("kernel_shape", 2), attrInts("pads", 0, 1),
		attrInt("count_include_pad", 1))[0]
	require.Equal(t, []float32{4.5, 7.5, 4.5}, floatsOf(t, out))
	out = single(t, 19, "AveragePool", "", []*tensor.Tensor{x}, 1, attrInts("kernel_shape", 2),
		attrInts("dilations", 2))[0]
	require.Equal(t, []float32{6}, floatsOf(t, out))
}

func TestBlockedQuantization(t *testing.T) {
	i8 := func(shape []int, data ...int8) *tensor.Tensor { return tensor.Must(tensor.FromSlice(data, shape...)) }
	x := i8([]int{1, 6}, 1, 2, 3, 4, 5, 6)
	out := single(t, 21, "DequantizeLinear", "bc", []*tensor.Tensor{x, f32([]int{1, 2}, 1, 10), i8([]int{1, 2}, 0, 1)}, 1,
		attrInt("block_size", 3))[0]
	require.Equal(t, []float32{1, 2, 3, 30, 40, 50}, floatsOf(t, out))
}

func TestUnsigned64Order(t *testing.T) {
	big := tensor.Must(tensor.FromSlice([]uint64{1 << 63, 1}, 2))
	small := tensor.Must(tensor.FromSlice([]uint64{2, 1<<64 - 1}, 2))
	out, err := tensor.ToSlice[uint64](single(t, 13, "Max", "", []*tensor.Tensor{big, small}, 1)[0])
	require.NoError(t, err)
	require.Equal(t, []uint64{1 << 63, 1<<64 - 1}, out)
	shifted, err := tensor.ToSlice[uint64](single(t, 11, "BitShift", "b",
		[]*tensor.Tensor{big, tensor.Must(tensor.FromSlice([]uint64{1, 0}, 2))}, 1, attrText("direction", "RIGHT"))[0])
	require.NoError(t, err)
	require.Equal(t, []uint64{1 << 62, 1}, shifted)
}

// TestCastRoundsTwice: float64 and int64 become 16-bit floats by way of float32, as in PyTorch and ONNX Runtime.
func TestCastRoundsTwice(t *testing.T) {
	double := tensor.Must(tensor.FromSlice([]float64{1 + 0x1p-11 + 0x1p-40, 16842753}, 2))
	long := i64([]int{2}, 1, 16842753)
	for _, c := range []struct {
		x       *tensor.Tensor
		to      tensor.DType
		i       int
		want    float64
		nearest float64 // of the number itself
	}{{double, tensor.Float16, 0, 1, 1 + 0x1p-10}, {double, tensor.BFloat16, 1, 16777216, 16908288},
		{long, tensor.BFloat16, 1, 16777216, 16908288}} {
		for _, known := range []string{"", "a"} {
			y := single(t, 13, "Cast", known, []*tensor.Tensor{c.x}, 1, attrInt("to", codeOf(c.to)))[0]
			require.Equal(t, c.want, y.At(c.i).Float())
			require.NotEqual(t, c.nearest, y.At(c.i).Float())
		}
	}
}

// TestDeclaredOutputType: a model whose declared output has another element type than its nodes give is rejected. The
// declared types of other values are not read.
func TestDeclaredOutputType(t *testing.T) {
	g := &pb.GraphProto{Node: []*pb.NodeProto{node1("Abs", names("x"), names("y")), node1("Neg", names("y"), names("z"))},
		Input: infos(info("x", tInt64, 2)), Output: infos(info("z", tFloat, 2)), ValueInfo: infos(info("y", tFloat, 7))}
	_, err := toGraph(model(13, g), Options{})
	require.EqualError(t, err, `output "z": the model declares elements of type float32, but its nodes give int64`)
	g.Output = infos(info("z", pb.String, 2))
	_, err = toGraph(model(13, g), Options{})
	require.EqualError(t, err, `output "z": the model declares elements of type string, but its nodes give int64`)
	for _, kind := range []pb.DataType{tInt64, pb.Undefined} {
		g.Output = infos(info("z", kind, 2))
		_, err = toGraph(model(13, g), Options{})
		require.NoError(t, err)
	}
}

// TestLayerNormalizationBeforeSet17 has an operand and a scale of different dtypes. The result has the dtype of the
// scale, and is not rounded to the operand's. The mean of the row is 2, its variance 2.
func TestLayerNormalizationBeforeSet17(t *testing.T) {
	half := func(x *tensor.Tensor) *tensor.Tensor { return x.CopyTo(tensor.New(tensor.Float16, x.Shape...)) }
	row, scale, bias := f32([]int{1, 4}, 0, 2, 2, 4), f32([]int{4}, 1, 1, 1, 0x1p-20+1), f32([]int{4}, 0, 0.125, 0, 3)
	r := 2 / math.Sqrt(2+1e-5)
	want := []float64{-r, 0.125, 0, r*(1+0x1p-20) + 3}
	for _, c := range []struct {
		x, scale, bias *tensor.Tensor
		tolerance      float64
	}{{half(row), scale, bias, 1e-6}, {row, half(scale), half(bias), 2e-3}, {row, scale, bias, 1e-6}} {
		y := single(t, 13, "LayerNormalization", "", []*tensor.Tensor{c.x, c.scale, c.bias}, 1)[0]
		require.Equal(t, c.scale.DType, y.DType)
		for i := range want {
			require.InDelta(t, want[i], y.At(0, i).Float(), c.tolerance)
		}
	}
}

// TestShrinkOfNegativeLambd: x < -lambd is tested first, as in the text of the operator.
func TestShrinkOfNegativeLambd(t *testing.T) {
	x := []float32{-7, -3, -1, 1, 7, float32(math.NaN())}
	var want []float32
	for _, number := range x { // lambd -2, bias 5
		switch {
		case number < 2:
			want = append(want, number+5)
		case number > -2:
			want = append(want, number-5)
		default:
			want = append(want, 0)
		}
	}
	for _, known := range []string{"", "a"} {
		y := single(t, 9, "Shrink", known, []*tensor.Tensor{f32([]int{6}, x...)}, 1, attrFloat("lambd", -2),
			attrFloat("bias", 5))[0]
		require.Equal(t, want, floatsOf(t, y))
	}
}

func TestQLinearConv(t *testing.T) {
	u8 := func(shape []int, data ...uint8) *tensor.Tensor { return tensor.Must(tensor.FromSlice(data, shape...)) }
	x, w := u8([]int{1, 1, 1, 3}, 11, 12, 13), u8([]int{1, 1, 1, 2}, 6, 7)
	half := f32(nil, 0.5)
	out := single(t, 10, "QLinearConv", "bcdefgh", []*tensor.Tensor{x, half, u8(nil, 10), w, half, u8(nil, 5), half,
		u8(nil, 100)}, 1,
		attrInts("pads", 0, 1, 0, 0))[0]
	got, err := tensor.ToSlice[uint8](out)
	require.NoError(t, err)
	// Sums 0*1+1*2, 1*1+2*2, 2*1+3*2, halved; the padding is the zero point.
	require.Equal(t, []uint8{101, 102, 104}, got)
}
