package iter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Iterator is an iteration over operands: a [Rule] whose sizes are numbers, and the walk, which is the loop nest over
// the coalesced dimensions. It is immutable and safe for concurrent use. The state of a walk is in a [Cursor].
type Iterator struct {
	Rule
	operands []rule.Resolved // outputs, then inputs
	outCount int             // number of outputs
	perm     []int           // the dimensions, fastest first
	shape    []int           // the broadcast shape
	numel    int             // number of elements of shape

	walkShape   []int // sizes of the coalesced dimensions, fastest first
	walkStrides []int // strides in bytes, at index dim*len(operands)+operand; padded with 0 to at least two dimensions

	// The following fields describe a part of an iteration ([Iterator.Narrow], [Iterator.Split32]).

	offsets        []int // byte offset of each operand's first element; nil if the Iterator is not a part
	starts         []int // first index of the part in each dimension of the walk
	wholeWalkShape []int // the walk shape of the whole iteration
	hasEarlierPart bool  // this is a part of a reduction, and an earlier part has written to the same outputs
	hasLaterPart   bool  // this is a part of a reduction, and a later part adds to the same outputs
}

// Build sets up the iteration in the order of TensorIteratorBase::build: overlap checks, the decisions of
// [Config.Rule], then the walk, the loop nest over coalesced dimensions. All sizes must be numbers. Errors are
// PyTorch's, with the operand added. Build also fails for a nil tensor, a negative stride, or a layout that exceeds the
// tensor's storage.
func (c Config) Build() (*Iterator, error) { return Build(c.Config) }

// Build is [Config.Build] for a configuration of package rule.
func Build(c rule.Config) (*Iterator, error) {
	it := &Iterator{}
	if err := c.Resolve(&it.Rule); err != nil {
		return nil, err
	}
	it.operands, it.outCount, it.perm = it.Operands(), it.NumOutputs(), it.Perm()
	sizes := it.Sizes()
	it.shape = make([]int, len(sizes))
	for d, s := range sizes {
		it.shape[d], _ = s.Known()
	}
	it.numel = tensor.Numel(it.shape)
	it.coalesce()
	return it, nil
}

// byteStride returns the stride in bytes of operand i along a dimension of the walk.
func (it *Iterator) byteStride(dim, i int) int { return it.walkStrides[dim*len(it.operands)+i] }

var errNilIterator = errors.New("iter: the Iterator is nil")

// Numel returns the number of elements: the product of the broadcast shape.
func (it *Iterator) Numel() int { return it.numel }

// Shape returns the broadcast shape in the operands' order of dimensions.
func (it *Iterator) Shape() []int { return slices.Clone(it.shape) }

// Meta returns the meta of operand i. For an output that the caller did not give, it is the meta of the tensor to
// allocate.
func (it *Iterator) Meta(i int) tensor.Meta { return *it.Operand(i).Meta }

// Output returns the meta of the first output; it panics if there is none.
func (it *Iterator) Output() tensor.Meta {
	if it.outCount == 0 {
		panic("iter: the iteration has no output")
	}
	return *it.operands[0].Meta
}

// WalkShape returns the coalesced shape, fastest dimension first. It is empty for an iteration without dimensions.
func (it *Iterator) WalkShape() []int { return slices.Clone(it.walkShape) }

// WalkStrides returns the strides, in bytes, of operand i over [Iterator.WalkShape].
func (it *Iterator) WalkStrides(i int) []int {
	it.Operand(i) // panics if i is out of range
	strides := make([]int, len(it.walkShape))
	for d := range strides {
		strides[d] = it.byteStride(d, i)
	}
	return strides
}

// Offset returns the number of bytes from operand i's first element to the first element of the part. It is 0 for a
// whole iteration.
func (it *Iterator) Offset(i int) int {
	it.Operand(i) // panics if i is out of range
	if it.offsets == nil {
		return 0
	}
	return it.offsets[i]
}

// IsContiguous reports whether every operand is one contiguous run of elements and no operand is converted to another
// dtype.
func (it *Iterator) IsContiguous() bool {
	if len(it.walkShape) > 1 || it.Converts() {
		return false
	}
	for i := range it.operands { // walkStrides[i] is the stride of operand i along the fastest dimension
		if it.numel > 1 && it.walkStrides[i] != it.operands[i].Meta.DType.Size() {
			return false
		}
	}
	return true
}

