package pointwise

import (
	"errors"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Pow is self to the power of exponent. Both operands may be plain numbers.
var Pow = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "pow",
		Doc: "Raises self to the power of `exponent`, with broadcasting. Integers stay integers: a negative plain " +
			"exponent is an error, and a negative exponent in a tensor gives 0 except for bases 1 and -1.",
		Params:   []graph.Param{kit.SelfOrNumber, {Name: "exponent", AcceptsNumber: true}},
		Infer:    powInfer,
		Ref:      kit.PointwiseRef(&power, kit.IgnoringCall(powRef)),
		Examples: []graph.Example{kit.BinaryExample, kit.IntegersExample},
	},
	Lowerings: graph.Lowerings{Pointwise: &power},
})

// Square is self times itself, like pow with the plain exponent 2.
var Square = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "square",
		Doc:    "Multiplies self by itself. Bools become int64.",
		Params: unaryParams,
		Infer: kit.InferWithLayout(&squaring, func(c *graph.Call) (tensor.Type, error) {
			self := c.Type(0)
			dtype := self.DType
			if dtype == tensor.Bool {
				dtype = tensor.Int64
			}
			return typeAfterCast(self, dtype)
		}),
		Ref: kit.PointwiseRef(&squaring, kit.IgnoringCall(kit.ByDTypeKind(
			func(x []int64) int64 { return x[0] * x[0] },
			func(x []float64) float64 { return x[0] * x[0] },
			func(x []complex128) complex128 { return kit.MulComplex(x[0], x[0]) }))),
		Examples: []graph.Example{kit.UnaryExample, kit.Example(nil, kit.BoolMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &squaring},
})

var (
	power = graph.Pointwise{
		Config: withCheck(binary, powCheck),
		Body:   powBody,
		Grain:  machine.FunctionGrain,
	}
	squaring = graph.Pointwise{
		Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
			if c.Type(0).DType == tensor.Bool {
				return unaryWithResult(tensor.Int64)(c, outs)
			}
			return unary(c, outs)
		},
		Body: bodyByDType("pow", mergeKernels(squareKernels,
			kernelsWithResultDType(formula("int64(x)"), func(tensor.DType) tensor.DType { return tensor.Int64 }, bools))),
	}
)

// powCheck rejects integers to the power of a negative plain integer, as PyTorch does.
func powCheck(c *graph.Call) error {
	exponent := c.In[1]
	isInteger := exponent.Kind == graph.NumberArg && exponent.Number.DType().IsIntegral(true)
	if isInteger && exponent.Number.Int() < 0 && c.Type(0).DType.IsIntegral(true) {
		return errors.New("Integers to negative integer powers are not allowed.")
	}
	return nil
}

// powInfer infers the type of the result. The layout depends on the overload of aten. For two tensors the layout is
// that of a binary op. For a plain exponent it is that of a unary op. For a plain base it is row-major.
func powInfer(call *graph.Call) ([]graph.Result, error) {
	results, err := power.Infer(call)
	if err != nil {
		return nil, err
	}
	t := results[0].Type
	switch {
	case call.In[0].Kind == graph.NumberArg:
		t = t.RowMajor()
	case call.In[1].Kind == graph.NumberArg:
		if t, err = typeAfterCast(call.Type(0), t.DType); err != nil {
			return nil, err
		}
	}
	return call.NewResult(t), nil
}

// powBody returns the kernel of pow. A plain exponent is the constant e of the formula. Exponents such as 2 and 0.5
// have cheaper formulas (pow_tensor_scalar_optimized_kernel), and powers of integers are repeated multiplications.
func powBody(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
	body, err := powKernels.kernelNamed("pow", iteration)
	exponent := c.In[1]
	if err != nil || exponent.Kind != graph.NumberArg {
		return body, err
	}
	value := exponent.Number.Tensor(iteration.DType(1)).At()     // in the dtype of the computation
	if iteration.DType(1).IsIntegral(false) && value.Int() < 0 { // the exponent was too large for the dtype and wrapped
		return body, nil
	}
	return kernelWith(constantPower, iteration, numbers{"e": value}), nil
}

// powRef is the reference function of pow. Powers of integers wrap.
func powRef(dtype tensor.DType, operands []tensor.Scalar) tensor.Scalar {
	return kit.WithUint64Case(powUint, kit.ByDTypeKind(
		func(operands []int64) int64 {
			switch {
			case operands[1] >= 0:
				return int64(powUint([]uint64{uint64(operands[0]), uint64(operands[1])}))
			case operands[0] == 1:
				return 1
			case operands[0] == -1:
				return 1 - 2*(operands[1]&1) // -1 for odd exponents
			}
			return 0
		},
		func(operands []float64) float64 { return power64(operands[0], operands[1]) },
		func(operands []complex128) complex128 {
			if operands[0] == 0 {
				return cmplx.Pow(0, operands[1])
			}
			return complexExp(kit.MulComplex(operands[1], complexLog(operands[0])))
		}))(dtype, operands)
}

// powUint returns operands[0] to the power of operands[1].
func powUint(operands []uint64) uint64 {
	result, square := uint64(1), operands[0]
	for exponent := operands[1]; exponent > 0; exponent >>= 1 {
		if exponent&1 > 0 {
			result *= square
		}
		square *= square
	}
	return result
}
