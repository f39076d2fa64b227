package kernels

import "math"

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}
