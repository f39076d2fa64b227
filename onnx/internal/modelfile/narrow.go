package modelfile

import (
	"fmt"
	"math"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the element types of ONNX without a corresponding dtype: integers of four bits and floats of eight
// bits. Tensors of these types get a wider dtype that represents all their numbers exactly: int8, uint8 or float16.

// IsNarrow reports whether an element type is supported although no dtype corresponds to it.
func IsNarrow(t pb.DataType) bool { return isFourBits(t) || IsFloat8(t) }

func isFourBits(t pb.DataType) bool { return t == pb.Int4 || t == pb.Uint4 }

// IsFloat8 reports whether an element type is a float of eight bits.
func IsFloat8(t pb.DataType) bool {
	switch t {
	case pb.Float8E4M3FN, pb.Float8E4M3FNUZ, pb.Float8E5M2, pb.Float8E5M2FNUZ:
		return true
	}
	return false
}

// decodeNarrow returns a weight of an element type for which [IsNarrow] is true. Two integers of four bits share a
// byte. The first is in the lower half.
func (f *File) decodeNarrow(proto *pb.TensorProto, shape []int) (*tensor.Tensor, error) {
	kind := pb.DataType(proto.DataType)
	count := tensor.Numel(shape)
	size := count
	if isFourBits(kind) {
		size = (count + 1) / 2
	}
	raw, err := f.bytesOf(proto, size)
	switch {
	case err != nil:
		return nil, err
	case len(raw) != size:
		return nil, fmt.Errorf("%d bytes of data, but element type and shape need %d", len(raw), size)
	case isFourBits(kind):
		return decodeFourBits(raw, kind, shape)
	}
	var numbers [256]float32
	for code := range numbers {
		numbers[code] = float32(Float8(byte(code), kind))
	}
	data := make([]float32, count)
	for i, code := range raw {
		data[i] = numbers[code]
	}
	wide, err := tensor.FromSlice(data, shape...)
	if err != nil {
		return nil, err
	}
	return wide.CopyTo(tensor.New(tensor.Float16, shape...)), nil
}

// bytesOf returns the data of a weight of `size` bytes from external data, raw data or the int32 field.
func (f *File) bytesOf(proto *pb.TensorProto, size int) ([]byte, error) {
	switch {
	case proto.DataLocation == pb.External:
		storage, err := f.readExternal(proto, size)
		if err != nil {
			return nil, err
		}
		return storage.Bytes(), nil
	case f.raw[proto].Len() > 0:
		return f.raw[proto].Bytes(), nil
	case len(proto.RawData) > 0:
		return proto.RawData, nil
	}
	raw := make([]byte, len(proto.Int32Data))
	for i, x := range proto.Int32Data {
		raw[i] = byte(x)
	}
	return raw, nil
}

// decodeFourBits returns integers of four bits as int8 or uint8.
func decodeFourBits(raw []byte, kind pb.DataType, shape []int) (*tensor.Tensor, error) {
	data := make([]byte, tensor.Numel(shape))
	for i := range data {
		number := raw[i/2] >> (4 * (i % 2)) & 15
		if kind == pb.Int4 {
			number = byte(int8(number<<4) >> 4) // extends the sign
		}
		data[i] = number
	}
	dtype := tensor.Uint8
	if kind == pb.Int4 {
		dtype = tensor.Int8
	}
	return fromBytes(tensor.New(dtype, shape...), data)
}

// Float8 returns the value of a float of eight bits. In the name of a type, E and M precede the numbers of bits of
// exponent and mantissa. FN means that there are no infinities. UZ means that there is no negative zero, and the code
// of negative zero is the only NaN. For example, the byte 0x39 of type Float8E4M3FN has exponent 7 and mantissa 1. Its
// value is (1 + 1/8) * 2^(7-7), where the second 7 is the bias.
func Float8(b byte, kind pb.DataType) float64 {
	mantissaBits, bias, _, lacksNegativeZero := Float8Format(kind)
	magnitude := b & 127 // the code without the sign
	exponent, mantissa := int(magnitude)>>mantissaBits, int(b)&(1<<mantissaBits-1)
	sign := 1.0
	if b >= 128 {
		sign = -1
	}
	switch {
	case lacksNegativeZero && b == 128, kind == pb.Float8E4M3FN && magnitude == 127:
		return math.NaN()
	case kind == pb.Float8E5M2 && exponent == 31 && mantissa != 0: // as in IEEE 754
		return math.NaN()
	case kind == pb.Float8E5M2 && exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0: // zero, or a subnormal number without a leading 1
		return sign * math.Ldexp(float64(mantissa), 1-bias-mantissaBits)
	}
	return sign * math.Ldexp(float64(mantissa+1<<mantissaBits), exponent-bias-mantissaBits)
}

// Float8Format describes a type of floats of eight bits: the number of bits of the mantissa, the bias of the exponent,
// the greatest number, and whether there is no negative zero.
func Float8Format(kind pb.DataType) (mantissaBits, bias int, greatest float64, lacksNegativeZero bool) {
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
