package graph

import (
	"errors"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// InferFor infers the node's op for operands of other types, in the order of In, and for given values of symbols, and
// changes nothing: it tells what becomes of unknown sizes. Where the op needs a number in place of one, the
// [sym.Env] gets a guard. Attributes that are values must be constant.
func (n *Node) InferFor(types []tensor.Type, symbols map[string]sym.Int) ([]Result, error) {
	if n.Op == nil || n.Op.Infer == nil || n.Op.Schema == nil {
		return nil, errors.New("the node was not made by a graph")
	}
	attrs, err := n.decode(symbols)
	if err != nil {
		return nil, err
	}
	c := &Call{In: make([]Arg, len(n.In)), Attrs: attrs, Impl: n.Impl, Walk: n.Walk, binds: true}
	for i, a := range n.In {
		if c.In[i] = a; a.Kind == TensorArg && a.Value != nil && i < len(types) {
			c.In[i].Value = &Value{Name: a.Value.Name, Type: types[i], Meta: types[i].AtHints(), Const: a.Value.Const}
		}
	}
	return n.Op.Infer(c)
}

// Results asks the node's op for its results with operands as they now are, and changes nothing. In a graph of
// [Graph.Symbolic] what is not known becomes a guard where it makes a difference.
func (n *Node) Results() ([]Result, error) {
	if n == nil || n.Op == nil || n.Op.Infer == nil || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].graph == nil {
		return nil, errors.New("the node was not made by a graph")
	}
	if open := n.Out[0].graph.open; open != nil && !open.forking {
		return open.joined(n)
	}
	return n.Op.Infer(&Call{In: n.In, Attrs: n.Attrs})
}
