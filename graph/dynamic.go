package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// attrRef is an attribute of a node that is a value of the graph.
type attrRef struct {
	attr  string
	value *Value
}

// takeRefs notes the attributes that are values, sorted by name.
func (n *Node) takeRefs() {
	n.refs = nil
	for _, name := range slices.Sorted(maps.Keys(n.given)) {
		if r, ok := n.given[name].(Ref); ok {
			n.refs = append(n.refs, attrRef{name, r.Value})
		}
	}
}

// deps and dep list what a node waits for: its operands, nil for those that are no
// values, then the values of its attributes.
func (n *Node) deps() int { return len(n.In) + len(n.refs) }

func (n *Node) dep(i int) *Value {
	if i < len(n.In) {
		return n.In[i].Value
	}
	return n.refs[i-len(n.In)].value
}

// Refs returns the values that attributes of the node are read from.
func (n *Node) Refs() []*Value {
	var vs []*Value
	for _, r := range n.refs {
		vs = append(vs, r.value)
	}
	return vs
}

// decode decodes the attributes. If some are values that are not constant, there are none
// yet.
func (n *Node) decode(symbols map[string]int) (any, error) {
	given, ok, err := n.resolved(func(v *Value) *tensor.Tensor { return v.Const })
	if err != nil || !ok {
		return nil, err
	}
	return n.Op.Schema.Decode(given, symbols)
}

// resolved returns the attributes with every Ref replaced by its data; ok is false if the
// data of one is not known.
func (n *Node) resolved(data func(*Value) *tensor.Tensor) (given Attrs, ok bool, err error) {
	if len(n.refs) == 0 {
		return n.given, true, nil
	}
	given = maps.Clone(n.given)
	for _, r := range n.refs {
		t := data(r.value)
		if t == nil {
			return nil, false, nil
		}
		if given[r.attr], err = attrOf(t); err != nil {
			return nil, false, fmt.Errorf("attribute %q: %w", r.attr, err)
		}
	}
	return given, true, nil
}

// maxAttr bounds the numbers in an attribute that is a value: more is no shape.
const maxAttr = 1 << 16

// elements is a list read from a value: one of length 1 also serves where a single number
// is wanted.
type elements []any

// attrOf returns the elements of a tensor as an attribute has them.
func attrOf(t *tensor.Tensor) (any, error) {
	if t.Numel() > maxAttr {
		return nil, fmt.Errorf("a value of %d elements cannot be an attribute", t.Numel())
	}
	flat := t.CopyTo(tensor.New(t.DType, t.Shape...))
	list := make(elements, t.Numel())
	for i := range list {
		at := flat.Meta
		at.Shape, at.Strides, at.Offset = nil, nil, i
		x := tensor.Must(flat.View(at)).At()
		switch {
		case t.DType == tensor.Bool:
			list[i] = x.Int() != 0
		case t.DType.IsIntegral(false):
			list[i] = x.Int()
		case t.DType.IsComplex():
			list[i] = x.Complex()
		default:
			list[i] = x.Float()
		}
	}
	if len(t.Shape) == 0 {
		return list[0], nil
	}
	return list, nil
}

// waits reports whether the node cannot be inferred before the graph has run in part.
func (n *Node) waits() bool {
	for i := range n.deps() {
		v := n.dep(i)
		if v != nil && (v.Dynamic || i >= len(n.In) && v.Const == nil) {
			return true
		}
	}
	return false
}

// Dynamic reports whether the shape of some value is known only when the graph runs.
func (g *Graph) Dynamic() bool {
	for _, n := range g.Nodes {
		if len(n.Out) > 0 && n.Out[0].Dynamic {
			return true
		}
	}
	return false
}

