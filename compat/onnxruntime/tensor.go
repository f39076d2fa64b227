package onnxruntime_go

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// ZeroShapeLengthError is the error of [Shape.Validate] for a shape without dimensions.
var ZeroShapeLengthError error = errors.New("the shape has no dimensions")

// ShapeOverflowError is the error of [Shape.Validate] for a shape with too many elements.
var ShapeOverflowError error = errors.New("the number of elements of the shape overflows an int64")

// BadShapeDimensionError is the error of [Shape.Validate] for a negative size.
type BadShapeDimensionError struct {
	DimensionIndex int
	DimensionSize  int64
}

func (e *BadShapeDimensionError) Error() string {
	return fmt.Sprintf("dimension %d of the shape has the invalid size %d", e.DimensionIndex, e.DimensionSize)
}

// Shape has the sizes of a tensor.
type Shape []int64

// NewShape returns a shape.
func NewShape(dimensions ...int64) Shape { return dimensions }

// FlattenedSize returns the product of the sizes, and 0 if there are none.
func (s Shape) FlattenedSize() int64 {
	if len(s) == 0 {
		return 0
	}
	n := int64(1)
	for _, size := range s {
		n *= size
	}
	return n
}

// Validate returns an error for a shape without dimensions, with a negative size, or with too many elements.
func (s Shape) Validate() error {
	if len(s) == 0 {
		return ZeroShapeLengthError
	}
	n, overflows := int64(1), false
	for i, size := range s {
		if size < 0 {
			return &BadShapeDimensionError{i, size}
		}
		overflows = overflows || size > 0 && n > math.MaxInt64/size
		n *= size
	}
	if overflows && !slices.Contains(s, 0) {
		return ShapeOverflowError
	}
	return nil
}

// Clone returns a copy.
func (s Shape) Clone() Shape { return append(Shape{}, s...) }

// String returns the sizes in brackets.
func (s Shape) String() string { return fmt.Sprint([]int64(s)) }

// Equals reports whether the shapes are the same.
func (s Shape) Equals(other Shape) bool { return slices.Equal(s, other) }

// ints returns the shape of a graphrun tensor.
func (s Shape) ints() []int {
	shape := make([]int, len(s))
	for i, size := range s {
		shape[i] = int(size)
	}
	return shape
}

// shapeOf returns the shape of a tensor, and nil for nil.
func shapeOf(t *tensor.Tensor) Shape {
	if t == nil {
		return nil
	}
	var shape Shape
	for _, size := range t.Shape {
		shape = append(shape, int64(size))
	}
	return shape
}

// Value is an input or an output of a run.
type Value interface {
	DataType() TensorElementDataType
	GetShape() Shape
	Destroy() error
	GetInternals() *ValueInternalData
	ZeroContents()
	GetONNXType() ONNXType
}

// ArbitraryTensor is an old name of [Value].
type ArbitraryTensor = Value

// ValueInternalData is what a run reads of a value. At most one field is set; none is set after Destroy.
type ValueInternalData struct {
	tensor  *tensor.Tensor // the memory of a tensor of numbers
	strings *StringTensor
	pairs   *Map
}

// TensorInternalData is an old name of [ValueInternalData].
type TensorInternalData = ValueInternalData

// isUsable returns an error for values that must not be given to a run.
func isUsable(v Value) error {
	if v == nil {
		return errors.New("is nil")
	}
	if *v.GetInternals() != (ValueInternalData{}) {
		return nil
	}
	if v.GetONNXType() == ONNXTypeSequence {
		return errors.New("is a sequence: sequences are outputs, for which a run takes nil")
	}
	return errors.New("was destroyed")
}

// numbers has the methods of all tensors of numbers.
type numbers struct{ ValueInternalData } // with a tensor until Destroy

// GetShape returns a copy of the shape.
func (n *numbers) GetShape() Shape { return shapeOf(n.tensor) }

// GetONNXType returns ONNXTypeTensor.
func (n *numbers) GetONNXType() ONNXType { return ONNXTypeTensor }

// GetInternals is for this package.
func (n *numbers) GetInternals() *ValueInternalData { return &n.ValueInternalData }

// Tensor is a tensor in the memory of a slice.
type Tensor[T TensorData] struct {
	numbers
	data []T
}

