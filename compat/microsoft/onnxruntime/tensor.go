package onnxruntime

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unsafe"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

// TensorElementDataType is a type of elements, with the numbers of ONNX.
type TensorElementDataType int

// The types of elements.
const (
	TensorElementDataTypeUndefined TensorElementDataType = 0
	TensorElementDataTypeFloat32   TensorElementDataType = 1
	TensorElementDataTypeUint8     TensorElementDataType = 2
	TensorElementDataTypeInt8      TensorElementDataType = 3
	TensorElementDataTypeUint16    TensorElementDataType = 4
	TensorElementDataTypeInt16     TensorElementDataType = 5
	TensorElementDataTypeInt32     TensorElementDataType = 6
	TensorElementDataTypeInt64     TensorElementDataType = 7
	TensorElementDataTypeString    TensorElementDataType = 8
	TensorElementDataTypeBool      TensorElementDataType = 9
	TensorElementDataTypeFloat16   TensorElementDataType = 10
	TensorElementDataTypeFloat64   TensorElementDataType = 11
	TensorElementDataTypeUint32    TensorElementDataType = 12
	TensorElementDataTypeUint64    TensorElementDataType = 13
	TensorElementDataTypeBFloat16  TensorElementDataType = 16
)

var dtypeNames = map[TensorElementDataType]string{TensorElementDataTypeUndefined: "Undefined",
	TensorElementDataTypeFloat32: "Float32", TensorElementDataTypeUint8: "Uint8", TensorElementDataTypeInt8: "Int8",
	TensorElementDataTypeUint16: "Uint16", TensorElementDataTypeInt16: "Int16", TensorElementDataTypeInt32: "Int32",
	TensorElementDataTypeInt64: "Int64", TensorElementDataTypeString: "String", TensorElementDataTypeBool: "Bool",
	TensorElementDataTypeFloat16: "Float16", TensorElementDataTypeFloat64: "Float64",
	TensorElementDataTypeUint32: "Uint32", TensorElementDataTypeUint64: "Uint64",
	TensorElementDataTypeBFloat16: "BFloat16"}

// String returns the name of the type.
func (t TensorElementDataType) String() string {
	if name, ok := dtypeNames[t]; ok {
		return name
	}
	return "Unknown"
}

// TensorElement is a Go type of elements.
type TensorElement interface {
	bool | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// Tensor is a value of a run: a tensor of numbers or strings, a sequence or a map. Close may be omitted: the memory
// belongs to the garbage collector.
type Tensor struct{ value ort.Value } // nil after Close

// CreateTensor returns a tensor in the memory of data, which has its elements in row-major order. A scalar, whose shape
// is empty, is a copy of data.
func CreateTensor[T TensorElement](shape []int64, data []T) (*Tensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := checkLength("create tensor", shape, len(data)); err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		scalar, err := ort.NewScalar(data[0])
		if err != nil {
			return nil, wrap("create tensor", err)
		}
		return &Tensor{&scalar.Tensor}, nil
	}
	t, err := ort.NewTensor(ort.Shape(shape).Clone(), data)
	if err != nil {
		return nil, wrap("create tensor", err)
	}
	return &Tensor{t}, nil
}

// checkLength returns an error if a shape has another number of elements than n.
func checkLength(what string, shape []int64, n int) error {
	if len(shape) > 0 && ort.Shape(shape).FlattenedSize() != int64(n) || len(shape) == 0 && n != 1 {
		return fmt.Errorf("ort: %s: data length %d does not match the element count of shape %v", what, n, shape)
	}
	return nil
}

// NewTensorFromBytes returns a tensor in the memory of data: row-major elements of any type of numbers.
func NewTensorFromBytes(dtype TensorElementDataType, shape []int64, data []byte) (*Tensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	t, err := ort.NewCustomDataTensor(ort.Shape(shape).Clone(), data, ort.TensorElementDataType(dtype))
	if err != nil {
		return nil, wrap("create tensor", err)
	}
	return &Tensor{t}, nil
}

// CreateStringTensor returns a tensor of strings.
func CreateStringTensor(shape []int64, data []string) (*Tensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := checkLength("create string tensor", shape, len(data)); err != nil {
		return nil, err
	}
	t, err := ort.NewStringTensor(ort.Shape(shape).Clone())
	if err == nil {
		err = t.SetContents(data)
	}
	if err != nil {
		return nil, wrap("create string tensor", err)
	}
	return &Tensor{t}, nil
}

// TensorData returns the elements of a tensor, which share its memory.
func TensorData[T TensorElement](t *Tensor) ([]T, error) {
	if err := t.check("tensor data"); err != nil {
		return nil, err
	}
	switch v := t.value.(type) {
	case *ort.Tensor[T]:
		return v.GetData(), nil
	case *ort.CustomDataTensor:
		if want := TensorElementDataType(ort.GetTensorElementDataType[T]()); want == t.DataType() {
			data := v.GetData()
			return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(*new(T)))), nil
		}
	}
	return nil, fmt.Errorf("ort: tensor data: type mismatch: tensor is %s, requested %s", t.DataType(),
		TensorElementDataType(ort.GetTensorElementDataType[T]()))
}

