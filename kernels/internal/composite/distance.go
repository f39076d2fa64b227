package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type normalizeAttrs struct {
	P   float64 `attr:"p" default:"2" doc:"order of the norm"`
	Dim int     `attr:"dim" default:"1" doc:"dimension along which norms are taken"`
	Eps float64 `attr:"eps" default:"1e-12" doc:"least divisor"`
}

type cosineSimilarityAttrs struct {
	Dim int     `attr:"dim" default:"1" doc:"dimension of the vectors"`
	Eps float64 `attr:"eps" default:"1e-8" doc:"least norm"`
}

type pairwiseDistanceAttrs struct {
	P       float64 `attr:"p" default:"2" doc:"order of the norm"`
	Eps     float64 `attr:"eps" default:"1e-6" doc:"number added to each difference"`
	Keepdim bool    `attr:"keepdim" default:"false" doc:"keep the last dimension with size 1"`
}

type distAttrs struct {
	P tensor.Scalar `attr:"p" default:"2" doc:"order of the norm"`
}

type pdistAttrs struct {
	P float64 `attr:"p" default:"2" doc:"order of the norm"`
}

type cdistAttrs struct {
	P           float64 `attr:"p" default:"2" doc:"order of the norm"`
	ComputeMode *int    `attr:"compute_mode" default:"none" doc:"has no effect: differences are never computed by a matrix product"`
}

var x1, x2 = graph.Param{Name: "x1"}, graph.Param{Name: "x2"}

// Distances and directions of vectors. The function of an op applies other ops (steps.go) and returns the result.
// s.Reject ends it with an error if the condition holds.
var (
	Normalize = defineOneResult(graph.Semantics{
		Name: "normalize", Doc: "Divides vectors along a dimension by their norms.", Params: []graph.Param{kit.Input},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix), kit.Example(graph.Attrs{"p": 1, "dim": 0},
			kit.FloatMatrix)},
	}, normalize)
	CosineSimilarity = defineOneResult(graph.Semantics{
		Name: "cosine_similarity", Doc: "Returns the cosine of the angle of two vectors along a dimension.",
		Params:   []graph.Param{x1, x2},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, cosineSimilarity)
	PairwiseDistance = defineOneResult(graph.Semantics{
		Name: "pairwise_distance", Doc: "Returns the norms of the differences of vectors, the last dimension.",
		Params:   []graph.Param{x1, x2},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, pairwiseDistance)
	Dist = defineOneResult(graph.Semantics{
		Name: "dist", Doc: "Returns the `p`-norm of self - other.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, func(s applier, a *distAttrs, in []*graph.Arg) *graph.Arg {
		return s.Apply(reduce.Norm, graph.Attrs{"p": a.P}, s.sub(in[0], in[1]))
	})
	Cdist = defineOneResult(graph.Semantics{
		Name: "cdist", Doc: "Returns the `p`-norms of the differences of each row of `x1` and each row of `x2`: [..., n, " +
			"k] and [..., m, k] give [..., n, m].",
		Params: []graph.Param{x1, x2},
		Examples: []graph.Example{kit.Example(nil, kit.F32(4, 3), kit.F32(2, 3)), kit.Example(graph.Attrs{"p": 1},
			kit.F32(2, 4, 3), kit.F32(2, 3))},
	}, cdist)
	Pdist = compose.Define[*pdistAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "pdist", Doc: "Returns the `p`-norms of the differences of each pair of rows, in the order (0, 1), (0, 2), " +
			"..., (1, 2), ...",
		Params:   selfOnly,
		Examples: []graph.Example{kit.Example(nil, kit.F32(4, 3)), kit.Example(graph.Attrs{"p": 1}, kit.TransposedMatrix)},
	}, Facts: graph.Facts{Parallel: noLoops}}, func(s *compose.Applier) []*graph.Arg { // self has no dimension of pairs
		return []*graph.Arg{applier{s}.pdist(s.Operands()[0], kit.Attrs[*pdistAttrs](s.Call).P)}
	})
)

// normalize divides by the norms, or by eps where a norm is below eps.
func normalize(s applier, a *normalizeAttrs, in []*graph.Arg) *graph.Arg {
	norms := s.Apply(pointwise.ClampMin, graph.Attrs{"min": a.Eps}, s.norm(in[0], a.P, a.Dim, keepDims))
	return s.div(in[0], s.Apply(view.ExpandAs, nil, norms, in[0]))
}

