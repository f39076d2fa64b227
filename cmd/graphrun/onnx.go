package main

import (
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx"
)

// isONNX reports whether a file is a model rather than a graph file, by its name.
func isONNX(path string) bool { return strings.EqualFold(filepath.Ext(path), ".onnx") }

// unboundSize is the size of a model's symbols that nobody binds, when it is run or planned.
const unboundSize = 2

// model is an ONNX model, and a graph of nothing but its inputs.
type model struct {
	*onnx.Model
	path   string
	inputs *graph.Graph
}

// openModel reads a model. dims may bind symbols that it has.
func openModel(path string, dims map[string]int) (*model, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, wrong(err)
	}
	inputs, err := m.Signature()
	if err != nil {
		return nil, wrong(named(path, err))
	}
	if err := checkDims(path, dims, inputs.Symbols); err != nil {
		return nil, err
	}
	return &model{m, path, inputs}, nil
}

// convert converts the model to a graph, which is inferred.
func (m *model) convert(o onnx.Options) (*graph.Graph, error) {
	g, err := m.Graph(o)
	if err != nil {
		return nil, wrong(named(m.path, err))
	}
	return g, nil
}

// loadModel reads a model and fixes its symbolic sizes: by dims, else to a small size.
func loadModel(path string, dims map[string]int) (*graph.Graph, error) {
	m, err := openModel(path, dims)
	if err != nil {
		return nil, err
	}
	return m.convert(onnx.Options{Dims: dims, Default: unboundSize})
}

// loadModelFor reads a model and the values of its inputs, whose shapes fix its symbolic
// sizes together with dims.
func loadModelFor(src sources, path string, dims map[string]int) (*graph.Graph, *given, error) {
	m, err := openModel(path, dims)
	if err != nil {
		return nil, nil, err
	}
	given, err := src.read(m.inputs)
	if err != nil {
		return nil, nil, err
	}
	if err := dimsOf(m.inputs, given, dims); err != nil {
		return nil, nil, err
	}
	o := onnx.Options{Dims: dims, Default: unboundSize, Shapes: map[string][]int{}}
	for name, a := range given.arrays {
		o.Shapes[name] = a.meta.Shape
	}
	g, err := m.convert(o)
	return g, given, err
}
