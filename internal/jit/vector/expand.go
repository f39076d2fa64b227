package vector

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// expanded checks that a loop can be compiled, and expands its functions.
func expanded(l *expr.Loop, cpu machine.Features) (*expr.Loop, error) {
	if !cpu.Has(machine.AVX2) && !cpu.Has(machine.NEON) {
		return nil, target.Unsupported("for %v", cpu)
	}
	if !l.Code.Compilable() {
		return nil, target.Unsupported("a function without machine code")
	}
	if n := len(l.Code.Out) + len(l.Code.In) + len(l.Folds); n > jit.MaxOperands {
		return nil, target.Unsupported("%d pointers", n)
	}
	return expandLoop(l, TargetOf(cpu))
}

// TargetOf returns the optional instructions of a processor that expansions may use.
func TargetOf(cpu machine.Features) expand.Target {
	return expand.Target{HasScale: cpu.Has(machine.Vector512)}
}

// expandLoop replaces elementary functions by primitives. Expansion renumbers values, except that it tracks the
// outputs. Folded values are therefore added to the outputs during the expansion.
func expandLoop(l *expr.Loop, t expand.Target) (*expr.Loop, error) {
	outCount := len(l.Code.Out)
	code := *l.Code
	code.Out = slices.Clone(code.Out)
	for _, f := range l.Folds {
		code.Out = append(code.Out, expr.Output{DType: tensor.Invalid, Re: f.V, Im: expr.None})
	}
	expandedCode, err := expand.Functions(&code, t)
	if err != nil {
		return nil, target.Unsupported("%v", err)
	}
	result := &expr.Loop{Code: expandedCode, Scalar: l.Scalar, Totals: l.Totals}
	for k, f := range l.Folds {
		result.Folds = append(result.Folds, expr.Fold{Op: f.Op, V: expandedCode.Out[outCount+k].Re})
	}
	expandedCode.Out = expandedCode.Out[:outCount]
	return result, nil
}
