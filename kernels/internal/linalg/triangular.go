package linalg

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type solveTriangularAttrs struct {
	Upper         bool `attr:"upper" doc:"self has upper triangles"`
	Left          bool `attr:"left" default:"true" doc:"solve self X = B; else X self = B"`
	Unitriangular bool `attr:"unitriangular" default:"false" doc:"the diagonal has ones, and is not read"`
}

type triangularSolveAttrs struct {
	Upper         bool `attr:"upper" default:"true" doc:"A has upper triangles"`
	Transpose     bool `attr:"transpose" default:"false" doc:"solve A^T X = self"`
	Unitriangular bool `attr:"unitriangular" default:"false" doc:"the diagonal has ones, and is not read"`
}

// Ops that solve equations with triangular matrices. Operands and results are batches of matrices (matrixResults). An
// [algorithm] computes a [task]: the results (out) for one index of the batch, from copies of the operands (in).
// solverElements is the size of the task's memory for other matrices, here for transposes.
var (
	SolveTriangular = matrixOp(graph.SchemaOf[*solveTriangularAttrs](), graph.Semantics{Name: "linalg_solve_triangular",
		Doc:    "Solves linear equations with a triangular matrix self. The other triangle is not read.",
		Params: []graph.Param{kit.Self, {Name: "B"}},
		Infer:  inferSolveTriangular,
		Examples: []graph.Example{kit.Example(graph.Attrs{"upper": true}, squareExample, kit.F32(3, 4)),
			kit.Example(graph.Attrs{"upper": false, "left": false, "unitriangular": true}, complexExample,
				tensor.New(tensor.Complex128, 2, 3))},
	}, algorithm{float: linalgSolveTriangular[float64], complex: linalgSolveTriangular[complex128],
		solverElements: elementsOfCopies(2), // the transposes of A, B and the result, which has the size of B
		ranks:          matrixResults(1)})
	TriangularSolve = matrixOp(graph.SchemaOf[*triangularSolveAttrs](), graph.Semantics{Name: "triangular_solve",
		Doc: "Solves A X = self with a triangular matrix `A`. The other triangle is not read. Also returns a copy " +
			"of `A`.", Params: []graph.Param{kit.Self, operandA}, Outputs: []string{"solution", "cloned_coefficient"},
		Infer: inferTriangularSolve,
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 4), squareExample),
			kit.Example(graph.Attrs{"transpose": true}, tensor.New(tensor.Complex128, 3, 2), complexExample)},
	}, algorithm{float: triangularSolve[float64], complex: triangularSolve[complex128],
		solverElements: elementsOfCopies(1), // the transpose of A
		ranks:          matrixResults(2)})
)

// inferSolveTriangular is the Infer function of linalg_solve_triangular.
func inferSolveTriangular(c *graph.Call) ([]graph.Result, error) {
	a, b := c.Type(0), c.Type(1)
	name := "linalg.solve_triangular"
	if err := (matrixCheck{name: name, kernel: "triangular_solve"}).checkSquare(a); err != nil {
		return nil, err
	}
	shape, err := equationShape(name, a.Shape, b.Shape, kit.Attrs[*solveTriangularAttrs](c).Left)
	if err == nil && a.DType != b.DType {
		err = fmt.Errorf("%s: Expected A and B to have the same dtype", name)
	}
	if err != nil {
		return nil, err
	}
	out, err := columnMajor(a.DType, shape...)
	return c.NewResult(out), err
}

func inferTriangularSolve(c *graph.Call) ([]graph.Result, error) {
	b, a := c.Type(0), c.Type(1)
	for i, t := range []tensor.Type{b, a} {
		if t.Rank() < 2 {
			return nil, fmt.Errorf("torch.triangular_solve: Expected %s to have at least 2 dimensions, but it has %d "+
				"dimensions instead", []string{"b", "A"}[i], t.Rank())
		}
	}
	if err := (matrixCheck{kernel: "triangular_solve"}).checkSquare(a); err != nil {
		return nil, err
	}
	if a.DType != b.DType {
		return nil, fmt.Errorf("torch.triangular_solve: Expected b and A to have the same dtype")
	}
	const isLeft = true
	shape, err := equationShape("triangular_solve", a.Shape, b.Shape, isLeft)
	if err != nil {
		return nil, err
	}
	out, err := columnMajor(a.DType, shape...)
	if err != nil {
		return nil, err
	}
	coefficient, err := columnMajor(a.DType, withBatch(shape[:len(shape)-2], a.Shape[a.Rank()-2:]...)...)
	return c.NewResults(out, coefficient), err
}

// linalgSolveTriangular computes the result of linalg_solve_triangular. X A = B is solved as A^T X^T = B^T; the
// transpose of an upper triangle is a lower triangle, and vice versa.
func linalgSolveTriangular[T number](t *task[T]) error {
	attrs, a, b := kit.Attrs[*solveTriangularAttrs](t.call), t.in[0], t.in[1]
	kind := triangle{isUpper: attrs.Upper, hasUnitDiagonal: attrs.Unitriangular}
	if !attrs.Left {
		a, b, kind.isUpper = t.transposed(a), t.transposed(b), !kind.isUpper
	}
	t.solveTriangular(a, kind, b)
	if !attrs.Left {
		b = t.transposed(b)
	}
	copy(t.out[0].elements, b.elements)
	return nil
}

// triangularSolve computes the results of triangular_solve.
func triangularSolve[T number](t *task[T]) error {
	attrs, a := kit.Attrs[*triangularSolveAttrs](t.call), t.in[1]
	copy(t.out[0].elements, t.in[0].elements)
	copy(t.out[1].elements, a.elements)
	kind := triangle{isUpper: attrs.Upper, hasUnitDiagonal: attrs.Unitriangular}
	if attrs.Transpose { // the transpose of an upper triangle is a lower triangle, and vice versa
		a, kind.isUpper = t.transposed(a), !kind.isUpper
	}
	t.solveTriangular(a, kind, t.out[0])
	return nil
}
