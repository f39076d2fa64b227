package linalg

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type checkErrorsAttrs struct {
	CheckErrors bool `attr:"check_errors" default:"false" doc:"return an error if a pivot is 0; else report it in info"`
}

// The operands of these ops are batches of matrices. define.go has the types that matter here:
//
//	task       one index of the batch: copies of the operands (in), which may be overwritten, and results (out),
//	           which are 0 at first
//	algorithm  the functions that compute a task, and its sizes:
//	           ranks gives the rank of an operand or result without the batch: 2 for a matrix, 0 for info
//	           solverElements gives the number of elements of temporary matrices

// Ops that invert matrices.
var (
	Inv     = inverseOp(kit.NoAttrs, "linalg_inv", operandA)
	Inverse = inverseOp(kit.NoAttrs, "inverse", kit.Self)
	InvEx   = inverseOp(graph.SchemaOf[*checkErrorsAttrs](), "linalg_inv_ex", operandA)
)

// inverseOp defines an op that inverts matrices. If the op has attributes, it also returns info.
func inverseOp(attrs *graph.Schema, name string, operand graph.Param) *graph.Op {
	doc, outputs := "Returns the inverses of square matrices.", []string(nil)
	ranks := matrixResults(1) // one result
	hasInfo := attrs != kit.NoAttrs
	if hasInfo {
		doc += " `info` is 0, or the number of the first pivot that is 0."
		outputs, ranks = []string{"inverse", "info"}, fixedRanks([]int{2}, []int{2, 0}) // operands, results
	}
	return matrixOp(attrs, graph.Semantics{Name: name, Doc: doc, Params: []graph.Param{operand}, Outputs: outputs,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			aType := c.Type(0)
			if err := (matrixCheck{name: "linalg.inv"}).checkSquare(aType); err != nil {
				return nil, err
			}
			out, err := columnMajor(aType.DType, aType.Shape...)
			if hasInfo {
				return c.NewResults(out, infoType(batchSizes(aType))), err
			}
			return c.NewResult(out), err
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: invert[float64], complex: invert[complex128], ranks: ranks})
}

// invert computes the inverse of the matrix of a task as the solution X of A X = I, and info if it is a result.
func invert[T number](t *task[T]) error {
	a, x := t.in[0], t.out[0]
	pivots := make([]int, a.rows)
	info := t.lu(a, pivots)
	hasInfo := len(t.out) > 1
	if info > 0 && (!hasInfo || kit.Attrs[*checkErrorsAttrs](t.call).CheckErrors) {
		return fmt.Errorf("linalg.inv: %sThe diagonal element %d is zero, the inversion could not be completed because the "+
			"input matrix is singular.", t.errorPrefix(), info)
	}
	for i := range x.cols {
		x.set(i, i, t.fromParts(1, 0))
	}
	t.solveLU(a, pivots, x, notAdjoint)
	if hasInfo {
		t.setNumber(1, info)
	}
	return nil
}

type solveAttrs struct {
	Left bool `attr:"left" default:"true" doc:"solve A X = B; else X A = B"`
}

type solveExAttrs struct {
	Left        bool `attr:"left" default:"true" doc:"solve A X = B; else X A = B"`
	CheckErrors bool `attr:"check_errors" default:"false" doc:"return an error if a pivot is 0; else report it in info"`
}

// Ops that solve linear equations.
var (
	Solve = solveOp(graph.SchemaOf[*solveAttrs](), "linalg_solve", nil, func(c *graph.Call) solveExAttrs {
		return solveExAttrs{Left: kit.Attrs[*solveAttrs](c).Left, CheckErrors: true}
	})
	SolveEx = solveOp(graph.SchemaOf[*solveExAttrs](), "linalg_solve_ex", []string{"result", "info"},
		func(c *graph.Call) solveExAttrs { return *kit.Attrs[*solveExAttrs](c) })
)

