package graph

import (
	"context"
	"maps"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Graph is a DAG of ops over values. Build one with [New] and the functions of package op, or load one with
// package graphfile. A Graph is not safe for concurrent changes; compiled programs are independent of it.
type Graph struct {
	Name      string
	Inputs    []*Value
	Constants []*Value
	Nodes     []*Node
	Outputs   []Output
	Symbols   map[string]Bounds

	lookup Lookup
	names  *names
	sizes  map[string]sym.Int // of symbols: numbers once they are bound; see Symbolic
	open   *Symbolic          // what infers the graph for unknown sizes; nil: they are numbers
	errs   []error
	serial int
	// numbered counts the values that have a number, see [ByValue], and nodes the nodes.
	numbered, nodes int

	folded   *folded
	places   Places          // nil for a graph that is not from a file
	rejected map[int32]error // by the numbers of nodes; see Draft.Refuse

	assumed  map[string]int // sizes that were not given; see Assumed
	warnings []*Error
	warned   map[string]bool // their texts; nil until the graph itself is warned about

	ctx context.Context // nil: none; see SetContext
}

// Bounds are the sizes that a symbolic dimension may take. Max 0 means unbounded.
type Bounds struct {
	Min, Max int
	// Hint is the size that is assumed, and planned for, if none is given; nil: the least over 1 within bounds.
	Hint *int
	// Spelled is the name that the symbol has in the file that the graph was made from, where it is another:
	// "batch-size", which is no identifier. Sizes may be given by it, too.
	Spelled string
}

// Value is an input, a constant, or a result of a node. Type is valid once it was
// inferred, which the builder and the loader do; Meta holds the same in numbers. Both are set
// together: see [Value.SetMeta].
type Value struct {
	Name string
	Type tensor.Type
	Meta tensor.Meta
	// Node is the producer and Index its output; Node is nil for inputs and constants.
	Node  *Node
	Index int
	// Dynamic says that the shape is known only when the graph runs; Meta then holds the
	// dtype, if that is known.
	Dynamic bool
	// Alias is the operand whose storage the value shares, the nearest one; else nil.
	Alias *Value
	// Within is the value whose memory contains this one, as a slice: the result of a node that would else copy
	// it there ([Op.ConcatDim]), which has the storage or is within another one itself. Meta is a slice of Within's. Nil
	// for a value that has memory of its own, and for views, whose root tells.
	Within *Value
	// Const holds the data of a constant. Packed is set where these are in the form of an
	// implementation: see [Value.Data].
	Const  *tensor.Tensor
	Packed *Packed
	// Pin is the layout in which all that read an input or a constant want it. A node has its own.
	Pin Pin
	// Dims is the shape as written, for inputs that depend on symbols.
	Dims []Dim

	graph  *Graph
	decl   *Decl // of an input or a constant, where its layout is declared; see Layout
	number int32 // in its graph, see [ByValue]; negative for what stands for a value that was rejected
}

// Node applies an op.
type Node struct {
	Name  string
	Op    *Op
	In    []Arg
	Attrs any
	Out   []*Value
	// Pin is what the user demands: how the outputs must be laid out, and how they are computed.
	Pin Pin
	// Impl is the implementation that the passes chose, and Walk its way through the call; nil before.
	Impl *Impl
	Walk Walk
	// Why tells the reason for a node that a pass inserted; empty for the user's own.
	Why string
	// Part is the node of a composite op of which this one is a part: errors name that node. Nil for other nodes.
	Part *Node

	attrs  *attributes // what Attrs is decoded from; nil if there are none
	number int32       // in its graph, whose Places know it by this
}

// Output names a value as a result of the graph. Pin is the layout in which it must be handed
// over; without one it is that of inference.
type Output struct {
	Name  string
	Value *Value
	Pin   Pin
}

// New returns an empty graph whose ops are found by lookup (kernels.Lookup).
func New(name string, lookup Lookup) *Graph {
	return &Graph{Name: name, lookup: lookup, names: newNames(0), folded: &folded{}}
}

// Op returns an op of the graph's catalogue by name; nil if there is none that [Define]
// made.
func (g *Graph) Op(name string) *Op {
	o, err := g.find(name)
	if err != nil {
		return nil
	}
	return o
}

// Value returns a value by name; nil if there is none.
func (g *Graph) Value(name string) *Value { return g.named().values[name] }

// Values calls f with all values: inputs, constants, then the results of nodes in order.
func (g *Graph) Values(f func(*Value)) {
	if f == nil {
		panic("graph: Values needs a function")
	}
	for _, v := range g.Inputs {
		f(v)
	}
	for _, v := range g.Constants {
		f(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			f(v)
		}
	}
}

// SetMeta lays the value out as m, in Meta and in Type.
func (v *Value) SetMeta(m tensor.Meta) { v.Meta, v.Type = m, m.Type() }

// Root returns the value that owns the storage: v itself unless it is a view.
func (v *Value) Root() *Value {
	for v.Alias != nil {
		v = v.Alias
	}
	return v
}

// Home returns the value whose memory contains v: its root, or the value that contains the root.
func (v *Value) Home() *Value {
	v = v.Root()
	for v.Within != nil {
		v = v.Within
	}
	return v
}

// StorageLen returns the number of elements, of v's dtype, in the storage that v is in.
func (v *Value) StorageLen() sym.Int {
	root := v.Root()
	if !v.Meta.DType.Valid() {
		return sym.Int{} // not inferred
	}
	if root.Const != nil {
		return sym.Of(root.Const.Storage().Len() / v.Meta.DType.Size())
	}
	t := Arg{Kind: TensorArg, Value: root}.Type()
	return t.Extent().Mul(sym.Of(t.DType.Size())).Div(sym.Of(v.Meta.DType.Size()))
}

// Kind tells what the value is: "input", "constant", or the name of its op.
func (v *Value) Kind() string {
	switch {
	case v.Node != nil && v.Node.Op != nil:
		return v.Node.Op.Name
	case v.Const != nil:
		return "constant"
	}
	return "input"
}

// IsView reports whether all of the node's outputs share the storage of its operands, so that there is
// nothing to run.
func (n *Node) IsView() bool {
	for _, v := range n.Out {
		if v.Alias == nil {
			return false
		}
	}
	return true
}

// Call returns the node's call for its op, with the metas of its outputs.
func (n *Node) Call() *Call {
	both := &struct { // most nodes have one output: a single allocation
		Call
		out [1]tensor.Meta
	}{Call: Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk}}
	c := &both.Call
	if c.Out = both.out[:]; len(n.Out) != 1 {
		c.Out = make([]tensor.Meta, len(n.Out))
	}
	for i, v := range n.Out {
		c.Out[i] = v.Meta
		if v.Within != nil {
			c.Out[i].Offset = 0 // kernels are given addresses of first elements
		}
	}
	c.InPlace = n.inPlace()
	return c
}

