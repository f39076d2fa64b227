package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// checkSupported returns one error that lists all operators of the model without a converter.
func (m *Model) checkSupported(sets map[string]int, o Options) error {
	missing := map[operator]int{}
	seen := map[*pb.FunctionProto]bool{}
	m.countUnsupported(m.proto.Graph.Node, o, missing, seen, 0)
	if len(missing) == 0 {
		return nil
	}
	var list []string
	for _, op := range slices.SortedFunc(maps.Keys(missing), compareOperators) {
		list = append(list, fmt.Sprintf("%s (%d%s)", op, missing[op], nearest(op, o.table)))
	}
	return fmt.Errorf("the model needs operators that are not supported: %s", strings.Join(list, ", "))
}

func compareOperators(a, b operator) int { return strings.Compare(a.String(), b.String()) }

func (m *Model) countUnsupported(nodes []*pb.NodeProto, o Options, missing map[operator]int,
	seen map[*pb.FunctionProto]bool, depth int) {
	if depth > maxDepth {
		return // the conversion reports it
	}
	for _, n := range nodes {
		key := operator{domainOf(n.Domain), n.OpType}
		if f := m.function(n, o); f != nil {
			if !seen[f] {
				seen[f] = true
				m.countUnsupported(f.Node, o, missing, seen, depth+1)
			}
		} else if o.table[key] == nil {
			missing[key]++
		}
		for _, a := range n.Attribute {
			for _, g := range append(slices.Clone(a.Graphs), a.G) {
				if g != nil {
					m.countUnsupported(g.Node, o, missing, seen, depth+1)
				}
			}
		}
	}
}
