package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type nativeLayerNormAttrs struct {
	NormalizedShape []sym.Int `attr:"normalized_shape" doc:"sizes of the last dimensions of input, over which it is normalized"`
	Eps             float64   `attr:"eps" doc:"number added to the variance"`
}

// NativeLayerNorm is layer_norm that also returns the means and the reciprocal standard deviations.
var NativeLayerNorm = define(graph.Semantics{
	Name: "native_layer_norm", Doc: "Normalizes as layer_norm does, and also returns the means and the reciprocals " +
		"of the standard deviations, 1/sqrt(variance + eps).",
	Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias}, Outputs: []string{"out", "mean", "rstd"},
	Examples: []graph.Example{kit.Example(graph.Attrs{"normalized_shape": []int{4}, "eps": 1e-5}, kit.F32(2, 3, 4),
		kit.F32(4), kit.F32(4))},
}, func(s applier, a *nativeLayerNormAttrs, in []*graph.Arg) []*graph.Arg {
	x := in[0]
	out := s.Apply(reduce.LayerNorm, graph.Attrs{"normalized_shape": a.NormalizedShape, "eps": a.Eps}, in...)
	dtype := x.Type().DType
	// As in PyTorch, mean and rstd of a 16-bit operand are float32 if the weight is.
	if w := in[1]; w.Kind != graph.Null && dtype.IsReducedFloat() && w.Type().DType == tensor.Float32 {
		dtype = tensor.Float32
	}
	dims := make([]int, len(a.NormalizedShape))
	for i := range dims {
		dims[i] = i - len(dims)
	}
	varMeanAttrs := graph.Attrs{"dim": dims, "correction": 0, "keepdim": true}
	moments := s.ApplyMany(reduce.VarMean, varMeanAttrs, s.to(x, dtype.OpMath()))
	rstd := s.Apply(pointwise.Rsqrt, nil, s.addNumber(moments[0], a.Eps))
	return []*graph.Arg{out, s.to(moments[1], dtype), s.to(rstd, dtype)}
})
