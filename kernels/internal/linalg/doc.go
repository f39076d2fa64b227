// Package linalg has the ops that factor matrices: inverses, solutions of equations, and decompositions into triangular
// factors, orthogonal factors, eigenvalues or singular values. The ops compute in float64 or complex128. Each
// matrix of a batch is one task, which one worker computes. The algorithms are LU with partial pivoting, Cholesky,
// Householder's QR, and the one-sided Jacobi method for singular values and for eigenvalues of Hermitian matrices.
//
// The results have PyTorch's strides. Pivots, signs of triangular factors, and the output named info follow LAPACK's
// conventions: info is 0 after success, otherwise the number, from 1, of the pivot or leading minor that failed. A^H,
// the adjoint of A, is its conjugate transpose.
//
// The package does not depend on LAPACK. gonum's implementation of LAPACK has no complex numbers, cannot be
// interrupted, and rounds differently on arm64, where Go fuses products and sums.
package linalg
