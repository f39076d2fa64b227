package graph

// Facts are properties of an op that passes and the cost model use. The zero Facts state no property.
type Facts struct {
	// SelectsElements means that each element of the results is an unchanged element of an operand. This operand has no
	// indices: its [Param.Below] is nil. The selection depends only on shapes, attributes and operands with indices. An
	// element-wise function may therefore be applied before or after the op. All views without ReadsStorage have this
	// property.
	SelectsElements bool

	// Fills means that each element of the results is either selected, as in an op with SelectsElements, or depends only
	// on attributes, such as padding.
	Fills bool

	// Identity means that the result has the elements of operand 0 unchanged if the dtypes are equal. Passes remove
	// such nodes where possible.
	Identity bool

	// Permutes is for a view that only reorders dimensions. It returns, for each dimension of the result, the dimension
	// of the operand. It is nil, or returns nil, for other views.
	Permutes func(call *Call) []int

	// Copies marks the op by which passes copy values. Such an op is an Identity, needs no attributes, and writes any
	// dense layout.
	Copies bool

	// ConcatDim returns the dimension along which the op concatenates its operands. All operands must be tensors, and the
	// op must have one result. ConcatDim returns false for a call that does more than concatenate, for example a call that
	// also changes ranks. Passes can write operands directly into the result: see [Value.Within]. Nil: the op does not
	// concatenate.
	ConcatDim func(call *Call) (dim int, ok bool)

	// Parallel returns loops of a call whose iterations are independent, such as the loop over the images of a
	// convolution. Nil: [Op.ParallelLoops] derives them.
	Parallel func(call *Call) []Parallel

	// Reshapes means that the results have the elements of operand 0 in row-major order, in another shape.
	Reshapes bool

	// Sizes names the attribute that lists the sizes of the result, where -1 is an inferred size; empty for none.
	Sizes string

	// ImageRole means that operands or results are images, for which some strategies prefer channels last.
	ImageRole ImageRole

	// ReadsStorage means that the result depends on the operand's layout in memory, as in as_strided. Passes must not
	// change this layout.
	ReadsStorage bool

	// UnfusableReason is set for an element-wise op (such as a scan) whose nodes cannot share loops with other nodes. It
	// is the reason, for reports.
	UnfusableReason string

	// AnyOrder means that kernels of Compile can write any dense layout, not only the inferred layout. Ops of kind
	// FollowsOperands need not set it.
	AnyOrder bool

	// FixedLayoutReason is the reason why the op writes results in the inferred layout only. Reports show it to explain a
	// copy.
	FixedLayoutReason string

	// Flops returns the number of arithmetic operations of a call for the cost model. If Flops is nil, Each gives the
	// number per element.
	Flops func(call *Call) float64

	// FlopKernel is the entry of cost profiles (see [Rate]) for an operation of Flops. Empty means [Flop].
	FlopKernel string

	// Each is the number of operations per element of the first result or, if operand 0 has more elements, per element
	// of operand 0. The zero Each means the default: no operations if Flops is set, one function for a pointwise op with
	// a small Grain, and one simple operation for all other ops.
	Each Each
}

// ImageRole describes which operands and results are images or volumes, [n, c, h, w] or [n, c, d, h, w].
type ImageRole uint8

// The roles of images. Ops of kind FollowsOperands always preserve images.
const (
	NotImages       ImageRole = iota
	ImageOp                   // operand 0 and the results are images
	ImagePreserving           // the results are images if operands of the same rank are images
)

// Each counts the operations on one element: simple operations, and functions such as exp.
type Each struct{ Simple, Function float64 }