// cosineSimilarity returns the inner products of the vectors, divided by their norms.
func cosineSimilarity(s applier, a *cosineSimilarityAttrs, in []*graph.Arg) *graph.Arg {
	dtype := s.commonDType(in[0], in[1])
	s.Reject(!dtype.IsFloat(), "expected common dtype to be floating point, yet common dtype is %s",
		kit.CppName(dtype))
	x, y := s.broadcast(s.to(in[0], dtype), s.to(in[1], dtype))
	unitVectors := func(x *graph.Arg) *graph.Arg {
		norms := s.Apply(reduce.VectorNorm, graph.Attrs{"dim": []int{a.Dim}, "keepdim": true}, x)
		return s.div(x, s.Apply(pointwise.ClampMin, graph.Attrs{"min": a.Eps}, norms))
	}
	return s.sum(s.mul(unitVectors(x), unitVectors(y)), dropDims, []int{a.Dim})
}

// pairwiseDistance returns the norms of x1 - x2 + eps.
func pairwiseDistance(s applier, a *pairwiseDistanceAttrs, in []*graph.Arg) *graph.Arg {
	rank := max(len(s.shape(in[0])), len(s.shape(in[1])))
	return s.norm(s.addNumber(s.sub(in[0], in[1]), a.Eps), a.P, rank-1, a.Keepdim)
}

// cdist subtracts each row of x2 from each row of x1, with the shapes [..., n, 1, k] and [..., 1, m, k].
func cdist(s applier, a *cdistAttrs, in []*graph.Arg) *graph.Arg {
	for i, x := range in[:2] {
		operandType := x.Type()
		s.Reject(operandType.Rank() < 2, "cdist only supports at least 2D tensors, X%d got: %dD", i+1, operandType.Rank())
		s.Reject(!operandType.DType.IsFloat(), "cdist only supports floating-point dtypes, X%d got: %s", i+1,
			kit.CppName(operandType.DType))
	}
	s.Reject(!(a.P >= 0), "cdist only supports non-negative p values")
	if mode := a.ComputeMode; mode != nil {
		s.Reject(*mode < 0 || *mode > 2, "possible modes: 0, 1, 2, but was: %d", *mode)
	}
	xShape, yShape := s.shape(in[0]), s.shape(in[1])
	xColumns, yColumns := xShape[len(xShape)-1], yShape[len(yShape)-1]
	s.Reject(xColumns.Ne(yColumns).Holds(), "X1 and X2 must have the same number of columns. X1: %v X2: %v", xColumns,
		yColumns)
	return s.distances(s.unsqueeze(in[0], -2), s.unsqueeze(in[1], -3), a.P)
}

// distances returns the norms of x - y along the last dimension. PyTorch has no distances of 16-bit floats: they are
// computed in float32 and rounded once.
func (s applier) distances(x, y *graph.Arg, p float64) *graph.Arg {
	dtype := s.commonDType(x, y)
	difference := s.sub(s.to(x, dtype.OpMath()), s.to(y, dtype.OpMath()))
	return s.to(s.norm(difference, p, -1, dropDims), dtype)
}

// pdist returns the distances between all pairs of the n rows of x. It computes the rows i < j of pair k from k:
//
//	k      0       1       2       3       4       5         (n = 4)
//	i, j   0, 1    0, 2    0, 3    1, 2    1, 3    2, 3
//
// If r is the number of later pairs, n(n-1)/2 - 1 - k, then i is n - 2 - floor((sqrt(8r + 1) - 1)/2). The computation
// in float64 is exact.
func (s applier) pdist(x *graph.Arg, p float64) *graph.Arg {
	xType := x.Type()
	s.Reject(xType.Rank() != 2, "pdist only supports 2D tensors, got: %dD", xType.Rank())
	s.Reject(!xType.DType.IsFloat(), "pdist only supports floating-point dtypes")
	s.Reject(!(p >= 0), "pdist only supports non-negative p values")
	n := xType.Shape[0].Specialize() // the number of rows; the formulas require a number
	pairs := n * (n - 1) / 2
	k := s.Apply(view.Arange, graph.Attrs{"end": pairs, "dtype": tensor.Float64})
	// root is sqrt(8r + 1), with 8r + 1 = 4n(n-1) - 7 - 8k.
	root := s.Apply(pointwise.Sqrt, nil, s.addNumber(s.mul(k, integer(-8)), float64(4*n*(n-1)-7)))
	fromLast := s.Apply(pointwise.Floor, nil, s.addNumber(s.mul(root, float(0.5)), -0.5))
	i := s.addNumber(s.neg(fromLast), float64(n-2))
	// pairsFromRowI counts the pairs of rows whose first row is i or a later row.
	pairsFromRowI := s.mul(s.mul(s.addNumber(fromLast, 2), s.addNumber(fromLast, 1)), float(0.5))
	// j is i + 1 plus the number of pairs (i, ...) before k, which is k - (pairs - pairsFromRowI).
	j := s.addNumber(s.add(s.add(k, i), pairsFromRowI), float64(1-pairs))
	row := func(rows *graph.Arg) *graph.Arg {
		return s.Apply(index.IndexSelect, graph.Attrs{"dim": 0}, x, s.to(rows, tensor.Int64))
	}
	return s.distances(row(i), row(j), p)
}

