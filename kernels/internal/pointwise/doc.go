// Package pointwise has the ops that combine the operands' elements at the same position: arithmetic ([Add], [Mul],
// [Div]), comparisons ([Lt]), logic, activations ([Relu], [Gelu]), elementary functions ([Exp], [Sin]), selection
// ([Where]), and [PointwiseExpression], which computes an expression given by the user.
//
// Most ops are defined by a formula, which is a line of text in the language of package expr (formula.go). One formula
// serves all dtypes: the functions of formula.go make a table of kernels by dtype from it ([kernelTable]). The kernels
// are compiled to machine code or interpreted. Two groups of ops also use loops in Go. Powers of integers do, because
// expressions have no loops. Integer divisions do, because they fail if a divisor is 0, and expressions cannot fail
// (div_integer.go).
//
// A rule.Config describes the iteration of an op: promotion, broadcasting and layout. Inference and execution use the
// same config. The references of ops (reference.go) compute in float64, complex128 or 64-bit integers.
package pointwise
