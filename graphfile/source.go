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

// source describes the file of a graph. Graphs that are attributes, such as the body of a loop, share the source.
type source struct {
	name       string
	folder     files.Folder // of the constants' files
	lineStarts []int        // offsets of line starts
	// files maps the data of constants to their files. Copies of the graph share these data. The pointers are weak, so
	// that a constant can be freed when no graph uses it.
	files map[weak.Pointer[tensor.Tensor]]constRef
}

// constRef is the file and key of a constant's data.
type constRef struct{ path, key string }

// newSource returns the source of a graph file with the given contents.
func newSource(name string, folder files.Folder, data []byte) *source {
	s := &source{name: name, folder: folder, lineStarts: make([]int, 1, bytes.Count(data, []byte{'\n'})+1),
		files: map[weak.Pointer[tensor.Tensor]]constRef{}}
	for lineStart := 0; ; {
		i := bytes.IndexByte(data[lineStart:], '\n')
		if i < 0 {
			return s
		}
		lineStart += i + 1
		s.lineStarts = append(s.lineStarts, lineStart)
	}
}

// sourceOf returns the source of a graph, or nil if this package did not read it.
func sourceOf(g *graph.Graph) *source {
	if p, ok := g.Places().(*places); ok {
		return p.source
	}
	return nil
}

// position converts an offset to line and column.
func (s *source) position(offset int) graph.Place {
	i := sort.SearchInts(s.lineStarts, offset+1) - 1 // the last line that starts at or before offset
	return graph.Place{File: s.name, Line: i + 1, Col: offset - s.lineStarts[i] + 1}
}

// errorAt returns an error with the position that corresponds to an offset in the file.
func (s *source) errorAt(offset int, format string, args ...any) *graph.Error {
	p := s.position(offset)
	return &graph.Error{File: p.File, Line: p.Line, Col: p.Col, Err: fmt.Errorf(format, args...)}
}

// places implements [graph.Places] for one graph. It has the offsets in the file, indexed by the numbers of nodes and
// values.
type places struct {
	source  *source
	nodes   []int          // offsets of nodes
	attrs   []attrsPlace   // of the nodes with attributes, sorted by node number
	values  []int          // offsets of inputs and constants by value number; -1 for other values
	outputs map[string]int // offsets of outputs by name
}

// attrsPlace has the places of the attributes of one node.
type attrsPlace struct {
	node        int            // number of the node
	offset      int            // of the attributes in the file
	attrOffsets map[string]int // of each attribute, relative to offset; nodes with equal attributes share this map
}

// setValue records the offset of an input or a constant.
func (p *places) setValue(v *graph.Value, offset int) {
	for v.Number() >= len(p.values) {
		p.values = append(p.values, -1)
	}
	p.values[v.Number()] = offset
}

// Node returns the position of a node or, if attr is not empty, of its attribute attr.
func (p *places) Node(number int, attr string) (graph.Place, bool) {
	if number < 0 || number >= len(p.nodes) {
		return graph.Place{}, false
	}
	if attr == "" {
		return p.source.position(p.nodes[number]), true
	}
	i, ok := slices.BinarySearchFunc(p.attrs, number, func(a attrsPlace, n int) int { return a.node - n })
	if !ok {
		return graph.Place{}, false
	}
	offset, ok := p.attrs[i].attrOffsets[attr]
	if !ok {
		return graph.Place{}, false
	}
	return p.source.position(p.attrs[i].offset + offset), true
}

// Value returns the position of an input or a constant.
func (p *places) Value(number int) (graph.Place, bool) {
	if number < 0 || number >= len(p.values) || p.values[number] < 0 {
		return graph.Place{}, false
	}
	return p.source.position(p.values[number]), true
}

// Output returns the position of an output.
func (p *places) Output(name string) (graph.Place, bool) {
	offset, ok := p.outputs[name]
	if !ok {
		return graph.Place{}, false
	}
	return p.source.position(offset), true
}
