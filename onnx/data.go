package onnx

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

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

func dtypeOf(t int32) (tensor.DType, error) {
	if dtype, ok := dtypes[pb.DataType(t)]; ok {
		return dtype, nil
	}
	return tensor.Invalid, fmt.Errorf("element type %s is not supported", pb.DataType(t))
}

// weight returns a tensor of the model. The first call for a tensor decodes it; later calls return the same tensor.
func (m *Model) weight(proto *pb.TensorProto) (*tensor.Tensor, error) {
	if decoded := m.weights[proto]; decoded != nil {
		return decoded, nil
	}
	decoded, err := m.decode(proto)
	if err != nil {
		return nil, err
	}
	m.weights[proto] = decoded
	return decoded, nil
}

func (m *Model) decode(proto *pb.TensorProto) (*tensor.Tensor, error) {
	narrow := isNarrow(pb.DataType(proto.DataType))
	dtype, err := dtypeOf(proto.DataType)
	isText := pb.DataType(proto.DataType) == pb.String
	if narrow {
		dtype, err = tensor.Float16, nil
	}
	if isText {
		dtype, err = tensor.Int64, nil
	}
	if err != nil {
		return nil, err
	}
	if proto.Segment != nil {
		return nil, errors.New("tensors in segments are not supported")
	}
	if len(proto.Dims) > maxRank {
		return nil, fmt.Errorf("%d dimensions are not supported", len(proto.Dims))
	}
	shape := make([]int, len(proto.Dims))
	for i, n := range proto.Dims {
		shape[i] = int(n)
	}
	// With strides of 0, Check validates the sizes before New multiplies them.
	meta := tensor.Meta{DType: dtype, Shape: shape, Strides: make([]int, len(shape))}
	if err := meta.Check(); err != nil {
		return nil, err
	}
	meta = tensor.New(dtype, shape...)
	if err := meta.Check(); err != nil {
		return nil, err
	}
	if narrow {
		return m.decodeNarrow(proto, shape)
	}
	if isText {
		return m.decodeTexts(proto, shape)
	}
	switch {
	case proto.DataLocation == pb.External:
		raw, err := m.external(proto, meta.Bytes())
		if err != nil {
			return nil, err
		}
		return fromStorage(meta, raw)
	case m.raw[proto].Len() > 0:
		return fromStorage(meta, m.raw[proto])
	case len(proto.RawData) > 0 || meta.Numel() == 0:
		return fromBytes(meta, proto.RawData)
	}
	return fromFields(meta, proto)
}

// fromBytes is [fromStorage] for data in a slice.
func fromBytes(meta tensor.Meta, raw []byte) (*tensor.Tensor, error) {
	return fromStorage(meta, tensor.StorageOf(raw))
}

// fromStorage returns a tensor with the given little-endian data. The tensor shares the storage if the data are
// aligned and the dtype is not bool. Otherwise it has a copy.
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
		return tensor.Over(meta, storage)
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
		return fill(meta, proto.FloatData, 1, func(v []float32) float32 { return v[0] })
	case tensor.Complex64:
		return fill(meta, proto.FloatData, 2, func(v []float32) complex64 { return complex(v[0], v[1]) })
	case tensor.Float64:
		return fill(meta, proto.DoubleData, 1, func(v []float64) float64 { return v[0] })
	case tensor.Complex128:
		return fill(meta, proto.DoubleData, 2, func(v []float64) complex128 { return complex(v[0], v[1]) })
	case tensor.Int64:
		return fill(meta, proto.Int64Data, 1, func(v []int64) int64 { return v[0] })
	case tensor.Uint32:
		return fill(meta, proto.Uint64Data, 1, func(v []uint64) uint32 { return uint32(v[0]) })
	case tensor.Uint64:
		return fill(meta, proto.Uint64Data, 1, func(v []uint64) uint64 { return v[0] })
	case tensor.Int32:
		return fill(meta, proto.Int32Data, 1, func(v []int32) int32 { return v[0] })
	case tensor.Int16:
		return fill(meta, proto.Int32Data, 1, func(v []int32) int16 { return int16(v[0]) })
	case tensor.Int8:
		return fill(meta, proto.Int32Data, 1, func(v []int32) int8 { return int8(v[0]) })
	case tensor.Uint16:
		return fill(meta, proto.Int32Data, 1, func(v []int32) uint16 { return uint16(v[0]) })
	case tensor.Uint8:
		return fill(meta, proto.Int32Data, 1, func(v []int32) uint8 { return uint8(v[0]) })
	case tensor.Bool:
		return fill(meta, proto.Int32Data, 1, func(v []int32) bool { return v[0] != 0 })
	case tensor.Float16:
		return fill(meta, proto.Int32Data, 1, func(v []int32) tensor.Half { return tensor.Half(v[0]) })
	}
	return fill(meta, proto.Int32Data, 1, func(v []int32) tensor.BF16 { return tensor.BF16(v[0]) })
}

// fill returns a tensor whose elements are in a typed data field. Each element consists of perElement numbers of the
// field.
func fill[F any, T tensor.Element](meta tensor.Meta, field []F, perElement int,
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

// external reads the data of a tensor from another file. need is the number of bytes that dtype and shape require. The
// file is not mapped, because access to a mapping of a truncated file would end the process.
func (m *Model) external(proto *pb.TensorProto, need int) (*tensor.Storage, error) {
	var location string
	offset, length := 0, -1
	for _, entry := range proto.ExternalData {
		var err error
		switch entry.Key {
		case "location":
			location = entry.Value
		case "offset":
			offset, err = strconv.Atoi(entry.Value)
		case "length":
			length, err = strconv.Atoi(entry.Value)
		}
		if err != nil || entry.Key == "length" && length < 0 {
			return nil, fmt.Errorf("external data: %s %q: want a number of bytes", entry.Key, entry.Value)
		}
	}
	if location == "" {
		return nil, errors.New("external data: the location is missing")
	}
	if length < 0 {
		length = need
	}
	if length != need {
		return nil, fmt.Errorf("external data: %d bytes, but dtype and shape need %d", length, need)
	}
	data, err := m.readRange(location, offset, length)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	return data, nil
}

// readRange reads `length` bytes of a file in the model's folder, beginning at an offset.
func (m *Model) readRange(location string, offset, length int) (*tensor.Storage, error) {
	path, err := m.folderPath(location)
	if err != nil {
		return nil, err
	}
	file, err := m.folder.Open(path)
	if err != nil {
		return nil, files.Reword(location, err)
	}
	defer file.Close()
	if size := int(file.Size); offset < 0 || offset > size || length > size-offset {
		return nil, fmt.Errorf("offset %d and length %d pass the end of %q, which has %d bytes", offset, length,
			location, size)
	}
	if m.storage != nil && length >= minStorage {
		return readStorage(m.ctx, m.storage, file, offset, length)
	}
	s := tensor.NewStorage(length)
	return s, readPieces(m.ctx, file, pieces(nil, s.Bytes(), offset))
}

// folderPath returns the path of a file in the model's folder.
func (m *Model) folderPath(location string) (string, error) {
	if path, ok := m.files[location]; ok {
		return path, nil
	}
	path, err := m.folder.Path(location)
	if err != nil {
		return "", err
	}
	m.files[location] = path
	return path, nil
}
