package pointwise

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type valueAttrs struct {
	Value tensor.Scalar `attr:"value" default:"1" doc:"factor of the product or quotient"`
}

// scaledParams are the operands of addcmul and addcdiv.
var scaledParams = []graph.Param{kit.Self, {Name: "tensor1"}, {Name: "tensor2"}}

// Addcmul is self + value * tensor1 * tensor2.
var Addcmul = elementwise(graph.SchemaOf[*valueAttrs](), "addcmul",
	"Returns self + value * tensor1 * tensor2, with broadcasting.", scaledParams,
	&graph.Pointwise{Config: ternary,
		Body: scaledTernary("addcmul_cpu_out", "x + type_as(value, x) * y * z", integers, floats, complexes)},
	addcmulRef,
	kit.Example(graph.Attrs{"value": 0.5}, kit.TransposedMatrix, kit.FloatRow, kit.FloatMatrix),
	kit.Example(nil, kit.IntMatrix, kit.IntMatrix, kit.IntMatrix))

// addcmulRef returns the reference of addcmul for a call.
func addcmulRef(c *graph.Call) kit.ScalarFunc {
	value := kit.Attrs[*valueAttrs](c).Value
	return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		round := roundTo(kit.LoopDType(dtype)) // a product may overflow the dtype
		return kit.ByDTypeKind(
			func(x []int64) int64 { return x[0] + value.Int()*x[1]*x[2] },
			func(x []float64) float64 {
				return x[0] + round(float64(round(round(value.Float())*x[1])*x[2]))
			},
			func(x []complex128) complex128 {
				round := roundComplexTo(dtype)
				return x[0] + round(kit.MulComplex(round(kit.MulComplex(round(value.Complex()), x[1])), x[2]))
			})(dtype, x)
	}
}

// Addcdiv is self + value * tensor1 / tensor2.
var Addcdiv = elementwise(graph.SchemaOf[*valueAttrs](), "addcdiv",
	"Returns self + value * tensor1 / tensor2, with broadcasting. Two integer tensors are not supported.", scaledParams,
	&graph.Pointwise{Config: withCheck(ternary, addcdivCheck),
		Body: scaledTernary("addcdiv_cpu_out", "x + type_as(value, x) * y / z", floats, complexes)},
	addcdivRef,
	kit.Example(graph.Attrs{"value": 0.5}, kit.TransposedMatrix, kit.FloatRow, kit.FloatMatrix))

// addcdivRef returns the reference of addcdiv for a call.
func addcdivRef(c *graph.Call) kit.ScalarFunc {
	value := kit.Attrs[*valueAttrs](c).Value
	return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
		round := roundTo(dtype) // a product may underflow before a division by 0
		return kit.ByDTypeKind(nil,
			func(x []float64) float64 { return x[0] + round(round(round(value.Float())*x[1])/x[2]) },
			func(x []complex128) complex128 { return x[0] + kit.MulComplex(value.Complex(), x[1])/x[2] })(dtype, x)
	}
}

// addcdivCheck rejects two integer tensors, as PyTorch does.
func addcdivCheck(c *graph.Call) error {
	if c.Type(1).DType.IsIntegral(true) && c.Type(2).DType.IsIntegral(true) {
		return errors.New("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will " +
			"perform a true division of tensor1 and tensor2. " +
			"The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / " +
			"tensor2)).to(input.dtype) for integer inputs and as " +
			"(input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter " +
			"implementation: (input + value * tensor1 / tensor2), for all dtypes.")
	}
	return nil
}

// scaledTernary returns the Body function of a formula that uses the attribute value. Every operation is rounded, as in
// PyTorch's portable loops. PyTorch's AVX2 loops instead fuse the last product of addcmul with the sum.
func scaledTernary(torchKernel, formulaText string, dtypes ...[]tensor.DType) func(*graph.Call,
	*rule.Rule) (rule.Kernel, error) {
	scaledFormula, supported := formula(formulaText, "x", "y", "z"), slices.Concat(dtypes...)
	return func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		value := kit.Attrs[*valueAttrs](c).Value
		if err := kit.CheckNumberFits(value, iteration.CommonDType()); err != nil {
			return rule.Kernel{}, err
		}
		if !slices.Contains(supported, iteration.DType(1)) {
			return rule.Kernel{}, kit.NotImplementedBy(torchKernel, iteration.CommonDType())
		}
		return kernelWith(scaledFormula, iteration, numbers{"value": value}), nil
	}
}
