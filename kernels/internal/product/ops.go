// Package product has the ops that sum products: matrix products, linear layers, einsum, attention and determinants. A
// [contraction] describes a batch of matrix products of any op. Package multiply computes it with package gemm. An
// entry is one matrix product of a batch. The depth is the dimension that is summed. A term is the product of two
// elements at one index of the depth.
//
// Products of byte matrices have a separate kernel, [byteTiles], because zero points and scales must be applied.
// Products by weights that are quantized by blocks have the kernel [levelProduct]. The words group, block and panel are
// defined in bytes_shape.go, strip in bytes_tiled.go, and band in [multiply.StripOrder].
package product

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		Addmm, Baddbmm,
		ScaledDotProductAttention,
		Einsum,
		LinalgDet, Det,
		Linear, LinearBlocks,
		MatmulBytes,
		Matmul, Mm, Bmm, Mv, Dot,
		Outer, Trace, Numel,
	}
}
