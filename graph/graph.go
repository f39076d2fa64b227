package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Graph is a directed acyclic graph of nodes, which apply ops to values. [New] and the functions of package op build a
// graph, and package graphfile loads one. A Graph is not safe for concurrent changes. Compiled programs do not depend
// on it. For example, the graph of y = relu(x + b) has
//
//	Inputs:    [x]
//	Constants: [b]
//	Nodes:     [sum = add(x, b), y = relu(sum)], where each node has the list of its results in Out
//	Outputs:   [{Name: "y", Value: y}]
type Graph struct {
	Name      string
	Inputs    []*Value
	Constants []*Value
	Nodes     []*Node
	Outputs   []Output
	Symbols   map[string]Bounds
	// Labels has the labels (ONNX-ML) of inputs and outputs, by name. Either the elements of the input or output are
	// indices into the labels, or each row has the values of a map whose keys are the labels. Inference and execution
	// do not read Labels.
	Labels map[string]Labels
	// Texts has the strings of which values of the graph are codes, if any. A run knows them, and those of its inputs.
	Texts *tensor.Texts
	// Metadata has properties of the file, such as the metadata_props of ONNX: exporters write names of classes, sizes of
	// images and the like. Nothing reads it.
	Metadata map[string]string

	lookup Lookup // the catalogue of ops
	names  *nameIndex
	// sizes has the size of each symbol of the graph. After Bind, a size is a number. In a graph that Symbolic made, a
	// size is a symbol of a [sym.Env].
	sizes         map[string]sym.Int
	symbolicState *Symbolic // state of the inference for unknown sizes; nil if all sizes are numbers
	errs          []error   // mistakes made while building; see Err
	nameSerial    int       // last number used in a unique name: see UniqueName
	// valueCount and nodeCount are the numbers of the next new value and node: see [Value.Number].
	valueCount, nodeCount int

	folded     *foldCache      // results of nodes with constant operands; shared by clones and segments
	packedFrom int             // size in bytes from which constants are read packed, or 0; see ReadPacked
	places     Places          // positions in the file, for errors; nil without a file
	rejected   map[int32]error // reasons of rejections, indexed by the numbers of nodes; see Draft.Reject

	assumed  map[string]int // assumed sizes of symbols; see Assumed
	warnings []*Error
	warned   map[string]bool // set of the texts of warnings; nil until this copy of the graph adds a warning

	ctx context.Context // nil: none; see SetContext
}

// Bounds are the sizes that a symbolic dimension may take. Max 0 means unbounded.
type Bounds struct {
	Min, Max int
	// Hint is the assumed size if no size is given. Nil means the smallest size over 1 within the bounds.
	Hint *int
	// NameInFile is the name of the symbol in the file, if it differs from the name in the graph. For example, the name
	// "batch-size" of a file is not an identifier. Sizes may be given by either name.
	NameInFile string
}

// Value is an input, a constant, or a result of a node. Type is valid after inference. Meta is the same type with
// numbers in place of sizes that are expressions. Type and Meta are set together: see [Value.SetMeta].
type Value struct {
	Name string
	Type tensor.Type
	Meta tensor.Meta
	Node *Node // the producer; nil for inputs and constants
	// Index is the position in Node.Out.
	Index int
	// Dynamic means that the shape is known only when the graph runs. Meta then has only the dtype, if it is known.
	Dynamic bool
	// Alias is the operand of Node whose storage the value shares; nil if the value is not a view.
	Alias *Value
	// ContainedIn is the value whose memory contains this value as a slice. It is the result of a concatenation
	// ([Op.ConcatDim]), which need not copy this value. Meta is a slice of ContainedIn.Meta. ContainedIn may be
	// contained in another value. ContainedIn is nil for a value with separate memory. It is also nil for a view: see
	// ContainedIn of the view's [Value.Root]. The result of an op that Stores is within operand 0, an input whose memory
	// extends beyond its Meta.
	ContainedIn *Value
	// Const has the data of a constant. Packed is set if these data are in the packed form of an implementation;
	// [Value.Data] returns the unpacked data.
	Const  *tensor.Tensor
	Packed *Packed
	// Default is the tensor of an input for runs that do not give one; nil if each run must give one.
	Default *tensor.Tensor
	// Pin is the layout in which all nodes must read an input or a constant. For the result of a node, the Pin of the
	// node applies instead.
	Pin Pin
	// Dims is the shape as the user wrote it, for an input whose sizes depend on symbols; nil for other values.
	Dims []Dim

	graph  *Graph
	decl   *Decl // the declaration of an input or a constant, if its layout is declared; see Layout
	number int32 // number in the graph; negative for a placeholder: see [Value.Number]
}