// HasContiguousFirstDim reports whether every operand is contiguous along the fastest dimension of the walk
// (has_contiguous_first_dim). It is true if the walk has no dimensions.
func (it *Iterator) HasContiguousFirstDim() bool {
	if len(it.walkShape) == 0 {
		return true
	}
	for i := range it.operands {
		if it.walkStrides[i] != it.operands[i].Meta.DType.Size() {
			return false
		}
	}
	return true
}

// String describes the iteration: permutation, coalesced shape, and each operand's byte strides.
func (it *Iterator) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shape %s perm %v fast set-up %s walk %v", tensor.ListString(it.shape), it.perm, it.FastSetup(),
		it.walkShape)
	for i := range it.operands {
		kind := "in"
		if i < it.outCount {
			kind = "out"
		}
		fmt.Fprintf(&b, "\n  %s %v strides %v", kind, *it.operands[i].Meta, it.WalkStrides(i))
		if t := it.operands[i].TargetDType; t != it.operands[i].Meta.DType {
			fmt.Fprintf(&b, " seen as %v", t)
		}
	}
	return b.String()
}

// Config describes an iteration. It is a [rule.Config] with the additional method [Config.Build]; rule.Config documents
// the other methods. Every method returns a changed copy, so that one Config can be extended in several ways. A method
// with a parameter v switches the described behavior on (true) or off.
type Config struct{ rule.Config }

// New returns the default configuration: memory overlap is checked, outputs may be resized, and all dtypes must be
// equal.
func New() Config { return Config{rule.New()} }

// Unary is a unary op whose operand and result have the same dtype.
func Unary(out, a Operand) Config { return Config{rule.Unary(out, a)} }

// UnaryFloat is a unary op in floating point: integers are converted to float32.
func UnaryFloat(out, a Operand) Config { return Config{rule.UnaryFloat(out, a)} }

// Binary is a binary op in the promoted dtype.
func Binary(out, a, b Operand) Config { return Config{rule.Binary(out, a, b)} }

// BinaryFloat is a binary op in floating point, such as true division.
func BinaryFloat(out, a, b Operand) Config { return Config{rule.BinaryFloat(out, a, b)} }

// Comparison is a comparison in the promoted dtype with a result of bool, which is converted if out has another dtype.
func Comparison(out, a, b Operand) Config { return Config{rule.Comparison(out, a, b)} }

// Nullary fills an output.
func Nullary(out Operand) Config { return Config{rule.Nullary(out)} }

// Reduction is a reduction of a into out, which must be defined and have size 1 or stride 0 in the reduced dimensions.
// [ReduceOutput] makes such an output.
func Reduction(out, a Operand) Config { return Config{rule.Reduction(out, a)} }

// Copy is a copy of a into out, like copy_. The dtypes may differ. If out is defined, it keeps its layout and a is
// broadcast to its shape.
func Copy(out, a Operand) Config { return Config{rule.Copy(out, a)} }

// Output adds an output.
func (c Config) Output(o Operand) Config { return Config{c.Config.Output(o)} }

// Input adds an input.
func (c Config) Input(o Operand) Config { return Config{c.Config.Input(o)} }

// Inputs adds several inputs.
func (c Config) Inputs(o ...Operand) Config { return Config{c.Config.Inputs(o...)} }

// CheckMemOverlap rejects outputs that overlap themselves or, partially, an input.
func (c Config) CheckMemOverlap(v bool) Config { return Config{c.Config.CheckMemOverlap(v)} }

// AllowCPUScalars has no effect, because there is one device.
func (c Config) AllowCPUScalars(v bool) Config { return Config{c.Config.AllowCPUScalars(v)} }

// IsReduction sets that the dimensions in which an output has stride 0 are reduced.
func (c Config) IsReduction(v bool) Config { return Config{c.Config.IsReduction(v)} }

// ResizeOutputs sets whether a defined output of the wrong shape is resized.
func (c Config) ResizeOutputs(v bool) Config { return Config{c.Config.ResizeOutputs(v)} }

// CheckAllSameDType rejects operands of different dtypes.
func (c Config) CheckAllSameDType(v bool) Config { return Config{c.Config.CheckAllSameDType(v)} }

