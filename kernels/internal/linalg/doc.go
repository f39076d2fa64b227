// Package linalg has the ops on matrices that factor them: inverses, solutions of equations, triangular, orthogonal,
// eigenvalue and singular value decompositions. They compute in float64 or complex128, one matrix of a batch after the
// other, with PyTorch's strides and LAPACK's conventions for pivots, signs of triangular factors, and info.
//
// It has no dependency on LAPACK: gonum's implementation has no complex numbers, cannot be interrupted, and rounds
// differently on arm64, where Go fuses products and sums.
package linalg
