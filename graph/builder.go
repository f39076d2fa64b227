package graph

//go:generate go run ../kernels/internal/genbuilder -o ops_gen.go

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Input adds an input of row-major layout. A mistake, here as in all builder methods, is
// kept until [Graph.Err].
func (g *Graph) Input(name string, d tensor.DType, shape ...int) *Value {
	return g.InputMeta(name, tensor.Meta{DType: d, Shape: shape, Strides: tensor.ContiguousStrides(shape)})
}

// InputFormat adds a dense input in a memory format.
func (g *Graph) InputFormat(name string, d tensor.DType, f tensor.MemoryFormat, shape ...int) *Value {
	m, err := tensor.NewFormat(d, shape, f)
	if err != nil {
		g.mistake(fmt.Errorf("input %q: %w", name, err))
		m, f = tensor.New(d, shape...), tensor.NoFormat
	}
	v := g.InputMeta(name, m)
	v.format, v.strided = f, false
	return v
}

// InputMeta adds an input of any layout.
func (g *Graph) InputMeta(name string, m tensor.Meta) *Value {
	v := &Value{Name: name, Meta: m, graph: g, at: -1}
	if err := m.Check(); err != nil {
		g.mistake(fmt.Errorf("input %q: %w", name, err))
		v.Meta = tensor.New(tensor.Float32)
	}
	v.strided = !slices.Equal(v.Meta.Strides, tensor.ContiguousStrides(v.Meta.Shape))
	g.Inputs = append(g.Inputs, v)
	g.addValue(v)
	return v
}

// InputDims adds an input with symbolic sizes, in a memory format or, for NoFormat,
// row-major. Symbols without bounds ([Graph.Symbols]) are made known. Until [Graph.Bind]
// they have the least size over 1 within their bounds, and are among [Graph.Assumed].
func (g *Graph) InputDims(name string, d tensor.DType, f tensor.MemoryFormat, dims ...Dim) *Value {
	v := &Value{Name: name, Meta: tensor.Meta{DType: d}, Dims: dims, format: f, graph: g, at: -1}
	for _, dim := range dims {
		if dim.Symbol == "" {
			continue
		}
		if g.Symbols == nil {
			g.Symbols = map[string]Bounds{}
		}
		if _, ok := g.Symbols[dim.Symbol]; !ok {
			g.Symbols[dim.Symbol] = Bounds{}
		}
		if _, ok := g.bound[dim.Symbol]; !ok {
			if g.bound == nil {
				g.bound = map[string]int{}
			}
			g.bound[dim.Symbol] = g.Symbols[dim.Symbol].least()
			g.Assume(dim.Symbol, g.bound[dim.Symbol])
		}
	}
	if err := v.setShape(sizes(dims, g.bound)); err != nil {
		g.mistake(fmt.Errorf("input %q: %w", name, err))
		v.Meta, v.Dims, v.format = tensor.New(tensor.Float32), nil, tensor.NoFormat
	}
	g.Inputs = append(g.Inputs, v)
	g.addValue(v)
	return v
}

// Constant adds a value whose data is known. The graph keeps t.
func (g *Graph) Constant(name string, t *tensor.Tensor) *Value {
	v := &Value{Name: name, Meta: t.Meta, Const: t, graph: g, at: -1}
	g.Constants = append(g.Constants, v)
	g.addValue(v)
	return v
}

// Output names a value as a result.
func (g *Graph) Output(name string, v *Value) *Graph { return g.OutputFormat(name, v, tensor.NoFormat) }

// OutputFormat names a value as a result that must be handed over in a memory format.
func (g *Graph) OutputFormat(name string, v *Value, f tensor.MemoryFormat) *Graph {
	switch {
	case v == nil:
		g.mistake(fmt.Errorf("output %q has no value", name))
		return g
	case v.refused:
		return g
	case v.graph != g:
		g.mistake(fmt.Errorf("output %q: value %q is of another graph", name, v.Name))
		return g
	case f == tensor.Preserve:
		g.mistake(fmt.Errorf("output %q: memory format preserve cannot be demanded", name))
		return g
	}
	for _, o := range g.Outputs {
		if o.Name == name {
			g.mistake(fmt.Errorf("two outputs are named %q", name))
			return g
		}
	}
	g.Outputs = append(g.Outputs, Output{Name: name, Value: v, Pin: f, at: -1})
	return g
}

