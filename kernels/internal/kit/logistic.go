package kit

import (
	"math"
)

// Sigmoid is the logistic function.
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Softplus is log(1 + exp(beta*x)) / beta, and x where beta*x is above the threshold.
func Softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}
