package graph

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/internal/suggest"
)

// nameIndex finds a graph's values and nodes by name. For a copy of a graph, the index is built at the first look-up,
// because indexing takes longer than copying and few passes use names.
type nameIndex struct {
	index  sync.Once
	values map[string]*Value
	// nodes has the nodes without a result of the node's name. Every other node is found by its result of that name.
	nodes map[string]*Node

	// allValues and allNodes are the values and nodes of a copy that is not yet indexed.
	allValues []Value
	allNodes  []Node
	// indexedGraph is set if the graph must be indexed again because [Graph.Merge] has replaced nodes.
	indexedGraph *Graph
}

// newNameIndex returns an empty index with memory for size values.
func newNameIndex(size int) *nameIndex {
	return &nameIndex{values: make(map[string]*Value, size), nodes: map[string]*Node{}}
}

// nameIndex returns the graph's names, ready for use.
func (g *Graph) nameIndex() *nameIndex {
	if g.names == nil { // New did not make the graph
		g.names = newNameIndex(0)
	}
	g.names.index.Do(g.names.build)
	return g.names
}

// build builds the index if it is missing.
func (s *nameIndex) build() {
	if s.values != nil {
		return
	}
	if g := s.indexedGraph; g != nil {
		s.indexedGraph = nil
		s.buildFrom(g)
		return
	}
	s.values, s.nodes = make(map[string]*Value, len(s.allValues)), map[string]*Node{}
	for i := range s.allValues {
		s.values[s.allValues[i].Name] = &s.allValues[i]
	}
	for i := range s.allNodes {
		s.addNode(&s.allNodes[i])
	}
	s.allValues, s.allNodes = nil, nil
}

// buildFrom builds the index from a graph.
func (s *nameIndex) buildFrom(g *Graph) {
	s.values, s.nodes = make(map[string]*Value, len(g.Inputs)+len(g.Constants)+len(g.Nodes)), map[string]*Node{}
	for _, list := range [][]*Value{g.Inputs, g.Constants} {
		for _, v := range list {
			s.values[v.Name] = v
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			s.values[v.Name] = v
		}
		s.addNode(n)
	}
}

// node returns the node of a name; nil if there is none.
func (s *nameIndex) node(name string) *Node {
	if v := s.values[name]; v != nil && v.Node != nil && v.Node.Name == name {
		return v.Node
	}
	return s.nodes[name]
}

// addNode adds a node whose values are in the index.
func (s *nameIndex) addNode(n *Node) {
	if v := s.values[n.Name]; v == nil || v.Node != n {
		s.nodes[n.Name] = n
	}
}

// dropValue removes a value. Its node stays.
func (s *nameIndex) dropValue(v *Value) {
	if n := v.Node; n != nil && n.Name == v.Name && s.values[v.Name] == v {
		s.nodes[n.Name] = n
	}
	delete(s.values, v.Name)
}

// dropNode removes a node and its values.
func (s *nameIndex) dropNode(n *Node) {
	for _, v := range n.Out {
		delete(s.values, v.Name)
	}
	delete(s.nodes, n.Name)
}

// dropNodeName removes a node. Its values stay.
func (s *nameIndex) dropNodeName(n *Node) { delete(s.nodes, n.Name) }

// renameNode gives a node a name that no other node has.
func (s *nameIndex) renameNode(n *Node, name string) {
	delete(s.nodes, n.Name)
	n.Name = name
	s.addNode(n)
	for _, v := range n.Out {
		if v.Name == name {
			return
		}
	}
	s.nodes[name] = n
}

// isTaken reports whether a value or a node has the name.
func (s *nameIndex) isTaken(name string) bool { return s.values[name] != nil || s.nodes[name] != nil }

// NoOp returns the error of a node whose op does not exist, with the name that was probably meant: see [SuggestOp].
func NoOp(name string, lookup Lookup) error {
	return fmt.Errorf("there is no op %q%s", name, suggest.DidYouMean(SuggestOp(name, lookup)))
}

// SuggestOp suggests an op for a name that is not in a catalogue. The name may be another spelling ("ReLU",
// "aten::relu_", "torch.nn.functional.softmax", "BatchNorm"), the name in another library ("Conv" in ONNX, "multiply"
// and "astype" in numpy, "reduce_sum" in TensorFlow), or a misspelling ("rlu"). It returns an empty name if no op is
// similar.
func SuggestOp(name string, lookup Lookup) string {
	if lookup == nil {
		return ""
	}
	short := stripLibrary(name)
	alias := suggest.OpAliases[squash(short)]
	for _, guess := range []string{short, snakeCase(short), strings.TrimSuffix(short, "_"), alias} {
		if guess != "" && guess != name && lookup(guess) != nil {
			return guess
		}
	}
	known := func(yield func(string) bool) {
		for _, n := range opNames {
			if lookup(n) != nil && !yield(n) {
				return
			}
		}
	}
	for n := range known {
		if squash(n) == squash(short) {
			return n
		}
	}
	return suggest.Nearest(short, known)
}

// opNames are the names of the ops of package kernels; names_gen.go sets them. SuggestOp compares a misspelled name
// with the names that are also in the graph's catalogue.
var opNames []string

// stripLibrary removes the library and the overload from the name of an op. It returns "relu" for "aten::relu.out" and
// for "torch.nn.functional.relu".
func stripLibrary(name string) string {
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name, _, _ = strings.Cut(name[i+2:], ".")
		return name
	}
	parts := strings.Split(name, ".")
	libraries := []string{"torch", "nn", "functional", "F", "np", "numpy", "tf", "jnp", "jax", "aten", "ops",
		"math", "tensor",
		"Tensor", "special", "keras", "layers", "onnx", "ai", "com", "microsoft"}
	for len(parts) > 1 && slices.Contains(libraries, parts[0]) {
		parts = parts[1:]
	}
	return parts[0]
}

// snakeCase converts "BatchNorm" to "batch_norm". Digits belong to the word before them.
func snakeCase(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		upper := c >= 'A' && c <= 'Z'
		after := i > 0 && !(name[i-1] >= 'A' && name[i-1] <= 'Z') && name[i-1] != '_'
		if upper && after {
			b.WriteByte('_')
		}
		if upper {
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// squash returns a form that all spellings of a name share: in lower case and without underscores.
func squash(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
