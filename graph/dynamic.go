package graph

import (
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
		c.bound = v.bindTo(metas[i].Shape, c.bound)
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
// that name them. It returns bound, or a changed copy.
func (v *Value) bindTo(shape []int, bound map[string]int) map[string]int {
	if len(shape) != len(v.Dims) {
		return bound
	}
	copied := false
	for i, d := range v.Dims {
		if d.Symbol == "" || bound[d.Symbol] == shape[i] {
			continue
		}
		if !copied {
			if bound, copied = maps.Clone(bound), true; bound == nil {
				bound = map[string]int{}
			}
		}
		bound[d.Symbol] = shape[i]
	}
	return bound
}
