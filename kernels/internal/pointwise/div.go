package pointwise

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

type divAttrs struct {
	RoundingMode *string `attr:"rounding_mode" default:"none" doc:"null: true division; floor or trunc: rounding of the quotient"`
}

// mode returns the rounding mode, or "" for a true division.
func (a *divAttrs) mode() string {
	if a.RoundingMode == nil {
		return ""
	}
	return *a.RoundingMode
}

// Div is self / other, optionally rounded.
var Div = elementwise(graph.SchemaOf[*divAttrs](), "div",
	"Divides self by `other`, with broadcasting. Without `rounding_mode`, integers are divided as float32; with it "+
		"they stay integers, and a divisor of 0 is an error in the run.",
	numberParams, &division, divRef,
	kit.BinaryExample, kit.IntegersExample, kit.Example(graph.Attrs{"rounding_mode": "floor"}, kit.IntMatrix,
		kit.IntMatrix),
	kit.Example(graph.Attrs{"rounding_mode": "trunc"}, kit.TransposedMatrix, kit.FloatRow))

// FloorDivide is self / other, rounded down.
var FloorDivide = elementwise(kit.NoAttrs, "floor_divide",
	"Divides self by `other` and rounds down. Integers stay integers, and a divisor of 0 is an error in the run.",
	numberParams, &floorDivision, func(c *graph.Call) kit.ScalarFunc {
		return floorRef(&floorDivision, c)
	}, kit.BinaryExample, kit.IntegersExample)

var division = graph.Pointwise{
	Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
		switch mode := kit.Attrs[*divAttrs](c).mode(); mode {
		case "":
			return binaryFloat(c, outs)
		case "floor", "trunc":
			return binaryWithoutWidening(c, outs)
		default:
			return rule.Config{}, fmt.Errorf("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
				mode)
		}
	},
	Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		switch kit.Attrs[*divAttrs](c).mode() {
		case "floor":
			return floorDivKernels.kernelFor("div_floor", iteration)
		case "trunc":
			return truncDivKernels.kernelFor("div_trunc", iteration)
		}
		return trueDivKernels.kernelFor("div_true", iteration)
	},
}

var floorDivision = graph.Pointwise{Config: binaryWithoutWidening, Body: bodyByDType("div_floor", floorDivKernels)}

// Kernels by dtype. The formula of unsigned integers always truncates, which rounds down because their quotients are
// not negative.
var (
	trueDivKernels  = kernelsOf(formula("x / y"), floats, complexes)
	truncDivKernels = mergeKernels(kernelsOf(formula("trunc_divide(x, y)"), floats, halfFloats),
		integerDivision(divisionFormulas{signed: "trunc_divide(x, y)", unsigned: "trunc_divide(x, y)"}))
	floorDivKernels = mergeKernels(kernelsOf(formula("x // y"), floats, halfFloats),
		integerDivision(divisionFormulas{signed: "x // y", unsigned: "trunc_divide(x, y)"}))
)

// divRef returns the reference of div. kit.ByDTypeKind makes the reference from functions for integers, floats and
// complex numbers. The function is nil for a kind that div does not support. checkedReference rejects integer divisors
// of 0.
func divRef(c *graph.Call) kit.ScalarFunc {
	switch kit.Attrs[*divAttrs](c).mode() {
	case "floor":
		return floorRef(&division, c)
	case "trunc":
		round := quotientRounding(&division, c)
		return kit.WithUint64Case(checkedReference(func(a, b uint64) uint64 { return a / b }), kit.ByDTypeKind(
			checkedReference(func(a, b int64) int64 { return a / b }),
			func(x []float64) float64 { return math.Trunc(round(x[0] / x[1])) }, nil))
	}
	return kit.ByDTypeKind(nil,
		func(x []float64) float64 { return x[0] / x[1] },
		func(x []complex128) complex128 { return x[0] / x[1] })
}

// floorRef returns the reference of a division that rounds down.
func floorRef(p *graph.Pointwise, c *graph.Call) kit.ScalarFunc {
	round := quotientRounding(p, c)
	return kit.WithUint64Case(checkedReference(func(a, b uint64) uint64 { return a / b }), kit.ByDTypeKind(
		checkedReference(floorQuotient),
		func(x []float64) float64 { return floorDiv(x[0], x[1], round) }, nil))
}

// quotientRounding returns the function that rounds to the promoted dtype of a division's operands. It returns nil for
// a call that inference rejects.
func quotientRounding(p *graph.Pointwise, c *graph.Call) func(float64) float64 {
	cfg, err := p.Config(c, make([]rule.Operand, 1))
	if err != nil {
		return nil
	}
	iteration, err := cfg.Rule()
	if err != nil {
		return nil
	}
	return roundTo(iteration.CommonDType())
}

// floorDiv is Python's floor division (c10::div_floor_floating). round rounds the result of each step to the dtype. The
// remainder is subtracted from the dividend before the division. The quotient is then an integer, apart from rounding
// errors, and agrees with the result of op `remainder`.
func floorDiv(dividend, divisor float64, round func(float64) float64) float64 {
	if divisor == 0 {
		return dividend / divisor
	}
	remainder := math.Mod(dividend, divisor)
	quotient := round(round(dividend-remainder) / divisor)
	if remainder != 0 && (divisor < 0) != (remainder < 0) {
		quotient = round(quotient - 1)
	}
	if quotient == 0 {
		return math.Copysign(0, dividend/divisor)
	}
	floor := math.Floor(quotient)
	if round(quotient-floor) > 0.5 {
		floor++
	}
	return floor
}
