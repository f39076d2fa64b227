package conform

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/tensor"
)

// Promise lists the operations that a device computes exactly, according to [Probe].
type Promise struct {
	lower.Target
	// Exact32 and Exact64 mean that sums and products of float32 and float64 round to nearest even, and that subnormal
	// numbers are kept.
	Exact32, Exact64 bool
}

// probed is the number of elements on which an operation is tested.
const probeElements = 1 << 13

// Probe tests the operations that devices need not round correctly, on random and special numbers. The Promise has the
// operations for which all results equal those of Code.Eval. float64s says whether the device has float64, maxParams is
// the maximum number of parameters of its kernels, and run runs kernels. Probe returns the errors of run.
func Probe(float64s bool, maxParams int, run Run) (Promise, error) {
	p := Promise{Target: lower.Target{MaxParams: maxParams}}
	trial := lower.IEEE // assumes that the device computes everything exactly
	trial.MaxParams = maxParams
	rng := rand.New(rand.NewPCG(1, 2))
	var failed error
	check := func(code *expr.Code) bool {
		it, err := Iterate(code, Walks[0], probeElements)
		if err != nil {
			failed = errors.Join(failed, err)
			return false
		}
		diff, err := Compare(code, it, trial, rng, run)
		failed = errors.Join(failed, err)
		return err == nil && diff.Differ == 0
	}
	exact := func(d tensor.DType, ops ...expr.Op) bool {
		return !slices.ContainsFunc(ops, func(o expr.Op) bool { return !check(primitive(o, d).Code) })
	}
	const f32, f64 = tensor.Float32, tensor.Float64
	p.Exact32 = exact(f32, expr.Add, expr.Sub, expr.Mul)
	p.FMA32, p.Div32, p.Sqrt32 = exact(f32, expr.FMA), exact(f32, expr.Div), exact(f32, expr.Sqrt)
	if p.Float64 = float64s; float64s {
		p.Exact64 = exact(f64, expr.Add, expr.Sub, expr.Mul)
		p.FMA64, p.Div64, p.Sqrt64 = exact(f64, expr.FMA), exact(f64, expr.Div), exact(f64, expr.Sqrt)
	}
	p.KeepsConstantZeros = check(withZero(f32)) && (!float64s || check(withZero(f64)))
	return p, failed
}

// withZero returns an expression with operations on the constant 0. Some drivers replace them by operations that differ
// for NaN and in the sign of 0: see lower.Target.ConstantZeros.
func withZero(d tensor.DType) *expr.Code {
	b := expr.NewBuilder(d)
	x, zero := b.Load(0), b.Const(d, 0)
	var outs []expr.Output
	selected := b.Do(expr.Select, b.Do(expr.Lt, x, zero), b.Const(d, -1), zero)
	for _, v := range []expr.Value{b.Do(expr.Add, x, zero), b.Do(expr.Mul, zero, x), b.Do(expr.Div, zero, x), selected} {
		outs = append(outs, b.Real(v))
	}
	code, err := b.Build(outs...)
	if err != nil {
		panic(err)
	}
	return code
}
