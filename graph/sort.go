package graph

import (
	"fmt"
	"slices"
	"strings"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/graphrun/graphrun/internal/printable"
)

// Sort sorts Nodes topologically. Nodes keep their order, with one exception: a node that follows one of its users is
// moved to the place before its first user. If there are cycles, Sort returns an [Errors] with one error per cycle. The
// error names the nodes of the cycle. For example, the order a, c(b), d, b(a), where c reads b and b reads a, becomes
// a, b(a), c(b), d.
//
// Sort is a depth-first search with an explicit stack. It places a node after all its dependencies.
//
// gonum's topo.SortStabilized does not sort the nodes, because it takes 2 s for a chain of a million nodes, and moves
// nodes that are already in order. Sort uses it only to find all cycles. SortStabilized is recursive, so some millions
// of nodes would exhaust the stack. Therefore Sort reports only the first cycle if the graph has more than
// maxNodesForAllCycles nodes.
func (g *Graph) Sort() error {
	marks := make([]mark, g.nodeCount) // indexed by the numbers of nodes
	if g.isSorted(marks) {
		return nil
	}
	clear(marks)
	order := make([]*Node, 0, len(g.Nodes))
	var stack []sortFrame
	for _, root := range g.Nodes {
		if marks[root.number] == placed {
			continue
		}
		marks[root.number] = visiting
		stack = append(stack[:0], sortFrame{node: root})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == top.node.dependencyCount() {
				marks[top.node.number] = placed
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			producer := top.node.producer(top.next)
			top.next++
			switch {
			case producer == nil || marks[producer.number] == placed:
			case marks[producer.number] == visiting:
				return g.cycleErrors(stack, producer)
			default:
				marks[producer.number] = visiting
				stack = append(stack, sortFrame{node: producer})
			}
		}
	}
	g.Nodes = order
	return nil
}

// mark is the state of a node in Sort.
type mark uint8

const (
	_        mark = iota // not visited
	visiting             // its operands are being placed
	placed
)

// maxNodesForAllCycles is the maximum number of nodes of a graph in which all cycles are searched: see [Graph.Sort].
const maxNodesForAllCycles = 1 << 16

// sortFrame is a node on the stack of Sort.
type sortFrame struct {
	node *Node
	next int // index of the next dependency
}

// producer returns the node that computes dependency i of n, or nil for an input, a constant or an absent operand.
func (n *Node) producer(i int) *Node {
	if v := n.dependency(i); v != nil {
		return v.Node
	}
	return nil
}

// cycleErrors returns the errors of a graph in which Sort has found a cycle. The stack contains the cycle, from node
// `first` to the top.
func (g *Graph) cycleErrors(stack []sortFrame, first *Node) error {
	if len(g.Nodes) <= maxNodesForAllCycles {
		return g.cycles()
	}
	return Errors{g.cycleError(cycleOnStack(stack, first))}
}

// cycleOnStack returns the cycle on the stack, from node `first` to the top. On the stack, each node uses the node
// above it, and the top uses first. The result is first, then the nodes from the top down, so each node in it uses its
// predecessor.
func cycleOnStack(stack []sortFrame, first *Node) []*Node {
	path := []*Node{first}
	for i := len(stack) - 1; stack[i].node != first; i-- {
		path = append(path, stack[i].node)
	}
	return path
}

// isSorted reports whether the nodes are already in order, as in most files. It marks the visited nodes as placed.
func (g *Graph) isSorted(marks []mark) bool {
	for _, n := range g.Nodes {
		for i := range n.dependencyCount() {
			if producer := n.producer(i); producer != nil && marks[producer.number] != placed {
				return false
			}
		}
		marks[n.number] = placed
	}
	return true
}

// cycles returns an error for every node that uses itself, and for every strongly connected component of several nodes.
// It returns at most maxErrors errors.
func (g *Graph) cycles() error {
	view := newDirected(g)
	var errs Errors
	for _, id := range view.selfUsers[:min(len(view.selfUsers), maxErrors)] {
		errs = append(errs, g.cycleError([]*Node{g.Nodes[id]}))
	}
	_, err := topo.SortStabilized(view, nil)
	if components, ok := err.(topo.Unorderable); ok {
		for _, component := range components {
			if len(errs) < maxErrors {
				path := view.cycle(component)
				nodes := make([]*Node, len(path))
				for i, id := range path {
					nodes[i] = g.Nodes[id]
				}
				errs = append(errs, g.cycleError(nodes))
			}
		}
	}
	errs.Sort()
	return errs
}

