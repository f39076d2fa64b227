package pointwise

import (
	"errors"
	"fmt"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type lerpAttrs struct {
	Weight tensor.Scalar `attr:"weight" default:"none" doc:"weight, if it is a plain number"`
}

// Lerp is self + weight * (end - self). The weight is a tensor operand, a plain-number operand, or, if this operand is
// omitted, the attribute weight.
var Lerp = kit.Define[*lerpAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "lerp",
		Doc: "Interpolates linearly between self (weight 0) and `end` (weight 1). `weight` is a tensor or a plain " +
			"number. All tensors must have the same dtype.",
		Params: []graph.Param{kit.Self, {Name: "end"}, {Name: "weight", Optional: true, AcceptsNumber: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			results, err := interpolation.Infer(c)
			if err != nil || len(c.In) < 3 || c.In[2].Kind != graph.NumberArg {
				return results, err
			}
			// A plain weight does not affect the layout.
			t, err := kit.FirstResultType(rule.Binary(rule.UndefinedOutput(), c.In[0].Operand(), c.In[1].Operand()))
			return c.NewResult(t), err
		},
		Ref: kit.PointwiseRef(&interpolation, lerpRef),
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatRow, kit.FloatMatrix),
			kit.Example(graph.Attrs{"weight": 0.25}, kit.TransposedMatrix, kit.FloatRow)},
	},
	Lowerings: graph.Lowerings{
		Pointwise:  &interpolation,
		Compile:    func(c *graph.Call) (*graph.Kernel, error) { return compilePresentOperands(&interpolation, c) },
		Expression: interpolation.Expression, // only calls with a weight operand are fused
	},
})

var interpolation = graph.Pointwise{Config: lerpConfig, Body: lerpBody}

// lerpConfig checks a call and returns the configuration of the iteration. The attribute weight is not an operand of
// the iteration.
func lerpConfig(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	dtype := call.Type(0).DType
	for i, name := range []string{"end", "weight"} {
		operand := 1 + i
		isTensor := operand < len(call.In) && call.In[operand].Kind == graph.TensorArg
		if isTensor && call.Type(operand).DType != dtype {
			return rule.Config{}, fmt.Errorf("expected dtype %s for `%s` but got dtype %s", kit.CppName(dtype), name,
				kit.CppName(call.Type(operand).DType))
		}
	}
	switch isSet := kit.Attrs[*lerpAttrs](call).Weight.IsSet(); {
	case isSet && call.HasOperand(2):
		return rule.Config{}, errors.New("lerp: weight is given twice, as an operand and as an attribute")
	case !isSet && !call.HasOperand(2):
		return rule.Config{}, errors.New("lerp: weight must be given, as an operand or an attribute")
	}
	if !dtype.IsFloat() && !dtype.IsComplex() {
		torchKernel := "lerp_kernel_scalar"
		if call.HasOperand(2) && call.In[2].Kind == graph.TensorArg {
			torchKernel = "lerp_kernel_tensor"
		}
		return rule.Config{}, kit.NotImplementedBy(torchKernel, dtype)
	}
	if call.HasOperand(2) {
		return ternary(call, outs)
	}
	return binary(call, outs)
}

// Interpolation starts from the closer end, so that a weight of 1 gives exactly end (native::lerp). lerpKernels is for
// a weight operand (z). The other two formulas are for an attribute weight below 0.5 and for one of at least 0.5.
var (
	lerpKernels   = kernelsOf(formula("lerp(x, y, z)"), floats, complexes)
	lerpFromStart = formula("w = type_as(weight, x); x + w * (y - x)", "x", "y")
	lerpFromEnd   = formula("w = type_as(weight, x); y - (y - x) * (1 - w)", "x", "y")
)

// lerpBody returns the kernel. The attribute weight is a constant of the formula.
func lerpBody(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
	weight := kit.Attrs[*lerpAttrs](c).Weight
	if !weight.IsSet() {
		return lerpKernels.kernelNamed("lerp_kernel_tensor", iteration)
	}
	if err := kit.CheckNumberFits(weight, c.Type(0).DType); err != nil {
		return rule.Kernel{}, err
	}
	// The weight is converted to the dtype in which loops read self. Operand 0 of the iteration is the result, and
	// operand 1 is self.
	converted := weight.Tensor(iteration.DType(1)).At()
	fromStart := converted.Float() < 0.5
	if iteration.DType(1).IsComplex() {
		fromStart = cmplx.Abs(converted.Complex()) < 0.5
	}
	if fromStart {
		return kernelWith(lerpFromStart, iteration, numbers{"weight": weight}), nil
	}
	return kernelWith(lerpFromEnd, iteration, numbers{"weight": weight}), nil
}

// lerpRef returns the reference function. The operands are self, end and weight.
func lerpRef(c *graph.Call) kit.ScalarFunc {
	weight := kit.Attrs[*lerpAttrs](c).Weight
	return func(dtype tensor.DType, operands []tensor.Scalar) tensor.Scalar {
		if weight.IsSet() {
			operands = append(operands[:2:2], weight) // a copy: the caller reuses its list
		}
		round := roundTo(dtype)
		return kit.ByDTypeKind(nil, // integers are not supported
			func(operands []float64) float64 {
				diff := round(operands[1] - operands[0]) // rounded before the product, as the kernels do
				if operands[2] < 0.5 {
					return operands[0] + round(float64(operands[2]*diff))
				}
				return operands[1] - round(float64(diff*round(1-operands[2])))
			},
			func(operands []complex128) complex128 {
				roundParts := roundComplexTo(dtype)
				diff := roundParts(operands[1] - operands[0])
				if cmplx.Abs(operands[2]) < 0.5 {
					return operands[0] + roundParts(kit.MulComplex(operands[2], diff))
				}
				return operands[1] - roundParts(kit.MulComplex(diff, roundParts(1-operands[2])))
			})(dtype, operands)
	}
}
