package composite

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/linalg"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

type linalgNormAttrs struct {
	Ord     graph.NumberOrWord `attr:"ord" default:"none" words:"fro|nuc" doc:"order of the norm of vectors or matrices; default: root of the sum of squares"`
	Dim     []int              `attr:"dim" default:"none" doc:"one dimension of vectors, or two of matrices; none: all"`
	Keepdim bool               `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType       `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

type matrixNormAttrs struct {
	Ord     graph.NumberOrWord `attr:"ord" default:"fro" words:"fro|nuc" doc:"fro: root of the sum of squares; nuc: sum of singular values; 2, -2: greatest, least singular value; 1, -1: greatest, least sum of magnitudes of a column; Infinity, -Infinity: of a row"`
	Dim     []int              `attr:"dim" default:"-2,-1" doc:"dimensions of rows and columns"`
	Keepdim bool               `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
	DType   tensor.DType       `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

type condAttrs struct {
	P graph.NumberOrWord `attr:"p" default:"none" words:"fro|nuc" doc:"order of the norm, as of linalg_matrix_norm; default: 2"`
}

// Norms and condition numbers of matrices. LinalgNorm also has norms of vectors, which are ops of package reduce.
var (
	LinalgNorm = defineOneResult(graph.Semantics{
		Name: "linalg_norm", Doc: "Returns norms of vectors or matrices.",
		Params: selfOnly, Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3, 4)),
			kit.Example(graph.Attrs{"ord": 2}, kit.TransposedMatrix), kit.Example(graph.Attrs{"ord": 3, "dim": 1},
				kit.FloatMatrix),
			kit.Example(graph.Attrs{"ord": "-Infinity"}, kit.FloatMatrix)},
	}, linalgNorm)
	MatrixNorm = defineOneResult(graph.Semantics{
		Name: "linalg_matrix_norm", Doc: "Returns norms of matrices.", Params: selfOnly,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3, 4)),
			kit.Example(graph.Attrs{"ord": "nuc"}, kit.TransposedMatrix),
			kit.Example(graph.Attrs{"ord": -1, "dim": []int{0, 2}, "keepdim": true}, kit.F32(2, 3, 4))},
	}, func(s applier, a *matrixNormAttrs, in []*graph.Arg) *graph.Arg {
		return s.matrixNorm(in[0], a)
	})
	LinalgCond = defineOneResult(graph.Semantics{
		Name: "linalg_cond", Doc: "Returns the condition numbers of matrices, the last two dimensions: the products of the " +
			"norms of a matrix and of its inverse, or infinity for a singular one.", Params: selfOnly,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 4, 3)), kit.Example(graph.Attrs{"p": "fro"}, kit.F32(3, 3)),
			kit.Example(graph.Attrs{"p": -1}, kit.F32(3, 3))},
	}, linalgCond)
)

// normOrder is the order of a norm: a number p, or a word such as "nuc" if the order is not a number.
type normOrder struct {
	p    float64 // 0 for a word
	word string  // empty for a number
}

// order returns the order that an attribute gives.
func (s applier) order(ord graph.NumberOrWord) normOrder {
	if ord.Word != "" {
		return normOrder{word: ord.Word}
	}
	s.Reject(ord.Number.DType().IsComplex(), "linalg.norm: ord must be a real number")
	return normOrder{p: ord.Number.Float()}
}

// orderOrTwo is order for an attribute whose default is 2.
func (s applier) orderOrTwo(ord graph.NumberOrWord) normOrder {
	if ord.Word == "" && !ord.Number.IsSet() {
		return normOrder{p: 2}
	}
	return s.order(ord)
}

// usesSingularValues reports whether the norm of a matrix is computed from singular values.
func (o normOrder) usesSingularValues() bool { return o.word == "nuc" || math.Abs(o.p) == 2 }

// usesSums reports whether the norm of a matrix is computed from the sums of the magnitudes in its rows or columns.
func (o normOrder) usesSums() bool { return math.Abs(o.p) == 1 || math.IsInf(o.p, 0) }

// extremum returns the reduction to the greatest element for a positive order, and to the least for a negative one.
func (o normOrder) extremum() *graph.Op {
	if o.p > 0 {
		return reduce.Amax
	}
	return reduce.Amin
}

