package linalg

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// A least-squares solution X minimizes the Frobenius norm of A X - B. With A [m, n] and B [m, k], X is [n, k]. If A has
// dependent columns, there are many solutions; the columns of the minimum-norm solution have the least norm. The
// drivers are named after LAPACK's functions:
//
//	gels          solveFullRank: QR without pivoting, for A of full rank
//	gelsy         solvePivoted:  QR with column pivoting
//	gelsd, gelss  solveBySVD:    singular values
//
// define.go has the types task and algorithm. A task is one index of the batch, with copies of the operands (in) and
// results (out), which are 0 at first. An algorithm has the functions that compute a task. Its function ranks gives the
// number of dimensions besides the batch of each operand and result. Its function solverElements gives the number of
// elements of temporary matrices. A solver has the arithmetic of real or complex numbers and allocates matrices.

type lstsqAttrs struct {
	Rcond  *float64 `attr:"rcond" default:"none" doc:"gelsd, gelss: a singular value counts as 0 if it is at most rcond times the greatest one; gelsy: as many columns count as independent as possible while their condition number stays at most 1/rcond; default: max(rows, columns of A) times the precision of the dtype"`
	Driver string   `attr:"driver" default:"gelsy" oneof:"gels|gelsy|gelsd|gelss" doc:"gels: QR, for matrices of full rank; gelsy: QR with column pivoting; gelsd, gelss: singular values"`
}

// Indices of the results of linalg_lstsq. Result 0 is the solution.
const (
	lstsqResiduals      = 1
	lstsqRank           = 2
	lstsqSingularValues = 3
)

// Lstsq is linalg_lstsq.
var Lstsq = matrixOp(graph.SchemaOf[*lstsqAttrs](), graph.Semantics{Name: "linalg_lstsq",
	Doc: "For each matrix of the batch, `solution` is the X that minimizes the norm of self X - `b`; of several such X, " +
		"it is the one with the least norm. `b` is a matrix, or a vector if it has one dimension less than self. The " +
		"solution is then also a vector, unless the batches of self and `b` have different sizes. `rank` is the rank " +
		"of self that the `driver` finds with the threshold `rcond`; it is empty with gels. `residuals` are the sums " +
		"of the squared magnitudes of the columns of self X - `b`; they are empty with gelsy, or if self has no more " +
		"rows than columns. `singular_values` are those of self with gelsd and gelss, else empty.",
	Params: []graph.Param{kit.Self, {Name: "b"}}, Outputs: []string{"solution", "residuals", "rank", "singular_values"},
	Infer: inferLstsq,
	Examples: []graph.Example{kit.Example(nil, tallExample, kit.F32(2, 4, 2)),
		kit.Example(graph.Attrs{"driver": "gels"}, tallExample, kit.F32(2, 4)),
		kit.Example(graph.Attrs{"driver": "gelsd"}, tallExample, kit.F32(2, 4, 2)),
		kit.Example(graph.Attrs{"driver": "gelss", "rcond": 0.1}, wideExample, tensor.New(tensor.Float64, 3, 2)),
		kit.Example(graph.Attrs{"driver": "gels"}, complexExample, tensor.New(tensor.Complex128, 3))},
}, algorithm{float: leastSquares[float64], complex: leastSquares[complex128],
	solverElements: func(in, out int) int { return 8*in + 2*out }, // an upper bound for all drivers
	mayHaveVectorB: true,
	ranks: func(c *graph.Call) (in, out []int) {
		bDims, solutionDims, rankDims := 2, 2, 0
		if c.Type(1).Rank() < c.Type(0).Rank() {
			bDims = 1
		}
		if hasVectorB(c) {
			solutionDims = 1
		}
		if kit.Attrs[*lstsqAttrs](c).Driver == "gels" {
			rankDims = 1 // an empty vector
		}
		return []int{2, bDims}, []int{solutionDims, 1, rankDims, 1}
	}})

// findsSingularValues reports whether a driver computes singular values.
func findsSingularValues(driver string) bool { return driver == "gelsd" || driver == "gelss" }