// Node applies an op.
type Node struct {
	Name  string
	Op    *Op
	In    []Arg
	Attrs any // pointer to the struct of attributes that Op.Schema describes
	Out   []*Value
	// Pin is the user's demand: an implementation, a layout of the outputs, or both.
	Pin Pin
	// Impl is the implementation that passes chose, and Walk its loop order and result layouts. Impl is nil before the
	// choice.
	Impl *Impl
	Walk Walk
	// Why is the reason why a pass inserted the node. It is empty for a node of the user.
	Why string
	// PartOf is the composite node of the user that this node and other nodes replace. Errors name the composite node.
	// PartOf is nil for a node that does not replace another node.
	PartOf *Node

	undecoded *attributes // the attributes from which Attrs is decoded; nil if there are none
	number    int32       // number in the graph; an index for Places
}

// Output names a value as a result of the graph.
type Output struct {
	Name  string
	Value *Value
	Pin   Pin // the required layout; zero means the inferred layout
	// Base is the name of the value whose memory Value shares in the graph as given, or Value's own name; passes set it.
	// If passes have removed a copy node of the user, Value may be a view of another value. A run then copies it.
	Base string
	// WholeBase means that Value must be in the memory of its base, which another segment may read: see
	// [Facts.ReadsStorage].
	WholeBase bool
}

// New returns an empty graph. lookup finds ops by name; an example is kernels.Lookup.
func New(name string, lookup Lookup) *Graph {
	return &Graph{Name: name, lookup: lookup, names: newNameIndex(0), folded: &foldCache{}}
}

// Op returns an op of the graph's catalogue by name. It returns nil if the catalogue has no such op, or has an op that
// was not made by [Define].
func (g *Graph) Op(name string) *Op {
	op, err := g.findOp(name)
	if err != nil {
		return nil
	}
	return op
}

// ReadsStorage reports whether a node of the graph, or of a graph among its attributes, may read memory of an operand
// that is no element of the operand ([Facts.ReadsStorage]).
func (g *Graph) ReadsStorage() bool {
	return slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		if n.Op != nil && n.Op.ReadsStorage {
			return true
		}
		for _, attr := range n.givenAttrs() {
			if inner, ok := attr.(*Graph); ok && inner != nil && inner.ReadsStorage() {
				return true
			}
		}
		return false
	})
}

// Value returns the value with a name, or nil if there is none.
//
// Not inlined: it has many callers, none of them hot.
//
//go:noinline
func (g *Graph) Value(name string) *Value { return g.nameIndex().values[name] }

// Values calls visit with all values: inputs, constants, then the results of nodes in order.
func (g *Graph) Values(visit func(*Value)) {
	if visit == nil {
		panic("graph: Values needs a function")
	}
	for _, v := range g.Inputs {
		visit(v)
	}
	for _, v := range g.Constants {
		visit(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			visit(v)
		}
	}
}

// Dynamic reports whether the graph has a value whose shape is known only when the graph runs.
func (g *Graph) Dynamic() bool {
	for _, n := range g.Nodes {
		if len(n.Out) > 0 && n.Out[0].Dynamic {
			return true
		}
	}
	return false
}

// BoundSizes returns the size of each symbol. For an unknown size ([Graph.Symbolic]), the result has the hint.
func (g *Graph) BoundSizes() map[string]int {
	bound := make(map[string]int, len(g.sizes))
	for name, size := range g.sizes {
		bound[name] = size.Hint()
	}
	return bound
}