// linalgNorm returns norms of vectors if no order is given or one dimension is reduced, otherwise norms of matrices.
func linalgNorm(s applier, a *linalgNormAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	rank := x.Type().Rank()
	hasOrder := a.Ord.Word != "" || a.Ord.Number.IsSet()
	if n := len(a.Dim); a.Dim != nil {
		s.Reject(n != 1 && n != 2, "linalg.norm: If dim is specified, it mut be of length 1 or 2. Got %v", a.Dim)
	} else if hasOrder {
		s.Reject(rank != 1 && rank != 2, "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "+
			"%dD.", rank)
	}
	order := s.orderOrTwo(a.Ord)
	hasOneDim := len(a.Dim) == 1 || a.Dim == nil && rank == 1
	isVectorNorm := order.word == "" && (!hasOrder || hasOneDim)
	if isVectorNorm {
		attrs := graph.Attrs{"ord": order.p, "keepdim": a.Keepdim, "dtype": a.DType}
		if a.Dim != nil {
			attrs["dim"] = a.Dim
		}
		return s.Apply(reduce.VectorNorm, attrs, x)
	}
	matrixAttrs := matrixNormAttrs(*a)
	if a.Dim == nil {
		matrixAttrs.Dim = []int{0, 1}[:min(rank, 2)] // matrixNorm rejects vectors
	}
	return s.matrixNorm(x, &matrixAttrs)
}

// matrixNorm returns the norms of the matrices x. The attribute ord (matrixNormAttrs) lists the orders.
func (s applier) matrixNorm(x *graph.Arg, a *matrixNormAttrs) *graph.Arg {
	order := s.checkedOrder(x.Type(), a)
	rowDim, columnDim := s.wrapDim(x, a.Dim[0]), s.wrapDim(x, a.Dim[1])
	s.Reject(rowDim == columnDim, "linalg.matrix_norm: dims must be different. Got (%d, %d)", a.Dim[0], a.Dim[1])
	vectorNorm := func(ord float64, dims []int, keepdim bool) *graph.Arg {
		return s.Apply(reduce.VectorNorm, graph.Attrs{"ord": ord, "dim": dims, "keepdim": keepdim, "dtype": a.DType}, x)
	}
	switch {
	case order.word == "fro":
		return vectorNorm(2, []int{rowDim, columnDim}, a.Keepdim)
	case order.usesSingularValues():
		return s.singularValueNorm(x, a, order, rowDim, columnDim)
	}
	summedDim := rowDim // orders 1 and -1: the sums of columns are along the dimension of rows
	if math.IsInf(order.p, 0) {
		summedDim = columnDim
	}
	return s.Apply(order.extremum(), graph.Attrs{"dim": []int{rowDim, columnDim}, "keepdim": a.Keepdim},
		vectorNorm(1, []int{summedDim}, keepDims))
}

// checkedOrder returns the order of matrixNorm. It rejects ranks, dtypes and orders that matrixNorm does not support.
func (s applier) checkedOrder(xType tensor.Type, a *matrixNormAttrs) normOrder {
	const name = "linalg.matrix_norm: "
	s.Reject(xType.Rank() < 2, name+"The input tensor A must have at least 2 dimensions.")
	dtype := xType.DType
	s.Reject(!dtype.IsFloat() && !dtype.IsComplex(), name+"Expected a floating point or complex tensor as input. Got %s",
		dtype.TorchName())
	order := s.order(a.Ord)
	s.Reject(dtype.IsReducedFloat() && order.usesSingularValues(), name+"Low precision dtypes not supported. Got %s",
		dtype.TorchName())
	isSupported := order.word != "" || order.usesSingularValues() || order.usesSums()
	s.Reject(!isSupported, name+"Order %v not supported.", order.p)
	s.Reject(len(a.Dim) != 2, name+"dim must be a 2-tuple. Got %v", a.Dim)
	return order
}

