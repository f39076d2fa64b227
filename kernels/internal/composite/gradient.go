package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type gradientAttrs struct {
	Spacing   []tensor.Scalar `attr:"spacing" default:"1" doc:"distances between samples, one for each dimension or one for all"`
	Dim       []int           `attr:"dim" default:"none" doc:"dimensions, one result for each; none: all"`
	EdgeOrder int             `attr:"edge_order" default:"1" doc:"order of the differences at the edges: 1 or 2"`
}

// Gradient is torch.gradient. If PyTorch's spacing is a list of tensors, they are the operands `coordinates`.
var Gradient = define(graph.Semantics{
	Name: "gradient", Doc: "Estimates the gradient of samples by central differences, one result for each dimension. " +
		"The samples have the given `spacing` or, along each dimension, the positions in a vector of `coordinates`.",
	Params: []graph.Param{kit.Self, {Name: "coordinates", Variadic: true, Optional: true}}, VariadicResults: true,
	Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix), kit.Example(graph.Attrs{"dim": []int{1},
		"edge_order": 2, "spacing": 0.5}, kit.FloatMatrix), kit.Example(graph.Attrs{"spacing": []any{2, 0.5}},
		kit.FloatMatrix),
		kit.Example(graph.Attrs{"dim": []int{1}, "edge_order": 2}, kit.F32(2, 4), kit.F32(4)),
		kit.Example(nil, kit.F32(3, 4), tensor.New(tensor.Float64, 3), kit.F32(4))},
}, gradient)

// gradient returns the derivatives along each dimension. The samples 1, 4, 9 and 16 at distances of 1 have the
// derivatives 3, 4, 6 and 7 with edge order 1: (9-1)/2 and (16-4)/2 in the middle, 4-1 and 16-9 at the edges.
func gradient(s applier, a *gradientAttrs, in []*graph.Arg) []*graph.Arg {
	x := in[0]
	rank, dims := len(s.shape(x)), a.Dim
	s.Reject(a.EdgeOrder != 1 && a.EdgeOrder != 2, "torch.gradient only supports edge_order=1 and edge_order=2.")
	s.Reject(x.Type().DType == tensor.Uint8, "torch.gradient does not support uint8 input.")
	s.Reject(in[1].Kind != graph.Null && (len(a.Spacing) != 1 || a.Spacing[0].Complex() != 1),
		"gradient: spacing and coordinates exclude each other")
	if dims == nil {
		for dim := range rank {
			dims = append(dims, dim)
		}
	}
	s.Reject(len(dims) > rank || rank == 0, "gradient: expected at most one result for each of %d dimensions", rank)
	// gradientAlong returns result i, the derivative along dimension d. count is the number of coordinates or spacings.
	count := len(in) - 1
	gradientAlong := func(i, d int) *graph.Arg { return s.gradientOfCoordinates(x, d, in[i+1], a.EdgeOrder) }
	if in[1].Kind == graph.Null { // no coordinates, so the samples have the given spacing
		spacing := a.Spacing
		if len(spacing) == 1 {
			spacing = slices.Repeat(spacing, len(dims))
		}
		count = len(spacing)
		gradientAlong = func(i, d int) *graph.Arg { return s.gradientOfSteps(x, d, number(spacing[i]), a.EdgeOrder) }
	}
	s.Reject(count != len(dims) && a.Dim == nil, "torch.gradient expected spacing to be unspecified, a scalar or a list "+
		"of length %d but got a list of length %d", rank, count)
	s.Reject(count != len(dims), "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "+
		"arguments to have the same length, but got a spacing argument of length %d and a dim argument of length %d.",
		count, len(dims))
	isListed := make([]bool, rank) // by dimension
	var out []*graph.Arg
	for i, dim := range dims {
		wrappedDim := s.wrapDim(x, dim)
		s.Reject(isListed[wrappedDim], "dim %d appears multiple times in the list of dims", wrappedDim)
		isListed[wrappedDim] = true
		s.Reject(!kit.SizeAtLeast(s.shape(x)[wrappedDim], a.EdgeOrder+1),
			"torch.gradient expected each dimension size to be at least edge_order+1")
		out = append(out, gradientAlong(i, wrappedDim))
	}
	return out
}