// Err returns all mistakes made while building, or nil. Each names its node.
func (g *Graph) Err() error { return errors.Join(g.errs...) }

func (g *Graph) mistake(err error) { g.errs = append(g.errs, err) }

func (g *Graph) nameError(name string) error {
	if name == "" {
		return errors.New("a value needs a name")
	}
	return fmt.Errorf("two values are named %q", name)
}

func (g *Graph) addValue(v *Value) {
	if v.Name == "" || g.values[v.Name] != nil {
		g.mistake(g.nameError(v.Name))
		v.Name = g.Fresh("value")
	}
	g.values[v.Name] = v
}

// Apply adds a node for any op of the catalogue and returns its outputs. An operand is a
// *Value, a Go number or bool, or nil for one that is left out. The methods named after
// ops (Add, Conv2d, ...) are short for it.
//
// After a mistake the outputs, as many as the op names, have the meta of a 0-dim float32,
// so that building can go on. What is built on them is left out without a word: the first
// mistake is the one that [Graph.Err] tells.
func (g *Graph) Apply(op string, attrs Attrs, operands ...any) []*Value {
	return g.ApplyN(op, 0, attrs, operands...)
}

// ApplyN is [Graph.Apply] for an op that makes count values when that cannot be told before
// the graph runs; 0 means that it can.
func (g *Graph) ApplyN(op string, count int, attrs Attrs, operands ...any) []*Value {
	n := &Node{Name: g.Fresh(op), Op: g.lookup(op), given: attrs, Variant: -1, at: -1}
	err := g.apply(n, op, operands, count)
	if err == nil {
		return n.Out
	}
	if err != errRefused {
		g.mistake(&Error{Node: n.Name, Op: op, Err: err})
	}
	count = max(count, 1)
	if n.Op != nil {
		count = max(len(n.Op.Outputs), count)
	}
	out := make([]*Value, count)
	for i := range out {
		out[i] = &Value{Name: n.Name, Meta: tensor.New(tensor.Float32), Node: n, Index: i, graph: g, refused: true, at: -1}
	}
	return out
}

// errRefused is the mistake of a node that uses the output of a refused one.
var errRefused = errors.New("depends on a node that was refused")

func (g *Graph) apply(n *Node, op string, operands []any, count int) error {
	if n.Op == nil {
		return NoOp(op, g.lookup)
	}
	for i, o := range operands {
		a, err := argOf(o)
		switch {
		case err != nil:
			return fmt.Errorf("operand %d: %w", i, err)
		case a.Kind == TensorArg && a.Value.refused:
			return errRefused
		case a.Kind == TensorArg && a.Value.graph != g:
			return fmt.Errorf("operand %d: value %q is of another graph", i, a.Value.Name)
		}
		n.In = append(n.In, a)
	}
	n.trim()
	if err := n.checkArity(); err != nil {
		return err
	}
	res, err := n.results(g, count)
	if err != nil {
		return err
	}
	if len(res) == 0 {
		return errors.New("makes no values")
	}
	vals := make([]Value, len(res))
	for i := range res {
		vals[i] = Value{Name: n.Name, Node: n, Index: i, graph: g, at: -1}
		n.Out = append(n.Out, &vals[i])
	}
	if err := n.settle(res); err != nil {
		return err
	}
	g.nodes[n.Name] = n
	for i, v := range n.Out {
		if len(res) > 1 {
			v.Name = g.Fresh(fmt.Sprintf("%s_%d", n.Name, i))
		}
		g.values[v.Name] = v
	}
	g.Nodes = append(g.Nodes, n)
	return nil
}

