package graph

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
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

	// Variants lists the combinations of operand and output layouts that Compile serves,
	// where not every layout will do. Nil: Compile takes operands of any layout and
	// writes the layout that Infer gives (and, for Follows, any dense one).
	Variants func(c *Call) []Variant

	// Compile prepares the kernel for the call's final metas. It is not asked for a
	// result that shares storage.
	Compile func(c *Call) (*Kernel, error)

	// Identity says that the result holds operand 0's elements unchanged where the dtypes
	// are the same: a copy, or nothing at all. Passes drop such nodes where they can.
	Identity bool
	// Permutes returns, for a view that only reorders dimensions, the operand's dimension
	// that stands at each place of the result; nil: the view does more.
	Permutes func(c *Call) []int
	// Storage says that the result depends on how the operand lies in memory, not on its
	// elements alone (as_strided): its layout must not be chosen otherwise.
	Storage bool

	// Flops returns the multiplications, additions and the like that a call makes, for the
	// cost model; nil: one for each element of the outputs.
	Flops func(c *Call) float64

	// Pointwise holds the iteration and the block body of a pointwise op, from which Infer
	// and Compile follow; nil for other ops. A chain of bodies over the same blocks is the
	// fusion of the ops.
	Pointwise *Pointwise

	// Ref is the definition: it computes the results index by index, from tensors of any
	// layout (nil for an operand left out, 0-dim for a number). Results are row-major or
	// of any other layout; only values and dtypes count.
	Ref func(c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// NoRef says why there is no Ref, where there is none: what users read when a graph
	// could not be checked.
	NoRef string

	// Eager computes the results of an op whose shapes depend on data; Infer then gives
	// Results that are Dynamic. The graph runs piecewise around it.
	Eager func(rt Runtime, c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// Examples are calls that tests and the documentation run.
	Examples []Example

	defined *Op // the op itself once Define has made it: a copy is told by it
}

// Kind tells how an op stands to the layout of its operands.
type Kind uint8

// Follows: pointwise, the permutation rule lays the result out, and any other dense layout
// can be asked for. View: maps strides without touching data (some, such as reshape, copy
// where no view is possible). Requires: the kernels serve the layouts listed by Variants
// only. Own: takes any layout, and the result has a layout of its own.
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
	// to. The Go builder has a method for it, where the operand is required.
	Overload string
}

// Call is one application of an op, as Infer, Compile and the others see it.
type Call struct {
	In    []Arg
	Attrs any // the decoded attributes, of the op's own type
	Out   []tensor.Meta
	// Variant indexes Variants, where the op has them; -1 if none was chosen.
	Variant int
}

// ArgKind tells what stands at an operand's place.
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

// Meta returns the meta of the operand's value, a 0-dim meta for a number, and the zero
// Meta for an operand left out.
func (a Arg) Meta() tensor.Meta {
	switch a.Kind {
	case TensorArg:
		if a.Value == nil {
			return tensor.Meta{}
		}
		return a.Value.Meta
	case NumberArg:
		return tensor.New(a.Number.DType())
	}
	return tensor.Meta{}
}

// Operand returns the operand as an iterator takes it.
func (a Arg) Operand() iter.Operand {
	if a.Kind == NumberArg {
		return iter.Number(a.Number)
	}
	return iter.Of(a.Meta())
}

// Has reports whether operand i is given.
func (c *Call) Has(i int) bool { return i >= 0 && i < len(c.In) && c.In[i].Kind != Null }

// Meta returns the meta of operand i, or the zero Meta where it is left out.
func (c *Call) Meta(i int) tensor.Meta {
	if i < 0 || i >= len(c.In) {
		return tensor.Meta{}
	}
	return c.In[i].Meta()
}

// Const returns the data of operand i where it is known when the graph is compiled: a
// constant, else nil.
func (c *Call) Const(i int) *tensor.Tensor {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil {
		return nil
	}
	return c.In[i].Value.Const
}

// Result is what Infer says of one output. Alias is the index of the operand whose
// storage it shares, or Fresh. For a shared result the Meta's offset counts from the
// start of that storage.
type Result struct {
	Meta  tensor.Meta
	Alias int
	// Dynamic says that only the dtype is known before the op has run.
	Dynamic bool
}

// Runtime is what an op with Eager may ask of the executor.
type Runtime interface {
	// Run plans and runs a graph, such as the body of a loop, on inputs in its order.
	Run(g *Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// Fresh marks a result with storage of its own.
const Fresh = -1

// New1 returns the result of an op that makes one value of fresh storage.
func New1(m tensor.Meta) []Result { return []Result{{Meta: m, Alias: Fresh}} }

// Variant is one combination of layouts that a kernel serves. In and Out hold a memory
// format for each operand and output; NoFormat means any layout.
type Variant struct {
	Name    string
	In, Out []tensor.MemoryFormat
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
}

// InPlace says that output Out may use the memory of operand In.
type InPlace struct{ Out, In int }

// Phase is work cut into chunks that may run in any order and at the same time. The cut
// depends on shapes alone, and so do the bits of the result.
type Phase struct {
	Chunks int
	Run    func(m *Mem, chunk int) error
}

// Mem is the memory of one execution of a kernel. Ptrs holds the addresses of the first
// elements of the outputs, then of all operands (nil for one left out).
type Mem struct {
	Ptrs    []unsafe.Pointer
	Scratch []byte
	Worker  []byte
	Cursor  *iter.Cursor
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
