package kit

import "math"

// Exp returns e to the power of x. On some processors, math.Exp already overflows for x above 709.44, but the result
// is finite up to 709.78.
func Exp(x float64) float64 {
	if x > 709 {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// Sigmoid is the logistic function.
func Sigmoid(x float64) float64 { return 1 / (1 + Exp(-x)) }

// Softplus returns log(1 + exp(beta*x)) / beta, or x if beta*x is above the threshold.
func Softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}
