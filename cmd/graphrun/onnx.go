package main

import (
	"maps"
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

// convert converts the model to a graph, which is inferred. With some it goes on past what is
// wrong: see [onnx.Model.GraphSome].
func (m *model) convert(o onnx.Options, some bool) (g *graph.Graph, missing graph.Errors, err error) {
	if some {
		g, missing, err = m.GraphSome(o)
	} else {
		g, err = m.Graph(o)
	}
	if err != nil {
		return nil, nil, wrong(named(m.path, err))
	}
	return g, missing, nil
}

// loadModel reads a model and fixes its symbolic sizes: by dims, else to a small size.
func loadModel(path string, dims map[string]int, some bool) (*graph.Graph, graph.Errors, error) {
	m, err := openModel(path, dims)
	if err != nil {
		return nil, nil, err
	}
	return m.convert(onnx.Options{Dims: dims, Default: unboundSize}, some)
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
	if err := bindGiven(m.inputs, given, dims); err != nil {
		given.close()
		return nil, nil, err
	}
	o := onnx.Options{Dims: dims, Default: unboundSize, Shapes: map[string][]int{}, Lost: maps.Clone(given.lost)}
	for name, a := range given.arrays {
		o.Shapes[name] = a.meta.Shape
	}
	g, missing, err := m.convert(o, src.keepGoing)
	if err != nil {
		given.close()
		return nil, nil, err
	}
	given.missing, given.unknown = missing, nil
	clear(given.lost)
	return g, given, nil
}
