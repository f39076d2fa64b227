// Package rule makes the decisions of PyTorch's TensorIterator about an iteration over operands. They are the shape to
// which operands are broadcast, the dtypes in which loops compute, the order of the dimensions, and the layouts of
// outputs. It accesses no data and generates no code. Package iter runs iterations according to these decisions, and
// package graph uses them for inference.
//
// A [Config] lists outputs, then inputs, and has options for dtypes and defined outputs. [Unary], [Binary],
// [Comparison], [Reduction] and similar functions return PyTorch's common configurations. [Config.Rule] has the steps
// of TensorIteratorBase::build:
//
//  1. inconsistent operands are rejected;
//  2. dimension names are unified, and shapes are broadcast;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or all dense with the same
//     strides, the outputs are too (fast set-up). Else the dimensions are sorted by the operands' strides, outputs and
//     left operands first, and the outputs are dense in that order (the permutation rule).
//
// Sizes may be symbolic. Decisions that depend on symbols become guards (conditions under which the rule is valid).
// [Config.Resolve] decides for sizes that are numbers, and also checks whether outputs overlap other operands in
// memory.
//
// A [Kernel] is the computation of one element, given by a Go function or an expression. A [Table] selects a kernel by
// the dtypes of a [Rule]. The constructors for Go functions are in package iter.
package rule
