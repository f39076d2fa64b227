package pointwise

import (
	"errors"
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Real and Imag return views of the real and the imaginary parts of complex numbers.
var (
	Real = kit.Define[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "real", Doc: "Returns a view of the real parts of complex numbers, or self if it is real.",
		Params: unaryParams,
		Kind:   graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.AliasResult(realPart(c.Type(0)), 0), nil
		},
		Ref: partRef(func(z complex128) float64 {
			return real(z)
		}),
		Examples: []graph.Example{kit.Example(nil, kit.ComplexMatrix), kit.UnaryExample},
	}, Facts: graph.Facts{Parallel: kit.LoopsOverLeadingDims}})
	Imag = kit.Define[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "imag",
		Doc: "Returns a view of the imaginary parts of complex numbers. Real numbers are not " +
			"supported.",
		Params: unaryParams,
		Kind:   graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			if !c.Type(0).DType.IsComplex() {
				return nil, errors.New("imag is not implemented for tensors with non-complex dtypes.")
			}
			partType := realPart(c.Type(0))
			partType.Offset = partType.Offset.Add(sym.Of(1))
			return c.AliasResult(partType, 0), nil
		},
		Ref: partRef(func(z complex128) float64 {
			return imag(z)
		}),
		Examples: []graph.Example{kit.Example(nil, kit.ComplexMatrix)},
	}, Facts: graph.Facts{Parallel: kit.LoopsOverLeadingDims}})
)

// partRef returns the reference of real or imag. part returns the real or the imaginary part of a complex number.
func partRef(part func(complex128) float64) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if !in[0].DType.IsComplex() { // real of real numbers
			return in[:1], nil
		}
		out := tensor.Zeros(in[0].DType.ToReal(), in[0].Shape...)
		kit.EachIndex(in[0].Shape, func(index []int) {
			out.Set(tensor.FloatScalar(part(in[0].At(index...).Complex())), index...)
		})
		return []*tensor.Tensor{out}, nil
	}
}

// ConjPhysical negates imaginary parts.
var ConjPhysical = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "conj_physical",
		Doc: "Negates the imaginary part of each element, in new memory. A real self is " +
			"returned as a view.",
		Params: unaryParams, Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			if !c.Type(0).DType.IsComplex() {
				return c.AliasResult(c.Type(0), 0), nil
			}
			return conjugation.Infer(c)
		},
		Ref: kit.PointwiseRef(&graph.Pointwise{Config: unary},
			kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
				if dtype.IsComplex() {
					return tensor.ComplexScalar(cmplx.Conj(x[0].Complex()))
				}
				return x[0]
			})),
		Examples: []graph.Example{kit.Example(nil, kit.ComplexMatrix), kit.UnaryExample},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) { return fusion.CompileLoop(conjugation, c) },
	},
})

var conjugation = &graph.Pointwise{Config: unary, Body: bodyByDType("conj", kernelsOf(formula("conj(x)"), complexes))}

// Angle returns the argument of complex numbers: the angle in the complex plane.
var Angle = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "angle",
		Doc:    "Returns the angle of each element in the complex plane: for real numbers pi below 0, else 0.",
		Params: unaryParams,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			if !c.Type(0).DType.IsComplex() {
				return angleLoop.Infer(c)
			}
			// PyTorch resizes a new tensor for the real result, so the result is row-major.
			return kit.InferWithLayout(&angleLoop, rowMajorType)(c)
		},
		Ref: kit.PointwiseRef(&angleLoop, kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			if dtype.IsComplex() {
				z := x[0].Complex()
				return tensor.FloatScalar(angle64(imag(z), real(z)))
			}
			return tensor.FloatScalar(realAngle(x[0].Float()))
		})),
		Examples: []graph.Example{kit.UnaryExample, kit.Example(nil, kit.ComplexMatrix), kit.Example(nil, kit.IntMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &angleLoop},
})

var angleLoop = graph.Pointwise{
	Config: func(c *graph.Call, outputs []rule.Operand) (rule.Config, error) {
		if dtype := c.Type(0).DType; dtype.IsComplex() {
			return unaryWithResult(dtype.ToReal())(c, outputs)
		}
		return unaryFloat(c, outputs)
	},
	Body: bodyByDType("angle", kernelsWithResultDType(formula("angle(x)"), tensor.DType.ToReal, floats, complexes)),
}

// realAngle is the reference function of angle for real numbers. NaN propagates.
func realAngle(x float64) float64 {
	switch {
	case x < 0:
		return math.Pi
	case x != x:
		return x
	}
	return 0
}
