package onnx

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// TestNarrowWeights reads weights of four and eight bits, from raw data and from integers, and dequantizes them.
func TestNarrowWeights(t *testing.T) {
	weight := func(kind pb.DataType, n int64) *pb.TensorProto {
		return &pb.TensorProto{Name: "w", DataType: int32(kind), Dims: []int64{n}}
	}
	packed := []byte{0x8f, 0x71, 0x03} // -1 -8, 1 7, 3
	signed, unsigned := weight(pb.Int4, 5), weight(pb.Uint4, 5)
	signed.RawData, unsigned.Int32Data = packed, []int32{0x8f, 0x71, 0x03}
	eight := weight(pb.Float8E5M2, 3)
	eight.RawData = []byte{0x3c, 0xc0, 0x7c}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		w    *pb.TensorProto
		want []float32
	}{{signed, []float32{-0.5, -4, 0.5, 3.5, 1.5}}, {unsigned, []float32{7.5, 4, 0.5, 3.5, 1.5}},
		{eight, []float32{0.5, -1, inf}}} {
		p := &pb.GraphProto{Initializer: []*pb.TensorProto{c.w, floats("s", nil, 0.5)},
			Node: []*pb.NodeProto{node1("DequantizeLinear", names("w", "s"), names("d")),
				node1("Add", names("d", "x"), names("y"))},
			Input: infos(info("x", tFloat, 1)), Output: infos(info("y", tFloat))}
		out := run(t, model(21, p), map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{0}, 1))})
		require.Equal(t, c.want, floatsOf(t, out["y"]), pb.DataType(c.w.DataType))
	}
}

// TestQuantizeToFourBits quantizes to four bits, chosen by the zero point or by an attribute, and converts integers.
func TestQuantizeToFourBits(t *testing.T) {
	zero := &pb.TensorProto{Name: "z", DataType: int32(pb.Int4), Int32Data: []int32{0x0f}} // -1
	x := tensor.Must(tensor.FromSlice([]float32{-100, -3.6, 0.4, 2.5, 100, 19}, 6))
	for _, c := range []struct {
		node *pb.NodeProto
		want []float32
	}{
		{node1("QuantizeLinear", names("x", "s", "z"), names("q")), []float32{-8, -5, -1, 1, 7, 7}},
		{node1("QuantizeLinear", names("x", "s"), names("q"), attrInt("output_dtype", int64(pb.Uint4))),
			[]float32{0, 0, 0, 2, 15, 15}},
		{node1("Cast", names("x"), names("q"), attrInt("to", int64(pb.Int4))), []float32{-4, -3, 0, 2, 4, 3}},
		{node1("Cast", names("x"), names("q"), attrInt("to", int64(pb.Uint4))), []float32{12, 13, 0, 2, 4, 3}},
	} {
		if c.node.OpType == "Cast" {
			c.node.Input = names("i")
		}
		p := &pb.GraphProto{Initializer: []*pb.TensorProto{zero, floats("s", nil, 1)},
			Node: []*pb.NodeProto{node1("Cast", names("x"), names("i"), attrInt("to", int64(pb.Int32))), c.node,
				node1("Cast", names("q"), names("y"), attrInt("to", int64(pb.Float)))},
			Input: infos(info("x", tFloat, 6)), Output: infos(info("y", tFloat))}
		out := run(t, model(21, p), map[string]*tensor.Tensor{"x": x})
		require.Equal(t, c.want, floatsOf(t, out["y"]), c.node.OpType)
	}
}

// nearestFloat8 returns the float of eight bits that is nearest to x. Of two equally near ones, it returns the one with
// the even code.
func nearestFloat8(x float64, kind pb.DataType, saturate bool) float64 {
	_, _, greatest, noNegativeZero := modelfile.Float8Format(kind)
	if x != x {
		return x
	}
	best, bestDistance := math.NaN(), math.Inf(1)
	for code := range 128 {
		y := modelfile.Float8(byte(code), kind)
		if y != y || math.IsInf(y, 0) {
			continue
		}
		if d := math.Abs(min(math.Abs(x), greatest) - y); d < bestDistance || d == bestDistance && code%2 == 0 {
			best, bestDistance = y, d
		}
	}
	// Without saturation, numbers that would round to the number after the greatest one overflow. The distance of the two
	// equals that of the greatest number and the number before it. A tie overflows if the code of the greatest is odd.
	before := map[pb.DataType]byte{pb.Float8E4M3FN: 0x7d, pb.Float8E4M3FNUZ: 0x7e, pb.Float8E5M2: 0x7a,
		pb.Float8E5M2FNUZ: 0x7e}[kind]
	step := greatest - modelfile.Float8(before, kind)
	isGreatestOdd := kind != pb.Float8E4M3FN
	if over := math.Abs(x) - greatest; !saturate && (over > step/2 || over == step/2 && isGreatestOdd) {
		if best = math.NaN(); kind == pb.Float8E5M2 {
			best = math.Inf(1)
		}
	}
	if best == 0 && noNegativeZero {
		return 0
	}
	return math.Copysign(best, x)
}

// TestFloat8Casts compares casts with the nearest floats of eight bits: for random numbers, for all such floats, and
// for the numbers in the middle between two of them.
func TestFloat8Casts(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, kind := range []pb.DataType{pb.Float8E4M3FN, pb.Float8E4M3FNUZ, pb.Float8E5M2, pb.Float8E5M2FNUZ} {
		inf := float32(math.Inf(1))
		x := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1e-30, 3e38, 464, 465, 248, 249,
			61440, 61441, 1e-40}
		for code := range 127 {
			a, b := float32(modelfile.Float8(byte(code), kind)), float32(modelfile.Float8(byte(code+1), kind))
			x = append(x, a, -a, (a+b)/2, -(a+b)/2, a+(b-a)*0.49, a+(b-a)*0.51)
		}
		for range 500 {
			x = append(x, float32(math.Ldexp(rng.NormFloat64(), rng.IntN(40)-22)))
		}
		for _, saturate := range []int64{0, 1} {
			for _, node := range []*pb.NodeProto{
				node1("Cast", names("x"), names("q"), attrInt("to", int64(kind)), attrInt("saturate", saturate)),
				node1("QuantizeLinear", names("x", "s"), names("q"), attrInt("output_dtype", int64(kind)),
					attrInt("saturate", saturate))} {
				p := &pb.GraphProto{Initializer: []*pb.TensorProto{floats("s", nil, 1)},
					Node:  []*pb.NodeProto{node, node1("DequantizeLinear", names("q", "s"), names("y"))},
					Input: infos(info("x", tFloat, int64(len(x)))), Output: infos(info("y", tFloat))}
				out := run(t, model(23, p), map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(x, len(x)))})
				for i, y := range floatsOf(t, out["y"]) {
					want := float32(nearestFloat8(float64(x[i]), kind, saturate == 1))
					require.Equal(t, math.Float32bits(want)&^(1<<31|1<<22), math.Float32bits(y)&^(1<<31|1<<22),
						"%v to %v, saturate %d: %v, want %v", x[i], kind, saturate, y, want)
					require.Equal(t, math.Signbit(float64(want)) && want == want, math.Signbit(float64(y)) && y == y, x[i])
				}
			}
		}
	}
}
