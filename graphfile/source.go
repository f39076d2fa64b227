package graphfile

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"weak"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// source is the file that graphs came from: a graph, and those that are attributes in it.
type source struct {
	name   string
	folder files.Folder // of the constants' files
	lines  []int        // offsets of line starts
	// files are those that constants came from. They go by the data, which copies of the graph share, and
	// do not keep it: a weight may be dropped when all that reads it was computed from it.
	files map[weak.Pointer[tensor.Tensor]]constFile
}

// constFile is where the data of a constant is kept.
type constFile struct{ path, key string }

func newSource(name string, folder files.Folder, data []byte) *source {
	s := &source{name: name, folder: folder, lines: make([]int, 1, bytes.Count(data, []byte{'\n'})+1),
		files: map[weak.Pointer[tensor.Tensor]]constFile{}}
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return s
		}
		at += i + 1
		s.lines = append(s.lines, at)
	}
}

// sourceOf returns the file that a graph came from; nil for one that was not read here.
func sourceOf(g *graph.Graph) *source {
	if p, ok := g.Places().(*places); ok {
		return p.src
	}
	return nil
}

// place turns an offset into a line and a column.
func (s *source) place(at int) graph.Place {
	i := sort.SearchInts(s.lines, at+1) - 1
	return graph.Place{File: s.name, Line: i + 1, Col: at - s.lines[i] + 1}
}

// fail returns an error at an offset.
func (s *source) fail(at int, format string, args ...any) *graph.Error {
	p := s.place(at)
	return &graph.Error{File: p.File, Line: p.Line, Col: p.Col, Err: fmt.Errorf(format, args...)}
}

// places are the offsets at which the parts of one graph stand, by their numbers: [graph.Places].
type places struct {
	src     *source
	nodes   []int
	attrs   []attrsPlace // of the nodes that have attributes, by number
	values  []int        // of inputs and constants; -1 for others
	outputs map[string]int
}

// attrsPlace is where the attributes of a node stand: each from where they start. Nodes with the same
// attributes share the map.
type attrsPlace struct {
	node, at int
	of       map[string]int
}

// setValue notes where an input or a constant stands.
func (p *places) setValue(v *graph.Value, at int) {
	for v.Number() >= len(p.values) {
		p.values = append(p.values, -1)
	}
	p.values[v.Number()] = at
}

// Node returns the place of a node, or of its attribute.
func (p *places) Node(number int, attr string) (graph.Place, bool) {
	if number < 0 || number >= len(p.nodes) {
		return graph.Place{}, false
	}
	if attr == "" {
		return p.src.place(p.nodes[number]), true
	}
	i, ok := slices.BinarySearchFunc(p.attrs, number, func(a attrsPlace, n int) int { return a.node - n })
	if !ok {
		return graph.Place{}, false
	}
	at, ok := p.attrs[i].of[attr]
	if !ok {
		return graph.Place{}, false
	}
	return p.src.place(p.attrs[i].at + at), true
}

// Value returns the place of an input or a constant.
func (p *places) Value(number int) (graph.Place, bool) {
	if number < 0 || number >= len(p.values) || p.values[number] < 0 {
		return graph.Place{}, false
	}
	return p.src.place(p.values[number]), true
}

// Output returns the place of an output.
func (p *places) Output(name string) (graph.Place, bool) {
	at, ok := p.outputs[name]
	if !ok {
		return graph.Place{}, false
	}
	return p.src.place(at), true
}