func inferLstsq(c *graph.Call) ([]graph.Result, error) {
	aType, driver := c.Type(0), kit.Attrs[*lstsqAttrs](c).Driver
	bShape, err := rightSideShape(aType, c.Type(1))
	if err != nil {
		return nil, err
	}
	aRank := aType.Rank()
	rows, cols, bColumns := aType.Shape[aRank-2], aType.Shape[aRank-1], bShape[aRank-1]
	batch, err := tensor.BroadcastSizes(batchSizes(aType), bShape[:aRank-2])
	if err != nil {
		return nil, err
	}
	// LAPACK overwrites b with the solution. PyTorch therefore allocates max(rows, cols) rows for the solution, and
	// returns a view of the first ones.
	solution, err := columnMajor(aType.DType, withBatch(batch, rows.Max(cols), bColumns)...)
	if err != nil {
		return nil, err
	}
	solution.Shape = withBatch(batch, cols, bColumns)
	if hasVectorB(c) {
		solution.Shape, solution.Strides = solution.Shape[:aRank-1], solution.Strides[:aRank-1]
	}
	realDType := aType.DType.ToReal()
	residuals, singularValues, rank := emptyVector(realDType), emptyVector(realDType), emptyVector(tensor.Int64)
	if driver != "gelsy" && rows.Gt(cols).Holds() {
		residuals = tensor.NewType(realDType, withBatch(batch, bColumns)...)
	}
	if driver != "gels" {
		rank = tensor.NewType(tensor.Int64, batch...)
	}
	if findsSingularValues(driver) {
		singularValues = tensor.NewType(realDType, withBatch(batch, rows.Min(cols))...)
	}
	return c.NewResults(solution, residuals, rank, singularValues), nil
}

// rightSideShape returns the shape of b as a batch of matrices: a vector is a matrix with one column. It returns
// PyTorch's error if the operands do not match.
func rightSideShape(a, b tensor.Type) ([]sym.Int, error) {
	const name = "torch.linalg.lstsq: "
	aRank := a.Rank()
	switch {
	case aRank < 2:
		return nil, errors.New(name + "input must have at least 2 dimensions.")
	case b.Rank() < 1:
		return nil, errors.New(name + "other must have at least 1 dimension.")
	case a.DType != b.DType:
		return nil, fmt.Errorf(name+"Expected input and other to have the same dtype, but got input's dtype %s and other's "+
			"dtype %s", a.DType.TorchName(), b.DType.TorchName())
	case b.Rank() > aRank || b.Rank() < aRank-1:
		return nil, errors.New(name + "input.dim() must be greater or equal to other.dim() and (input.dim() - " +
			"other.dim()) <= 1")
	}
	shape, rowsName := slices.Clone(b.Shape), "other.size(-2)"
	if b.Rank() < aRank {
		shape, rowsName = append(shape, sym.Of(1)), "other.size(-1)"
	}
	if a.Shape[aRank-2].Ne(shape[aRank-2]).Holds() {
		return nil, errors.New(name + "input.size(-2) should match " + rowsName)
	}
	const withBool = true
	if a.DType.IsIntegral(withBool) || a.DType.IsReducedFloat() {
		return nil, errors.New("This function doesn't handle types other than float and double")
	}
	return shape, nil
}

// leastSquares computes the results of linalg_lstsq.
func leastSquares[T number](t *task[T]) error {
	driver, x := kit.Attrs[*lstsqAttrs](t.call).Driver, t.out[0]
	a, b := t.in[0], t.copyOf(t.in[1])
	originalA := t.copyOf(a) // solveByDriver may overwrite a and b
	rank, err := solveByDriver(t, a, b, x)
	if err != nil {
		return err
	}
	if driver == "gels" && t.norm(originalA.elements) == 0 {
		return nil // LAPACK then sets b to 0. PyTorch computes the residuals from b, so they are 0.
	}
	residuals := t.out[lstsqResiduals] // it has no rows if inferLstsq made it empty
	for j := range residuals.rows {
		residuals.set(j, 0, t.fromParts(t.residual(originalA, x.column(j), t.in[1].column(j)), 0))
	}
	if driver != "gels" {
		t.setNumber(lstsqRank, rank)
	}
	return nil
}