// Segment returns the graph of some of g's nodes, in order, with the given values as its
// inputs (constants stay constants), and the wanted values as its outputs, by their
// names. Attributes that are values are read from known. The segment is inferred: if a node
// is refused, it comes back with the error, for [Graph.InferAll] to go on.
func (g *Graph) Segment(nodes []*Node, known map[*Value]*tensor.Tensor, want []*Value) (*Graph, error) {
	s := New(g.Name, g.lookup)
	s.src, s.bound, s.assumed, s.warnings = g.src, g.bound, g.assumed, g.warnings
	to := map[*Value]*Value{}
	enter := func(v *Value) (*Value, error) {
		if w := to[v]; w != nil {
			return w, nil
		}
		if v == nil {
			return nil, errors.New("a value is nil")
		}
		t := known[v]
		if t == nil {
			return nil, fmt.Errorf("value %q is not known", v.Name)
		}
		if v.Const != nil {
			to[v] = s.Constant(v.Name, v.Const)
		} else {
			to[v] = s.InputMeta(v.Name, t.Meta)
		}
		return to[v], nil
	}
	for _, n := range nodes {
		if n == nil || n.Op == nil {
			return nil, errors.New("a node is nil, or has no op")
		}
		m, err := n.known(known, g.bound, enter)
		if err != nil {
			return nil, g.Fail(n, err)
		}
		for i, v := range n.Out {
			w := &Value{Name: v.Name, Node: m, Index: i, graph: s, at: v.at}
			m.Out = append(m.Out, w)
			s.number(w)
			to[v], s.named().values[v.Name] = w, w
		}
		s.named().addNode(m)
		s.Nodes = append(s.Nodes, m)
	}
	for _, v := range want {
		w, err := enter(v)
		if err != nil {
			return nil, err
		}
		s.Output(v.Name, w)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return s, s.Infer()
}

// known returns a copy of the node for a segment, without outputs: its operands are those
// that enter gives, and its attributes are read from what is known. That they will not do is
// what inference tells.
func (n *Node) known(known map[*Value]*tensor.Tensor, symbols map[string]int,
	enter func(*Value) (*Value, error)) (*Node, error) {
	m := &Node{Name: n.Name, Op: n.Op, Pin: n.Pin, at: n.at, attrAt: n.attrAt, attrsAt: n.attrsAt,
		In: slices.Clone(n.In)}
	for i := range m.In {
		if v := m.In[i].Value; v != nil {
			w, err := enter(v)
			if err != nil {
				return nil, err
			}
			m.In[i].Value = w
		}
	}
	m.given, _, m.badAttrs = n.resolved(func(v *Value) *tensor.Tensor { return known[v] })
	if m.badAttrs == nil {
		m.Attrs, m.badAttrs = n.Op.Schema.Decode(m.given, symbols)
	}
	return m, nil
}

// WithInputs returns a copy of the graph whose inputs have the given metas, in order. It is
// inferred as far as that goes; see [Graph.Dynamic].
func (g *Graph) WithInputs(metas []tensor.Meta) (*Graph, error) {
	if len(metas) != len(g.Inputs) {
		return nil, fmt.Errorf("want %d inputs, got %d", len(g.Inputs), len(metas))
	}
	c := g.Clone()
	for i, v := range c.Inputs {
		if err := metas[i].Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		c.bindTo(v, metas[i].Shape)
		v.SetMeta(metas[i])
		v.Dims, v.Dynamic = nil, false
	}
	if !maps.Equal(c.bound, g.bound) {
		for _, n := range c.Nodes {
			n.Attrs, n.badAttrs = n.decode(c.bound)
		}
	}
	return c, c.Infer()
}

// bindTo gives the symbols of an input the sizes that it turned out to have, for attributes
// that name them.
func (g *Graph) bindTo(v *Value, shape []int) {
	if len(shape) != len(v.Dims) {
		return
	}
	for i, d := range v.Dims {
		if d.Symbol == "" || g.bound[d.Symbol] == shape[i] {
			continue
		}
		bound := maps.Clone(g.bound)
		if bound == nil {
			bound = map[string]int{}
		}
		bound[d.Symbol] = shape[i]
		g.bound = bound
	}
}
