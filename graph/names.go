package graph

import "sync"

// names finds a graph's values and nodes by name. A copy of a graph, whose names few passes ask for,
// is indexed when that is first done: to do so takes longer than to copy the rest.
type names struct {
	index  sync.Once
	values map[string]*Value
	// nodes are those that values do not lead to: most nodes make one value, of their own name.
	nodes map[string]*Node

	// What a copy holds, until it is indexed.
	allValues []Value
	allNodes  []Node
	// of is a graph of which many nodes were replaced at once: it is indexed anew.
	of *Graph
}

func newNames(size int) *names {
	return &names{values: make(map[string]*Value, size), nodes: map[string]*Node{}}
}

// named returns the graph's names, ready for use.
func (g *Graph) named() *names {
	if g.names == nil { // of a Graph that New did not make
		g.names = newNames(0)
	}
	g.names.index.Do(g.names.fill)
	return g.names
}

func (s *names) fill() {
	if s.values != nil {
		return
	}
	if g := s.of; g != nil {
		s.of = nil
		s.fillFrom(g)
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

func (s *names) fillFrom(g *Graph) {
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
func (s *names) node(name string) *Node {
	if v := s.values[name]; v != nil && v.Node != nil && v.Node.Name == name {
		return v.Node
	}
	return s.nodes[name]
}

// addNode makes a node known, after its values.
func (s *names) addNode(n *Node) {
	if v := s.values[n.Name]; v == nil || v.Node != n {
		s.nodes[n.Name] = n
	}
}

// dropValue forgets a value's name. The node keeps its own.
func (s *names) dropValue(v *Value) {
	if n := v.Node; n != nil && n.Name == v.Name && s.values[v.Name] == v {
		s.nodes[n.Name] = n
	}
	delete(s.values, v.Name)
}

// dropNode forgets a node's name, and its values.
func (s *names) dropNode(n *Node) {
	for _, v := range n.Out {
		delete(s.values, v.Name)
	}
	delete(s.nodes, n.Name)
}

// dropNodeName forgets a node's name, and keeps its values.
func (s *names) dropNodeName(n *Node) { delete(s.nodes, n.Name) }

// renameNode gives a node a name that no other node has.
func (s *names) renameNode(n *Node, name string) {
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

// taken reports whether a value or a node has the name.
func (s *names) taken(name string) bool { return s.values[name] != nil || s.nodes[name] != nil }
