// Package arrays converts arrays read from files (.npz) to the inputs of a graph, and the outputs of a graph to arrays.
package arrays

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// IsText reports whether an array is read as strings for input v (see [npz.Strings]). Such an array has one more
// dimension, for the characters, and the input is an int64 tensor of codes.
func IsText(array tensor.Meta, v *graph.Value) bool {
	rank := len(v.Meta.Shape)
	switch {
	case v.Dims != nil:
		rank = len(v.Dims)
	case v.Dynamic: // any rank
		rank = len(array.Shape) - 1
	}
	return v.Meta.DType == tensor.Int64 && len(array.Shape) == rank+1 &&
		(array.DType == tensor.Uint32 || array.DType == tensor.Uint8)
}

// IsCompatible reports whether an array of dtype `given` may be passed to an input of dtype `want`. The dtypes must be
// equal, with one exception: an array of uint16 may hold the bits of bfloat16, which numpy lacks.
func IsCompatible(given, want tensor.DType) bool {
	return given == want || given == tensor.Uint16 && want == tensor.BFloat16
}

// Encode returns the codes of strings that an array holds, in a tensor of the given shape.
func Encode(text *tensor.Tensor, labels graph.Labels, shape []int) (*tensor.Tensor, error) {
	list, err := npz.Strings(text)
	if err != nil {
		return nil, err
	}
	return labels.Encode(list, shape...)
}

// Entries returns the computed outputs in the order of the graph.
func Entries(g *graph.Graph, out map[string]*tensor.Tensor) []npz.Entry {
	list := make([]npz.Entry, 0, len(g.Outputs))
	for _, output := range g.Outputs {
		if out[output.Name] != nil {
			list = append(list, npz.Entry{Name: output.Name, Tensor: out[output.Name]})
		}
	}
	return list
}

// Decode sets the strings of each entry whose output has labels, and checks the codes in its tensor. The error names
// the output.
func Decode(g *graph.Graph, list []npz.Entry) error {
	for i, entry := range list {
		if labels := g.Labels[entry.Name]; labels.IsText() {
			if err := labels.Each(entry.Tensor, func(int, string) error { return nil }); err != nil {
				return fmt.Errorf("output %q: %w", entry.Name, err)
			}
			list[i].EachString = func(visit func(s string) error) error {
				return labels.Each(entry.Tensor, func(_ int, s string) error { return visit(s) })
			}
		}
	}
	return nil
}
