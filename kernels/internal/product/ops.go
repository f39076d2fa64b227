// Package product has the ops that sum products: matrix products, linear layers, einsum, attention, determinants.
package product

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		Addmm, Baddbmm,
		ScaledDotProductAttention,
		Einsum,
		LinalgDet, Det,
		Linear,
		MatmulBytes,
		Matmul, Mm, Bmm, Mv, Dot,
		Outer, Trace, Numel,
	}
}
