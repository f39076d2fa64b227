package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sort sorts Nodes topologically. Nodes keep their order, with one exception: if a node follows one of its users, it is
// moved just before its first user. If there are cycles, Sort returns an [Errors] with one error for every node that
// uses itself, and one for every strongly connected component of several nodes, but at most maxErrors errors. The
// errors name the nodes of the cycles.
func (g *Graph) Sort() error {
	if g.isSorted() {
		return nil
	}
	s := sorter{serials: make([]int, g.nodeCount), order: make([]*Node, 0, len(g.Nodes))}
	for _, n := range g.Nodes {
		if s.serials[n.number] == 0 {
			s.search(n)
		}
	}
	if s.cyclic != nil {
		return g.cycleErrors(s.cyclic)
	}
	g.Nodes = s.order
	return nil
}

// sorter finds strongly connected components by Tarjan's algorithm, without recursion: some millions of nodes would
// exhaust the stack.
type sorter struct {
	serials    []int // by number of the node: serial of its visit, from 1; complete after its component is complete
	lastSerial int
	path       []sortFrame
	open       []*Node   // visited nodes whose components are not complete
	order      []*Node   // nodes of complete components, each component after those on which it depends
	cyclic     [][]*Node // components with cycles
}

// sortFrame is a node on the path of the search. The path leads from users to producers.
type sortFrame struct {
	node   *Node
	next   int // index of the next dependency
	open   int // number of open nodes before this one
	lowest int // lowest serial of an open node that was found from this one
}

const complete = math.MaxInt

// search visits root and the nodes on which it depends.
func (s *sorter) search(root *Node) {
	s.visit(root)
	for len(s.path) > 0 {
		top := &s.path[len(s.path)-1]
		if top.next < top.node.dependencyCount() {
			producer := top.node.producer(top.next)
			top.next++
			switch {
			case producer == nil:
			case s.serials[producer.number] == 0:
				s.visit(producer)
			default:
				top.lowest = min(top.lowest, s.serials[producer.number])
			}
			continue
		}
		if top.lowest == s.serials[top.node.number] { // the first visited node of its component
			s.completeComponent(top.open)
		}
		lowest := top.lowest
		if s.path = s.path[:len(s.path)-1]; len(s.path) > 0 {
			user := &s.path[len(s.path)-1]
			user.lowest = min(user.lowest, lowest)
		}
	}
}

// visit appends a node to the path.
func (s *sorter) visit(n *Node) {
	s.lastSerial++
	s.serials[n.number] = s.lastSerial
	s.path = append(s.path, sortFrame{node: n, open: len(s.open), lowest: s.lastSerial})
	s.open = append(s.open, n)
}

// completeComponent moves the component that begins at an index of open to order.
func (s *sorter) completeComponent(begin int) {
	component := s.open[begin:]
	s.open = s.open[:begin]
	for _, n := range component {
		s.serials[n.number] = complete
	}
	s.order = append(s.order, component...)
	if len(component) > 1 || component[0].usesItself() {
		s.cyclic = append(s.cyclic, slices.Clone(component))
	}
}

// isSorted reports whether the nodes are already in order, as in most files.
func (g *Graph) isSorted() bool {
	placed := make([]bool, g.nodeCount) // indexed by the numbers of nodes
	for _, n := range g.Nodes {
		for i := range n.dependencyCount() {
			if producer := n.producer(i); producer != nil && !placed[producer.number] {
				return false
			}
		}
		placed[n.number] = true
	}
	return true
}

// producer returns the node that computes dependency i, or nil.
func (n *Node) producer(i int) *Node {
	if v := n.dependency(i); v != nil {
		return v.Node
	}
	return nil
}

// usesItself reports whether the node depends on one of its outputs.
func (n *Node) usesItself() bool {
	for i := range n.dependencyCount() {
		if n.producer(i) == n {
			return true
		}
	}
	return false
}

// cycleErrors returns the errors of Sort for the components with cycles.
func (g *Graph) cycleErrors(components [][]*Node) Errors {
	componentOf := map[*Node]int{} // index of the component, plus 1
	for i, component := range components {
		for _, n := range component {
			componentOf[n] = i + 1
		}
	}
	var errs Errors
	isReported := make([]bool, 1+len(components))
	for _, n := range g.Nodes {
		i := componentOf[n]
		if i != 0 && n.usesItself() {
			errs = append(errs, g.cycleError([]*Node{n}))
		}
		if i != 0 && !isReported[i] && len(components[i-1]) > 1 {
			isReported[i] = true
			errs = append(errs, g.cycleError(shortestCycle(n, componentOf)))
		}
		if len(errs) >= maxErrors {
			errs = errs[:maxErrors]
			break
		}
	}
	errs.Sort()
	return errs
}

// shortestCycle returns a shortest cycle of several nodes through start, in the order of [Graph.cycleError]. It finds
// the cycle by breadth-first search in the component of start.
func shortestCycle(start *Node, componentOf map[*Node]int) []*Node {
	userOf := map[*Node]*Node{}
	for queue := []*Node{start}; ; queue = queue[1:] {
		n := queue[0]
		for i := range n.dependencyCount() {
			producer := n.producer(i)
			if producer == start && n != start {
				cycle := []*Node{start}
				for ; n != start; n = userOf[n] {
					cycle = append(cycle, n)
				}
				return cycle
			}
			if producer != start && componentOf[producer] == componentOf[start] && userOf[producer] == nil {
				userOf[producer] = n
				queue = append(queue, producer)
			}
		}
	}
}

// cycleError returns the error for a cycle in which each node uses its predecessor, and the first node uses the last.
func (g *Graph) cycleError(path []*Node) *Error {
	names := make([]string, 0, len(path)+1)
	for _, n := range path {
		names = append(names, n.Name)
	}
	names = append(names, names[0])
	return g.NodeError(path[0], fmt.Errorf("the graph has a cycle: %s", strings.Join(names, " -> ")))
}
