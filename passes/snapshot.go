package passes

import (
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// snapshot has the parts of a graph that determine the results of an evaluation. If the snapshots before and after a
// pass are equal, the graph need not be evaluated again.
type snapshot struct {
	nodes   []nodeState
	values  []valueState
	outputs []graph.Output
}

// nodeState has the fields of a graph node that affect results.
type nodeState struct {
	node     *graph.Node
	op       *graph.Op
	operands []graph.Arg
	results  []*graph.Value
	attrs    any
}

// valueState has the fields of a graph value that affect results. Metas are immutable and need no copy.
type valueState struct {
	value              *graph.Value
	meta               tensor.Meta
	alias, containedIn *graph.Value
	data               *tensor.Tensor
	packed             *graph.Packed
}

// snapshotOf copies the lists of the graph, because passes may change these in place.
func snapshotOf(g *graph.Graph) *snapshot {
	s := &snapshot{outputs: slices.Clone(g.Outputs)}
	for _, n := range g.Nodes {
		s.nodes = append(s.nodes, nodeState{node: n, op: n.Op, operands: slices.Clone(n.In),
			results: slices.Clone(n.Out), attrs: n.Attrs})
	}
	g.Values(func(v *graph.Value) {
		s.values = append(s.values, valueState{value: v, meta: v.Meta, alias: v.Alias, containedIn: v.ContainedIn,
			data: v.Const, packed: v.Packed})
	})
	return s
}

// equals reports whether two snapshots are equal. A nil snapshot equals none. Data are compared by their pointers, so a
// change of elements in place is not found.
func (s *snapshot) equals(other *snapshot) bool {
	return s != nil && slices.Equal(s.outputs, other.outputs) &&
		slices.EqualFunc(s.nodes, other.nodes, func(a, b nodeState) bool {
			return a.node == b.node && a.op == b.op && slices.Equal(a.operands, b.operands) &&
				slices.Equal(a.results, b.results) && reflect.DeepEqual(a.attrs, b.attrs)
		}) &&
		slices.EqualFunc(s.values, other.values, func(a, b valueState) bool {
			return a.value == b.value && a.alias == b.alias && a.containedIn == b.containedIn && a.data == b.data &&
				a.packed == b.packed && reflect.DeepEqual(a.meta, b.meta)
		})
}
