package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// errNoCause stands for a reason that the caller did not give.
var errNoCause = errors.New("no cause was given")

// absent is the error of what reads an input or a constant that cannot be had.
func absent(v *Value) error {
	return fmt.Errorf("depends on %s %q, which cannot be read", v.Kind(), v.Name)
}

// DropValues returns a copy of the graph without the inputs and constants that cannot be had,
// for the reasons given, and without the nodes and outputs that depend on them. Symbols whose
// sizes are unknown without those may be named: nodes that have one in an attribute go too.
// The errors are those of the values, and of the nodes and outputs that read them, each with its
// place; what depends on such a node has none of its own.
func (g *Graph) DropValues(lost map[*Value]error, unknown ...string) (*Graph, Errors) {
	var errs Errors
	gone := map[*Value]bool{}
	for _, list := range [][]*Value{g.Inputs, g.Constants} {
		for _, v := range list {
			if err, ok := lost[v]; ok {
				gone[v] = true
				errs = append(errs, g.failValue(v, cmp.Or(err, errNoCause)))
			}
		}
	}
	rejected := map[*Node]*Error{}
	for _, n := range g.Nodes {
		if err := n.lacks(gone, unknown); err != nil {
			rejected[n] = g.Fail(n, err)
			errs = append(errs, rejected[n])
		}
	}
	d := g.Drop(rejected)
	d.Outputs = slices.DeleteFunc(d.Outputs, func(o Output) bool { return goneIn(g, gone, o.Value) })
	for _, o := range g.Outputs {
		if gone[o.Value] {
			errs = append(errs, g.FailOutput(o, absent(o.Value)))
		}
	}
	drop := func(v *Value) bool {
		if !goneIn(g, gone, v) {
			return false
		}
		d.named().dropValue(v)
		return true
	}
	d.Inputs, d.Constants = slices.DeleteFunc(d.Inputs, drop), slices.DeleteFunc(d.Constants, drop)
	errs.Sort()
	return d, errs
}

// goneIn reports whether v, a value of a copy of g, is one of the values of g that are gone.
func goneIn(g *Graph, gone map[*Value]bool, v *Value) bool { return gone[g.Value(v.Name)] }

// lacks returns why a node cannot be had that reads values which are gone, or attributes with
// sizes that are not known; nil if it does not.
func (n *Node) lacks(gone map[*Value]bool, unknown []string) error {
	for i := range n.deps() {
		if v := n.dep(i); gone[v] {
			return absent(v)
		}
	}
	for _, s := range unknown {
		for name, a := range n.written() {
			if attrUses(a, s) {
				return &AttrError{name, fmt.Errorf("attribute %q: the size %s is not known: "+
					"an input that cannot be read would tell it", name, s)}
			}
		}
	}
	return nil
}

// Refuse adds a node that cannot be made, for an importer that goes on past it: inference
// rejects it with err, as it does the nodes of [Draft.Refuse]. op is what the node is called
// where it comes from. Its results, of the names given or else one of the node's own, are known
// by name only: they may be read by other such nodes and be outputs.
func (g *Graph) Refuse(name, op string, results []string, err error, operands ...*Value) []*Value {
	n := &Node{Name: g.Fresh(cmp.Or(name, "node")), Op: unknownOp(op)}
	g.numberNode(n)
	g.rejectNode(n, cmp.Or(err, errNoCause))
	for i, v := range operands {
		if v == nil || v.graph != g {
			g.mistake(&Error{Node: n.Name, Op: op, Err: fmt.Errorf("operand %d is no value of the graph", i)})
			continue
		}
		n.In = append(n.In, Arg{Kind: TensorArg, Value: v})
	}
	names := g.named()
	if len(results) == 0 {
		results = []string{n.Name}
	}
	for i, s := range results {
		v := &Value{Name: g.Fresh(cmp.Or(s, n.Name)), Node: n, Index: i, graph: g}
		g.number(v)
		names.values[v.Name] = v
		n.Out = append(n.Out, v)
	}
	names.addNode(n)
	g.Nodes = append(g.Nodes, n)
	return n.Out
}

// TakeErr is [Graph.Err] that forgets the mistakes: building can go on without the values that
// they are of.
func (g *Graph) TakeErr() error {
	err := g.Err()
	g.errs = nil
	return err
}

// rejectNode makes inference reject a node of the graph. The first reason stays.
func (g *Graph) rejectNode(n *Node, err error) {
	if g.rejected[n.number] != nil {
		return
	}
	if g.rejected == nil {
		g.rejected = map[int32]error{}
	}
	g.rejected[n.number] = err
}

// unknownOp stands for an op that there is not, so that a graph can be inferred past its
// nodes, which are rejected.
func unknownOp(name string) *Op {
	return &Op{Semantics: Semantics{Name: name, Schema: SchemaOf[struct{}]()}}
}