// Clone returns a copy of the graph that has its own nodes and values. It shares ops, attributes, metas and the data of
// constants with g.
func (g *Graph) Clone() *Graph {
	copied := &Graph{Name: g.Name, lookup: g.lookup, Symbols: g.Symbols, Labels: g.Labels, Texts: g.Texts,
		Metadata: g.Metadata, sizes: g.sizes, symbolicState: g.symbolicState, nameSerial: g.nameSerial,
		assumed: g.assumed, warnings: g.warnings,
		valueCount: g.valueCount, nodeCount: g.nodeCount, places: g.places, packedFrom: g.packedFrom,
		rejected: maps.Clone(g.rejected), folded: g.folded, ctx: g.ctx,
		Nodes: make([]*Node, len(g.Nodes))}
	// All values are allocated at once, and so are all nodes, operands and lists of results.
	valueCount, operandCount := len(g.Inputs)+len(g.Constants), 0 // not g.valueCount, which also counts removed values
	for _, n := range g.Nodes {
		valueCount, operandCount = valueCount+len(n.Out), operandCount+len(n.In)
	}
	allValues := make([]Value, 0, valueCount) // must not be reallocated, because copies points into it
	allNodes := make([]Node, len(g.Nodes))
	freeArgs, freeOuts := make([]Arg, operandCount), make([]*Value, valueCount)
	copies := NewByValue[*Value](g)
	copyValue := func(v *Value, producer *Node) *Value {
		allValues = append(allValues, *v)
		copiedValue := &allValues[len(allValues)-1]
		copiedValue.graph, copiedValue.Node = copied, producer
		copies.Set(v, copiedValue)
		return copiedValue
	}
	// First copy all values and nodes. The copied nodes still have the operands of g.
	for _, v := range g.Inputs {
		copied.Inputs = append(copied.Inputs, copyValue(v, nil))
	}
	for _, v := range g.Constants {
		copied.Constants = append(copied.Constants, copyValue(v, nil))
	}
	for i, n := range g.Nodes {
		copiedNode := &allNodes[i]
		*copiedNode = *n
		copiedNode.Out = takeFrom(&freeOuts, len(n.Out)) // takes the first elements of freeOuts
		for k, v := range n.Out {
			copiedNode.Out[k] = copyValue(v, copiedNode)
		}
		copied.Nodes[i] = copiedNode
	}
	// Then replace all references to values of g, and copy the outputs.
	for _, n := range copied.Nodes {
		copiedArgs := takeFrom(&freeArgs, len(n.In))
		for k, arg := range n.In {
			copiedArgs[k] = arg
			copiedArgs[k].Value = copies.At(arg.Value)
		}
		n.In = copiedArgs
		n.undecoded = n.undecoded.clone(copies.At)
		for _, v := range n.Out {
			v.Alias, v.ContainedIn = copies.At(v.Alias), copies.At(v.ContainedIn)
		}
	}
	for _, output := range g.Outputs {
		output.Value = copies.At(output.Value)
		copied.Outputs = append(copied.Outputs, output)
	}
	// The index by name is made from these lists when it is first needed.
	copied.names = &nameIndex{allValues: allValues, allNodes: allNodes}
	return copied
}

// SetContext sets a context for inference of the graph and of later copies. After the context has ended, inference
// rejects all nodes; the error is the cause of the context. Nil means no context.
func (g *Graph) SetContext(ctx context.Context) { g.ctx = ctx }

// Context returns the context of work on the graph: see [Graph.SetContext]. The default is [context.Background].
func (g *Graph) Context() context.Context {
	if g == nil || g.ctx == nil {
		return context.Background()
	}
	return g.ctx
}

// ContextErr returns the cause of the graph's context if the context has ended, otherwise nil.
func (g *Graph) ContextErr() error {
	if g.ctx == nil {
		return nil
	}
	return interrupt.Err(g.ctx)
}

// SetMeta sets Meta to meta, and Type to the same layout.
func (v *Value) SetMeta(meta tensor.Meta) { v.Meta, v.Type = meta, meta.Type() }

// Root returns the value that owns the storage of v. This is v itself if v is not a view.
func (v *Value) Root() *Value {
	for v.Alias != nil {
		v = v.Alias
	}
	return v
}

// BufferOwner returns the value whose memory contains v: its root, or the value that contains the root.
func (v *Value) BufferOwner() *Value {
	v = v.Root()
	for v.ContainedIn != nil {
		v = v.ContainedIn
	}
	return v
}

// StorageLen returns the length of v's storage in elements of v's dtype.
func (v *Value) StorageLen() sym.Int {
	if !v.Meta.DType.Valid() {
		return sym.Int{} // not inferred
	}
	root := v.Root()
	if root.Const != nil {
		return sym.Of(root.Const.Storage().Len() / v.Meta.DType.Size())
	}
	rootType := Arg{Kind: TensorArg, Value: root}.Type() // if the data are packed, the type of the unpacked value
	return rootType.Extent().Mul(sym.Of(rootType.DType.Size())).Div(sym.Of(v.Meta.DType.Size()))
}

