package graph

import (
	"context"
	"fmt"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Op is the contract of an operator: everything that the loader, the passes and the executor need to know of a node.
// They never test the name. Ops are immutable and shared by all graphs. fusion.Define makes an op that runs; [Define]
// makes one for inference and evaluation only.
type Op struct {
	Semantics
	Facts
	Lowerings

	defined *Op       // the op itself once Define has made it, which distinguishes it from copies
	derived *sync.Map // see Derived
}

// Semantics is the meaning of an op: operands, attributes, inference, and the reference.
type Semantics struct {
	Name   string  // aten's name
	Doc    string  // first line: what it does; then shapes and rules
	Params []Param // tensor operands in aten's order
	Schema *Schema // attributes

	// Outputs names the results; nil: there is one. If the number depends on attributes and shapes (split), it is nil
	// and Many is set.
	Outputs []string
	Many    bool
	Kind    Kind

	// Infer returns the types that eager PyTorch gives, and the operand that shares its storage with a view. It is pure
	// and must not retain c. Its errors are PyTorch's.
	Infer func(c *Call) ([]Result, error)

	// Ref is the definition: it computes the results index by index, from tensors of any layout (nil for an absent
	// operand, 0-dim for a number). Results have any layout; only values and dtypes count.
	Ref func(c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// NoRef is the reason why there is no Ref. Users read it when a graph could not be checked.
	NoRef string

	// Examples are calls that tests and the documentation run.
	Examples []Example
}

// Facts are properties of an op that passes and prices use. The zero Facts claim nothing.
type Facts struct {
	// SelectsElements says that each element of the results is an element of an operand without [Param.Below]. The choice
	// depends only on shapes, attributes and the other operands, so that an elementwise function
	// may be applied before or after. Views without ReadsStorage imply it.
	SelectsElements bool

	// Fills is SelectsElements for an op whose results also have elements that depend on attributes only, such as padding.
	Fills bool

	// Identity says that the result has operand 0's elements unchanged if the dtypes are equal. Passes remove such
	// nodes where possible.
	Identity bool

	// Permutes returns, for a view that only reorders dimensions, the operand's dimension for each dimension of the
	// result; nil: the view does more.
	Permutes func(c *Call) []int

	// Copies marks the op of the catalogue by which passes copy values: it is an Identity, needs no attributes, and
	// writes any dense layout.
	Copies bool

	// ConcatDim returns the dimension of its only result along which the op concatenates its operands, which are all
	// tensors. It returns false for a call that does more, such as converting ranks. Passes write operands directly into
	// the result: see [Value.Within]. Nil: the op does not concatenate.
	ConcatDim func(c *Call) (dim int, ok bool)

	// ImageRole says whether operands and results are images. Strategies that prefer channels last use it.
	ImageRole ImageRole

	// ReadsStorage says that the result depends on the operand's layout in memory (as_strided), which must not be changed.
	ReadsStorage bool

	// Alone is the reason why nodes of an element-wise op (a scan) do not share loops. Reports show it.
	Alone string

	// AnyOrder says that kernels made by Compile write any dense layout, as those of kind Follows do, not only the
	// inferred one.
	AnyOrder bool

	// AsInferred is the reason why results are written in the inferred layout only. Reports show it to explain a copy.
	AsInferred string

	// Flops returns the arithmetic operations of a call, for the cost model; nil: one for each element of the outputs.
	Flops func(c *Call) float64

	// FlopKernel names the inner kernel whose unit is one of Flops; empty: [Flop].
	FlopKernel string

	// Each is the additional work for each element of operand 0, or of the first result if that has more, for the cost
	// model; zero: one simple operation if there are no Flops, or a function in a pointwise op with a small Grain.
	Each Each
}

// Lowerings are the ways to compute an op: by kernels, as an expression or a row program, or by nodes of other ops.
type Lowerings struct {
	// Impls are the implementations, if there are several, or if one does not read operands of every layout. Of equally
	// cheap ones the first is chosen. If none is listed, [Define] makes one of Compile.
	Impls []Impl

	// Compile makes the kernel for the final layouts of a call. It is not called for results that share storage. For an
	// op with Impls it is Lower of the chosen one.
	Compile func(c *Call) (*Kernel, error)

	// Pointwise has the iteration and the computation of a pointwise op, from which Infer and Compile follow; nil for
	// other ops.
	Pointwise *Pointwise

	// Expression returns what a call computes for one element of its results, in the dtypes that operands and results
	// have in memory: nodes with an expression can share a loop. The results must have the shape to which the operands
	// broadcast. It is also called without results, and returns nil for a call that is no such loop. Nil: no call is;
	// fusion.Define sets it for an op with a Pointwise part and no other implementation.
	Expression func(c *Call) (*expr.Code, error)

	// Rows returns, for an op that folds dimensions, what a call computes as an expression over rows: nil, without an
	// error, for a call that has none. It is called with sizes that are numbers. Nil: no call has one.
	Rows func(c *Call) (*Rows, error)

	// Attend describes how the op, a product of two matrices, computes attention; nil: it does not.
	Attend *Attend

	// Decompose expresses a composite op by nodes of other ops, which run in its place; the op then has no kernel. It
	// returns a value for each output, with the inferred dtype, shape and layout. It is called when the graph is
	// planned, with the inferred results in c.Out, and must accept every call that Infer accepts.
	Decompose func(p *Parts, c *Call) ([]*Value, error)

	// Rewrite rewrites a node, together with nodes that make its operands, to other nodes, which may round differently:
	// quantized products to int8 products, products of 16-bit floats to float32 products and conversions. It is called
	// before composite nodes are decomposed; see [Rewrite]. Nil: nodes of the op are not rewritten.
	Rewrite func(p *Parts, c *Call, a Around) (Rewrite, error)

	// Chooses returns, for an op that stands for one of several graphs, the graph that sizes choose, and its operands.
	// Its nodes run in the place of the op: see [Graph.Settle]. Nil: the op has a kernel.
	Chooses func(c *Call) (*Graph, []Arg)

	// Repeats returns, for an op that runs a graph repeatedly, the number of iterations if sizes determine it; false if
	// not, or if the op should run as it is. The nodes of the iterations then run in the place of the op.
	Repeats func(c *Call) (Repetition, bool)

	// RunDynamic computes the results of an op whose result shapes depend on data. Infer then returns results that are
	// Dynamic, and the graph runs in segments before and after the node.
	RunDynamic func(rt Runtime, c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// Pricing prices implementations that state no work; nil: by Flops and Each.
	Pricing Pricing
}

// Epilogue is an expression of each element of a result and of further operands: operand 0 of the expression is the
// result of the anchor, the product or convolution whose kernel applies it. Package fusion implements it.
type Epilogue interface {
	Code() *expr.Code
}

// Loop describes the walk of a pointwise kernel, for reports and prices.
type Loop interface {
	Len() int   // operands, outputs first
	Numel() int // elements
	WalkShape() []int
	WalkStrides(operand int) []int // bytes
	FastSetup() rule.FastSetup
}

// Each counts operations an element: simple ones, and functions such as exp.
type Each struct{ Simple, Function float64 }

// Kind says which layouts an op reads and writes.
type Kind uint8

// Follows: pointwise; the permutation rule lays the result out, and any other dense layout is possible. View: maps
// strides without touching data (some, such as reshape, copy where no view is possible). Requires: the implementations
// read some layouts only. Own: reads any layout, and the result has a layout of its own.
const (
	Own Kind = iota
	Follows
	View
	Requires
)

// String names the kind as the documentation does.
func (k Kind) String() string {
	names := [...]string{"own", "follows", "view", "requires"}
	if int(k) >= len(names) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return names[k]
}

// ImageRole says whether operands and results of an op are images or volumes, [n, c, h, w] or [n, c, d, h, w].
type ImageRole uint8

// ImageOp: operand 0 and the results are images. ImagePreserving: the results are images if operands of the same rank
// are images. Results of ops of kind Follows are ImagePreserving, too.
const (
	NotImages ImageRole = iota
	ImageOp
	ImagePreserving
)

// Param is a tensor operand of an op.
type Param struct {
	Name     string
	Optional bool // null, or missing at the end
	Number   bool // may be a plain number, among the inputs or as an attribute
	Variadic bool // one or more tensors: all inputs
	// Below says that integers in the operand are indices or lengths, at least 0 and below the result of Below for a
	// call. (Negative ones may be allowed, too.) A negative result means no bound. Nil: the elements are plain numbers.
	Below func(c *Call) int
	// Attr is the name of the attribute that the number may be, if it is not Name: scatter's src is called value if it
	// is a number.
	Attr string
	// Overload is aten's name of the overload to which an optional operand belongs. Package op has a function for that
	// overload, in which the operand is required.
	Overload string
}

// Call is one application of an op, as Infer, Compile and the others see it.
type Call struct {
	In    []Arg
	Attrs any // the decoded attributes, of the op's own type
	Out   []tensor.Meta
	// Impl is the chosen implementation, one of the op's, and Walk its walk through the call; nil before the choice.
	Impl *Impl
	Walk Walk
	// InPlace marks operands that are already in their slice of the result of a concatenation; nil: none.
	InPlace []bool
	// Epilogue is what the kernel computes of each element of its result; nil for nothing. Implementations with
	// Epilogues get it in Lower: the addresses of its operands follow those of the call. A kernel that cannot apply it
	// leaves it to another phase.
	Epilogue Epilogue

	binds bool // sizes that are not known are bound where numbers are asked for: inference of [Symbolic]

	one [1]Result // what One and Shared return
	all []Result  // what All and AllShared return
}

// ArgKind tells what is at an operand's place.
type ArgKind uint8

// The kinds of operands.
const (
	Null ArgKind = iota
	TensorArg
	NumberArg
)

// Arg is an operand: a value, a plain number, or nothing.
type Arg struct {
	Kind   ArgKind
	Value  *Value
	Number tensor.Scalar
}

// Type returns the type of the operand's value, a 0-dim type for a number, and the zero Type for
// an operand left out.
func (a Arg) Type() tensor.Type {
	switch {
	case a.Kind == NumberArg:
		return tensor.Type{DType: a.Number.DType()}
	case a.Kind == Null || a.Value == nil:
		return tensor.Type{}
	case a.Value.Packed != nil:
		return a.Value.Packed.Type
	case a.Value.Type.DType == tensor.Invalid:
		return a.Value.Meta.Type() // a value made by hand
	}
	return a.Value.Type
}

// Placed reports whether operand i is already in its slice of the result: see [Call.InPlace].
func (c *Call) Placed(i int) bool { return i >= 0 && i < len(c.InPlace) && c.InPlace[i] }

// Meta returns the meta of the operand's value, a 0-dim meta for a number, and the zero
// Meta for an operand left out.
func (a Arg) Meta() tensor.Meta {
	switch a.Kind {
	case TensorArg:
		if a.Value == nil {
			return tensor.Meta{}
		}
		if p := a.Value.Packed; p != nil {
			return p.Meta
		}
		return a.Value.Meta
	case NumberArg:
		return tensor.New(a.Number.DType())
	}
	return tensor.Meta{}
}

// Operand returns the operand as an iterator takes it.
func (a Arg) Operand() rule.Operand {
	if a.Kind == NumberArg {
		return rule.Number(a.Number)
	}
	return rule.OfType(a.Type())
}

// Has reports whether operand i is given.
func (c *Call) Has(i int) bool { return i >= 0 && i < len(c.In) && c.In[i].Kind != Null }

// Type returns the type of operand i, or the zero Type where it is left out: what Infer asks for.
func (c *Call) Type(i int) tensor.Type {
	if i < 0 || i >= len(c.In) {
		return tensor.Type{}
	}
	if v := c.In[i].Value; c.In[i].Kind == TensorArg && v != nil && v.Packed == nil && v.Type.DType != tensor.Invalid {
		return v.Type // most are, and to hand an Arg over takes longer
	}
	return c.In[i].Type()
}

// Meta returns operand i in numbers, or the zero Meta where it is left out: for kernels, and for
// inference that cannot do without numbers, which sizes that are not known are bound to by guards then.
func (c *Call) Meta(i int) tensor.Meta {
	if i < 0 || i >= len(c.In) {
		return tensor.Meta{}
	}
	if c.binds {
		c.In[i].Type().Specialize()
	}
	return c.In[i].Meta()
}

// Const returns the data of operand i where it is known when the graph is compiled: a
// constant that is not packed, else nil.
func (c *Call) Const(i int) *tensor.Tensor {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil || c.In[i].Value.Packed != nil {
		return nil
	}
	return c.In[i].Value.Const
}

// Constant reports whether operand i is known when the graph is compiled, in whatever form its data are: what prices
// ask, so that a node costs the same before its constants are packed and after. A constant that is pinned is read as it
// is laid out in every run, and counts as any other value.
func (c *Call) Constant(i int) bool {
	return c.Packed(i) != nil || c.Const(i) != nil && !c.In[i].Value.Pin.Lays()
}

// Result is what Infer says of one output. Alias is the index of the operand whose
// storage it shares, or Fresh. For a shared result the Type's offset counts from the
// start of that storage.
type Result struct {
	Type  tensor.Type
	Alias int
	// Dynamic says that the shape is known only when the op has run. Sizes and Lay then say what is known before,
	// as in an [Outline].
	Dynamic bool
	Sizes   []int
	Lay     func(shape []sym.Int) (tensor.Type, error)
}

// Meta returns the result in numbers.
func (r Result) Meta() tensor.Meta {
	m, _ := r.Type.Meta()
	return m
}

// Runtime is the part of the executor that RunDynamic can use.
type Runtime interface {
	// Run plans and runs a graph, such as the body of a loop, on inputs in its order.
	Run(g *Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// Context returns the context of the run.
	Context() context.Context
}

// Fresh marks a result with storage of its own.
const Fresh = -1

// One returns the result of an op that makes one value of fresh storage. The list is the call's own, and
// next time another: inference, which asks of one node after the other, takes no memory for it.
func (c *Call) One(t tensor.Type) []Result { return c.Shared(t, Fresh) }

// Shared is [Call.One] for a value that shares the storage of operand i, as [Result].Alias says it.
func (c *Call) Shared(t tensor.Type, i int) []Result {
	c.one[0].set(&t, i)
	return c.one[:]
}

// set assigns field by field: while memory is collected, a few pointers are noted sooner than the whole of
// a struct is searched for them.
func (r *Result) set(t *tensor.Type, alias int) {
	setFields(&r.Type, t)
	r.Alias, r.Dynamic, r.Sizes = alias, false, nil
}

func setFields(to, t *tensor.Type) {
	to.DType, to.Shape, to.Strides, to.Offset = t.DType, t.Shape, t.Strides, t.Offset
}

// All is [Call.One] for several values.
func (c *Call) All(types ...tensor.Type) []Result { return c.AllShared(Fresh, types...) }

// AllShared is [Call.Shared] for several values.
func (c *Call) AllShared(i int, types ...tensor.Type) []Result {
	if len(c.all) < len(types) {
		c.all = make([]Result, len(types))
	}
	for at := range types {
		c.all[at].set(&types[at], i)
	}
	return c.all[:len(types)]
}

// Kernel is an op prepared for fixed metas. It holds no state of a run and may be used by
// several runs at once.
type Kernel struct {
	// Place is the processor that runs the kernel, and the memory that it accesses.
	Place tensor.Place
	// Phases run one after another.
	Phases []Phase
	// Scratch is the bytes of memory that all chunks of a run share, Worker the bytes that
	// each worker has for itself. Both are 64-byte aligned, not cleared.
	Scratch, Worker int
	// InPlace lists operands whose memory an output may take, if the operand is not needed
	// afterwards.
	InPlace []InPlace
	// Bound holds, by operand, tensors that the kernel brings itself, such as plain
	// numbers; nil where the run supplies the operand.
	Bound []*tensor.Tensor
	// Loop describes the walk of a pointwise kernel; nil for others.
	Loop Loop
	// Code lists the loops of expressions that the kernel runs, and the generated code; nil for a kernel that
	// has none.
	Code func() []expr.Listing
	// Arithmetic estimates what machine code takes one worker beside bringing memory, in nanoseconds; 0 where
	// nothing better is known than the operations that the implementation has.
	Arithmetic float64
}

// InPlace says that output Out may use the memory of operand In.
type InPlace struct{ Out, In int }

// Phase is work cut into chunks that may run in any order and at the same time. The cut
// depends on shapes alone, and so do the bits of the result.
type Phase struct {
	Chunks int
	Run    func(m *Mem, chunk int) error
	Flow   *Flow // nil where chunks say nothing of what they read and write
}

// Flow tells how far chunks have come that go through memory from its beginning to its end, in elements of the first
// output and of the first operand in the order of memory. Of all functions chunk counts from 0, and neither becomes
// less from chunk to chunk. By it chunks of a step may run before the step is finished that makes its first operand.
type Flow struct {
	// Made returns how many elements from the first one on hold what they will once chunks 0 to chunk have run.
	Made func(chunk int) int
	// Needs returns how many elements from the first one on contain all that chunks 0 to chunk read.
	Needs func(chunk int) int
}

// Example is a call for tests and documentation. In holds metas; values are generated.
type Example struct {
	In    []tensor.Meta
	Attrs Attrs
}

// Attrs are attributes as a user writes them in Go. Values may be bool, int, float64,
// string, []int, tensor.DType and the like.
type Attrs map[string]any

// Lookup finds an op by name; nil if there is none.
type Lookup func(name string) *Op
