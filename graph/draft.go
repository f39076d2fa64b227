package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Draft builds a graph from a file. In contrast to the builder methods of [Graph], a Draft accepts nodes that use
// values declared later, and continues after invalid nodes. It has three phases. First, all inputs, constants and nodes
// are declared, with their names and the names of results. Each node is then completed with its op, operands ([Arg])
// and attributes ([Attrs]). Last, the nodes are sorted and inferred. Inference reports the invalid nodes. For example,
// without error checks:
//
//	d := graph.NewDraft(kernels.Lookup, 1, nil)
//	x, _ := d.Input("x", graph.Decl{DType: tensor.Float32, Dims: graph.Numbers(2, 3)})
//	y, _ := d.Node("y", nil)
//	op, _ := d.Op("softmax")
//	d.Complete(y, op, []graph.Arg{graph.ArgOf(x)}, d.Attributes(op, graph.Attrs{"dim": 1}))
//	d.Sort(false)
//	d.Graph().Infer()
type Draft struct {
	g    *Graph
	slab slab
}

// NewDraft returns an empty draft with memory for the given number of nodes. lookup finds ops by name. places has the
// positions of nodes in the file, for error messages; places may be nil.
func NewDraft(lookup Lookup, nodes int, places Places) *Draft {
	nodes = min(max(nodes, 0), maxReserved)
	g := New("", lookup)
	g.names, g.Nodes, g.places = newNameIndex(nodes), make([]*Node, 0, nodes), places
	return &Draft{g: g}
}

// maxReserved is the maximum number of nodes for which NewDraft reserves memory.
const maxReserved = 1 << 20

// Graph returns the graph in its present state.
func (d *Draft) Graph() *Graph { return d.graph() }

// graph returns the graph under construction. It panics for a zero Draft.
func (d *Draft) graph() *Graph {
	if d == nil || d.g == nil {
		panic("graph: a Draft is made by NewDraft")
	}
	return d.g
}

// Input declares an input. The caller adds the symbols in its sizes to [Graph.Symbols]. When the file has been read,
// the caller binds the symbols to sizes by [Graph.BindWithoutInference]; until then, sizes that depend on symbols are
// 0.
func (d *Draft) Input(name string, decl Decl) (*Value, error) {
	g := d.graph()
	meta, err := decl.unbound()
	if err != nil {
		return nil, err
	}
	input := &Value{Name: name, graph: g}
	if decl.symbolic() {
		input.Dims = decl.Dims
	}
	if decl.symbolic() || decl.Layout.SetsLayout() {
		input.decl = &decl
	}
	if err := d.declare(input, meta); err != nil {
		return nil, err
	}
	g.Inputs = append(g.Inputs, input)
	return input, nil
}

// Constant declares a constant. The graph keeps t, which must have the given layout.
func (d *Draft) Constant(name string, layout Pin, t *tensor.Tensor) (*Value, error) {
	g := d.graph()
	if err := t.Check(); err != nil {
		return nil, err
	}
	constant := &Value{Name: name, Const: t, graph: g}
	if layout.SetsLayout() {
		constant.decl = &Decl{DType: t.DType, Layout: layout}
	}
	if err := d.declare(constant, t.Meta); err != nil {
		return nil, err
	}
	g.Constants = append(g.Constants, constant)
	return constant, nil
}

// declare sets the layout and the number of a new input or constant, and enters its name. It fails if the name is empty
// or taken.
func (d *Draft) declare(v *Value, meta tensor.Meta) error {
	names := d.g.nameIndex()
	if v.Name == "" || names.values[v.Name] != nil {
		return d.g.nameError(v.Name)
	}
	v.SetMeta(meta)
	d.g.assignNumber(v)
	names.values[v.Name] = v
	return nil
}

