package graph

import (
	"fmt"
	"maps"

	"github.com/graphrun/graphrun/sym"
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

// withInputs returns a copy of the graph whose inputs have the given metas, in order. It is
// inferred as far as that goes; see [Graph.Dynamic].
func (g *Graph) withInputs(metas []tensor.Meta) (*Graph, error) {
	if len(metas) != len(g.Inputs) {
		return nil, fmt.Errorf("want %d inputs, got %d", len(g.Inputs), len(metas))
	}
	c := g.Clone()
	for i, v := range c.Inputs {
		if err := metas[i].Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		c.sizes = v.bindTo(metas[i].Shape, c.sizes)
		v.SetMeta(metas[i])
		v.Dims, v.Dynamic = nil, false
	}
	if !maps.EqualFunc(c.sizes, g.sizes, sym.Int.Same) {
		c.decodeAll()
	}
	return c, c.Infer()
}

// bindTo gives the symbols of an input the sizes that it turned out to have, for attributes
// that name them. It returns bound, or a changed copy.
func (v *Value) bindTo(shape []int, bound map[string]sym.Int) map[string]sym.Int {
	if len(shape) != len(v.Dims) {
		return bound
	}
	copied := false
	for i, d := range v.Dims {
		if d.Symbol == "" || bound[d.Symbol].Same(sym.Of(shape[i])) {
			continue
		}
		if !copied {
			if bound, copied = maps.Clone(bound), true; bound == nil {
				bound = map[string]sym.Int{}
			}
		}
		bound[d.Symbol] = sym.Of(shape[i])
	}
	return bound
}
