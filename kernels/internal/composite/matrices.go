package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/linalg"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type matrixPowerAttrs struct {
	N int `attr:"n" doc:"exponent; a negative one inverts the matrices"`
}

type pinvAttrs struct {
	Rcond     *float64 `attr:"rcond" default:"none" doc:"older name of rtol, without atol"`
	Atol      *float64 `attr:"atol" default:"none" doc:"singular values up to it are 0; default: 0"`
	Rtol      *float64 `attr:"rtol" default:"none" doc:"atol as a part of the greatest singular value; default: the greater size times the precision of the dtype, or 0 with a positive atol"`
	Hermitian bool     `attr:"hermitian" default:"false" doc:"use eigenvalues, for which only the lower triangle is read"`
}

type pinverseAttrs struct {
	Rcond float64 `attr:"rcond" default:"1e-15" doc:"singular values up to this part of the greatest one are 0"`
}

type matrixRankAttrs struct {
	Tol       *float64 `attr:"tol" default:"none" doc:"older name of atol, without rtol"`
	Atol      *float64 `attr:"atol" default:"none" doc:"singular values up to it are 0; default: 0"`
	Rtol      *float64 `attr:"rtol" default:"none" doc:"atol as a part of the greatest singular value; default: the greater size times the precision of the dtype, or 0 with a positive atol"`
	Hermitian bool     `attr:"hermitian" default:"false" doc:"the matrices are Hermitian: use the magnitudes of eigenvalues, and read only the lower triangle"`
}

var matrixPowerExamples = []graph.Example{kit.Example(graph.Attrs{"n": 5}, kit.F32(2, 3, 3)),
	kit.Example(graph.Attrs{"n": -2}, tensor.New(tensor.Float64, 3, 3)), kit.Example(graph.Attrs{"n": 0}, kit.F32(3, 3))}

// Powers, products, pseudoinverses and ranks of matrices. The function of an op applies other ops (steps.go) and
// returns the result. Reject makes the op fail with a message if its first argument is true.
var (
	LinalgMatrixPower = matrixPowerOp("linalg_matrix_power")
	MatrixPower       = matrixPowerOp("matrix_power")
	MultiDot          = defineOneResult(graph.Semantics{
		Name: "linalg_multi_dot", Doc: "Multiplies matrices, at least two, in the order with the fewest multiplications of " +
			"elements. The first and the last operand may be vectors.", Params: []graph.Param{kit.Tensors},
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3), kit.F32(3, 4), kit.F32(4, 5), kit.F32(5, 1)),
			kit.Example(nil, kit.F32(3), kit.F32(3, 4), kit.F32(4))},
	}, multiDot)
	Pinv = defineOneResult(graph.Semantics{
		Name: "linalg_pinv", Doc: "Returns the pseudoinverses of matrices, the last two dimensions. " + tolerancesDoc,
		Params: append(selfOnly[:1:1], toleranceParams("rcond")...),
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 4, 3)), kit.Example(graph.Attrs{"rtol": 0.1},
			kit.TransposedMatrix), kit.Example(graph.Attrs{"hermitian": true}, kit.F32(2, 3, 3), kit.F32(2))},
	}, func(s applier, a *pinvAttrs, in []*graph.Arg) *graph.Arg {
		// A tolerance is an attribute or an operand: in[1] is atol, in[2] rtol, and in[3] rcond.
		atol, rtol := s.toleranceOf("pinv", "atol", a.Atol, in[1]), s.toleranceOf("pinv", "rtol", a.Rtol, in[2])
		if rcond := s.toleranceOf("pinv", "rcond", a.Rcond, in[3]); rcond.isGiven() {
			atol, rtol = numberTolerance(0), rcond
		}
		return s.pinv(in[0], atol, rtol, a.Hermitian)
	})
	Pinverse = defineOneResult(graph.Semantics{
		Name: "pinverse", Doc: "Returns the pseudoinverses of matrices, the last two dimensions.", Params: selfOnly,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 4, 3))},
	}, func(s applier, a *pinverseAttrs, in []*graph.Arg) *graph.Arg {
		const isHermitian = false
		return s.pinv(in[0], numberTolerance(0), numberTolerance(a.Rcond), isHermitian)
	})
	MatrixRank = defineOneResult(graph.Semantics{
		Name: "linalg_matrix_rank", Doc: "Counts the singular values of matrices, the last two dimensions, that are " +
			"not 0. " + tolerancesDoc,
		Params: append([]graph.Param{kit.Input}, toleranceParams("tol")...),
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 4, 3)),
			kit.Example(graph.Attrs{"atol": 0.5, "hermitian": true}, kit.F32(3, 3)),
			kit.Example(nil, kit.F32(2, 4, 3), kit.F32(2), kit.F32())},
	}, matrixRank)
)

