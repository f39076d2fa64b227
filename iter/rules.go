package iter

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// This file forwards to package rule, so that users of iter need not import package rule.

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
