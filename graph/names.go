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
	// nodes has the nodes whose name differs from the names of all their results. All other nodes are found
	// in values, as the producer of the result.
	nodes map[string]*Node

	// allValues and allNodes are the values and nodes of a copy that is not yet indexed.
	allValues []Value
	allNodes  []Node
	// staleGraph is the graph if it must be indexed again because [Graph.Merge] has replaced nodes; else nil.
	staleGraph *Graph
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
	g.names.index.Do(g.names.build)
	return g.names
}

// build builds the index if it is missing.
func (names *nameIndex) build() {
	if names.values != nil {
		return
	}
	if g := names.staleGraph; g != nil {
		names.staleGraph = nil
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

// node returns the node of a name; nil if there is none.
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
	if n := v.Node; n != nil && n.Name == v.Name && names.values[v.Name] == v {
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

// dropNodeName removes a node. Its values stay.
func (names *nameIndex) dropNodeName(n *Node) { delete(names.nodes, n.Name) }

// renameNode gives a node a name that no other node has.
func (names *nameIndex) renameNode(n *Node, name string) {
	delete(names.nodes, n.Name)
	n.Name = name
	names.addNode(n)
	for _, v := range n.Out {
		if v.Name == name {
			return
		}
	}
	names.nodes[name] = n
}

// isTaken reports whether a value or a node has the name.
func (names *nameIndex) isTaken(name string) bool {
	return names.values[name] != nil || names.nodes[name] != nil
}

// UnknownOp returns the error for an op that does not exist. The error suggests a similar name: see [SuggestOp].
func UnknownOp(name string, lookup Lookup) error {
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
	alias := suggest.OpAliases[withoutUnderscores(short)]
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
		if withoutUnderscores(n) == withoutUnderscores(short) {
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
		isUpper := c >= 'A' && c <= 'Z'
		startsWord := i > 0 && !(name[i-1] >= 'A' && name[i-1] <= 'Z') && name[i-1] != '_'
		if isUpper && startsWord {
			b.WriteByte('_')
		}
		if isUpper {
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// withoutUnderscores returns a form that all spellings of a name share: in lower case and without underscores.
func withoutUnderscores(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}
