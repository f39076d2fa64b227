package graph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Labels describes an input or output of a graph ([Graph.Labels]) whose numbers represent strings, or whose rows
// represent maps. The zero Labels means that the numbers represent only themselves.
type Labels struct {
	// Texts has the strings of the graph ([Graph.Texts]) if the elements of the tensor, which are int64, are codes of
	// strings. Otherwise it is nil.
	Texts *tensor.Texts
	// StringKeys or IntKeys are the keys of maps. A row of the tensor, along its last dimension, has the values of a
	// map.
	StringKeys []string
	IntKeys    []int64
}

// IsText reports whether elements represent strings.
func (l Labels) IsText() bool { return l.Texts != nil }

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

// errNoText is the error for strings of a port that has none.
var errNoText = errors.New("the elements are not strings")

// Encode returns a new int64 tensor whose elements, in row-major order, represent the strings. The tensor also holds
// the strings ([tensor.Tensor.Texts]), so that a run finds them. Encode returns the errors of [tensor.FromSlice], and
// an error unless l.IsText().
func (l Labels) Encode(list []string, shape ...int) (*tensor.Tensor, error) {
	if !l.IsText() {
		return nil, errNoText
	}
	texts := l.Texts.With()
	data := make([]int64, len(list))
	for i, s := range list {
		data[i] = texts.Code(s)
	}
	t, err := tensor.FromSlice(data, shape...)
	t.SetTexts(texts)
	return t, err
}

