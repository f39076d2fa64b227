package view

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type arangeAttrs struct {
	Start graph.NumberOrSize `attr:"start" default:"0" doc:"first number"`
	End   graph.NumberOrSize `attr:"end" doc:"exclusive bound"`
	Step  tensor.Scalar      `attr:"step" default:"1" doc:"difference between numbers"`
	DType tensor.DType       `attr:"dtype" default:"none" doc:"dtype of the result; default: int64, or float32 if any number is a float"`
}

// Arange is torch.arange.
var Arange = kit.Define[*arangeAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:  "arange",
		Doc:   "Creates the numbers from `start` to `end`, exclusive, at distances of `step`.",
		Infer: inferArange,
		Ref:   sequenceRef(inferArange, arangeAt),
		Examples: []graph.Example{{Attrs: graph.Attrs{"start": 1, "end": 7, "step": 2}},
			{Attrs: graph.Attrs{"end": 1.5, "step": 0.25}}},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) { return sequenceKernel(c, arangeAt(c)) },
	},
})

// inferArange infers the type of the result. The number of elements is (end - start)/step, rounded up. For int64, the
// three numbers are first truncated to integers, as in at::arange_out. For other integer dtypes, the checks and the
// elements use the truncated numbers, but the number of elements uses the given numbers.
func inferArange(call *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*arangeAttrs](call)
	if result, ok, err := attrs.symbolicType(); ok {
		return call.NewResult(result), err
	}
	startNumber, endNumber := kit.SpecializedNumber(attrs.Start), kit.SpecializedNumber(attrs.End)
	for _, number := range []tensor.Scalar{startNumber, endNumber, attrs.Step} {
		if number.DType().IsComplex() {
			return nil, errors.New("value cannot be converted to type double without overflow")
		}
	}
	dtype := attrs.dtype()
	if dtype == tensor.Bool || dtype.IsComplex() {
		return nil, kit.NotImplemented("arange", dtype)
	}
	start, end, step := startNumber.Float(), endNumber.Float(), attrs.Step.Float()
	size := math.Ceil((end - start) / step) // size for all dtypes except int64
	if dtype.IsIntegral(false) {
		for _, number := range []tensor.Scalar{startNumber, endNumber, attrs.Step} {
			if err := kit.CheckNumberFits(number, tensor.Int64); err != nil {
				return nil, err
			}
		}
		start, end, step = float64(startNumber.Int()), float64(endNumber.Int()), float64(attrs.Step.Int())
		if dtype == tensor.Int64 {
			size = integerCount(startNumber.Int(), endNumber.Int(), attrs.Step.Int())
		}
	}
	switch {
	case !(step > 0 || step < 0):
		return nil, errors.New("step must be nonzero")
	case math.IsInf(start-end, 0) || math.IsNaN(start-end):
		return nil, fmt.Errorf("unsupported range: %v -> %v", start, end)
	case step > 0 && end < start || step < 0 && end > start:
		return nil, errors.New("upper bound and larger bound inconsistent with step sign")
	case !(size >= 0 && size <= maxArangeSize):
		return nil, errors.New("invalid size, possible overflow?")
	}
	result, err := kit.FreshType(dtype, sym.Ints(int(size)))
	return call.NewResult(result), err
}

// integerCount returns the number of integers from start to end, exclusive, at distances of step. Differences of
// integers near the limits of int64 are exact in uint64.
func integerCount(start, end, step int64) float64 {
	distance, stepSize := uint64(end)-uint64(start), uint64(step)
	if step < 0 {
		distance, stepSize = -distance, -stepSize
	}
	if step == 0 || start == end || (step > 0) != (end > start) {
		return 0 // inferArange rejects a step of 0, and a step that leads away from the end
	}
	return float64((distance-1)/stepSize + 1)
}

// maxArangeSize is the maximum number of elements. It is far below the greatest int, so that the conversion of a
// float64 up to this number does not overflow.
const maxArangeSize = math.MaxInt64 / 2

// symbolicType returns the type of the result if start or end is an unknown size and all numbers are integers that are
// exact in float64. Otherwise ok is false. If ok is true, err may report a wrong order of start and end. The number of
// elements is computed with integers, which gives the same result as float64 below 2^53.
func (attrs *arangeAttrs) symbolicType() (result tensor.Type, ok bool, err error) {
	start, startIsSize := sizeOf(attrs.Start)
	end, endIsSize := sizeOf(attrs.End)
	dtype, step := attrs.dtype(), attrs.Step
	_, isStartKnown := start.Known()
	_, isEndKnown := end.Known()
	areKnown := isStartKnown && isEndKnown
	areIntegers := startIsSize && endIsSize && step.DType().IsIntegral(false)
	isRejected := dtype == tensor.Bool || dtype.IsComplex() // by inferArange
	if areKnown || !areIntegers || step.Int() == 0 || isRejected {
		return result, false, nil
	}
	if !isExact(start) || !isExact(end) || !isExact(sym.Of(int(step.Int()))) {
		return result, false, nil
	}
	distance, stepSize := end.Sub(start), step.Int()
	if stepSize < 0 {
		distance, stepSize = distance.Neg(), -stepSize
	}
	if kit.IsNegative(distance) {
		return result, true, errors.New("upper bound and larger bound inconsistent with step sign")
	}
	divisor := sym.Of(int(stepSize))
	// distance/divisor, rounded up
	result, err = kit.FreshType(dtype, []sym.Int{distance.Add(divisor).Sub(sym.Of(1)).Div(divisor)})
	return result, true, err
}

// isExact reports whether a size is unknown, or so small that sums and differences of several such numbers fit an int
// and are exact in float64.
func isExact(size sym.Int) bool {
	known, isKnown := size.Known()
	return !isKnown || known >= -tensor.MaxBytes && known <= tensor.MaxBytes
}

// sizeOf returns a number as a size, or false if its dtype is not an integer dtype.
func sizeOf(number graph.NumberOrSize) (sym.Int, bool) {
	switch dtype := number.Number.DType(); {
	case dtype == tensor.Invalid: // already a size
		return number.Size, true
	case dtype.IsIntegral(false):
		return sym.Of(int(number.Number.Int())), true
	}
	return sym.Int{}, false
}

// dtype returns the dtype of the result.
func (attrs *arangeAttrs) dtype() tensor.DType {
	if attrs.DType != tensor.Invalid {
		return attrs.DType
	}
	for _, number := range []tensor.Scalar{attrs.Start.Number, attrs.End.Number, attrs.Step} {
		if number.DType().IsFloat() {
			return tensor.Float32
		}
	}
	return tensor.Int64
}

// arangeAt returns the function that computes element i of the result. If start is an unknown size, NumberForHints
// returns its hint, the expected size.
func arangeAt(c *graph.Call) func(i int) tensor.Scalar {
	attrs := kit.Attrs[*arangeAttrs](c)
	if attrs.dtype().IsIntegral(false) {
		start, step := kit.NumberForHints(attrs.Start).Int(), attrs.Step.Int()
		return func(i int) tensor.Scalar { return tensor.IntScalar(start + int64(i)*step) }
	}
	start, step := kit.NumberForHints(attrs.Start).Float(), attrs.Step.Float()
	// The conversion of the product prevents a fused multiply-add.
	return func(i int) tensor.Scalar { return tensor.FloatScalar(start + float64(float64(i)*step)) }
}
