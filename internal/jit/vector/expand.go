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

// expandIfSupported is [Expanded] for a loop that can be compiled for a processor. It returns an error for any other
// loop.
func expandIfSupported(loop *expr.Loop, cpu machine.Features) (*expr.Loop, error) {
	if !cpu.Has(machine.AVX2) && !cpu.Has(machine.NEON) {
		return nil, target.Unsupported("machine code needs AVX2 or NEON; the processor has %v", cpu)
	}
	if !loop.Code.Compilable() {
		return nil, target.Unsupported("the expression has a function without machine code")
	}
	if pointerCount := len(loop.Code.Out) + len(loop.Code.In) + len(loop.Folds); pointerCount > jit.MaxOperands {
		return nil, target.Unsupported("the loop has %d pointers: want at most %d", pointerCount, jit.MaxOperands)
	}
	return Expanded(loop, cpu)
}

// Expanded returns a loop with its elementary functions expanded to primitives for a processor. Interpreting the
// returned loop gives the same bits as the machine code.
func Expanded(loop *expr.Loop, cpu machine.Features) (*expr.Loop, error) {
	return expandLoop(loop, expand.Target{HasScale: cpu.Has(machine.Vector512)}) // for expr.Scale and Limit
}

// expandLoop expands elementary functions to primitives. available has the optional operations that the expansion may
// use. The expansion renumbers all values of the code, also in its outputs. The code does not contain the folds, so
// folded values are additional outputs during the expansion: output outCount+k is the value of fold k.
func expandLoop(loop *expr.Loop, available expand.Target) (*expr.Loop, error) {
	outCount := len(loop.Code.Out)
	code := &expr.Code{In: loop.Code.In, Insts: loop.Code.Insts, Out: slices.Clone(loop.Code.Out), Funcs: loop.Code.Funcs}
	for _, fold := range loop.Folds {
		code.Out = append(code.Out, expr.Output{DType: tensor.Invalid, Re: fold.Value, Im: expr.None})
	}
	expandedCode, err := expand.Functions(code, available)
	if err != nil {
		return nil, target.Unsupported("%v", err)
	}
	result := &expr.Loop{Code: expandedCode, Uniform: loop.Uniform, CombinesLanes: loop.CombinesLanes}
	for k, fold := range loop.Folds {
		result.Folds = append(result.Folds, expr.Fold{Op: fold.Op, Value: expandedCode.Out[outCount+k].Re})
	}
	expandedCode.Out = expandedCode.Out[:outCount]
	return result, nil
}
