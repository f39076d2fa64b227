package view

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type linspaceAttrs struct {
	Start tensor.Scalar `attr:"start" doc:"first number"`
	End   tensor.Scalar `attr:"end" doc:"last number"`
	Steps sym.Int       `attr:"steps" doc:"number of elements"`
	DType tensor.DType  `attr:"dtype" default:"none" doc:"dtype of the result; default: float32, or complex64 if a number is complex"`
}

// Linspace is torch.linspace.
var Linspace = kit.Define[*linspaceAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "linspace",
		Doc:      "Creates `steps` equally spaced numbers from `start` to `end`, inclusive.",
		Infer:    inferLinspace,
		Ref:      sequenceRef(inferLinspace, linspaceAt),
		Examples: []graph.Example{{Attrs: graph.Attrs{"start": 0, "end": 1, "steps": 5}}},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) { return sequenceKernel(c, linspaceAt(c)) },
	},
})

// dtype returns the dtype of the result.
func (attrs *linspaceAttrs) dtype() tensor.DType {
	switch {
	case attrs.DType != tensor.Invalid:
		return attrs.DType
	case attrs.Start.DType().IsComplex() || attrs.End.DType().IsComplex():
		return tensor.Complex64
	}
	return tensor.Float32
}

// inferLinspace infers the type of the result, or returns PyTorch's error.
func inferLinspace(call *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*linspaceAttrs](call)
	dtype := attrs.dtype()
	switch {
	case (attrs.Start.DType().IsComplex() || attrs.End.DType().IsComplex()) && !dtype.IsComplex():
		return nil, fmt.Errorf("torch.linspace(): inferred dtype c10::complex<float> can't be safely cast to passed dtype %s",
			dtype.TorchName())
	case kit.IsNegative(attrs.Steps):
		return nil, errors.New("number of steps must be non-negative")
	case dtype == tensor.Bool && attrs.Steps.Gt(sym.Of(1)).Holds():
		return nil, kit.NotImplemented("linspace", dtype)
	}
	for i, number := range []tensor.Scalar{attrs.Start, attrs.End} {
		if attrs.Steps.Le(sym.Of(i)).Holds() {
			break // the number is not used, and PyTorch does not check it
		}
		if err := kit.CheckNumberFits(number, dtype); err != nil {
			return nil, err
		}
	}
	result, err := kit.FreshType(dtype, []sym.Int{attrs.Steps})
	return call.NewResult(result), err
}

// linspaceAt returns the function that computes element i of the result in the precision of the result. The first half
// of the elements is computed from start and the second half from end, so that the last number is exactly end
// (linspace_kernel). As in PyTorch's builds, start + i*step is a fused multiply-add, but not in complex and 16-bit
// dtypes. In integer dtypes, the fused operation can change the truncated result.
//
// For integers the function follows PyTorch's scalar code. For eight or more elements, PyTorch uses vectors. It
// truncates the first element of a vector and computes all other elements from the truncated number, so its results
// depend on the vector width. For example, 40 steps from 1 to 9.5 in int64 differ between AVX2 and AVX-512.
func linspaceAt(c *graph.Call) func(i int) tensor.Scalar {
	attrs := kit.Attrs[*linspaceAttrs](c)
	return kit.LinspaceElement(attrs.Start, attrs.End, kit.KnownSize(attrs.Steps), attrs.dtype())
}