// EnforceSafeCastingToOutput rejects a defined output if the common dtype cannot be cast to the output's dtype.
func (c Config) EnforceSafeCastingToOutput(v bool) Config {
	return Config{c.Config.EnforceSafeCastingToOutput(v)}
}

// EnforceLinearIteration keeps the dimensions in row-major order.
func (c Config) EnforceLinearIteration(v bool) Config {
	return Config{c.Config.EnforceLinearIteration(v)}
}

// PromoteInputsToCommonDType computes the common dtype by promotion. Inputs are converted to it before the loop reads
// them.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	return Config{c.Config.PromoteInputsToCommonDType(v)}
}

// PromoteIntegerInputsToFloat replaces a common dtype of bool or integers by float32.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config {
	return Config{c.Config.PromoteIntegerInputsToFloat(v)}
}

// CastCommonDTypeToOutputs sets that loops compute in the common dtype even if a defined output has another dtype.
// Results are then converted on write.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	return Config{c.Config.CastCommonDTypeToOutputs(v)}
}

// CastInputs sets that every input is converted to dtype d before the loop reads it, as in sum(dtype=...).
func (c Config) CastInputs(d tensor.DType) Config { return Config{c.Config.CastInputs(d)} }

// OpMath sets that loops compute on float16 and bfloat16 operands in float32, as PyTorch's CPU kernels do. Results are
// rounded on write.
func (c Config) OpMath(v bool) Config { return Config{c.Config.OpMath(v)} }

// StaticShape sets the shape, which is otherwise inferred from the operands. Operands may be larger; the loop then
// processes the elements with the lowest indices.
func (c Config) StaticShape(shape ...int) Config { return Config{c.Config.StaticShape(shape...)} }

// StaticDType sets the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { return Config{c.Config.StaticDType(d)} }

// FastSetup sets whether fast set-up is used where possible: outputs get the layout of the operands if all operands
// have the same dense layout. Without fast set-up, the permutation rule decides all layouts: it sorts the dimensions by
// the operands' strides.
func (c Config) FastSetup(v bool) Config { return Config{c.Config.FastSetup(v)} }

// This part forwards to package rule, so that users of iter need not import package rule.

// These types are aliases of types of package [rule]. That package makes the decisions of an iteration that need
// neither memory nor code.
type (
	// Operand is an output or input: [OperandOfMeta], [OperandOfTensor], [OperandOfType], [UndefinedOutput],
	// [NumberOperand].
	Operand   = rule.Operand
	Rule      = rule.Rule      // the decisions: shape, dtypes, permutation, layouts
	FastSetup = rule.FastSetup // a shortcut for the layouts of an iteration
	SortStep  = rule.SortStep  // a comparison of the sort that determines the permutation
	Overlap   = rule.Overlap   // whether and how the memory of two values overlaps
	Kernel    = rule.Kernel    // the computation of each element: [Map2], [Slice2], [Expr] and similar functions
	Kernels   = rule.Kernels   // a [Kernel], or a [Table] from which a kernel is selected
	Table     = rule.Table     // the kernels of one op, for different dtypes: [NewTable]
)

// The kinds of fast set-up, in the order of precedence.
const (
	FastNone                = rule.FastNone
	FastContiguous          = rule.FastContiguous
	FastChannelsLast        = rule.FastChannelsLast
	FastNonOverlappingDense = rule.FastNonOverlappingDense
)

// OverlapFull means that both values have the same elements at the same addresses. OverlapTooHard means that the search
// was abandoned.
const (
	OverlapNo      = rule.OverlapNo
	OverlapPartial = rule.OverlapPartial
	OverlapFull    = rule.OverlapFull
	OverlapTooHard = rule.OverlapTooHard
)

// MaxResults and MaxOperands are the limits for a [Kernel] of a Go function.
const (
	MaxResults  = rule.MaxResults
	MaxOperands = rule.MaxOperands
)

// OperandOfType returns an operand whose sizes may be symbolic, for [Config.Rule]. [Config.Build] requires numbers.
func OperandOfType(t tensor.Type) Operand { return rule.OperandOfType(t) }

// OperandOfMeta returns an operand without data: only its meta is known, as for a borrowed operand of PyTorch. The
// caller supplies its address when the iteration runs.
func OperandOfMeta(m tensor.Meta) Operand { return rule.OperandOfMeta(m) }

