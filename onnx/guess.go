package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// What is decided at import is decided for sizes that may have been made up: the default of
// the options, or the stand-ins of symbols, under which an element that is the same counts as
// known (see symbolic.go). Whether such a decision would be another one for other sizes is
// found by reading the model again with these: nothing else sees all that a size flows into.

// probes are the sizes to try: a single one, few, and many.
var probes = []standIn{{first: 1}, {first: 5, step: 1}, {first: 1024, step: 32}}

// decision is an If whose condition is known, or a loop whose number of trips is.
type decision struct {
	node, op string
	is       string // which branch, or how many trips
}

// decided notes a decision.
func (n *node) decided(format string, args ...any) {
	if n.opts.decisions == nil {
		return
	}
	*n.opts.decisions = append(*n.opts.decisions, decision{nameOf(n.proto), n.proto.OpType, fmt.Sprintf(format, args...)})
}

// reading is a graph as it was read, with what was decided on the way.
type reading struct {
	g         *graph.Graph
	decisions []decision
	// sizes are those that symbols of the graph stood for when it was read.
	sizes []map[string]int

	missing graph.Errors // what was read past: see some.go
	lost    int          // how much that is, nodes among it
}

// as says which sizes the reading rests on: "N=224 and N=448".
func (r *reading) as() string {
	var list []string
	for _, s := range r.sizes {
		list = append(list, sizesText(s))
	}
	return strings.Join(list, " and ")
}

func sizesText(sizes map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		list = append(list, fmt.Sprintf("%s=%d", name, sizes[name]))
	}
	return strings.Join(list, ", ")
}

// warn tells the graph what in it would be otherwise for other sizes than were assumed.
func (m *Model) warn(r *reading, o Options) {
	names := slices.Sorted(maps.Keys(r.g.Symbols))
	if assumed := r.g.Assumed(); len(names) == 0 {
		if len(assumed) == 0 || len(r.decisions) == 0 {
			return
		}
		names = slices.Sorted(maps.Keys(assumed))
		r.sizes = []map[string]int{assumed}
	}
	told := map[string]bool{} // one warning for a node will do
	for _, p := range probes {
		sizes, other := m.probe(o, names, p)
		if other == nil {
			continue // a model need not take all sizes
		}
		for _, d := range r.differing(other) {
			if !told[d.node] {
				told[d.node] = true
				r.g.Warn(d.node, d.op, "it depends on sizes that are not known: %s is right for %s, but not for %s", d.is, r.as(),
					sizesText(sizes))
			}
		}
		if len(r.g.Symbols) > 0 && len(told) == 0 {
			m.compare(r, other.g, sizes, told)
		}
	}
}

// probe reads the model with sizes for all symbols; nil if it does not take them.
func (m *Model) probe(o Options, names []string, p standIn) (map[string]int, *reading) {
	for _, step := range slices.Compact([]int{p.step, 0}) {
		sizes := map[string]int{}
		for i, name := range names {
			sizes[name] = p.first + i*step
		}
		with := o
		with.Default, with.Dims = 0, maps.Clone(o.Dims)
		if with.Dims == nil {
			with.Dims = map[string]int{}
		}
		maps.Copy(with.Dims, sizes)
		if other, err := m.read(with); err == nil {
			return sizes, other
		}
	}
	return nil, nil
}

// differing returns the decisions that are others in another reading. A node that is read
// several times decides several times.
func (r *reading) differing(other *reading) []decision {
	all := func(r *reading) map[string]string {
		by := map[string]string{}
		for _, d := range r.decisions {
			by[d.node] += d.is + "\n"
		}
		return by
	}
	mine, theirs := all(r), all(other)
	var list []decision
	for _, d := range r.decisions {
		if is, ok := theirs[d.node]; ok && is != mine[d.node] {
			list = append(list, d)
		}
	}
	return list
}

// compare binds the symbols of the graph, and compares the shapes of the values that the
// model names with those of a graph that was read with these sizes. It warns of the first
// node that does not agree.
func (m *Model) compare(r *reading, want *graph.Graph, sizes map[string]int, told map[string]bool) {
	g := r.g.Clone()
	if err := g.BindOnly(sizes); err != nil {
		return
	}
	refused := g.InferAll()
	for _, p := range m.proto.Graph.Node {
		for _, name := range p.Output {
			v, w := g.Value(name), want.Value(name)
			if v == nil || w == nil || v.Dynamic || w.Dynamic || !w.Meta.DType.Valid() {
				continue
			}
			switch {
			case refused[v.Node] != nil:
				r.g.Warn(nameOf(p), p.OpType, "it was read as for %s, and does not suit %s: %w", r.as(), sizesText(sizes),
					refused[v.Node].Err)
			case !slices.Equal(v.Meta.Shape, w.Meta.Shape):
				r.g.Warn(nameOf(p), p.OpType, "it was read as for %s: for %s its shape is %v, and should be %v",
					r.as(), sizesText(sizes), v.Meta.Shape, w.Meta.Shape)
			default:
				continue
			}
			told[nameOf(p)] = true
			return
		}
	}
}

// nameOf is what a node is called in messages: its name, or that of its first output.
func nameOf(p *pb.NodeProto) string {
	for _, o := range p.Output {
		if p.Name == "" && o != "" {
			return o
		}
	}
	return p.Name
}
