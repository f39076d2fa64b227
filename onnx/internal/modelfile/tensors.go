package modelfile

import (
	"errors"
	"fmt"
	"unsafe"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// MaxRank is the maximum number of dimensions of a tensor.
const MaxRank = 64

// dtypes maps the element types of ONNX to dtypes.
var dtypes = map[pb.DataType]tensor.DType{
	pb.Float: tensor.Float32, pb.Double: tensor.Float64,
	pb.Float16: tensor.Float16, pb.BFloat16: tensor.BFloat16,
	pb.Int8: tensor.Int8, pb.Int16: tensor.Int16,
	pb.Int32: tensor.Int32, pb.Int64: tensor.Int64,
	pb.Uint8: tensor.Uint8, pb.Uint16: tensor.Uint16,
	pb.Uint32: tensor.Uint32, pb.Uint64: tensor.Uint64,
	pb.Bool: tensor.Bool, pb.Complex64: tensor.Complex64,
	pb.Complex128: tensor.Complex128,
}

// DTypeOf returns the dtype of an element type.
func DTypeOf(t int32) (tensor.DType, error) {
	if dtype, ok := dtypes[pb.DataType(t)]; ok {
		return dtype, nil
	}
	return tensor.Invalid, fmt.Errorf("element type %s is not supported", pb.DataType(t))
}

// Tensor returns a tensor of the model. The first call for a tensor decodes it. Later calls return the same tensor.
func (f *File) Tensor(proto *pb.TensorProto) (*tensor.Tensor, error) {
	if decoded := f.tensors[proto]; decoded != nil {
		return decoded, nil
	}
	decoded, err := f.decode(proto)
	if err != nil {
		return nil, err
	}
	f.tensors[proto] = decoded
	return decoded, nil
}

// decode decodes a tensor. Strings become codes of dtype int64. For element types without a dtype, see decodeNarrow.
//
// The elements can be in four places, which decode tries in this order: another file (external data), raw bytes that
// readModel has read separately, raw bytes in the message, and a list of numbers in the message. For example, the int8
// numbers 1 and -1 are the raw bytes 01 FF, or the list [1, -1] in the field for int32.
func (f *File) decode(proto *pb.TensorProto) (*tensor.Tensor, error) {
	meta, err := declaredMeta(proto)
	if err != nil {
		return nil, err
	}
	switch elementType := pb.DataType(proto.DataType); {
	case IsNarrow(elementType):
		return f.decodeNarrow(proto, meta.Shape)
	case elementType == pb.String:
		return f.decodeStrings(proto, meta.Shape)
	case proto.DataLocation == pb.External:
		raw, err := f.readExternal(proto, meta.Bytes())
		if err != nil {
			return nil, err
		}
		return fromStorage(meta, raw)
	case f.raw[proto].Len() > 0:
		return fromStorage(meta, f.raw[proto])
	case len(proto.RawData) > 0 || meta.Numel() == 0:
		return fromBytes(meta, proto.RawData)
	}
	return fromFields(meta, proto)
}

// declaredMeta returns the checked dtype and shape of a tensor, with row-major strides.
func declaredMeta(proto *pb.TensorProto) (meta tensor.Meta, err error) {
	var dtype tensor.DType
	switch elementType := pb.DataType(proto.DataType); {
	case IsNarrow(elementType): // for the checks of the size: decodeNarrow returns elements of at most this size
		dtype = tensor.Float16
	case elementType == pb.String:
		dtype = tensor.Int64
	default:
		if dtype, err = DTypeOf(proto.DataType); err != nil {
			return meta, err
		}
	}
	if proto.Segment != nil {
		return meta, errors.New("tensors in segments are not supported")
	}
	if len(proto.Dims) > MaxRank {
		return meta, fmt.Errorf("%d dimensions are not supported", len(proto.Dims))
	}
	shape := make([]int, len(proto.Dims))
	for i, n := range proto.Dims {
		shape[i] = int(n)
	}
	// With strides of 0, Check validates the sizes before New multiplies the sizes.
	meta = tensor.Meta{DType: dtype, Shape: shape, Strides: make([]int, len(shape))}
	if err := meta.Check(); err != nil {
		return meta, err
	}
	meta = tensor.New(dtype, shape...)
	return meta, meta.Check()
}

// fromBytes is [fromStorage] for data in a slice.
func fromBytes(meta tensor.Meta, raw []byte) (*tensor.Tensor, error) {
	return fromStorage(meta, tensor.StorageOf(raw))
}

// fromStorage returns a tensor with the given little-endian data. The tensor shares the storage if the data are aligned
// and the dtype is not bool. Otherwise the data are copied.
func fromStorage(meta tensor.Meta, storage *tensor.Storage) (*tensor.Tensor, error) {
	raw := storage.Bytes()
	if len(raw) != meta.Bytes() {
		return nil, fmt.Errorf("%d bytes of data, but dtype and shape need %d", len(raw), meta.Bytes())
	}
	if meta.DType == tensor.Bool {
		// Kernels require that the byte of a bool is 0 or 1.
		out := tensor.Empty(meta)
		for i, b := range raw {
			if b != 0 {
				out.Storage().Bytes()[i] = 1
			}
		}
		return out, nil
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(raw)))%uintptr(alignment(meta.DType)) == 0 {
		return tensor.FromStorage(meta, storage)
	}
	out := tensor.Empty(meta)
	copy(out.Storage().Bytes(), raw)
	return out, nil
}