// OperandOfTensor returns an operand with storage, like an owned operand of PyTorch. The iteration can check overlap,
// and run over the tensor's data. If an output and an input are the same *Tensor, the output is read-write (an in-place
// operation). [Config.Build] rejects a nil tensor, and a tensor without storage.
func OperandOfTensor(t *tensor.Tensor) Operand { return rule.OperandOfTensor(t) }

// UndefinedOutput returns an output of the common or static dtype, whose layout the rule chooses.
func UndefinedOutput() Operand { return Operand{} }

// UndefinedOutputOf returns an output of dtype d, whose layout the rule chooses.
func UndefinedOutputOf(d tensor.DType) Operand { return rule.UndefinedOutputOf(d) }

// NumberOperand returns a plain number as an operand. It is a 0-dim value, and affects promotion only if all tensors
// have a lower kind (bool, integer, float, complex). It can only be an input.
func NumberOperand(s tensor.Scalar) Operand { return rule.NumberOperand(s) }

// Expr makes a Kernel of an expression. If operands or results have other dtypes in memory than in the expression, the
// conversions become part of the expression ([Rule.InMemory]). Contiguous and broadcast operands are read in place. The
// expression is compiled to machine code if the processor is supported.
func Expr(c *expr.Code) Kernel { return rule.Expr(c) }

// ExprOf makes a Kernel of an expression. The expression is built only when the kernel runs, because inference needs
// only its dtypes. types has the dtypes of the results, then of the operands. build returns the expression and is
// called at most once. If build fails, runs of the kernel return its error.
func ExprOf(build func() (*expr.Code, error), results int, types ...tensor.DType) Kernel {
	return rule.ExprOf(build, results, types...)
}

// NewTable returns a table of kernels. name is part of the error for dtypes without a kernel: "add_cpu" not implemented
// for 'Half'. The table selects the first kernel that fits.
//
//	var add = iter.NewTable("add_cpu", iter.Slice2(addSlice[float32]), iter.Slice2(addSlice[int32]))
//
// Uses of the table return an error if a kernel has a nil function, or if an earlier kernel accepts all its dtypes.
func NewTable(name string, kernels ...Kernel) *Table { return rule.NewTable(name, kernels...) }

// NotImplemented returns PyTorch's error for an iteration's dtype: "name" not implemented for 'Half'. The error names
// the common dtype. If there is no common dtype, it names the dtype of the first input or, without inputs, of the
// output.
func NotImplemented(name string, r *Rule) error { return rule.NotImplemented(name, r) }

// ResultType returns the dtype to which operands are promoted (at::result_type). Tensors with dimensions have priority
// over 0-dim tensors, and 0-dim tensors over plain numbers. Undefined operands are ignored.
func ResultType(ops ...Operand) (tensor.DType, error) { return rule.ResultType(ops...) }

// CastType returns the type of t converted to d in memory format preserve, like Tensor::to(dtype).
func CastType(t tensor.Type, d tensor.DType) tensor.Type { return rule.CastType(t, d) }

// PreserveType returns the type of a new copy of t in memory format preserve.
func PreserveType(t tensor.Type) tensor.Type { return rule.PreserveType(t) }

// UnifyNames returns the dimension names of the result of broadcasting two values (at::unify_from_right).
func UnifyNames(a, b []string) ([]string, error) { return rule.UnifyNames(a, b) }

// InternalOverlap reports whether two elements of a value share memory: OverlapNo, OverlapPartial, or OverlapTooHard if
// the search was abandoned.
func InternalOverlap(m tensor.Meta) Overlap { return rule.InternalOverlap(m) }

// OverlapOf returns the overlap of two values in the same storage (at::get_overlap_status).
func OverlapOf(a, b tensor.Meta) Overlap { return rule.OverlapOf(a, b) }

// ReduceMask returns, for each dimension of a value, whether it is reduced (make_dim_mask). dims lists the reduced
// dimensions; an empty list means all dimensions.
func ReduceMask(dims []int, rank int) ([]bool, error) { return rule.ReduceMask(dims, rank) }

