package recurrent

import (
	"math"
	"math/cmplx"
	"strings"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// activationFunction defines an activation function twice: as a formula for compiled loops, and as a Go function for
// the reference implementation.
type activationFunction struct {
	params      int     // number of parameters: 0, 1 (alpha) or 2 (alpha and beta)
	alpha, beta float64 // defaults of the parameters
	formula     string  // function of X with the parameters alpha (A) and beta (B), in the expression language
	function    func(x, alpha, beta float64) float64
}

// activationsByName has the activation functions by ONNX's names in lower case. softplus(X, 1, 40) returns X for
// arguments above 40, for which X is the exact result in every dtype. The conversions of products to float64 prevent
// fused multiply-adds.
var activationsByName = map[string]activationFunction{
	"sigmoid":  {formula: "sigmoid(X)", function: func(x, _, _ float64) float64 { return kit.Sigmoid(x) }},
	"tanh":     {formula: "tanh(X)", function: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"relu":     {formula: "maximum(X, 0)", function: func(x, _, _ float64) float64 { return max(x, 0) }},
	"softplus": {formula: "softplus(X, 1, 40)", function: func(x, _, _ float64) float64 { return kit.Softplus(x, 1, 40) }},
	"softsign": {formula: "X / (1 + abs(X))", function: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) }},
	"affine": {params: 2, alpha: 1, formula: "A * X + B",
		function: func(x, a, b float64) float64 { return float64(a*x) + b }},
	"scaledtanh": {params: 2, alpha: 1, beta: 1, formula: "A * tanh(B * X)",
		function: func(x, a, b float64) float64 { return a * math.Tanh(b*x) }},
	"hardsigmoid": {params: 2, alpha: 0.2, beta: 0.5, formula: "minimum(maximum(A * X + B, 0), 1)",
		function: func(x, a, b float64) float64 { return min(max(float64(a*x)+b, 0), 1) }},
	"leakyrelu": {params: 1, alpha: 0.01, formula: "maximum(X, 0) + A * minimum(X, 0)",
		function: func(x, a, _ float64) float64 { return max(x, 0) + float64(a*min(x, 0)) }},
	"elu": {params: 1, alpha: 1, formula: "maximum(X, 0) + A * expm1(minimum(X, 0))",
		function: func(x, a, _ float64) float64 { return max(x, 0) + float64(a*math.Expm1(min(x, 0))) }},
	"thresholdedrelu": {params: 1, alpha: 1, formula: "where(X > A or X != X, X, 0)",
		function: func(x, a, _ float64) float64 {
			if x > a || x != x {
				return x
			}
			return 0
		}},
}

// formula returns the formula of a layer's activation for the argument with name x.
func (a activation) formula(x string) string {
	function := activationsByName[strings.ToLower(a.name)]
	return strings.NewReplacer("X", x, "A", numeral(a.alpha), "B", numeral(a.beta)).Replace(function.formula)
}

// scalar returns the function as a Go function.
func (a activation) scalar() func(float64) float64 {
	function := activationsByName[strings.ToLower(a.name)].function
	return func(x float64) float64 { return function(x, a.alpha, a.beta) }
}

// cellScalar returns the function for the numbers of a [cellReference], the reference implementation: float64,
// complex128 or int64. Only PyTorch's layers compute with complex numbers and integers. Their activations are Sigmoid,
// Tanh and Relu.
func cellScalar[T kit.WidestNumber](layer *recurrentLayer, a activation) func(T) T {
	var function any
	switch any(T(0)).(type) {
	case float64:
		function = a.scalar()
	case complex128: // only sigmoid and tanh
		function = cmplx.Tanh
		if a.name == "Sigmoid" {
			function = func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) }
		}
	default: // int64: relu and tanh. For tanh, function returns its argument, because tanh is applied later.
		unusedBits := 64 - 8*layer.integerDType.Size()
		function = func(sum int64) int64 {
			sum = sum << unusedBits >> unusedBits // wraps the sum in the dtype of the layer, and extends the sign
			if layer.integerDType == tensor.Uint8 {
				sum &= 0xff
			}
			if a.name == "Relu" {
				sum = max(sum, 0)
			}
			return sum
		}
	}
	return function.(func(T) T)
}
