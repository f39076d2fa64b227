package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Input adds an input of row-major layout. A mistake, here as in all builder methods, is
// kept until [Graph.Err].
func (g *Graph) Input(name string, d tensor.DType, shape ...int) *Value {
	return g.InputMeta(name, tensor.New(d, shape...))
}

// InputFormat adds a dense input in a memory format.
func (g *Graph) InputFormat(name string, d tensor.DType, f tensor.MemoryFormat, shape ...int) *Value {
	m, err := tensor.NewFormat(d, shape, f)
	if err != nil {
		g.mistake(fmt.Errorf("input %q: %w", name, err))
		m = tensor.New(d, shape...)
	}
	v := g.InputMeta(name, m)
	v.format = f
	return v
}

// InputMeta adds an input of any layout.
func (g *Graph) InputMeta(name string, m tensor.Meta) *Value {
	v := &Value{Name: name, Meta: m, strided: !m.IsContiguous() || m.Offset != 0, at: -1}
	if err := m.Check(); err != nil {
		g.mistake(fmt.Errorf("input %q: %w", name, err))
		v.Meta = tensor.New(tensor.Float32)
	}
	g.Inputs = append(g.Inputs, v)
	g.addValue(v)
	return v
}

// Constant adds a value whose data is known. The graph keeps t.
func (g *Graph) Constant(name string, t *tensor.Tensor) *Value {
	v := &Value{Name: name, Meta: t.Meta, Const: t, at: -1}
	g.Constants = append(g.Constants, v)
	g.addValue(v)
	return v
}

// Output names a value as a result.
func (g *Graph) Output(name string, v *Value) *Graph { return g.OutputFormat(name, v, tensor.NoFormat) }

// OutputFormat names a value as a result that must be handed over in a memory format.
func (g *Graph) OutputFormat(name string, v *Value, f tensor.MemoryFormat) *Graph {
	if v == nil {
		g.mistake(fmt.Errorf("output %q has no value", name))
		return g
	}
	g.Outputs = append(g.Outputs, Output{Name: name, Value: v, Pin: f, at: -1})
	return g
}

// Err returns all mistakes made while building, or nil. Each names its node.
func (g *Graph) Err() error { return errors.Join(g.errs...) }

func (g *Graph) mistake(err error) { g.errs = append(g.errs, err) }

func (g *Graph) addValue(v *Value) {
	if v.Name == "" || g.values[v.Name] != nil {
		if v.Name == "" {
			g.mistake(errors.New("a value needs a name"))
		} else {
			g.mistake(fmt.Errorf("two values are named %q", v.Name))
		}
		v.Name = g.Fresh("value")
	}
	g.values[v.Name] = v
}

// Apply adds a node for any op of the catalogue and returns its outputs. An operand is a
// *Value, a Go number or bool, or nil for one that is left out. The methods named after
// ops (Add, Conv2d, ...) are short for it.
//
// After a mistake the outputs have the meta of a 0-dim float32, so that building can go
// on; see [Graph.Err].
func (g *Graph) Apply(op string, attrs Attrs, operands ...any) []*Value {
	n := &Node{Name: g.Fresh(op), Op: g.lookup(op), given: attrs, Variant: -1, at: -1}
	vals, err := g.apply(n, op, attrs, operands)
	if err != nil {
		g.mistake(&Error{Node: n.Name, Op: op, Err: err})
		return []*Value{{Name: n.Name, Meta: tensor.New(tensor.Float32), Node: n, at: -1}}
	}
	return vals
}

func (g *Graph) apply(n *Node, op string, attrs Attrs, operands []any) ([]*Value, error) {
	if n.Op == nil {
		return nil, fmt.Errorf("there is no op %q", op)
	}
	for i, o := range operands {
		a, err := argOf(o)
		if err != nil {
			return nil, fmt.Errorf("operand %d: %w", i, err)
		}
		n.In = append(n.In, a)
	}
	if err := n.checkArity(); err != nil {
		return nil, err
	}
	a, err := n.Op.Schema.Decode(attrs, g.bound)
	if err != nil {
		return nil, err
	}
	n.Attrs = a
	res, err := n.Op.Infer(&Call{In: n.In, Attrs: a, Variant: -1})
	if err != nil {
		return nil, err
	}
	for i := range res {
		name := n.Name
		if len(res) > 1 {
			name = g.Fresh(fmt.Sprintf("%s_%d", n.Name, i))
		}
		v := &Value{Name: name, Node: n, Index: i, at: -1}
		n.Out = append(n.Out, v)
		g.values[name] = v
	}
	g.nodes[n.Name] = n
	g.Nodes = append(g.Nodes, n)
	return n.Out, n.Infer()
}

func argOf(o any) (Arg, error) {
	switch x := o.(type) {
	case nil:
		return Arg{}, nil
	case *Value:
		if x == nil {
			return Arg{}, nil
		}
		return Arg{Kind: TensorArg, Value: x}, nil
	}
	s, ok := tensor.ScalarOf(o)
	if !ok {
		return Arg{}, fmt.Errorf("want a value or a number, got %T", o)
	}
	return Arg{Kind: NumberArg, Number: s}, nil
}

// checkArity checks operands against the op's parameters.
func (n *Node) checkArity() error {
	ps := n.Op.Params
	if len(ps) == 1 && ps[0].Variadic {
		if len(n.In) == 0 {
			return fmt.Errorf("expected a non-empty list of tensors")
		}
		for i, a := range n.In {
			if a.Kind != TensorArg {
				return fmt.Errorf("operand %d of the list must be a tensor", i)
			}
		}
		return nil
	}
	if len(n.In) > len(ps) {
		return fmt.Errorf("takes at most %d operands, got %d", len(ps), len(n.In))
	}
	for i, p := range ps {
		switch {
		case i >= len(n.In) || n.In[i].Kind == Null:
			if !p.Optional {
				return fmt.Errorf("operand %q is missing", p.Name)
			}
		case n.In[i].Kind == NumberArg && !p.Number:
			return fmt.Errorf("operand %q must be a tensor, not a number", p.Name)
		}
	}
	return nil
}

// Named gives the value, and its node if it is the node's only output, another name.
func (v *Value) Named(g *Graph, name string) *Value {
	if g.values[name] != nil || g.nodes[name] != nil {
		g.mistake(fmt.Errorf("two values are named %q", name))
		return v
	}
	g.Rename(v, name)
	if n := v.Node; n != nil && len(n.Out) == 1 {
		delete(g.nodes, n.Name)
		n.Name = name
		g.nodes[name] = n
	}
	return v
}

// Pinned demands a memory format of the value's node.
func (v *Value) Pinned(g *Graph, f tensor.MemoryFormat) *Value {
	if v.Node == nil {
		g.mistake(fmt.Errorf("value %q is no node's output: only those can be pinned", v.Name))
		return v
	}
	v.Node.Pin = f
	if err := v.Node.Infer(); err != nil {
		g.mistake(g.Fail(v.Node, err))
	}
	return v
}
