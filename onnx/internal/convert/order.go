package convert

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/toposort"
)

// This file sorts the nodes of a model. ONNX demands that each node follows the nodes whose results it uses, but some
// files have their nodes in another order. A node uses its operands, and the values of the enclosing graph that its
// nested graphs use.

// sortNodes sorts the nodes of the main graph, of nested graphs and of functions: see [toposort.Order]. It sets
// m.cycles.
func (m *Model) sortNodes() {
	m.sortGraph(m.file.Proto.Graph, nil, 0)
	for _, f := range m.file.Proto.Functions {
		body := functionBody(f)
		m.sortGraph(body, nil, 0)
		f.Node = body.Node
	}
}

// enclosing has the names of values that a nested graph may use, from the innermost graph outwards.
type enclosing struct {
	names map[string]int
	outer *enclosing
}

// has reports whether an enclosing graph has a value with a name.
func (e *enclosing) has(name string) bool {
	for ; e != nil; e = e.outer {
		if _, ok := e.names[name]; ok {
			return true
		}
	}
	return false
}

// external is the producer of an input or an initializer.
const external = -1

// sortGraph sorts the nodes of a graph and of its nested graphs. It returns the names of the enclosing graphs' values
// that the nodes and outputs use.
func (m *Model) sortGraph(g *pb.GraphProto, outer *enclosing, depth int) (free []string) {
	if depth > maxDepth {
		return nil // the conversion reports the mistake
	}
	producers := map[string]int{}
	for _, input := range g.Input {
		producers[input.Name] = external
	}
	for _, initializer := range g.Initializer {
		producers[initializer.Name] = external
	}
	for _, sparse := range g.SparseInitializer {
		producers[sparse.Name()] = external
	}
	for i, n := range g.Node {
		for _, name := range n.Output {
			if _, exists := producers[name]; !exists && name != "" {
				producers[name] = i
			}
		}
	}
	uses, isFree := make([][]string, len(g.Node)), map[string]bool{}
	here := &enclosing{producers, outer}
	inOrder := true
	use := func(name string, before int) (isOwn bool) {
		producer, isOwn := producers[name]
		if isOwn = isOwn && (producer < before || !outer.has(name)); !isOwn {
			isFree[name] = true
		}
		return isOwn
	}
	for i, n := range g.Node {
		names := slices.Clone(n.Input)
		for _, nested := range n.Graphs() {
			names = append(names, m.sortGraph(nested, here, depth+1)...)
		}
		for _, name := range names {
			// A node may use a value of an enclosing graph whose name a later node gives to its own result.
			if use(name, i) && producers[name] != external {
				uses[i] = append(uses[i], name)
				inOrder = inOrder && producers[name] < i
			}
		}
	}
	for _, output := range g.Output {
		use(output.Name, len(g.Node))
	}
	if !inOrder {
		m.sortBy(g, func(i, k int) (int, bool) {
			if k == len(uses[i]) {
				return toposort.None, false
			}
			return producers[uses[i][k]], true
		})
	}
	return sorted.Keys(isFree)
}

// maxCycles bounds the number of cycles that are reported, and maxCycleNodes the number of nodes that the error of a
// cycle lists.
const maxCycles, maxCycleNodes = 16, 100

// sortBy sorts the nodes of a graph by their dependencies. The dependencies of the first node of each cycle do not
// count: m.cycles has its error. After maxCycles cycles, the nodes remain in their order.
func (m *Model) sortBy(g *pb.GraphProto, dependency func(i, k int) (int, bool)) {
	isBroken := make([]bool, len(g.Node))
	for {
		order, cycles := toposort.Order(len(g.Node), func(i, k int) (int, bool) {
			if isBroken[i] {
				return toposort.None, false
			}
			return dependency(i, k)
		})
		if cycles == nil {
			nodes := make([]*pb.NodeProto, len(order))
			for i, from := range order {
				nodes[i] = g.Node[from]
			}
			g.Node = nodes
			return
		}
		for _, cycle := range cycles {
			if len(m.cycleErrors) == maxCycles {
				return
			}
			first := g.Node[cycle[0]]
			var text strings.Builder
			for _, i := range cycle[:min(len(cycle), maxCycleNodes)] {
				text.WriteString(nameOf(g.Node[i]) + " -> ")
			}
			if omitted := len(cycle) - maxCycleNodes; omitted > 0 {
				fmt.Fprintf(&text, "(%d more) -> ", omitted)
			}
			err := fmt.Errorf("the graph has a cycle: %s%s", text.String(), nameOf(first))
			m.cycles[first] = err
			m.cycleErrors = append(m.cycleErrors, fmt.Errorf("node %q (%s): %w", nameOf(first), first.OpType, err))
			isBroken[cycle[0]] = true
		}
	}
}
