package linalg

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type linalgSVDAttrs struct {
	FullMatrices bool    `attr:"full_matrices" default:"true" doc:"U and Vh are square; else U has min(rows, columns) columns, and Vh as many rows"`
	Driver       *string `attr:"driver" default:"none" doc:"null; PyTorch has drivers for GPUs only"`
}

type svdvalsAttrs struct {
	Driver *string `attr:"driver" default:"none" doc:"null; PyTorch has drivers for GPUs only"`
}

type svdAttrs struct {
	Some      bool `attr:"some" default:"true" doc:"U and V have min(rows, columns) columns; else they are square"`
	ComputeUV bool `attr:"compute_uv" default:"true" doc:"compute U and V; else they are 0"`
}

// Ops that compute singular values of matrices. An [algorithm] computes a [task]: one index of the batch, with operands
// (in) and results (out). ranks has their numbers of dimensions besides the batch: 2 for a matrix, 1 for S.
var (
	LinalgSVD = matrixOp(graph.SchemaOf[*linalgSVDAttrs](), graph.Semantics{Name: "linalg_svd",
		Doc: "Factors each matrix as U diag(S) Vh. U has orthonormal columns, S the singular values in descending order, " +
			"and Vh orthonormal rows. The factors are not unique: column i of U can have a factor of magnitude 1, and row i " +
			"of Vh its reciprocal.",
		Params: []graph.Param{operandA}, Outputs: []string{"U", "S", "Vh"},
		Infer:    inferLinalgSVD,
		Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{float: linalgSVD[float64], complex: linalgSVD[complex128], solverElements: svdElements,
		ranks: fixedRanks([]int{2}, []int{2, 1, 2})})
	Svdvals = matrixOp(graph.SchemaOf[*svdvalsAttrs](), graph.Semantics{Name: "linalg_svdvals",
		Doc: "Returns the singular values of matrices, in descending order.", Params: []graph.Param{operandA},
		Infer:    inferSvdvals,
		Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{float: singularValues[float64], complex: singularValues[complex128], solverElements: svdElements,
		ranks: fixedRanks([]int{2}, []int{1})})
	SVD = matrixOp(graph.SchemaOf[*svdAttrs](), graph.Semantics{Name: "svd",
		Doc:    "Factors each matrix as U diag(S) V^H, as linalg_svd does, but returns V in place of its adjoint.",
		Params: selfOnly, Outputs: []string{"U", "S", "V"}, Infer: inferSVD,
		Examples: examples(nil, tallExample, wideExample, complexExample),
	}, algorithm{float: svdWithV[float64], complex: svdWithV[complex128], solverElements: svdElements,
		ranks: fixedRanks([]int{2}, []int{2, 1, 2})})
)

// inferLinalgSVD is the Infer function of linalg_svd.
func inferLinalgSVD(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*linalgSVDAttrs](c)
	u, s, vh, err := svdTypes(c, attrs.FullMatrices)
	if err == nil {
		err = checkDriver(c, attrs.Driver)
	}
	return c.NewResults(u, s, vh), err
}

// inferSvdvals is the Infer function of linalg_svdvals.
func inferSvdvals(c *graph.Call) ([]graph.Result, error) {
	_, s, _, err := svdTypes(c, thinFactors)
	if err == nil {
		err = checkDriver(c, kit.Attrs[*svdvalsAttrs](c).Driver)
	}
	return c.NewResult(s), err
}

func inferSVD(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*svdAttrs](c)
	u, s, vh, err := svdTypes(c, !attrs.Some || !attrs.ComputeUV)
	if err != nil {
		return nil, err
	}
	rank := vh.Rank()
	if !attrs.ComputeUV { // U and V are square zeros: PyTorch returns a row-major U, and V with the strides of Vh
		u, err = kit.FreshType(u.DType, u.Shape)
		return c.NewResults(u, s, vh), err
	}
	v, err := vh.Transpose(rank-2, rank-1)
	return c.NewResults(u, s, v), err
}

// svdElements is algorithm.solverElements for singular values. It returns a bound. U and V together have at most
// max(2*in, out) elements. The solver has at most four other matrices. None of them has more elements than the operand.
func svdElements(in, out int) int { return 4*in + max(2*in, out) }