// solveOp defines linalg_solve or linalg_solve_ex. If outputs is not nil, the op also returns info. attrsOf returns the
// attributes of a call.
func solveOp(attrs *graph.Schema, name string, outputs []string, attrsOf func(*graph.Call) solveExAttrs) *graph.Op {
	hasInfo := outputs != nil
	doc := "Solves linear equations with a square matrix `A`: A X = B, or X A = B. `B` is a matrix or a vector. It " +
		"is a vector if it has one dimension, or if its sizes are those of `A` without the last."
	if hasInfo {
		doc += " `info` is 0, or the number of the first pivot that is 0."
	}
	return matrixOp(attrs, graph.Semantics{Name: name, Doc: doc, Params: []graph.Param{operandA, {Name: "B"}},
		Outputs: outputs,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			out, err := solutionType(c, attrsOf(c).Left)
			if err != nil {
				return nil, err
			}
			if hasInfo {
				return c.NewResults(out, infoType(batchSizes(c.Type(0)))), nil
			}
			return c.NewResult(out), nil
		},
		Examples: []graph.Example{kit.Example(nil, squareExample, kit.F32(3, 4)), kit.Example(nil, squareExample, kit.F32(3)),
			kit.Example(graph.Attrs{"left": false}, complexExample, tensor.New(tensor.Complex128, 2, 3))},
	}, algorithm{
		float:          func(t *task[float64]) error { return solve(t, attrsOf(t.call)) },
		complex:        func(t *task[complex128]) error { return solve(t, attrsOf(t.call)) },
		solverElements: elementsOfCopies(2), // transposed matrices
		mayHaveVectorB: true,
		ranks: func(c *graph.Call) (in, out []int) {
			bRank := 2
			if hasVectorB(c) {
				bRank = 1
			}
			out = []int{bRank}
			if hasInfo {
				out = append(out, 0)
			}
			return []int{2, bRank}, out
		}})
}

// solutionType returns the type of the solution X of A X = B or, if isLeft is not set, of X A = B. It returns PyTorch's
// error if the operands do not match.
func solutionType(c *graph.Call, isLeft bool) (tensor.Type, error) {
	aType, bType := c.Type(0), c.Type(1)
	if err := (matrixCheck{name: "linalg.solve", kernel: "lu", integerErrorNamesOp: true}).checkSquare(aType); err != nil {
		return aType, err
	}
	if aType.DType != bType.DType {
		return aType, fmt.Errorf("linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of "+
			"type %s instead", aType.DType.TorchName(), bType.DType.TorchName())
	}
	isVector := hasVectorB(c)
	matrixShape := slices.Clone(bType.Shape) // the shape of B; a vector B counts as a matrix with one column
	if isVector {
		matrixShape = append(matrixShape, sym.Of(1))
	}
	shape, err := equationShape("linalg.solve", aType.Shape, matrixShape, isLeft)
	switch {
	case err != nil:
		return aType, err
	case isVector && !isLeft:
		return aType, errors.New("linalg.solve: Vector broadcasting of the left hand side is not supported for " +
			"left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)")
	case isVector:
		return columnMajor(aType.DType, shape[:len(shape)-1]...)
	case !isLeft: // row-major: the transpose of the column-major solution of A^T X^T = B^T
		return kit.FreshType(aType.DType, shape)
	}
	return columnMajor(aType.DType, shape...)
}

// solve computes the solution of a task, and info if it is a result. X A = B is solved as A^T X^T = B^T.
func solve[T number](t *task[T], attrs solveExAttrs) error {
	a, b := t.in[0], t.in[1]
	if !attrs.Left {
		a, b = t.transposed(a), t.transposed(b)
	}
	pivots := make([]int, a.rows)
	info := t.lu(a, pivots)
	if info > 0 && attrs.CheckErrors {
		return fmt.Errorf("torch.linalg.solve: %sThe solver failed because the input matrix is singular.", t.errorPrefix())
	}
	t.solveLU(a, pivots, b, notAdjoint)
	if !attrs.Left {
		b = t.transposed(b)
	}
	copy(t.out[0].elements, b.elements)
	if len(t.out) > 1 {
		t.setNumber(1, info)
	}
	return nil
}