// NewTensor returns a tensor in the memory of data, whose elements after those of the shape are not used.
func NewTensor[T TensorData](s Shape, data []T) (*Tensor[T], error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("invalid shape: %w", err)
	}
	if n := s.FlattenedSize(); n > int64(len(data)) {
		return nil, fmt.Errorf("the shape %v requires %d elements, but only %d were provided", s, n, len(data))
	}
	return newTensor(s, data[:s.FlattenedSize()])
}

// newTensor is NewTensor for a valid shape, which may have no dimensions, and as many elements.
func newTensor[T TensorData](s Shape, data []T) (*Tensor[T], error) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(*new(T))))
	t, err := overBytes(s, bytes, GetTensorElementDataType[T]())
	return &Tensor[T]{numbers{ValueInternalData{tensor: t}}, data}, err
}

// overBytes returns a tensor over bytes.
func overBytes(s Shape, bytes []byte, dataType TensorElementDataType) (*tensor.Tensor, error) {
	dtype := dataType.dtype()
	if !dtype.Valid() {
		return nil, fmt.Errorf("graphrun has no tensors of %v", dataType)
	}
	if n := s.FlattenedSize(); n > int64(len(bytes)/dtype.Size()) {
		return nil, fmt.Errorf("the shape %v requires %d elements of %d bytes, but only %d bytes were provided", s, n,
			dtype.Size(), len(bytes))
	}
	return tensor.FromStorage(tensor.New(dtype, s.ints()...), tensor.StorageOf(bytes))
}

// NewEmptyTensor returns a tensor of zeros.
func NewEmptyTensor[T TensorData](s Shape) (*Tensor[T], error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("invalid shape: %w", err)
	}
	size := int64(unsafe.Sizeof(*new(T)))
	if s.FlattenedSize() > tensor.MaxBytes/size {
		return nil, fmt.Errorf("a tensor of the shape %v is too large", s)
	}
	if err := tensor.CheckMemory(int(s.FlattenedSize() * size)); err != nil {
		return nil, err
	}
	return NewTensor(s, make([]T, s.FlattenedSize()))
}

// Clone returns a tensor with a copy of the elements.
func (t *Tensor[T]) Clone() (*Tensor[T], error) {
	if err := isUsable(t); err != nil {
		return nil, fmt.Errorf("the tensor %w", err)
	}
	return newTensor(t.GetShape(), slices.Clone(t.data))
}

// GetData returns the elements, not a copy. The slice stays valid after Destroy.
func (t *Tensor[T]) GetData() []T { return t.data }

// DataType returns the type of the elements.
func (t *Tensor[T]) DataType() TensorElementDataType { return GetTensorElementDataType[T]() }

// ZeroContents sets all elements to 0.
func (t *Tensor[T]) ZeroContents() { clear(t.data) }

// Destroy ends the use of the tensor in runs.
func (t *Tensor[T]) Destroy() error {
	*t = Tensor[T]{}
	return nil
}

// CustomDataTensor is a tensor in the memory of bytes, for elements without a type in Go, such as 16-bit floats.
type CustomDataTensor struct {
	numbers
	data     []byte
	dataType TensorElementDataType
}

// NewCustomDataTensor returns a tensor in the memory of data. Bytes behind those of the elements are not used.
func NewCustomDataTensor(s Shape, data []byte, dataType TensorElementDataType) (*CustomDataTensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("invalid shape: %w", err)
	}
	t, err := overBytes(s, data, dataType)
	if err != nil {
		return nil, err
	}
	return &CustomDataTensor{numbers{ValueInternalData{tensor: t}}, data, dataType}, nil
}

// GetData returns the bytes, not a copy.
func (t *CustomDataTensor) GetData() []byte { return t.data }

// DataType returns the type of the elements.
func (t *CustomDataTensor) DataType() TensorElementDataType { return t.dataType }

// ZeroContents sets all bytes to 0.
func (t *CustomDataTensor) ZeroContents() { clear(t.data) }

// Destroy ends the use of the tensor in runs.
func (t *CustomDataTensor) Destroy() error {
	*t = CustomDataTensor{}
	return nil
}

// Scalar is a tensor without dimensions. Its shape is nil.
type Scalar[T TensorData] struct{ Tensor[T] }

