// Package reduce has the ops that fold dimensions: sums, extremes, moments, running sums, norms, normalizations and
// losses.
//
// Each reduction and normalization is an expression over the elements of a row (graph.Rows). A row has all elements
// along the reduced dimensions. Package rowprog runs the expression as machine code or, without machine code, in the
// interpreter of expressions.
//
// Some calls run in Go instead. Three computations of complex numbers have no expression: products, running sums and
// running products. Normalizations of channels run in phases ([channelNorm]) if their rows are too long or too few for
// row programs. Other computations have loops in Go because the interpreter runs them slowly. The table has the time of
// the interpreter divided by the time of the loops in Go. The times were measured on Zen 5. Rows have 32 to 262,144
// elements. The dtype is float32 if no other dtype is given:
//
//	sum, mean             1.3 to 2.8
//	prod                  1.4 to 2.9
//	amax, amin (integers) 1.0 to 3.2
//	any, all              0.9 to 2.8; 100 if the first of many bools decides
//	argmax, max           2.8 to 7.6
//	var, std              1.3 to 3.7
//	norm of order 2       1.7 to 3.0
//	layer_norm            2.1 to 3.8
//	rms_norm              0.8 to 2.5
//	cumsum                1.1 to 1.5
//	hardmax               2.9 to 6.0
//
// When the figures were measured, the loops of amax, amin, argmax and max were unrolled. The present loops take about
// twice as long, so the figures of these ops are about half as high today.
//
// Short rows have the highest figures, because the interpreter starts a loop for each instruction of each row. For
// softmax, logsumexp and norms of other orders, the figures are 0.2 to 1.1, and up to 1.7 for rows of 32 elements.
// Therefore these ops have no loops in Go.
package reduce

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package, in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Any, Every,
		Argmax, Argmin, Max, Min,
		BatchNorm,
		Cummax, Cummin,
		Cumsum, Cumprod,
		Amax, Amin,
		GroupNorm, InstanceNorm,
		Hardmax, PairwiseProbabilities,
		LayerNorm,
		Logsumexp,
		NllLoss, CrossEntropyLoss,
		Norm, VectorNorm,
		Prod,
		RmsNorm, LocalResponseNorm,
		Softmax, LogSoftmax,
		Sum, Mean,
		Var, Std, VarMean, StdMean,
	}
}
