package conform

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/tensor"
)

// ExactOps lists the operations that a device computes exactly, according to the tests of [Probe].
type ExactOps struct {
	lower.Target
	// Exact32 and Exact64 mean that sums and products of float32 and float64 round to nearest even, and that subnormal
	// numbers are kept.
	Exact32, Exact64 bool
}

// probeElements is the number of elements on which an operation is tested.
const probeElements = 1 << 13

// Probe tests the operations that some devices do not round correctly, on random and special numbers. It returns the
// operations for which all results equal the results of Code.Eval. hasFloat64 means that the device has float64.
// maxParams is the maximum number of parameters of its kernels. The function run runs kernels. Probe returns its
// errors.
func Probe(hasFloat64 bool, maxParams int, run Run) (ExactOps, error) {
	exact := ExactOps{Target: lower.Target{MaxParams: maxParams}}
	trial := lower.IEEE // a target that computes everything exactly
	trial.MaxParams = maxParams
	rng := rand.New(rand.NewPCG(1, 2))
	var runErr error
	isExact := func(code *expr.Code) bool {
		iteration, err := Iterate(code, Walks[0], probeElements) // contiguous operands
		if err != nil {
			runErr = errors.Join(runErr, err)
			return false
		}
		diff, err := Compare(code, iteration, trial, rng, run)
		runErr = errors.Join(runErr, err)
		return err == nil && diff.Differing == 0
	}
	areExact := func(dtype tensor.DType, ops ...expr.Op) bool {
		return !slices.ContainsFunc(ops, func(op expr.Op) bool { return !isExact(primitive(op, dtype).Code) })
	}
	const f32, f64 = tensor.Float32, tensor.Float64
	exact.Exact32 = areExact(f32, expr.Add, expr.Sub, expr.Mul)
	exact.FMA32, exact.Div32, exact.Sqrt32 = areExact(f32, expr.FMA), areExact(f32, expr.Div),
		areExact(f32, expr.Sqrt)
	exact.Float64 = hasFloat64
	if hasFloat64 {
		exact.Exact64 = areExact(f64, expr.Add, expr.Sub, expr.Mul)
		exact.FMA64, exact.Div64, exact.Sqrt64 = areExact(f64, expr.FMA), areExact(f64, expr.Div),
			areExact(f64, expr.Sqrt)
		exact.Round64 = areExact(f64, expr.Floor, expr.Ceil, expr.Trunc, expr.Rint)
	}
	exact.KeepsConstantZeros = isExact(withZero(f32)) && (!hasFloat64 || isExact(withZero(f64)))
	return exact, runErr
}

// withZero returns an expression with operations on the constant 0. Some drivers replace such operations by others,
// with different results for NaN and another sign of 0: see lower.Target.KeepsConstantZeros.
func withZero(dtype tensor.DType) *expr.Code {
	b := expr.NewBuilder(dtype)
	x, zero := b.Load(0), b.Const(dtype, 0)
	var outs []expr.Output
	selected := b.Emit(expr.Select, b.Emit(expr.Lt, x, zero), b.Const(dtype, -1), zero)
	for _, value := range []expr.Value{b.Emit(expr.Add, x, zero), b.Emit(expr.Sub, zero, x),
		b.Emit(expr.Mul, zero, x), b.Emit(expr.Div, zero, x), selected} {
		outs = append(outs, b.Real(value))
	}
	code, err := b.Build(outs...)
	if err != nil {
		panic(err)
	}
	return code
}
