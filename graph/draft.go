package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Draft is a graph in the making whose nodes may use values that are declared after them, and that goes on
// past nodes which will not do: what the readers of graph files need. Nodes are declared, then completed
// once all values are known. The graph is as good as one that was built when [Graph.Sort] and inference
// returned no error.
type Draft struct {
	g    *Graph
	slab slab
}

// slab hands out nodes, values and operands from blocks: hundreds of thousands of allocations of their own
// take longer than to read a file.
type slab struct {
	nodes  []Node
	values []Value
	outs   []*Value
}

const slabSize = 256

// take returns n fresh elements of the block, which is replaced when it is used up.
func take[T any](block *[]T, n int) []T {
	if len(*block) < n {
		*block = make([]T, max(n, slabSize))
	}
	out := (*block)[:n:n]
	*block = (*block)[n:]
	return out
}

// NewDraft returns an empty graph with room for a number of nodes; places may be nil.
func NewDraft(lookup Lookup, nodes int, places Places) *Draft {
	nodes = min(max(nodes, 0), maxRoom)
	g := New("", lookup)
	g.names, g.Nodes, g.places = newNames(nodes), make([]*Node, 0, nodes), places
	return &Draft{g: g}
}

// maxRoom bounds what is taken for nodes before there are any.
const maxRoom = 1 << 20

// Graph returns the graph as far as it was made.
func (d *Draft) Graph() *Graph { return d.graph() }

func (d *Draft) graph() *Graph {
	if d == nil || d.g == nil {
		panic("graph: a Draft is made by NewDraft")
	}
	return d.g
}

// Layout returns the memory format or the order in which an input or a constant was declared; the
// zero Pin where it was declared by strides, or as row-major.
func (v *Value) Layout() Pin {
	if v == nil || v.decl == nil {
		return Pin{}
	}
	return v.decl.Layout
}

// Input declares an input. Symbols among its sizes are to be made known in [Graph.Symbols], and bound by
// [Graph.BindOnly] when all was read; they stand for 0 until then.
func (d *Draft) Input(name string, decl Decl) (*Value, error) {
	g := d.graph()
	m, err := decl.unbound()
	if err != nil {
		return nil, err
	}
	v := &Value{Name: name, graph: g}
	if decl.symbolic() {
		v.Dims = decl.Dims
	}
	if decl.symbolic() || decl.Layout.Lays() {
		v.decl = &decl
	}
	if err := d.declare(v, m); err != nil {
		return nil, err
	}
	g.Inputs = append(g.Inputs, v)
	return v, nil
}

// Constant declares a constant. The graph keeps t, which must have that layout.
func (d *Draft) Constant(name string, layout Pin, t *tensor.Tensor) (*Value, error) {
	g := d.graph()
	if err := t.Check(); err != nil {
		return nil, err
	}
	v := &Value{Name: name, Const: t, graph: g}
	if layout.Lays() {
		v.decl = &Decl{DType: t.DType, Layout: layout}
	}
	if err := d.declare(v, t.Meta); err != nil {
		return nil, err
	}
	g.Constants = append(g.Constants, v)
	return v, nil
}

func (d *Draft) declare(v *Value, m tensor.Meta) error {
	names := d.g.named()
	if v.Name == "" || names.values[v.Name] != nil {
		return d.g.nameError(v.Name)
	}
	v.SetMeta(m)
	d.g.number(v)
	names.values[v.Name] = v
	return nil
}

