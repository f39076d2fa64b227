// Package product has the ops that sum products: matrix products, linear layers, einsum, attention and determinants. A
// matrix product of any op is a [contraction]; package multiply runs it with package gemm. Byte products have their own
// engine (byteTiles), because zero points and scales are part of it.
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
