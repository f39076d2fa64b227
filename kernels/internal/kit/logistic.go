package kit

import "math"

// Exp is e to the power of x. Package math's is infinite before the result is, from 709.44 on, on some processors.
func Exp(x float64) float64 {
	if x > 709 {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// Sigmoid is the logistic function.
func Sigmoid(x float64) float64 { return 1 / (1 + Exp(-x)) }

// Softplus is log(1 + exp(beta*x)) / beta, and x where beta*x is above the threshold.
func Softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}
