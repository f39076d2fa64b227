package linalg

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type eighAttrs struct {
	UPLO string `attr:"UPLO" default:"L" oneof:"L|U" doc:"the triangle that is read"`
}

// Ops that compute eigenvalues of Hermitian matrices. Real Hermitian matrices are symmetric.
var (
	Eigh     = eighOp("linalg_eigh", []string{"eigenvalues", "eigenvectors"})
	Eigvalsh = eighOp("linalg_eigvalsh", nil)
)

// eighOp defines an op that returns eigenvalues. If outputs is not nil, the op also returns eigenvectors.
func eighOp(name string, outputs []string) *graph.Op {
	withVectors := outputs != nil
	doc := "Returns the eigenvalues of Hermitian matrices, in ascending order. Only one triangle is read."
	ranks := fixedRanks([]int{2}, []int{1})
	if withVectors {
		doc = "Returns the eigenvalues of Hermitian matrices, in ascending order, and their eigenvectors of norm 1, which " +
			"are columns. Only one triangle is read. An eigenvector can be multiplied by any number of magnitude 1."
		ranks = fixedRanks([]int{2}, []int{1, 2})
	}
	return matrixOp(graph.SchemaOf[eighAttrs](), graph.Semantics{Name: name, Doc: doc, Params: selfOnly, Outputs: outputs,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t := c.Type(0)
			if err := (matrixCheck{name: "linalg.eigh", kernel: "linalg_eigh"}).check(t, true); err != nil {
				return nil, err
			}
			values := tensor.NewType(t.DType.ToReal(), t.Shape[:t.Rank()-1]...)
			if !withVectors {
				return c.NewResult(values), nil
			}
			vectors, err := columnMajor(t.DType, t.Shape...)
			return c.NewResults(values, vectors), err
		},
		Examples: examples(nil, squareExample, complexExample),
	}, algorithm{float: eigen[float64], complex: eigen[complex128], memory: memoryOfCopies(4), ranks: ranks})
}

// eigen computes the eigenvalues of the matrix of a task, and the eigenvectors if they are a result.
func eigen[T number](t *task[T]) error {
	a := t.in[0]
	readsUpper := kit.Attrs[eighAttrs](t.call).UPLO == "U"
	// Copy the triangle that is read to the other triangle, and ignore imaginary parts on the diagonal.
	for j := range a.cols {
		for i := range j {
			if readsUpper {
				a.set(j, i, t.conj(a.at(i, j)))
			} else {
				a.set(i, j, t.conj(a.at(j, i)))
			}
		}
		a.set(j, j, t.fromParts(t.re(a.at(j, j)), 0))
		t.countWork(a.rows)
	}
	if !t.isFinite(a) {
		return fmt.Errorf("linalg.eigh: %sThe algorithm failed to converge because the input matrix is ill-conditioned or "+
			"has too many repeated eigenvalues.", t.errorPrefix())
	}
	vectors := t.zeros(a.rows, a.cols)
	t.setReals(0, t.eigh(a, vectors))
	if len(t.out) > 1 {
		copy(t.out[1].elements, vectors.elements)
	}
	return nil
}
