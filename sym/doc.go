// Package sym computes with integers and truths that may depend on unknown sizes.
//
// An [Int] is either an exact number or an expression over symbols with a hint: the value
// that the expression has for the sizes at hand. A [Bool] likewise is a truth or a condition.
// Code that computes shapes and strides is written once over both; where all sizes are exact it
// costs what plain integers cost.
//
// An Int is no Go integer: + - * == < and conversion do not compile on it, so that no code can
// take a hint for the truth. A branch asks a Bool with [Bool.Holds], which decides by form and
// by the bounds of the symbols where it can, and else takes the way of the hints and records in
// the [Env] what must be true for that way: a guard. A set of guards is thus the class of sizes for
// which what was computed holds. [Fork] goes all ways instead, and [Where] joins what comes of them.
//
// Guards are facts: they narrow bounds and remainders, let one expression stand for another, and so decide what
// follows from them. What was made before keeps its form; [Bool.Decide] and [Int.Simplify] tell what is left of it.
//
// Expressions are canonical sums of products, kept once per Env, so that equal expressions are
// the same object. They print in Python's syntax, conditions as SymPy prints them: Eq, Ne, Lt, Le
// joined by & and |.
package sym