// Node declares a node whose results have the names in outputs. Without outputs it has one result, which has the node's
// name. [Draft.Complete] sets its op and operands. Node returns nil and an error if the name is empty or belongs to
// another node. It also returns an error for each invalid name of a result; such a result has no entry in the index of
// names.
func (d *Draft) Node(name string, outputs []string) (*Node, []error) {
	g := d.graph()
	names := g.nameIndex()
	if name == "" {
		return nil, []error{errors.New("a node needs a name")}
	}
	if names.node(name) != nil {
		return nil, []error{fmt.Errorf("two nodes are named %q", name)}
	}
	n := &takeFrom(&d.slab.nodes, 1)[0]
	n.Name = name
	g.assignNodeNumber(n)
	g.Nodes = append(g.Nodes, n)
	errs := d.addResults(n, outputs)
	isFoundByResult := len(outputs) == 0 && errs == nil // names.node finds n by the result of the same name
	if !isFoundByResult {
		names.addNode(n)
	}
	return n, errs
}

// addResults adds results with the given names to a node, or one result with the node's name. It returns an error for
// each invalid name.
func (d *Draft) addResults(n *Node, outputs []string) (errs []error) {
	names := d.g.nameIndex()
	n.Out = takeFrom(&d.slab.outs, max(len(outputs), 1))
	values := takeFrom(&d.slab.values, len(n.Out))
	for i := range values {
		v := &values[i]
		v.Name, v.Node, v.Index, v.graph = n.Name, n, i, d.g
		if len(outputs) > 0 {
			v.Name = outputs[i]
		}
		n.Out[i] = v
		if v.Name == "" || names.values[v.Name] != nil {
			errs = append(errs, d.g.nameError(v.Name))
			continue
		}
		d.g.assignNumber(v)
		names.values[v.Name] = v
	}
	return errs
}

// slab allocates nodes and values in blocks of slabSize. A separate allocation for each node and value would take
// longer than reading the file. Each field is the unused part of the current block.
type slab struct {
	nodes  []Node
	values []Value
	outs   []*Value // for Node.Out
	ins    []Arg    // for Node.In
}

// slabSize is the number of elements of a block.
const slabSize = 256

// takeFrom removes the first count elements from the block and returns them. If the block has fewer elements, takeFrom
// first replaces it by a new block.
func takeFrom[T any](block *[]T, count int) []T {
	if len(*block) < count {
		*block = make([]T, max(count, slabSize))
	}
	taken := (*block)[:count:count]
	*block = (*block)[count:]
	return taken
}

// Op returns the op with a name. If there is no such op, it returns an error and a placeholder op. Inference rejects
// nodes with this placeholder.
func (d *Draft) Op(name string) (*Op, error) {
	g := d.graph()
	op, err := g.findOp(name)
	if op == nil {
		if err == nil {
			err = UnknownOp(name, g.lookup)
		}
		op = placeholderOp(name)
	}
	return op, err
}

// NodeAttrs are the attributes of one or more nodes. They are decoded once for all nodes that share them.
type NodeAttrs struct {
	undecoded *attributes
	numbers   []any // numbers given as attributes in place of operands, indexed by operand: see splitNumbers
	decoded   any   // pointer to the op's struct of attributes; nil if inference must decode them
}

// Attributes prepares attributes for nodes of an op. In the map `given`, a [ValueRef] refers to a value of the graph,
// and a string may be an expression over symbols. If the graph has no symbols, Attributes decodes the attributes.
// Inference reports errors of decoding.
func (d *Draft) Attributes(op *Op, given Attrs) *NodeAttrs {
	if op == nil || op.Schema == nil {
		return &NodeAttrs{}
	}
	if len(given) == 0 && op.Schema.defaultAttrs != nil {
		return &NodeAttrs{decoded: op.Schema.defaultAttrs}
	}
	otherAttrs, numbers := op.splitNumbers(given)
	prepared := &NodeAttrs{undecoded: attributesOf(otherAttrs), numbers: numbers}
	if len(d.graph().Symbols) == 0 {
		prepared.decoded, _ = (&Node{Op: op, undecoded: prepared.undecoded}).decode(nil)
	}
	return prepared
}

