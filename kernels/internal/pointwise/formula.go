package pointwise

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// formula parses the formula that computes one element of an op's result. Package expr describes the syntax.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func formula(text string, params ...string) *expr.Formula { return kit.Formula(text, params...) }

// halvesOfRootTwo are statements that set t + r to v = x * sqrt(1/2), where t is v rounded. A rounding of v changes
// erfc(v) by the factor 1 - 2*v*r. The functions of the normal distribution are constant beyond 100.
const halvesOfRootTwo = "c = minimum(maximum(float64(x), -100), 100); t = c * 0.70710678118654757; " +
	"r = fma(c, 0.70710678118654757, -t) - c * 4.833646656726457e-17; "

// Lists of the dtypes in which ops compute, by kind. Most ops compute 16-bit floats in float32. Some ops round each
// step to the 16-bit dtype (halfFloats).
var (
	floats       = []tensor.DType{tensor.Float32, tensor.Float64}
	halfFloats   = []tensor.DType{tensor.Float16, tensor.BFloat16}
	complexes    = []tensor.DType{tensor.Complex64, tensor.Complex128}
	signedInts   = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}
	unsignedInts = []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	integers     = slices.Concat(signedInts, unsignedInts)
	bools        = []tensor.DType{tensor.Bool}
)

// kernelsOf returns the kernels of a formula without attributes for the given dtypes. The operands and the result of a
// kernel have the same dtype.
func kernelsOf(expression *expr.Formula, dtypes ...[]tensor.DType) kernelTable {
	return kernelsWithResultDType(expression, func(dtype tensor.DType) tensor.DType { return dtype }, dtypes...)
}

// kernelsWithResultDType is kernelsOf for an op whose result has another dtype than the operands. result maps the dtype
// of the operands to the dtype of the result.
func kernelsWithResultDType(expression *expr.Formula, result func(tensor.DType) tensor.DType,
	dtypes ...[]tensor.DType) kernelTable {
	return kernelsWithDTypes(expression, func(dtype tensor.DType) []tensor.DType {
		types := []tensor.DType{result(dtype)}
		for range expression.Params() {
			types = append(types, dtype)
		}
		return types
	}, dtypes...)
}

// kernelsWithDTypes is kernelsOf for operands with different dtypes. For the kernel at index dtype of the table,
// types(dtype) returns the dtype of the result, followed by the dtypes of the operands.
func kernelsWithDTypes(expression *expr.Formula, types func(dtype tensor.DType) []tensor.DType,
	dtypes ...[]tensor.DType) (table kernelTable) {
	for _, list := range dtypes {
		for _, dtype := range list {
			const results = 1
			table[dtype] = kit.FormulaKernel(expression, nil, results, types(dtype)...)
		}
	}
	return table
}

// toBool returns the dtype of the results of predicates.
func toBool(tensor.DType) tensor.DType { return tensor.Bool }

// numbers holds the attributes of an op that its formula uses, by name.
type numbers = map[string]tensor.Scalar

// kernelWith returns the kernel of a formula that uses the numbers attrs. A [rule.Rule] describes an iteration, the
// loop over the broadcast operands of a call. It lists the results, then the operands, with the dtypes for the
// computation.
func kernelWith(expression *expr.Formula, iteration *rule.Rule, attrs numbers) rule.Kernel {
	types := make([]tensor.DType, iteration.Len())
	for i := range types {
		types[i] = iteration.DType(i)
	}
	return kit.FormulaKernel(expression, attrs, iteration.NumOutputs(), types...)
}

// attrBody returns the function [graph.Pointwise.Body] of an op whose expression uses attributes. attrs returns the
// attributes' values by name. dtypes are lists of the dtypes that the op supports. torchKernel is PyTorch's name of the
// kernel, for errors.
func attrBody(torchKernel string, expression *expr.Formula, attrs func(c *graph.Call) numbers,
	dtypes ...[]tensor.DType) func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
	supported := slices.Concat(dtypes...)
	return func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		firstOperand := iteration.NumOutputs() // its index, after the results
		if !slices.Contains(supported, iteration.DType(firstOperand)) {
			return rule.Kernel{}, rule.NotImplemented(torchKernel, iteration)
		}
		return kernelWith(expression, iteration, attrs(c)), nil
	}
}

// toIntegerOrFloat converts a plain number to an integer or a float, depending on dtype. Conversion to an integer
// truncates.
func toIntegerOrFloat(dtype tensor.DType, number tensor.Scalar) tensor.Scalar {
	switch {
	case !number.IsSet():
		return number
	case dtype.IsIntegral(true):
		return tensor.IntScalar(number.Int())
	}
	return tensor.FloatScalar(number.Float())
}
