package graph

import "sync"

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
