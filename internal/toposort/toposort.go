// Package toposort orders the nodes of a graph topologically, and finds its cycles.
//
// gonum's topo.SortStabilized does not order the nodes, because it takes 2 s for a chain of a million nodes, and moves
// nodes that are already in order. It only finds the cycles. It is recursive, so some millions of nodes would exhaust
// the stack. Therefore only the first cycle is found if a graph has more than maxNodesForAllCycles nodes.
package toposort

import (
	"slices"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
)

// None is a dependency on no node: see [Order].
const None = -1

// mark is the state of a node in Order.
type mark uint8

const (
	_        mark = iota // not visited
	visiting             // its dependencies are being placed
	placed
)

// maxNodesForAllCycles is the maximum number of nodes of a graph in which all cycles are searched.
const maxNodesForAllCycles = 1 << 16

// frame is a node on the stack of Order.
type frame struct{ node, next int } // next is the index of the next dependency

// Order returns the nodes 0 to n-1 in a topological order. dependency returns dependency k of a node, which is a node
// or None; ok is false if the node has no dependency k. Nodes keep their order, with one exception: a node that follows
// one of its users is moved to the place before its first user. For example, if 1 depends on 3, and 3 on 0, the order
// is 0, 3, 1, 2. If there are cycles, Order returns the cycles: see [cycles].
//
// Order is a depth-first search with an explicit stack. It places a node after all its dependencies.
func Order(n int, dependency func(node, k int) (on int, ok bool)) (order []int, cyclic [][]int) {
	marks := make([]mark, n)
	order = make([]int, 0, n)
	var stack []frame
	for root := range n {
		if marks[root] == placed {
			continue
		}
		marks[root] = visiting
		stack = append(stack[:0], frame{node: root})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			on, ok := dependency(top.node, top.next)
			top.next++
			switch {
			case !ok:
				marks[top.node] = placed
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
			case on == None || marks[on] == placed:
			case marks[on] == visiting && n > maxNodesForAllCycles:
				return nil, [][]int{cycleOnStack(stack, on)}
			case marks[on] == visiting:
				return nil, cycles(n, dependency)
			default:
				marks[on] = visiting
				stack = append(stack, frame{node: on})
			}
		}
	}
	return order, nil
}

// cycleOnStack returns the cycle on the stack, from node `first` to the top. On the stack, each node depends on the
// node above it, and the top depends on first. The result is first, then the nodes from the top down, so each node in
// it depends on its predecessor.
func cycleOnStack(stack []frame, first int) []int {
	path := []int{first}
	for i := len(stack) - 1; stack[i].node != first; i-- {
		path = append(path, stack[i].node)
	}
	return path
}

// cycles returns each node that depends on itself, and a shortest cycle through the first node of each strongly
// connected component of several nodes. In a cycle, each node depends on its predecessor, and the first on the last.
func cycles(n int, dependency func(node, k int) (on int, ok bool)) (list [][]int) {
	g := simple.NewDirectedGraph() // an edge leads from a node to its user
	for node := range n {
		g.AddNode(simple.Node(node))
	}
	users := make([][]int, n)
	for node := range n {
		dependsOnItself := false
		for k := 0; ; k++ {
			on, ok := dependency(node, k)
			if !ok {
				break
			}
			if on == node {
				dependsOnItself = true // gonum panics for such an edge
			} else if on != None && !g.HasEdgeFromTo(int64(on), int64(node)) {
				g.SetEdge(simple.Edge{F: simple.Node(on), T: simple.Node(node)})
				users[on] = append(users[on], node)
			}
		}
		if dependsOnItself {
			list = append(list, []int{node})
		}
	}
	_, err := topo.SortStabilized(g, nil)
	components, _ := err.(topo.Unorderable) // sorted by ID
	for _, component := range components {
		list = append(list, shortestCycle(users, component))
	}
	return list
}

// shortestCycle returns a shortest cycle in a strongly connected component. The search is breadth-first. The cycle
// starts at the first node of the component.
func shortestCycle(users [][]int, component []gonum.Node) []int {
	inComponent := map[int]bool{}
	for _, node := range component {
		inComponent[int(node.ID())] = true
	}
	start := int(component[0].ID())
	predecessor := map[int]int{}
	for queue := []int{start}; ; queue = queue[1:] {
		for _, user := range users[queue[0]] {
			if user == start {
				path := []int{}
				for node := queue[0]; node != start; node = predecessor[node] {
					path = append(path, node)
				}
				path = append(path, start)
				slices.Reverse(path)
				return path
			}
			if _, isVisited := predecessor[user]; inComponent[user] && !isVisited {
				predecessor[user] = queue[0]
				queue = append(queue, user)
			}
		}
	}
}
