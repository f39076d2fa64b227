package graph

import (
	"errors"
	"fmt"
	"slices"
)

// Around is what an op is told of the graph around a node that it is asked to restate.
type Around struct {
	// Alone reports whether a node, or nodes that only it needs, are all that reads a value, which is no output.
	Alone func(*Value) bool
	// Made lists the values that restatements before have made of a value alone: what is the same need not be made again.
	// It may be nil.
	Made func(*Value) []*Value
	// Exact says that results must be the same, whatever the operands are.
	Exact bool
	// Pinned says that the graph has pinned nodes. A node is then not restated if the restatement would bypass one.
	Pinned bool
}

// Restatement is what an op says of a node that it was asked to restate.
type Restatement struct {
	// Results stand for those of the node, as of [Op.Decompose]; nil: the node stays.
	Results []*Value
	// Of is the node before it that is computed otherwise now, the first of those that nobody needs any more, or, where
	// the node stays, that which could have been; nil: there is none.
	Of *Node
	// Why tells what is computed instead, or why the node stays; empty where there is nothing to tell.
	Why string
}

// Restate asks the op of a node, in a graph whose nodes are typed, to restate it with what comes
// before. Where there are results the parts stand for the node as those of [Graph.Decompose] do. It is for passes.
func (g *Graph) Restate(n *Node, a Around) (Restatement, []*Node, error) {
	if n == nil || n.Op == nil || n.Op.Restate == nil || len(n.Out) == 0 || n.Out[0].graph != g {
		return Restatement{}, nil, errors.New("it is no node of the graph that is restated")
	}
	p := &Parts{g: g, whole: n}
	r, err := n.Op.Restate(p, n.Call(), a)
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
			return Restatement{Of: m, Why: "would not keep the pin of " + m.Name}, nil, nil
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