// alignment returns the alignment in bytes that kernels require of elements.
func alignment(dtype tensor.DType) int { return dtype.ToReal().Size() }

// fromFields returns a tensor whose data are in one of the typed data fields.
func fromFields(meta tensor.Meta, proto *pb.TensorProto) (*tensor.Tensor, error) {
	switch meta.DType {
	case tensor.Float32:
		return fromField(meta, proto.FloatData, 1, func(v []float32) float32 { return v[0] })
	case tensor.Complex64:
		return fromField(meta, proto.FloatData, 2, func(v []float32) complex64 { return complex(v[0], v[1]) })
	case tensor.Float64:
		return fromField(meta, proto.DoubleData, 1, func(v []float64) float64 { return v[0] })
	case tensor.Complex128:
		return fromField(meta, proto.DoubleData, 2, func(v []float64) complex128 { return complex(v[0], v[1]) })
	case tensor.Int64:
		return fromField(meta, proto.Int64Data, 1, func(v []int64) int64 { return v[0] })
	case tensor.Uint32:
		return fromField(meta, proto.Uint64Data, 1, func(v []uint64) uint32 { return uint32(v[0]) })
	case tensor.Uint64:
		return fromField(meta, proto.Uint64Data, 1, func(v []uint64) uint64 { return v[0] })
	case tensor.Int32:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) int32 { return v[0] })
	case tensor.Int16:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) int16 { return int16(v[0]) })
	case tensor.Int8:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) int8 { return int8(v[0]) })
	case tensor.Uint16:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) uint16 { return uint16(v[0]) })
	case tensor.Uint8:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) uint8 { return uint8(v[0]) })
	case tensor.Bool:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) bool { return v[0] != 0 })
	case tensor.Float16:
		return fromField(meta, proto.Int32Data, 1, func(v []int32) tensor.Half { return tensor.Half(v[0]) })
	}
	// The only other dtype is bfloat16.
	return fromField(meta, proto.Int32Data, 1, func(v []int32) tensor.BF16 { return tensor.BF16(v[0]) })
}

// fromField returns a tensor whose elements are in a typed data field. Each element consists of perElement numbers of
// the field.
func fromField[F any, T tensor.Element](meta tensor.Meta, field []F, perElement int,
	element func([]F) T) (*tensor.Tensor, error) {
	n := meta.Numel()
	if len(field) != n*perElement {
		return nil, fmt.Errorf("%d numbers of data, but dtype and shape need %d", len(field), n*perElement)
	}
	data := make([]T, n)
	for i := range data {
		data[i] = element(field[i*perElement : (i+1)*perElement])
	}
	return tensor.FromSlice(data, meta.Shape...)
}
