package graph

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// Op is the contract of an operator. The loader, the passes and the executor use only this contract and never test the
// name of an op. Ops are immutable and shared by all graphs. fusion.Define makes ops that can run. [Define] makes ops
// for inference and evaluation only.
type Op struct {
	Semantics
	Facts
	Lowerings

	original *Op        // the op's own address, set by Define; a copy of the op has another address
	base     *Op        // the op that Extend extended, which is no extension; nil for an op that Define made
	derived  *memo.Memo // see Derived
}

// Semantics is the meaning of an op: operands, attributes, inference, and the reference.
type Semantics struct {
	Name   string  // aten's name
	Doc    string  // first line: the effect of the op; then shapes and rules
	Params []Param // tensor operands in aten's order
	Schema *Schema // attributes

	// Outputs names the results. Nil means one result or, if VariadicResults is set, a number of results that depends
	// on attributes and shapes (split).
	Outputs         []string
	VariadicResults bool
	Kind            Kind

	// Infer returns the types of the results in eager PyTorch. For a view, it also returns the operand whose storage
	// the view shares. Infer has no side effects and must not retain call. Its errors have PyTorch's messages.
	Infer func(call *Call) ([]Result, error)

	// Ref is the definition of the op: it computes the results index by index, from tensors of any layout. In the
	// parameter `in`, nil means an absent operand, and a 0-dim tensor means a number. Results may have any layout.
	Ref func(call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// NoRef is the reason why there is no Ref. The error [NoReference] contains this reason.
	NoRef string

	// Examples are calls for tests and the documentation.
	Examples []Example
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
	// View ops compute strides and do not access data. Some View ops, such as reshape, copy if no view is possible.
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
	Name          string
	Optional      bool // may be null, or missing at the end
	AcceptsNumber bool // may be a plain number, among the inputs or as an attribute
	Variadic      bool // takes all remaining inputs
	// IndexBound is set if the integers in the operand are indices or lengths. It returns the exclusive upper bound of
	// the integers for a call, or a negative number if they have no bound. The lower bound is 0, although some ops also
	// accept negative indices.
	IndexBound func(call *Call) int
	// Attr is the name of the attribute by which the operand can be given as a number, if this name differs from Name. For
	// example, scatter's src is called value if it is a number.
	Attr string
	// Overload is aten's name of the overload to which an optional operand belongs. Package op has a function for that
	// overload, in which the operand is required.
	Overload string
}

// Facts are properties of an op that passes and the cost model use. The zero Facts state no property.
type Facts struct {
	// SelectsElements means that each element of the results is an unchanged element of a data operand. (An operand has
	// data, not indices, if its [Param.IndexBound] is nil.) The selection depends only on shapes, attributes and
	// indices. An element-wise function may therefore be applied before or after the op. All views without ReadsStorage
	// have this property.
	SelectsElements bool

	// Fills means that each element of the results is either selected, as by an op with SelectsElements, or depends
	// only on attributes, as padding does.
	Fills bool

	// Identity means that the result has the elements of operand 0 unchanged if the dtypes are equal. Passes remove
	// such nodes where possible.
	Identity bool

	// Permutes is for a view that only reorders dimensions. It returns, for each dimension of the result, the dimension
	// of the operand. For a value without dimensions, it returns an empty list that is not nil. For other views,
	// Permutes is nil or returns nil.
	Permutes func(call *Call) []int

	// Copies marks the op by which passes copy values. Such an op is an Identity, needs no attributes, and writes any
	// dense layout.
	Copies bool

	// ConcatDim returns the dimension along which the op concatenates its operands. All operands must be tensors, and
	// the op must have one result. ConcatDim returns false for a call that does more than concatenate, for example a
	// call that also changes ranks. Passes can write operands directly into the result: see [Value.ContainedIn].
	// ConcatDim is nil if the op does not concatenate.
	ConcatDim func(call *Call) (dim int, ok bool)

	// Parallel returns loops of a call whose iterations are independent, such as the loop over the images of a
	// convolution. If it is nil, [Op.ParallelLoops] derives the loops.
	Parallel func(call *Call) []Parallel

	// Reshapes means that the results have the elements of operand 0 in the same row-major order, in another shape.
	Reshapes bool

	// SizesAttr is the name of the attribute that lists the sizes of the result. In this list, -1 is an inferred size.
	// SizesAttr is empty if the op has no such attribute.
	SizesAttr string

	// ImageRole means that operands or results are images, for which some strategies prefer channels last.
	ImageRole ImageRole

	// ReadsStorage means that the result depends on the operand's layout in memory, as in as_strided. Passes must not
	// change this layout.
	ReadsStorage bool

	// Stores means that the result is in the memory of operand 0, an input, behind whose elements the op writes others:
	// see [Graph.StoreCaches]. Passes must not change the layout of operand 0.
	Stores bool

	// ConstantsByAddress means that kernels and implementations depend on whether an operand is a constant, but not on
	// its elements: nodes with other constants can share a kernel. [Define] sets it for ops with Pointwise.
	ConstantsByAddress bool

	// UnfusableReason is the reason, for reports, why nodes of the op cannot share loops with other nodes. For example,
	// a scan carries a value from element to element. UnfusableReason is empty if the op can be fused, or if reports
	// need no reason.
	UnfusableReason string

	// WritesAnyDenseLayout means that kernels of Compile can write any dense layout, not only the inferred layout. Ops
	// of kind FollowsOperands need not set it.
	WritesAnyDenseLayout bool

	// FixedLayoutReason is the reason why the op writes results in the inferred layout only. Reports show it to explain a
	// copy.
	FixedLayoutReason string

	// Flops returns the number of arithmetic operations of a call for the cost model. If Flops is nil, FlopsPerElement
	// gives the number per element.
	Flops func(call *Call) float64

	// FlopKernel names the entry of the cost profile (see [Rate]) that gives the cost of one operation counted by Flops.
	// Empty means [Flop].
	FlopKernel string

	// FlopsPerElement is the number of operations per element of the first result or, if operand 0 has more elements,
	// per element of operand 0. The zero ElementFlops selects a default. The default is no operation if Flops is set,
	// one function such as exp for a pointwise op with a small [Pointwise.Grain], and otherwise one simple operation.
	FlopsPerElement ElementFlops
}

// ImageRole describes which operands and results are images or volumes, [n, c, h, w] or [n, c, d, h, w].
type ImageRole uint8

// The roles of images. Ops of kind FollowsOperands always preserve images.
const (
	NotImages       ImageRole = iota
	ImageOp                   // operand 0 and the results are images
	ImagePreserving           // the results are images if operands of the same rank are images
)

// ElementFlops counts the operations on one element: simple operations, and functions such as exp.
type ElementFlops struct{ Simple, Function float64 }

// Lowerings are the ways to compute an op: by kernels, as an expression or a row program, or by nodes of other ops.
type Lowerings struct {
	// Impls are the implementations. An op needs Impls if it has several implementations, or if its only implementation
	// does not read operands of every layout. Among equally cheap implementations the planner chooses the first. If
	// Impls is empty, [Define] makes one from Compile.
	Impls []Impl

	// Compile makes the kernel for the final layouts of a call. It is not called for views. For an op with Impls,
	// [Define] sets Compile to a function that calls Lower of the chosen implementation.
	Compile func(call *Call) (*Kernel, error)

	// Pointwise has the iteration and the computation of a pointwise op. Infer and Compile are derived from Pointwise.
	// It is nil for other ops.
	Pointwise *Pointwise

	// Expression returns the expression that computes one element of each result of a call. The operands and results of
	// the expression have the dtypes of the values in memory. Nodes with an expression can share a loop. The results
	// must have the shape to which the operands broadcast. A number operand is a constant of the expression, not a
	// load. Expression is also called before call.Out is set. It returns nil for a call that has no expression. If
	// Expression is nil, no call has an expression. fusion.Define sets Expression for an op with a Pointwise part and
	// no other implementation.
	Expression func(call *Call) (*expr.Code, error)

	// Rows is for an op that folds (reduces) dimensions. It returns the computation of a call as an expression over
	// rows, a row program. It returns nil without an error for a call that has no row program. All sizes of the call are
	// numbers. Of the shapes, the result depends only on the ranks and on the sizes of the folded dimensions. If Rows is
	// nil, no call has a row program.
	Rows func(call *Call) (*Rows, error)

	// Attend describes how the op, a product of two matrices, computes a fused attention. It is nil if the op cannot.
	Attend *Attend

	// Decompose replaces a node of a composite op by nodes of other ops. An op with Decompose has no kernel. Decompose
	// returns a value for each output, with the inferred dtype, shape and layout. Decompose is called when the graph is
	// planned, with the inferred results in call.Out. It must accept every call that Infer accepts.
	Decompose func(p *Parts, call *Call) ([]*Value, error)

	// Rewrite replaces a node, together with the nodes that compute its operands, by cheaper nodes, which may round
	// differently. Examples: quantized products become int8 products, and products of 16-bit floats become float32
	// products and conversions. Rewrite is called before composite nodes are decomposed; see [Rewrite]. If Rewrite is nil,
	// nodes of the op are not rewritten.
	Rewrite func(p *Parts, call *Call, a RewriteContext) (Rewrite, error)

	// Extend describes the result of a node as an operand with further elements behind it, as in a concatenation. It
	// returns false if the result is something else. If Extend is nil, no result of the op is an extension.
	Extend func(n *Node) (Extension, bool)

	// TakenBranch is for an op that runs one of several graphs, such as "if". If sizes determine the choice,
	// TakenBranch returns the chosen graph and its operands. The nodes of that graph then replace the node: see
	// [Graph.InlineControlFlow]. TakenBranch is nil for all other ops, and for an op whose choice never depends on
	// sizes.
	TakenBranch func(call *Call) (*Graph, []Arg)

	// Repeats is for an op that runs a graph repeatedly. If sizes determine the number of iterations, Repeats returns
	// this number and the graph. The nodes of the iterations then replace the node. Repeats returns false if the number
	// is unknown, or if the op should run as a loop.
	Repeats func(call *Call) (Repetition, bool)

	// RunDynamic computes the results of an op whose result shapes depend on data. Infer then returns Dynamic results,
	// and the graph runs in segments around the node.
	RunDynamic func(rt Runtime, call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)

	// Pricing computes the work of implementations without [Impl.Work]. If Pricing is nil, the work is computed from Flops
	// and FlopsPerElement.
	Pricing Pricing
}

// Runtime is the part of the executor that an op with RunDynamic can use.
type Runtime interface {
	// Run plans and runs a graph, such as the body of a loop. The inputs are in the order of g.Inputs.
	Run(g *Graph, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// Context returns the context of the run.
	Context() context.Context
	// Texts has the strings of the run: those of the model, of the inputs, and those that ops added.
	Texts() *tensor.Texts
}

// Example is a call for tests and documentation. Tests generate the data of its operands.
type Example struct {
	In    []tensor.Meta
	Attrs Attrs
}

// Attrs are attributes as a user writes them in Go: values of type bool, int, float64, string, []int, tensor.DType and
// other types of [SchemaOf].
type Attrs map[string]any

// Lookup finds an op by name. It returns nil if there is none.
type Lookup func(name string) *Op
