package linalg

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type eighAttrs struct {
	UPLO string `attr:"UPLO" default:"L" oneof:"L|U" doc:"the triangle that is read"`
}

// Ops that compute eigenvalues of Hermitian matrices. Real Hermitian matrices are symmetric. An [algorithm] computes a
// [task]: one index of the batch, with a copy of the operand (in) and the results (out). ranks has their numbers of
// dimensions besides the batch: 2 for a matrix, 1 for the eigenvalues. solverElements bounds the memory for other
// matrices: one of the operand's size, and two vectors.
var (
	Eigh     = eighOp("linalg_eigh", []string{"eigenvalues", "eigenvectors"})
	Eigvalsh = eighOp("linalg_eigvalsh", nil)
)

// eighOp defines an op that returns eigenvalues. If outputs is not nil, the op also returns eigenvectors.
func eighOp(name string, outputs []string) *graph.Op {
	hasVectors := outputs != nil
	doc := "Returns the eigenvalues of Hermitian matrices, in ascending order. Only one triangle is read."
	ranks := fixedRanks([]int{2}, []int{1})
	if hasVectors {
		doc = "Returns the eigenvalues of Hermitian matrices, in ascending order, and their eigenvectors of norm 1, which " +
			"are columns. Only one triangle is read. Eigenvectors are unique up to factors of magnitude 1."
		ranks = fixedRanks([]int{2}, []int{1, 2})
	}
	return matrixOp(graph.SchemaOf[*eighAttrs](), graph.Semantics{Name: name, Doc: doc, Params: selfOnly, Outputs: outputs,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			if err := (matrixCheck{name: "linalg.eigh", kernel: "linalg_eigh"}).checkSquare(self); err != nil {
				return nil, err
			}
			values := tensor.NewType(self.DType.ToReal(), self.Shape[:self.Rank()-1]...)
			if !hasVectors {
				return c.NewResult(values), nil
			}
			vectors, err := columnMajor(self.DType, self.Shape...)
			return c.NewResults(values, vectors), err
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: eigen[float64], complex: eigen[complex128], solverElements: elementsOfCopies(3), ranks: ranks})
}

// eigen computes the eigenvalues of the matrix of a task, and the eigenvectors if they are a result.
func eigen[T number](t *task[T]) error {
	a := t.in[0]
	t.mirrorTriangle(a, kit.Attrs[*eighAttrs](t.call).UPLO == "U")
	if !t.isFinite(a) {
		return t.setNonFiniteResults(a)
	}
	var vectors *matrix[T]
	if len(t.out) > 1 {
		vectors = &t.out[1]
	}
	t.setReals(0, t.eigh(a, vectors))
	return nil
}

// mirrorTriangle makes matrix a Hermitian: it writes the conjugate of one triangle, the upper one if isUpper is set, to
// the other triangle, and clears imaginary parts on the diagonal.
func (t *task[T]) mirrorTriangle(a matrix[T], isUpper bool) {
	for j := range a.cols {
		for i := range j {
			if isUpper {
				a.set(j, i, t.conj(a.at(i, j)))
			} else {
				a.set(i, j, t.conj(a.at(j, i)))
			}
		}
		a.set(j, j, t.fromParts(t.re(a.at(j, j)), 0))
		t.checkContextAfter(a.rows)
	}
}

// setNonFiniteResults sets the results for a Hermitian matrix with NaNs or infinities as LAPACK does: the eigenvalues
// are NaN, except the eigenvalue of a 1x1 matrix. With more than two rows, it fails unless onlyDiagonalIsInfinite.
func (t *task[T]) setNonFiniteResults(a matrix[T]) error {
	onlyDiagonalIsInfinite := t.onlyDiagonalIsInfinite(a)
	if a.rows > 2 && !onlyDiagonalIsInfinite {
		return fmt.Errorf("linalg.eigh: %sThe algorithm failed to converge because the input matrix is ill-conditioned or "+
			"has too many repeated eigenvalues.", t.errorPrefix())
	}
	values := make([]float64, a.rows)
	for i := range values {
		values[i] = math.NaN()
	}
	if a.rows == 1 {
		values[0] = t.re(a.at(0, 0))
	}
	t.setReals(0, values)
	if len(t.out) == 1 {
		return nil
	}
	vectors := t.identity(a.rows, a.cols)
	if a.rows > 1 && !onlyDiagonalIsInfinite {
		for i := range vectors.elements {
			vectors.elements[i] = t.fromParts(math.NaN(), math.NaN())
		}
	}
	copy(t.out[1].elements, vectors.elements)
	return nil
}

// onlyDiagonalIsInfinite reports whether infinities on the diagonal are the only elements that are not finite.
func (t *task[T]) onlyDiagonalIsInfinite(a matrix[T]) bool {
	for j := range a.cols {
		for i, x := range a.column(j) {
			re, im := t.re(x), t.im(x)
			isFinite := re-re == 0 && im-im == 0 // x - x is NaN for an infinite x
			if !isFinite && (i != j || math.IsNaN(re)) {
				return false
			}
		}
	}
	return true
}
