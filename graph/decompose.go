package graph

import (
	"errors"
	"fmt"
	"slices"
)

// Parts collects the nodes, the parts, that replace one node, the whole: see [Op.Decompose] and [Op.Rewrite].
type Parts struct {
	g     *Graph
	whole *Node
	nodes []*Node
}

// Add adds a part and returns its results. The op must be made by [Define]. Operands are operands of the whole, or
// results of other parts.
func (p *Parts) Add(op *Op, attrs Attrs, in ...Arg) ([]*Value, error) {
	if p == nil || p.g == nil {
		return nil, errors.New("parts are added in a Decompose")
	}
	n, err := p.g.insert(p.whole.Name+"."+nameOf(op), op, slices.Clone(in), attrs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameOf(op), err)
	}
	n.Why, n.Part = p.whole.Why, p.whole
	p.nodes = append(p.nodes, n)
	return n.Out, nil
}

func nameOf(op *Op) string {
	if op == nil {
		return "nil"
	}
	return op.Name
}

// Of returns an operand that reads a value.
func Of(v *Value) Arg { return Arg{Kind: TensorArg, Value: v} }

// Decompose returns the nodes that replace a node of a composite op, in a valid order. The node's results become
// results of these nodes, which also get its pin. The caller replaces the node in Nodes. If Decompose fails, the graph
// is unchanged except for names that were taken. It is for passes.
func (g *Graph) Decompose(n *Node) ([]*Node, error) {
	if n == nil || n.Op == nil || n.Op.Decompose == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return nil, errors.New("it is no node of a composite op in the graph")
	}
	p := &Parts{g: g, whole: n}
	results, err := n.Op.Decompose(p, n.Call())
	return p.stand(results, err)
}

// stand makes results, which are values of the parts, the results of the whole.
func (p *Parts) stand(results []*Value, err error) ([]*Node, error) {
	g, n := p.g, p.whole
	if err == nil && len(results) != len(n.Out) {
		err = fmt.Errorf("its parts make %d values, and it makes %d", len(results), len(n.Out))
	}
	for i := 0; err == nil && i < len(results); i++ {
		if err = p.check(i, results[i]); err == nil && slices.Contains(results[:i], results[i]) {
			err = fmt.Errorf("result %d of its parts is another one too", i)
		}
	}
	if err != nil {
		p.drop()
		return nil, err
	}
	for i, v := range results {
		if err := p.take(i, v); err != nil {
			return nil, err
		}
	}
	g.named().dropNodeName(n)
	last := results[len(results)-1].Node
	g.named().renameNode(last, n.Name)
	return p.nodes, nil
}

// drop removes the parts from the graph.
func (p *Parts) drop() {
	for _, m := range p.nodes {
		p.g.named().dropNode(m)
	}
}

// check returns an error if v, result i of the parts, cannot replace result i of the whole.
func (p *Parts) check(i int, v *Value) error {
	is := p.whole.Out[i]
	switch {
	case v == nil || v.Node == nil || v.Node.Part != p.whole || !slices.Contains(p.nodes, v.Node):
		return fmt.Errorf("no part computes result %d", i)
	case v.Meta.DType != is.Meta.DType || !slices.Equal(v.Meta.Shape, is.Meta.Shape):
		return fmt.Errorf("result %d of its parts is %v, and its own %v", i, v.Meta, is.Meta)
	case !p.whole.Pin.Lays() && (!v.Meta.SameLayout(is.Meta) || (v.Alias == nil) != (is.Alias == nil) && !p.shows(v)):
		return fmt.Errorf("result %d of its parts is laid out as %v, and its own as %v", i, v.Meta, is.Meta)
	}
	return nil
}

// shows reports whether a value is a view of all elements of the result of a part. It then needs no memory of its own.
func (p *Parts) shows(v *Value) bool {
	home := v.Home()
	return slices.Contains(p.nodes, home.Node) && home.Meta.DType == v.Meta.DType && home.Meta.Offset == v.Meta.Offset &&
		home.Meta.Numel() == v.Meta.Numel()
}