// Complete sets the op, operands and attributes of a node; attrs may be nil. If an operand or attribute is
// invalid, inference will reject the node, and [Draft.Refused] returns the reason. The node keeps the operand
// slice, so the caller must not reuse it.
func (d *Draft) Complete(n *Node, op *Op, operands []Arg, attrs *NodeAttrs) {
	if n == nil || op == nil {
		return
	}
	if attrs == nil {
		attrs = d.Attributes(op, nil)
	}
	d.graph() // panics for a zero Draft
	n.Op, n.In, n.undecoded, n.Attrs = op, operands, attrs.undecoded, attrs.decoded
	err := cmp.Or(n.addNumbers(attrs.numbers), n.moveNumbers())
	n.trimAbsent() // absent operands at the end
	if err == nil {
		err = n.checkCall()
	}
	if err != nil {
		d.Reject(n, err)
	}
}

// Reject makes inference reject a node with err as the reason. Only the first reason is kept.
func (d *Draft) Reject(n *Node, err error) {
	if g := d.graph(); n != nil && err != nil && len(n.Out) > 0 && n.Out[0].graph == g {
		g.rejectNode(n, err)
	}
}

// Refused returns the reason for rejecting a completed node, if it is known before inference; otherwise nil.
func (d *Draft) Refused(n *Node) error {
	g := d.graph()
	switch {
	case n == nil:
		return nil
	case g.rejected[n.number] != nil:
		return g.rejected[n.number]
	case n.Op == nil || n.Attrs != nil || len(g.Symbols) > 0: // not completed, already decoded, or decoded by inference
		return nil
	}
	_, err := n.decode(nil) // the attributes could not be decoded, or depend on data
	return err
}

// RemoveUnavailable removes the inputs and constants that could not be read: the unavailable values. It rejects the
// nodes that read unavailable values. It also removes the outputs that are unavailable values, and returns an error for
// each removed output.
func (d *Draft) RemoveUnavailable(unavailable map[*Value]bool) Errors {
	g := d.graph()
	if len(unavailable) == 0 {
		return nil
	}
	for _, n := range g.Nodes {
		for i := range n.dependencyCount() {
			if v := n.dependency(i); unavailable[v] {
				d.Reject(n, unavailableError(v))
			}
		}
	}
	var errs Errors
	g.Outputs = slices.DeleteFunc(g.Outputs, func(output Output) bool {
		if unavailable[output.Value] {
			errs = append(errs, g.OutputError(output, unavailableError(output.Value)))
		}
		return unavailable[output.Value]
	})
	isUnavailable := func(v *Value) bool { return unavailable[v] }
	g.Inputs, g.Constants = slices.DeleteFunc(g.Inputs, isUnavailable), slices.DeleteFunc(g.Constants, isUnavailable)
	return errs
}

// Sort sorts the nodes so that each follows the nodes that it reads: see [Graph.Sort]. If breakCycles is set, Sort also
// succeeds for a graph with cycles. It removes the operands and the undecoded attributes of the first node of each
// cycle, because they may refer to values of the cycle. Inference will reject this node and the nodes that depend on
// it.
func (d *Draft) Sort(breakCycles bool) error {
	g := d.graph()
	err := g.Sort()
	for range maxErrors { // each round breaks the cycles that Sort reported; other cycles may remain
		cycles, ok := err.(Errors)
		if !ok || !breakCycles {
			break
		}
		for _, cycleErr := range cycles {
			n := g.nameIndex().node(cycleErr.Node)
			d.Reject(n, cycleErr.Err)
			n.In, n.undecoded = nil, nil
		}
		err = g.Sort()
	}
	return err
}

// Warn adds a warning: see [Graph.Warnings].
func (d *Draft) Warn(e *Error) {
	if e != nil {
		d.graph().warn(e)
	}
}

// Decl is the declaration of an input or a constant. Its layout is given by name or by strides. Sizes, strides and the
// offset of an input may depend on symbols: a [Dim] is a number, a symbol or an expression. For example, a
// channels-last input of n images of 3 x 32 x 32 pixels is
//
//	Decl{DType: tensor.Float32, Dims: []Dim{{Symbol: "n"}, {Size: 3}, {Size: 32}, {Size: 32}},
//		Layout: Pin{Format: tensor.ChannelsLast}}
//
// The functions below compute the layout of a Decl, as a [tensor.Type] if sizes may be unknown, or as a [tensor.Meta]
// if all sizes are numbers.
type Decl struct {
	DType tensor.DType
	Dims  []Dim
	// Layout is a memory format or an order. If Layout is zero and Strides is nil, the value is row-major.
	Layout  Pin
	Strides []Dim
	Offset  Dim
}