// Decode returns the strings that the elements of t represent, in row-major order. It returns an error for an element
// that represents no string, and a [*tensor.MemoryError] if memory does not suffice for the list: see [Labels.Each].
func (l Labels) Decode(t *tensor.Tensor) ([]string, error) {
	var list []string
	err := l.Each(t, func(i int, s string) error {
		if i == 0 {
			const stringBytes = 16 // without the characters, which all elements share
			if err := tensor.CheckMemory(stringBytes * t.Numel()); err != nil {
				return err
			}
			list = make([]string, t.Numel())
		}
		list[i] = s
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Each calls visit with the index and the string of each element of t, in row-major order, until visit returns an
// error. The strings are those of the model and, in an output, those of the inputs and results of its run. Each returns
// an error for an element that represents no string, and unless l.IsText().
func (l Labels) Each(t *tensor.Tensor, visit func(i int, s string) error) error {
	switch {
	case !l.IsText():
		return errNoText
	case t == nil:
		return errors.New("the tensor is nil")
	case t.DType != tensor.Int64:
		return fmt.Errorf("the tensor is %v: strings are encoded as int64", t.DType)
	}
	const codeBytes, blockBytes = 8, 64 << 10
	i := 0
	return t.EachBlock(blockBytes, func(block []byte) error {
		for ; len(block) > 0; block = block[codeBytes:] {
			code := int64(binary.NativeEndian.Uint64(block))
			text, ok := l.Texts.Text(code)
			if code < 0 {
				text, ok = t.Texts().Text(code)
			}
			if !ok {
				return fmt.Errorf("element %d is %d, which stands for no string of the model or of the run", i, code)
			}
			if err := visit(i, text); err != nil {
				return err
			}
			i++
		}
		return nil
	})
}

// Maps returns the maps that the rows of t represent. [Labels.Keys] returns the keys of the maps.
func (l Labels) Maps(t *tensor.Tensor) (list []map[string]float64, err error) {
	err = l.EachMap(t, func(row map[string]float64) error {
		list = append(list, maps.Clone(row))
		return nil
	})
	return list, err
}

// EachMap calls visit with the map of each row of t, until visit returns an error. The map is valid during the call
// only.
func (l Labels) EachMap(t *tensor.Tensor, visit func(row map[string]float64) error) error {
	if visit == nil {
		panic("graph: EachMap needs a function")
	}
	keys := l.Keys()
	if t == nil || t.Rank() == 0 || t.DType.IsComplex() || t.Shape[t.Rank()-1] != len(keys) {
		return fmt.Errorf("the last dimension must have %d numbers", len(keys))
	}
	if t.Numel() == 0 {
		return nil
	}
	row, index := make(map[string]float64, len(keys)), make([]int, t.Rank())
	last := len(index) - 1
	for range t.Numel() / len(keys) {
		for index[last] = range keys {
			row[keys[index[last]]] = t.At(index...).Float()
		}
		if err := visit(row); err != nil {
			return err
		}
		for d := last - 1; d >= 0; d-- { // the next row
			if index[d]++; index[d] < t.Shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return nil
}

// nameIndex finds a graph's values and nodes by name. For a copy of a graph, the index is built at the first look-up:
// indexing takes longer than copying, and few passes use names. For example, let node "conv" have the result "conv",
// and node "split" the results "split_0" and "split_1". In the index, the field values then has the three results, and
// the field nodes has only "split".
type nameIndex struct {
	buildOnce sync.Once
	values    map[string]*Value
	// nodes has the nodes that have no result of the same name. Other nodes are found in values, through the result of
	// the same name.
	nodes map[string]*Node

	// allValues and allNodes are the values and nodes of a copy that is not yet indexed.
	allValues []Value
	allNodes  []Node
	// unindexed is the graph if [Graph.Merge] has replaced nodes and the index is not yet rebuilt, otherwise nil.
	unindexed *Graph
}

// newNameIndex returns an empty index with memory for n values.
func newNameIndex(n int) *nameIndex {
	return &nameIndex{values: make(map[string]*Value, n), nodes: map[string]*Node{}}
}

// nameIndex returns the graph's names, ready for use.
func (g *Graph) nameIndex() *nameIndex {
	if g.names == nil { // New did not make the graph
		g.names = newNameIndex(0)
	}
	g.names.buildOnce.Do(g.names.build)
	return g.names
}

// build builds the index if it is missing.
func (names *nameIndex) build() {
	if names.values != nil {
		return
	}
	if g := names.unindexed; g != nil {
		names.unindexed = nil
		names.buildFrom(g)
		return
	}
	names.values, names.nodes = make(map[string]*Value, len(names.allValues)), map[string]*Node{}
	for i := range names.allValues {
		names.values[names.allValues[i].Name] = &names.allValues[i]
	}
	for i := range names.allNodes {
		names.addNode(&names.allNodes[i])
	}
	names.allValues, names.allNodes = nil, nil
}

// buildFrom builds the index from a graph.
func (names *nameIndex) buildFrom(g *Graph) {
	names.values, names.nodes = make(map[string]*Value, len(g.Inputs)+len(g.Constants)+len(g.Nodes)), map[string]*Node{}
	for _, list := range [][]*Value{g.Inputs, g.Constants} {
		for _, v := range list {
			names.values[v.Name] = v
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			names.values[v.Name] = v
		}
		names.addNode(n)
	}
}

// node returns the node with a name, or nil if there is none.
func (names *nameIndex) node(name string) *Node {
	if v := names.values[name]; v != nil && v.Node != nil && v.Node.Name == name {
		return v.Node
	}
	return names.nodes[name]
}

// addNode adds a node whose values are in the index.
func (names *nameIndex) addNode(n *Node) {
	if v := names.values[n.Name]; v == nil || v.Node != n {
		names.nodes[n.Name] = n
	}
}

// dropValue removes a value. Its node stays.
func (names *nameIndex) dropValue(v *Value) {
	if n := v.Node; n != nil && n.Name == v.Name && names.values[v.Name] == v { // the node was found through v
		names.nodes[n.Name] = n
	}
	delete(names.values, v.Name)
}

// dropNode removes a node and its values.
func (names *nameIndex) dropNode(n *Node) {
	for _, v := range n.Out {
		delete(names.values, v.Name)
	}
	delete(names.nodes, n.Name)
}

// dropNodeName removes the entry of a node in nodes. The node's results stay in values.
func (names *nameIndex) dropNodeName(n *Node) { delete(names.nodes, n.Name) }

// renameNode gives a node a name that no other node has. Results of the node may already have this name.
func (names *nameIndex) renameNode(n *Node, name string) {
	delete(names.nodes, n.Name)
	n.Name = name
	names.addNode(n)
}

// isTaken reports whether a value or a node has the name.
func (names *nameIndex) isTaken(name string) bool {
	return names.values[name] != nil || names.nodes[name] != nil
}

// Notes returns the notes on the graph for documents: its assumed sizes and its warnings.
func (g *Graph) Notes() (notes report.Notes) {
	if g == nil {
		return notes
	}
	if assumed := g.Assumed(); len(assumed) > 0 {
		notes.Assumed = assumed
	}
	for _, e := range g.Warnings() {
		notes.Warnings = append(notes.Warnings, e.Mistake())
	}
	return notes
}

// Mistake returns the error for documents. A nil error is the zero Mistake.
func (e *Error) Mistake() report.Mistake {
	if e == nil {
		return report.Mistake{}
	}
	mistake := report.Mistake{Node: e.Node, Op: e.Op}
	if e.Err != nil {
		mistake.Message = e.Err.Error()
	}
	if e.Line > 0 {
		mistake.File, mistake.Line, mistake.Col = e.File, e.Line, e.Col
	}
	return mistake
}
