package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// deps and dep list what a node waits for: its operands, nil for those that are no
// values, then the values of its attributes.
func (n *Node) deps() int { return len(n.In) + len(n.refs()) }

func (n *Node) dep(i int) *Value {
	if i < len(n.In) {
		return n.In[i].Value
	}
	return n.attrs.refs[i-len(n.In)].value
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
	s.bound, s.assumed, s.warnings = g.bound, g.assumed, g.warnings
	// Nodes keep their numbers, so that those that passes add have others.
	s.nodes, s.refused = g.nodes, map[int32]error{}
	if g.places != nil {
		s.places = nodePlaces{g.places}
	}
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
		m, err := s.known(n, known, enter)
		if err != nil {
			return nil, g.Fail(n, err)
		}
		for i, v := range n.Out {
			w := &Value{Name: v.Name, Node: m, Index: i, graph: s}
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

// known returns a copy of a node for a segment, without outputs: its operands are those
// that enter gives, and its attributes are read from what is known. That they will not do is
// what inference tells.
func (s *Graph) known(n *Node, known map[*Value]*tensor.Tensor, enter func(*Value) (*Value, error)) (*Node, error) {
	m := &Node{Name: n.Name, Op: n.Op, Pin: n.Pin, number: n.number, In: slices.Clone(n.In)}
	for i := range m.In {
		if v := m.In[i].Value; v != nil {
			w, err := enter(v)
			if err != nil {
				return nil, err
			}
			m.In[i].Value = w
		}
	}
	given, _, err := n.attrs.resolved(func(v *Value) *tensor.Tensor { return known[v] })
	if err != nil {
		s.refused[m.number] = err
		return m, nil
	}
	m.attrs = attributesOf(given)
	m.Attrs, _ = n.Op.Schema.Decode(given, s.bound)
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
			n.Attrs, _ = n.decode(c.bound) // inference tells why there are none
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
