package graph

import (
	"fmt"
	"maps"
	"slices"
)

// Bind gives symbolic dimensions their sizes, decodes what depends on them, and infers
// the graph. A symbol that dims leaves out gets the least size over 1 within its bounds,
// so that no layout decision rests on a size of 0 or 1 that nobody asked for.
func (g *Graph) Bind(dims map[string]int) error {
	if err := g.BindOnly(dims); err != nil {
		return err
	}
	return g.Infer()
}

// BindOnly is Bind without the inference.
func (g *Graph) BindOnly(dims map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		if _, ok := g.Symbols[name]; !ok {
			return fmt.Errorf("the graph has no symbolic dimension %q", name)
		}
	}
	if len(g.Symbols) == 0 {
		return nil
	}
	g.bound = map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(g.Symbols)) {
		b := g.Symbols[name]
		n, ok := dims[name]
		if !ok {
			n = max(b.Min, 2)
			if b.Max > 0 {
				n = min(n, b.Max)
			}
		}
		if n < b.Min || b.Max > 0 && n > b.Max {
			return fmt.Errorf("%s=%d is outside its bounds: min %d, max %d", name, n, b.Min, b.Max)
		}
		g.bound[name] = n
	}
	for _, v := range g.Inputs {
		if v.Dims != nil {
			if err := v.setShape(sizes(v.Dims, g.bound)); err != nil {
				return g.failAt(v.at, "input %q: %v", v.Name, err)
			}
		}
	}
	for _, n := range g.Nodes {
		a, err := n.Op.Schema.Decode(n.given, g.bound)
		if err != nil {
			return g.Fail(n, err)
		}
		n.Attrs = a
	}
	return nil
}

// Infer sets the metas of all values from those of the inputs, in order. The error names
// the first node that is refused.
func (g *Graph) Infer() error {
	for _, n := range g.Nodes {
		if err := n.Infer(); err != nil {
			return g.Fail(n, err)
		}
	}
	return nil
}

// InferAll is Infer that goes on past nodes that are refused. It returns their errors; a
// node that depends on a refused one is refused too, with the reason that it does. The
// values of refused nodes have no meta.
func (g *Graph) InferAll() map[*Node]*Error {
	refused := map[*Node]*Error{}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == TensorArg && a.Value.Node != nil && refused[a.Value.Node] != nil {
				refused[n] = g.Fail(n, fmt.Errorf("depends on %q, which was refused", a.Value.Name))
				break
			}
		}
		if refused[n] != nil {
			continue
		}
		if err := n.Infer(); err != nil {
			refused[n] = g.Fail(n, err)
		}
	}
	return refused
}

// Drop returns a copy of the graph without the given nodes, what depends on them, and the
// outputs that they made.
func (g *Graph) Drop(refused map[*Node]*Error) *Graph {
	d := *g
	d.Nodes, d.Outputs = nil, nil
	for _, n := range g.Nodes {
		if refused[n] == nil {
			d.Nodes = append(d.Nodes, n)
		}
	}
	for _, o := range g.Outputs {
		if o.Value.Node == nil || refused[o.Value.Node] == nil {
			d.Outputs = append(d.Outputs, o)
		}
	}
	return &d
}
