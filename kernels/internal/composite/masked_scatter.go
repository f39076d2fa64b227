package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// MaskedScatter is torch.masked_scatter. Its function applies other ops (steps.go) and returns the result.
var MaskedScatter = defineOneResult(graph.Semantics{
	Name: "masked_scatter", Doc: "Replaces the elements of self for which `mask` is true by the first elements of " +
		"`source`, in row-major order.",
	Params:   []graph.Param{kit.Self, {Name: "mask"}, {Name: "source"}},
	Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, tensor.New(tensor.Bool, 2, 3), kit.F32(6))},
}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	x, source := in[0], in[2]
	s.Reject(x.Type().DType != source.Type().DType, "masked_scatter: expected self and source to have same dtypes but "+
		"got%s and %s", kit.CppName(x.Type().DType), kit.CppName(source.Type().DType))
	s.Reject(in[1].Type().DType != tensor.Bool && in[1].Type().DType != tensor.Uint8,
		"masked_scatter: expected BoolTensor or ByteTensor for mask")
	x, mask := s.broadcast(x, s.to(in[1], tensor.Bool))
	// The number of earlier true elements of the mask is the index in source.
	flat := s.reshape(mask, sym.Of(-1))
	position := s.sub(s.Apply(reduce.Cumsum, graph.Attrs{"dim": 0}, flat), integer(1))
	position = s.where(flat, position, integer(0))
	values := s.Apply(index.Take, nil, source, position)
	return s.rowMajor(s.where(mask, s.reshape(values, s.shape(x)...), x))
})
