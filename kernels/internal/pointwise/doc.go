// Package pointwise has the ops that compute each element from the operands' elements at the same position:
// arithmetic ([Add], [Mul], [Div]), comparisons ([Lt]), logic, activations ([Relu], [Gelu]), elementary functions
// ([Exp], [Sin]), selection ([Where]), and [Pointwise], which computes an expression given by the user.
//
// Most ops are defined by a formula, a line of text in the language of package expr (formula.go). One formula serves
// all dtypes: tables of kernels by dtype ([bodies]) are made from it, and kernels are compiled to machine code or
// interpreted. A few ops use loops in Go, because an expression has no loops or cannot fail: powers of integers, and
// integer divisions, which first check for a divisor of 0 (div_integer.go).
//
// The iteration of an op - promotion, broadcasting, layout - is a rule.Config; inference and execution both use it. The
// references (reference.go) compute in float64 or complex128.
package pointwise
