package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/linalg"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type tensorinvAttrs struct {
	Ind int `attr:"ind" default:"2" doc:"number of dimensions that are the rows of the matrix"`
}

type tensorsolveAttrs struct {
	Dims []int `attr:"dims" default:"none" doc:"dimensions of self that are moved to the end first"`
}

type vanderAttrs struct {
	N *int `attr:"N" default:"none" doc:"number of columns; default: the number of elements of a vector"`
}

type luUnpackAttrs struct {
	UnpackData   bool `attr:"unpack_data" default:"true" doc:"return L and U; else they are empty"`
	UnpackPivots bool `attr:"unpack_pivots" default:"true" doc:"return P; else it is empty"`
}

// LUUnpack is torch.lu_unpack. L and U are exact copies, even of integers that float64 cannot hold.
var LUUnpack = define(graph.Semantics{
	Name: "lu_unpack", Doc: "Returns P, L and U from the results of linalg_lu_factor, `LU_data` and `LU_pivots`: P " +
		"permutes rows, L is lower triangular with ones on the diagonal, U is upper triangular. Dimensions before the " +
		"last two are a batch.",
	Params: linalg.LUUnpackParams, Outputs: []string{"P", "L", "U"},
	Examples: []graph.Example{
		kit.Example(graph.Attrs{"unpack_pivots": false}, kit.F32(2, 4, 3), tensor.New(tensor.Int32, 2, 3)),
		kit.Example(graph.Attrs{"unpack_pivots": false}, kit.F32(3, 5), tensor.New(tensor.Int32, 3))},
}, luUnpack)

// luUnpack extracts the triangles L and U from LU_data, which has both in one matrix: L below the diagonal, without its
// ones, and U from the diagonal on. The arguments of slice are a value, a dimension, the start and the end.
func luUnpack(s applier, a *luUnpackAttrs, in []*graph.Arg) []*graph.Arg {
	data := in[0]
	permutation := s.Apply(linalg.LUPermutation(), graph.Attrs{"unpack_pivots": a.UnpackPivots}, data, in[1])
	if !a.UnpackData {
		none := func() *graph.Arg { return s.Apply(view.NewZeros, graph.Attrs{"size": []int{0}}, data) }
		return []*graph.Arg{permutation, none(), none()}
	}
	shape := s.shape(data)
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	lower := s.Apply(view.Tril, graph.Attrs{"diagonal": -1}, s.slice(data, -1, 0, rows.Min(cols)))
	diagonal := s.Apply(view.Eye, graph.Attrs{"n": rows, "m": rows.Min(cols), "dtype": tensor.Bool})
	one := s.Apply(view.NewOnes, graph.Attrs{"size": []int{}}, data)
	upper := s.Apply(view.Triu, nil, s.slice(data, -2, 0, rows.Min(cols)))
	return []*graph.Arg{permutation, s.rowMajor(s.where(diagonal, one, lower)), s.rowMajor(upper)}
}

// Equations with tensors in place of matrices, and Vandermonde matrices. The function of an op applies other ops
// (steps.go) and returns the result.
var (
	LinalgTensorinv = defineOneResult(graph.Semantics{
		Name: "linalg_tensorinv", Doc: "Inverts self as a linear map, x -> tensordot(self, x). The first `ind` " +
			"dimensions of self are the rows of its matrix, the others the columns.", Params: selfOnly,
		Examples: []graph.Example{kit.Example(graph.Attrs{"ind": 1}, kit.F32(6, 2, 3))},
	}, tensorinv)
	LinalgTensorsolve = defineOneResult(graph.Semantics{
		Name: "linalg_tensorsolve", Doc: "Solves tensordot(self, x) = other for x. The first dimensions of self, " +
			"as many as `other` has, are the rows of its matrix, the others the columns.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3, 6), kit.F32(2, 3))},
	}, tensorsolve)
	LinalgVander = defineOneResult(graph.Semantics{
		Name: "linalg_vander", Doc: "Returns Vandermonde matrices: the powers of the elements of `x`, from 0 to " +
			"`N` - 1, along a new last dimension.", Params: []graph.Param{{Name: "x"}},
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3)), kit.Example(graph.Attrs{"N": 2}, kit.F32(3))},
	}, vander)
)