// norm returns the norm of order p along a dimension.
func (s applier) norm(x *graph.Arg, p any, dim int, keepdim bool) *graph.Arg {
	return s.Apply(reduce.Norm, graph.Attrs{"p": p, "dim": []int{dim}, "keepdim": keepdim}, x)
}

// broadcast returns views of x and y in the shape to which they broadcast.
func (s applier) broadcast(x, y *graph.Arg) (*graph.Arg, *graph.Arg) {
	shape, err := tensor.BroadcastSizes(s.shape(x), s.shape(y))
	s.Check(err)
	expand := func(x *graph.Arg) *graph.Arg { return s.Apply(view.Expand, graph.Attrs{"size": shape}, x) }
	return expand(x), expand(y)
}

type crossAttrs struct {
	Dim *int `attr:"dim" default:"none" doc:"dimension of the vectors; default: the first of size 3"`
}

type lastDimAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension of the vectors"`
}

// Products of vectors.
var (
	LinalgCross = defineOneResult(graph.Semantics{
		Name: "linalg_cross", Doc: "Returns the vector products of vectors of 3 elements along a dimension.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, func(s applier, a *lastDimAttrs, in []*graph.Arg) *graph.Arg { return s.cross(in, a.Dim) })
	Cross = defineOneResult(graph.Semantics{
		Name: "cross", Doc: "Returns the vector products of vectors of 3 elements along a dimension.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, func(s applier, a *crossAttrs, in []*graph.Arg) *graph.Arg {
		if a.Dim != nil {
			return s.cross(in, *a.Dim)
		}
		isThree := func(size sym.Int) bool { return kit.SizeIs(size, 3) }
		dim := slices.IndexFunc(s.shape(in[0]), isThree)
		s.Reject(dim < 0, "no dimension of size 3 in input")
		return s.cross(in, dim)
	})
	Vecdot = defineOneResult(graph.Semantics{
		Name: "linalg_vecdot", Doc: "Returns the inner products of vectors along a dimension; `x` is conjugated.",
		Params:   []graph.Param{{Name: "x"}, {Name: "y"}},
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatMatrix)},
	}, vecdot)
)

// vecdot adds the products of the elements of x, conjugated, and y.
func vecdot(s applier, a *lastDimAttrs, in []*graph.Arg) *graph.Arg {
	for _, x := range in[:2] {
		dtype := x.Type().DType
		s.Reject(dtype.IsIntegral(true), "linalg.vecdot: Expected a floating point or complex tensor as input. Got %s",
			dtype.TorchName())
	}
	x, y := in[0], in[1]
	if xShape, yShape := s.shape(x), s.shape(y); len(xShape) == 1 && len(yShape) == 1 {
		s.Reject(xShape[0].Ne(yShape[0]).Holds(), "inconsistent tensor size, expected tensor [%v] and src [%v] to have "+
			"the same number of elements, but got %v and %v elements respectively", xShape[0], yShape[0], xShape[0],
			yShape[0])
	}
	if x.Type().DType.IsComplex() {
		x = s.Apply(pointwise.ConjPhysical, nil, x)
	}
	return s.sum(s.mul(x, y), dropDims, []int{a.Dim})
}

// cross returns the vector products of two operands as a row-major value.
func (s applier) cross(in []*graph.Arg, dim int) *graph.Arg {
	xShape, yShape := s.shape(in[0]), s.shape(in[1])
	s.Reject(len(xShape) != len(yShape), "linalg.cross: inputs must have the same number of dimensions.")
	dim = s.wrapDim(in[0], dim)
	s.Reject(len(xShape) == 0, "linalg.cross: inputs dimension %d must have length 3. Got 1 and 1", dim)
	xSize, ySize := xShape[dim], yShape[dim]
	s.Reject(!kit.SizeIs(xSize, 3) || !kit.SizeIs(ySize, 3), "linalg.cross: inputs dimension %d must have length 3. Got "+
		"%v and %v", dim, xSize, ySize)
	dtype, otherDType := in[0].Type().DType, in[1].Type().DType
	s.Reject(dtype != otherDType, "expected scalar type %s but found %s", dtype.TorchName(), otherDType.TorchName())
	if dtype == tensor.Bool {
		s.Check(kit.NotImplementedBy("cross", dtype))
	}
	a, b := s.broadcast(in[0], in[1])
	component := func(x *graph.Arg, i int) *graph.Arg { return s.selectIndex(x, dim, i%3) }
	// result[i] = a[i+1]*b[i+2] - a[i+2]*b[i+1], with indices modulo 3
	var components [3]*graph.Arg
	for i := range components {
		components[i] = s.sub(s.mul(component(a, i+1), component(b, i+2)), s.mul(component(a, i+2), component(b, i+1)))
	}
	out := s.Apply(view.Stack, graph.Attrs{"dim": dim}, components[:]...)
	return s.WithLayout(out, out.Type().RowMajor())
}
