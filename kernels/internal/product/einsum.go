package product

import (
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

// refEinsum is the reference implementation. As PyTorch, it multiplies the operands from left to right, and sums each
// label as soon as no later operand and not the result has it: before the product, if only one factor has the label.
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
	if dtype.IsIntegral(true) {
		product := contract(parsed, in, tensor.Scalar.Int, func(a, b int64) int64 { return a * b })
		product.eachIndex(parsed, parsed.resultLabels, func(index []int, x int64) { out.Set(tensor.IntScalar(x), index...) })
		return []*tensor.Tensor{out}, nil
	}
	product := contract(parsed, in, tensor.Scalar.Complex, func(a, b complex128) complex128 {
		if !dtype.IsComplex() { // the imaginary part of an infinity times 0 would be NaN
			return complex(real(a)*real(b), 0)
		}
		return kit.MulComplex(a, b)
	})
	product.eachIndex(parsed, parsed.resultLabels, func(index []int, x complex128) {
		out.Set(tensor.ComplexScalar(x), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// refTerm is an operand or a product of operands, in row-major order.
type refTerm[E int64 | complex128] struct {
	labels   []int
	elements []E
}

// contract returns the product of the operands, with the labels of the result.
func contract[E int64 | complex128](e *einsum, in []*tensor.Tensor, number func(tensor.Scalar) E,
	mul func(a, b E) E) (product *refTerm[E]) {
	for k, term := range e.terms {
		factor := &refTerm[E]{labels: term.labels}
		kit.EachIndex(e.shape(term.labels), func(index []int) {
			offset := in[k].Offset
			for d, stride := range term.strides {
				offset += stride * index[d]
			}
			element := tensor.Must(in[k].View(tensor.Meta{DType: in[k].DType, Shape: []int{}, Strides: []int{}, Offset: offset}))
			factor.elements = append(factor.elements, number(element.At()))
		})
		isNeeded := func(label int) bool {
			return slices.Contains(e.resultLabels, label) ||
				slices.ContainsFunc(e.terms[k+1:], func(later einsumTerm) bool { return slices.Contains(later.labels, label) })
		}
		if product == nil {
			product = factor.summed(e, isNeeded)
			continue
		}
		product, factor = product.summed(e, func(label int) bool {
			return isNeeded(label) || slices.Contains(factor.labels, label)
		}), factor.summed(e, func(label int) bool { return isNeeded(label) || slices.Contains(product.labels, label) })
		both := &refTerm[E]{labels: slices.Clone(product.labels)}
		for _, label := range factor.labels {
			if !slices.Contains(both.labels, label) {
				both.labels = append(both.labels, label)
			}
		}
		kit.EachIndex(e.shape(both.labels), func(index []int) {
			both.elements = append(both.elements, mul(product.at(e, both.labels, index), factor.at(e, both.labels, index)))
		})
		product = both.summed(e, isNeeded)
	}
	return product
}

// at returns the element at an index of labels, which include those of the term.
func (t *refTerm[E]) at(e *einsum, labels, index []int) E {
	position := 0
	for _, label := range t.labels {
		position = position*e.sizes[label] + index[slices.Index(labels, label)]
	}
	return t.elements[position]
}

// summed returns the sum over all labels that are not needed.
func (t *refTerm[E]) summed(e *einsum, isNeeded func(label int) bool) *refTerm[E] {
	sum := &refTerm[E]{}
	for _, label := range t.labels {
		if isNeeded(label) {
			sum.labels = append(sum.labels, label)
		}
	}
	sum.elements = make([]E, tensor.Numel(e.shape(sum.labels)))
	i := 0
	kit.EachIndex(e.shape(t.labels), func(index []int) {
		position := 0
		for d, label := range t.labels {
			if isNeeded(label) {
				position = position*e.sizes[label] + index[d]
			}
		}
		sum.elements[position] += t.elements[i]
		i++
	})
	return sum
}

// eachIndex calls f for each index of labels, with the element of the term. A label that the term lacks is broadcast.
func (t *refTerm[E]) eachIndex(e *einsum, labels []int, f func(index []int, x E)) {
	kit.EachIndex(e.shape(labels), func(index []int) { f(index, t.at(e, labels, index)) })
}
