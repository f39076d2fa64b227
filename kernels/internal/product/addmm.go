package product

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type addmmAttrs struct {
	Beta  tensor.Scalar `attr:"beta" default:"1" doc:"factor of self; if it is 0, self is not read"`
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of the product; if it is 0, matrices of float32, float64 and complex numbers are not read, so their NaN does not propagate; a batch with m*k*n < 400 is read"`
}

// Addmm is beta*self + alpha*(mat1 @ mat2).
var Addmm = kit.Define[*addmmAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "addmm",
		Doc:    "Multiplies two matrices and adds self: [m, k] by [k, n], with self broadcast to [m, n].",
		Params: []graph.Param{kit.Self, {Name: "mat1"}, {Name: "mat2"}},
		Infer:  inferAddmm(addmmType),
		Ref:    addmmRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 4), tensor.New(tensor.Float32, 2, 3),
				tensor.New(tensor.Float32, 3, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 4).WithStrides([]int{1, 2}), tensor.New(tensor.Float32, 2, 3),
				tensor.New(tensor.Float32, 3, 4)},
				Attrs: graph.Attrs{"beta": 0.5, "alpha": 2.0}},
		},
	},
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: addmmLoops, WritesAnyDenseLayout: true, Flops: addmmFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(addmmWithSkip), Rewrite: compose.WidenToFloat32},
})

// Baddbmm is beta*self + alpha*(batch1 @ batch2).
var Baddbmm = kit.Define[*addmmAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "baddbmm",
		Doc: "Multiplies two batches of matrices and adds self: [b, m, k] by [b, k, n], with self broadcast " +
			"to [b, m, n].",
		Params: []graph.Param{kit.Self, {Name: "batch1"}, {Name: "batch2"}},
		Infer:  inferAddmm(baddbmmType),
		Ref:    addmmRef,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 1, 5),
			tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 2, 4, 5)}, Attrs: graph.Attrs{"beta": 2}}},
	},
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: addmmLoops, WritesAnyDenseLayout: true, Flops: addmmFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(addmmWithSkip), Rewrite: compose.WidenToFloat32},
})

// baddbmmType checks that self broadcasts before it checks the other operands, as PyTorch does.
func baddbmmType(self, a, b tensor.Type) (tensor.Type, error) {
	shape := make([]sym.Int, 3) // [b, m, n]: dimensions 0 and 1 of a, and dimension 2 of b
	for d, operand := range []tensor.Type{a, a, b} {
		if operand.Rank() == 0 {
			return tensor.Type{}, fmt.Errorf("Dimension specified as %d but tensor has no dimensions", d)
		}
		i, err := tensor.WrapDim(d, operand.Rank())
		if err != nil {
			return tensor.Type{}, err
		}
		shape[d] = operand.Shape[i]
	}
	if _, err := self.Expand(shape); err != nil {
		return tensor.Type{}, err
	}
	return bmmType("baddbmm", a, b)
}

// inferAddmm returns the Infer function of addmm or baddbmm. resultType checks the operands and returns the type of the
// result.
func inferAddmm(resultType func(self, a, b tensor.Type) (tensor.Type, error)) func(*graph.Call) ([]graph.Result,
	error) {
	return func(call *graph.Call) ([]graph.Result, error) {
		result, err := resultType(call.Type(0), call.Type(1), call.Type(2)) // self and the matrices
		if err != nil {
			return nil, err
		}
		attrs := kit.Attrs[*addmmAttrs](call)
		if result.DType == tensor.Bool && result.Numel().Ne(sym.Int{}).Holds() {
			// resultType accepts products of bools only if k is 0. The result is then beta times self.
			return nil, fmt.Errorf("result type %s can't be cast to the desired output type Bool",
				attrs.Beta.DType().TorchName())
		}
		for _, factor := range []tensor.Scalar{attrs.Beta, attrs.Alpha} {
			if factor.DType().IsComplex() && !result.DType.IsComplex() {
				return nil, fmt.Errorf("value cannot be converted to type %s without overflow", kit.CppName(result.DType))
			}
		}
		return call.NewResult(result), nil
	}
}

// addmmContraction describes a call of addmm or baddbmm as a contraction, the common form of matrix products. It does
// not apply skipsProduct.
func addmmContraction(c *graph.Call) (*contraction, error) {
	attrs, out := kit.Attrs[*addmmAttrs](c), c.Out[0]
	self, a, b := c.Meta(0), c.Meta(1), c.Meta(2)
	batchRank := out.Rank() - 2 // number of batch dimensions
	product := &contraction{aOperand: 1, bOperand: 2, addOperand: 0, hasAdd: true, alpha: attrs.Alpha, beta: attrs.Beta,
		batch: out.Shape[:batchRank], m: out.Shape[batchRank], n: out.Shape[batchRank+1], k: a.Shape[batchRank+1],
		a: matricesOf(a), b: matricesOf(b), c: matricesOf(out)}
	expanded, err := self.Expand(out.Shape)
	if err != nil {
		return nil, err
	}
	product.add = addendOf(self, expanded)
	return product, nil
}