// gradientOfSteps returns (x[i+1] - x[i-1]) / (2*step) along a dimension. The first and the last result depend on
// edgeOrder: for 1, the result is the difference of two samples divided by step, and for 2, the derivative of the
// parabola through three samples.
func (s applier) gradientOfSteps(x *graph.Arg, dim int, step *graph.Arg, edgeOrder int) *graph.Arg {
	// samples returns x[begin:end] along dim. The end nil is the size, and negative numbers count from the size.
	samples := func(begin, end any) *graph.Arg { return s.slice(x, dim, begin, end) }
	scale := func(x *graph.Arg, factor float64) *graph.Arg { return s.mul(x, float(factor)) }
	center := s.div(s.div(s.sub(samples(2, nil), samples(0, -2)), step), float(2))
	var first, last *graph.Arg
	if edgeOrder == 1 {
		first, last = s.div(s.sub(samples(1, 2), samples(0, 1)), step), s.div(s.sub(samples(-1, nil), samples(-2, -1)), step)
	} else {
		// (-1.5*x[0] + 2*x[1] - 0.5*x[2]) / step
		first = s.add(scale(samples(0, 1), -1.5), s.mul(samples(1, 2), integer(2)))
		first = s.div(s.sub(first, scale(samples(2, 3), 0.5)), step)
		// (0.5*x[-3] - 2*x[-2] + 1.5*x[-1]) / step
		last = s.sub(scale(samples(-3, -2), 0.5), s.mul(samples(-2, -1), integer(2)))
		last = s.div(s.add(last, scale(samples(-1, nil), 1.5)), step)
	}
	return s.Apply(view.Cat, graph.Attrs{"dim": dim}, first, center, last)
}

// gradientOfCoordinates returns derivatives along a dimension. The vector `coordinates` has the positions of the
// samples. The derivative at the middle of three neighbours l, m and r is the derivative of the parabola through them.
// With the gaps g between l and m and h between m and r, it is
//
//	-h/(g(g+h)) l + (h-g)/(g h) m + g/(h(g+h)) r
//
// At the ends, edge order 1 selects the slope between two samples, and edge order 2 the derivative of the parabola
// through three samples. The order of operations is PyTorch's.
func (s applier) gradientOfCoordinates(x *graph.Arg, dim int, coordinates *graph.Arg, edgeOrder int) *graph.Arg {
	s.Reject(len(s.shape(coordinates)) != 1, "torch.gradient expected each element of spacing to have one dimension, but "+
		"got an element with %d dimensions!", len(s.shape(coordinates)))
	samples := func(begin, end any) *graph.Arg { return s.slice(x, dim, begin, end) } // as in gradientOfSteps
	gaps := s.Apply(Diff, nil, coordinates)
	const gapDim = 0
	g, h := s.slice(gaps, gapDim, 0, -1), s.slice(gaps, gapDim, 1, nil) // for each middle: the gap before and after it
	weights := s.parabolaWeights(g, h)
	weightShape := sym.Ints(slices.Repeat([]int{1}, len(s.shape(x)))...)
	weightShape[dim] = sym.Of(-1)
	for i, weight := range weights {
		weights[i] = s.reshape(weight, weightShape...)
	}
	center := s.weightedSum(weights, samples(0, -2), samples(1, -1), samples(2, nil))
	var first, last *graph.Arg
	if edgeOrder == 1 {
		first = s.div(s.sub(samples(1, 2), samples(0, 1)), s.selectIndex(gaps, gapDim, 0))
		last = s.div(s.sub(samples(-1, nil), samples(-2, -1)), s.selectIndex(gaps, gapDim, -1))
	} else {
		// outer is the gap at the end, and inner the gap next to it. With sum = outer + inner, the derivative at the
		// first sample l is
		//
		//	-(2 outer + inner)/(outer sum) l + sum/(outer inner) m - outer/(inner sum) r
		//
		// At the last sample, the weights are in reverse order and have the opposite signs.
		outer, inner := s.selectIndex(gaps, gapDim, 0), s.selectIndex(gaps, gapDim, 1)
		sum := s.add(outer, inner)
		weights = []*graph.Arg{s.div(s.neg(s.add(s.mul(outer, float(2)), inner)), s.mul(outer, sum)),
			s.div(sum, s.mul(outer, inner)), s.div(s.neg(outer), s.mul(inner, sum))}
		first = s.weightedSum(weights, samples(0, 1), samples(1, 2), samples(2, 3))

		outer, inner = s.selectIndex(gaps, gapDim, -1), s.selectIndex(gaps, gapDim, -2)
		sum = s.add(outer, inner)
		weights = []*graph.Arg{s.div(outer, s.mul(inner, sum)), s.div(s.neg(sum), s.mul(outer, inner)),
			s.div(s.add(s.mul(outer, integer(2)), inner), s.mul(outer, sum))}
		last = s.weightedSum(weights, samples(-3, -2), samples(-2, -1), samples(-1, nil))
	}
	return s.Apply(view.Cat, graph.Attrs{"dim": dim}, first, center, last)
}

// parabolaWeights returns the weights of three neighbours in the derivative at the middle one, for the gaps g and h.
func (s applier) parabolaWeights(g, h *graph.Arg) []*graph.Arg {
	sum := s.add(g, h)
	return []*graph.Arg{s.div(s.neg(h), s.mul(g, sum)), s.div(s.sub(h, g), s.mul(g, h)), s.div(g, s.mul(h, sum))}
}

// weightedSum returns the sum of three neighbours times their weights.
func (s applier) weightedSum(weights []*graph.Arg, left, middle, right *graph.Arg) *graph.Arg {
	return s.add(s.add(s.mul(weights[0], left), s.mul(weights[1], middle)), s.mul(weights[2], right))
}
