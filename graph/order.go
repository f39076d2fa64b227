package graph

import (
	"fmt"
	"slices"
	"strings"
)

// mark is the state of a node in Sort.
type mark uint8

const (
	_    mark = iota
	open      // its operands are being placed
	placed
)

// Sort sorts Nodes topologically. Nodes keep their order, except that a node that follows one of its users is moved
// just before its first user. If there are cycles, Sort returns an [Errors] with one error per cycle, which names its
// nodes.
func (g *Graph) Sort() error {
	marks := make([]mark, g.nodes) // by the numbers of nodes
	if g.sorted(marks) {
		return nil
	}
	clear(marks)
	order := make([]*Node, 0, len(g.Nodes))
	type frame struct {
		node *Node
		next int // index of the next operand
	}
	var stack []frame
	for _, root := range g.Nodes {
		if marks[root.number] == placed {
			continue
		}
		marks[root.number] = open
		stack = append(stack[:0], frame{root, 0})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == top.node.deps() {
				marks[top.node.number] = placed
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			v := top.node.dep(top.next)
			top.next++
			if v == nil || v.Node == nil || marks[v.Node.number] == placed {
				continue
			}
			if marks[v.Node.number] == open {
				return g.cycles()
			}
			marks[v.Node.number] = open
			stack = append(stack, frame{v.Node, 0})
		}
	}
	g.Nodes = order
	return nil
}

// sorted reports whether the nodes are already in order, as in most files. It marks them.
func (g *Graph) sorted(marks []mark) bool {
	for _, n := range g.Nodes {
		for i := range n.deps() {
			if v := n.dep(i); v != nil && v.Node != nil && marks[v.Node.number] != placed {
				return false
			}
		}
		marks[n.number] = placed
	}
	return true
}

// cycles returns an error for every node that uses itself and for every strongly connected component of several
// nodes.
func (g *Graph) cycles() error {
	users, selves := g.users()
	var errs Errors
	for _, node := range selves[:min(len(selves), maxErrors)] {
		errs = append(errs, g.cycleError([]int{node}))
	}
	component := components(users)
	reported := map[int]bool{}
	for node, c := range component {
		if reported[c] || len(errs) >= maxErrors {
			continue
		}
		if path := shortestCycle(users, component, node); path != nil {
			errs = append(errs, g.cycleError(path))
		}
		reported[c] = true
	}
	errs.Sort()
	return errs
}

func (g *Graph) cycleError(path []int) *Error {
	names := make([]string, 0, len(path)+1)
	for _, node := range path {
		names = append(names, g.Nodes[node].Name)
	}
	names = append(names, names[0])
	return g.Fail(g.Nodes[path[0]], fmt.Errorf("the graph has a cycle: %s", strings.Join(names, " -> ")))
}

// users returns the users of each node once, by index in Nodes, and separately the nodes that use themselves.
func (g *Graph) users() (users [][]int, selves []int) {
	index := make(map[*Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n] = i
	}
	users = make([][]int, len(g.Nodes))
	usedBy := make([]int, len(g.Nodes)) // by producer: index of its last user, plus one
	for i, n := range g.Nodes {
		for k := range n.deps() {
			v := n.dep(k)
			if v == nil || v.Node == nil {
				continue
			}
			from := index[v.Node]
			if usedBy[from] == i+1 {
				continue
			}
			usedBy[from] = i + 1
			if from == i {
				selves = append(selves, i)
				continue
			}
			users[from] = append(users[from], i)
		}
	}
	return users, selves
}

// components returns the number of each node's strongly connected component, from 1.
func components(next [][]int) []int {
	t := tarjan{next: next, entered: make([]int, len(next)), lowest: make([]int, len(next)),
		component: make([]int, len(next))}
	for root := range next {
		if t.entered[root] == 0 {
			t.visit(root)
		}
	}
	return t.component
}

// tarjan is Tarjan's algorithm for strongly connected components. It has its own stack: recursion would be as deep as
// the longest chain.
type tarjan struct {
	next            [][]int
	entered, lowest []int // order of the visits, from 1; the least of the open nodes that are reachable
	component       []int // 0 while a node is open
	open            []int // nodes without a component, in the order of their visits
	visits, found   int
}

// visit finds the components of all nodes that are reachable from root.
func (t *tarjan) visit(root int) {
	type frame struct{ node, edge int }
	path := []frame{{t.enter(root), 0}}
	for len(path) > 0 {
		top := &path[len(path)-1]
		if top.edge < len(t.next[top.node]) {
			to := t.next[top.node][top.edge]
			top.edge++
			switch {
			case t.entered[to] == 0:
				path = append(path, frame{t.enter(to), 0})
			case t.component[to] == 0:
				t.lowest[top.node] = min(t.lowest[top.node], t.entered[to])
			}
			continue
		}
		node := top.node
		if path = path[:len(path)-1]; len(path) > 0 {
			above := path[len(path)-1].node
			t.lowest[above] = min(t.lowest[above], t.lowest[node])
		}
		if t.lowest[node] == t.entered[node] {
			t.close(node)
		}
	}
}

func (t *tarjan) enter(node int) int {
	t.visits++
	t.entered[node], t.lowest[node] = t.visits, t.visits
	t.open = append(t.open, node)
	return node
}

// close makes a component of a node and all open nodes that were visited after it.
func (t *tarjan) close(first int) {
	t.found++
	for {
		node := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.component[node] = t.found
		if node == first {
			return
		}
	}
}

// shortestCycle returns the shortest cycle through a node, or nil.
func shortestCycle(next [][]int, component []int, start int) []int {
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, node := range next[queue[0]] {
			if node == start {
				var path []int
				for at := queue[0]; at != start; at = from[at] {
					path = append(path, at)
				}
				path = append(path, start)
				slices.Reverse(path)
				return path
			}
			if _, seen := from[node]; component[node] == component[start] && !seen {
				from[node] = queue[0]
				queue = append(queue, node)
			}
		}
	}
	return nil
}
