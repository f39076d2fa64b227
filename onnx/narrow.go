package onnx

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the element types that have no dtype: integers of four bits and floats of eight bits. Tensors of these
// types get a wider dtype that represents all their numbers exactly: int8, uint8 or float16.

// isNarrow reports whether an element type has no dtype of its own but is supported.
func isNarrow(t pb.DataType) bool { return isFourBits(t) || isFloat8(t) }

func isFourBits(t pb.DataType) bool { return t == pb.Int4 || t == pb.Uint4 }

func isFloat8(t pb.DataType) bool {
	switch t {
	case pb.Float8E4M3FN, pb.Float8E4M3FNUZ, pb.Float8E5M2, pb.Float8E5M2FNUZ:
		return true
	}
	return false
}

// decodeNarrow returns a weight of an element type for which [isNarrow] is true. Two integers of four bits share a
// byte, the first in the lower half.
func (m *Model) decodeNarrow(proto *pb.TensorProto, shape []int) (*tensor.Tensor, error) {
	kind := pb.DataType(proto.DataType)
	count := tensor.Numel(shape)
	size := count
	if isFourBits(kind) {
		size = (count + 1) / 2
	}
	raw, err := m.bytesOf(proto, size)
	switch {
	case err != nil:
		return nil, err
	case len(raw) != size:
		return nil, fmt.Errorf("%d bytes of data, but element type and shape need %d", len(raw), size)
	case isFourBits(kind):
		return fourBits(raw, kind, shape)
	}
	var numbers [256]float32
	for index := range numbers {
		numbers[index] = float32(float8(byte(index), kind))
	}
	data := make([]float32, count)
	for i, index := range raw {
		data[i] = numbers[index]
	}
	wide, err := tensor.FromSlice(data, shape...)
	if err != nil {
		return nil, err
	}
	return wide.CopyTo(tensor.New(tensor.Float16, shape...)), nil
}

// bytesOf returns the data of a weight of `size` bytes from external data, raw data or the int32 field.
func (m *Model) bytesOf(proto *pb.TensorProto, size int) ([]byte, error) {
	switch {
	case proto.DataLocation == pb.External:
		s, err := m.external(proto, size)
		if err != nil {
			return nil, err
		}
		return s.Bytes(), nil
	case m.raw[proto].Len() > 0:
		return m.raw[proto].Bytes(), nil
	case len(proto.RawData) > 0:
		return proto.RawData, nil
	}
	raw := make([]byte, len(proto.Int32Data))
	for i, x := range proto.Int32Data {
		raw[i] = byte(x)
	}
	return raw, nil
}

// fourBits returns integers of four bits as int8 or uint8.
func fourBits(raw []byte, kind pb.DataType, shape []int) (*tensor.Tensor, error) {
	data := make([]byte, tensor.Numel(shape))
	for i := range data {
		b := raw[i/2] >> (4 * (i % 2)) & 15
		if kind == pb.Int4 {
			b = byte(int8(b<<4) >> 4)
		}
		data[i] = b
	}
	dtype := tensor.Uint8
	if kind == pb.Int4 {
		dtype = tensor.Int8
	}
	return fromBytes(tensor.New(dtype, shape...), data)
}

// float8 returns the value of a float of eight bits. In the name of a type, E and M precede the number of bits of
// exponent and mantissa. FN means that there are no infinities. UZ means that there is no negative zero: its code is
// the only NaN.
func float8(b byte, kind pb.DataType) float64 {
	mantissaBits, bias, _, noNegativeZero := float8Format(kind)
	exponent, mantissa := int(b&127)>>mantissaBits, int(b)&(1<<mantissaBits-1)
	sign := 1.0
	if b >= 128 {
		sign = -1
	}
	switch {
	case noNegativeZero && b == 128, kind == pb.Float8E4M3FN && b&127 == 127,
		kind == pb.Float8E5M2 && exponent == 31 && mantissa != 0:
		return math.NaN()
	case kind == pb.Float8E5M2 && exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(float64(mantissa), 1-bias-mantissaBits)
	}
	return sign * math.Ldexp(float64(mantissa+1<<mantissaBits), exponent-bias-mantissaBits)
}

