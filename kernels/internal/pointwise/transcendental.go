package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// functionOp defines a unary op. The op applies a function of the expression language, and both have the same name. f
// and z are the references for floats and complex numbers. z is nil if complex numbers are not supported. Bools and
// integers are computed as float32. torchKernel is PyTorch's name of the kernel, for errors.
func functionOp(name, torchKernel, doc string, f func(float64) float64, z func(complex128) complex128) *graph.Op {
	return formulaOp(name, torchKernel, doc, name+"(x)", unaryFloat, f, z, kit.ExUnary, kit.Example(nil, kit.ExInts))
}

// formulaOp defines a unary op by its formula text and its references f for floats and z for complex numbers. z is nil
// if complex numbers are not supported. cfg is the configuration of the iteration.
func formulaOp(name, torchKernel, doc, text string, cfg config, f func(float64) float64, z func(complex128) complex128,
	examples ...graph.Example) *graph.Op {
	dtypes := [][]tensor.DType{floats}
	if z != nil {
		dtypes = append(dtypes, complexes)
	}
	return elementwise(kit.NoAttrs, name, doc, unaryParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: cfg,
			Body: namedBody(torchKernel, bodiesOf(formula(text, "x"), dtypes...))},
		kit.IgnoreCall(kit.ByDTypeKind(nil,
			func(x []float64) float64 { return f(x[0]) },
			func(x []complex128) complex128 { return z(x[0]) })),
		examples...)
}