// Clone returns a copy whose nodes and values a pass may change. Ops, attributes, metas
// and constant data are shared.
func (g *Graph) Clone() *Graph {
	c := &Graph{Name: g.Name, lookup: g.lookup, Symbols: g.Symbols, sizes: g.sizes, open: g.open, serial: g.serial,
		assumed: g.assumed, warnings: g.warnings, numbered: g.numbered, nodes: g.nodes, places: g.places,
		rejected: maps.Clone(g.rejected), folded: g.folded, ctx: g.ctx,
		Nodes: make([]*Node, len(g.Nodes))}
	count, operands := len(g.Inputs)+len(g.Constants), 0
	for _, n := range g.Nodes {
		count, operands = count+len(n.Out), operands+len(n.In)
	}
	values, nodes := make([]Value, 0, count), make([]Node, len(g.Nodes))
	args, outs := make([]Arg, operands), make([]*Value, count)
	to := NewByValue[*Value](g)
	copyValue := func(v *Value, maker *Node) *Value {
		values = append(values, *v)
		w := &values[len(values)-1]
		w.graph, w.Node = c, maker
		to.Set(v, w)
		return w
	}
	for _, v := range g.Inputs {
		c.Inputs = append(c.Inputs, copyValue(v, nil))
	}
	for _, v := range g.Constants {
		c.Constants = append(c.Constants, copyValue(v, nil))
	}
	for i, n := range g.Nodes {
		m := &nodes[i]
		*m = *n
		m.Out = take(&outs, len(n.Out))
		for k, v := range n.Out {
			m.Out[k] = copyValue(v, m)
		}
		c.Nodes[i] = m
	}
	for _, n := range c.Nodes {
		in := take(&args, len(n.In))
		for k, a := range n.In {
			in[k] = a
			in[k].Value = to.At(a.Value)
		}
		n.In = in
		n.attrs = n.attrs.clone(&to)
		for _, v := range n.Out {
			v.Alias, v.Within = to.At(v.Alias), to.At(v.Within)
		}
	}
	for _, o := range g.Outputs {
		o.Value = to.At(o.Value)
		c.Outputs = append(c.Outputs, o)
	}
	c.names = &names{allValues: values, allNodes: nodes}
	return c
}

// Bound returns the sizes that symbols are bound to; the hints of those that are open ([Graph.Symbolic]).
func (g *Graph) Bound() map[string]int {
	bound := make(map[string]int, len(g.sizes))
	for name, s := range g.sizes {
		bound[name] = s.Hint()
	}
	return bound
}

// SetContext sets a context for inference of the graph and of later copies of it: once it has ended, nodes are rejected
// with its cause. Nil stands for none.
func (g *Graph) SetContext(ctx context.Context) { g.ctx = ctx }

// Context returns the context of work on the graph: see [Graph.SetContext]. The default is [context.Background].
func (g *Graph) Context() context.Context {
	if g == nil || g.ctx == nil {
		return context.Background()
	}
	return g.ctx
}

// Ended returns the cause of the graph's context if that has ended.
func (g *Graph) Ended() error {
	if g.ctx == nil {
		return nil
	}
	return interrupt.Err(g.ctx)
}
