// Package rule decides how an iteration over operands goes, as PyTorch's TensorIterator does: which shape the operands
// are broadcast to, in which dtypes loops compute, in which order dimensions are walked, and how outputs are laid out.
// It touches no memory and generates no code: package iter runs what is decided here, and package graph infers with it.
//
// A [Config] lists outputs, then inputs, and states how dtypes and given outputs are treated; [Unary], [Binary],
// [Comparison], [Reduction] and the others are PyTorch's ready configurations. [Config.Rule] decides, in the order of
// TensorIteratorBase::build:
//
//  1. inconsistent operands are rejected;
//  2. dimension names are unified, and shapes are broadcast;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or all dense with the same
//     strides, the outputs are too (fast set-up). Else the dimensions are sorted by the operands' strides, outputs and
//     left operands first, and the outputs are dense in that order (the permutation rule).
//
// Sizes may be unknown: decisions that depend on them become guards. [Config.Measure] decides for sizes that are
// numbers, and checks whether outputs overlap other operands in memory.
//
// A [Kernel] describes the computation of an element, as a function of Go or as an expression; a [Table] selects one by
// the dtypes of a [Rule]. The constructors for functions of Go are in package iter.
package rule
