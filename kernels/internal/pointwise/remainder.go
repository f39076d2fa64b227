package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Remainder is Python's modulus.
var Remainder = elementwise(kit.NoAttrs, "remainder",
	"Returns the remainder of self divided by `other`, with the sign of `other` (Python's %). For integers a "+
		"divisor of 0 is an error in the run.",
	numberParams, &graph.Pointwise{Config: binary, Body: bodyByDType("remainder",
		mergeKernels(kernelsOf(formula("x % y"), floats),
			integerDivision(divisionFormulas{signed: "x % y", unsigned: "fmod(x, y)"})))},
	kit.IgnoringCall(kit.WithUint64Case(checkedReference(func(a, b uint64) uint64 { return a % b }), kit.ByDTypeKind(
		checkedReference(func(a, b int64) int64 { return a - floorQuotient(a, b)*b }),
		func(x []float64) float64 { return modulus64(x[0], x[1]) }, nil))),
	kit.BinaryExample, kit.IntegersExample)

// Fmod is C's fmod.
var Fmod = elementwise(kit.NoAttrs, "fmod",
	"Returns the remainder of self divided by `other`, with the sign of self (C's fmod). For integers a divisor of "+
		"0 is an error in the run.",
	numberParams, &graph.Pointwise{Config: binary, Body: bodyByDType("fmod",
		mergeKernels(kernelsOf(formula("fmod(x, y)"), floats),
			integerDivision(divisionFormulas{signed: "fmod(x, y)", unsigned: "fmod(x, y)"})))},
	kit.IgnoringCall(kit.WithUint64Case(checkedReference(func(a, b uint64) uint64 { return a % b }), kit.ByDTypeKind(
		checkedReference(func(a, b int64) int64 { return a % b }),
		func(x []float64) float64 { return math.Mod(x[0], x[1]) }, nil))),
	kit.BinaryExample, kit.IntegersExample)

// modulus64 is Python's a % b.
func modulus64(dividend, divisor float64) float64 {
	remainder := math.Mod(dividend, divisor)
	if remainder != 0 && (divisor < 0) != (remainder < 0) {
		remainder += divisor
	}
	return remainder
}
