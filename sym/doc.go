// Package sym computes with integers and booleans that may depend on unknown sizes.
//
// An [Int] is either a number or an expression over symbols. An expression has a hint: its value for typical sizes. A
// [Bool] is a known truth or a condition with a hint. Code that computes shapes and strides is written once, for
// numbers and expressions. If all sizes are numbers, this code takes no longer than code with plain integers.
//
// Go's operators and conversions do not compile on an Int, so that no code can mistake a hint for the value. A branch
// calls [Bool.Holds]. If the form of the condition and the bounds of symbols decide the condition, Holds returns the
// answer. Otherwise Holds follows the hints and records a guard in the [Env]: the condition under which the branch was
// taken. The guards of a computation thus describe the sizes for which its result is valid. [Fork] follows all branches
// instead. [Join] follows all branches and keeps only guards that affect the result. [Where] merges results.
//
// Guards are facts. They narrow bounds and residues and equate expressions, and thereby decide later conditions. Facts
// do not change existing expressions. [Bool.Decide] and [Int.Simplify] return expressions that are simplified under the
// facts.
//
// Expressions are canonical sums of products, hash-consed per Env: equal expressions are the same object. They print in
// Python's syntax, and conditions in SymPy's: Eq, Ne, Lt, Le joined by & and |. [Parse] and [ParseBool] read both.
// [Evaluator] evaluates many expressions at many bindings, and [Env.SMT] exports claims to SMT solvers.
//
// The design follows PyTorch's symbolic shapes (torch.fx.experimental.symbolic_shapes). Tests compare the guards with
// PyTorch's.
package sym
