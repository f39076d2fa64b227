package linalg

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type upperAttrs struct {
	Upper bool `attr:"upper" default:"false" doc:"the factors are upper triangles, the adjoints of L"`
}

type choleskyExAttrs struct {
	Upper       bool `attr:"upper" default:"false" doc:"the factors are upper triangles, the adjoints of L"`
	CheckErrors bool `attr:"check_errors" default:"false" doc:"return an error if a matrix is not positive definite; else report it in info"`
}

// Ops that compute Cholesky factors, or solve equations with them. The factor of a positive definite matrix A is the
// lower triangle L with A = L L^H. With L, an equation A x = b is solved in two steps with triangular matrices:
//
//	L y   = b
//	L^H x = y
var (
	LinalgCholesky = choleskyOp(graph.SchemaOf[*upperAttrs](), "linalg_cholesky", nil,
		matrixCheck{name: "linalg.cholesky", kernel: "cholesky", integerErrorNamesOp: true},
		alwaysChecked)
	Cholesky = choleskyOp(graph.SchemaOf[*upperAttrs](), "cholesky", nil,
		matrixCheck{name: "cholesky", kernel: "cholesky"},
		alwaysChecked)
	CholeskyEx = choleskyOp(graph.SchemaOf[*choleskyExAttrs](), "linalg_cholesky_ex", []string{"L", "info"},
		matrixCheck{name: "linalg.cholesky", kernel: "cholesky", integerErrorNamesOp: true},
		func(c *graph.Call) choleskyExAttrs { return *kit.Attrs[*choleskyExAttrs](c) })
	CholeskyInverse = matrixOp(graph.SchemaOf[*upperAttrs](), graph.Semantics{Name: "cholesky_inverse",
		Doc: "Returns the inverses of the positive definite matrices with the Cholesky factors self.", Params: selfOnly,
		Infer: inferCholeskyInverse, Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: invertByCholesky[float64], complex: invertByCholesky[complex128],
		solverElements: elementsOfCopies(2), ranks: matrixResults(1)})
	CholeskySolve = matrixOp(graph.SchemaOf[*upperAttrs](), graph.Semantics{Name: "cholesky_solve",
		Doc:    "Solves A X = self for positive definite matrices A with the Cholesky factors `input2`.",
		Params: []graph.Param{kit.Self, {Name: "input2"}}, Infer: inferCholeskySolve,
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 2), squareExample), kit.Example(graph.Attrs{"upper": true},
			tensor.New(tensor.Complex128, 3, 1), complexExample)},
	}, algorithm{float: solveByCholesky[float64], complex: solveByCholesky[complex128],
		solverElements: elementsOfCopies(2), ranks: matrixResults(1)})
)

// choleskyOp defines an op that returns Cholesky factors. If outputs is not nil, the op also returns info. check has
// the names in the op's errors. attrsOf returns the attributes of a call.
func choleskyOp(attrs *graph.Schema, name string, outputs []string, check matrixCheck,
	attrsOf func(*graph.Call) choleskyExAttrs) *graph.Op {
	doc := "Returns the Cholesky factor L of each positive definite matrix A = L L^H, or the adjoint of L if `upper` " +
		"is set. Only the lower triangle of A is read, or the upper one if `upper` is set."
	hasInfo := outputs != nil
	// Examples have random matrices, which are not positive definite. An op without info returns an error for them, so
	// its example has no elements.
	ranks, operands := matrixResults(1), []tensor.Meta{kit.F32(2, 0, 0)}
	if hasInfo {
		doc += " `info` is 0, or the order of the first leading minor that is not positive; the columns of L from this " +
			"order on are then not computed."
		ranks, operands = fixedRanks([]int{2}, []int{2, 0}), []tensor.Meta{squareExample, complexExample}
	}
	return matrixOp(attrs, graph.Semantics{Name: name, Doc: doc, Params: selfOnly, Outputs: outputs,
		Infer:    func(c *graph.Call) ([]graph.Result, error) { return inferCholesky(c, check, hasInfo) },
		Examples: examples(nil, operands...),
	}, algorithm{
		float:          func(t *task[float64]) error { return factorCholesky(t, check.name, attrsOf(t.call)) },
		complex:        func(t *task[complex128]) error { return factorCholesky(t, check.name, attrsOf(t.call)) },
		solverElements: elementsOfCopies(1), ranks: ranks})
}

// inferCholesky infers the results of an op that choleskyOp defines.
func inferCholesky(c *graph.Call, check matrixCheck, hasInfo bool) ([]graph.Result, error) {
	aType := c.Type(0)
	if check.name == "cholesky" && kit.IsEmpty(aType) { // PyTorch's cholesky does not check an empty operand
		return c.NewResult(aType.RowMajor()), nil
	}
	if err := check.checkSquare(aType); err != nil {
		return nil, err
	}
	out, err := columnMajor(aType.DType, aType.Shape...)
	if hasInfo {
		return c.NewResults(out, infoType(batchSizes(aType))), err
	}
	return c.NewResult(out), err
}

