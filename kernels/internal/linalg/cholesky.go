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

// The ops of this file compute Cholesky factors, or solve equations with them. The factor of a positive definite matrix
// A is the lower triangle L with A = L L^H, where L^H is the adjoint of L: the conjugate transpose. For example, A = [4
// 2; 2 5] has L = [2 0; 1 2]. With L, an equation A x = b is solved in two steps with triangular matrices:
//
//	L y   = b
//	L^H x = y
//
// An op has an [algorithm]: a function for real and a function for complex numbers. The function computes one matrix of
// the batch. It gets a [task], which has copies of the operands (in), and the results (out), which are 0 at first.
// solverElements gives the memory for other matrices, such as adjoints. ranks has the numbers of dimensions besides the
// batch, of operands and of results: 2 for a matrix, 0 for info. A [matrixCheck] checks the type of an operand. It has
// the names of the op and of the kernel in PyTorch's errors.
var (
	LinalgCholesky = matrixOp(graph.SchemaOf[*upperAttrs](), graph.Semantics{Name: "linalg_cholesky",
		Doc: choleskyDoc, Params: selfOnly, Infer: inferLinalgCholesky, Examples: emptyExample,
	}, choleskyAlgorithm("linalg.cholesky", matrixResults(1), alwaysChecked))
	Cholesky = matrixOp(graph.SchemaOf[*upperAttrs](), graph.Semantics{Name: "cholesky",
		Doc: choleskyDoc, Params: selfOnly, Infer: inferCholesky, Examples: emptyExample,
	}, choleskyAlgorithm("cholesky", matrixResults(1), alwaysChecked))
	CholeskyEx = matrixOp(graph.SchemaOf[*choleskyExAttrs](), graph.Semantics{Name: "linalg_cholesky_ex",
		Doc: choleskyDoc + " `info` is 0, or the order of the first leading minor that is not positive; the columns of L " +
			"from this order on are then not computed.",
		Params: selfOnly, Outputs: []string{"L", "info"}, Infer: inferCholeskyEx,
		Examples: examples(nil, squareExample, complexExample),
	}, choleskyAlgorithm("linalg.cholesky", fixedRanks([]int{2}, []int{2, 0}),
		func(c *graph.Call) choleskyExAttrs { return *kit.Attrs[*choleskyExAttrs](c) }))
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

// choleskyDoc is the doc of the ops that return Cholesky factors.
const choleskyDoc = "Returns the Cholesky factor L of each positive definite matrix A = L L^H, or the adjoint of L " +
	"if `upper` is set. Only the lower triangle of A is read, or the upper one if `upper` is set."

// emptyExample is an operand without elements. Other examples have random matrices, which are not positive definite: an
// op without the result info returns an error for them.
var emptyExample = examples(nil, kit.F32(2, 0, 0))

// choleskyAlgorithm returns the algorithm of an op that returns Cholesky factors. name is the name of the op in its
// error. ranks are the ranks of operands and results without the batch. attrsOf returns the attributes of a call.
func choleskyAlgorithm(name string, ranks func(*graph.Call) (in, out []int),
	attrsOf func(*graph.Call) choleskyExAttrs) algorithm {
	return algorithm{
		float:          func(t *task[float64]) error { return factorCholesky(t, name, attrsOf(t.call)) },
		complex:        func(t *task[complex128]) error { return factorCholesky(t, name, attrsOf(t.call)) },
		solverElements: elementsOfCopies(1), ranks: ranks}
}

// linalgCholeskyCheck checks the operand of linalg_cholesky and linalg_cholesky_ex.
var linalgCholeskyCheck = matrixCheck{name: "linalg.cholesky", kernel: "cholesky", integerErrorNamesOp: true}

// inferLinalgCholesky infers the result of linalg_cholesky.
func inferLinalgCholesky(c *graph.Call) ([]graph.Result, error) {
	out, err := squareResult(c.Type(0), linalgCholeskyCheck)
	return c.NewResult(out), err
}

// inferCholesky infers the result of cholesky.
func inferCholesky(c *graph.Call) ([]graph.Result, error) {
	aType := c.Type(0)
	if kit.IsEmpty(aType) { // PyTorch does not check an empty operand
		return c.NewResult(aType.RowMajor()), nil
	}
	out, err := squareResult(aType, matrixCheck{name: "cholesky", kernel: "cholesky"})
	return c.NewResult(out), err
}

// inferCholeskyEx infers the results of linalg_cholesky_ex.
func inferCholeskyEx(c *graph.Call) ([]graph.Result, error) {
	aType := c.Type(0)
	out, err := squareResult(aType, linalgCholeskyCheck)
	if err != nil {
		return nil, err
	}
	return c.NewResults(out, infoType(batchSizes(aType))), nil
}

// squareResult checks an operand of square matrices and returns the type of a result of the same shape.
func squareResult(operand tensor.Type, check matrixCheck) (tensor.Type, error) {
	if err := check.checkSquare(operand); err != nil {
		return tensor.Type{}, err
	}
	return columnMajor(operand.DType, operand.Shape...)
}

// inferCholeskyInverse infers the result of cholesky_inverse.
func inferCholeskyInverse(c *graph.Call) ([]graph.Result, error) {
	out, err := squareResult(c.Type(0), matrixCheck{name: "cholesky_inverse", kernel: "cholesky_inverse_out"})
	return c.NewResult(out), err
}

// alwaysChecked returns the attributes of an op that has no attribute check_errors and always returns an error if a
// matrix is not positive definite.
func alwaysChecked(c *graph.Call) choleskyExAttrs {
	return choleskyExAttrs{Upper: kit.Attrs[*upperAttrs](c).Upper, CheckErrors: true}
}

// factorCholesky computes the Cholesky factor of the matrix of a task, and info if it is a result. info is 0, or the
// order of the first leading minor that is not positive. name is the name of the op in its error.
func factorCholesky[T number](t *task[T], name string, attrs choleskyExAttrs) error {
	a := t.in[0]
	if attrs.Upper {
		a = t.adjointOf(a) // the upper triangle of A becomes the lower triangle
	}
	info := t.cholesky(a) // overwrites the lower triangle of a with L
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

// lowerFactor returns the Cholesky factor L. The operand factor is L^H if the attribute upper is set, otherwise L.
func lowerFactor[T number](t *task[T], factor matrix[T]) matrix[T] {
	if kit.Attrs[*upperAttrs](t.call).Upper {
		return t.adjointOf(factor)
	}
	return factor
}

// solveFactored overwrites b with the solution x of L L^H x = b, for the lower triangle L.
func (s *solver[T]) solveFactored(lower, b matrix[T]) {
	s.solveTriangular(lower, triangle{isUpper: false}, b)
	s.solveTriangular(s.adjointOf(lower), triangle{isUpper: true}, b)
}