// checkDriver returns PyTorch's error for a driver. PyTorch checks the driver only if the operand has elements.
func checkDriver(c *graph.Call, driver *string) error {
	if driver == nil {
		return nil
	}
	for _, size := range c.Type(0).Shape {
		if !kit.SizeAtLeast(size, 1) {
			return nil
		}
	}
	return errors.New("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER " +
		"backend.")
}

// thinFactors is the argument hasSquareFactors of svdTypes for factors that are not square.
const thinFactors = false

// svdTypes returns the types of U, S and Vh for an operand of rows x cols elements. U and Vh are square, or U has
// min(rows, cols) columns and Vh as many rows. For an invalid operand it returns PyTorch's error.
func svdTypes(c *graph.Call, hasSquareFactors bool) (u, s, vh tensor.Type, err error) {
	aType := c.Type(0)
	if err = (matrixCheck{name: "linalg.svd", kernel: "linalg_svd", integerErrorNamesOp: true}).check(aType); err != nil {
		return u, s, vh, err
	}
	rank := aType.Rank()
	rows, cols := aType.Shape[rank-2], aType.Shape[rank-1]
	minSize := rows.Min(cols)
	uCols, vhRows := minSize, minSize
	if hasSquareFactors {
		uCols, vhRows = rows, cols
	}
	s = tensor.NewType(aType.DType.ToReal(), withBatch(batchSizes(aType), minSize)...)
	if u, err = columnMajor(aType.DType, withBatch(batchSizes(aType), rows, uCols)...); err == nil {
		vh, err = columnMajor(aType.DType, withBatch(batchSizes(aType), vhRows, cols)...)
	}
	return u, s, vh, err
}

// factorSVD returns the factors of the matrix of a task: U with uCols columns, the singular values, and V with vCols
// columns, or only the singular values if uCols and vCols are 0. A wide matrix is factored as A^H = V S U^H, because
// method svd requires at least as many rows as columns.
func factorSVD[T number](t *task[T], uCols, vCols int) (u matrix[T], values []float64, v matrix[T], err error) {
	a := t.in[0]
	if !t.isFinite(a) {
		return u, nil, v, fmt.Errorf("linalg.svd: %sThe algorithm failed to converge because the input matrix contained "+
			"non-finite values.", t.errorPrefix())
	}
	u, v = t.zeros(a.rows, uCols), t.zeros(a.cols, vCols)
	if a.rows < a.cols {
		values = t.svd(t.adjointOf(a), v, u)
	} else {
		values = t.svd(a, u, v)
	}
	return u, values, v, nil
}

// setReals sets the elements of a result that is a vector.
func (t *task[T]) setReals(resultIndex int, values []float64) {
	for i, v := range values {
		t.out[resultIndex].set(i, 0, t.fromParts(v, 0))
	}
}

// linalgSVD computes the results of linalg_svd.
func linalgSVD[T number](t *task[T]) error {
	u, values, v, err := factorSVD(t, t.out[0].cols, t.out[2].rows)
	if err != nil {
		return err
	}
	copy(t.out[0].elements, u.elements)
	t.setReals(1, values)
	t.storeAdjoint(v, t.out[2])
	return nil
}

// singularValues computes the result of linalg_svdvals.
func singularValues[T number](t *task[T]) error {
	_, values, _, err := factorSVD(t, 0, 0)
	if err != nil {
		return err
	}
	t.setReals(0, values)
	return nil
}

// svdWithV computes the results of svd, which returns V in place of its adjoint.
func svdWithV[T number](t *task[T]) error {
	if !kit.Attrs[*svdAttrs](t.call).ComputeUV {
		_, values, _, err := factorSVD(t, 0, 0)
		t.setReals(1, values)
		return err
	}
	u, values, v, err := factorSVD(t, t.out[0].cols, t.out[2].cols)
	if err != nil {
		return err
	}
	copy(t.out[0].elements, u.elements)
	t.setReals(1, values)
	copy(t.out[2].elements, v.elements)
	return nil
}