// float8Format describes a type of floats of eight bits: the number of bits of the mantissa, the bias of the exponent,
// the greatest number, and whether there is no negative zero.
func float8Format(kind pb.DataType) (mantissaBits, bias int, greatest float64, noNegativeZero bool) {
	switch kind {
	case pb.Float8E5M2:
		return 2, 15, 57344, false
	case pb.Float8E5M2FNUZ:
		return 2, 16, 57344, true
	case pb.Float8E4M3FNUZ:
		return 3, 8, 240, true
	}
	return 3, 7, 448, false
}

// castToFloat8 rounds x to floats of eight bits, ties to even, and stores them as float16. If saturate is true, numbers
// out of range become the nearest finite number. Otherwise they become infinite, or NaN if the type has no infinities.
func (n *node) castToFloat8(x *val, kind pb.DataType, saturate bool) *val {
	mantissaBits, bias, greatest, noNegativeZero := float8Format(kind)
	x = n.cast(x, tensor.Float32)
	rank := n.rank(x)
	bits := n.op("view", graph.Attrs{"dtype": tensor.Int32}, x).withRank(rank)
	power := n.op("bitwise_and", nil, bits, 0x7F800000) // the bits of 2^floor(log2 |x|)
	power = n.op("view", graph.Attrs{"dtype": tensor.Float32}, power).withRank(rank)
	step := n.op("clamp", graph.Attrs{"min": math.Ldexp(1, 1-bias-mantissaBits), "max": greatest},
		n.op("mul", nil, power, math.Ldexp(1, -mantissaBits)))
	rounded := n.op("mul", nil, n.op("round", nil, n.op("div", nil, x, step)), step)
	if noNegativeZero {
		rounded = n.op("add", nil, rounded, 0.0)
	}
	if saturate {
		rounded = n.op("clamp", graph.Attrs{"min": -greatest, "max": greatest}, rounded)
	} else {
		over := math.NaN()
		if kind == pb.Float8E5M2 {
			over = math.Inf(1)
		}
		rounded = n.op("where", nil, n.op("gt", nil, n.op("abs", nil, rounded), greatest),
			n.op("mul", nil, rounded, over), rounded)
	}
	rounded = n.cast(rounded, tensor.Float16)
	rounded.narrow = kind
	return rounded
}

// castToNarrow converts x to an element type for which [isNarrow] is true.
func (n *node) castToNarrow(x *val, kind pb.DataType) *val {
	if isFloat8(kind) {
		return n.castToFloat8(x, kind, n.flag("saturate", true))
	}
	return n.castToFourBits(x, kind)
}

// fourBitRange returns the dtype and the range of integers of four bits.
func fourBitRange(kind pb.DataType) (dtype tensor.DType, least, most int) {
	if kind == pb.Int4 {
		return tensor.Int8, -8, 7
	}
	return tensor.Uint8, 0, 15
}

// castToFourBits converts x to integers of four bits, which are stored as int8 or uint8. Higher bits are discarded.
func (n *node) castToFourBits(x *val, kind pb.DataType) *val {
	dtype, _, _ := fourBitRange(kind)
	low := n.op("bitwise_and", nil, n.cast(x, dtype), 15)
	if kind == pb.Uint4 {
		return low
	}
	return n.op("sub", nil, n.op("bitwise_xor", nil, low, 8), 8)
}

// quantizedElementType returns the element type of the result of QuantizeLinear if no dtype corresponds to this type,
// otherwise Undefined.
func (n *node) quantizedElementType() pb.DataType {
	kind := pb.DataType(n.int("output_dtype", 0))
	if zero := n.operandOrNil(2); zero != nil && zero.narrow != pb.Undefined {
		kind = zero.narrow
	}
	if isNarrow(kind) {
		return kind
	}
	return pb.Undefined
}

// quantizeToNarrow quantizes x to an element type for which [isNarrow] is true. The zero points of floats of eight bits
// are 0.
func (n *node) quantizeToNarrow(x, scale, zero *val, kind pb.DataType) *val {
	scaled := n.op("div", nil, n.cast(x, tensor.Float32), n.cast(n.perAxis(scale, x), tensor.Float32))
	if isFloat8(kind) {
		return n.castToFloat8(scaled, kind, n.flag("saturate", true))
	}
	dtype, least, most := fourBitRange(kind)
	scaled = n.op("round", nil, scaled)
	if zero != nil {
		scaled = n.op("add", nil, scaled, n.cast(n.perAxis(zero, x), tensor.Float32))
	}
	return n.cast(n.op("clamp", graph.Attrs{"min": least, "max": most}, scaled), dtype)
}
