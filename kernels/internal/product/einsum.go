package product

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// Einsum is torch.einsum, a product of tensors that is summed over some dimensions.
var Einsum = kit.Define[*einsumAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "einsum",
		Doc: "Multiplies tensors and sums over dimensions. An equation labels the dimensions. A label that is not in the " +
			"result is summed over. A label that occurs twice in one operand takes the diagonal. `...` stands for any " +
			"number of dimensions; they broadcast. Without ->, the result has the labels that occur once, in alphabetical " +
			"order. With one operand and nothing to sum, the result is a view. Products have the layouts of PyTorch's matrix " +
			"products.",
		Params: []graph.Param{kit.Tensors},
		Infer:  inferEinsum,
		Ref:    refEinsum,
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.F32(2, 3, 4), kit.F32(2, 4, 5).WithStrides([]int{20, 1, 4})},
				Attrs: graph.Attrs{"equation": "bij,bjk->bki"}},
			{In: []tensor.Meta{kit.F32(3, 3, 2)}, Attrs: graph.Attrs{"equation": "ii..."}},
			{In: []tensor.Meta{kit.F32(2, 3), kit.F32(3, 4), kit.F32(4, 1, 2)},
				Attrs: graph.Attrs{"equation": "ij,jk,k...->..."}}},
	},
	Facts: graph.Facts{
		Parallel:             einsumLoops,
		WritesAnyDenseLayout: true,
		Flops: func(c *graph.Call) float64 {
			e, err := newEinsum(c, c.Meta)
			if err != nil {
				return 0
			}
			flops := 2.0
			for _, size := range e.sizes {
				flops *= float64(size)
			}
			return flops
		},
	},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{{Name: "gemm", Doc: "Multiplies the operands one after another as matrices.",
			Lower: func(c *graph.Call) (*graph.Kernel, error) {
				return copies.CompileInDType(c, multiply.ComputationDType(c), compileEinsum)
			},
			Pack: multiply.PackFunc(nil)}}, // constants are only converted to the dtype of the computation
		Rewrite: rewriteEinsum,
	},
})

// inferEinsum infers the result, which may be a view of the only operand.
func inferEinsum(call *graph.Call) ([]graph.Result, error) {
	var onStack [4]tensor.Type // usually holds the types of all operands, so that they take no allocation
	types := kit.OperandTypes(onStack[:0], call)
	equation, err := parseEquation(kit.Attrs[*einsumAttrs](call).Equation, types)
	if err != nil {
		return nil, err
	}
	out, isView, err := equation.layout(types)
	if err != nil || !isView {
		return call.NewResult(out), err
	}
	return call.AliasResult(out, 0), nil
}

// einsumLoops returns the parallel loops over the labels of the result. A label that occurs twice in an operand has no
// loop, because an index of the label is not a slice of the operand.
func einsumLoops(c *graph.Call) []graph.Parallel {
	parsed, err := parseEquation(kit.Attrs[*einsumAttrs](c).Equation, kit.OperandTypes(nil, c))
	if err != nil {
		return nil
	}
	var loops []graph.Parallel
	for resultDim, label := range parsed.resultLabels {
		loop := kit.LoopOverResults(c)
		loop.ResultDims[0], loop.MayBroadcast = resultDim, slices.Repeat([]bool{true}, len(c.In))
		isDiagonal := false
		for i, labels := range parsed.operandLabels {
			dim := slices.Index(labels, label)
			isDiagonal = isDiagonal || dim >= 0 && slices.Contains(labels[dim+1:], label)
			if dim >= 0 && c.Meta(i).Shape[dim] == c.Out[0].Shape[resultDim] {
				loop.OperandDims[i] = dim
			}
		}
		if !isDiagonal {
			loops = append(loops, loop)
		}
	}
	return loops
}

// refEinsum is the reference implementation. A label names a dimension. For each combination of indices of all labels,
// it multiplies the elements of the operands and adds the product to the element of the result.
func refEinsum(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	parsed, err := newEinsum(c, func(i int) tensor.Meta { return in[i].Meta })
	if err != nil {
		return nil, err
	}
	results, err := inferEinsum(c)
	if err != nil {
		return nil, err
	}
	dtype := results[0].Type.DType
	out := tensor.Zeros(dtype, parsed.shape(parsed.resultLabels)...)
	labels := slices.Clone(parsed.resultLabels)
	for _, term := range parsed.terms {
		for _, label := range term.labels {
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
		}
	}
	sums, intSums := map[string]complex128{}, map[string]int64{} // by index of the result, as text
	kit.EachIndex(parsed.shape(labels), func(index []int) {
		product, intProduct := complex(1, 0), int64(1)
		for i, term := range parsed.terms {
			offset := 0
			for d, label := range term.labels {
				offset += term.strides[d] * index[slices.Index(labels, label)]
			}
			element := tensor.Must(in[i].View(tensor.Meta{DType: in[i].DType, Shape: []int{}, Strides: []int{},
				Offset: in[i].Offset + offset})).At()
			product, intProduct = kit.MulComplex(product, element.Complex()), intProduct*element.Int()
			if !dtype.IsComplex() { // the imaginary part of an infinity times 0 would be NaN
				product = complex(real(product), 0)
			}
		}
		key := fmt.Sprint(index[:len(parsed.resultLabels)])
		sums[key] += product
		intSums[key] += intProduct
	})
	kit.EachIndex(out.Shape, func(index []int) {
		key := fmt.Sprint(index)
		if dtype.IsIntegral(true) {
			out.Set(tensor.IntScalar(intSums[key]), index...)
		} else {
			out.Set(tensor.ComplexScalar(sums[key]), index...)
		}
	})
	return []*tensor.Tensor{out}, nil
}