// ReduceShape returns a shape without the dimensions that mask marks (shape_from_dim_mask). If keepdim is set, these
// dimensions instead have size 1. It panics if mask and shape differ in length.
func ReduceShape(shape []int, mask []bool, keepdim bool) []int {
	return rule.ReduceShape(shape, mask, keepdim)
}

// ReduceOutput returns the view of an output of shape [ReduceShape] that [Reduction] requires. Reduced dimensions have
// size 1 and, if keepdim is false, stride 0 (review_reduce_result). It panics if the rank of out does not match mask.
func ReduceOutput(out tensor.Meta, mask []bool, keepdim bool) tensor.Meta {
	return rule.ReduceOutput(out, mask, keepdim)
}

// ReduceOutputType is [ReduceOutput] for sizes that may be symbolic.
func ReduceOutputType(out tensor.Type, mask []bool, keepdim bool) tensor.Type {
	return rule.ReduceOutputType(out, mask, keepdim)
}

// This part makes parts of an iteration: a range of one dimension, or parts whose byte offsets fit 32 bits. A part has
// another walk shape and other byte offsets of its operands. For example, indices 2 to 5 of dimension 0 of a walk of
// shape [8, 3] are a walk of shape [4, 3] whose operands begin 2 strides of dimension 0 later.

// Narrow returns the part of the iteration with the indices start to start+size-1 in dimension dim of
// [Iterator.WalkShape] (TensorIteratorBase::narrow). The part is run with the same operand addresses as the whole
// iteration. If size is 1, adjacent dimensions of the walk are merged again where possible, except in a reduction.
// Narrow fails if the dimension does not exist, or if the range is empty or out of bounds.
func (it *Iterator) Narrow(dim, start, size int) (*Iterator, error) {
	switch {
	case it == nil:
		return nil, errNilIterator
	case dim < 0 || dim >= len(it.walkShape):
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): dimension %d does not exist in the walk %v", dim, start, size, dim,
			it.walkShape)
	case size < 1:
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): the size is less than 1", dim, start, size)
	case start < 0 || size > it.walkShape[dim]-start:
		return nil, fmt.Errorf("iter: Narrow(%d, %d, %d): the range exceeds dimension %d of the walk %v", dim, start, size,
			dim, it.walkShape)
	}
	return it.narrow(dim, start, size), nil
}

// narrow is Narrow without checks.
func (it *Iterator) narrow(dim, start, size int) *Iterator {
	part := it.copyForPart()
	part.restrict(dim, start, size)
	part.updateNumel()
	if size == 1 && !it.IsReduction() {
		part.merge()
	}
	return part
}

// SelectAll returns the part of the iteration with index indices[k] in dimension first+k of [Iterator.WalkShape], for
// all k (select_all_keeping_dim). These dimensions keep size 1. SelectAll fails if an index is out of range.
func (it *Iterator) SelectAll(first int, indices []int) (*Iterator, error) {
	if it == nil {
		return nil, errNilIterator
	}
	part := it.copyForPart()
	for k, index := range indices {
		dim := first + k
		if dim < 0 || dim >= len(it.walkShape) {
			return nil, fmt.Errorf("iter: SelectAll(%d, %v): there is no dimension %d in the walk %v", first, indices, dim,
				it.walkShape)
		}
		if index < 0 || index >= it.walkShape[dim] {
			return nil, fmt.Errorf("iter: SelectAll(%d, %v): index %d is out of range for dimension %d of the walk %v", first,
				indices, index, dim, it.walkShape)
		}
		const size = 1
		part.restrict(dim, index, size)
	}
	part.updateNumel()
	return part, nil
}

// RemoveOperand returns the iteration without operand i and with the same walk (remove_operand). It fails if i is out
// of range.
func (it *Iterator) RemoveOperand(i int) (*Iterator, error) {
	switch {
	case it == nil:
		return nil, errNilIterator
	case i < 0 || i >= len(it.operands):
		return nil, fmt.Errorf("iter: RemoveOperand(%d): the iteration has %d operands", i, len(it.operands))
	}
	remaining := it.copyForPart()
	operandCount := len(it.operands)
	remaining.Rule = it.Rule.Without(i)
	remaining.operands, remaining.outCount = remaining.Operands(), remaining.NumOutputs()
	remaining.offsets = slices.Delete(remaining.offsets, i, i+1)
	remaining.walkStrides = remaining.walkStrides[:0]
	for k, stride := range it.walkStrides {
		if k%operandCount != i {
			remaining.walkStrides = append(remaining.walkStrides, stride)
		}
	}
	return remaining, nil
}

