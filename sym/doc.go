// Package sym computes with integers and booleans that may depend on unknown sizes.
//
// An [Int] is a number, or an expression over symbols. A symbol is an unknown size. It has bounds and a hint, which is
// a typical size. The hint of an expression is its value for the hints of its symbols. A [Bool] is true, false, or a
// condition. Code that computes shapes and strides is written once, for numbers and expressions. If all sizes are
// numbers, this code takes no longer than code with plain integers. For example:
//
//	env := sym.NewEnv()
//	x, _ := env.Symbol("x", 0, 1024, 3)         // from 0 to 1024, with the hint 3
//	stride := sym.Of(5).Mul(x.Max(sym.Of(1)))   // the expression 5*Max(1, x), with the hint 15
//	if !x.Eq(sym.Of(1)).Holds() {               // 3 is not 1, so this branch is taken
//		fmt.Println(stride, env.Guards())   // 5*Max(1, x) [Ne(x, 1)]
//	}
//
// Go's operators and conversions do not compile on an Int, so that no code uses a hint as the value. A branch calls
// [Bool.Holds]. If the form of the condition and the bounds of symbols decide the condition, Holds returns the answer.
// Otherwise Holds returns the answer for the hints, and records a guard in the [Env]: the condition under which this
// answer is right. The guards of a computation thus describe the sizes for which its result is valid. [Fork] runs a
// computation for all answers instead. [Join] also does this, and keeps only guards that affect the result. [Where]
// merges results.
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