// matrixPowerOp defines an op that returns powers of matrices.
func matrixPowerOp(name string) *graph.Op {
	return defineOneResult(graph.Semantics{
		Name: name, Doc: "Returns the `n`-th powers of square matrices, the last two dimensions.", Params: selfOnly,
		Examples: matrixPowerExamples,
	}, matrixPower)
}

// matrixPower multiplies by repeated squaring, in the order of PyTorch's products: x^5 is x * (x^2)^2.
func matrixPower(s applier, a *matrixPowerAttrs, in []*graph.Arg) *graph.Arg {
	x, n := in[0], a.N
	shape := s.shape(x)
	rank := len(shape)
	s.Reject(rank < 2, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
	size := shape[rank-1]
	s.Reject(size.Ne(shape[rank-2]).Holds(), "linalg.matrix_power: A must be batches of square matrices, but they are %v "+
		"by %v matrices", shape[rank-2], size)
	matmul := func(x, y *graph.Arg) *graph.Arg { return s.Apply(product.Matmul, nil, x, y) }
	switch {
	case n == 0:
		identity := s.Apply(view.Eye, graph.Attrs{"n": size, "dtype": x.Type().DType})
		return s.rowMajor(s.Apply(view.Expand, graph.Attrs{"size": shape}, identity))
	case n == 1:
		return s.rowMajor(x)
	case n < 0:
		x, n = s.Apply(linalg.Inv, nil, x), -n
	}
	switch n {
	case 1:
		return x
	case 3: // PyTorch multiplies the square by x; the loop below would multiply x by the square
		return matmul(matmul(x, x), x)
	}
	// In iteration k, x is the operand to the power 2^k. The result is the product of these powers for all bits k of n
	// that are 1.
	var result *graph.Arg
	for ; ; x = matmul(x, x) {
		if n%2 == 1 {
			if result == nil {
				result = x
			} else {
				result = matmul(result, x)
			}
		}
		if n /= 2; n == 0 {
			return result
		}
	}
}

// multiDot multiplies matrices in the order that takes the fewest multiplications of elements. A vector is a row if it
// is the first operand, and a column if it is the last.
func multiDot(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	s.checkMultiDot(in)
	count := len(in)
	var resultShape []sym.Int
	first, last := in[0].Type(), in[count-1].Type()
	if first.Rank() == 1 {
		in[0] = s.unsqueeze(in[0], 0) // a row; the result has no dimension for it
	} else {
		resultShape = append(resultShape, first.Shape[0])
	}
	if last.Rank() == 1 {
		in[count-1] = s.unsqueeze(in[count-1], -1) // a column
	} else {
		resultShape = append(resultShape, last.Shape[1])
	}
	for i := range in[1:] {
		x, y := in[i].Type(), in[i+1].Type()
		s.Reject(x.Shape[1].Ne(y.Shape[0]).Holds(), "multi_dot(): tensors %d and %d with shapes [%s] and [%s] cannot be "+
			"multiplied", i, i+1, tensor.Sizes(x.Shape), tensor.Sizes(y.Shape))
	}
	return s.reshape(s.chainProduct(in, s.splits(in), 0, count-1), resultShape...)
}

// checkMultiDot rejects fewer than two operands, and ranks and dtypes that linalg_multi_dot does not accept.
func (s applier) checkMultiDot(in []*graph.Arg) {
	count := len(in)
	s.Reject(count < 2, "multi_dot(): expected at least 2 tensors but got %d", count)
	for i, x := range in {
		rank := x.Type().Rank()
		switch i {
		case 0:
			s.Reject(rank != 1 && rank != 2, "multi_dot(): the first tensor must be 1D or 2D but got %dD", rank)
		case count - 1:
			s.Reject(rank != 1 && rank != 2, "multi_dot(): the last tensor must be 1D or 2D but got %dD", rank)
		default:
			s.Reject(rank != 2, "multi_dot(): tensor %d must be 2D but got %dD", i, rank)
		}
		s.Reject(x.Type().DType != in[0].Type().DType, "multi_dot(): all tensors must have be the same dtype but tensor 0 "+
			"is %s and tensor %d is %s", in[0].Type().DType.TorchName(), i, x.Type().DType.TorchName())
	}
}

// splits returns an index k for each i < j. The product of operands i to j takes the fewest multiplications of elements
// if it is computed as (product of operands i to k) times (product of operands k+1 to j). For example, operands of
// 10x100, 100x5 and 5x50 take 5000+2500 multiplications as (AB)C and 25000+50000 as A(BC), so splits[0][2] is 1. splits
// finds the indices by dynamic programming: for products of 2 operands first, then of 3, and so on.
func (s applier) splits(in []*graph.Arg) [][]int {
	count := len(in)
	sizes := []sym.Int{s.shape(in[0])[0]}
	for _, x := range in {
		sizes = append(sizes, s.shape(x)[1])
	}
	cost, split := make([][]sym.Int, count), make([][]int, count)
	for i := range count {
		cost[i], split[i] = make([]sym.Int, count), make([]int, count)
	}
	for distance := 1; distance < count; distance++ {
		for i := 0; i+distance < count; i++ {
			// cost[i][j] = min over k of cost[i][k] + cost[k+1][j] + sizes[i]*sizes[k+1]*sizes[j+1]
			j := i + distance
			for k := i; k < j; k++ {
				multiplications := kit.BoundedSizeProduct(kit.BoundedSizeProduct(sizes[i], sizes[k+1]), sizes[j+1])
				candidate := cost[i][k].Add(cost[k+1][j]).Add(multiplications)
				if k == i || candidate.Lt(cost[i][j]).Holds() {
					cost[i][j], split[i][j] = candidate, k
				}
			}
		}
	}
	return split
}

// chainProduct multiplies operands i to j. splits says where each product of several operands is divided.
func (s applier) chainProduct(in []*graph.Arg, splits [][]int, i, j int) *graph.Arg {
	if i == j {
		return in[i]
	}
	k := splits[i][j]
	return s.Apply(product.Mm, nil, s.chainProduct(in, splits, i, k), s.chainProduct(in, splits, k+1, j))
}

// pinv returns the pseudoinverses of matrices. The pseudoinverse of left diag(values) right^H is right diag(1/values)
// left^H. A singular value counts as 0, and is not inverted, if it is at most max(atol, rtol * greatest singular
// value).
func (s applier) pinv(x *graph.Arg, atol, rtol givenTolerance, isHermitian bool) *graph.Arg {
	xType := x.Type()
	dtype := xType.DType
	isSupported := (dtype.IsFloat() || dtype.IsComplex()) && !dtype.IsReducedFloat()
	s.Reject(xType.Rank() < 2 || !isSupported,
		"linalg.pinv(%s{%s}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
		dtype.TorchName(), tensor.Sizes(xType.Shape))
	if kit.IsEmpty(xType) {
		rank := xType.Rank()
		shape := append(append([]sym.Int{}, xType.Shape[:rank-2]...), xType.Shape[rank-1], xType.Shape[rank-2])
		return s.Apply(view.NewZeros, graph.Attrs{"size": shape}, x)
	}
	var left, right, values, magnitudes *graph.Arg
	if isHermitian {
		factors := s.ApplyMany(linalg.Eigh, nil, x)
		values, left, right = factors[0], factors[1], factors[1]
		magnitudes = s.abs(values)
	} else {
		factors := s.ApplyMany(linalg.LinalgSVD, graph.Attrs{"full_matrices": false}, x)
		left, values, right = factors[0], factors[1], s.adjoint(factors[2])
		magnitudes = values
	}
	isNonzero := s.Apply(pointwise.Gt, nil, magnitudes, s.zeroThreshold(x, magnitudes, atol, rtol))
	inverted := s.where(isNonzero, s.Apply(pointwise.Reciprocal, nil, values), s.Apply(view.ZerosLike, nil, values))
	return s.Apply(product.Matmul, nil, s.mul(right, s.to(s.unsqueeze(inverted, -2), dtype)), s.adjoint(left))
}

// adjoint returns the conjugate transposes of matrices, or the conjugate of a value of rank 0.
func (s applier) adjoint(x *graph.Arg) *graph.Arg {
	x = s.Apply(view.MT, nil, x)
	if x.Type().DType.IsComplex() {
		x = s.Apply(pointwise.ConjPhysical, nil, x)
	}
	return x
}

// matrixRank counts the singular values above the threshold of the tolerances.
func matrixRank(s applier, a *matrixRankAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	xType := x.Type()
	s.Reject(xType.Rank() < 2, "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
	const includeBool = true
	s.Reject(xType.DType.IsReducedFloat() || xType.DType.IsIntegral(includeBool),
		"This function doesn't handle types other than float and double")
	atol, rtol := s.toleranceOf("matrix_rank", "atol", a.Atol, in[1]), s.toleranceOf("matrix_rank", "rtol", a.Rtol, in[2])
	if tol := s.toleranceOf("matrix_rank", "tol", a.Tol, in[3]); tol.isGiven() {
		atol, rtol = tol, numberTolerance(0)
	}
	if kit.IsEmpty(xType) {
		shape := xType.Shape[:xType.Rank()-2]
		return s.Apply(view.Full, graph.Attrs{"size": shape, "fill_value": 0, "dtype": tensor.Int64})
	}
	var values *graph.Arg
	if a.Hermitian {
		values = s.abs(s.Apply(linalg.Eigvalsh, nil, x))
	} else {
		values = s.Apply(linalg.Svdvals, nil, x)
	}
	return s.sum(s.Apply(pointwise.Gt, nil, values, s.zeroThreshold(x, values, atol, rtol)), dropDims, []int{-1})
}
