package modelfile

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

func TestAllElementTypes(t *testing.T) {
	cases := []struct {
		d    pb.DataType
		fill func(p *pb.TensorProto)
		want string
	}{
		{pb.Float, func(p *pb.TensorProto) { p.FloatData = []float32{1.5} }, "1.5"},
		{pb.Double, func(p *pb.TensorProto) { p.DoubleData = []float64{1.5} }, "1.5"},
		{pb.Float16, func(p *pb.TensorProto) { p.Int32Data = []int32{0x3e00} }, "1.5"},
		{pb.BFloat16, func(p *pb.TensorProto) { p.RawData = []byte{0xc0, 0x3f} }, "1.5"},
		{pb.Int8, func(p *pb.TensorProto) { p.Int32Data = []int32{-3} }, "-3"},
		{pb.Int16, func(p *pb.TensorProto) { p.Int32Data = []int32{-3} }, "-3"},
		{pb.Int32, func(p *pb.TensorProto) { p.Int32Data = []int32{-3} }, "-3"},
		{pb.Int64, func(p *pb.TensorProto) { p.Int64Data = []int64{-3} }, "-3"},
		{pb.Uint8, func(p *pb.TensorProto) { p.Int32Data = []int32{200} }, "200"},
		{pb.Uint16, func(p *pb.TensorProto) { p.Int32Data = []int32{60000} }, "60000"},
		{pb.Uint32, func(p *pb.TensorProto) { p.Uint64Data = []uint64{4e9} }, "4000000000"},
		{pb.Uint64, func(p *pb.TensorProto) { p.Uint64Data = []uint64{5e9} }, "5000000000"},
		{pb.Bool, func(p *pb.TensorProto) { p.RawData = []byte{7} }, "1"},
		{pb.Complex64, func(p *pb.TensorProto) { p.FloatData = []float32{1, 2} }, "(1+2i)"},
		{pb.Complex128, func(p *pb.TensorProto) { p.DoubleData = []float64{1, 2} }, "(1+2i)"},
	}
	m := fileIn(t.TempDir())
	for _, c := range cases {
		p := &pb.TensorProto{DataType: int32(c.d), Dims: []int64{1}}
		c.fill(p)
		x, err := m.Tensor(p)
		require.NoError(t, err, c.d)
		s := x.At(0)
		got := s.String()
		if x.DType == tensor.Bool {
			got = strconv.Itoa(int(s.Int()))
		}
		require.Equal(t, c.want, got, c.d)
	}
	_, err := m.Tensor(&pb.TensorProto{DataType: 23, Dims: []int64{1}})
	require.ErrorContains(t, err, fmt.Sprintf("element type %s is not supported", pb.DataType(23)))
	_, err = m.Tensor(&pb.TensorProto{DataType: int32(pb.String), Dims: []int64{1}})
	require.ErrorContains(t, err, "0 strings of data, but the shape needs 1")
}

func TestLyingTensors(t *testing.T) {
	m := fileIn(t.TempDir())
	for _, p := range []*pb.TensorProto{
		{Name: "short", DataType: int32(pb.Float), Dims: []int64{3}, FloatData: []float32{1, 2}},
		{Name: "huge", DataType: int32(pb.Float), Dims: []int64{1 << 40, 1 << 40}, FloatData: []float32{1}},
		{Name: "negative", DataType: int32(pb.Float), Dims: []int64{-1}, FloatData: []float32{1}},
		{DataType: int32(pb.Float), Dims: []int64{1 << 30}, RawData: []byte{1, 2, 3}},
	} {
		_, err := m.Tensor(p)
		require.Error(t, err, p.Name)
	}
}

// TestFloat8 checks numbers of the standard, and that positive codes are in the order of their numbers.
func TestFloat8(t *testing.T) {
	nan := math.NaN()
	for kind, want := range map[pb.DataType]map[byte]float64{
		pb.Float8E4M3FN: {0: 0, 1: math.Ldexp(1, -9), 0x08: math.Ldexp(1, -6), 0x38: 1, 0x7e: 448, 0xfe: -448, 0x7f: nan,
			0xff: nan},
		pb.Float8E4M3FNUZ: {0: 0, 1: math.Ldexp(1, -10), 0x40: 1, 0x7f: 240, 0xff: -240, 0x80: nan},
		pb.Float8E5M2: {0: 0, 1: math.Ldexp(1, -16), 0x3c: 1, 0x7b: 57344, 0x7c: math.Inf(1), 0xfc: math.Inf(-1), 0x7d: nan,
			0xfe: nan},
		pb.Float8E5M2FNUZ: {0: 0, 1: math.Ldexp(1, -17), 0x40: 1, 0x7f: 57344, 0xff: -57344, 0x80: nan},
	} {
		for code, x := range want {
			got := Float8(code, kind)
			require.True(t, got == x || got != got && x != x, "%s %#x: %v, want %v", kind, code, got, x)
		}
		for code := byte(1); code < 128; code++ {
			if a, b := Float8(code-1, kind), Float8(code, kind); b == b {
				require.Less(t, a, b, "%s %#x", kind, code)
				require.Equal(t, -b, Float8(code|128, kind))
			}
		}
	}
}

// TestLyingNarrowTensors rejects weights of four and eight bits with too few data.
func TestLyingNarrowTensors(t *testing.T) {
	m := fileIn(t.TempDir())
	short := &pb.TensorProto{Name: "w", DataType: int32(pb.Int4), Dims: []int64{7}, RawData: []byte{0x8f, 0x71, 0x03}}
	_, err := m.Tensor(short)
	require.ErrorContains(t, err, "3 bytes of data, but element type and shape need 4")
	_, err = m.Tensor(&pb.TensorProto{Name: "w", DataType: int32(pb.Float8E4M3FN), Dims: []int64{1 << 40}})
	require.Error(t, err)
}