// solveByDriver sets x, which is 0, to the solution of a x = b, and the result singular_values if it is requested. It
// returns the rank of a, or 1 if a has NaNs or infinities; with gels, the number has no meaning. It may overwrite a and
// b.
func solveByDriver[T number](t *task[T], a, b, x matrix[T]) (rank int, err error) {
	attrs, precision := kit.Attrs[*lstsqAttrs](t.call), kit.Precision(t.call.Meta(0).DType)
	rcond := attrs.threshold(precision, max(a.rows, a.cols))
	isFinite := t.isFinite(a)
	switch {
	case !isFinite && findsSingularValues(attrs.Driver):
		// LAPACK's error code is the number of off-diagonal elements that do not converge to 0: all of them.
		return 0, t.rankError(max(1, min(a.rows, a.cols)-1))
	case !isFinite:
		for i := range x.elements {
			x.elements[i] = t.fromParts(math.NaN(), math.NaN())
		}
		return 1, nil
	case attrs.Driver == "gels":
		if firstDependent := t.solveFullRank(a, b, x); firstDependent > 0 {
			return 0, t.rankError(firstDependent)
		}
		return 0, nil
	case attrs.Driver == "gelsy":
		return t.solvePivoted(a, b, x, rcond), nil
	}
	values, rank := t.solveBySVD(a, b, x, rcond)
	t.setReals(lstsqSingularValues, values)
	return rank, nil
}

// threshold returns the threshold rcond. size is the greater of the numbers of rows and columns.
func (attrs *lstsqAttrs) threshold(precision float64, size int) float64 {
	rcond := precision * float64(size)
	if attrs.Rcond != nil {
		rcond = *attrs.Rcond
	}
	if attrs.Driver == "gelsd" && (rcond <= 0 || rcond >= 1) || attrs.Driver == "gelss" && rcond < 0 {
		return precision // as LAPACK, for thresholds outside the range of the driver
	}
	return rcond
}

// rankError returns PyTorch's error for a matrix without full rank. code is LAPACK's error code.
func (t *task[T]) rankError(code int) error {
	return fmt.Errorf("torch.linalg.lstsq: %sThe least squares solution could not be computed because the input matrix "+
		"does not have full rank (error code: %d).", t.errorPrefix(), code)
}

// residual returns the square of the norm of a x - b for the vectors x and b. It overwrites b with b - a x.
func (s *solver[T]) residual(a matrix[T], x, b []T) float64 {
	for j, factor := range x {
		s.addScaled(-factor, a.column(j), b)
		s.checkContextAfter(a.rows)
	}
	norm := s.norm(b)
	return float64(norm * norm)
}

// solveFullRank sets x, which is 0, to the minimum-norm least-squares solution of a x = b for a matrix a of full rank.
// It may overwrite a and b. If the rank is not full, the result is LAPACK's error code: the position, from 1, of the
// first zero on the diagonal of the triangular factor. Otherwise, or if a has only zeros, the result is 0.
func (s *solver[T]) solveFullRank(a, b, x matrix[T]) (firstDependent int) {
	if s.norm(a.elements) == 0 {
		return 0
	}
	if a.rows < a.cols {
		return s.solveWide(s.adjointOf(a), b, x)
	}
	tau := s.zeros(a.cols, 1).elements
	s.qr(a, tau)
	if k := firstZero(a); k > 0 {
		return k
	}
	// a = Q R, hence x = R^-1 Q^H b.
	s.multiplyQ(a, tau, b, useAdjoint)
	for j := range x.cols {
		copy(x.column(j), b.column(j))
	}
	s.solveTriangular(a.firstColumns(a.cols), triangle{isUpper: true}, x)
	return 0
}

// solveWide sets x to the minimum-norm solution of a x = b, where a has at most as many rows as columns. The operand
// adjoint is a^H, and is overwritten. If a has r rows, only the first r rows of b are read. The result is as in
// solveFullRank.
func (s *solver[T]) solveWide(adjoint, b, x matrix[T]) (firstDependent int) {
	rows := adjoint.cols // of a
	tau := s.zeros(rows, 1).elements
	s.qr(adjoint, tau)
	if k := firstZero(adjoint); k > 0 {
		return k
	}
	// a = R^H Q^H, hence x = Q y with R^H y = b.
	lower := s.zeros(rows, rows)
	for j := range rows {
		for i := range j + 1 {
			lower.set(j, i, s.conj(adjoint.at(i, j)))
		}
		s.checkContextAfter(rows)
	}
	y := s.zeros(rows, x.cols)
	for j := range x.cols {
		copy(y.column(j), b.column(j)[:rows])
	}
	s.solveTriangular(lower, triangle{}, y)
	for j := range x.cols {
		clear(x.column(j))
		copy(x.column(j), y.column(j))
	}
	s.multiplyQ(adjoint, tau, x, notAdjoint)
	return 0
}

