package conv

import (
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses the memory formats of the results of convolutions as PyTorch does. The parameter shape is the shape
// of the batched result.

// nonEmptyResultType returns the type of a batched, non-empty result. The result is channels-last if the strides of
// input or weight suggest this format, else row-major. PyTorch has other rules for volumes, complex numbers and
// sequences.
func (params convParams) nonEmptyResultType(input, weight tensor.Type, shape []sym.Int) tensor.Type {
	switch {
	case len(shape) == 5:
		return tensor.NewType(input.DType, shape...)
	case input.DType.IsComplex():
		return params.complexResultType(input, weight, shape)
	case len(shape) == 3:
		return params.sequenceResultType(input, weight, shape)
	}
	return params.imageResultType(input, weight, shape, params.computesGroupsTogether(input, weight))
}

// sequenceResultType returns the type of the result for sequences. PyTorch convolves a sequence as an image of height
// 1, after a copy to row-major order.
func (params convParams) sequenceResultType(input, weight tensor.Type, shape []sym.Int) tensor.Type {
	if !input.IsContiguous() {
		input = input.RowMajor()
	}
	groupsTogether := params.computesGroupsTogether(input, weight)
	input, _ = input.Unsqueeze(2)
	weight, _ = weight.Unsqueeze(2)
	imageShape := []sym.Int{shape[0], shape[1], sym.Of(1), shape[2]}
	out, _ := params.imageResultType(input, weight, imageShape, groupsTogether).Squeeze(2)
	return out
}

// imageResultType chooses the format twice, as PyTorch does: in determine_backend_memory_format and in the backend. The
// choices can differ, because the strides of an operand can be ambiguous after the operand is copied to channels-last.
// groupsTogether is the result of computesGroupsTogether.
func (params convParams) imageResultType(input, weight tensor.Type, shape []sym.Int, groupsTogether bool) tensor.Type {
	format := suggestedFormat(input, weight)
	input, weight = convertedTo(input, format), convertedTo(weight, format)
	if groupsTogether {
		return typeInFormat(input.DType, shape, suggestedFormat(input, weight))
	}
	// Other kernels compute each group separately. Concatenation of the results keeps their format.
	inputGroup, weightGroup := groupCopyType(input, 1, params.groups), groupCopyType(weight, 0, params.groups)
	groupShape := []sym.Int{shape[0], shape[1].Div(sym.Of(params.groups)), shape[2], shape[3]}
	groupResult := typeInFormat(input.DType, groupShape, suggestedFormat(inputGroup, weightGroup))
	return typeInFormat(input.DType, shape, formatOf(groupResult))
}

// suggestedFormat returns the memory format that PyTorch derives from the strides of input and weight.
func suggestedFormat(input, weight tensor.Type) tensor.MemoryFormat {
	if formatOf(input) == tensor.ChannelsLast || formatOf(weight) == tensor.ChannelsLast {
		return tensor.ChannelsLast
	}
	return tensor.Contiguous
}

// formatOf returns the memory format that the strides of a type resemble.
func formatOf(t tensor.Type) tensor.MemoryFormat {
	const exactMatch = false
	return t.SuggestMemoryFormat(exactMatch)
}

// convertedTo returns a type after conversion to a memory format, as by PyTorch's Tensor.contiguous(memory_format).
func convertedTo(t tensor.Type, format tensor.MemoryFormat) tensor.Type {
	if t.Is(format) {
		return t
	}
	return typeInFormat(t.DType, t.Shape, format)
}

// typeInFormat returns a new type in a memory format.
func typeInFormat(dtype tensor.DType, shape []sym.Int, format tensor.MemoryFormat) tensor.Type {
	t, err := tensor.NewTypeFormat(dtype, shape, format)
	if err != nil {
		panic("kernels: convolution layouts have rank 4: " + err.Error())
	}
	return t
}

// groupCopyType returns the type of PyTorch's copy of the first group, a slice along dim (subtensor). The copy has the
// memory format that the strides of the tensor suggest.
func groupCopyType(t tensor.Type, dim, groups int) tensor.Type {
	group, err := t.Narrow(dim, sym.Int{}, t.Shape[dim].Div(sym.Of(groups)))
	if err != nil {
		panic("kernels: channels divide by groups: " + err.Error())
	}
	return convertedTo(group, formatOf(t))
}

// complexResultType mirrors complex_convolution, which convolves the real parts (a), the imaginary parts (b) and the
// sums of both parts (c). The result is (a - b) + i*(c - a - b).
func (params convParams) complexResultType(input, weight tensor.Type, shape []sym.Int) tensor.Type {
	inputReal, weightReal := realPart(input), realPart(weight)
	a := params.nonEmptyResultType(inputReal, weightReal, shape)
	inputSum, weightSum := kit.ElementwiseType(inputReal, inputReal), kit.ElementwiseType(weightReal, weightReal)
	c := params.nonEmptyResultType(inputSum, weightSum, shape)
	// The type a stands for b, too.
	out := kit.ElementwiseType(kit.ElementwiseType(a, a), kit.ElementwiseType(kit.ElementwiseType(c, a), a))
	return out.WithDType(input.DType)
}

// realPart returns the type of the real part of a complex tensor, as view_as_real(m).select(-1, 0) does.
func realPart(t tensor.Type) tensor.Type {
	strides := make([]sym.Int, len(t.Strides))
	for d, s := range t.Strides {
		strides[d] = s.Mul(sym.Of(2))
	}
	return tensor.Type{DType: t.DType.ToReal(), Shape: t.Shape, Strides: strides}
}

// computesGroupsTogether reports whether PyTorch computes all groups in one call. Otherwise it computes the groups one
// by one and concatenates their results, which affects the layout.
func (params convParams) computesGroupsTogether(input, weight tensor.Type) bool {
	return params.groups == 1 || params.usesMKLDNN(input, weight)
}

// usesMKLDNN mirrors ConvParams::use_mkldnn for one thread.
func (params convParams) usesMKLDNN(input, weight tensor.Type) bool {
	if input.DType != tensor.Float32 {
		return input.DType == tensor.BFloat16
	}
	const batchLimit, numelLimit, tapsLimit = 16, 20480, 3 // of use_mkldnn
	if params.isPointwise(weight) && input.Shape[0].Lt(sym.Of(batchLimit)).Holds() {
		return false
	}
	hasLargeWindow := func() bool { // a function, so that sizes are compared only if the result depends on them
		for d := range params.stride {
			if !weight.Shape[2+d].Gt(sym.Of(tapsLimit)).Holds() {
				return false
			}
		}
		return true
	}
	isSequence := len(params.stride) == 1
	return params.groups > 1 || !isSequence && hasLargeWindow() ||
		input.Shape[0].Gt(sym.Of(1)).Or(input.Numel().Gt(sym.Of(numelLimit))).Holds()
}

// isPointwise reports whether each window is one pixel, with stride 1 and dilation 1.
func (params convParams) isPointwise(weight tensor.Type) bool {
	if params.isDilated() {
		return false
	}
	for d, stride := range params.stride {
		if stride != 1 || !kit.SizeIs(weight.Shape[2+d], 1) {
			return false
		}
	}
	return true
}

// emptyResultType returns the type of a result without elements that has the shape of the input. PyTorch returns a view
// of the input times a number, so the result has the strides of the input.
func emptyResultType(input tensor.Type) tensor.Type {
	isSequence := input.Rank() == 3
	if isSequence {
		input, _ = input.Unsqueeze(2)
	}
	result, err := rule.Binary(rule.UndefinedOutput(), rule.OperandOfType(input),
		rule.OperandOfType(tensor.NewType(input.DType))).Rule()
	if err != nil {
		panic("kernels: a product with a number can be laid out: " + err.Error())
	}
	out := result.Type(0)
	if isSequence {
		out, _ = out.Squeeze(2)
	}
	return out
}