// inferCholeskyInverse infers the result of cholesky_inverse.
func inferCholeskyInverse(c *graph.Call) ([]graph.Result, error) {
	factorType := c.Type(0)
	check := matrixCheck{name: "cholesky_inverse", kernel: "cholesky_inverse_out"}
	if err := check.checkSquare(factorType); err != nil {
		return nil, err
	}
	out, err := columnMajor(factorType.DType, factorType.Shape...)
	return c.NewResult(out), err
}

// alwaysChecked returns the attributes of an op that has no attribute check_errors and always returns an error if a
// matrix is not positive definite.
func alwaysChecked(c *graph.Call) choleskyExAttrs {
	return choleskyExAttrs{Upper: kit.Attrs[*upperAttrs](c).Upper, CheckErrors: true}
}

// factorCholesky computes the Cholesky factor of the matrix of a task, and info if it is a result. name is the name of
// the op in its error.
func factorCholesky[T number](t *task[T], name string, attrs choleskyExAttrs) error {
	a := t.in[0]
	if attrs.Upper {
		a = t.adjointOf(a) // t.cholesky reads the lower triangle, which now is the upper triangle of A
	}
	info := t.cholesky(a)
	if info > 0 && attrs.CheckErrors {
		return fmt.Errorf("%s: %sThe factorization could not be completed because the input is not positive-definite (the "+
			"leading minor of order %d is not positive-definite).", name, t.errorPrefix(), info)
	}
	if attrs.Upper {
		t.storeAdjoint(a, t.out[0])
	} else {
		copy(t.out[0].elements, a.elements)
	}
	if len(t.out) > 1 {
		t.setNumber(1, info)
	}
	return nil
}

// invertByCholesky computes the result of cholesky_inverse: the solution X of L L^H X = I.
func invertByCholesky[T number](t *task[T]) error {
	lower, x := lowerFactor(t, t.in[0]), t.out[0]
	for i := range lower.cols {
		if lower.at(i, i) == 0 {
			return fmt.Errorf("cholesky_inverse: %sThe diagonal element %d is zero, the inversion could not be completed "+
				"because the input matrix is singular.", t.errorPrefix(), i+1)
		}
		x.set(i, i, t.fromParts(1, 0))
	}
	t.solveFactored(lower, x)
	return nil
}

// inferCholeskySolve infers the result of cholesky_solve.
func inferCholeskySolve(c *graph.Call) ([]graph.Result, error) {
	bType, aType := c.Type(0), c.Type(1)
	for i, torchName := range []string{"b", "u"} {
		if rank := c.Type(i).Rank(); rank < 2 {
			return nil, fmt.Errorf("%s should have at least 2 dimensions, but has %d dimensions instead", torchName, rank)
		}
	}
	if err := (matrixCheck{kernel: "cholesky_solve"}).checkSquare(aType); err != nil {
		return nil, err
	}
	if aType.DType != bType.DType {
		return nil, errors.New("cholesky_solve: Expected b and A to have the same dtype")
	}
	aRank, bRank := aType.Rank(), bType.Rank()
	if aType.Shape[aRank-1].Ne(bType.Shape[bRank-2]).Holds() {
		return nil, fmt.Errorf("Incompatible matrix sizes for cholesky_solve: each A matrix is %v by %v but each b matrix "+
			"is %v by %v", aType.Shape[aRank-1], aType.Shape[aRank-1], bType.Shape[bRank-2], bType.Shape[bRank-1])
	}
	batch, err := tensor.BroadcastSizes(batchSizes(bType), batchSizes(aType))
	if err != nil {
		return nil, err
	}
	out, err := columnMajor(aType.DType, withBatch(batch, bType.Shape[bRank-2:]...)...)
	return c.NewResult(out), err
}

// solveByCholesky computes the result of cholesky_solve.
func solveByCholesky[T number](t *task[T]) error {
	b, factor, x := t.in[0], t.in[1], t.out[0]
	copy(x.elements, b.elements)
	t.solveFactored(lowerFactor(t, factor), x)
	return nil
}

// lowerFactor returns the Cholesky factor L. factor is L^H if the attribute upper of the task is set, otherwise L.
func lowerFactor[T number](t *task[T], factor matrix[T]) matrix[T] {
	if kit.Attrs[*upperAttrs](t.call).Upper {
		return t.adjointOf(factor)
	}
	return factor
}

// solveFactored overwrites b with the solution x of L L^H x = b, for the lower triangle L.
func (s *solver[T]) solveFactored(lower, b matrix[T]) {
	s.solveTriangular(lower, triangle{}, b)
	s.solveTriangular(s.adjointOf(lower), triangle{isUpper: true}, b)
}