// firstZero returns the number, from 1, of the first diagonal element of a that is 0, or 0 if there is none.
func firstZero[T number](a matrix[T]) int {
	for i := range min(a.rows, a.cols) {
		if a.at(i, i) == 0 {
			return i + 1
		}
	}
	return 0
}

// solvePivoted sets x, which is 0, to the minimum-norm least-squares solution of a x = b, and returns the rank of a. It
// factors a P = Q R by qrPivoted. The rank is the greatest k for which the condition number of R[:k,:k] is at most
// 1/rcond; the rows of R from k on count as 0. The solution is x = P y for the minimum-norm solution y of
// R[:k,:] y = (Q^H b)[:k]. a and b are overwritten.
func (s *solver[T]) solvePivoted(a, b, x matrix[T], rcond float64) (rank int) {
	minSize := min(a.rows, a.cols)
	tau, columns := s.zeros(minSize, 1).elements, make([]int, a.cols)
	s.qrPivoted(a, tau, columns)
	if minSize == 0 || a.at(0, 0) == 0 {
		return 0
	}
	// The condition number of R[:k,:k] does not decrease with k, so a binary search finds the rank. Invariant: R[:k,:k]
	// is well-conditioned for k = rank, and not for k = tooLarge.
	rank = 1
	for tooLarge := minSize + 1; tooLarge-rank > 1; {
		if k := (rank + tooLarge) / 2; s.isWellConditioned(a, k, rcond) {
			rank = k
		} else {
			tooLarge = k
		}
	}
	s.multiplyQ(a, tau, b, useAdjoint)
	adjoint := s.zeros(a.cols, rank) // of R[:rank,:], for solveWide
	for i := range rank {
		for j := i; j < a.cols; j++ {
			adjoint.set(j, i, s.conj(a.at(i, j)))
		}
		s.checkContextAfter(a.cols)
	}
	y := s.zeros(x.rows, x.cols)
	s.solveWide(adjoint, b, y)
	for j := range x.cols {
		for i, element := range y.column(j) {
			x.set(columns[i], j, element)
		}
	}
	return rank
}

// isWellConditioned reports whether the condition number of the leading k rows and columns of the upper triangle of r
// is at most 1/rcond.
func (s *solver[T]) isWellConditioned(r matrix[T], k int, rcond float64) bool {
	freeMemory := s.freeMemory
	defer func() { s.freeMemory = freeMemory }() // free the matrices of this function
	block := s.zeros(k, k)
	for j := range k {
		copy(block.column(j), r.column(j)[:j+1])
	}
	values := s.svd(block, s.zeros(k, k), s.zeros(k, k))
	return values[0]*rcond <= values[k-1]
}

// solveBySVD sets x, which is 0, to the minimum-norm least-squares solution of a x = b, and returns the singular values
// and the rank of a. Singular values up to rcond times the greatest one count as 0. a is overwritten.
func (s *solver[T]) solveBySVD(a, b, x matrix[T], rcond float64) (values []float64, rank int) {
	minSize := min(a.rows, a.cols)
	u, v := s.zeros(a.rows, minSize), s.zeros(a.cols, minSize)
	if a.rows < a.cols {
		values = s.svd(s.adjointOf(a), v, u)
	} else {
		values = s.svd(a, u, v)
	}
	for rank < minSize && values[rank] > rcond*values[0] {
		rank++
	}
	// x is the sum over k < rank of v_k (u_k^H b) / values[k], for the columns u_k of u and v_k of v.
	for j := range x.cols {
		for k := range rank {
			factor := s.dot(u.column(k), b.column(j))
			factor = s.fromParts(s.re(factor)/values[k], s.im(factor)/values[k])
			s.addScaled(factor, v.column(k), x.column(j))
			s.checkContextAfter(a.rows + a.cols)
		}
	}
	return values, rank
}
