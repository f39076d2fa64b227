package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type quantileAttrs struct {
	Dim           *int   `attr:"dim" default:"none" doc:"dimension to reduce; none: all"`
	Keepdim       bool   `attr:"keepdim" default:"false" doc:"keep the dimension with size 1"`
	Interpolation string `attr:"interpolation" default:"linear" oneof:"linear|lower|higher|midpoint|nearest" doc:"value between two elements"`
}

// Values of the parameter ignoresNaN.
const (
	propagateNaN = false
	ignoreNaN    = true
)

// Quantiles.
var (
	Quantile = quantileOp("quantile", "Returns the elements of ranks `q` along a dimension: 0 is the least, 1 the "+
		"greatest. If `q` is a vector, the first dimension of the result is that of `q`. NaN among the elements gives "+
		"NaN.", propagateNaN)
	Nanquantile = quantileOp("nanquantile", "Returns the elements of ranks `q` along a dimension: 0 is the least, 1 "+
		"the greatest. If `q` is a vector, the first dimension of the result is that of `q`. Elements that are NaN are "+
		"ignored.", ignoreNaN)
)

// quantileOp defines quantile or nanquantile.
func quantileOp(name, doc string, ignoresNaN bool) *graph.Op {
	return defineOneResult(graph.Semantics{
		Name: name, Doc: doc, Params: []graph.Param{kit.Self, {Name: "q", AcceptsNumber: true}},
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 4), kit.F32()), // tests draw a q in range for these sizes
			kit.Example(graph.Attrs{"dim": 1, "interpolation": "midpoint"}, kit.F32(3, 5), kit.F32())},
	}, func(s applier, a *quantileAttrs, in []*graph.Arg) *graph.Arg {
		return s.quantile(name, a, in, ignoresNaN)
	})
}

// quantile applies the ops of quantile. The methods of the applier s apply common ops: s.mul(q, highest) is a product.
// s.Reject ends with an error if a condition holds.
//
// First, quantile moves the elements to reduce to the last dimension and sorts them. atRanks replaces this dimension by
// one with an element for each rank. If q is a vector, this dimension is then moved to the front, otherwise it is
// dropped. For example, the sorted elements 1, 3, 4 and 8 have the positions 0 to 3. The rank q = 0.5 has the position
// 1.5, so the linear interpolation gives 3.5.
func (s applier) quantile(name string, a *quantileAttrs, in []*graph.Arg, ignoresNaN bool) *graph.Arg {
	x, q := in[0], in[1]
	dtype := x.Type().DType
	if q.Kind == graph.NumberArg {
		s.Reject(!(q.Number.Float() >= 0 && q.Number.Float() <= 1), "quantile() q must be in the range [0, 1] but got %v",
			q.Number.Float())
		q = s.Apply(view.Full, graph.Attrs{"size": []sym.Int{}, "fill_value": q.Number, "dtype": dtype})
	}
	hasVectorOfRanks := q.Type().Rank() > 0
	s.Reject(kit.IsEmpty(x.Type()), "quantile() input tensor must be non-empty")
	s.Reject(q.Type().Rank() > 1, "quantile() q must be a scalar or 1D tensor")
	s.Reject(dtype != tensor.Float32 && dtype != tensor.Float64,
		"quantile() input tensor must be either float or double dtype")
	s.Reject(q.Type().DType != dtype, "quantile() q tensor must be same dtype as the input tensor")
	x = s.reducedToLast(x, a)
	if !hasVectorOfRanks {
		q = s.reshape(q, sym.Of(1))
	}
	sorted := s.ApplyMany(index.Sort, graph.Attrs{"dim": -1}, x)[0]
	out := s.atRanks(a.Interpolation, sorted, q, ignoresNaN)
	if hasVectorOfRanks {
		out = s.transpose(s.unsqueeze(out, 0), 0, -1)
	}
	return s.Apply(view.Squeeze, graph.Attrs{"dim": []int{-1}}, out)
}

// reducedToLast moves the elements to reduce to a new last dimension. If dimensions are kept, they have size 1.
func (s applier) reducedToLast(x *graph.Arg, a *quantileAttrs) *graph.Arg {
	rank := x.Type().Rank()
	switch {
	case a.Dim == nil && a.Keepdim: // sizes of 1 for the dimensions of x, then all elements
		return s.reshape(x, append(padOnes(nil, rank), sym.Of(-1))...)
	case a.Dim == nil || rank == 0:
		return s.reshape(x, sym.Of(-1))
	}
	dim := s.wrapDim(x, *a.Dim)
	x = s.transpose(s.unsqueeze(x, -1), dim, -1)
	if a.Keepdim {
		return x
	}
	return s.Apply(view.Squeeze, graph.Attrs{"dim": []int{dim}}, x)
}

// atRanks returns the elements of ranks q, from 0 to 1, along the last dimension of sorted values. It interpolates
// between two elements.
func (s applier) atRanks(interpolation string, sorted, q *graph.Arg, ignoresNaN bool) *graph.Arg {
	lastDim := len(s.shape(sorted)) - 1
	isNumber := s.not(s.Apply(pointwise.Isnan, nil, sorted))
	count := s.shape(sorted)[lastDim]
	constant := func(n sym.Int) *graph.Arg {
		return s.Apply(view.Full, graph.Attrs{"size": []int{}, "fill_value": n, "dtype": tensor.Int64})
	}
	var ranks *graph.Arg
	if ignoresNaN {
		ranks = s.mul(q, s.sub(s.sum(isNumber, keepDims, []int{lastDim}), integer(1)))
		ranks = s.Apply(pointwise.ClampMin, graph.Attrs{"min": 0}, ranks)
	} else {
		highest := constant(count.Sub(sym.Of(1)))
		// Sorting puts NaN last. If a row along the last dimension contains NaN, the rank is `highest`, so that the
		// result is NaN.
		hasNoNaN := s.unsqueeze(s.selectIndex(isNumber, lastDim, -1), -1)
		ranks = s.where(hasNoNaN, s.mul(q, highest), highest)
	}
	isInRange := s.and(s.Apply(pointwise.Ge, nil, q, integer(0)), s.Apply(pointwise.Le, nil, q, integer(1)))
	ranks = s.where(isInRange, s.to(ranks, q.Type().DType), constant(count)) // gather rejects the index `count`
	gather := func(positions *graph.Arg) *graph.Arg {
		return s.Apply(index.Gather, graph.Attrs{"dim": lastDim}, sorted, s.to(positions, tensor.Int64))
	}
	floor, ceil := pointwise.Floor, pointwise.Ceil
	switch interpolation {
	case "lower":
		return gather(s.Apply(floor, nil, ranks))
	case "higher":
		return gather(s.Apply(ceil, nil, ranks))
	case "nearest":
		return gather(s.Apply(pointwise.Round, nil, ranks))
	}
	below := s.Apply(floor, nil, ranks)
	weight := s.sub(ranks, below)
	if interpolation == "midpoint" {
		weight = s.Apply(view.FullLike, graph.Attrs{"fill_value": 0.5}, ranks)
	}
	return s.Apply(pointwise.Lerp, nil, gather(below), gather(s.Apply(ceil, nil, ranks)), weight)
}
