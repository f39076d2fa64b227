package composite

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type histcAttrs struct {
	Bins int           `attr:"bins" default:"100" doc:"number of bins"`
	Min  tensor.Scalar `attr:"min" default:"0" doc:"lower end of the first bin"`
	Max  tensor.Scalar `attr:"max" default:"0" doc:"upper end of the last bin"`
}

type renormAttrs struct {
	P       tensor.Scalar `attr:"p" doc:"order of the norm"`
	Dim     int           `attr:"dim" doc:"dimension of the slices"`
	Maxnorm tensor.Scalar `attr:"maxnorm" doc:"greatest norm"`
}

type logcumsumexpAttrs struct {
	Dim int `attr:"dim" doc:"dimension to run along"`
}

// Histograms, bounded norms and running sums. The function of an op applies other ops by the methods of an applier, s,
// and returns the result. s.Reject(condition, ...) and s.Check(err) end the function with an error.
var (
	Histc = defineOneResult(graph.Semantics{
		Name: "histc", Doc: "Counts the elements in `bins` intervals of equal width from `min` to `max`. Other elements " +
			"and NaN are not counted. If `min` equals `max`, the range is that of the elements, which must all be finite.",
		Params: selfOnly, Examples: []graph.Example{kit.Example(graph.Attrs{"bins": 4}, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"bins": 3, "min": -1, "max": 1}, kit.FloatMatrix)},
	}, histc)
	Renorm = defineOneResult(graph.Semantics{
		Name: "renorm", Doc: "Scales the slices along a dimension whose norms exceed `maxnorm` to the norm `maxnorm`.",
		Params: selfOnly, Examples: []graph.Example{
			kit.Example(graph.Attrs{"p": 2, "dim": 0, "maxnorm": 1}, kit.TransposedMatrix)},
	}, renorm)
	Logcumsumexp = defineOneResult(graph.Semantics{
		Name: "logcumsumexp", Doc: "Returns the logarithms of the running sums of exponentials along a dimension.",
		Params: selfOnly, Examples: []graph.Example{kit.Example(graph.Attrs{"dim": 0}, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"dim": 1}, kit.FloatMatrix)},
	}, logcumsumexp)
)

// histc adds 1 to the bin of each element. An element outside the range adds 0 to bin 0. For example, the elements 1, 3
// and 9 in 4 bins from 0 to 8 have the counts 1, 1, 0, 0.
func histc(s applier, a *histcAttrs, in []*graph.Arg) *graph.Arg {
	dtype := in[0].Type().DType
	if dtype != tensor.Float32 && dtype != tensor.Float64 && dtype != tensor.BFloat16 {
		s.Check(kit.NotImplemented("histogram", dtype))
	}
	s.Reject(a.Bins <= 0, "bins must be > 0")
	low, high := a.Min.Float(), a.Max.Float()
	s.Reject(math.IsInf(high-low, 0) || math.IsNaN(high-low), "range of [%v, %v] is not finite", low, high)
	s.Reject(low > high, "max must be larger than min")
	x := s.reshape(in[0], sym.Of(-1))
	begin, end := s.histcRange(x, low, high)
	isInside := s.and(s.Apply(pointwise.Ge, nil, x, begin), s.Apply(pointwise.Le, nil, x, end))
	width, outsideBin := float(high-low), integer(0) // outsideBin is the bin of an element outside the range
	if low == high {
		width = s.sub(end, begin)
	}
	// As in PyTorch, a range that is not finite is an error. The range of the elements is known only at run time: if it
	// is not finite, all elements get the index a.Bins, which scatter_add rejects.
	if begin.Kind == graph.TensorArg {
		isFinite := s.and(s.Apply(pointwise.Isfinite, nil, begin), s.Apply(pointwise.Isfinite, nil, end))
		isInside, outsideBin = s.and(isInside, isFinite), s.mul(s.to(s.not(isFinite), tensor.Int64), integer(int64(a.Bins)))
	}
	bin := s.mul(s.div(s.sub(x, begin), width), integer(int64(a.Bins)))
	bin = s.Apply(pointwise.Clamp, graph.Attrs{"min": 0, "max": a.Bins - 1}, s.Apply(pointwise.Trunc, nil, bin))
	bin = s.to(s.where(isInside, bin, outsideBin), tensor.Int64)
	counts := s.Apply(view.NewZeros, graph.Attrs{"size": []int{a.Bins}}, in[0])
	return s.Apply(index.ScatterAdd, graph.Attrs{"dim": 0}, counts, bin, s.to(isInside, dtype))
}

