// Package product has the ops that sum products: matrix products, linear layers, einsum, attention and determinants. A
// matrix product of any op is described by a [contraction], which package multiply runs with package gemm. An entry is
// one matrix product of a batch; the depth is the dimension that is summed, and its indexes are also called terms.
//
// Byte products have their own engine, byteTiles, because it also applies zero points and scales. Its terms are defined
// in bytes_shape.go (group, block, panel) and bytes_tiled.go (strip, band).
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
