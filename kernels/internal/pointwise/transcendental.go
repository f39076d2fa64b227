package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// functionOp defines a unary op. The op applies a function of the expression language, and both have the same name.
// ofReal and ofComplex are the references for floats and complex numbers. ofComplex is nil if complex numbers are not
// supported. Bools and integers are computed as float32. torchKernel is PyTorch's name of the kernel, for errors.
func functionOp(name, torchKernel, doc string, ofReal func(float64) float64,
	ofComplex func(complex128) complex128) *graph.Op {
	return formulaOp(name, torchKernel, doc, name+"(x)", unaryFloat, ofReal, ofComplex,
		kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
}

// formulaOp defines a unary op by the text of its formula, by the configuration of its iteration, and by its references
// for floats and complex numbers. ofComplex is nil if complex numbers are not supported.
func formulaOp(name, torchKernel, doc, formulaText string, iteration config, ofReal func(float64) float64,
	ofComplex func(complex128) complex128, examples ...graph.Example) *graph.Op {
	dtypes := [][]tensor.DType{floats}
	if ofComplex != nil {
		dtypes = append(dtypes, complexes)
	}
	return elementwise(kit.NoAttrs, name, doc, unaryParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: iteration,
			Body: namedBody(torchKernel, kernelsOf(formula(formulaText, "x"), dtypes...))},
		kit.IgnoringCall(kit.ByDTypeKind(nil,
			func(x []float64) float64 { return ofReal(x[0]) },
			func(x []complex128) complex128 { return ofComplex(x[0]) })),
		examples...)
}
