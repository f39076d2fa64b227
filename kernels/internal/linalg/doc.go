// Package linalg has the ops that factor matrices: inverses, solutions of equations, and decompositions into triangular
// factors, orthogonal factors, eigenvalues or singular values. The ops compute in float64 or complex128. A worker
// computes a matrix of a batch alone. The results have PyTorch's strides. Pivots, signs of triangular factors, and the
// result info follow LAPACK's conventions.
//
// The package does not depend on LAPACK. gonum's implementation of LAPACK has no complex numbers, cannot be
// interrupted, and rounds differently on arm64, where Go fuses products and sums.
package linalg