// Type returns the declared type for the given values of symbols. It fails if a symbol has no value, or if the type is
// invalid.
func (d Decl) Type(symbols map[string]sym.Int) (tensor.Type, error) {
	declared := tensor.Type{DType: d.DType}
	var err error
	if declared.Shape, err = evaluateDims(d.Dims, symbols); err != nil {
		return declared, err
	}
	if declared.Offset, err = d.Offset.In(symbols); err != nil {
		return declared, err
	}
	if d.Strides != nil {
		declared.Strides, err = evaluateDims(d.Strides, symbols)
	} else {
		declared.Strides, err = d.stridesOfLayout(declared.Shape)
	}
	if err != nil {
		return declared, err
	}
	return declared, declared.Check()
}

// evaluateDims returns the values of sizes or strides for the given values of symbols.
func evaluateDims(dims []Dim, symbols map[string]sym.Int) ([]sym.Int, error) {
	values := make([]sym.Int, len(dims))
	for i, dim := range dims {
		var err error
		if values[i], err = dim.In(symbols); err != nil {
			return values, err
		}
	}
	return values, nil
}

// stridesOfLayout returns the strides of a dense value of the given shape in the declared layout.
func (d Decl) stridesOfLayout(shape []sym.Int) ([]sym.Int, error) {
	if err := tensor.CheckSizes(d.DType, shape); err != nil {
		return nil, err
	}
	layout := d.Layout
	if !layout.SetsLayout() {
		layout.Format = tensor.Contiguous
	}
	order, err := layout.OrderFor(len(shape))
	if err != nil {
		return nil, err
	}
	return order.SymbolicStrides(shape), nil
}

// unbound returns the declared layout before symbols have values. If a size, a stride or the offset depends on symbols,
// it is 0 in this layout.
func (d Decl) unbound() (tensor.Meta, error) {
	if d.symbolic() {
		d.Dims, d.Strides = withoutSymbols(d.Dims), withoutSymbols(d.Strides)
		d.Offset.Symbol, d.Offset.Expr = "", ""
	}
	declared, err := d.Type(nil)
	if err != nil {
		return tensor.Meta{}, err
	}
	meta, _ := declared.Meta() // all sizes are numbers
	return meta, nil
}

// withoutSymbols returns a copy of dims in which sizes or strides that depend on symbols are 0.
func withoutSymbols(dims []Dim) []Dim {
	dims = slices.Clone(dims)
	for i := range dims {
		dims[i].Symbol, dims[i].Expr = "", ""
	}
	return dims
}

// symbolic reports whether the declaration depends on symbols.
func (d *Decl) symbolic() bool { return d.anyDim(func(dim Dim) bool { return !dim.IsNumber() }) }

// DependsOn reports whether a size, a stride or the offset of the declaration depends on a symbol.
func (d Decl) DependsOn(symbol string) bool {
	return d.anyDim(func(dim Dim) bool { return dim.dependsOn(symbol) })
}

// anyDim reports whether match returns true for a size, a stride or the offset of the declaration.
func (d *Decl) anyDim(match func(Dim) bool) bool {
	return slices.ContainsFunc(d.Dims, match) || slices.ContainsFunc(d.Strides, match) || match(d.Offset)
}

// Declared returns the declaration of a value. For an input that depends on symbols, the declaration has the sizes,
// strides and offset as the user wrote them. For other values it has at most the dtype and the layout. The slices must
// not be changed.
func (v *Value) Declared() Decl {
	if v == nil || v.decl == nil {
		return Decl{}
	}
	return *v.decl
}

// Layout returns the memory format or the order with which an input or a constant was declared. It returns the zero Pin
// if the value was declared by strides or as row-major.
func (v *Value) Layout() Pin {
	if v == nil || v.decl == nil {
		return Pin{}
	}
	return v.decl.Layout
}