// copyForPart returns a copy of the iteration. The caller may change its slices to restrict the copy to a part.
func (it *Iterator) copyForPart() *Iterator {
	part := *it
	part.walkShape, part.walkStrides = slices.Clone(it.walkShape), slices.Clone(it.walkStrides)
	part.offsets = make([]int, len(it.operands))
	copy(part.offsets, it.offsets)
	part.starts = make([]int, len(it.walkShape))
	copy(part.starts, it.starts)
	if it.wholeWalkShape == nil {
		part.wholeWalkShape = it.walkShape
	}
	return &part
}

// restrict restricts a dimension of a copy to the indices start to start+size-1. It does not update numel.
func (it *Iterator) restrict(dim, start, size int) {
	operandCount := len(it.operands)
	for i := range operandCount {
		it.offsets[i] += start * it.byteStride(dim, i)
	}
	it.starts[dim] += start
	it.walkShape[dim] = size
}

// updateNumel sets numel after walkShape was changed.
func (it *Iterator) updateNumel() {
	it.numel = 1
	for _, size := range it.walkShape {
		it.numel *= size
	}
}

// Accumulates reports whether this part of a reduction adds to outputs that hold the results of an earlier part.
func (it *Iterator) Accumulates() bool { return it.hasEarlierPart }

// IsFinal reports whether no later part of the reduction adds to the outputs of this part.
func (it *Iterator) IsFinal() bool { return !it.hasLaterPart }

// CanUse32Bit reports whether element counts and byte offsets of all operands fit a
// signed 32-bit integer (can_use_32bit_indexing).
func (it *Iterator) CanUse32Bit() bool {
	if it.numel > math.MaxInt32 {
		return false
	}
	for i := range it.operands {
		if it.byteExtent(i) > math.MaxInt32 {
			return false
		}
	}
	return true
}

// byteExtent returns 1 plus the largest byte offset of an element of operand i.
func (it *Iterator) byteExtent(i int) int {
	bytes := 1
	for dim, size := range it.walkShape {
		bytes += (size - 1) * it.byteStride(dim, i)
	}
	return bytes
}

// Split32 cuts the iteration into parts that fit 32-bit indexing, in order (with_32bit_indexing). The dimension with
// the largest extent in bytes is halved until all parts fit. If a halved dimension is reduced, both halves have the
// same outputs. The first half is not final ([Iterator.IsFinal]), and the second half adds to the contents of the
// outputs ([Iterator.Accumulates]). This requires a [Fold] with [Resumes].
func (it *Iterator) Split32() []*Iterator {
	if it.CanUse32Bit() || it.numel == 0 {
		return []*Iterator{it}
	}
	dim := it.dimToSplit()
	half := it.walkShape[dim] / 2
	first := it.narrow(dim, 0, half)
	// Both halves are cut from `it`: narrow may merge dimensions of the first half, so that dim would be invalid.
	second := it.narrow(dim, half, it.walkShape[dim]-half)
	if it.isReduced(dim) {
		first.hasLaterPart = true
		second.hasEarlierPart = true
	}
	return append(first.Split32(), second.Split32()...)
}

// dimToSplit returns the dimension with the largest extent in bytes among dimensions of size 2 or more
// (get_dim_to_split). Among dimensions with equal extents it returns the outermost.
func (it *Iterator) dimToSplit() int {
	best, bestExtent := -1, -1
	for dim := len(it.walkShape) - 1; dim >= 0; dim-- {
		if it.walkShape[dim] == 1 {
			continue
		}
		for i := range it.operands {
			if extent := (it.walkShape[dim] - 1) * it.byteStride(dim, i); extent > bestExtent {
				best, bestExtent = dim, extent
			}
		}
	}
	return best
}

// isReduced reports whether a dimension of the walk is reduced. The iteration is then a reduction, the dimension has
// size 2 or more, and an output has stride 0 along it.
func (it *Iterator) isReduced(dim int) bool {
	if !it.IsReduction() {
		return false
	}
	for i := range it.outCount {
		if it.byteStride(dim, i) == 0 && it.walkShape[dim] > 1 {
			return true
		}
	}
	return false
}

