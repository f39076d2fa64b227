package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type putAttrs struct {
	Accumulate bool `attr:"accumulate" default:"false" doc:"add source to the elements; else replace them"`
}

type indexReduceAttrs struct {
	Dim         int    `attr:"dim" doc:"dimension to index"`
	Reduce      string `attr:"reduce" oneof:"prod|mean|amax|amin" doc:"reduction of slices with the same index"`
	IncludeSelf bool   `attr:"include_self" default:"true" doc:"include self's slice in the reduction"`
}

// Ops that write at positions in a copy of self. The function of an op applies other ops (steps.go) and returns the
// result.
var (
	Put = defineOneResult(graph.Semantics{
		Name: "put", Doc: "Copies self, then replaces its elements at the row-major positions `index` by `source`, or " +
			"adds `source` to them. If a position occurs several times, the last of its elements remains, or all are added.",
		Params: []graph.Param{kit.Self, {Name: "index", IndexBound: func(c *graph.Call) int { return c.Meta(0).Numel() }},
			{Name: "source"}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.I64(2), kit.F32(2)),
			kit.Example(graph.Attrs{"accumulate": true}, kit.FloatMatrix, kit.I64(2, 1), kit.F32(1, 2))},
	}, put)
	IndexReduce = defineOneResult(graph.Semantics{
		Name: "index_reduce", Doc: "Copies self and reduces the slices of `source` into its slices along `dim`, at the " +
			"positions in a one-dimensional `index`.",
		Params: []graph.Param{kit.Self, {Name: "index", IndexBound: func(c *graph.Call) int {
			return kit.SizeOrMissing(c.Meta(0), kit.Attrs[*indexReduceAttrs](c).Dim)
		}}, {Name: "source"}},
		Examples: []graph.Example{kit.Example(graph.Attrs{"dim": 1, "reduce": "mean"}, kit.F32(3, 4, 2), kit.I64(2),
			kit.F32(3, 2, 2))},
	}, indexReduce)
)

// put applies index_put to the flattened operands.
func put(s applier, a *putAttrs, in []*graph.Arg) *graph.Arg {
	self, positions, source := in[0].Type(), in[1].Type(), in[2].Type()
	s.Reject(positions.DType != tensor.Int64, "put_(): Expected a long tensor for index, but got %s",
		positions.DType.TorchName())
	s.Reject(self.DType != source.DType, "put_(): self and source expected to have the same dtype, but got self.dtype = "+
		"%s and source.dtype = %s", self.DType.TorchName(), source.DType.TorchName())
	s.Reject(positions.Numel().Ne(source.Numel()).Holds(), "put_(): Expected source and index to have the same number of "+
		"elements, but got source.numel() = %v, index.numel() = %v", source.Numel(), positions.Numel())
	s.Reject(kit.IsEmpty(self) && !kit.IsEmpty(positions), "put_(): Expected self to be non-empty when index is non-empty")
	flat := func(x *graph.Arg) *graph.Arg { return s.reshape(x, x.Type().Numel()) }
	out := s.Apply(index.IndexPut, graph.Attrs{"accumulate": a.Accumulate}, flat(in[0]), flat(in[2]), flat(in[1]))
	return s.WithLayout(s.reshape(out, self.Shape...), rule.PreserveType(self))
}

// indexReduce applies scatter_reduce, with the index expanded to the shape of source.
func indexReduce(s applier, a *indexReduceAttrs, in []*graph.Arg) *graph.Arg {
	self, positions, source := in[0].Type(), in[1].Type(), in[2].Type()
	dim := s.wrapDim(in[0], a.Dim)
	s.checkIndexReduce(self, positions, source, dim, a.IncludeSelf)
	x, src := s.reshape(in[0], vectorShape(self)...), s.reshape(in[2], vectorShape(source)...)
	shape := slices.Clone(s.shape(x))
	shape[dim] = positions.Numel()
	s.Reject(!tensor.SameSizes(shape, s.shape(src)), "index_reduce(): expected source of shape %s, got %s",
		tensor.Sizes(shape), tensor.Sizes(s.shape(src)))
	indices := s.to(s.reshape(in[1], shapeAlong(positions.Numel(), dim, len(shape))...), tensor.Int64)
	indices = s.Apply(view.Expand, graph.Attrs{"size": shape}, indices)
	attrs := graph.Attrs{"dim": dim, "reduce": a.Reduce, "include_self": a.IncludeSelf}
	return s.reshape(s.Apply(index.ScatterReduce, attrs, x, indices, src), self.Shape...)
}

// checkIndexReduce rejects dtypes, ranks and sizes that index_reduce does not support.
func (s applier) checkIndexReduce(self, positions, source tensor.Type, dim int, includeSelf bool) {
	s.Reject(positions.Rank() > 1, "index_reduce(): Index is supposed to be a vector")
	s.Reject(positions.DType != tensor.Int64 && positions.DType != tensor.Int32, "index_reduce(): Expected dtype "+
		"int32/int64 for index")
	// PyTorch rejects bool and complex numbers only if the rank is at most 1, or if include_self is not set.
	isNumeric := self.DType != tensor.Bool && !self.DType.IsComplex()
	if !isNumeric && (self.Rank() <= 1 || !includeSelf) {
		s.Check(kit.NotImplemented("index_func_", self.DType))
	}
	s.Reject(kit.SizeIs(kit.SizeAtDim(self, dim), 0) && !kit.IsEmpty(positions), "index_reduce(): index out of range: "+
		"dimension %d has no elements", dim)
	s.Reject(self.DType != source.DType, "index_reduce(): self (%s) and source (%s) must have the same scalar type",
		self.DType.TorchName(), source.DType.TorchName())
	s.Reject(max(1, source.Rank()) != max(1, self.Rank()), "index_reduce(): When source and destination are not scalars, "+
		"their dimensionality must match.")
}

// vectorShape returns the shape of a value, or of a vector of one element if it has no dimensions.
func vectorShape(t tensor.Type) []sym.Int {
	if t.Rank() == 0 {
		return sym.Ints(1)
	}
	return t.Shape
}

// shapeAlong returns the shape, of the given rank, of count elements along a dimension.
func shapeAlong(count sym.Int, dim, rank int) []sym.Int {
	shape := slices.Repeat(sym.Ints(1), rank)
	shape[dim] = count
	return shape
}
