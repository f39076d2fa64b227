package composite

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type logspaceAttrs struct {
	Start tensor.Scalar `attr:"start" doc:"first exponent"`
	End   tensor.Scalar `attr:"end" doc:"last exponent"`
	Steps sym.Int       `attr:"steps" doc:"number of elements"`
	Base  float64       `attr:"base" default:"10" doc:"base of the powers"`
	DType tensor.DType  `attr:"dtype" default:"none" doc:"dtype of the result; default: float32, or complex64 if a number is complex"`
}

// Logspace is torch.logspace.
var Logspace = defineOneResult(graph.Semantics{
	Name: "logspace", Doc: "Creates `steps` powers of `base`. The exponents are equally spaced from `start` to `end`, " +
		"inclusive.",
	Examples: []graph.Example{{Attrs: graph.Attrs{"start": -1, "end": 1, "steps": 5}}},
}, func(s applier, a *logspaceAttrs, _ []*graph.Arg) *graph.Arg {
	attrs := graph.Attrs{"start": a.Start, "end": a.End, "steps": a.Steps, "dtype": a.DType}
	if kit.SizeIs(a.Steps, 1) { // PyTorch converts the power, not start
		attrs["steps"] = 0
		dtype := s.TypeOf(view.Linspace, attrs).DType
		power := tensor.ComplexScalar(cmplx.Pow(complex(a.Base, 0), a.Start.Complex()))
		if !dtype.IsComplex() {
			power = tensor.FloatScalar(math.Pow(a.Base, a.Start.Float()))
		}
		return s.Apply(view.Full, graph.Attrs{"size": []sym.Int{a.Steps}, "fill_value": power, "dtype": dtype})
	}
	dtype := s.TypeOf(view.Linspace, attrs).DType
	// The ends are rounded to the dtype of the result.
	attrs["start"], attrs["end"] = a.Start.Tensor(dtype).At(), a.End.Tensor(dtype).At()
	attrs["dtype"] = tensor.Float64
	if dtype.IsComplex() {
		attrs["dtype"] = tensor.Complex128
	}
	return s.to(s.Apply(pointwise.Pow, nil, float(a.Base), s.Apply(view.Linspace, attrs)), dtype)
})
