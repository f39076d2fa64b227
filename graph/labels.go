package graph

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/tensor"
)

// Labels describes an input or output of a graph ([Graph.Labels]) whose numbers represent strings, or whose rows
// represent maps. The zero Labels means that the numbers represent only themselves.
type Labels struct {
	// Strings is nil, or the list of strings. An element of the tensor is an int64: the index of a string in the list.
	// In an input, -1 represents every string that is not in the list.
	Strings []string
	// StringKeys or IntKeys are the keys of maps. A row of the tensor, along its last dimension, has the values of a
	// map.
	StringKeys []string
	IntKeys    []int64
}

// IsMap reports whether rows represent maps.
func (l Labels) IsMap() bool { return l.StringKeys != nil || l.IntKeys != nil }

// Keys returns the keys of maps as strings. Integers are in decimal.
func (l Labels) Keys() []string {
	if l.IntKeys == nil {
		return l.StringKeys
	}
	keys := make([]string, len(l.IntKeys))
	for i, k := range l.IntKeys {
		keys[i] = strconv.FormatInt(k, 10)
	}
	return keys
}

// Codes returns the codes of the strings.
func (l Labels) Codes() map[string]int64 {
	codes := make(map[string]int64, len(l.Strings))
	for i, s := range l.Strings {
		codes[s] = int64(i)
	}
	return codes
}

// Encode returns a new int64 tensor whose elements, in row-major order, represent the strings. It returns the errors of
// [tensor.FromSlice].
func (l Labels) Encode(list []string, shape ...int) (*tensor.Tensor, error) {
	codes := l.Codes()
	data := make([]int64, len(list))
	for i, s := range list {
		code, ok := codes[s]
		if !ok {
			code = -1
		}
		data[i] = code
	}
	return tensor.FromSlice(data, shape...)
}

// Decode returns the strings that the elements of t represent, in row-major order. It returns an error for an element
// that represents no string.
func (l Labels) Decode(t *tensor.Tensor) ([]string, error) {
	switch {
	case t == nil:
		return nil, errors.New("the tensor is nil")
	case t.DType != tensor.Int64:
		return nil, fmt.Errorf("the tensor is %v: strings are encoded as int64", t.DType)
	}
	codes, err := tensor.ToSlice[int64](t.Contiguous())
	if err != nil {
		return nil, err
	}
	list := make([]string, len(codes))
	for i, code := range codes {
		if code < 0 || code >= int64(len(l.Strings)) {
			return nil, fmt.Errorf("element %d is %d, which stands for no string of the model", i, code)
		}
		list[i] = l.Strings[code]
	}
	return list, nil
}

// Maps returns the maps that the rows of t represent. [Labels.Keys] returns the keys of the maps.
func (l Labels) Maps(t *tensor.Tensor) ([]map[string]float64, error) {
	keys := l.Keys()
	if t == nil || t.Rank() == 0 || t.DType.IsComplex() || t.Shape[t.Rank()-1] != len(keys) {
		return nil, fmt.Errorf("the last dimension must have %d numbers", len(keys))
	}
	values, err := tensor.ToSlice[float64](t.CopyTo(tensor.New(tensor.Float64, t.Shape...)))
	if err != nil {
		return nil, err
	}
	maps := make([]map[string]float64, 0, tensor.Numel(t.Shape[:t.Rank()-1]))
	for len(values) > 0 && len(keys) > 0 {
		row := make(map[string]float64, len(keys))
		for i, k := range keys {
			row[k] = values[i]
		}
		maps, values = append(maps, row), values[len(keys):]
	}
	return maps, nil
}
