package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
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
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
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
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
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
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: productLoops, WritesAnyDenseLayout: true, Flops: productFlops},
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
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: productLoops, Flops: productFlops},
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
	Facts:     graph.Facts{ConstantsByAddress: true, Flops: productFlops},
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

// rewriteMatmul rewrites a matrix product by the first of these rules that applies:
//
//   - 16-bit floats are converted to float32 ([compose.WidenToFloat32]).
//   - A product with the transposed weights of an attention is exchanged ([rewriteTransposedWeights]).
//   - If the second operand is a batch that repeats matrices, the result is a product that reads each distinct matrix
//     once ([rewriteRepeated]). This removes the copies of keys and values in attention with grouped queries, where
//     several heads use the same keys and values.
//   - If each entry of a batch multiplies one row by the same matrix, the result is one product of all rows
//     ([rewriteSharedMatrix]).
//
// Products of 16-bit floats are computed in float32, as PyTorch defines them. The 16-bit instructions of arm64 are not
// used: FMLA of float16 rounds each sum to float16, BFMMLA rounds sums to odd and flushes subnormal numbers, and FMLAL
// computes no more sums per instruction than FMLA of float32.
func rewriteMatmul(parts *graph.Parts, call *graph.Call, context graph.RewriteContext) (rewrite graph.Rewrite,
	err error) {
	if rewrite, err = compose.WidenToFloat32(parts, call, context); err != nil || rewrite.Results != nil {
		return rewrite, err
	}
	if rewrite, err = rewriteTransposedWeights(parts, call); err != nil || rewrite.Results != nil {
		return rewrite, err
	}
	left, right := call.In[0], call.In[1]
	if left.Kind != graph.TensorArg || right.Kind != graph.TensorArg {
		return rewrite, nil
	}
	if repetition, ok := findRepetition(right.Value, maxChainLength); ok {
		return rewriteRepeated(parts, call, repetition)
	}
	return rewriteSharedMatrix(parts, call)
}

// rewriteSharedMatrix rewrites a batch of products if each entry multiplies a single row by the same matrix. The result
// is one product of all rows with this matrix.
func rewriteSharedMatrix(parts *graph.Parts, call *graph.Call) (rewrite graph.Rewrite, err error) {
	left, right := call.In[0], call.In[1]
	rank := left.Type().Rank()
	if rank < 3 || right.Type().Rank() != rank || right.Value.Const != nil {
		return rewrite, nil
	}
	hasSizeOne := func(operand graph.Arg, dim int) bool {
		size, isKnown := operand.Type().Shape[dim].Known()
		return isKnown && size == 1
	}
	entries, isKnown := left.Type().Shape[rank-3].Known() // the size of the last batch dimension
	if !hasSizeOne(left, rank-2) || !hasSizeOne(right, rank-3) || !isKnown || entries < 2 {
		return rewrite, nil
	}
	builder := compose.NewBuilder(parts, call)
	rows := builder.Add(view.Flatten, graph.Attrs{"start_dim": rank - 3, "end_dim": rank - 2}, left)
	matrix := builder.Add(view.Squeeze, graph.Attrs{"dim": []int{rank - 3}}, right)
	if _, err = builder.Result(); err != nil { // the first error of the builder
		return rewrite, err
	}
	product, err := parts.Repeat(parts.ReplacedNode(), rows, matrix)
	if err != nil {
		return rewrite, err
	}
	rewrite.Results, err = builder.Result(builder.Add(view.Unsqueeze, graph.Attrs{"dim": rank - 2},
		graph.ArgOf(product[0])))
	rewrite.Why = "a shared matrix is multiplied by all rows at once"
	return rewrite, err
}

// matmulContraction is productContraction for a call whose result is known.
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
		const aOperand = 0
		loops = append(loops, kit.LoopOver(call, aOperand, a.Rank()-2, batchRank)) // the rows of a and of the result
	}
	if b.Rank() >= 2 {
		const bOperand = 1
		loops = append(loops, kit.LoopOver(call, bOperand, b.Rank()-1, out.Rank()-1)) // the columns
	}
	return loops
}
