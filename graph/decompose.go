package graph

import (
	"errors"
	"fmt"
	"slices"
)

// Parts collects the nodes that stand for one node of a composite op: see [Op.Decompose].
type Parts struct {
	g     *Graph
	whole *Node
	nodes []*Node
}

// Add adds a node and returns what it makes. The op must be one of a catalogue; operands are those of the
// composite call, or what other parts make.
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

// Decompose returns the nodes that stand for a node of a composite op, in a valid order: the values that
// it makes are theirs now, and so is its pin. The caller puts them into Nodes in the node's place. After an
// error the graph is as it was, but for names that were taken. It is for passes.
func (g *Graph) Decompose(n *Node) ([]*Node, error) {
	if n == nil || n.Op == nil || n.Op.Decompose == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return nil, errors.New("it is no node of a composite op in the graph")
	}
	p := &Parts{g: g, whole: n}
	results, err := n.Op.Decompose(p, n.Call())
	return p.stand(results, err)
}

// stand has the parts stand for the whole, whose results are given.
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

// drop takes the parts out of the graph.
func (p *Parts) drop() {
	for _, m := range p.nodes {
		p.g.named().dropNode(m)
	}
}

// check reports where a result is not what the node makes.
func (p *Parts) check(i int, v *Value) error {
	is := p.whole.Out[i]
	switch {
	case v == nil || v.Node == nil || v.Node.Part != p.whole || !slices.Contains(p.nodes, v.Node):
		return fmt.Errorf("result %d is made by none of its parts", i)
	case v.Meta.DType != is.Meta.DType || !slices.Equal(v.Meta.Shape, is.Meta.Shape):
		return fmt.Errorf("result %d of its parts is %v, and its own %v", i, v.Meta, is.Meta)
	case !p.whole.Pin.Lays() && (!v.Meta.SameLayout(is.Meta) || (v.Alias == nil) != (is.Alias == nil) && !p.shows(v)):
		return fmt.Errorf("result %d of its parts is laid out as %v, and its own as %v", i, v.Meta, is.Meta)
	}
	return nil
}

// shows reports whether a value shows all of what another part made: as good as memory of its own.
func (p *Parts) shows(v *Value) bool {
	home := v.Home()
	return slices.Contains(p.nodes, home.Node) && home.Meta.DType == v.Meta.DType && home.Meta.Offset == v.Meta.Offset &&
		home.Meta.Numel() == v.Meta.Numel()
}

// take makes a result of the parts the value that the node made.
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
	// Alone reports whether a node, or nodes that only it needs, are all that reads a value, which is no output.
	Alone func(*Value) bool
	// Made lists the values that earlier rewrites computed from a value alone, so that a rewrite can reuse them. It may be
	// nil.
	Made func(*Value) []*Value
	// Exact says that results must be the same, whatever the operands are.
	Exact bool
	// Pinned says that the graph has pinned nodes. A node is then not rewritten if the rewrite would bypass one.
	Pinned bool
}

// Rewrite is the replacement of a node by [Op.Rewrite], or the reason why there is none.
type Rewrite struct {
	// Results replace the results of the node, as those of [Op.Decompose] do. If nil, the node stays.
	Results []*Value
	// Of is the first producer that the rewrite makes unnecessary. If the node stays, it is the producer that could have
	// been unnecessary. It may be nil.
	Of *Node
	// Why describes the replacement, or the reason why the node stays. It may be empty.
	Why string
}

// Rewrite calls [Op.Rewrite] for a node of a graph whose nodes are typed, and returns the added nodes, which replace
// the node as those of [Graph.Decompose] do. It is for passes.
func (g *Graph) Rewrite(n *Node, a Around) (Rewrite, []*Node, error) {
	if n == nil || n.Op == nil || n.Op.Rewrite == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return Rewrite{}, nil, errors.New("the node is not in the graph, or its op has no Rewrite")
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

// Whole returns the node that the parts stand for.
func (p *Parts) Whole() *Node {
	if p == nil {
		return nil
	}
	return p.whole
}

// Again adds a node like n, one of the graph, which reads other operands, and returns what it makes.
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
