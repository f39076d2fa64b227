package fourier

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type dftAttrs struct {
	N        *sym.Int `attr:"dft_length" default:"none" doc:"length of the transform: the operand is cut, or extended by zeros; none: the length of the operand"`
	Dim      int      `attr:"dim" default:"1" doc:"dimension to transform, not the last"`
	Inverse  bool     `attr:"inverse" default:"false" doc:"compute the inverse transform, divided by the length"`
	Onesided bool     `attr:"onesided" default:"false" doc:"return only the first half of the frequencies; the other half is its mirror if the operand is real"`
}

// The ops of this file are Fourier transforms along one dimension: result[k] is the sum over n of x[n] * w^(n*k) with w
// = exp(-2*pi*i/N), or exp(2*pi*i/N) for an inverse transform. The ops with prefix Fft are PyTorch's and have complex
// dtypes. Dft is ONNX's DFT.
var (
	FftFft  = fftOp("fft_fft", "Transforms along a dimension from time to frequency.", tensor.Complex64, fourierSpec{})
	FftIfft = fftOp("fft_ifft", "Transforms along a dimension from frequency to time.", tensor.Complex64,
		fourierSpec{isInverse: true})
	FftRfft = fftOp("fft_rfft", "Transforms a real value along a dimension. The result has the first half of the "+
		"frequencies; the other half is its mirror.", tensor.Float32, fourierSpec{isOnesided: true, isFromReal: true})
	FftIrfft = fftOp("fft_irfft", "Transforms the first half of the frequencies along a dimension to a real value. "+
		"The other half is the mirror of the first.", tensor.Complex64, fourierSpec{isInverse: true, isToReal: true})
	FftHfft = fftOp("fft_hfft", "Computes the real frequencies of a value with Hermitian symmetry along a dimension. The "+
		"operand has the first half of the value.", tensor.Complex64, fourierSpec{isToReal: true})
	FftIhfft = fftOp("fft_ihfft", "Transforms real frequencies along a dimension to a value with Hermitian symmetry. The "+
		"result has the first half of the value.", tensor.Float32,
		fourierSpec{isInverse: true, isOnesided: true, isFromReal: true})
	Dft = kit.Define[*dftAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "dft",
			Doc: "Transforms along a dimension, as ONNX's DFT does. Complex numbers are pairs along the last dimension, " +
				"which has size 2, or size 1 for a real operand.",
			Params: []graph.Param{kit.Input},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				_, resultType, err := newDft(c)
				return c.NewResult(resultType), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				spec, resultType, err := newDft(c)
				if err != nil {
					return nil, err
				}
				return spec.reference(in[0], kit.KnownMeta(resultType)), nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 6, 1)}, Attrs: graph.Attrs{"onesided": true}},
				{In: []tensor.Meta{kit.F32(2, 67, 2)}, Attrs: graph.Attrs{"inverse": true, "dft_length": 71}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true,
			FlopKernel: graph.GoSimple,
			Flops: func(c *graph.Call) float64 {
				spec, _, err := newDft(c)
				if err != nil {
					return 0
				}
				return spec.flops(c.Out[0])
			},
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*dftAttrs](c).Dim, -1} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				spec, _, err := newDft(c)
				if err != nil {
					return nil, err
				}
				return spec.kernel(c), nil
			},
		},
	})
)

// fftOp defines a Fourier transform of PyTorch. dtype is the dtype of the operand in examples. spec has the properties
// that are the same for all calls.
func fftOp(name, doc string, dtype tensor.DType, spec fourierSpec) *graph.Op {
	specOf := func(c *graph.Call) (*fourierSpec, tensor.Type, error) {
		callSpec := spec
		resultType, err := callSpec.setFromAten(name, kit.Attrs[*fftAttrs](c), c.Type(0))
		return &callSpec, resultType, err
	}
	return kit.Define[*fftAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				_, resultType, err := specOf(c)
				return c.NewResult(resultType), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				callSpec, resultType, err := specOf(c)
				if err != nil {
					return nil, err
				}
				return callSpec.reference(in[0], kit.KnownMeta(resultType)), nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(dtype, 3, 5)}},
				{In: []tensor.Meta{tensor.New(dtype, 6, 3)}, Attrs: graph.Attrs{"dim": 0, "n": 8, "norm": "ortho"}}},
		},
		Facts: graph.Facts{Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*fftAttrs](c).Dim} }),
			WritesAnyDenseLayout: true,
			FlopKernel:           graph.GoSimple,
			Flops: func(c *graph.Call) float64 {
				callSpec, _, err := specOf(c)
				if err != nil {
					return 0
				}
				return callSpec.flops(c.Out[0])
			}},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				callSpec, _, err := specOf(c)
				if err != nil {
					return nil, err
				}
				return callSpec.kernel(c), nil
			},
		},
	})
}

// newDft checks a call of dft. It returns the transform and the type of the result. For an operand of shape [2, 6, 1],
// 2 real sequences of 6 numbers, the result has shape [2, 6, 2], or [2, 4, 2] if it is one-sided.
func newDft(c *graph.Call) (*fourierSpec, tensor.Type, error) {
	attrs, input := kit.Attrs[*dftAttrs](c), c.Type(0)
	if !input.DType.IsFloat() {
		return nil, input, kit.NotImplementedBy("dft", input.DType)
	}
	pairDim := input.Rank() - 1
	isReal := pairDim >= 1 && kit.SizeIs(input.Shape[pairDim], 1)
	isComplex := pairDim >= 1 && kit.SizeIs(input.Shape[pairDim], 2)
	if !isReal && !isComplex {
		return nil, input, fmt.Errorf("dft: self needs a dimension to transform and a last dimension of size 1 or 2: "+
			"it has shape %s", tensor.Sizes(input.Shape))
	}
	spec := &fourierSpec{isInverse: attrs.Inverse, hasComplexPairs: true, scale: 1, isFromReal: isReal,
		isToReal: attrs.Onesided && attrs.Inverse, isOnesided: attrs.Onesided && !attrs.Inverse}
	var err error
	if spec.dim, err = tensor.WrapDim(attrs.Dim, input.Rank()); err != nil {
		return nil, input, err
	}
	if spec.dim == pairDim {
		return nil, input, errors.New("dft: the last dimension holds the parts of numbers and cannot be transformed")
	}
	shape, err := spec.setLengths(input, attrs.N)
	if err != nil {
		return nil, input, err
	}
	if spec.isInverse {
		spec.scale = 1 / float64(spec.points)
	}
	shape[pairDim] = sym.Of(2)
	if spec.isToReal {
		shape[pairDim] = sym.Of(1)
	}
	resultType, err := kit.FreshType(input.DType, shape)
	return spec, resultType, err
}
