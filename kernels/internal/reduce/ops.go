// Package reduce has the ops that fold dimensions: sums, extremes, moments, running sums, norms, normalizations and
// losses.
//
// Most are an expression over a row (graph.Rows), which package rowprog runs. The others, and dtypes without machine
// code, use Go folds (package folds), or walk along lines (linePlan).
package reduce

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		Any, Every,
		Argmax, Argmin, Max, Min,
		BatchNorm,
		Cumsum, Cumprod,
		Amax, Amin,
		GroupNorm, InstanceNorm,
		Hardmax,
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
