package product

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Linear is input @ weight.T + bias.
var Linear = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "linear",
		Doc: "Applies a fully connected layer: `input` [..., in], `weight` [out, in] and `bias` [out] give [..., out]. A " +
			"weight of [in] gives [...].",
		Params: []graph.Param{kit.Input, kit.Weight, kit.OptBias},
		Infer:  inferLinear,
		Ref:    linearRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 4, 3),
				tensor.New(tensor.Float32, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5, 3), tensor.New(tensor.Float32, 4, 3),
				tensor.New(tensor.Float32, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5, 3).WithStrides([]int{15, 1, 5}),
				tensor.New(tensor.Float32, 4, 3)}},
		},
	},
	Facts:     graph.Facts{ConstantsByAddress: true, Parallel: linearLoops, WritesAnyDenseLayout: true, Flops: linearFlops},
	Lowerings: graph.Lowerings{Impls: productImpls(linearContraction), Rewrite: compose.WidenToFloat32},
})

// linearBias is the operand index of the bias.
const linearBias = 2

// inferLinear follows at::linear. A call with a bias uses addmm if the input is a matrix or a contiguous tensor of
// three dimensions, which is flattened to a matrix. Every other call is a matmul, followed by an in-place addition of
// the bias if there is one.
func inferLinear(call *graph.Call) ([]graph.Result, error) {
	input, bias := call.Type(0), call.Type(linearBias)
	weight, err := transposed(call.Type(1))
	if err != nil {
		return nil, err
	}
	var out tensor.Type
	switch {
	case call.HasOperand(linearBias) && input.Rank() == 2:
		out, err = addmmType(bias, input, weight)
	case call.HasOperand(linearBias) && flattensInput(input):
		flat := [2]sym.Int{input.Shape[0].Mul(input.Shape[1]), input.Shape[2]}
		flatInput := tensor.Type{DType: input.DType, Shape: flat[:], Strides: flat[:]} // strides are not used
		if err = checkAddmm(bias, flatInput, weight); err == nil {
			out, err = kit.FreshType(input.DType, []sym.Int{input.Shape[0], input.Shape[1], weight.Shape[1]})
		}
	default:
		if out, err = matmulType(input, weight); err == nil && call.HasOperand(linearBias) {
			err = checkInPlaceAdd(out, bias)
		}
	}
	if err != nil {
		return nil, err
	}
	return call.NewResult(out), nil
}

// flattensInput reports whether the op linear, if it has a bias, flattens its input to a matrix.
func flattensInput(input tensor.Type) bool { return input.Rank() == 3 && input.IsContiguous() }

// transposed mirrors Tensor.t. It transposes a matrix and returns a vector unchanged.
func transposed(weight tensor.Type) (tensor.Type, error) {
	if weight.Rank() > 2 {
		return weight, fmt.Errorf("t() expects a tensor with <= 2 dimensions, but self is %dD", weight.Rank())
	}
	if weight.Rank() < 2 {
		return weight, nil
	}
	return weight.Transpose(0, 1)
}

// checkInPlaceAdd returns PyTorch's error for an invalid out.add_(bias).
func checkInPlaceAdd(out, bias tensor.Type) error {
	shape, err := tensor.BroadcastSizes(out.Shape, bias.Shape)
	if err != nil {
		return err
	}
	if !tensor.SameSizes(shape, out.Shape) {
		return fmt.Errorf("output with shape %s doesn't match the broadcast shape %s", tensor.Sizes(out.Shape),
			tensor.Sizes(shape))
	}
	dtype, err := tensor.Promote(out.DType, bias.DType)
	if err == nil && !tensor.CanCast(dtype, out.DType) {
		err = fmt.Errorf("result type %s can't be cast to the desired output type %s", dtype.TorchName(),
			out.DType.TorchName())
	}
	return err
}

