package graph

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Op is the contract of an operator: all that the loader, the passes and the executor ask
// about a node. They never ask for its name. Ops are immutable and shared by all graphs;
// [Define] makes one.
type Op struct {
	Name   string  // aten's name
	Doc    string  // first line: what it does; then shapes and rules
	Params []Param // tensor operands in aten's order
	Schema *Schema // attributes
	Kind   Kind

	// Outputs names the values that a node makes; nil: one. Where the number depends on
	// attributes and shapes (split), it is nil and Many is set.
	Outputs []string
	Many    bool

	// Infer gives the metas that eager PyTorch gives, and says which operand a view
	// shares storage with. It is pure, must not keep c, and its errors have PyTorch's
	// words.
	Infer func(c *Call) ([]Result, error)

	// Impls are the ways to compute the op where there are several, or where one does not take
	// operands of any layout; the first that is as good as any other is chosen. [Define] makes one of
	// Compile where none are listed.
	Impls []Impl
	// AnyOrder says that kernels made by Compile write any dense layout that is asked for, as those of
	// kind Follows do, and not only the one that Infer gives.
	AnyOrder bool
	// AsInferred says why results are written only as Infer lays them out, where that is so of an op
	// whose results have an order: what users read who wonder at a copy.
	AsInferred string

	// Compile prepares the kernel for the call's final metas. It is not asked for a
	// result that shares storage. Of an op with Impls it is the chosen one's Lower.
	Compile func(c *Call) (*Kernel, error)

	// Decompose states a composite op as nodes of other ops, which run in its place; it has no kernel
	// of its own then. It returns what stands for each output: of the same dtype and shape as Infer
	// gives, and lying so. It is asked when the graph is planned, with the results as inferred in c.Out, and must
	// take every call that Infer does.
	Decompose func(p *Parts, c *Call) ([]*Value, error)

	// Restate states a node together with nodes that make its operands as other nodes, which run in their place and
	// may round otherwise: products of numbers that were quantised as products of bytes, those of 16-bit floats as
	// products of float32 and conversions. It is asked before composite nodes are decomposed; see [Restatement]. Nil: no
	// node of the op is.
	Restate func(p *Parts, c *Call, a Around) (Restatement, error)

	// Selects says that each element of the result is one of the elements of operand 0, or of any operand where there
	// are several of the same dtype, chosen by place or as the greatest: a function that never falls may be applied
	// before or after. Views that are no [Op.Storage] do so without saying it.
	Selects bool

	// Chooses returns, for an op that stands for one of several graphs, the one that sizes choose, and its
	// operands: the nodes of that graph run in the place of the op's, see [Graph.Settle]. Nil: it has a kernel.
	Chooses func(c *Call) (*Graph, []Arg)

	// Repeats returns, for an op that runs a graph again and again, how often sizes say; false where they do not, or
	// where it had better run as it is. The nodes of the iterations run in the place of the op's, as of those of
	// Chooses.
	Repeats func(c *Call) (Repetition, bool)

	// Identity says that the result holds operand 0's elements unchanged where the dtypes
	// are the same: a copy, or nothing at all. Passes drop such nodes where they can.
	Identity bool
	// Permutes returns, for a view that only reorders dimensions, the operand's dimension
	// that is at each place of the result; nil: the view does more.
	Permutes func(c *Call) []int
	// Copies says that the op is the one of its catalogue that passes copy values with: it is an
	// Identity, needs no attributes, and its kernel writes any dense layout.
	Copies bool
	// Joins tells along which dimension of its only result the op puts its operands, all of them tensors, one after
	// another; false for a call that does more than that, as to convert ranks. Passes then have operands written where
	// the result has them: see [Value.Within]. Nil: no call does no more.
	Joins func(c *Call) (dim int, ok bool)
	// Images tells what the op has to do with images: strategies that prefer channels last ask it.
	Images Images
	// Storage says that the result depends on how the operand is laid out in memory, not on its
	// elements alone (as_strided): its layout must not be chosen otherwise.
	Storage bool

	// Flops returns the multiplications, additions and the like that a call makes, for the
	// cost model; nil: one for each element of the outputs.
	Flops func(c *Call) float64
	// FlopKernel names the inner kernel of which each of Flops is a unit; empty: [Flop].
	FlopKernel string
	// Each is what each element of operand 0, or of the first result where it has more, takes besides,
	// for the cost model; zero: one simple operation where there are no Flops, or a function in a
	// pointwise op of a small Grain.
	Each Each

	// Pointwise holds the iteration and the block body of a pointwise op, from which Infer
	// and Compile follow; nil for other ops. A chain of bodies over the same blocks is the
	// fusion of the ops.
	Pointwise *Pointwise

	// Expression states what an op that is no Pointwise computes for one element of a value that it makes, over
	// operands and results as memory holds them: as [Pointwise] does, it makes the node one that can share a loop
	// with others. The results must have the shape to which the operands broadcast. It is asked for calls without
	// results, too, and returns nil for those that are no loop. Nil: no call is.
	Expression func(c *Call) (*expr.Code, error)

	// Rows states, for an op that folds dimensions, what a call computes as an expression over rows: nil, without
	// an error, for a call that has none. It is asked for calls with numbers for sizes. Nil: no call has one.
	Rows func(c *Call) (*Rows, error)

	// Alone says why nodes of the op share no loop with others, where that is so of an op that goes over the elements
	// of its operand as those do that share loops (scans): what users read who wonder at a step of its own.
	Alone string

	// Attend says how the op, a product of two matrices, computes attention; nil: it does not.
	Attend *Attend

	// Ref is the definition: it computes the results index by index, from tensors of any
	// layout (nil for an operand left out, 0-dim for a number). Results are row-major or
	// of any other layout; only values and dtypes count.
	Ref func(c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// NoRef says why there is no Ref, where there is none: what users read when a graph
	// could not be checked.
	NoRef string

	// Eager computes the results of an op whose shapes depend on data; Infer then gives
	// Results that are Dynamic. The graph runs in segments around it.
	Eager func(rt Runtime, c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// Examples are calls that tests and the documentation run.
	Examples []Example

	loops   bool // the kernel is the loop of Pointwise, and nothing else
	effort  func() (Effort, bool)
	behind  func() *Op // see tailed
	attends func() *Op // see attending
	defined *Op        // the op itself once Define has made it: a copy is told by it
}

// Each counts operations an element: simple ones, and functions such as exp.
type Each struct{ Simple, Function float64 }

// Kind tells what an op asks of the layout of its operands.
type Kind uint8

// Follows: pointwise, the permutation rule lays the result out, and any other dense layout
// can be asked for. View: maps strides without touching data (some, such as reshape, copy
// where no view is possible). Requires: the implementations read some layouts only. Own: takes
// any layout, and the result has a layout of its own.
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

// Images tells what an op has to do with images and volumes, [n, c, h, w] or [n, c, d, h, w].
type Images uint8

// ImageOp: operand 0 and the results are images. ImagePasser: the results are images where operands of
// the same rank are; so are those of ops of kind Follows.
const (
	NoImages Images = iota
	ImageOp
	ImagePasser
)

// Param is a tensor operand of an op.
type Param struct {
	Name     string
	Optional bool // null, or missing at the end
	Number   bool // a plain number will do, among the inputs or as an attribute
	Variadic bool // one or more; the whole of the inputs
	// Below says that the operand, where it holds integers, holds indices or lengths: they
	// are at least 0 and below what it returns for a call (negative ones may be allowed, but
	// nobody needs them). A negative result tells that there is no bound. Nil: the elements
	// are plain numbers.
	Below func(c *Call) int
	// Attr is the name of the attribute that the number may be, where it is not Name:
	// scatter's src is called value where it is a number.
	Attr string
	// Overload is aten's name of the overload that the operand, which is optional, belongs
	// to. Package op has a function for it, where the operand is required.
	Overload string
}

// Call is one application of an op, as Infer, Compile and the others see it.
type Call struct {
	In    []Arg
	Attrs any // the decoded attributes, of the op's own type
	Out   []tensor.Meta
	// Impl is the implementation that was chosen, one of the op's, and Walk the way through the call
	// that it takes; nil before.
	Impl *Impl
	Walk Walk
	// InPlace marks operands that lie where the result of an op that joins has them, and are not copied; nil: none.
	InPlace []bool
	// Tail is what the kernel does to its result besides; nil for nothing. It is given to Lower of implementations
	// that say Tails: the tail's operands come behind those of the call among the addresses. Where the kernel cannot
	// apply it after all, it is left to a phase of its own ([Tail.Leave]).
	Tail *Tail

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

// Placed reports whether operand i lies where the result has it: see [Call.InPlace].
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

// Runtime is what an op with Eager may ask of the executor.
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
	// Loop is the iteration of a pointwise kernel, for display; nil for others.
	Loop *iter.Iterator
	// Code lists the loops of expressions that the kernel runs, and what was made of them; nil for a kernel that
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
// output and of the first operand as they lie in memory. Of all functions chunk counts from 0, and neither becomes less
// from chunk to chunk. By it chunks of a step may run before the step is finished that makes its first operand.
type Flow struct {
	// Made returns how many elements from the first one on hold what they will once chunks 0 to chunk have run.
	Made func(chunk int) int
	// Needs returns how many elements from the first one on contain all that chunks 0 to chunk read.
	Needs func(chunk int) int
}

// Example is a call for tests and documentation. In holds metas; values are made up.
type Example struct {
	In    []tensor.Meta
	Attrs Attrs
}

// Attrs are attributes as a user writes them in Go. Values may be bool, int, float64,
// string, []int, tensor.DType and the like.
type Attrs map[string]any

// Lookup finds an op by name; nil if there is none.
type Lookup func(name string) *Op
