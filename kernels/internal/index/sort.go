package index

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type sortAttrs struct {
	Dim        int  `attr:"dim" default:"-1" doc:"dimension to sort along"`
	Descending bool `attr:"descending" default:"false" doc:"sort in descending order"`
	Stable     bool `attr:"stable" default:"false" doc:"has no effect: equal elements always keep their order"`
}

type topkAttrs struct {
	K       sym.Int `attr:"k" doc:"number of elements to take"`
	Dim     int     `attr:"dim" default:"-1" doc:"dimension along which to take elements"`
	Largest bool    `attr:"largest" default:"true" doc:"take the largest elements, else the smallest"`
	Sorted  bool    `attr:"sorted" default:"true" doc:"has no effect: the result is always sorted"`
}

// Sort, Argsort and Topk order the elements along a dimension ([ranking]). Equal elements keep the order of their
// indices. NaN is greater than all numbers.
var (
	Sort = kit.Define[*sortAttrs](orderingOp(graph.Semantics{
		Name: "sort", Doc: "Sorts the elements along a dimension and returns their indices.", Outputs: valuesAndIndices,
		Infer: inferSort, Examples: sortExamples,
	}, sortDim, sortRanking))
	Argsort = kit.Define[*sortAttrs](orderingOp(graph.Semantics{
		Name: "argsort", Doc: "Returns the indices that sort the elements along a dimension.",
		Infer: inferArgsort, Examples: sortExamples,
	}, sortDim, sortRanking))
	Topk = kit.Define[*topkAttrs](orderingOp(graph.Semantics{
		Name: "topk", Doc: "Takes the `k` largest or smallest elements along a dimension and their indices.",
		Outputs: valuesAndIndices, Infer: inferTopk,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}, Attrs: graph.Attrs{"k": 2}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"k": 2, "dim": 1, "largest": false}}},
	}, func(c *graph.Call) int { return kit.Attrs[*topkAttrs](c).Dim }, topkRanking))
)

var sortExamples = []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}},
	{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1, "descending": true}}}

// orderingOp completes the definition of an op that orders elements. If Outputs is nil, the op returns only indices.
// dimOf and rankingOf return the attribute dim and the ranking of a call.
func orderingOp(semantics graph.Semantics, dimOf func(*graph.Call) int, rankingOf func(*graph.Call) *ranking) graph.Op {
	hasValues := semantics.Outputs != nil
	semantics.Doc += " Equal elements keep the order of their indices; NaN is greater than all numbers."
	semantics.Params = []graph.Param{kit.Self}
	semantics.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := rankingOf(c).reference(in[0])
		if err != nil || hasValues {
			return out, err
		}
		return out[1:], nil
	}
	return graph.Op{
		Semantics: semantics,
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: rankingFlops,
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{dimOf(c)} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return rankingOf(c).compile(c) },
		},
	}
}

// inferSort infers the results of sort.
func inferSort(c *graph.Call) ([]graph.Result, error) {
	selfType := c.Type(0)
	if _, err := tensor.WrapDim(sortDim(c), selfType.Rank()); err != nil {
		return nil, err
	}
	if selfType.DType.IsComplex() {
		return nil, errors.New("Sort currently does not support complex dtypes on CPU")
	}
	return kit.WithIndices(c, rule.PreserveType(selfType)), nil
}

// inferArgsort infers the result of argsort, which is the second result of sort.
func inferArgsort(c *graph.Call) ([]graph.Result, error) {
	results, err := inferSort(c)
	if err != nil {
		return nil, err
	}
	return results[1:], nil
}

// sortDim returns the attribute dim of a call of sort or argsort.
func sortDim(c *graph.Call) int { return kit.Attrs[*sortAttrs](c).Dim }

// sortRanking returns the ranking of a call of sort or argsort.
func sortRanking(c *graph.Call) *ranking {
	attrs, selfMeta := kit.Attrs[*sortAttrs](c), c.Meta(0)
	dim := dimFromFront(attrs.Dim, selfMeta.Rank())
	return &ranking{dim: dim, k: sizeAt(selfMeta, dim), isDescending: attrs.Descending}
}

// topkRanking returns the ranking of a call of topk.
func topkRanking(c *graph.Call) *ranking {
	attrs, selfMeta := kit.Attrs[*topkAttrs](c), c.Meta(0)
	k := kit.KnownSize(attrs.K)
	if selfMeta.Rank() == 0 {
		k = 1 // PyTorch returns the only value even if k is 0; inferTopk rejects a greater k
	}
	return &ranking{dim: dimFromFront(attrs.Dim, selfMeta.Rank()), k: k, isDescending: attrs.Largest}
}

// dimFromFront returns dim counted from the front. Inference has checked its range. The result is 0 for rank 0.
func dimFromFront(dim, rank int) int { return max(0, (dim+rank)%max(1, rank)) }

// inferTopk infers the results of topk.
func inferTopk(call *graph.Call) ([]graph.Result, error) {
	attrs, self := kit.Attrs[*topkAttrs](call), call.Type(0)
	dim, err := tensor.WrapDim(attrs.Dim, self.Rank())
	switch {
	case err != nil:
		return nil, err
	case kit.IsNegative(attrs.K) || attrs.K.Gt(kit.SizeAtDim(self, dim)).Holds():
		return nil, errors.New("selected index k out of range")
	case self.DType == tensor.Bool || self.DType.IsComplex():
		return nil, kit.NotImplemented("topk", self.DType)
	}
	shape := self.Shape
	if len(shape) > 0 {
		shape = kit.ReplaceSizes(shape, dim, attrs.K)
	}
	return kit.WithIndices(call, tensor.NewType(self.DType, shape...)), nil
}
