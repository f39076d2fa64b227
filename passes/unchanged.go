package passes

import (
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// standing is what the values of a graph follow from: its nodes and values as they stood when it was evaluated. Where a
// pass left all of that, the graph need not be evaluated again.
type standing struct {
	nodes   []node
	values  []value
	outputs []graph.Output
}

type node struct {
	node  *graph.Node
	op    *graph.Op
	in    []graph.Arg
	out   []*graph.Value
	attrs any
}

// value has no pointers to lists that its value has, too: metas are immutable.
type value struct {
	value         *graph.Value
	meta          tensor.Meta
	alias, within *graph.Value
	data          *tensor.Tensor
	packed        *graph.Packed
}

// standingOf keeps lists of its own: those of the graph may be changed in place.
func standingOf(g *graph.Graph) *standing {
	s := &standing{outputs: slices.Clone(g.Outputs)}
	for _, n := range g.Nodes {
		s.nodes = append(s.nodes, node{n, n.Op, slices.Clone(n.In), slices.Clone(n.Out), n.Attrs})
	}
	g.Values(func(v *graph.Value) {
		s.values = append(s.values, value{v, v.Meta, v.Alias, v.Within, v.Const, v.Packed})
	})
	return s
}

// same reports whether nothing has changed.
func (s *standing) same(now *standing) bool {
	return s != nil && slices.Equal(s.outputs, now.outputs) &&
		slices.EqualFunc(s.nodes, now.nodes, func(a, b node) bool {
			return a.node == b.node && a.op == b.op && slices.Equal(a.in, b.in) && slices.Equal(a.out, b.out) &&
				reflect.DeepEqual(a.attrs, b.attrs)
		}) &&
		slices.EqualFunc(s.values, now.values, func(a, b value) bool {
			return a.value == b.value && a.alias == b.alias && a.within == b.within && a.data == b.data &&
				a.packed == b.packed && reflect.DeepEqual(a.meta, b.meta)
		})
}
