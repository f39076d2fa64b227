package graph

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Settle puts into the place of each node that runs one of several graphs, as sizes say ([Op.Chooses]), the nodes
// of that graph. Symbols must be bound; in a graph of [Graph.Symbolic] what is chosen becomes a guard. The values
// that the node made are gone then, or made by others, and the graph is yet to be inferred. Nothing is changed
// where there are no such nodes.
func (g *Graph) Settle() error {
	chooses := func(n *Node) bool { return n.Op != nil && n.Op.Chooses != nil }
	first := slices.IndexFunc(g.Nodes, chooses)
	if first < 0 {
		return nil
	}
	s := &settling{g: g, to: map[*Value]*Value{}}
	nodes := g.Nodes[first:]
	g.Nodes = slices.Clone(g.Nodes[:first])
	for i, n := range nodes {
		s.redirect(n)
		if !chooses(n) {
			g.Nodes = append(g.Nodes, n)
			continue
		}
		if err := s.settle(n); err != nil {
			g.Nodes = append(g.Nodes, nodes[i:]...)
			return g.Fail(n, err)
		}
	}
	for i, o := range g.Outputs {
		g.Outputs[i].Value = s.now(o.Value)
	}
	return nil
}

// Settled returns the graph, or a copy that is settled and inferred where there is something to settle.
func (g *Graph) Settled() (*Graph, error) {
	if !slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Op != nil && n.Op.Chooses != nil }) {
		return g, nil
	}
	c := g.Clone()
	return c, c.settleAndInfer()
}

func (g *Graph) settleAndInfer() error {
	if err := g.Settle(); err != nil {
		return err
	}
	return g.Infer()
}

// settling is the work of Settle.
type settling struct {
	g  *Graph
	to map[*Value]*Value // what stands for values whose nodes are gone
}

func (s *settling) now(v *Value) *Value {
	if w := s.to[v]; w != nil {
		return w
	}
	return v
}

// redirect makes a node read what stands for its operands.
func (s *settling) redirect(n *Node) {
	for i := range n.In {
		n.In[i].Value = s.now(n.In[i].Value)
	}
	n.attrs = n.attrs.replaced(s.now)
}

// settle puts the nodes of the chosen graph into the place of a node.
func (s *settling) settle(n *Node) error {
	g := s.g
	if n.Attrs == nil {
		var err error
		if n.Attrs, err = n.decode(g.sizes); err != nil {
			return err
		}
	}
	body, in := n.Op.Chooses(n.Call())
	if g.open != nil {
		g.open.record(Guard{Node: n})
	}
	switch {
	case body == nil:
		return fmt.Errorf("which graph it runs is not known")
	case len(in) != len(body.Inputs) || len(n.Out) != len(body.Outputs):
		return fmt.Errorf("a graph of %d inputs and %d outputs cannot stand for a node of %d and %d", len(body.Inputs),
			len(body.Outputs), len(in), len(n.Out))
	}
	g.named().dropNode(n)
	inside := map[*Value]*Value{}
	for i, v := range body.Inputs {
		if inside[v] = in[i].Value; in[i].Kind != TensorArg {
			return fmt.Errorf("operand %q of the graph it runs is no value", v.Name)
		}
	}
	here := func(v *Value) *Value { return s.constant(n, v, inside) }
	for _, m := range body.Nodes {
		c := &Node{Name: g.Fresh(n.Name + "." + m.Name), Op: m.Op, In: slices.Clone(m.In), Pin: m.Pin, Part: n,
			attrs: m.attrs.replaced(here)}
		for i := range c.In {
			c.In[i].Value = here(c.In[i].Value)
		}
		for i, v := range m.Out {
			w := &Value{Name: g.Fresh(n.Name + "." + v.Name), Node: c, Index: i, graph: g}
			g.number(w)
			g.named().values[w.Name] = w
			c.Out, inside[v] = append(c.Out, w), w
		}
		g.numberNode(c)
		g.named().addNode(c)
		if c.Op != nil && c.Op.Chooses != nil {
			if err := s.settle(c); err != nil {
				return err
			}
			for _, v := range m.Out {
				inside[v] = s.now(inside[v])
			}
			continue
		}
		g.Nodes = append(g.Nodes, c)
	}
	for i, o := range body.Outputs {
		s.stands(n.Out[i], here(o.Value), n)
	}
	return nil
}

// constant returns what stands for a value of the body: constants are made where they are first asked for.
func (s *settling) constant(n *Node, v *Value, inside map[*Value]*Value) *Value {
	if v == nil || inside[v] != nil || v.Const == nil {
		return inside[v]
	}
	w := *v
	w.Name, w.graph = s.g.Fresh(n.Name+"."+v.Name), s.g
	s.g.number(&w)
	s.g.named().values[w.Name] = &w
	s.g.Constants = append(s.g.Constants, &w)
	inside[v] = &w
	return &w
}

// stands puts a value into the place of one of a node that is gone: under its name, if it is made for that.
func (s *settling) stands(for_, v *Value, n *Node) {
	s.to[for_] = v
	if v.Node == nil || v.Node.Part != n || s.g.named().taken(for_.Name) {
		return
	}
	names := s.g.named()
	names.dropValue(v)
	v.Name = for_.Name
	names.values[v.Name] = v
	if len(v.Node.Out) == 1 && !names.taken(n.Name) {
		names.renameNode(v.Node, n.Name)
	}
}

// replaced returns attributes that read other values.
func (a *attributes) replaced(by func(*Value) *Value) *attributes {
	if a == nil || len(a.refs) == 0 {
		return a
	}
	given := a.given.clone()
	for _, r := range a.refs {
		given[r.attr] = Ref{by(r.value)}
	}
	return attributesOf(given)
}

// ResultsFor returns what a graph that runs within another gives for inputs of the given metas, in order: new
// values all. Those whose shapes depend on data are [Result.Dynamic].
func (g *Graph) ResultsFor(in []tensor.Meta) ([]Result, error) {
	c, err := g.withInputs(in)
	if err != nil {
		return nil, err
	}
	known := c.Outlines()
	res := make([]Result, len(c.Outputs))
	for i, o := range c.Outputs {
		if o.Value.Dynamic {
			res[i] = known.At(o.Value).Result()
			continue
		}
		res[i] = Result{Type: o.Value.Meta.Type(), Alias: Fresh}
	}
	return res, nil
}
