package linalg

import (
	"errors"
	"fmt"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type luAttrs struct {
	Pivot bool `attr:"pivot" default:"true" doc:"exchange rows; it must be true"`
}

type luExAttrs struct {
	Pivot       bool `attr:"pivot" default:"true" doc:"exchange rows; it must be true"`
	CheckErrors bool `attr:"check_errors" default:"false" doc:"return an error if a pivot is 0; else report it in info"`
}

type luPermutationAttrs struct {
	UnpackPivots bool `attr:"unpack_pivots" default:"true" doc:"return P; else it is empty"`
}

type luSolveAttrs struct {
	Left    bool `attr:"left" default:"true" doc:"solve A X = B; else X A = B"`
	Adjoint bool `attr:"adjoint" default:"false" doc:"solve with the adjoint of A"`
}

var luResultNames = []string{"P", "L", "U"}

// Ops that compute LU factors, or solve equations with them. An LU factorization is A = P L U. For example, for the
// rows [0 2] and [4 6] of A:
//
//	0 2   0 1   1 0   4 6
//	4 6 = 1 0 * 0 1 * 0 2
//
// linalg_lu_factor returns L and U in one matrix, and P as the pivots [2 2]: row 1 is exchanged with row 2, then row 2
// with itself.
//
// define.go has the types task and algorithm. A task is one index of the batch, with operands (in) and results (out,
// which are 0 at first). An algorithm has the functions that compute a task. Its function ranks gives the number of
// dimensions besides the batch of each operand and result: 2 for a matrix, 1 for pivots, 0 for info. Its function
// solverElements gives the number of elements of temporary matrices. elementsOfCopies(1) stands for one copy of all
// operands. The matrices of a task are column-major.
var (
	LUFactor   = luFactorOp(graph.SchemaOf[*luAttrs](), "linalg_lu_factor", []string{"LU", "pivots"})
	LUFactorEx = luFactorOp(graph.SchemaOf[*luExAttrs](), "linalg_lu_factor_ex", []string{"LU", "pivots", "info"})
	LU         = matrixOp(graph.SchemaOf[*luAttrs](), graph.Semantics{Name: "linalg_lu",
		Doc: "Factors each matrix as P L U: P permutes rows, L is lower triangular with ones on the diagonal, U is upper " +
			"triangular.", Params: []graph.Param{operandA}, Outputs: luResultNames,
		Infer: inferLU, Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{float: factorLU[float64], complex: factorLU[complex128], ranks: matrixResults(3)})
	LinalgLUSolve = matrixOp(graph.SchemaOf[*luSolveAttrs](), graph.Semantics{Name: "linalg_lu_solve",
		Doc: "Solves linear equations with the results `LU` and `pivots` of linalg_lu_factor of a matrix A: A X " +
			"= B, or X A = B.",
		Params: []graph.Param{{Name: "LU"}, {Name: "pivots"}, {Name: "B"}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return inferLUSolve(c, c.Type(0), c.Type(1), c.Type(2), kit.Attrs[*luSolveAttrs](c).Left)
		},
		Examples: examplesOfLUSolve(0, 1, 2), // LU, pivots, B
	}, algorithm{float: linalgLUSolve[float64], complex: linalgLUSolve[complex128], solverElements: elementsOfCopies(1),
		ranks: fixedRanks([]int{2, 1, 2}, []int{2})})
	LUSolve = matrixOp(kit.NoAttrs, graph.Semantics{Name: "lu_solve",
		Doc:    "Solves A X = self. `LU_data` and `LU_pivots` are the results of linalg_lu_factor for A.",
		Params: []graph.Param{kit.Self, {Name: "LU_data"}, {Name: "LU_pivots"}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			const isLeft = true
			return inferLUSolve(c, c.Type(1), c.Type(2), c.Type(0), isLeft)
		},
		Examples: examplesOfLUSolve(1, 2, 0), // LU, pivots, B
	}, algorithm{float: luSolve[float64], complex: luSolve[complex128], solverElements: elementsOfCopies(1),
		ranks: fixedRanks([]int{2, 2, 1}, []int{2})})
)

// luFactorOp defines linalg_lu_factor or linalg_lu_factor_ex.
func luFactorOp(attrs *graph.Schema, name string, outputs []string) *graph.Op {
	hasInfo := len(outputs) > 2
	attrsOf := func(c *graph.Call) luExAttrs { // linalg_lu_factor always returns an error if a pivot is 0
		if hasInfo {
			return *kit.Attrs[*luExAttrs](c)
		}
		return luExAttrs{Pivot: kit.Attrs[*luAttrs](c).Pivot, CheckErrors: true}
	}
	doc := "Factors each matrix as P L U. `LU` stores U and, below the diagonal, L without its ones on the " +
		"diagonal. P follows from `pivots`: in order, row i is exchanged with row pivots[i]; rows are numbered " +
		"from 1."
	if hasInfo {
		doc += " `info` is 0, or the number of the first pivot that is 0."
	}
	return matrixOp(attrs, graph.Semantics{Name: name, Doc: doc, Params: []graph.Param{operandA}, Outputs: outputs,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			aType := c.Type(0)
			if err := checkLU("torch.lu_factor", aType, attrsOf(c).Pivot); err != nil {
				return nil, err
			}
			rank := aType.Rank()
			out, err := columnMajor(aType.DType, aType.Shape...)
			pivots := tensor.NewType(tensor.Int32, withBatch(batchSizes(aType),
				aType.Shape[rank-2].Min(aType.Shape[rank-1]))...)
			return c.NewResults([]tensor.Type{out, pivots, infoType(batchSizes(aType))}[:len(outputs)]...), err
		},
		Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{
		float:   func(t *task[float64]) error { return factorPackedLU(t, attrsOf(t.call)) },
		complex: func(t *task[complex128]) error { return factorPackedLU(t, attrsOf(t.call)) },
		ranks:   fixedRanks([]int{2}, []int{2, 1, 0}[:len(outputs)])})
}

// factorPackedLU computes the results LU (both factors in one matrix) and pivots of a task, and info if it is a result.
func factorPackedLU[T number](t *task[T], attrs luExAttrs) error {
	a := t.in[0]
	pivots := make([]int, min(a.rows, a.cols))
	info := t.lu(a, pivots)
	if info > 0 && attrs.CheckErrors {
		return fmt.Errorf("torch.linalg.lu_factor: %sU[%d,%d] is zero and using it on lu_solve would result in a division "+
			"by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "+
			"linalg.lu_factor_ex(A, pivot)", t.errorPrefix(), info, info)
	}
	copy(t.out[0].elements, a.elements)
	for i, pivot := range pivots {
		t.out[1].set(i, 0, t.fromParts(float64(pivot), 0))
	}
	if len(t.out) > 2 {
		t.setNumber(2, info)
	}
	return nil
}

// checkLU returns PyTorch's error for a type or a pivot attribute that the LU ops do not accept.
func checkLU(name string, aType tensor.Type, pivot bool) error {
	switch {
	case aType.Rank() < 2:
		return fmt.Errorf("%s: Expected tensor with 2 or more dimensions. Got size: %s instead", name,
			tensor.Sizes(aType.Shape))
	case !pivot:
		return errors.New("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
	case aType.DType.IsIntegral(true) || aType.DType.IsReducedFloat():
		return kit.NotImplemented("lu", aType.DType)
	}
	return nil
}

// inferLU infers P, L and U.
func inferLU(c *graph.Call) ([]graph.Result, error) {
	aType := c.Type(0)
	if err := checkLU("linalg.lu", aType, kit.Attrs[*luAttrs](c).Pivot); err != nil {
		return nil, err
	}
	rank := aType.Rank()
	rows, cols := aType.Shape[rank-2], aType.Shape[rank-1]
	minSize := rows.Min(cols)
	types := make([]tensor.Type, 3)
	for i, sizes := range [][]sym.Int{{rows, rows}, {rows, minSize}, {minSize, cols}} {
		var err error
		if types[i], err = kit.FreshType(aType.DType, withBatch(batchSizes(aType), sizes...)); err != nil {
			return nil, err
		}
	}
	return c.NewResults(types...), nil
}

// factorLU computes the results P, L and U of a task.
func factorLU[T number](t *task[T]) error {
	a := t.in[0]
	pivots := make([]int, min(a.rows, a.cols))
	t.lu(a, pivots)
	setPermutation(t, pivots)
	setTriangles(t, a)
	return nil
}

// setPermutation sets the result P of A = P L U to the matrix that undoes the exchanges of pivots.
func setPermutation[T number](t *task[T], pivots []int) {
	permutation := t.out[0]
	for i := range permutation.cols {
		permutation.set(i, i, t.fromParts(1, 0))
	}
	t.undoExchanges(permutation, pivots)
}

// setTriangles sets the results L and U to the triangles of a, which is the result of method lu. The diagonal of L,
// which a does not store, is set to ones.
func setTriangles[T number](t *task[T], a matrix[T]) {
	lower, upper := t.out[1], t.out[2]
	for j := range a.cols {
		column := a.column(j)
		if j < lower.cols {
			copy(lower.column(j)[j:], column[j:])
			lower.set(j, j, t.fromParts(1, 0))
		}
		copy(upper.column(j), column[:min(j+1, upper.rows)])
	}
}

// luSolveCheck checks the operand LU of linalg_lu_solve and lu_solve.
var luSolveCheck = matrixCheck{name: "torch.linalg.lu_solve", kernel: "linalg.lu_solve", integerErrorNamesOp: true}

// examplesOfLUSolve returns an example with 0x0 matrices, because random numbers would not be valid pivots. The
// arguments are the indices of the operands LU, pivots and B.
func examplesOfLUSolve(lu, pivots, b int) []graph.Example {
	in := make([]tensor.Meta, 3)
	in[lu], in[pivots], in[b] = kit.F32(2, 0, 0), tensor.New(tensor.Int32, 2, 0), kit.F32(0, 4)
	return []graph.Example{{In: in}}
}

// inferLUSolve infers the solution X of A X = B or, if isLeft is not set, of X A = B. lu has the factors of A. It
// returns PyTorch's error if the operands do not match.
func inferLUSolve(c *graph.Call, lu, pivots, b tensor.Type, isLeft bool) ([]graph.Result, error) {
	if err := luSolveCheck.checkSquare(lu); err != nil {
		return nil, err
	}
	switch {
	case lu.DType != b.DType:
		return nil, fmt.Errorf("linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type %s and B of "+
			"type %s instead", lu.DType.TorchName(), b.DType.TorchName())
	case pivots.DType != tensor.Int32:
		return nil, errors.New("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
	case !tensor.SameSizes(lu.Shape[:lu.Rank()-1], pivots.Shape):
		return nil, errors.New("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
	}
	shape, err := equationShape("linalg.lu_solve", lu.Shape, b.Shape, isLeft)
	if err != nil {
		return nil, err
	}
	out, err := columnMajor(lu.DType, shape...)
	if !isLeft {
		out, err = kit.FreshType(lu.DType, shape)
	}
	return c.NewResult(out), err
}

// linalgLUSolve computes the result of linalg_lu_solve.
func linalgLUSolve[T number](t *task[T]) error {
	attrs := kit.Attrs[*luSolveAttrs](t.call)
	return solveByLU(t, t.in[0], t.in[1], t.in[2], attrs.Left, attrs.Adjoint)
}

// luSolve computes the result of lu_solve.
func luSolve[T number](t *task[T]) error {
	const isLeft, isAdjoint = true, notAdjoint
	return solveByLU(t, t.in[1], t.in[2], t.in[0], isLeft, isAdjoint)
}

// solveByLU solves A X = B or, if isLeft is not set, X A = B. If isAdjoint is set, the equation has the adjoint of A in
// place of A. X A = B is solved as A^H X^H = B^H.
func solveByLU[T number](t *task[T], lu, pivots, b matrix[T], isLeft, isAdjoint bool) error {
	pivotRows, err := pivotsOf(t, pivots, lu.rows)
	if err != nil {
		return err
	}
	if isLeft {
		copy(t.out[0].elements, b.elements)
		t.solveLU(lu, pivotRows, t.out[0], isAdjoint)
		return nil
	}
	adjointSolution := t.adjointOf(b)
	t.solveLU(lu, pivotRows, adjointSolution, !isAdjoint)
	t.storeAdjoint(adjointSolution, t.out[0])
	return nil
}

// pivotsOf returns the elements of an operand with pivots. It returns an error if a pivot is not a row number from 1 to
// rows.
func pivotsOf[T number](t *task[T], operand matrix[T], rows int) ([]int, error) {
	pivots := make([]int, operand.rows)
	for i, element := range operand.elements {
		pivot := int(t.re(element))
		if pivot < 1 || pivot > rows {
			return nil, fmt.Errorf("%spivots must be between 1 and %d, got %d", t.errorPrefix(), rows, pivot)
		}
		pivots[i] = pivot
	}
	return pivots, nil
}

// LUPermutation is the part of lu_unpack that computes P. It is not in the catalogue.
var LUPermutation = sync.OnceValue(func() *graph.Op {
	return matrixOp(graph.SchemaOf[*luPermutationAttrs](), graph.Semantics{Name: "lu_permutation",
		Doc:    "Returns P from the results of linalg_lu_factor, or an empty vector.",
		Params: LUUnpackParams, Infer: inferPermutation,
		Examples: []graph.Example{kit.Example(graph.Attrs{"unpack_pivots": false}, tallExample,
			tensor.New(tensor.Int32, 2, 3))},
	}, algorithm{float: unpackPivots[float64], complex: unpackPivots[complex128],
		ranks: fixedRanks([]int{2, 1}, []int{2})})
})

// LUUnpackParams are the operands of lu_unpack. The bound of the pivots keeps generators of input data from large
// integers, which are not pivots.
var LUUnpackParams = []graph.Param{{Name: "LU_data"},
	{Name: "LU_pivots", IndexBound: func(*graph.Call) int { return 1 }}}

// inferPermutation infers the result of lu_permutation.
func inferPermutation(c *graph.Call) ([]graph.Result, error) {
	luType, pivots, attrs := c.Type(0), c.Type(1), kit.Attrs[*luPermutationAttrs](c)
	if luType.Rank() < 2 {
		return nil, fmt.Errorf("torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: %s instead",
			tensor.Sizes(luType.Shape))
	}
	if attrs.UnpackPivots && pivots.DType != tensor.Int32 {
		return nil, errors.New("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
	}
	rank := luType.Rank()
	wantShape := withBatch(batchSizes(luType), luType.Shape[rank-2].Min(luType.Shape[rank-1]))
	if !tensor.SameSizes(wantShape, pivots.Shape) {
		return nil, fmt.Errorf("torch.lu_unpack: Expected LU_pivots of shape %s, got %s", tensor.Sizes(wantShape),
			tensor.Sizes(pivots.Shape))
	}
	if !attrs.UnpackPivots {
		return c.NewResult(emptyVector(luType.DType)), nil
	}
	rows := luType.Shape[rank-2]
	out, err := kit.FreshType(luType.DType, withBatch(batchSizes(luType), rows, rows))
	return c.NewResult(out), err
}

// unpackPivots computes the result of lu_permutation.
func unpackPivots[T number](t *task[T]) error {
	if !kit.Attrs[*luPermutationAttrs](t.call).UnpackPivots {
		return nil
	}
	pivots, err := pivotsOf(t, t.in[1], t.in[0].rows)
	if err != nil {
		return err
	}
	setPermutation(t, pivots)
	return nil
}