// singularValueNorm is matrixNorm for the orders "nuc", 2 and -2.
func (s applier) singularValueNorm(x *graph.Arg, a *matrixNormAttrs, order normOrder,
	rowDim, columnDim int) *graph.Arg {
	if a.DType != tensor.Invalid {
		x = s.to(x, a.DType)
	}
	values := s.Apply(linalg.Svdvals, nil, s.Apply(view.Movedim, graph.Attrs{"source": []int{rowDim, columnDim},
		"destination": []int{-2, -1}}, x))
	var result *graph.Arg
	if order.word == "nuc" {
		result = s.sum(values, a.Keepdim, []int{-1})
	} else {
		result = s.Apply(order.extremum(), graph.Attrs{"dim": []int{-1}, "keepdim": a.Keepdim}, values)
	}
	if a.Keepdim {
		result = s.Apply(view.Movedim, graph.Attrs{"source": []int{-2, -1}, "destination": []int{rowDim, columnDim}},
			s.unsqueeze(result, -1))
	}
	return result
}

// linalgCond returns condition numbers: from the singular values for the orders "nuc", 2 and -2, otherwise from the
// norms of the matrices and their inverses.
func linalgCond(s applier, a *condAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	xType := x.Type()
	order := s.checkedCondOrder(xType, a)
	if kit.IsEmpty(xType) {
		shape := xType.Shape[:xType.Rank()-2]
		return s.Apply(view.NewZeros, graph.Attrs{"size": shape, "dtype": xType.DType.ToReal()}, x)
	}
	if !order.usesSingularValues() {
		return s.condOfInverse(x, a.P)
	}
	values := s.Apply(linalg.Svdvals, nil, x)
	if order.word == "nuc" { // the sum of singular values times the sum of their reciprocals
		inverted := s.Apply(pointwise.Reciprocal, nil, values)
		return s.mul(s.sum(values, dropDims, []int{-1}), s.sum(inverted, dropDims, []int{-1}))
	}
	greatest, least := s.selectIndex(values, -1, 0), s.selectIndex(values, -1, -1) // Svdvals sorts in descending order
	if order.p < 0 {
		greatest, least = least, greatest
	}
	return s.div(greatest, least)
}

// checkedCondOrder returns the order of linalgCond. It rejects shapes, dtypes and orders that linalgCond does not
// support.
func (s applier) checkedCondOrder(xType tensor.Type, a *condAttrs) normOrder {
	const name = "linalg.cond"
	rank, dtype := xType.Rank(), xType.DType
	s.Reject(rank < 2, name+": The input tensor must have at least 2 dimensions.")
	isSupported := (dtype.IsFloat() || dtype.IsComplex()) && !dtype.IsReducedFloat()
	s.Reject(!isSupported, name+": Expected a tensor of float, double, cfloat or cdouble type. Got %s", dtype.TorchName())
	order := s.orderOrTwo(a.P)
	isSupportedOrder := order.word != "" || order.usesSingularValues() || order.usesSums()
	s.Reject(!isSupportedOrder, name+" got an invalid norm type: %v", order.p)
	// Only the quotient of the greatest and the least singular value is defined for matrices that are not square.
	needsSquare := order.word != "" || !order.usesSingularValues()
	s.Reject(needsSquare && xType.Shape[rank-1].Ne(xType.Shape[rank-2]).Holds(),
		name+": A must be batches of square matrices, but they are %v by %v matrices", xType.Shape[rank-2],
		xType.Shape[rank-1])
	return order
}

// condOfInverse returns the norms of matrices times the norms of their inverses, or infinity for singular matrices.
func (s applier) condOfInverse(x *graph.Arg, ord graph.NumberOrWord) *graph.Arg {
	xType := x.Type()
	inverse := s.ApplyMany(linalg.InvEx, nil, x) // the inverses, and nonzero numbers for singular matrices
	norm := func(x *graph.Arg) *graph.Arg { return s.matrixNorm(x, &matrixNormAttrs{Ord: ord, Dim: []int{-2, -1}}) }
	isSingular := s.Apply(pointwise.Gt, nil, inverse[1], integer(0))
	infinite := s.Apply(view.Full, graph.Attrs{"size": xType.Shape[:xType.Rank()-2], "fill_value": math.Inf(1),
		"dtype": xType.DType.ToReal()})
	nanToInfinity := graph.Attrs{"nan": math.Inf(1), "posinf": math.Inf(1), "neginf": math.Inf(-1)}
	// NaN, such as a norm of 0 times infinity, becomes infinity.
	conditionNumbers := s.mul(norm(x), s.where(isSingular, infinite, norm(inverse[0])))
	return s.Apply(pointwise.NanToNum, nanToInfinity, conditionNumbers)
}