// results infers the node's outputs. Of one that waits for others to be computed only
// their number is known.
func (n *Node) results(g *Graph, count int) ([]Result, error) {
	n.takeRefs()
	for _, r := range n.refs {
		switch {
		case r.value.refused:
			return nil, errRefused
		case r.value.graph != g:
			return nil, fmt.Errorf("attribute %q: value %q is of another graph", r.attr, r.value.Name)
		}
	}
	a, err := n.decode(g.bound)
	if err != nil {
		return nil, err
	}
	n.Attrs = a
	if n.waits() {
		return slices.Repeat([]Result{{Alias: Fresh, Dynamic: true}}, max(count, len(n.Op.Outputs), 1)), nil
	}
	return n.Op.Infer(&Call{In: n.In, Attrs: a, Variant: -1})
}

// one and several are Apply as the methods named after ops call it: later attributes
// override earlier ones.
func (g *Graph) one(op string, attrs []Attrs, operands ...any) *Value {
	return g.several(op, attrs, operands...)[0]
}

func (g *Graph) several(op string, attrs []Attrs, operands ...any) []*Value {
	var all Attrs
	if len(attrs) == 1 {
		all = attrs[0]
	}
	if len(attrs) > 1 {
		all = Attrs{}
		for _, a := range attrs {
			maps.Copy(all, a)
		}
	}
	return g.Apply(op, all, operands...)
}

// operandList joins single operands and a list that ends them.
func operandList(list []*Value, single ...any) []any {
	for _, v := range list {
		single = append(single, v)
	}
	return single
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

// trim drops operands left out at the end, so that a call has one form.
func (n *Node) trim() {
	for len(n.In) > 0 && n.In[len(n.In)-1].Kind == Null {
		n.In = n.In[:len(n.In)-1]
	}
}

// checkArity checks operands against the op's parameters.
func (n *Node) checkArity() error {
	ps := n.Op.Params
	fixed := len(ps)
	if fixed > 0 && ps[fixed-1].Variadic {
		fixed--
		if err := n.checkList(ps[fixed], fixed); err != nil {
			return err
		}
	} else if len(n.In) > fixed {
		return fmt.Errorf("takes at most %d operands, got %d", len(ps), len(n.In))
	}
	for i, p := range ps[:fixed] {
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

// checkList checks the operands from the first one of a variadic parameter on.
func (n *Node) checkList(p Param, first int) error {
	if len(n.In) <= first {
		if p.Optional {
			return nil
		}
		return errors.New("expected a non-empty list of tensors")
	}
	for i, a := range n.In[first:] {
		if a.Kind == NumberArg && !p.Number || a.Kind == Null && !p.Optional {
			return fmt.Errorf("operand %d of the list must be a tensor", i)
		}
	}
	return nil
}

// Named gives the value, and its node if that makes no other, another name.
func (v *Value) Named(name string) *Value {
	g := v.graph
	switch {
	case v.refused || v.Name == name:
		return v
	case name == "" || g.values[name] != nil || v.Node != nil && len(v.Node.Out) == 1 && g.nodes[name] != nil:
		g.mistake(g.nameError(name))
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

// Pinned demands a memory format of the value's node. What was built on the value is
// inferred again.
func (v *Value) Pinned(f tensor.MemoryFormat) *Value {
	g := v.graph
	switch {
	case v.refused:
		return v
	case v.Node == nil:
		g.mistake(fmt.Errorf("value %q is no node's output: only those can be pinned", v.Name))
		return v
	case f == tensor.Preserve:
		g.mistake(g.Fail(v.Node, errors.New("memory format preserve cannot be demanded")))
		return v
	}
	was := v.Node.Pin
	v.Node.Pin = f
	err := v.Node.Infer()
	if err != nil {
		g.mistake(g.Fail(v.Node, err))
		v.Node.Pin = was
		err = v.Node.Infer()
	}
	if err == nil && g.Nodes[len(g.Nodes)-1] != v.Node {
		if err := g.Infer(); err != nil {
			g.mistake(err)
		}
	}
	return v
}
