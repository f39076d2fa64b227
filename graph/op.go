package graph

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Op is the contract of an operator. The loader, the passes and the executor use only this contract and never test the
// name of an op. Ops are immutable and shared by all graphs. fusion.Define makes an op that runs; [Define] makes one
// for inference and evaluation only.
type Op struct {
	Semantics
	Facts
	Lowerings

	defined *Op // the op's own address, set by Define: a copy of the op has another address
	derived *derivedValues
}

// Semantics is the meaning of an op: operands, attributes, inference, and the reference.
type Semantics struct {
	Name   string  // aten's name
	Doc    string  // first line: the effect of the op; then shapes and rules
	Params []Param // tensor operands in aten's order
	Schema *Schema // attributes

	// Outputs names the results. Nil means one result or, if Many is set, a number of results that depends on
	// attributes and shapes (split).
	Outputs []string
	Many    bool
	Kind    Kind

	// Infer returns the types that eager PyTorch's results have, and for a view the operand whose storage it shares. Infer
	// has no side effects and must not retain call. Its errors have PyTorch's messages.
	Infer func(call *Call) ([]Result, error)

	// Ref is the definition of the op: it computes the results index by index, from tensors of any layout. In the list in,
	// an absent operand is nil and a number is a 0-dim tensor. Results may have any layout.
	Ref func(call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// NoRef is the reason why there is no Ref, for the message that a graph cannot be checked.
	NoRef string

	// Examples are calls for tests and the documentation.
	Examples []Example
}

// Lowerings are the ways to compute an op: by kernels, as an expression or a row program, or by nodes of other ops.
type Lowerings struct {
	// Impls are the implementations. An op needs Impls if it has several implementations, or if its only implementation
	// does not read operands of every layout. Among equally cheap implementations the planner chooses the first. If
	// Impls is empty, [Define] makes one from Compile.
	Impls []Impl

	// Compile makes the kernel for the final layouts of a call. It is not called for views. For an op with Impls,
	// [Define] sets it to call Lower of the chosen implementation.
	Compile func(call *Call) (*Kernel, error)

	// Pointwise has the iteration and the computation of a pointwise op. Infer and Compile are derived from it. It is nil
	// for other ops.
	Pointwise *Pointwise

	// Expression returns the expression that computes one element of each result of a call. Operands and results have the
	// dtypes that they have in memory. Nodes with an expression can share a loop. The results must have the shape to which
	// the operands broadcast. A number operand is a constant of the expression, not a load. Expression is also called
	// before call.Out is set. It returns nil for a call that has no expression. If Expression is nil, no call has an
	// expression. fusion.Define sets it for an op with a Pointwise part and no other implementation.
	Expression func(call *Call) (*expr.Code, error)

	// Rows is for an op that folds (reduces) dimensions. It returns the computation of a call as an expression over
	// rows, a row program. It returns nil without an error for a call that has no row program. All sizes of the call are
	// numbers. If Rows is nil, no call has a row program.
	Rows func(call *Call) (*Rows, error)

	// Attend describes how the op, a product of two matrices, computes a fused attention; nil if it cannot.
	Attend *Attend

	// Decompose replaces a node of a composite op by nodes of other ops; the op then has no kernel. It returns a value for
	// each output, with the inferred dtype, shape and layout. Decompose is called when the graph is planned, with the
	// inferred results in call.Out. It must accept every call that Infer accepts.
	Decompose func(p *Parts, call *Call) ([]*Value, error)

	// Rewrite replaces a node, together with the nodes that compute its operands, by cheaper nodes, which may round
	// differently. Examples: quantized products become int8 products, and products of 16-bit floats become float32
	// products and conversions. Rewrite is called before composite nodes are decomposed; see [Rewrite]. If Rewrite is nil,
	// nodes of the op are not rewritten.
	Rewrite func(p *Parts, call *Call, a RewriteContext) (Rewrite, error)

	// Chooses is for an op that runs one of several graphs (such as "if"). If sizes determine the choice, Chooses
	// returns the chosen graph and its operands, and the nodes of that graph replace the node: see [Graph.Settle].
	// Chooses is nil for all other ops, and if the choice does not depend on sizes.
	Chooses func(call *Call) (*Graph, []Arg)

	// Repeats is for an op that runs a graph repeatedly. If sizes determine the number of iterations, Repeats returns that
	// number and the graph, and the nodes of the iterations replace the node. It returns false if the number is unknown,
	// or if the op should run as a loop.
	Repeats func(call *Call) (Repetition, bool)

	// RunDynamic computes the results of an op whose result shapes depend on data. Infer then returns Dynamic results,
	// and the graph runs in segments around the node.
	RunDynamic func(rt Runtime, call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// Pricing computes the work of implementations without [Impl.Work]. If Pricing is nil, the work is computed from Flops
	// and Each.
	Pricing Pricing
}

// Epilogue is an expression that the kernel of a product or a convolution, called the anchor, applies to each element
// of its result. Operand 0 of the expression is the anchor's result. Package fusion implements this interface.
type Epilogue interface {
	Code() *expr.Code
}

// Loop describes the iteration of a pointwise kernel, for reports and prices.
type Loop interface {
	Len() int                      // number of operands, outputs included
	Numel() int                    // number of elements
	WalkShape() []int              // sizes of the coalesced dimensions
	WalkStrides(operand int) []int // strides of an operand in bytes; outputs are the first operands
	FastSetup() rule.FastSetup
}

// Kind describes which layouts an op reads and writes.
type Kind uint8

// The kinds of ops.
const (
	// OwnLayout ops read any layout. Infer determines the layout of the result.
	OwnLayout Kind = iota
	// FollowsOperands ops are pointwise. PyTorch's permutation rule gives the default layout of the result, and the
	// planner may choose any other dense layout.
	FollowsOperands
	// View ops compute strides and do not access data. Some of them, such as reshape, copy if no view is possible.
	View
	// RequiresLayout ops have implementations that read only some layouts.
	RequiresLayout
)

// String names the kind as the documentation does.
func (k Kind) String() string {
	names := [...]string{"own", "follows", "view", "requires"}
	if int(k) >= len(names) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return names[k]
}

// Param is a tensor operand of an op.
type Param struct {
	Name     string
	Optional bool // may be null, or missing at the end
	Number   bool // may be a plain number, among the inputs or as an attribute
	Variadic bool // stands for all remaining inputs
	// Below is set if the integers in the operand are indices or lengths. It returns the exclusive upper bound of the
	// integers for a call, or a negative number if they have no bound. The lower bound is 0, although some ops also
	// accept negative indices.
	Below func(call *Call) int
	// Attr is the name of the attribute by which the operand can be given as a number, if that name differs from Name. For
	// example, scatter's src is called value if it is a number.
	Attr string
	// Overload is aten's name of the overload to which an optional operand belongs. Package op has a function for that
	// overload, in which the operand is required.
	Overload string
}

// Call is one application of an op: the argument of Infer, Compile and the other functions of an Op.
type Call struct {
	In    []Arg
	Attrs any // the decoded attributes, of the op's own type
	Out   []tensor.Meta
	// Impl is the chosen implementation of the op, and Walk the chosen walk. Impl is nil before the choice.
	Impl *Impl
	Walk Walk
	// InPlace marks the operands of a concatenation that are already stored in their slices of the result. Nil marks none.
	InPlace []bool
	// Epilogue is the expression that the kernel applies to each element of its result; nil for none. It is set only for
	// Lower of implementations with Epilogues. The addresses of the epilogue's operands follow the addresses of the call.
	// If the inner loop of the kernel cannot apply the epilogue, a separate phase of the kernel applies it.
	Epilogue Epilogue

	fixesSizesToHints bool // Meta adds guards that unknown sizes equal their hints; set while a [Symbolic] is inferred

	oneResult  [1]Result // buffer of One and Shared
	allResults []Result  // buffer of All and AllShared
}

// ArgKind is the kind of an operand.
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

// Type returns the type of the operand's value, a 0-dim type for a number, and the zero Type for an absent operand.
func (a Arg) Type() tensor.Type {
	switch {
	case a.Kind == NumberArg:
		return tensor.Type{DType: a.Number.DType()}
	case a.Kind == Null || a.Value == nil:
		return tensor.Type{}
	case a.Value.Packed != nil:
		return a.Value.Packed.Type
	case a.Value.Type.DType == tensor.Invalid:
		return a.Value.Meta.Type() // a Value that no graph made has no Type
	}
	return a.Value.Type
}

// IsInPlace reports whether operand i is already in its slice of the result: see [Call.InPlace].
func (c *Call) IsInPlace(i int) bool { return i >= 0 && i < len(c.InPlace) && c.InPlace[i] }

// Meta returns the meta of the operand's value, a 0-dim meta for a number, and the zero Meta for an absent operand.
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

// Operand returns the operand in the form of package iter/rule.
func (a Arg) Operand() rule.Operand {
	if a.Kind == NumberArg {
		return rule.Number(a.Number)
	}
	return rule.OfType(a.Type())
}

// Has reports whether operand i is present.
func (c *Call) Has(i int) bool { return i >= 0 && i < len(c.In) && c.In[i].Kind != Null }

// Type returns the type of operand i, or the zero Type if it is absent. Infer uses it.
func (c *Call) Type(i int) tensor.Type {
	if i < 0 || i >= len(c.In) {
		return tensor.Type{}
	}
	if v := c.In[i].Value; c.In[i].Kind == TensorArg && v != nil && v.Packed == nil && v.Type.DType != tensor.Invalid {
		return v.Type // the usual case is fast: the Arg is not copied
	}
	return c.In[i].Type()
}

// Meta returns the meta of operand i, or the zero Meta if it is absent. It is for kernels, and for inference that needs
// sizes as numbers. In the latter case, Meta adds guards that unknown sizes equal their hints.
func (c *Call) Meta(i int) tensor.Meta {
	if i < 0 || i >= len(c.In) {
		return tensor.Meta{}
	}
	if c.fixesSizesToHints {
		c.In[i].Type().Specialize()
	}
	return c.In[i].Meta()
}

// Const returns the data of operand i if it is a constant that is not packed, otherwise nil.
func (c *Call) Const(i int) *tensor.Tensor {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil || c.In[i].Value.Packed != nil {
		return nil
	}
	return c.In[i].Value.Const
}

// Constant reports whether operand i is a constant, packed or not. Prices use it, so that a node costs the same before
// and after its constants are packed. It returns false for a pinned constant, because every run reads such a constant
// in its layout.
func (c *Call) Constant(i int) bool {
	return c.Packed(i) != nil || c.Const(i) != nil && !c.In[i].Value.Pin.SetsLayout()
}

// Result is the inferred type of one output. Alias is the index of the operand whose storage the output shares, or
// Fresh. If the output shares storage, the offset of Type counts from the start of that storage.
type Result struct {
	Type  tensor.Type
	Alias int
	// Dynamic means that the shape is known only after the op has run. Sizes and TypeFor then describe the known part of
	// the type: see the fields of [Outline] with these names.
	Dynamic bool
	Sizes   []int
	TypeFor func(shape []sym.Int) (tensor.Type, error)
}

// Meta returns the result in numbers.
func (r Result) Meta() tensor.Meta {
	meta, _ := r.Type.Meta()
	return meta
}

// Runtime is the part of the executor that an op with RunDynamic can use.
type Runtime interface {
	// Run plans and runs a graph, such as the body of a loop. The inputs are in the order of g.Inputs.
	Run(g *Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// Context returns the context of the run.
	Context() context.Context
}

// Fresh is the [Result.Alias] of a result with storage of its own.
const Fresh = -1

// One returns a single result with storage of its own. To avoid allocations, the returned slice is a buffer of the
// Call. The next call of One or Shared overwrites this buffer.
func (c *Call) One(t tensor.Type) []Result { return c.Shared(t, Fresh) }

// Shared is [Call.One] for a result that shares the storage of operand i ([Result].Alias).
func (c *Call) Shared(t tensor.Type, i int) []Result {
	c.oneResult[0].set(&t, i)
	return c.oneResult[:]
}

// set assigns the fields one by one, because an assignment of the struct is slower during a garbage collection.
func (r *Result) set(t *tensor.Type, alias int) {
	setFields(&r.Type, t)
	r.Alias, r.Dynamic, r.Sizes = alias, false, nil
}

// setFields copies a type field by field: see [Result.set].
func setFields(dst, src *tensor.Type) {
	dst.DType, dst.Shape, dst.Strides, dst.Offset = src.DType, src.Shape, src.Strides, src.Offset
}

// All is [Call.One] for several results.
func (c *Call) All(types ...tensor.Type) []Result { return c.AllShared(Fresh, types...) }

// AllShared is [Call.Shared] for several results.
func (c *Call) AllShared(i int, types ...tensor.Type) []Result {
	if len(c.allResults) < len(types) {
		c.allResults = make([]Result, len(types))
	}
	for k := range types {
		c.allResults[k].set(&types[k], i)
	}
	return c.allResults[:len(types)]
}

// Kernel is the executable form of a call with fixed metas. It has no state of a run, so that several runs may use it
// at the same time.
type Kernel struct {
	// Place is the processor that runs the kernel, and the memory that it accesses.
	Place  tensor.Place
	Phases []Phase // they run one after another
	// Scratch is the size in bytes of the memory that all chunks of a run share. Worker is the size in bytes of the memory
	// of each worker. Both memories are 64-byte aligned and not cleared.
	Scratch, Worker int
	// InPlace lists pairs of an output and an operand. The output may use the memory of the operand if the operand is not
	// needed afterwards.
	InPlace []InPlace
	// Bound is indexed by operand. It has the tensors of operands that are part of the kernel, such as plain numbers.
	// Its element is nil for an operand that the run supplies.
	Bound []*tensor.Tensor
	// Loop describes the iteration of a pointwise kernel; nil for other kernels.
	Loop Loop
	// Code lists the expressions of the kernel's loops, and the generated code; nil for a kernel that has none.
	Code func() []expr.Listing
	// Arithmetic is the estimated time of the kernel's machine code on one worker, in nanoseconds and without memory
	// accesses. It is 0 if the operations of Work are the best estimate.
	Arithmetic float64
	Forms      []Form // the computation as data; nil if it is not described
}

// InPlace means that output Out may use the memory of operand In.
type InPlace struct{ Out, In int }

// Phase is work divided into chunks that may run in any order and at the same time. The division, and thus the bits of
// the result, depends only on shapes and strides.
type Phase struct {
	Chunks int
	Run    func(m *Mem, chunk int) error
	Flow   *Flow // nil if the progress of chunks is not described
}

// Flow is for a phase whose chunks, in order of their numbers, go through memory from its beginning to its end. The
// executor uses the Flow to start a chunk before the step that computes the first operand has finished. Chunks are
// numbered from 0. The results of both functions never decrease as chunk grows.
type Flow struct {
	// FinalElements returns n: after chunks 0 to chunk have run, the first n elements of the first output, in memory
	// order, are final.
	FinalElements func(chunk int) int
	// NeededElements returns n: chunks 0 to chunk read only the first n elements, in memory order, of the first operand.
	NeededElements func(chunk int) int
}

// Example is a call for tests and documentation. Tests generate the data of its operands.
type Example struct {
	In    []tensor.Meta
	Attrs Attrs
}

// Attrs are attributes as a user writes them in Go: values of type bool, int, float64, string, []int, tensor.DType and
// other types of [SchemaOf].
type Attrs map[string]any

// Lookup finds an op by name; nil if there is none.
type Lookup func(name string) *Op