// tensorinv inverts the matrix of self. For example, self [6, 2, 3] with ind 1 is a 6x6 matrix, and the result is
// [2, 3, 6].
func tensorinv(s applier, a *tensorinvAttrs, in []*graph.Arg) *graph.Arg {
	shape := s.shape(in[0])
	s.Reject(a.Ind <= 0, "Expected a strictly positive integer for 'ind', but got %d", a.Ind)
	s.Reject(a.Ind > len(shape), "linalg.tensorinv: expected self to have at least ind = %d dimensions, but got %d", a.Ind,
		len(shape))
	rows, columns := tensor.Product(shape[:a.Ind]), tensor.Product(shape[a.Ind:])
	s.Reject(rows.Ne(columns).Holds(), "Expected self to satisfy the requirement prod(self.shape[ind:]) == "+
		"prod(self.shape[:ind]), but got %v != %v", columns, rows)
	inverse := s.Apply(linalg.Inv, nil, s.reshape(in[0], rows, columns))
	return s.reshape(inverse, slices.Concat(shape[a.Ind:], shape[:a.Ind])...)
}

// tensorsolve solves the equation of matrices. For example, self [2, 3, 6] is a 6x6 matrix, other [2, 3] a vector of 6
// elements, and the result is [6].
func tensorsolve(s applier, a *tensorsolveAttrs, in []*graph.Arg) *graph.Arg {
	x, otherShape := in[0], s.shape(in[1])
	if a.Dims != nil {
		lastDims := make([]int, len(a.Dims))
		for i := range lastDims {
			lastDims[i] = i - len(lastDims)
		}
		x = s.Apply(view.Movedim, graph.Attrs{"source": a.Dims, "destination": lastDims}, x)
	}
	shape := s.shape(x)
	s.Reject(len(shape) < len(otherShape),
		"linalg.tensorsolve: expected self to have at least the %d dimensions of other, but got %d", len(otherShape),
		len(shape))
	rows, columns := tensor.Product(otherShape), tensor.Product(shape[len(otherShape):])
	s.Reject(rows.Ne(columns).Holds() || tensor.Product(shape[:len(otherShape)]).Ne(rows).Holds(),
		"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but "+
			"got %v != %v", columns, rows)
	result := s.Apply(linalg.Solve, nil, s.reshape(x, rows, columns), s.reshape(in[1], rows))
	return s.reshape(result, shape[len(otherShape):]...)
}

// vander returns a row of powers for each element of x: 1, x, x^2 and so on.
func vander(s applier, a *vanderAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	dtype := x.Type().DType
	s.Reject(dtype == tensor.Bool || dtype.IsReducedFloat(),
		"linalg.vander supports floating point, complex, and integer tensors, but got %s", dtype.TorchName())
	if x.Type().Rank() == 0 {
		x = s.unsqueeze(x, 0)
	}
	shape := s.shape(x)
	columns := shape[len(shape)-1]
	if a.N != nil {
		columns = sym.Of(*a.N)
	}
	s.Reject(columns.Le(sym.Of(1)).Holds(), "N must be greater than 1.")
	sizes := func(last sym.Int) graph.Attrs { return graph.Attrs{"size": append(slices.Clone(shape), last)} }
	expanded := s.Apply(view.Expand, sizes(columns.Sub(sym.Of(1))), s.unsqueeze(x, -1))
	// Running products of equal elements are powers, from the first power on.
	powers := s.Apply(reduce.Cumprod, graph.Attrs{"dim": -1}, expanded)
	ones := s.Apply(view.NewOnes, sizes(sym.Of(1)), powers)
	return s.Apply(view.Cat, graph.Attrs{"dim": -1}, ones, powers)
}