// matricesOf returns the strides of a batch of matrices. A matrix is in the last two dimensions.
func matricesOf(matrices tensor.Meta) matrixStrides {
	batchRank := matrices.Rank() - 2
	return matrixStrides{matrices.Strides[:batchRank], matrices.Strides[batchRank], matrices.Strides[batchRank+1]}
}

// addendOf returns the strides of an addend after its expansion. Added dimensions and dimensions of size 1 have stride
// 0, as contractions require.
func addendOf(addend, expanded tensor.Meta) matrixStrides {
	for d := range expanded.Rank() - addend.Rank() {
		expanded.Strides[d] = 0
	}
	for d, size := range expanded.Shape {
		if size == 1 {
			expanded.Strides[d] = 0
		}
	}
	return matricesOf(expanded)
}

// skipsProduct reports whether the product is skipped because alpha is 0, as PyTorch's BLAS library does. NaNs and
// infinities of the matrices then do not reach the result. PyTorch does not use BLAS for integers, for 16-bit floats,
// and for batches whose matrices take less than 400 multiplications each (bmm_out_or_baddbmm_). Without BLAS it
// multiplies the product by 0.
func skipsProduct(c *graph.Call) bool {
	a, b := c.Meta(1), c.Meta(2)
	dtype, alpha := a.DType, kit.Attrs[*addmmAttrs](c).Alpha
	const withBool = true
	if dtype.IsReducedFloat() || dtype.IsIntegral(withBool) || alpha.Tensor(dtype).At().Complex() != 0 {
		return false
	}
	const minBatchMACs = 400 // minimum multiplications per matrix for which PyTorch uses BLAS for a batch
	batchRank := a.Rank() - 2
	return batchRank == 0 || a.Shape[batchRank]*a.Shape[batchRank+1]*b.Shape[batchRank+1] >= minBatchMACs
}

// addmmWithSkip is addmmContraction, but sets the depth k to 0 if the product is skipped.
func addmmWithSkip(c *graph.Call) (*contraction, error) {
	product, err := addmmContraction(c)
	if err == nil && skipsProduct(c) {
		product.k = 0
	}
	return product, err
}

// addmmFlops counts the operations of the product, even if the product is skipped, and two operations for each element
// of self.
func addmmFlops(c *graph.Call) float64 {
	product, err := addmmContraction(c)
	if err != nil {
		return 0
	}
	return float64(product.flops()) + float64(2*product.entries()*product.m*product.n)
}

// addmmRef is the reference implementation of addmm and baddbmm.
func addmmRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*addmmAttrs](c)
	rowDim := in[1].Rank() - 1
	shape := append(append([]int{}, in[1].Shape[:rowDim]...), in[2].Shape[rowDim])
	dtype := in[1].DType
	out := tensor.Zeros(dtype, shape...)
	// PyTorch converts the factors to the dtype of the computation before it multiplies.
	alpha, beta := attrs.Alpha.Tensor(dtype.OpMath()).At(), attrs.Beta.Tensor(dtype.OpMath()).At()
	skips := skipsProduct(c)
	a, b := kit.ProductOperandOf(dtype, in[1]), kit.ProductOperandOf(dtype, in[2])
	kit.EachIndex(shape, func(index []int) {
		product, sum := kit.Accumulator{DType: dtype}, kit.Accumulator{DType: dtype}
		if !skips {
			addProductTerms(a, b, index, &product)
		}
		addTimes(&sum, alpha, product.Value())
		if beta.Complex() != 0 {
			addTimes(&sum, beta, broadcastElement(in[0], index))
		}
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// addTimes adds factor*term to a sum. With factor 1 it adds the term without a multiplication.
func addTimes(sum *kit.Accumulator, factor, term tensor.Scalar) {
	if factor.Complex() == 1 {
		sum.Add(term)
		return
	}
	sum.AddProduct(factor, term)
}

// addmmLoops returns the parallel loop over the rows of the result of addmm, or over the batch of baddbmm.
func addmmLoops(c *graph.Call) []graph.Parallel {
	loop := kit.LoopOver(c, 1, 0, 0) // dimension 0 of operand 1 and of the result
	if c.Out[0].Rank() == 3 {
		loop.OperandDims[2] = 0 // the batch of operand 2
	}
	if self := c.Meta(0); self.Rank() == c.Out[0].Rank() && self.Shape[0] == c.Out[0].Shape[0] {
		loop.OperandDims[0] = 0
	}
	loop.MayBroadcast = []bool{true, false, false} // self may be broadcast
	return []graph.Parallel{loop}
}
