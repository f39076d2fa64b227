package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Matmul is the product of vectors, matrices and batches of matrices.
var Matmul = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "matmul",
		Doc: "Multiplies matrices: [..., m, k] by [..., k, n] gives [..., m, n]. Batch dimensions broadcast. A vector " +
			"on the left is a row, on the right a column, and the dimension of size 1 is dropped from the result.",
		Params: []graph.Param{kit.Self, kit.Other},
		Infer:  inferBy(matmulType),
		Ref:    productRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 1, 3, 4), tensor.New(tensor.Float32, 5, 4, 6)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 4).WithStrides([]int{1, 3}), tensor.New(tensor.Float64, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Int64, 1, 4), tensor.New(tensor.Int64, 2, 4, 3)}},
		},
	},
	Facts:     graph.Facts{Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(matmulContraction), Rewrite: rewriteMatmul, Attend: blockedAttention},
})

// Mm is the product of two matrices.
var Mm = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "mm",
		Doc:    "Multiplies two matrices: [m, k] by [k, n] gives [m, n]. Operands do not broadcast.",
		Params: []graph.Param{kit.Self, {Name: "mat2"}},
		Infer:  inferBy(mmType),
		Ref:    productRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 4).WithStrides([]int{1, 3})}},
			{In: []tensor.Meta{tensor.New(tensor.BFloat16, 2, 3), tensor.New(tensor.BFloat16, 3, 4)}},
		},
	},
	Facts: graph.Facts{Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(matmulContraction), Rewrite: compose.WidenToFloat32,
		Attend: blockedAttention},
})

// Bmm is the product of two batches of matrices.
var Bmm = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "bmm",
		Doc:    "Multiplies two batches of matrices: [b, m, k] by [b, k, n] gives [b, m, n]. Operands do not broadcast.",
		Params: []graph.Param{kit.Self, {Name: "mat2"}},
		Infer:  inferBy(func(a, b tensor.Type) (tensor.Type, error) { return bmmType("bmm", a, b) }),
		Ref:    productRef,
		Examples: []graph.Example{{In: []tensor.Meta{
			tensor.New(tensor.Float32, 2, 3, 4).WithStrides([]int{4, 8, 1}), tensor.New(tensor.Float32, 2, 4, 5)}}},
	},
	Facts: graph.Facts{Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(matmulContraction), Rewrite: compose.WidenToFloat32,
		Attend: blockedAttention},
})

// Mv is the product of a matrix and a vector.
var Mv = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "mv",
		Doc:      "Multiplies a matrix by a vector: [m, k] by [k] gives [m].",
		Params:   []graph.Param{kit.Self, {Name: "vec"}},
		Infer:    inferBy(mvType),
		Ref:      productRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3)}}},
	},
	Facts:     graph.Facts{Parallel: productLoops, Flops: productFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(matmulContraction), Rewrite: compose.WidenToFloat32},
})

// Dot is the inner product of two vectors.
var Dot = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "dot",
		Doc:      "Sums the products of two vectors' elements: [k] and [k] give a 0-dim value.",
		Params:   []graph.Param{kit.Self, {Name: "tensor"}},
		Infer:    inferBy(dotType),
		Ref:      productRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}}},
	},
	Facts:     graph.Facts{Flops: productFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(matmulContraction), Rewrite: compose.WidenToFloat32},
})

// inferBy returns an Infer function. resultType returns the type of the result for the types of both operands.
func inferBy(resultType func(a, b tensor.Type) (tensor.Type, error)) func(*graph.Call) ([]graph.Result, error) {
	return func(c *graph.Call) ([]graph.Result, error) {
		result, err := resultType(c.Type(0), c.Type(1))
		if err != nil {
			return nil, err
		}
		return c.NewResult(result), nil
	}
}

// matmulContraction describes a call as a contraction, the common form of matrix products. The op is matmul or one of
// its special cases, such as mm.
func matmulContraction(c *graph.Call) (*contraction, error) { return productContraction(c, c.Out[0]) }

// productLoops returns the parallel loops over batch dimensions, over the rows of the first matrix, and over the
// columns of the second matrix. Each iteration of a loop over a batch dimension reads all of an operand that is
// broadcast along this dimension.
func productLoops(call *graph.Call) []graph.Parallel {
	a, b, out := call.Meta(0), call.Meta(1), call.Out[0]
	matrixRank := min(a.Rank(), 2) + min(b.Rank(), 2) - 2 // dimensions of the result that are not batch dimensions
	batchRank := out.Rank() - matrixRank
	var loops []graph.Parallel
	for d := range batchRank {
		loop := kit.LoopOverResults(call)
		loop.ResultDims[0], loop.MayBroadcast = d, []bool{true, true}
		for i, operand := range []tensor.Meta{a, b} {
			dim := d - (batchRank - (operand.Rank() - 2)) // batch dimensions are aligned at the last one
			if dim >= 0 && operand.Rank() > 2 && operand.Shape[dim] == out.Shape[d] {
				loop.OperandDims[i] = dim
			}
		}
		loops = append(loops, loop)
	}
	if a.Rank() >= 2 {
		loops = append(loops, kit.LoopOver(call, 0, a.Rank()-2, batchRank))
	}
	if b.Rank() >= 2 {
		loops = append(loops, kit.LoopOver(call, 1, b.Rank()-1, out.Rank()-1))
	}
	return loops
}
