package index

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// MaskedFill is torch.masked_fill.
var MaskedFill = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "masked_fill",
		Doc: "Replaces the elements of self where `mask` is true by `value`, a number or 0-dim. self and `mask` are " +
			"broadcast.",
		Params: []graph.Param{kit.Self, {Name: "mask"}, {Name: "value", AcceptsNumber: true}},
		Infer:  kit.InferWithLayout(&maskFilling, rowMajorResult),
		Ref:    refMaskedFill,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, tensor.New(tensor.Bool, 3),
			tensor.New(tensor.Float32))},
	},
	Lowerings: graph.Lowerings{Pointwise: &maskFilling},
})

// maskFilling is the computation of masked_fill.
var maskFilling = graph.Pointwise{Config: maskedFillConfig,
	Body: func(_ *graph.Call, it *rule.Rule) (rule.Kernel, error) {
		// The operands of the iteration are the result (0), self (1), the mask (2) and the value (3).
		if dtype, valueDType := it.DType(1), it.DType(3); dtype != valueDType {
			return convertingFill(dtype, valueDType), nil
		}
		return maskFills[it.DType(1)], nil
	}}

// maskFills has the kernels for a value operand with the dtype of self, by dtype.
var maskFills = func() (kernels [tensor.Complex128 + 1]rule.Kernel) {
	fill := kit.Formula("where(mask, value, x)", "x", "mask", "value")
	for dtype := tensor.Bool; dtype.Valid(); dtype++ {
		// The formula uses no other numbers (nil). The dtypes belong to the result, x, mask and value.
		const results = 1
		kernels[dtype] = kit.FormulaKernel(fill, nil, results, dtype, dtype, tensor.Bool, dtype)
	}
	return kernels
}()

// maskedFillConfig checks a call and returns its iteration over the result, self, mask and value.
func maskedFillConfig(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	dtype := call.Type(0).DType
	if maskDType := call.Type(1).DType; maskDType != tensor.Bool {
		return rule.Config{}, fmt.Errorf("masked_fill only supports boolean masks, but got mask with dtype %s", maskDType)
	}
	value := call.In[2].Operand()
	switch {
	case call.In[2].Kind == graph.NumberArg:
		if err := kit.CheckNumberFits(call.In[2].Number, dtype); err != nil {
			return rule.Config{}, err
		}
		value = rule.OperandOfType(tensor.Type{DType: dtype})
	case call.Type(2).Rank() > 0:
		return rule.Config{}, fmt.Errorf("masked_fill only supports a 0-dimensional value tensor, but got tensor with %d "+
			"dimension(s).", call.Type(2).Rank())
	}
	out := outs[0]
	if !out.Defined {
		out = rule.UndefinedOutputOf(dtype)
	}
	return rule.New().CheckAllSameDType(false).Output(out).
			Input(call.In[0].Operand()).Input(call.In[1].Operand()).Input(value),
		nil
}

// rowMajorResult returns a row-major result for the broadcast shape of operands 0 and 1.
func rowMajorResult(c *graph.Call) (tensor.Type, error) {
	shape, err := tensor.BroadcastSizes(c.Type(0).Shape, c.Type(1).Shape)
	return tensor.NewType(c.Type(0).DType, shape...), err
}

// refMaskedFill is the reference. If the value has another dtype than self, it must fit the dtype of self.
func refMaskedFill(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if in[2].Rank() == 0 && in[2].DType != in[0].DType {
		if err := kit.CheckNumberFits(in[2].At(), in[0].DType); err != nil {
			return nil, err
		}
	}
	return kit.PointwiseRef(&maskFilling, kit.IgnoringCall(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if x[1].Int() != 0 {
			return x[2]
		}
		return x[0]
	}))(call, in)
}

// convertingFill returns the kernel for self of the given dtype and a value operand of another dtype. As in
// value.item() and Scalar::to, the value is first converted to the dtype of self. A value that overflows this dtype is
// an error.
func convertingFill(dtype, valueDType tensor.DType) rule.Kernel {
	fill := fillLoops[dtype.Size()]
	const results = 1
	return rule.NewKernel(results, func(ptrs []unsafe.Pointer, n int) error {
		if n == 0 {
			return nil
		}
		item, err := convertedItem(dtype, valueDType, ptrs[3]) // value is 0-dim: all its elements are the same
		if err == nil {
			fill(ptrs[0], ptrs[1], ptrs[2], item.Pointer(), n)
		}
		return err
	}, dtype, dtype, tensor.Bool, valueDType)
}

// fillLoops has the loops that copy n elements of self to dst. Where the mask is set, they write the value instead.
// They are indexed by element size in bytes.
var fillLoops = [17]func(dst, self, mask, value unsafe.Pointer, n int){1: fillMasked[uint8], 2: fillMasked[uint16],
	4: fillMasked[uint32], 8: fillMasked[uint64], 16: fillMasked[[2]uint64]}

func fillMasked[T uint8 | uint16 | uint32 | uint64 | [2]uint64](dst, self, mask, value unsafe.Pointer, n int) {
	elements, isMasked, fill := unsafe.Slice((*T)(self), n), unsafe.Slice((*uint8)(mask), n), *(*T)(value)
	filled := unsafe.Slice((*T)(dst), n)
	for i := range filled {
		element := elements[i]
		if isMasked[i] != 0 { // read before dst[i] is written, because dst may be mask
			element = fill
		}
		filled[i] = element
	}
}
