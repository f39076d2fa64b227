package reduce

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The indices of operands of batch_norm and instance_norm. All operands after the input are optional.
const (
	batchNormInput = iota
	batchNormWeight
	batchNormBias
	batchNormMean
	batchNormVariance
	batchNormOperands // number of operands
)

// checkNormDTypes checks the dtypes of parameters, which are optional operands such as weight and bias. params has the
// indices of the parameters. All must have the dtype of operand 0. If operand 0 has 16-bit floats, all may have the
// dtype float32 instead.
func checkNormDTypes(call *graph.Call, params ...int) error {
	dtype := call.Type(0).DType
	required := dtype
	if dtype.IsReducedFloat() && dtypeOfParams(call, dtype, params) == tensor.Float32 {
		required = tensor.Float32
	}
	for _, i := range params {
		if call.HasOperand(i) && call.Type(i).DType != required {
			return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), call.Type(i).DType.TorchName())
		}
	}
	return nil
}

// dtypeOfParams returns preferred if a given parameter has this dtype, else the dtype of the first given parameter. It
// returns Invalid if no parameter is given.
func dtypeOfParams(call *graph.Call, preferred tensor.DType, params []int) tensor.DType {
	first := tensor.Invalid
	for _, i := range params {
		switch dtype := call.Type(i).DType; {
		case !call.HasOperand(i): // omitted
		case dtype == preferred:
			return preferred
		case first == tensor.Invalid:
			first = dtype
		}
	}
	return first
}

// checkBatchNormDTypes checks the dtypes of the parameters of a batch_norm as PyTorch's check_mixed_data_type and
// PyTorch's kernels do.
func checkBatchNormDTypes(call *graph.Call) error {
	dtype := call.Type(0).DType
	given := slices.DeleteFunc([]int{batchNormWeight, batchNormBias, batchNormMean, batchNormVariance},
		func(i int) bool { return !call.HasOperand(i) })
	if len(given) == 0 || call.Type(given[0]).DType == dtype { // parameter given[0] decides whether dtypes are mixed
		return checkNormDTypes(call, given...)
	}
	for _, i := range given {
		if call.Type(i).DType != tensor.Float32 {
			return errors.New("mixed dtype (CPU): expect parameter to have scalar type of Float")
		}
	}
	if !dtype.IsReducedFloat() {
		return errors.New("mixed dtype (CPU): expect input to have scalar type of BFloat16")
	}
	return nil
}

// checkFeatures checks that the parameters are vectors of the given number of features, as PyTorch's
// _batch_norm_impl_index does. The running statistics may be omitted only if isTraining is set.
func checkFeatures(c *graph.Call, features sym.Int, isTraining bool) error {
	for _, param := range []struct {
		operand int
		name    string
	}{{batchNormMean, "running_mean"}, {batchNormVariance, "running_var"}, {batchNormWeight, "weight"},
		{batchNormBias, "bias"}} {
		switch {
		case c.HasOperand(param.operand):
			paramType := c.Type(param.operand)
			if count := paramType.Numel(); count.Ne(features).Holds() {
				return fmt.Errorf("%s should contain %v elements not %v", param.name, features, count)
			}
			if paramType.Rank() != 1 {
				return fmt.Errorf("%s must have 1 dimension, got %d", param.name, paramType.Rank())
			}
		case param.operand >= batchNormMean && !isTraining: // a statistic
			return errors.New(param.name + " must be defined in evaluation mode")
		}
	}
	return nil
}

// emptyBatchNormType returns the type of the result for an input without elements. PyTorch clones the input, multiplies
// it by the first element of weight, adds the first element of bias, and ignores the other operands.
func emptyBatchNormType(call *graph.Call, input tensor.Type) (tensor.Type, error) {
	input.Offset = sym.Int{}
	if !input.IsNonOverlappingAndDense() {
		input.Strides = tensor.DenseStridesOf(input.Shape, input.Strides)
	}
	for _, i := range [...]int{batchNormWeight, batchNormBias} {
		if !call.HasOperand(i) {
			continue
		}
		param := call.Type(i)
		if param.Rank() == 0 {
			return input, errors.New("select() cannot be applied to a 0-dim tensor.")
		}
		if kit.SizeIs(param.Shape[0], 0) {
			return input, errors.New("select(): index 0 out of range for tensor of size " + tensor.Sizes(param.Shape) +
				" at dimension 0")
		}
		firstElement := tensor.NewType(param.DType)
		iteration, err := rule.Binary(rule.UndefinedOutput(), rule.OperandOfType(input),
			rule.OperandOfType(firstElement)).Rule()
		if err != nil {
			return input, err
		}
		input = iteration.Type(0)
	}
	return input, nil
}