// linearContraction describes a call as a contraction, the common form of matrix products: a @ b + add.
func linearContraction(call *graph.Call) (*contraction, error) {
	out, weight := call.Out[0], call.Meta(1)
	if weight.Rank() == 2 {
		var err error
		if weight, err = weight.Transpose(0, 1); err != nil {
			return nil, err
		}
	}
	matmul := graph.Call{In: []graph.Arg{call.In[0], {Kind: graph.TensorArg, Value: &graph.Value{Meta: weight}}}}
	product, err := productContraction(&matmul, out)
	if err != nil || !call.HasOperand(linearBias) {
		return product, err
	}
	product.hasAdd, product.addOperand, product.beta = true, linearBias, tensor.IntScalar(1)
	strides, err := biasStrides(call, out)
	if err != nil {
		return nil, err
	}
	// The last dimensions of the result are rows, if the input has several dimensions, and columns, if the weight is a
	// matrix. All other dimensions are the batch.
	batchRank := out.Rank()
	if weight.Rank() == 2 {
		batchRank--
		product.add.col = strides[batchRank]
	}
	if call.Meta(0).Rank() > 1 {
		batchRank--
		product.add.row = strides[batchRank]
	}
	product.add.batch = strides[:batchRank]
	return product, nil
}

// biasStrides returns the strides of the bias, expanded to the shape of the result. Broadcast dimensions have stride 0.
func biasStrides(call *graph.Call, out tensor.Meta) ([]int, error) {
	bias, shape := call.Meta(linearBias), out.Shape
	isFlattened := flattensInput(call.Meta(0).Type())
	if isFlattened { // a bias of two dimensions has a row for each row of the flattened input
		shape = []int{out.Shape[0] * out.Shape[1], out.Shape[2]}
	}
	expanded, err := bias.Expand(shape)
	if err != nil {
		return nil, err
	}
	for d, size := range expanded.Shape {
		if size == 1 || d < expanded.Rank()-bias.Rank() {
			expanded.Strides[d] = 0
		}
	}
	if isFlattened { // split the flattened dimension again
		row := expanded.Strides[0]
		return []int{row * out.Shape[1], row, expanded.Strides[1]}, nil
	}
	return expanded.Strides, nil
}

// linearFlops counts the operations of the product, without the addition of the bias.
func linearFlops(c *graph.Call) float64 {
	product, err := linearContraction(c)
	if err != nil {
		return 0
	}
	return product.flops()
}

// linearRef is the reference implementation of linear.
func linearRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	input, weight := in[0], in[1]
	leadingShape := input.Shape[:input.Rank()-1]
	shape := append([]int{}, leadingShape...)
	if weight.Rank() == 2 {
		shape = append(shape, weight.Shape[0])
	}
	out := tensor.Zeros(input.DType, shape...)
	isFlattened := flattensInput(input.Meta.Type())
	inputFactors, weightFactors := kit.ProductOperandOf(input.DType, input), kit.ProductOperandOf(input.DType, weight)
	kit.EachIndex(shape, func(index []int) {
		sum := kit.Accumulator{DType: input.DType}
		inputRow, weightRow := 0, 0 // storage indices of the rows that are multiplied
		for d, i := range index[:len(leadingShape)] {
			inputRow += i * inputFactors.Strides[d]
		}
		if weight.Rank() == 2 {
			weightRow += index[len(leadingShape)] * weightFactors.Strides[0]
		}
		for k := range input.Shape[len(leadingShape)] {
			sum.AddProductAt(inputFactors, inputRow+k, weightFactors, weightRow+k)
		}
		if len(in) > linearBias && in[linearBias] != nil {
			biasIndex := index
			if isFlattened && in[linearBias].Rank() == 2 { // the bias has a row for each row of the flattened input
				biasIndex = []int{index[0]*shape[1] + index[1], index[2]}
			}
			sum.Add(broadcastElement(in[linearBias], biasIndex))
		}
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}