// cycleError returns the error for a cycle. In path, each node uses its predecessor, and the first node uses the last.
func (g *Graph) cycleError(path []*Node) *Error {
	names := make([]string, 0, len(path)+1)
	for _, n := range path {
		names = append(names, printable.Text(n.Name))
	}
	names = append(names, names[0])
	return g.NodeError(path[0], fmt.Errorf("the graph has a cycle: %s", strings.Join(names, " -> ")))
}

// directed is a view of the graph for gonum. It has at most one edge between two nodes. gonum panics if an edge leads
// from a node to itself. Therefore a directed omits such edges and lists their nodes in selfUsers.
type directed struct {
	next, prev [][]gonum.Node // users and producers of each node
	nodes      []gonum.Node
	selfUsers  []int64
}

// nodeID is the index of a node in Graph.Nodes.
type nodeID int64

// ID returns the index of the node in Graph.Nodes.
func (id nodeID) ID() int64 { return int64(id) }

// newDirected returns the view of g. An edge leads from the producer of a value to a user of the value.
func newDirected(g *Graph) *directed {
	index := make(map[*Node]int, len(g.Nodes))
	view := &directed{next: make([][]gonum.Node, len(g.Nodes)), prev: make([][]gonum.Node, len(g.Nodes))}
	for i, n := range g.Nodes {
		index[n] = i
		view.nodes = append(view.nodes, nodeID(i))
	}
	usedBy := make([]int, len(g.Nodes)) // usedBy[i] is 1 + the index of the last node that uses node i
	for i, n := range g.Nodes {
		for k := range n.dependencyCount() {
			producer := n.producer(k)
			if producer == nil || usedBy[index[producer]] == i+1 {
				continue
			}
			from := index[producer]
			usedBy[from] = i + 1
			if from == i {
				view.selfUsers = append(view.selfUsers, int64(i))
				continue
			}
			view.next[from] = append(view.next[from], view.nodes[i])
			view.prev[i] = append(view.prev[i], view.nodes[from])
		}
	}
	return view
}

// cycle returns a shortest cycle in a strongly connected component. The search is breadth-first. The cycle starts at
// the node of the component that is first in Graph.Nodes. Each node in the cycle uses its predecessor.
func (d *directed) cycle(component []gonum.Node) []int64 {
	inComponent := map[int64]bool{}
	start := component[0].ID()
	for _, n := range component {
		inComponent[n.ID()] = true
		start = min(start, n.ID())
	}
	predecessor := map[int64]int64{}
	for queue := []int64{start}; ; queue = queue[1:] {
		for _, n := range d.next[queue[0]] {
			id := n.ID()
			if id == start {
				path := []int64{}
				for node := queue[0]; node != start; node = predecessor[node] {
					path = append(path, node)
				}
				path = append(path, start)
				slices.Reverse(path)
				return path
			}
			if _, isVisited := predecessor[id]; inComponent[id] && !isVisited {
				predecessor[id] = queue[0]
				queue = append(queue, id)
			}
		}
	}
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

// From returns the nodes that use outputs of the node with the ID.
func (d *directed) From(id int64) gonum.Nodes { return iterator.NewOrderedNodes(d.next[id]) }

// To returns the nodes whose outputs the node with the ID uses.
func (d *directed) To(id int64) gonum.Nodes { return iterator.NewOrderedNodes(d.prev[id]) }

// HasEdgeBetween reports whether there is an edge in either direction.
func (d *directed) HasEdgeBetween(x, y int64) bool {
	return d.HasEdgeFromTo(x, y) || d.HasEdgeFromTo(y, x)
}

// HasEdgeFromTo reports whether y uses an output of x.
func (d *directed) HasEdgeFromTo(x, y int64) bool {
	return slices.Contains(d.next[x], d.nodes[y])
}

// Edge returns the edge from u to v, or nil.
func (d *directed) Edge(u, v int64) gonum.Edge {
	if !d.HasEdgeFromTo(u, v) {
		return nil
	}
	return edge{d.nodes[u], d.nodes[v]}
}

// edge is a [gonum.Edge] from a producer to a consumer.
type edge struct{ from, to gonum.Node }

// From returns the producer.
func (e edge) From() gonum.Node { return e.from }

// To returns the consumer.
func (e edge) To() gonum.Node { return e.to }

// ReversedEdge returns the reversed edge.
func (e edge) ReversedEdge() gonum.Edge { return edge{e.to, e.from} }
