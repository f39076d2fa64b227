package pointwise

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Where selects each element from one of two operands by a condition.
var Where = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "where",
		Doc: "Takes self where `condition` is true and `other` elsewhere, with broadcasting. The condition is " +
			"bool, or uint8 for compatibility; self and `other` are promoted.",
		Params: []graph.Param{{Name: "condition"}, kit.SelfOrNumber, kit.OtherOrNumber},
		Infer:  kit.InferWithLayout(&selection, whereLayout),
		Ref: kit.PointwiseRef(&selection, kit.IgnoringCall(func(_ tensor.DType, x []tensor.Scalar) tensor.Scalar {
			if x[0].Int() != 0 {
				return x[1]
			}
			return x[2]
		})),
		Examples: []graph.Example{
			kit.Example(nil, tensor.New(tensor.Bool, 2, 3), kit.TransposedMatrix, kit.FloatRow),
			kit.Example(nil, tensor.New(tensor.Bool, 3), kit.IntMatrix, kit.TransposedMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &selection},
})

// selection is the iteration of the op "where": the rule for its dtypes, and its kernels.
var selection = graph.Pointwise{Config: whereConfig, Body: whereBody}

// whereDType returns the dtype of the result: the promoted dtype of self and other. It rejects conditions that are
// neither bool nor uint8.
func whereDType(c *graph.Call) (tensor.DType, error) {
	if dtype := c.Type(0).DType; dtype != tensor.Bool && dtype != tensor.Uint8 {
		return dtype, fmt.Errorf("where expected condition to be a boolean tensor, but got a tensor with dtype %s",
			dtype.TorchName())
	}
	return resultType(c.In[1:])
}

// whereConfig returns the configuration of the iteration. If self or other needs a conversion, all operands including
// the condition are converted to the dtype of the result, and the kernels test whether the converted condition is 0.
// Otherwise the condition remains a byte.
func whereConfig(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	dtype, err := whereDType(call)
	if err != nil {
		return rule.Config{}, err
	}
	out := outs[0]
	if !out.Defined {
		out = rule.UndefinedOutputOf(dtype)
	}
	cfg := rule.New().CheckAllSameDType(false).Output(out).Input(call.In[0].Operand())
	for _, arg := range call.In[1:] {
		operand := arg.Operand()
		if arg.Kind == graph.NumberArg {
			operand = rule.OperandOfType(tensor.Type{DType: dtype}) // a 0-dim value that needs no conversion
		}
		cfg = cfg.Input(operand)
		if operand.Type.DType != dtype {
			cfg = cfg.PromoteInputsToCommonDType(true)
		}
	}
	return cfg, nil
}

// whereLayout returns the layout of the result. PyTorch first converts the condition to bool and the operands to the
// dtype of the result, so the layout is inferred from the converted types.
func whereLayout(c *graph.Call) (tensor.Type, error) {
	dtype, err := whereDType(c)
	if err != nil {
		return tensor.Type{}, err
	}
	cfg := rule.New().Output(rule.UndefinedOutputOf(dtype))
	cfg = cfg.Input(rule.OperandOfType(rule.CastType(c.Type(0), tensor.Bool)))
	for i := 1; i < 3; i++ {
		cfg = cfg.Input(rule.OperandOfType(rule.CastType(c.Type(i), dtype)))
	}
	return kit.FirstResultType(cfg)
}

// byteConditionKernels has the kernels for a condition of one byte, by the dtype of the condition.
// convertedConditionKernels has the kernels for a condition that is converted to the dtype of self and other. A
// kernelTable has a kernel for each dtype of the result.
var (
	selectFormula        = formula("where(c, x, y)", "c", "x", "y")
	allDTypes            = [][]tensor.DType{bools, integers, halfFloats, floats, complexes}
	byteConditionKernels = map[tensor.DType]kernelTable{tensor.Bool: selectKernels(tensor.Bool),
		tensor.Uint8: selectKernels(tensor.Uint8)}
	convertedConditionKernels = kernelsOf(selectFormula, allDTypes...)
)

// selectKernels returns the kernels for a condition of the given dtype.
func selectKernels(condition tensor.DType) kernelTable {
	types := func(dtype tensor.DType) []tensor.DType { return []tensor.DType{dtype, condition, dtype, dtype} }
	return kernelsWithDTypes(selectFormula, types, allDTypes...)
}

// whereBody returns the kernel for the dtypes of the iteration.
func whereBody(_ *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
	result, condition := iteration.DType(0), iteration.DType(1)
	if condition == result {
		return convertedConditionKernels[result], nil
	}
	return byteConditionKernels[condition][result], nil
}
