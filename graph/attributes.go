package graph

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// attributes are what a node's Attrs are decoded from: symbols, and values of the graph, may stand
// among them. Nodes that are written alike share them.
type attributes struct {
	given Attrs
	refs  []attrRef // those that are values, sorted by name
}

// attrRef is an attribute of a node that is a value of the graph.
type attrRef struct {
	attr  string
	value *Value
}

// attributesOf returns nil where no attributes are given.
func attributesOf(given Attrs) *attributes {
	if len(given) == 0 {
		return nil
	}
	a := &attributes{given: given}
	for name, v := range given {
		if r, ok := v.(Ref); ok {
			a.refs = append(a.refs, attrRef{name, r.Value})
		}
	}
	if len(a.refs) > 1 {
		slices.SortFunc(a.refs, func(x, y attrRef) int {
			if x.attr < y.attr {
				return -1
			}
			return 1
		})
	}
	return a
}

// clone returns attributes whose values are the copies; the same where none are values.
func (a *attributes) clone(to *ByValue[*Value]) *attributes {
	if a == nil || len(a.refs) == 0 {
		return a
	}
	given := maps.Clone(a.given)
	for _, r := range a.refs {
		given[r.attr] = Ref{to.At(r.value)}
	}
	return attributesOf(given)
}

// written returns the attributes as they were given.
func (n *Node) written() Attrs {
	if n.attrs == nil {
		return nil
	}
	return n.attrs.given
}

// refs returns the attributes that are values.
func (n *Node) refs() []attrRef {
	if n.attrs == nil {
		return nil
	}
	return n.attrs.refs
}

// Refs returns the values that attributes of the node are read from.
func (n *Node) Refs() []*Value {
	var vs []*Value
	for _, r := range n.refs() {
		vs = append(vs, r.value)
	}
	return vs
}

// Written yields the attributes as they were given, in the order of the op's schema, those
// that it has no field for by their names: symbols and values of
// the graph ([Ref]) as such. Those that say what holds anyway are left out.
func (n *Node) Written() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if n == nil || n.Op == nil || n.Op.Schema == nil || n.attrs == nil {
			return
		}
		var symbols map[string]sym.Int
		if len(n.Out) > 0 && n.Out[0].graph != nil {
			symbols = n.Out[0].graph.sizes
		}
		for _, f := range n.Op.Schema.Fields {
			v, ok := n.attrs.given[f.Name]
			if ok && !n.Op.Schema.isDefault(f, v, symbols) && !yield(f.Name, v) {
				return
			}
		}
		if n.Op.Schema.Others == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(n.attrs.given)) {
			if _, ok := n.Op.Schema.byName[name]; !ok && !yield(name, n.attrs.given[name]) {
				return
			}
		}
	}
}

// isDefault reports whether a given attribute decodes to what it is when left out. One
// that names a symbol never does: the symbol may be bound to another size.
func (s *Schema) isDefault(f Field, v any, symbols map[string]sym.Int) bool {
	if _, ok := v.(Ref); ok || f.Required || usesAny(v, symbols) {
		return false
	}
	got, left := reflect.New(s.typ).Elem().Field(f.index), reflect.New(s.typ).Elem().Field(f.index)
	if f.set(got, v, symbols) != nil {
		return false
	}
	if f.Default != "none" && f.set(left, f.defaultValue(), nil) != nil {
		return false
	}
	return identical(got, left)
}

// decode decodes the attributes. If some are values that are not constant, there are none
// yet.
func (n *Node) decode(symbols map[string]sym.Int) (any, error) {
	given, ok, err := n.attrs.resolved(func(v *Value) *tensor.Tensor { return v.Const })
	if err != nil || !ok {
		return nil, err
	}
	return n.Op.Schema.Decode(given, symbols)
}

// resolved returns the attributes with every Ref replaced by its data; ok is false if the
// data of one is not known.
func (a *attributes) resolved(data func(*Value) *tensor.Tensor) (given Attrs, ok bool, err error) {
	if a == nil {
		return nil, true, nil
	}
	if len(a.refs) == 0 {
		return a.given, true, nil
	}
	given = maps.Clone(a.given)
	for _, r := range a.refs {
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

// elements is a list read from a value: one of length 1 will also do where a single number
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
