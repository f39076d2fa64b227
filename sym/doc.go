// Package sym computes with integers and booleans that may depend on unknown sizes.
//
// An [Int] is either a number or an expression over symbols with a hint: the value of the expression for the
// sizes at hand. A [Bool] is a known truth or a condition with a hint. Code that computes shapes and strides
// is written once over both; if all sizes are numbers it costs as much as plain integers.
//
// An Int is no Go integer: + - * == < and conversions do not compile on it, so no code can take a hint for
// the value. A branch calls [Bool.Holds], which decides by the form of the condition and the bounds of
// symbols if it can. Else it follows the hints, and records a guard in the [Env]: the condition under which
// the branch was taken. The guards of a computation thus describe the class of sizes for which its result
// holds. [Fork] follows all branches instead, [Join] follows them and keeps only guards that affect the
// result, and [Where] merges results.
//
// Guards are facts: they narrow bounds and residues, equate expressions, and so decide later conditions.
// Existing expressions keep their form; [Bool.Decide] and [Int.Simplify] simplify them under the facts.
//
// Expressions are canonical sums of products, hash-consed per Env: equal expressions are the same object.
// They print in Python's syntax, and conditions in SymPy's: Eq, Ne, Lt, Le joined by & and |. [Parse] and
// [ParseBool] read them. [Evaluator] evaluates many of them at many bindings, and [Env.SMT] exports claims to
// SMT solvers.
//
// The design is that of PyTorch's symbolic shapes (torch.fx.experimental.symbolic_shapes), whose guards the
// tests compare.
package sym