// Node declares a node, which makes values of the given names, or one of its own. What its op and its
// operands are, [Draft.Complete] gets. After errors the node is there, without the values whose
// names were rejected; a node without a name, or with another's, is not (nil).
func (d *Draft) Node(name string, outputs []string) (*Node, []error) {
	g := d.graph()
	names := g.named()
	if name == "" {
		return nil, []error{errors.New("node without a name")}
	}
	before := names.values[name]
	if before != nil && names.node(name) != nil || names.nodes[name] != nil {
		return nil, []error{fmt.Errorf("two nodes are named %q", name)}
	}
	n := &take(&d.slab.nodes, 1)[0]
	n.Name = name
	g.numberNode(n)
	g.Nodes = append(g.Nodes, n)
	n.Out = take(&d.slab.outs, max(len(outputs), 1))
	vals := take(&d.slab.values, len(n.Out))
	var errs []error
	for i := range vals {
		v := &vals[i]
		v.Name, v.Node, v.Index, v.graph = name, n, i, g
		if len(outputs) > 0 {
			v.Name = outputs[i]
		}
		n.Out[i] = v
		if len(outputs) > 0 {
			before = names.values[v.Name]
		}
		if v.Name == "" || before != nil {
			errs = append(errs, g.nameError(v.Name))
			continue
		}
		g.number(v)
		names.values[v.Name] = v
	}
	if len(outputs) > 0 || errs != nil {
		names.addNode(n)
	}
	return n, errs
}

// Op returns an op of the catalogue. Where there is none it says so, and returns one that stands for it in
// nodes that are to be rejected.
func (d *Draft) Op(name string) (*Op, error) {
	g := d.graph()
	op, err := g.find(name)
	if op == nil {
		if err == nil {
			err = NoOp(name, g.lookup)
		}
		op = unknownOp(name)
	}
	return op, err
}

// NodeAttrs are the attributes of a node: they are decoded once for all nodes that share them.
type NodeAttrs struct {
	attrs   *attributes
	numbers []any // those that stand for operands
	decoded any   // nil where that is left to inference
}

// Attributes prepares attributes for nodes of an op. Values of the graph are written as [Ref], symbols as strings.
func (d *Draft) Attributes(op *Op, given Attrs) *NodeAttrs {
	if op == nil || op.Schema == nil {
		return &NodeAttrs{}
	}
	if len(given) == 0 && op.Schema.zero != nil {
		return &NodeAttrs{decoded: op.Schema.zero}
	}
	rest, numbers := op.splitNumbers(given)
	a := &NodeAttrs{attrs: attributesOf(rest), numbers: numbers}
	if len(d.graph().Symbols) == 0 {
		a.decoded, _ = (&Node{Op: op, attrs: a.attrs}).decode(nil)
	}
	return a
}

// Complete gives a node its op, operands and attributes; nil stands for none. That they will not do is
// what inference tells of the node, and [Draft.Refused] before. The node keeps in.
func (d *Draft) Complete(n *Node, op *Op, in []Arg, a *NodeAttrs) {
	if n == nil || op == nil {
		return
	}
	if a == nil {
		a = d.Attributes(op, nil)
	}
	d.graph()
	n.Op, n.In, n.attrs, n.Attrs = op, in, a.attrs, a.decoded
	err := n.takeNumbers(a.numbers)
	n.trim()
	if err == nil {
		err = n.checkCall()
	}
	if err != nil {
		d.Refuse(n, err)
	}
}

// Refuse makes inference reject a node, with the reason. The first one stays.
func (d *Draft) Refuse(n *Node, err error) {
	if g := d.graph(); n != nil && err != nil && len(n.Out) > 0 && n.Out[0].graph == g {
		g.rejectNode(n, err)
	}
}

// Without rejects the nodes that read inputs and constants which cannot be had, and drops those and the
// outputs that are such. It returns the errors of the outputs.
func (d *Draft) Without(lost map[*Value]bool) Errors {
	g := d.graph()
	if len(lost) == 0 {
		return nil
	}
	for _, n := range g.Nodes {
		for i := range n.deps() {
			if v := n.dep(i); lost[v] {
				d.Refuse(n, absent(v))
			}
		}
	}
	var errs Errors
	g.Outputs = slices.DeleteFunc(g.Outputs, func(o Output) bool {
		if lost[o.Value] {
			errs = append(errs, g.FailOutput(o, absent(o.Value)))
		}
		return lost[o.Value]
	})
	gone := func(v *Value) bool { return lost[v] }
	g.Inputs, g.Constants = slices.DeleteFunc(g.Inputs, gone), slices.DeleteFunc(g.Constants, gone)
	return errs
}

