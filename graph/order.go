package graph

import (
	"fmt"
	"strings"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/topo"
)

// Sort puts Nodes into a topological order: the order in which they stand where that is
// one already, else gonum's stabilised order. A cycle is an error that names all of it.
func (g *Graph) Sort() error {
	if g.sorted() {
		return nil
	}
	d := newDirected(g)
	if d.self >= 0 {
		return g.cycleError(d, nil)
	}
	order, err := topo.SortStabilized(d, nil)
	if err != nil {
		if cycles, ok := err.(topo.Unorderable); ok {
			return g.cycleError(d, cycles)
		}
		return err
	}
	nodes := make([]*Node, len(order))
	for i, n := range order {
		nodes[i] = g.Nodes[n.ID()]
	}
	g.Nodes = nodes
	return nil
}

// sorted reports whether every node stands after those it depends on.
func (g *Graph) sorted() bool {
	seen := make(map[*Node]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == TensorArg && a.Value.Node != nil && !seen[a.Value.Node] {
				return false
			}
		}
		seen[n] = true
	}
	return true
}

// directed is the graph of nodes as gonum sees it. Operands stay in the nodes: a gonum
// graph has no parallel edges, so x+x would lose one. It leaves out a node's edge to
// itself, on which gonum panics; cycleError looks for those.
type directed struct {
	next, prev [][]gonum.Node
	nodes      []gonum.Node
	self       int
}

type nodeID int64

// ID returns the index of the node in Graph.Nodes.
func (id nodeID) ID() int64 { return int64(id) }

func newDirected(g *Graph) *directed {
	index := make(map[*Node]int, len(g.Nodes))
	d := &directed{next: make([][]gonum.Node, len(g.Nodes)), prev: make([][]gonum.Node, len(g.Nodes)), self: -1}
	for i, n := range g.Nodes {
		index[n] = i
		d.nodes = append(d.nodes, nodeID(i))
	}
	for i, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind != TensorArg || a.Value.Node == nil {
				continue
			}
			from := index[a.Value.Node]
			if from == i {
				d.self = i
				continue
			}
			if k := len(d.prev[i]); k > 0 && d.prev[i][k-1] == d.nodes[from] {
				continue
			}
			d.next[from] = append(d.next[from], d.nodes[i])
			d.prev[i] = append(d.prev[i], d.nodes[from])
		}
	}
	return d
}

// Node returns the node with the ID, or nil.
func (d *directed) Node(id int64) gonum.Node {
	if id < 0 || id >= int64(len(d.nodes)) {
		return nil
	}
	return d.nodes[id]
}

// Nodes returns all nodes in order.
func (d *directed) Nodes() gonum.Nodes { return iterator.NewOrderedNodes(d.nodes) }

// From returns the nodes that use the node's outputs.
func (d *directed) From(id int64) gonum.Nodes { return iterator.NewOrderedNodes(d.next[id]) }

// To returns the nodes whose outputs the node uses.
func (d *directed) To(id int64) gonum.Nodes { return iterator.NewOrderedNodes(d.prev[id]) }

// HasEdgeBetween reports an edge in either direction.
func (d *directed) HasEdgeBetween(x, y int64) bool {
	return d.HasEdgeFromTo(x, y) || d.HasEdgeFromTo(y, x)
}

// HasEdgeFromTo reports whether y uses an output of x.
func (d *directed) HasEdgeFromTo(x, y int64) bool {
	for _, n := range d.next[x] {
		if n.ID() == y {
			return true
		}
	}
	return false
}

// Edge returns the edge from u to v, or nil.
func (d *directed) Edge(u, v int64) gonum.Edge {
	if !d.HasEdgeFromTo(u, v) {
		return nil
	}
	return edge{d.nodes[u], d.nodes[v]}
}

type edge struct{ from, to gonum.Node }

// From returns the producer.
func (e edge) From() gonum.Node { return e.from }

// To returns the consumer.
func (e edge) To() gonum.Node { return e.to }

// ReversedEdge returns the edge turned round.
func (e edge) ReversedEdge() gonum.Edge { return edge{e.to, e.from} }

// cycleError walks one of the strongly connected components for a path that returns to
// its start, and names every node on it.
func (g *Graph) cycleError(d *directed, cycles topo.Unorderable) error {
	var path []int64
	if len(cycles) > 0 {
		path = findCycle(d, cycles[0])
	}
	if len(path) == 0 {
		path = []int64{int64(max(d.self, 0))}
	}
	names := make([]string, 0, len(path)+1)
	for _, id := range path {
		names = append(names, g.Nodes[id].Name)
	}
	names = append(names, names[0])
	return g.Fail(g.Nodes[path[0]], fmt.Errorf("the graph has a cycle: %s", strings.Join(names, " -> ")))
}

// findCycle follows edges inside the component until a node comes up again.
func findCycle(d *directed, component []gonum.Node) []int64 {
	in := map[int64]bool{}
	start := component[0].ID()
	for _, n := range component {
		in[n.ID()] = true
		start = min(start, n.ID())
	}
	at := map[int64]int{}
	var path []int64
	for id := start; ; {
		if k, ok := at[id]; ok {
			return path[k:]
		}
		at[id] = len(path)
		path = append(path, id)
		for _, n := range d.next[id] {
			if in[n.ID()] {
				id = n.ID()
				break
			}
		}
	}
}