// NewScalar returns a scalar.
func NewScalar[T TensorData](data T) (*Scalar[T], error) {
	if err := check(); err != nil {
		return nil, err
	}
	t, err := newTensor(nil, []T{data})
	return &Scalar[T]{*t}, err
}

// NewEmptyScalar returns the scalar 0.
func NewEmptyScalar[T TensorData]() (*Scalar[T], error) { return NewScalar(*new(T)) }

// GetData returns the number.
func (s *Scalar[T]) GetData() T { return s.data[0] }

// Set changes the number. After Destroy it does nothing.
func (s *Scalar[T]) Set(value T) { copy(s.data, []T{value}) }

// StringTensor is a tensor of strings.
type StringTensor struct {
	shape    Shape
	contents []string // nil after Destroy
}

// NewStringTensor returns a tensor of empty strings.
func NewStringTensor(shape Shape) (*StringTensor, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if err := shape.Validate(); err != nil {
		return nil, fmt.Errorf("invalid shape: %w", err)
	}
	return &StringTensor{shape.Clone(), make([]string, shape.FlattenedSize())}, nil
}

// SetContents sets all strings.
func (t *StringTensor) SetContents(contents []string) error {
	if len(contents) != len(t.contents) {
		return fmt.Errorf("%d strings were provided, but %d are required", len(contents), len(t.contents))
	}
	copy(t.contents, contents)
	return nil
}

// SetElement sets the string at an index in row-major order.
func (t *StringTensor) SetElement(index int64, s string) error {
	if err := t.checkIndex(index); err != nil {
		return err
	}
	t.contents[index] = s
	return nil
}

// GetElement returns the string at an index in row-major order.
func (t *StringTensor) GetElement(index int64) (string, error) {
	if err := t.checkIndex(index); err != nil {
		return "", err
	}
	return t.contents[index], nil
}

func (t *StringTensor) checkIndex(index int64) error {
	if index < 0 || index >= int64(len(t.contents)) {
		return fmt.Errorf("index %d is out of range: the tensor has %d strings", index, len(t.contents))
	}
	return nil
}

// GetContents returns a copy of all strings.
func (t *StringTensor) GetContents() ([]string, error) { return slices.Clone(t.contents), nil }

// GetShape returns a copy of the shape.
func (t *StringTensor) GetShape() Shape { return t.shape.Clone() }

// DataType returns TensorElementDataTypeString.
func (t *StringTensor) DataType() TensorElementDataType { return TensorElementDataTypeString }

// GetONNXType returns ONNXTypeTensor.
func (t *StringTensor) GetONNXType() ONNXType { return ONNXTypeTensor }

// ZeroContents does nothing, as in the original.
func (t *StringTensor) ZeroContents() {}

// GetInternals is for this package.
func (t *StringTensor) GetInternals() *ValueInternalData {
	if t.contents == nil {
		return &ValueInternalData{}
	}
	return &ValueInternalData{strings: t}
}

// Destroy ends the use of the tensor in runs.
func (t *StringTensor) Destroy() error {
	*t = StringTensor{}
	return nil
}

// valueOf returns a value in the memory of a row-major tensor.
func valueOf(t *tensor.Tensor) (Value, error) {
	switch t.DType {
	case tensor.Bool:
		return typed[bool](t)
	case tensor.Uint8:
		return typed[uint8](t)
	case tensor.Int8:
		return typed[int8](t)
	case tensor.Int16:
		return typed[int16](t)
	case tensor.Int32:
		return typed[int32](t)
	case tensor.Int64:
		return typed[int64](t)
	case tensor.Uint16:
		return typed[uint16](t)
	case tensor.Uint32:
		return typed[uint32](t)
	case tensor.Uint64:
		return typed[uint64](t)
	case tensor.Float32:
		return typed[float32](t)
	case tensor.Float64:
		return typed[float64](t)
	}
	bytes := unsafe.Slice((*byte)(t.Pointer()), t.Numel()*t.DType.Size())
	return &CustomDataTensor{numbers{ValueInternalData{tensor: t}}, bytes, elementTypeOf(t.DType)}, nil
}

func typed[T TensorData](t *tensor.Tensor) (Value, error) {
	return newTensor(shapeOf(t), unsafe.Slice((*T)(t.Pointer()), t.Numel()))
}
