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
	Sort    = sortOp("sort", "Sorts the elements along a dimension and returns their indices.", 2)
	Argsort = sortOp("argsort", "Returns the indices that sort the elements along a dimension.", 1)
	Topk    = kit.Define[*topkAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "topk",
			Doc: "Takes the `k` largest or smallest elements along a dimension and their indices. Equal elements keep the " +
				"order of their indices; NaN is greater than all numbers.",
			Params: []graph.Param{kit.Self}, Outputs: valuesAndIndices,
			Infer: inferTopk,
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return topkRanking(c).reference(in[0])
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}, Attrs: graph.Attrs{"k": 2}},
				{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"k": 2, "dim": 1, "largest": false}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: orderingFlops,
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*topkAttrs](c).Dim} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return topkRanking(c).compile(c) },
		},
	})
)

// sortOp defines sort, which has two outputs, values and indices, or argsort, which has only the second of them.
func sortOp(name, doc string, outputs int) *graph.Op {
	firstOutput := 2 - outputs
	op := graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc + " Equal elements keep the order of their indices; NaN is greater than all numbers.",
			Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				selfType := c.Type(0)
				if _, err := tensor.WrapDim(kit.Attrs[*sortAttrs](c).Dim, selfType.Rank()); err != nil {
					return nil, err
				}
				if selfType.DType.IsComplex() {
					return nil, errors.New("Sort currently does not support complex dtypes on CPU")
				}
				return kit.WithIndices(c, rule.PreserveType(selfType))[firstOutput:], nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				out, err := sortRanking(c).reference(in[0])
				return out[firstOutput:], err
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}},
				{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1, "descending": true}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: orderingFlops,
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*sortAttrs](c).Dim} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				return sortRanking(c).compile(c)
			},
		},
	}
	if outputs == 2 {
		op.Outputs = valuesAndIndices
	}
	return kit.Define[*sortAttrs](op)
}

// sortRanking returns the ranking of a call of sort or argsort.
func sortRanking(c *graph.Call) *ranking {
	attrs, selfMeta := kit.Attrs[*sortAttrs](c), c.Meta(0)
	dim := checkedDim(attrs.Dim, selfMeta.Rank())
	return &ranking{dim: dim, k: sizeAt(selfMeta, dim), isDescending: attrs.Descending}
}

// topkRanking returns the ranking of a call of topk.
func topkRanking(c *graph.Call) *ranking {
	attrs, selfMeta := kit.Attrs[*topkAttrs](c), c.Meta(0)
	k := kit.KnownSize(attrs.K)
	if selfMeta.Rank() == 0 {
		k = 1 // PyTorch copies a 0-dim value for any k
	}
	return &ranking{dim: checkedDim(attrs.Dim, selfMeta.Rank()), k: k, isDescending: attrs.Largest}
}

// checkedDim returns dim counted from the front. Inference has checked that it is in range. It is 0 for rank 0.
func checkedDim(dim, rank int) int { return max(0, (dim+rank)%max(1, rank)) }

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