// Bytes returns the memory of a tensor of numbers.
func (t *Tensor) Bytes() ([]byte, error) {
	if err := t.check("tensor bytes"); err != nil {
		return nil, err
	}
	switch v := t.value.(type) {
	case *ort.CustomDataTensor:
		return v.GetData(), nil
	case *ort.Tensor[bool]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[int8]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[uint8]:
		return v.GetData(), nil
	case *ort.Tensor[int16]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[uint16]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[int32]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[uint32]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[int64]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[uint64]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[float32]:
		return bytesOf(v.GetData()), nil
	case *ort.Tensor[float64]:
		return bytesOf(v.GetData()), nil
	}
	return nil, fmt.Errorf("ort: tensor bytes: unsupported element type %s (use StringData for string tensors)", t.DataType())
}

func bytesOf[T any](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
}

// StringData returns the strings of a tensor of strings.
func (t *Tensor) StringData() ([]string, error) {
	if err := t.check("string data"); err != nil {
		return nil, err
	}
	if v, ok := t.value.(*ort.StringTensor); ok {
		return v.GetContents()
	}
	return nil, fmt.Errorf("ort: string data: tensor is %s, not String", t.DataType())
}

// Shape returns a copy of the shape.
func (t *Tensor) Shape() []int64 {
	if t.check("") != nil {
		return nil
	}
	return t.value.GetShape().Clone()
}

// DataType returns the type of the elements.
func (t *Tensor) DataType() TensorElementDataType {
	if t.check("") != nil {
		return TensorElementDataTypeUndefined
	}
	return TensorElementDataType(t.value.DataType())
}

// ElementCount returns the number of elements.
func (t *Tensor) ElementCount() int64 {
	count := int64(1)
	for _, n := range t.Shape() {
		count *= n
	}
	return count
}

// ValueType returns the kind of value, with the numbers of ONNX.
func (t *Tensor) ValueType() (int, error) {
	if err := t.check("value type"); err != nil {
		return 0, err
	}
	return int(t.value.GetONNXType()), nil
}

func (t *Tensor) is(kind ort.ONNXType) bool {
	return t.check("") == nil && t.value.GetONNXType() == kind
}

// IsTensor reports whether the value is a tensor.
func (t *Tensor) IsTensor() bool { return t.is(ort.ONNXTypeTensor) }

// IsSequence reports whether the value is a sequence.
func (t *Tensor) IsSequence() bool { return t.is(ort.ONNXTypeSequence) }

// IsMap reports whether the value is a map.
func (t *Tensor) IsMap() bool { return t.is(ort.ONNXTypeMap) }

// SequenceLen returns the number of values of a sequence.
func (t *Tensor) SequenceLen() (int, error) {
	list, err := t.elements()
	return len(list), err
}

// SequenceAt returns a value of a sequence or, of a map, its keys (0) or values (1).
func (t *Tensor) SequenceAt(index int) (*Tensor, error) {
	list, err := t.elements()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(list) {
		return nil, fmt.Errorf("ort: get value: index %d of %d values", index, len(list))
	}
	return &Tensor{list[index]}, nil
}

func (t *Tensor) elements() ([]ort.Value, error) {
	if err := t.check("get value"); err != nil {
		return nil, err
	}
	switch v := t.value.(type) {
	case *ort.Sequence:
		return v.GetValues()
	case *ort.Map:
		keys, values, err := v.GetKeysAndValues()
		return []ort.Value{keys, values}, err
	}
	return nil, errors.New("ort: get value: the value is neither a sequence nor a map")
}

// NewSequence returns a sequence of values.
func NewSequence(elements []*Tensor) (*Tensor, error) {
	values := make([]ort.Value, len(elements))
	for i, e := range elements {
		if err := e.check(fmt.Sprintf("create sequence: element %d", i)); err != nil {
			return nil, err
		}
		values[i] = e.value
	}
	s, err := ort.NewSequence(values)
	if err != nil {
		return nil, wrap("create sequence", err)
	}
	return &Tensor{s}, nil
}

// NewMap returns a map of two vectors.
func NewMap(keys, values *Tensor) (*Tensor, error) {
	if err := errors.Join(keys.check("create map: keys"), values.check("create map: values")); err != nil {
		return nil, err
	}
	m, err := ort.NewMap(keys.value, values.value)
	if err != nil {
		return nil, wrap("create map", err)
	}
	return &Tensor{m}, nil
}

// NewMapFromGoMap returns a map with the keys and values of a Go map.
func NewMapFromGoMap[K int64, V TensorElement](m map[K]V) (*Tensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	created, err := ort.NewMapFromGoMap(m)
	if err != nil {
		return nil, wrap("create map", err)
	}
	return &Tensor{created}, nil
}

// Close ends the use of the value in runs.
func (t *Tensor) Close() error {
	if t != nil {
		t.value = nil
	}
	return nil
}

// check returns an error for a nil or closed value.
func (t *Tensor) check(what string) error {
	if t == nil || t.value == nil {
		return fmt.Errorf("ort: %s: tensor is nil or closed", what)
	}
	return nil
}

// codeOf returns the kind of an error of graphrun.
func codeOf(err error) ErrorCode {
	switch text := err.Error(); {
	case errors.Is(err, fs.ErrNotExist) || strings.Contains(text, "there is no such file"):
		return ErrorCodeNoSuchFile
	case strings.Contains(text, "input \"") || strings.Contains(text, "no output \""):
		return ErrorCodeInvalidArgument
	case strings.Contains(text, "protobuf"):
		return ErrorCodeInvalidProtobuf
	}
	return ErrorCodeFail
}