// Explain describes the set-up step by step. It lists the operands, and their effective strides: the strides over the
// broadcast shape, 0 where an operand is broadcast. It lists every comparison of the sort, with the operand that
// decided it, and the permutation. Then it lists the layouts of the outputs, and the byte strides before and after
// coalescing. [Iterator.String] is shorter.
func (it *Iterator) Explain() string {
	if it == nil {
		return errNilIterator.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "operands\n")
	for i := range it.operands {
		fmt.Fprintf(&text, "  %s%s\n", it.Describe(i), it.Remarks(i))
	}
	fmt.Fprintf(&text, "shape %s, common dtype %v\n", tensor.ListString(it.shape), it.CommonDType())
	it.explainEffective(&text)
	it.explainSort(&text)
	fmt.Fprintf(&text, "permutation %v, fastest first\n", it.perm)
	for i := range it.outCount {
		if it.operands[i].RuleChoosesLayout() {
			// it.Place(i) is the name of operand i, such as "input 1".
			fmt.Fprintf(&text, "  %s is laid out as %v\n", it.Place(i), it.operands[i].Meta)
		}
	}
	rank, operandCount := len(it.perm), len(it.operands)
	shape, strides := it.permuted() // the slices may be longer: see Iterator.walkStrides
	it.explainStrides(&text, "byte strides before coalescing", shape[:rank], strides[:rank*operandCount])
	walkStrides := it.walkStrides[:len(it.walkShape)*operandCount]
	it.explainStrides(&text, "byte strides after coalescing", it.walkShape, walkStrides)
	if it.offsets != nil {
		fmt.Fprintf(&text, "only a part of the iteration: operands begin at bytes %v\n", it.offsets)
	}
	for _, w := range it.Warnings() {
		fmt.Fprintf(&text, "warning: %s\n", w)
	}
	return text.String()
}

// explainEffective writes each operand's strides over the broadcast shape.
func (it *Iterator) explainEffective(text *strings.Builder) {
	text.WriteString("effective strides, in elements\n")
	for i := range it.operands {
		operand := &it.operands[i]
		if operand.RuleChoosesLayout() {
			fmt.Fprintf(text, "  %s: none yet\n", it.Place(i))
			continue
		}
		fmt.Fprintf(text, "  %s: %v\n", it.Place(i), it.Effective(i))
	}
}

// explainSort writes the comparisons of the sort of dimensions, or why there was no sort.
func (it *Iterator) explainSort(text *strings.Builder) {
	if why := it.UnsortedReason(); why != "" {
		fmt.Fprintf(text, "no sort: %s\n", why)
		return
	}
	initial := make([]int, len(it.shape)) // row-major order, fastest dimension first
	for d := range initial {
		initial[d] = len(initial) - 1 - d
	}
	fmt.Fprintf(text, "sort of %v\n", initial)
	for _, comparison := range it.Sort() {
		fmt.Fprintf(text, "  %d before %d: ", comparison.A, comparison.B)
		if comparison.DecidingOperand < 0 {
			text.WriteString("no operand decides\n")
			continue
		}
		outcome := "stays"
		if comparison.Exchanged {
			outcome = "is exchanged"
		}
		fmt.Fprintf(text, "%s, %s has strides %v and %v", outcome, it.Place(comparison.DecidingOperand),
			comparison.Strides[0], comparison.Strides[1])
		if comparison.Strides[0].Same(comparison.Strides[1]) {
			fmt.Fprintf(text, " and sizes %v and %v", comparison.Sizes[0], comparison.Sizes[1])
		}
		text.WriteString("\n")
	}
}

// explainStrides writes the strides of each operand over a shape. strides[d*len(it.operands)+i] is stride d of operand
// i.
func (it *Iterator) explainStrides(text *strings.Builder, title string, shape, strides []int) {
	fmt.Fprintf(text, "%s, over %v\n", title, shape)
	operandCount := len(it.operands)
	for i := range it.operands {
		operandStrides := make([]int, len(shape))
		for d := range operandStrides {
			operandStrides[d] = strides[d*operandCount+i]
		}
		fmt.Fprintf(text, "  %s: %v\n", it.Place(i), operandStrides)
	}
}
