package convert

import (
	"fmt"
	"strings"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
)

// MissingOperator is an operator of a model without a converter.
type MissingOperator struct {
	Operator   Operator
	Nodes      []string // names of the nodes with this operator, in the order of the model
	Suggestion string   // a similar operator with a converter, or ""
	Instead    string   // what to do in place of the operator, or ""
}

// MissingOperators lists the operators of the model without a converter, sorted by domain and name. It also searches
// nested graphs, and functions that nodes call.
func (m *Model) MissingOperators(t *Table) []MissingOperator {
	found := map[Operator][]string{}
	m.collectMissing(m.file.Proto.Graph.Node, t, found, map[*pb.FunctionProto]bool{}, 0)
	var list []MissingOperator
	for operator, nodes := range found {
		list = append(list, t.missing(operator, nodes))
	}
	sorted.Func(list, func(a, b MissingOperator) int {
		return strings.Compare(a.Operator.String(), b.Operator.String())
	})
	return list
}

// missing describes an operator without a converter.
func (t *Table) missing(operator Operator, nodes []string) MissingOperator {
	if instead := t.Instead[operator.String()]; instead != "" {
		return MissingOperator{operator, nodes, "", instead}
	}
	return MissingOperator{operator, nodes, t.Nearest(operator), ""}
}

// collectMissing adds the names of nodes without a converter to found. visited has the functions that were searched.
func (m *Model) collectMissing(nodes []*pb.NodeProto, table *Table, found map[Operator][]string,
	visited map[*pb.FunctionProto]bool, depth int) {
	if depth > maxDepth {
		return // the conversion reports the mistake
	}
	for _, n := range nodes {
		operator := Operator{CanonicalDomain(n.Domain), n.OpType}
		if f := m.function(n, table); f != nil {
			if !visited[f] {
				visited[f] = true
				m.collectMissing(f.Node, table, found, visited, depth+1)
			}
		} else if table.Converters[operator] == nil {
			found[operator] = append(found[operator], nameOf(n))
		}
		for _, g := range n.Graphs() {
			m.collectMissing(g.Node, table, found, visited, depth+1)
		}
	}
}

// checkSupported returns one error that lists all operators of the model without a converter.
func (m *Model) checkSupported(t *Table) error {
	var list []string
	for _, op := range m.MissingOperators(t) {
		hint := suggest.DidYouMean(op.Suggestion)
		if op.Instead != "" {
			hint = "; " + op.Instead
		}
		list = append(list, fmt.Sprintf("%s (%d%s)", printable.Text(op.Operator.String()), len(op.Nodes), hint))
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("the model needs operators that are not supported: %s", strings.Join(list, ", "))
}
