package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type aminmaxAttrs struct {
	Dim     *int `attr:"dim" default:"none" doc:"dimension to reduce; none: all"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep the dimension with size 1"`
}

type dimsAttrs struct {
	Dim []int `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
}

type nansumAttrs struct {
	Dim     []int        `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool         `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType `attr:"dtype" default:"none" doc:"dtype of the result"`
}

type covAttrs struct {
	Correction int `attr:"correction" default:"1" doc:"number subtracted from the number of observations to give the divisor"`
}

var nansumExamples = append(kit.OneExample(kit.TransposedMatrix, nil), kit.OneExample(kit.FloatMatrix,
	graph.Attrs{"dim": []int{1}})...)

// Statistics. The function of an op applies other ops (steps.go) and returns the results.
var (
	Aminmax = define(graph.Semantics{
		Name: "aminmax", Doc: "Returns the least and the greatest elements.", Params: selfOnly,
		Outputs: []string{"min", "max"},
		Examples: append(kit.OneExample(kit.TransposedMatrix, nil), kit.OneExample(kit.FloatMatrix,
			graph.Attrs{"dim": 1})...),
	}, aminmax)
	CountNonzero = defineOneResult(graph.Semantics{
		Name: "count_nonzero", Doc: "Counts the elements that are not 0.", Params: selfOnly, Examples: nansumExamples,
	}, func(s applier, a *dimsAttrs, in []*graph.Arg) *graph.Arg {
		return s.sum(s.Apply(pointwise.Ne, nil, in[0], integer(0)), dropDims, a.Dim)
	})
	Nansum = defineOneResult(graph.Semantics{
		Name: "nansum", Doc: "Adds the elements that are not NaN.", Params: selfOnly, Examples: nansumExamples,
	}, func(s applier, a *nansumAttrs, in []*graph.Arg) *graph.Arg { return s.nansum(in[0], a) })
	Nanmean = defineOneResult(graph.Semantics{
		Name: "nanmean", Doc: "Returns the mean of the elements that are not NaN.", Params: selfOnly,
		Examples: nansumExamples,
	}, func(s applier, a *nansumAttrs, in []*graph.Arg) *graph.Arg {
		dtype := in[0].Type().DType
		s.Reject(!dtype.IsFloat(), "nanmean(): expected input to have floating point dtype but got %s", dtype.TorchName())
		count := s.sum(s.not(s.Apply(pointwise.Isnan, nil, in[0])), a.Keepdim, a.Dim)
		return s.div(s.nansum(in[0], a), count)
	})
	Cov = defineOneResult(graph.Semantics{
		Name: "cov", Doc: "Returns the covariances of variables, the rows of self; columns are observations with the " +
			"weights `fweights`, which are integers, and `aweights`.",
		Params: []graph.Param{kit.Self, {Name: "fweights", Optional: true}, {Name: "aweights", Optional: true}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix), kit.Example(nil, kit.FloatMatrix, kit.I64(3),
			kit.F32(3))},
	}, func(s applier, a *covAttrs, in []*graph.Arg) *graph.Arg { return s.cov(a.Correction, in) })
	Corrcoef = defineOneResult(graph.Semantics{
		Name: "corrcoef", Doc: "Returns the correlation coefficients of variables, the rows of self.", Params: selfOnly,
		Examples: kit.OneExample(kit.TransposedMatrix, nil),
	}, corrcoef)
	SumToSize = compose.Define[*sizeAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "sum_to_size", Doc: "Sums over dimensions so that the result has the sizes `size`, which must broadcast to " +
			"self's shape.",
		Params: selfOnly, Examples: kit.OneExample(kit.TransposedMatrix, graph.Attrs{"size": []int{3}}),
	}, Facts: graph.Facts{Parallel: noLoops}}, func(s *compose.Applier) []*graph.Arg {
		return []*graph.Arg{sumToSize(applier{s}, kit.Attrs[*sizeAttrs](s.Call), s.Operands())}
	})
)

// aminmax computes the extremes by amin and amax.
func aminmax(s applier, a *aminmaxAttrs, in []*graph.Arg) []*graph.Arg {
	xType := in[0].Type()
	if a.Dim == nil {
		s.Reject(kit.IsEmpty(xType), "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "+
			"identity.")
	} else if dim := s.wrapDim(in[0], *a.Dim); xType.Rank() > 0 {
		s.Reject(kit.SizeIs(xType.Shape[dim], 0), "aminmax(): Expected reduction dim %d to have non-zero size.", dim)
	}
	attrs := graph.Attrs{"keepdim": a.Keepdim}
	if a.Dim != nil {
		attrs["dim"] = []int{*a.Dim}
	}
	x := in[0]
	if a.Dim != nil && xType.Rank() == 0 && a.Keepdim { // PyTorch returns vectors
		x = s.unsqueeze(x, 0)
	}
	return []*graph.Arg{s.Apply(reduce.Amin, attrs, x), s.Apply(reduce.Amax, attrs, x)}
}

// nansum sums x with 0 in place of NaN.
func (s applier) nansum(x *graph.Arg, a *nansumAttrs) *graph.Arg {
	dtype := x.Type().DType
	s.Reject(dtype.IsComplex(), "nansum does not support complex inputs")
	s.Reject(dtype.IsFloat() && a.DType != tensor.Invalid && !a.DType.IsFloat(),
		"\"nansum_cpu\" not implemented for '%s'", a.DType.TorchName())
	if dtype.IsFloat() {
		x = s.where(s.Apply(pointwise.Isnan, nil, x), s.Apply(view.ZerosLike, nil, x), x)
	}
	return s.Apply(reduce.Sum, graph.Attrs{"dim": a.Dim, "keepdim": a.Keepdim, "dtype": a.DType}, x)
}

type sizeAttrs struct {
	Size []sym.Int `attr:"size" doc:"sizes of the result"`
}

// sumToSize sums over the leading dimensions that the result does not have, and over the dimensions in which the result
// has size 1.
func sumToSize(s applier, a *sizeAttrs, in []*graph.Arg) *graph.Arg {
	shape := s.shape(in[0])
	extraDims := len(shape) - len(a.Size)
	isExpandable := extraDims >= 0
	var dims []int
	for dim := range max(extraDims, 0) {
		dims = append(dims, dim)
	}
	for i := extraDims; isExpandable && i < len(shape); i++ {
		size := a.Size[i-extraDims]
		switch {
		case size.Eq(shape[i]).Holds(): // the dimension is kept
		case kit.SizeIs(size, 1):
			dims = append(dims, i)
		default:
			isExpandable = false
		}
	}
	s.Reject(!isExpandable, "size {%s} is not expandable to size {%s}.", tensor.Sizes(a.Size), tensor.Sizes(shape))
	switch {
	case len(a.Size) == 0:
		return s.sum(in[0], dropDims, allDims)
	case len(dims) == 0:
		return s.Apply(view.Alias, nil, in[0])
	}
	return s.reshape(s.sum(in[0], keepDims, dims), a.Size...)
}

// cov returns the covariance matrix of the rows of in[0]. in[1] and in[2] are the weights of the observations: fweights
// and aweights.
func (s applier) cov(correction int, in []*graph.Arg) *graph.Arg {
	x := in[0]
	rank := len(s.shape(x))
	s.Reject(rank > 2, "cov(): expected input to have two or fewer dimensions but got an input with %d dimensions", rank)
	s.Reject(x.Type().DType == tensor.Bool, "cov(): bool dtype is not supported for input")
	if rank < 2 {
		x = s.reshape(x, sym.Of(1), sym.Of(-1))
	}
	observationCount := s.shape(x)[1]
	weights := s.weights(observationCount, in[1], in[2])
	var weightSum, mean *graph.Arg
	if weights.Kind == graph.Null {
		count := integer(int64(observationCount.Specialize()))
		weightSum, mean = count, s.div(s.sum(x, keepDims, []int{1}), count)
	} else {
		weightSum = s.sum(weights, dropDims, allDims)
		mean = s.div(s.sum(s.mul(x, weights), keepDims, []int{1}), weightSum)
	}
	return s.centredProducts(x, mean, weights, weightSum, in[2], correction)
}

// centredProducts returns d diag(weights) d^H / divisor, where d is x minus the mean. The divisor is weightSum minus
// the correction. With aweights, the correction is first multiplied by the sum of weights*aweights / weightSum.
func (s applier) centredProducts(x, mean, weights, weightSum, aweights *graph.Arg, correction int) *graph.Arg {
	var divisor *graph.Arg
	switch {
	case weights.Kind == graph.Null: // weightSum is a plain number, the number of observations
		divisor = float(max(0, float64(weightSum.Number.Int())-float64(correction)))
	case aweights.Kind == graph.Null:
		divisor = s.sub(weightSum, integer(int64(correction)))
	default:
		squares := s.sum(s.mul(weights, aweights), dropDims, allDims)
		divisor = s.sub(weightSum, s.div(s.mul(integer(int64(correction)), squares), weightSum))
	}
	if weights.Kind != graph.Null {
		divisor = s.Apply(pointwise.ClampMin, graph.Attrs{"min": 0}, divisor)
	}
	x = s.sub(x, mean)
	right := x
	if weights.Kind != graph.Null {
		right = s.mul(x, weights)
	}
	return s.Apply(view.Squeeze, nil, s.div(s.Apply(product.Mm, nil, x, s.adjoint(right)), divisor))
}

// weights returns the product of fweights and aweights, the weights of the given number of observations. If the call
// omits both, the result is a null operand.
func (s applier) weights(observations sym.Int, fweights, aweights *graph.Arg) *graph.Arg {
	isInteger := func(dtype tensor.DType) bool { return dtype.IsIntegral(false) } // false: without bool
	s.checkWeights(fweights, "fweights", observations, isInteger, "integral")
	s.checkWeights(aweights, "aweights", observations, tensor.DType.IsFloat, "floating point")
	switch {
	case fweights.Kind == graph.Null:
		return aweights
	case aweights.Kind == graph.Null:
		return fweights
	}
	return s.mul(fweights, aweights)
}

// checkWeights rejects weights that have more than one dimension, a dtype that is not allowed, or a number of elements
// that is not the number of observations. Omitted weights pass.
func (s applier) checkWeights(weights *graph.Arg, name string, observations sym.Int,
	isAllowed func(dtype tensor.DType) bool, allowed string) {
	if weights.Kind == graph.Null {
		return
	}
	weightsType := weights.Type()
	s.Reject(weightsType.Rank() > 1, "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions",
		name, name, weightsType.Rank())
	s.Reject(!isAllowed(weightsType.DType), "cov(): expected %s to have %s dtype but got %s with %s dtype", name,
		allowed, name, weightsType.DType.TorchName())
	s.Reject(weightsType.Numel().Ne(observations).Holds(), "cov(): expected %s to have the same numel as there are "+
		"observations in the input but got %v != %v", name, weightsType.Numel(), observations)
}

// corrcoef divides each covariance by the standard deviations of both variables, and clips rounding errors.
func corrcoef(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	rank := len(s.shape(in[0]))
	s.Reject(rank > 2, "corrcoef(): expected input to have two or fewer dimensions but got an input with %d "+
		"dimensions", rank)
	const correction = 1
	covariance := s.cov(correction, []*graph.Arg{in[0], {}, {}}) // without weights
	isOneVariable := covariance.Type().Rank() == 0
	if isOneVariable {
		return s.div(covariance, covariance)
	}
	deviations := s.Apply(view.Diagonal, nil, covariance)
	isComplex := covariance.Type().DType.IsComplex()
	if isComplex {
		deviations = s.Apply(pointwise.Real, nil, deviations)
	}
	deviations = s.Apply(pointwise.Sqrt, nil, deviations)
	covariance = s.div(s.div(covariance, s.unsqueeze(deviations, 1)), s.unsqueeze(deviations, 0))
	clip := func(x *graph.Arg) *graph.Arg { return s.Apply(pointwise.Clamp, graph.Attrs{"min": -1, "max": 1}, x) }
	if isComplex {
		return s.Apply(view.Complex, nil, clip(s.Apply(pointwise.Real, nil, covariance)),
			clip(s.Apply(pointwise.Imag, nil, covariance)))
	}
	return clip(covariance)
}
