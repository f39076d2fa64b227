package linalg

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		LinalgCholesky, Cholesky, CholeskyEx, CholeskyInverse, CholeskySolve,
		Eigh, Eigvalsh,
		Inv, Inverse, InvEx, Solve, SolveEx,
		Lstsq,
		LUFactor, LUFactorEx, LU, LinalgLUSolve, LUSolve,
		LinalgMatrixExp, MatrixExp,
		LinalgQR, QR, Geqrf, HouseholderProduct, Orgqr, Ormqr,
		LinalgSlogdet, Slogdet, Logdet,
		LinalgSVD, Svdvals, SVD,
		SolveTriangular, TriangularSolve,
	}
}
