package reduce

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// checkNormDTypes checks the dtypes of optional operands, such as weight and bias. params are their indices. The dtype
// of all must be that of operand 0. If operand 0 has 16-bit floats, the dtype of all may be float32 instead.
func checkNormDTypes(call *graph.Call, params ...int) error {
	dtype := call.Type(0).DType
	required := dtype
	if dtype.IsReducedFloat() {
		// A parameter with the dtype of operand 0 decides which dtype is required; if there is none, the first parameter.
		paramsDType := tensor.Invalid
		for _, i := range params {
			if paramDType := call.Type(i).DType; call.HasOperand(i) && (paramsDType == tensor.Invalid || paramDType == dtype) {
				paramsDType = paramDType
			}
		}
		if paramsDType == tensor.Float32 {
			required = tensor.Float32
		}
	}
	for _, i := range params {
		if call.HasOperand(i) && call.Type(i).DType != required {
			return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), call.Type(i).DType.TorchName())
		}
	}
	return nil
}

// checkBatchNormDTypes checks the dtypes of operands 1 to 4 of a batch_norm (weight, bias, running_mean and
// running_var) as PyTorch's check_mixed_data_type and PyTorch's kernels do.
func checkBatchNormDTypes(call *graph.Call) error {
	dtype := call.Type(0).DType
	first := tensor.Invalid // the dtype of the first given parameter
	for i := 4; i > 0; i-- {
		if call.HasOperand(i) {
			first = call.Type(i).DType
		}
	}
	if first == tensor.Invalid || first == dtype {
		return checkNormDTypes(call, 1, 2, 3, 4)
	}
	for i := 1; i < 5; i++ {
		if call.HasOperand(i) && call.Type(i).DType != tensor.Float32 {
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
	const firstStatistic = 3
	for _, param := range []struct {
		operand int
		name    string
	}{{3, "running_mean"}, {4, "running_var"}, {1, "weight"}, {2, "bias"}} {
		switch {
		case c.HasOperand(param.operand):
			paramType := c.Type(param.operand)
			if count := paramType.Numel(); count.Ne(features).Holds() {
				return fmt.Errorf("%s should contain %v elements not %v", param.name, features, count)
			}
			if paramType.Rank() != 1 {
				return fmt.Errorf("%s must have 1 dimension, got %d", param.name, paramType.Rank())
			}
		case param.operand >= firstStatistic && !isTraining:
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
	for i := 1; i < 3; i++ { // weight and bias
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

// normReference computes y = (x-mean)/sqrt(var+eps)*weight+bias for the elements x of input. Elements belong to groups,
// and the elements of a group have the same mean and variance. groupOf maps an index of input to the number of its
// group. paramOf maps an index of input to a row-major index of weight and bias, and of mean and variance if they are
// given. If mean and variance are nil, the statistics of each group are computed from input.
func normReference(input *tensor.Tensor, eps float64, groupOf, paramOf func(index []int) int, weight, bias, mean,
	variance *tensor.Tensor) *tensor.Tensor {
	sum, squares, count := map[int]float64{}, map[int]float64{}, map[int]float64{} // by group; squares of deviations
	forEach := func(visit func(index []int, group int, x float64)) {
		kit.EachIndex(input.Shape, func(index []int) { visit(index, groupOf(index), input.At(index...).Float()) })
	}
	forEach(func(_ []int, group int, x float64) {
		sum[group] += x
		count[group]++
	})
	forEach(func(_ []int, group int, x float64) {
		deviation := x - sum[group]/count[group]
		squares[group] += float64(deviation * deviation)
	})
	out := tensor.Zeros(input.DType, input.Shape...)
	// valueOf returns the element of a parameter for an index of input, or omitted if the parameter is not given.
	valueOf := func(param *tensor.Tensor, index []int, omitted float64) float64 {
		if param == nil {
			return omitted
		}
		paramIndex := kit.Unravel(paramOf(index), param.Shape)
		return param.CopyTo(tensor.New(tensor.Float64, param.Shape...)).At(paramIndex...).Float()
	}
	forEach(func(index []int, group int, x float64) {
		groupMean := valueOf(mean, index, sum[group]/count[group])
		groupVariance := valueOf(variance, index, squares[group]/count[group])
		standardDeviation, factor, offset := math.Sqrt(groupVariance+eps), valueOf(weight, index, 1), valueOf(bias, index, 0)
		y := float64((x-groupMean)/standardDeviation*factor) + offset
		if mean != nil { // PyTorch's formula; for infinite weights and means, the line above gives another result
			scale := factor / standardDeviation
			y = float64(x*scale) + (offset - float64(groupMean*scale))
		}
		out.Set(tensor.FloatScalar(y), index...)
	})
	return out
}
