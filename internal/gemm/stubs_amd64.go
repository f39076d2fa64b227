//go:build amd64 && !noasm

package gemm

import "unsafe"

// These are assembly routines for products with few rows or columns. They are defined in avx512_body.h and avx2_body.h.
// The comments of their types (axpyFunc, dotFunc, axpysFunc and dotsFunc in kernel.go) explain the parameters.

//go:noescape
func axpy4AVX512F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX512F32(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpy4AVX2F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX2F32(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpy4AVX512F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX512F64(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpy4AVX2F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX2F64(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpysAVX512F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

//go:noescape
func dotsAVX512F32(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)

//go:noescape
func axpysAVX2F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

//go:noescape
func dotsAVX2F32(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)

//go:noescape
func axpysAVX512F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

//go:noescape
func dotsAVX512F64(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)

//go:noescape
func axpysAVX2F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)

//go:noescape
func dotsAVX2F64(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)
