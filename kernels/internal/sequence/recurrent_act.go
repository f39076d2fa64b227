package sequence

import (
	"math"
	"math/cmplx"
	"strings"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// activationsByName are the activation functions, by ONNX's names in lower case. softplus(X, 1, 40) is X for arguments
// above 40, which is exact in every dtype.
var activationsByName = map[string]struct {
	params      int     // number of parameters: 0, 1 (alpha) or 2 (alpha and beta)
	alpha, beta float64 // defaults of the parameters
	text        string  // formula of X with the parameters A and B
	f           func(x, a, b float64) float64
}{
	"sigmoid":  {text: "sigmoid(X)", f: func(x, _, _ float64) float64 { return kit.Sigmoid(x) }},
	"tanh":     {text: "tanh(X)", f: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"relu":     {text: "maximum(X, 0)", f: func(x, _, _ float64) float64 { return max(x, 0) }},
	"softplus": {text: "softplus(X, 1, 40)", f: func(x, _, _ float64) float64 { return kit.Softplus(x, 1, 40) }},
	"softsign": {text: "X / (1 + abs(X))", f: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) }},
	"affine": {params: 2, alpha: 1, text: "A * X + B",
		f: func(x, a, b float64) float64 { return float64(a*x) + b }},
	"scaledtanh": {params: 2, alpha: 1, beta: 1, text: "A * tanh(B * X)",
		f: func(x, a, b float64) float64 { return a * math.Tanh(b*x) }},
	"hardsigmoid": {params: 2, alpha: 0.2, beta: 0.5, text: "minimum(maximum(A * X + B, 0), 1)",
		f: func(x, a, b float64) float64 { return min(max(float64(a*x)+b, 0), 1) }},
	"leakyrelu": {params: 1, alpha: 0.01, text: "maximum(X, 0) + A * minimum(X, 0)",
		f: func(x, a, _ float64) float64 { return max(x, 0) + float64(a*min(x, 0)) }},
	"elu": {params: 1, alpha: 1, text: "maximum(X, 0) + A * expm1(minimum(X, 0))",
		f: func(x, a, _ float64) float64 { return max(x, 0) + float64(a*math.Expm1(min(x, 0))) }},
	"thresholdedrelu": {params: 1, alpha: 1, text: "where(X > A or X != X, X, 0)",
		f: func(x, a, _ float64) float64 {
			if x > a || x != x {
				return x
			}
			return 0
		}},
}

// formula returns the formula that applies the function to the value named x.
func (a activation) formula(x string) string {
	f := activationsByName[strings.ToLower(a.name)]
	return strings.NewReplacer("X", x, "A", numeral(a.alpha), "B", numeral(a.beta)).Replace(f.text)
}

// scalar returns the function as a Go function.
func (a activation) scalar() func(float64) float64 {
	f := activationsByName[strings.ToLower(a.name)].f
	return func(x float64) float64 { return f(x, a.alpha, a.beta) }
}

// cellScalar returns the function for the numbers of a [cellReference]. For complex numbers there are only sigmoid and
// tanh. Integers wrap in the dtype of the layer before a relu. A tanh of integers is a float, so it is not computed
// here but at the end of the layer.
func cellScalar[T kit.WidestNumber](layer *recurrentLayer, a activation) func(T) T {
	var f any
	switch any(T(0)).(type) {
	case float64:
		f = a.scalar()
	case complex128:
		f = cmplx.Tanh
		if a.name == "Sigmoid" {
			f = func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) }
		}
	default:
		bits := 64 - 8*layer.integerDType.Size()
		f = func(v int64) int64 {
			if v = v << bits >> bits; layer.integerDType == tensor.Uint8 {
				v &= 0xff
			}
			if a.name == "Relu" {
				v = max(v, 0)
			}
			return v
		}
	}
	return f.(func(T) T)
}
