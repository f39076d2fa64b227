package pointwise

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// clampBounds has the bounds of a call of clamp, clamp_min or clamp_max. The bounds are either all attributes, or all
// operands (tensors or plain numbers) after self.
type clampBounds struct {
	lower, upper                   tensor.Scalar // bounds given as attributes; unset if absent
	lowerIsOperand, upperIsOperand bool          // whether the lower and the upper bound are operands
}

// check rejects calls without bounds, calls with bounds of both forms, and complex operands.
func (bounds clampBounds) check(c *graph.Call) error {
	hasOperands := bounds.lowerIsOperand || bounds.upperIsOperand
	hasNumbers := bounds.lower.IsSet() || bounds.upper.IsSet()
	switch {
	case hasOperands && hasNumbers:
		return errors.New("clamp: bounds must be all operands or all attributes")
	case !hasOperands && !hasNumbers:
		return errors.New("torch.clamp: At least one of 'min' or 'max' must not be None")
	}
	dtype, err := resultType(c.In, bounds.lower, bounds.upper)
	if err == nil && dtype.IsComplex() {
		err = errors.New("clamp is not supported for complex types")
	}
	return err
}

// config returns the configuration of the iteration. In type promotion, bounds that are attributes count as plain
// numbers.
func (bounds clampBounds) config(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	if bounds.lowerIsOperand || bounds.upperIsOperand {
		cfg := rule.New().Output(outs[0]).PromoteInputsToCommonDType(true).CastCommonDTypeToOutputs(true).
			EnforceSafeCastingToOutput(true).OpMath(true)
		for _, arg := range call.In {
			if arg.Kind != graph.Null {
				cfg = cfg.Input(arg.Operand())
			}
		}
		return cfg, nil
	}
	dtype, err := resultType(call.In, bounds.lower, bounds.upper)
	if err == nil {
		err = errors.Join(fitsNumber(dtype, bounds.lower), fitsNumber(dtype, bounds.upper))
	}
	switch self := call.Type(0).DType; {
	case err != nil:
		return rule.Config{}, err
	case dtype == self: // the bounds do not promote self
		return unary(call, outs)
	case dtype.IsFloat(): // float bounds promote integers
		return unaryFloat(call, outs)
	}
	return unaryWithResult(dtype)(call, outs) // integer bounds promote bools
}

// fitsNumber returns an error if a plain number overflows an integer dtype (c10::checked_convert). A negative number
// may wrap if the dtype is unsigned.
func fitsNumber(dtype tensor.DType, number tensor.Scalar) error {
	if !number.IsSet() || !dtype.IsIntegral(false) {
		return nil
	}
	if number.DType().IsIntegral(true) && dtype.Size() == 8 { // the greatest int64 would round to 2^63 below
		return nil
	}
	bits := 8 * dtype.Size()
	if dtype.IsSigned() {
		bits--
	}
	whole, limit := math.Trunc(number.Float()), math.Ldexp(1, bits)
	isTooSmall := whole < -limit
	if !dtype.IsSigned() { // numbers above -limit wrap
		isTooSmall = whole <= -limit
	}
	if isTooSmall || whole >= limit {
		return fmt.Errorf("value cannot be converted to type %s_t without overflow", dtype)
	}
	return nil
}

// body returns the kernel for the given forms of bounds. name is the op in errors.
func (bounds clampBounds) body(name string, iteration *rule.Rule) (rule.Kernel, error) {
	switch {
	case bounds.lowerIsOperand && bounds.upperIsOperand:
		return clampKernels.kernelFor(name, iteration)
	case bounds.lowerIsOperand:
		return maximumKernels.kernelFor(name, iteration)
	case bounds.upperIsOperand:
		return minimumKernels.kernelFor(name, iteration)
	}
	// Operand 0 of the iteration is the result, and operand 1 is self. Bools with integer bounds are clamped as int64.
	if iteration.DType(1) == tensor.Bool && iteration.DType(0) == tensor.Int64 {
		return clampKernel(iteration, bounds.lower, bounds.upper), nil
	}
	return clampBetween(name, iteration, bounds.lower, bounds.upper)
}

// clampBetween returns the kernel that clamps to [lower, upper]. A bound that is not set has no effect.
func clampBetween(name string, iteration *rule.Rule, lower, upper tensor.Scalar) (rule.Kernel, error) {
	if dtype := iteration.DType(1); !slices.Contains(clampDTypes, dtype) {
		return rule.Kernel{}, kit.NotImplemented(name, dtype)
	}
	return clampKernel(iteration, lower, upper), nil
}

// clampKernel is clampBetween without the check of the dtype.
func clampKernel(iteration *rule.Rule, lower, upper tensor.Scalar) rule.Kernel {
	dtype := iteration.DType(1) // of self
	bounds := numbers{"lo": toIntegerOrFloat(dtype, lower), "hi": toIntegerOrFloat(dtype, upper)}
	switch {
	case !upper.IsSet():
		return kernelWith(lowerClampFormula, iteration, bounds)
	case !lower.IsSet():
		return kernelWith(upperClampFormula, iteration, bounds)
	}
	return kernelWith(clampFormula, iteration, bounds)
}

// The formulas of clamps, and their kernels. The arguments of formula after the text name the operands, by default x, y
// and z. Other names, such as lo, are attributes.
var (
	clampKernels      = kernelsOf(formula("minimum(maximum(x, y), z)"), integers, floats)
	clampFormula      = formula("minimum(maximum(x, lo), hi)", "x")
	lowerClampFormula = formula("maximum(x, lo)", "x")
	upperClampFormula = formula("minimum(x, hi)", "x")
	clampDTypes       = slices.Concat(integers, floats)
)

// ref is the reference function of one element. operands holds the element of self, followed by the bounds that are
// operands.
func (bounds clampBounds) ref(dtype tensor.DType, operands []tensor.Scalar) tensor.Scalar {
	self, lower, upper := operands[0], bounds.lower, bounds.upper
	if bounds.lowerIsOperand {
		lower = operands[1]
	}
	if bounds.upperIsOperand {
		upper = operands[len(operands)-1]
	}
	switch {
	case dtype == tensor.Uint64:
		const greatestUint64 = -1 // as an int64
		least, greatest := wrapBound(dtype, lower, 0), wrapBound(dtype, upper, greatestUint64)
		return tensor.IntScalar(int64(min(max(uint64(self.Int()), uint64(least)), uint64(greatest))))
	case dtype.IsIntegral(true):
		least, greatest := wrapBound(dtype, lower, math.MinInt64), wrapBound(dtype, upper, math.MaxInt64)
		return tensor.IntScalar(min(max(self.Int(), least), greatest))
	}
	element := self.Float()
	if lower.IsSet() {
		element = maxPropagatingNaN(element, lower.Float())
	}
	if upper.IsSet() {
		element = minPropagatingNaN(element, upper.Float())
	}
	return tensor.FloatScalar(element)
}

// wrapBound converts a bound to an integer dtype. A negative bound wraps if the dtype is unsigned. Bools are clamped as
// int64. If the bound is not set, the result is the argument `neutral`.
func wrapBound(dtype tensor.DType, bound tensor.Scalar, neutral int64) int64 {
	switch {
	case !bound.IsSet():
		return neutral
	case dtype == tensor.Bool:
		return bound.Int()
	}
	return bound.Tensor(dtype).At().Int()
}
