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

// clampBounds has the bounds of a call. The bounds are either all attributes, or all operands (tensors or plain
// numbers).
type clampBounds struct {
	min, max           tensor.Scalar // bounds given as attributes; unset if absent
	hasLower, hasUpper bool          // whether the lower and the upper bound are operands
}

// check rejects calls without bounds, calls with bounds of both forms, and complex operands.
func (k clampBounds) check(c *graph.Call) error {
	operands, numbers := k.hasLower || k.hasUpper, k.min.IsSet() || k.max.IsSet()
	switch {
	case operands && numbers:
		return errors.New("clamp: bounds must be all operands or all attributes")
	case !operands && !numbers:
		return errors.New("torch.clamp: At least one of 'min' or 'max' must not be None")
	}
	t, err := resultType(c.In, k.min, k.max)
	if err == nil && t.IsComplex() {
		err = errors.New("clamp is not supported for complex types")
	}
	return err
}

// config returns the configuration of the iteration. Attributes promote self like plain numbers.
func (k clampBounds) config(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	if k.hasLower || k.hasUpper {
		cfg := rule.New().Output(outs[0]).PromoteInputsToCommonDType(true).CastCommonDTypeToOutputs(true).
			EnforceSafeCastingToOutput(true).OpMath(true)
		for _, a := range c.In {
			if a.Kind != graph.Null {
				cfg = cfg.Input(a.Operand())
			}
		}
		return cfg, nil
	}
	d, err := resultType(c.In, k.min, k.max)
	if err == nil {
		err = errors.Join(fitsNumber(d, k.min), fitsNumber(d, k.max))
	}
	switch self := c.Type(0).DType; {
	case err != nil:
		return rule.Config{}, err
	case d == self:
		return unary(c, outs)
	case d.IsFloat():
		return unaryFloat(c, outs)
	}
	return unaryTo(d)(c, outs)
}

// body returns the kernel for the given forms of bounds. name is the op in errors.
func (k clampBounds) body(name string, it *rule.Rule) (rule.Kernel, error) {
	switch {
	case k.hasLower && k.hasUpper:
		return clampBodies.kernelFor(name, it)
	case k.hasLower:
		return maximumBodies.kernelFor(name, it)
	case k.hasUpper:
		return minimumBodies.kernelFor(name, it)
	}
	if it.DType(1) == tensor.Bool && it.DType(0) == tensor.Int64 {
		return clampKernel(it, k.min, k.max), nil
	}
	return clampBetween(name, it, k.min, k.max)
}

var (
	clampBodies       = bodiesOf(formula("minimum(maximum(x, y), z)"), integers, floats)
	clampFormula      = formula("minimum(maximum(x, lo), hi)", "x")
	lowerClampFormula = formula("maximum(x, lo)", "x")
	upperClampFormula = formula("minimum(x, hi)", "x")
	clampTypes        = slices.Concat(integers, floats)
)

// clampBetween returns the kernel that clamps to [lo, hi]. A bound that is not set has no effect.
func clampBetween(name string, it *rule.Rule, lo, hi tensor.Scalar) (rule.Kernel, error) {
	if d := it.DType(1); !slices.Contains(clampTypes, d) {
		return rule.Kernel{}, kit.NotImplemented(name, d)
	}
	return clampKernel(it, lo, hi), nil
}

// clampKernel is clampBetween without the check of the dtype.
func clampKernel(it *rule.Rule, lo, hi tensor.Scalar) rule.Kernel {
	d := it.DType(1)
	bounds := numbers{"lo": toIntegerOrFloat(d, lo), "hi": toIntegerOrFloat(d, hi)}
	switch {
	case !hi.IsSet():
		return kernelWith(lowerClampFormula, it, bounds)
	case !lo.IsSet():
		return kernelWith(upperClampFormula, it, bounds)
	}
	return kernelWith(clampFormula, it, bounds)
}

// fitsNumber returns an error if a plain number overflows the integer dtype d (c10::checked_convert). A negative number
// may wrap if d is unsigned.
func fitsNumber(d tensor.DType, s tensor.Scalar) error {
	if !s.IsSet() || !d.IsIntegral(false) {
		return nil
	}
	bits := 8 * d.Size()
	if d.IsSigned() {
		bits--
	}
	x, limit := math.Trunc(s.Float()), math.Ldexp(1, bits)
	if x >= limit || d.IsSigned() && x < -limit || x <= -limit && !d.IsSigned() {
		return fmt.Errorf("value cannot be converted to type %s_t without overflow", d)
	}
	return nil
}

// wrapBound converts a bound to the integer dtype d. A negative bound wraps if d is unsigned. Bools are clamped as
// int64. If the bound is not set, the result is neutral.
func wrapBound(d tensor.DType, s tensor.Scalar, neutral int64) int64 {
	switch {
	case !s.IsSet():
		return neutral
	case d == tensor.Bool:
		return s.Int()
	}
	return s.Tensor(d).At().Int()
}

// ref is the reference function of one element. x holds the element of self, followed by the bounds that are operands.
func (k clampBounds) ref(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
	lo, hi := k.min, k.max
	if k.hasLower {
		lo = x[1]
	}
	if k.hasUpper {
		hi = x[len(x)-1]
	}
	switch {
	case d == tensor.Uint64:
		lower, upper := wrapBound(d, lo, 0), wrapBound(d, hi, -1)
		return tensor.IntScalar(int64(min(max(uint64(x[0].Int()), uint64(lower)), uint64(upper))))
	case d.IsIntegral(true):
		lower, upper := wrapBound(d, lo, math.MinInt64), wrapBound(d, hi, math.MaxInt64)
		return tensor.IntScalar(min(max(x[0].Int(), lower), upper))
	}
	v := x[0].Float()
	if lo.IsSet() {
		v = greatest(v, lo.Float())
	}
	if hi.IsSet() {
		v = least(v, hi.Float())
	}
	return tensor.FloatScalar(v)
}
