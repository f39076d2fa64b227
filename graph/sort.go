package graph

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/toposort"
)

// Sort sorts Nodes topologically. Nodes keep their order, with one exception: a node that follows one of its users is
// moved to the place before its first user. If there are cycles, Sort returns an [Errors] with one error per cycle. The
// error names the nodes of the cycle. For example, the order a, c(b), d, b(a), where c reads b and b reads a, becomes
// a, b(a), c(b), d.
func (g *Graph) Sort() error {
	if g.isSorted() {
		return nil
	}
	index := make([]int, g.nodeCount) // by the numbers of nodes
	for i, n := range g.Nodes {
		index[n.number] = i
	}
	order, cycles := toposort.Order(len(g.Nodes), func(i, k int) (on int, ok bool) {
		n := g.Nodes[i]
		if k >= n.dependencyCount() {
			return 0, false
		}
		if producer := n.producer(k); producer != nil {
			return index[producer.number], true
		}
		return toposort.None, true
	})
	if cycles != nil {
		var errs Errors
		for _, cycle := range cycles[:min(len(cycles), maxErrors)] {
			errs = append(errs, g.cycleError(cycle))
		}
		errs.Sort()
		return errs
	}
	nodes := make([]*Node, len(order))
	for i, from := range order {
		nodes[i] = g.Nodes[from]
	}
	g.Nodes = nodes
	return nil
}

// producer returns the node that computes dependency i of n, or nil for an input, a constant or an absent operand.
func (n *Node) producer(i int) *Node {
	if v := n.dependency(i); v != nil {
		return v.Node
	}
	return nil
}

// isSorted reports whether the nodes are already in order, as in most files.
func (g *Graph) isSorted() bool {
	isPlaced := make([]bool, g.nodeCount) // by the numbers of nodes
	for _, n := range g.Nodes {
		for i := range n.dependencyCount() {
			if producer := n.producer(i); producer != nil && !isPlaced[producer.number] {
				return false
			}
		}
		isPlaced[n.number] = true
	}
	return true
}

// cycleError returns the error for a cycle. In path, each node uses its predecessor, and the first node uses the last.
func (g *Graph) cycleError(path []int) *Error {
	var text strings.Builder
	for _, i := range path {
		text.WriteString(g.Nodes[i].Name + " -> ")
	}
	first := g.Nodes[path[0]]
	return g.NodeError(first, fmt.Errorf("the graph has a cycle: %s%s", text.String(), first.Name))
}