// Kind returns "input", "constant", or the name of the op that computes the value.
func (v *Value) Kind() string {
	switch {
	case v.Node != nil && v.Node.Op != nil:
		return v.Node.Op.Name
	case v.Const != nil:
		return "constant"
	}
	return "input"
}

// Graph returns the graph in which the value was made. It panics for a value that was not made by a graph.
func (v *Value) Graph() *Graph { return v.ownerGraph() }

// Number returns the value's number in its graph and in copies of it. Values are numbered from 0 in the order in which
// they are made. A placeholder, which a builder method returns after a mistake, has a negative number.
func (v *Value) Number() int { return int(v.number) }

// isPlaceholder reports whether the value is a placeholder: see [Value.Number].
func (v *Value) isPlaceholder() bool { return v.number < 0 }

// Call returns the call of the node: its operands, attributes, implementation, and the metas of its outputs.
func (n *Node) Call() *Call {
	callAndOut := &struct { // most nodes have one output: a single allocation
		Call
		out [1]tensor.Meta
	}{Call: Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk}}
	call := &callAndOut.Call
	if call.Out = callAndOut.out[:]; len(n.Out) != 1 {
		call.Out = make([]tensor.Meta, len(n.Out))
	}
	for i, v := range n.Out {
		call.Out[i] = v.Meta
		if v.ContainedIn != nil {
			call.Out[i].Offset = 0 // the kernel gets the address of the first element
		}
	}
	call.InPlace = n.operandsInPlace()
	return call
}

// IsView reports whether all outputs of the node share the storage of its operands. Such a node does not run.
func (n *Node) IsView() bool {
	for _, v := range n.Out {
		if v.Alias == nil {
			return false
		}
	}
	return true
}

// needsData reports whether the node can be inferred only after a part of the graph has run.
func (n *Node) needsData() bool {
	for i := range n.dependencyCount() {
		v, isAttr := n.dependency(i), i >= len(n.In)
		if v != nil && (v.Dynamic || isAttr && v.Const == nil) { // if v is an attribute, its elements must be known
			return true
		}
	}
	return false
}

// dependencyCount returns the number of values on which a node depends: see dependency.
func (n *Node) dependencyCount() int { return len(n.In) + len(n.refs()) }

// dependency returns value i on which the node depends. Indices below len(n.In) are operands; the result is nil for a
// number or an absent operand. Higher indices are the values to which attributes refer.
func (n *Node) dependency(i int) *Value {
	if i < len(n.In) {
		return n.In[i].Value
	}
	return n.undecoded.refs[i-len(n.In)].value
}

// Number returns the node's number in its graph and in copies and segments of it. Nodes are numbered from 0 in the
// order in which they are made.
func (n *Node) Number() int { return int(n.number) }

// assignNumber assigns the next free number to a value of the graph.
func (g *Graph) assignNumber(v *Value) {
	v.number = int32(g.valueCount)
	g.valueCount++
}

// assignNodeNumber assigns the next free number to a node of the graph.
func (g *Graph) assignNodeNumber(n *Node) {
	n.number = int32(g.nodeCount)
	g.nodeCount++
}

// ByValue maps the values of a graph to elements of type T. It is a slice indexed by the numbers of the values
// ([Value.Number]). A slice is faster than a map, and passes look up several values for every node. The zero ByValue is
// empty. All values must belong to one graph or to its clones, which use the same numbers. A ByValue is not safe for
// concurrent changes.
type ByValue[T any] struct{ elements []T }

// NewByValue returns an empty ByValue with memory for all values of a graph.
func NewByValue[T any](g *Graph) ByValue[T] {
	if g == nil {
		return ByValue[T]{}
	}
	return ByValue[T]{make([]T, g.valueCount)}
}

// At returns the element that was set for a value, or the zero T if none was set.
func (b *ByValue[T]) At(v *Value) (element T) {
	if v == nil || uint(v.number) >= uint(len(b.elements)) {
		return element
	}
	return b.elements[v.number]
}

// Set sets the element of a value. It does nothing for nil and for a placeholder: see [Value.Number].
//
// Not inlined: it has many callers, none of them hot.
//
//go:noinline
func (b *ByValue[T]) Set(v *Value, element T) {
	if v == nil || v.number < 0 {
		return
	}
	for int(v.number) >= len(b.elements) {
		var zero T
		b.elements = append(b.elements, zero)
	}
	b.elements[v.number] = element
}