// histcRange returns the begin and the end of the range of bins: low and high or, if they are equal, the least and the
// greatest element. If the least and the greatest element are equal, too, the range is extended by 1 on both sides.
func (s applier) histcRange(x *graph.Arg, low, high float64) (begin, end *graph.Arg) {
	switch isEmpty := kit.IsEmpty(x.Type()); {
	case low != high:
		return float(low), float(high)
	case isEmpty:
		return float(low - 1), float(high + 1)
	}
	begin, end = s.Apply(reduce.Amin, nil, x), s.Apply(reduce.Amax, nil, x)
	isSingle := s.Apply(pointwise.Eq, nil, begin, end)
	begin = s.where(isSingle, s.addNumber(begin, -1), begin)
	end = s.where(isSingle, s.addNumber(end, 1), end)
	return begin, end
}

// renorm multiplies each slice whose norm exceeds maxnorm by maxnorm / norm.
func renorm(s applier, a *renormAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	dtype := x.Type().DType
	s.Reject(!dtype.IsFloat() && !dtype.IsComplex(), "renorm: expected self to be floating point or complex")
	p, maxNorm := a.P.Float(), a.Maxnorm.Float()
	s.Reject(a.P.DType().IsComplex() || !(p > 0), "renorm: non-positive-norm not supported")
	s.Reject(a.Maxnorm.DType().IsComplex() || !(maxNorm >= 0), "renorm: expected maxnorm to be >= 0 but got %v", maxNorm)
	rank := len(s.shape(x))
	s.Reject(rank < 2, "renorm: input needs at least 2 dimensions, got %d dimensions", rank)
	dim := s.wrapDim(x, a.Dim)
	var dims []int
	for i := range rank {
		if i != dim {
			dims = append(dims, i)
		}
	}
	attrs := graph.Attrs{"ord": p, "dim": dims, "keepdim": true}
	if dtype.IsFloat() {
		attrs["dtype"] = dtype.OpMath()
	}
	norms := s.Apply(reduce.VectorNorm, attrs, x)
	factor := s.div(number(a.Maxnorm), s.addNumber(norms, 1e-7)) // 1e-7 as in PyTorch
	factor = s.where(s.Apply(pointwise.Gt, nil, norms, number(a.Maxnorm)), factor, float(1))
	return s.WithLayout(s.mul(x, s.to(factor, dtype.ToReal())), x.Type().RowMajor())
}

// logcumsumexp doubles the number of elements in each running sum step by step. The steps have the distances 1, 2, 4
// and so on. At distance d, sum i becomes the sum of sums i and i-d. For four elements a, b, c and d, with "+" for the
// logarithm of the sum of exponentials:
//
//	distance 1:  a, a+b, b+c, c+d
//	distance 2:  a, a+b, a+b+c, a+b+c+d
func logcumsumexp(s applier, a *logcumsumexpAttrs, in []*graph.Arg) *graph.Arg {
	x, dtype := in[0], in[0].Type().DType
	dim := s.wrapDim(x, a.Dim)
	if !dtype.IsFloat() {
		s.Check(kit.NotImplementedBy("logcumsumexp_out_cpu", dtype))
	}
	if len(s.shape(x)) == 0 || kit.IsEmpty(x.Type()) {
		return s.rowMajor(x)
	}
	length := s.shape(x)[dim].Specialize() // a number, because the number of steps depends on it
	x = s.to(x, dtype.OpMath())
	for distance := 1; distance < length; distance *= 2 {
		unchanged, rest := s.slice(x, dim, 0, distance), s.slice(x, dim, distance, nil) // nil: to the end
		sums := s.Apply(pointwise.Logaddexp, nil, rest, s.slice(x, dim, 0, length-distance))
		x = s.Apply(view.Cat, graph.Attrs{"dim": dim}, unchanged, sums)
	}
	return s.WithLayout(s.to(s.rowMajor(x), dtype), in[0].Type().RowMajor())
}