// Sort puts the nodes into order; see [Graph.Sort]. With cut it goes on past cycles: the first node of each
// is left to inference, which rejects it, and all others of the cycle depend on it.
func (d *Draft) Sort(cut bool) error {
	g := d.graph()
	err := g.Sort()
	for range maxErrors {
		cycles, ok := err.(Errors)
		if !ok || !cut {
			break
		}
		for _, e := range cycles {
			n := g.named().node(e.Node)
			d.Refuse(n, e.Err)
			n.In, n.attrs = nil, nil
		}
		err = g.Sort()
	}
	return err
}

// Refused returns why inference will reject a completed node, as far as it is known before; else nil.
func (d *Draft) Refused(n *Node) error {
	g := d.graph()
	switch {
	case n == nil:
		return nil
	case g.rejected[n.number] != nil:
		return g.rejected[n.number]
	case n.Op == nil || n.Attrs != nil || len(g.Symbols) > 0:
		return nil
	}
	_, err := n.decode(nil)
	return err
}

// Warn adds a warning: see [Graph.Warnings].
func (d *Draft) Warn(e *Error) {
	if e != nil {
		d.graph().warn(e)
	}
}

// Decl is how an input or a constant is declared: its layout by name or by strides. Sizes, strides and the
// offset of an input may depend on symbols.
type Decl struct {
	DType tensor.DType
	Dims  []Dim
	// Layout is a memory format or an order; without one, and without Strides, the value is row-major.
	Layout  Pin
	Strides []Dim
	Offset  Dim
}

// Type returns what is declared for the given values of symbols. The error names a symbol without a value,
// or what no sizes allow.
func (d Decl) Type(symbols map[string]sym.Int) (tensor.Type, error) {
	t := tensor.Type{DType: d.DType, Shape: make([]sym.Int, len(d.Dims))}
	var err error
	list := func(to []sym.Int, from []Dim) {
		for i := 0; i < len(from) && err == nil; i++ {
			to[i], err = from[i].In(symbols)
		}
	}
	list(t.Shape, d.Dims)
	if err == nil {
		t.Offset, err = d.Offset.In(symbols)
	}
	if err != nil {
		return t, err
	}
	if d.Strides != nil {
		t.Strides = make([]sym.Int, len(d.Strides))
		list(t.Strides, d.Strides)
	} else {
		if err := tensor.CheckSizes(d.DType, t.Shape); err != nil {
			return t, err
		}
		p := d.Layout
		if !p.Lays() {
			p.Format = tensor.Contiguous
		}
		o, err := p.For(len(t.Shape))
		if err != nil {
			return t, err
		}
		t.Strides = o.StridesOf(t.Shape)
	}
	if err != nil {
		return t, err
	}
	return t, t.Check()
}

// unbound returns what is declared before symbols have values: what depends on them is 0.
func (d Decl) unbound() (tensor.Meta, error) {
	if !d.symbolic() {
		t, err := d.Type(nil)
		if err != nil {
			return tensor.Meta{}, err
		}
		m, _ := t.Meta()
		return m, nil
	}
	plain := func(list []Dim) []Dim {
		list = slices.Clone(list)
		for i := range list {
			list[i].Symbol, list[i].Expr = "", ""
		}
		return list
	}
	d.Dims, d.Strides, d.Offset = plain(d.Dims), plain(d.Strides), plain([]Dim{d.Offset})[0]
	return d.unbound()
}

// symbolic reports whether the declaration depends on symbols.
func (d *Decl) symbolic() bool { return d.some(func(x Dim) bool { return !x.IsNumber() }) }

// uses reports whether the declaration depends on a symbol.
func (d *Decl) uses(symbol string) bool { return d.some(func(x Dim) bool { return x.uses(symbol) }) }

func (d *Decl) some(is func(Dim) bool) bool {
	return slices.ContainsFunc(d.Dims, is) || slices.ContainsFunc(d.Strides, is) || is(d.Offset)
}

// Declared returns how the input was declared: with sizes, strides and an offset as written, where these depend on
// symbols. The slices must not be written. Of other values only the dtype and the layout are given.
func (v *Value) Declared() Decl {
	if v == nil || v.decl == nil {
		return Decl{}
	}
	return *v.decl
}
