package onnxruntime_go

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// noTensor has the methods of values that are no tensors.
type noTensor struct{}

// DataType returns TensorElementDataTypeUndefined.
func (noTensor) DataType() TensorElementDataType { return TensorElementDataTypeUndefined }

// ZeroContents does nothing.
func (noTensor) ZeroContents() {}

// Sequence is a sequence of tensors or of maps.
type Sequence struct {
	noTensor
	contents []Value
}

// NewSequence returns a sequence of values in the memory of the given values.
func NewSequence(contents []Value) (*Sequence, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if len(contents) == 0 {
		return nil, errors.New("a sequence must contain at least one element")
	}
	s := &Sequence{}
	for i, v := range contents {
		view, err := viewOf(v)
		if err != nil {
			return nil, fmt.Errorf("element %d of the sequence %w", i, err)
		}
		if first := contents[0]; v.GetONNXType() != first.GetONNXType() || v.DataType() != first.DataType() {
			return nil, fmt.Errorf("elements 0 and %d of the sequence have different types", i)
		}
		s.contents = append(s.contents, view)
	}
	return s, nil
}

// viewOf returns another value in the memory of v.
func viewOf(v Value) (Value, error) {
	if err := isUsable(v); err != nil {
		return nil, err
	}
	data := v.GetInternals()
	switch {
	case data.strings != nil:
		view := *data.strings
		return &view, nil
	case data.pairs != nil:
		view := *data.pairs
		return &view, nil
	}
	return valueOf(data.tensor)
}

// GetValues returns the elements.
func (s *Sequence) GetValues() ([]Value, error) { return s.contents, nil }

// GetShape returns the number of elements.
func (s *Sequence) GetShape() Shape { return NewShape(int64(len(s.contents))) }

// GetONNXType returns ONNXTypeSequence.
func (s *Sequence) GetONNXType() ONNXType { return ONNXTypeSequence }

// GetInternals is for this package.
func (s *Sequence) GetInternals() *ValueInternalData { return &ValueInternalData{} }

// Destroy ends the use of the sequence.
func (s *Sequence) Destroy() error {
	s.contents = nil
	return nil
}

// Map is a map: a tensor of keys, and a tensor with as many values.
type Map struct {
	noTensor
	keys, values Value
}

// NewMap returns a map of keys and values in the memory of the given tensors. Keys are strings or int64.
func NewMap(keys, values Value) (*Map, error) {
	if err := check(); err != nil {
		return nil, err
	}
	k, err := viewOf(keys)
	if err != nil {
		return nil, fmt.Errorf("the tensor of keys %w", err)
	}
	v, err := viewOf(values)
	if err != nil {
		return nil, fmt.Errorf("the tensor of values %w", err)
	}
	if t := k.DataType(); t != TensorElementDataTypeInt64 && t != TensorElementDataTypeString {
		return nil, fmt.Errorf("keys of a map are int64 or strings, not %v", t)
	}
	if !k.GetShape().Equals(v.GetShape()) {
		return nil, fmt.Errorf("the keys have the shape %v, and the values %v", k.GetShape(), v.GetShape())
	}
	return &Map{keys: k, values: v}, nil
}

// NewMapFromGoMap returns a map with the elements of m.
func NewMapFromGoMap[K, V TensorData](m map[K]V) (*Map, error) {
	keys, values := make([]K, 0, len(m)), make([]V, 0, len(m))
	for key, value := range m {
		keys, values = append(keys, key), append(values, value)
	}
	k, err := NewTensor(NewShape(int64(len(m))), keys)
	if err != nil {
		return nil, err
	}
	v, err := NewTensor(NewShape(int64(len(m))), values)
	if err != nil {
		return nil, err
	}
	return NewMap(k, v)
}

// GetKeysAndValues returns the keys and the values.
func (m *Map) GetKeysAndValues() (Value, Value, error) { return m.keys, m.values, nil }

// GetShape returns the number of keys.
func (m *Map) GetShape() Shape { return m.keys.GetShape() }

// GetONNXType returns ONNXTypeMap.
func (m *Map) GetONNXType() ONNXType { return ONNXTypeMap }

// GetInternals is for this package.
func (m *Map) GetInternals() *ValueInternalData {
	if m.keys == nil {
		return &ValueInternalData{}
	}
	return &ValueInternalData{pairs: m}
}

// Destroy ends the use of the map.
func (m *Map) Destroy() error {
	*m = Map{}
	return nil
}

// sequenceOf returns the maps that the rows of a matrix stand for, whose keys are sorted as in ONNX Runtime.
func sequenceOf(labels graph.Labels, matrix *tensor.Tensor) (Value, error) {
	n := len(labels.Keys())
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if labels.IntKeys != nil {
			return cmp.Compare(labels.IntKeys[a], labels.IntKeys[b])
		}
		return cmp.Compare(labels.StringKeys[a], labels.StringKeys[b])
	})
	shape, s := NewShape(int64(n)), &Sequence{contents: []Value{}}
	for row := range matrix.Numel() / max(n, 1) {
		values := tensor.Zeros(matrix.DType, n)
		var keys Value = &StringTensor{shape, gather(labels.StringKeys, order)}
		if labels.IntKeys != nil {
			var err error
			if keys, err = newTensor(shape, gather(labels.IntKeys, order)); err != nil {
				return nil, err
			}
		}
		for i, column := range order {
			index := []int{row, column}
			values.SetFlat(i, matrix.At(index[2-matrix.Rank():]...))
		}
		v, err := valueOf(values)
		if err != nil {
			return nil, err
		}
		s.contents = append(s.contents, &Map{keys: keys, values: v})
	}
	return s, nil
}

// gather returns the elements of a list in an order.
func gather[T any](list []T, order []int) []T {
	if len(list) == 0 {
		return nil
	}
	gathered := make([]T, len(order))
	for i, k := range order {
		gathered[i] = list[k]
	}
	return gathered
}