// take replaces v, a result of the parts, by result i of the whole.
func (p *Parts) take(i int, v *Value) error {
	own, maker := p.whole.Out[i], v.Node
	p.g.named().dropValue(v)
	maker.Out[v.Index] = own
	for _, m := range p.nodes {
		for k := range m.In {
			if m.In[k].Value == v {
				m.In[k].Value = own
			}
		}
		for _, o := range m.Out {
			if o.Alias == v {
				o.Alias = own
			}
		}
	}
	own.Node, own.Index, own.Alias = maker, v.Index, v.Alias
	if p.whole.Pin.Lays() {
		maker.Pin = Pin{Format: p.whole.Pin.Format, Order: p.whole.Pin.Order}
		return maker.Infer()
	}
	own.Type, own.Meta = v.Type, v.Meta
	return nil
}

// Around describes the graph around a node that an op may rewrite.
type Around struct {
	// Alone reports whether a value is needed only by this node: it is no output, and all its readers are this node or
	// nodes that only this node needs.
	Alone func(*Value) bool
	// Made returns values that earlier rewrites have computed from a value and nothing else, so that the op can reuse
	// them. It may be nil.
	Made func(*Value) []*Value
	// Exact means that results must be the same for all operands.
	Exact bool
	// Pinned means that the graph has pinned nodes. A rewrite that would bypass a pinned node is dropped.
	Pinned bool
}

// Rewrite is the answer of [Op.Rewrite] for a node.
type Rewrite struct {
	// Results replace the results of the node, as in [Op.Decompose]. Nil: the node is unchanged.
	Results []*Value
	// Of is the first node before it that the rewrite made unnecessary. If the node is unchanged, Of is the node that
	// could have become unnecessary. Nil: there is none.
	Of *Node
	// Why describes the new computation, or is the reason why the node is unchanged. It may be empty.
	Why string
}

// Rewrite calls [Op.Rewrite] of a node's op, in a graph whose nodes are inferred. If there are results, the parts
// replace the node as those of [Graph.Decompose] do. It is for passes.
func (g *Graph) Rewrite(n *Node, a Around) (Rewrite, []*Node, error) {
	if n == nil || n.Op == nil || n.Op.Rewrite == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return Rewrite{}, nil, errors.New("it is not in the graph, or its op has no Rewrite")
	}
	p := &Parts{g: g, whole: n}
	r, err := n.Op.Rewrite(p, n.Call(), a)
	if err == nil && r.Results == nil {
		if len(p.nodes) > 0 {
			err = errors.New("it has parts that stand for nothing")
		} else {
			return r, nil, nil
		}
	}
	if err == nil && a.Pinned {
		if m := p.passed(); m != nil {
			p.drop()
			return Rewrite{Of: m, Why: "would not keep the pin of " + m.Name}, nil, nil
		}
	}
	nodes, err := p.stand(r.Results, err)
	return r, nodes, err
}

// passed returns a pinned node that the whole depends on and the parts bypass; nil if there is none.
func (p *Parts) passed() *Node {
	seen := map[*Value]bool{}
	for _, m := range p.nodes {
		for _, a := range m.In {
			for v := a.Value; v != nil && !seen[v]; {
				seen[v] = true
				if n := v.Node; n != nil && n.Part != nil && len(n.In) == 1 { // a part that nodes share
					v = n.In[0].Value
				}
			}
		}
	}
	for todo := []*Node{p.whole}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n != p.whole && n.Pin != (Pin{}) {
			return n
		}
		for _, a := range n.In {
			if v := a.Value; a.Kind == TensorArg && v.Node != nil && !seen[v] {
				seen[v] = true
				todo = append(todo, v.Node)
			}
		}
	}
	return nil
}

// Whole returns the node that the parts replace.
func (p *Parts) Whole() *Node {
	if p == nil {
		return nil
	}
	return p.whole
}

// Again adds a copy of n, a node of the graph, with other operands, and returns its results.
func (p *Parts) Again(n *Node, in ...Arg) ([]*Value, error) {
	if p == nil || p.g == nil || p.whole == nil || n == nil || n.Op == nil {
		return nil, errors.New("parts are nodes like others in a graph")
	}
	m := &Node{Name: p.g.Fresh(p.whole.Name + "." + n.Op.Name), Op: n.Op, In: slices.Clone(in), Attrs: n.Attrs,
		Why: p.whole.Why, Part: p.whole, attrs: n.attrs}
	if err := p.g.insertNode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", n.Op.Name, err)
	}
	p.nodes = append(p.nodes, m)
	return m.Out, nil
}
