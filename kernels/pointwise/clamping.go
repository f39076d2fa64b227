package pointwise

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// clamping says where the bounds of a call come from: attributes, or operands, which are
// tensors or plain numbers.
type clamping struct {
	min, max     tensor.Scalar
	below, above bool
}

func (k clamping) check(c *graph.Call) error {
	operands, numbers := k.below || k.above, k.min.IsSet() || k.max.IsSet()
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

func (k clamping) config(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	if k.below || k.above {
		cfg := iter.New().Output(outs[0]).PromoteInputsToCommonDType(true).CastCommonDTypeToOutputs(true).
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
		return iter.Config{}, err
	case d == self:
		return unary(c, outs)
	case d.IsFloat():
		return unaryFloat(c, outs)
	}
	return unaryTo(d)(c, outs)
}

func (k clamping) body(name string, it *iter.Rule) (iter.Kernel, error) {
	switch {
	case k.below && k.above:
		return clampBodies.pick(name, it)
	case k.below:
		return maxBodies.pick(name, it)
	case k.above:
		return minBodies.pick(name, it)
	}
	if it.DType(1) == tensor.Bool && it.DType(0) == tensor.Int64 {
		lo, hi := boundsAs[int64](k.min, k.max)
		return iter.Map1(func(a uint8) int64 { return min(max(int64(a), lo), hi) }).Bits(), nil
	}
	return clampBetween(name, it, k.min, k.max)
}

// clampBetween returns the loop that bounds by plain numbers; one that is not set bounds
// nothing.
func clampBetween(name string, it *iter.Rule, lo, hi tensor.Scalar) (iter.Kernel, error) {
	d := it.DType(1)
	switch d {
	case tensor.Uint8:
		return clampTo[uint8](lo, hi), nil
	case tensor.Int8:
		return clampTo[int8](lo, hi), nil
	case tensor.Int16:
		return clampTo[int16](lo, hi), nil
	case tensor.Int32:
		return clampTo[int32](lo, hi), nil
	case tensor.Int64:
		return clampTo[int64](lo, hi), nil
	case tensor.Uint16:
		return clampTo[uint16](lo, hi), nil
	case tensor.Uint32:
		return clampTo[uint32](lo, hi), nil
	case tensor.Uint64:
		return clampTo[uint64](lo, hi), nil
	case tensor.Float32:
		return clampTo[float32](lo, hi), nil
	case tensor.Float64:
		return clampTo[float64](lo, hi), nil
	}
	return iter.Kernel{}, kit.NotImplemented(name, d)
}

func clampTo[T ordered](lo, hi tensor.Scalar) iter.Kernel {
	return iter.Slice1(boundSlice(boundsAs[T](lo, hi)))
}

// boundsAs converts bounds to elements. One that is not set is the least or the greatest
// value of the type.
func boundsAs[T ordered](lo, hi tensor.Scalar) (least, most T) {
	least, most = extremes[T]()
	if lo.IsSet() {
		least = as[T](lo)
	}
	if hi.IsSet() {
		most = as[T](hi)
	}
	return least, most
}

// extremes returns the least and the greatest value of a type, infinities included.
func extremes[T ordered]() (least, most T) {
	var p any = &least
	q := any(&most)
	switch p := p.(type) {
	case *float32:
		*p, *q.(*float32) = float32(math.Inf(-1)), float32(math.Inf(1))
	case *float64:
		*p, *q.(*float64) = math.Inf(-1), math.Inf(1)
	case *int8:
		*p, *q.(*int8) = math.MinInt8, math.MaxInt8
	case *int16:
		*p, *q.(*int16) = math.MinInt16, math.MaxInt16
	case *int32:
		*p, *q.(*int32) = math.MinInt32, math.MaxInt32
	case *int64:
		*p, *q.(*int64) = math.MinInt64, math.MaxInt64
	default:
		most-- // an unsigned 0 wraps
	}
	return least, most
}

// fitsNumber refuses a plain number that the integer dtype d cannot hold; a negative one wraps
// in an unsigned dtype (c10::checked_convert).
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

func boundSlice[T ordered](lo, hi T) func(dst, a []T) {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i := range dst {
			dst[i] = min(max(a[i], lo), hi)
		}
	}
}

var clampBodies = func() (t bodies) {
	t[tensor.Uint8], t[tensor.Int8] = iter.Slice3(clampSlice[uint8]), iter.Slice3(clampSlice[int8])
	t[tensor.Int16], t[tensor.Int32], t[tensor.Int64] = iter.Slice3(clampSlice[int16]), iter.Slice3(clampSlice[int32]),
		iter.Slice3(clampSlice[int64])
	t[tensor.Uint16], t[tensor.Uint32], t[tensor.Uint64] = iter.Slice3(clampSlice[uint16]),
		iter.Slice3(clampSlice[uint32]), iter.Slice3(clampSlice[uint64])
	t[tensor.Float32], t[tensor.Float64] = iter.Slice3(clampSlice[float32]), iter.Slice3(clampSlice[float64])
	return t
}()

func clampSlice[T ordered](dst, a, lo, hi []T) {
	a, lo, hi = a[:len(dst)], lo[:len(dst)], hi[:len(dst)]
	for i := range dst {
		dst[i] = min(max(a[i], lo[i]), hi[i])
	}
}

// wrapped is a bound as the integer dtype d holds it, in which a negative one may wrap.
func wrapped(d tensor.DType, s tensor.Scalar, bound int64) int64 {
	if !s.IsSet() {
		return bound
	}
	return s.Tensor(d).At().Int()
}

// ref bounds one element; x holds self and then the bounds that are operands.
func (k clamping) ref(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
	lo, hi := k.min, k.max
	if k.below {
		lo = x[1]
	}
	if k.above {
		hi = x[len(x)-1]
	}
	if d.IsIntegral(true) {
		least, most := boundsAs[int64](lo, hi)
		if d != tensor.Bool {
			least, most = wrapped(d, lo, least), wrapped(d, hi, most)
		}
		return tensor.IntScalar(min(max(x[0].Int(), least), most))
	}
	v := x[0].Float()
	if lo.IsSet() {
		v = math.Max(v, lo.Float())
	}
	if hi.IsSet() {
		v = math.Min(v, hi.Float())
	}
	return tensor.FloatScalar(v)
}
