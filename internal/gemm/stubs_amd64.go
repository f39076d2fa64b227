//go:build amd64 && !noasm

package gemm

import "unsafe"

// Declarations of the routines in avx512_body.h and avx2_body.h. Steps and
// leading dimensions are bytes; see microFunc, axpyFunc and dotFunc.

//go:noescape
func micro12x2AVX512F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro8x2AVX512F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro4x2AVX512F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro12x1AVX512F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro6x2AVX2F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro4x2AVX2F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro2x2AVX2F32(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func axpy4AVX512F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX512F32(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpy4AVX2F32(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX2F32(n int, x, y, out unsafe.Pointer)

//go:noescape
func micro12x2AVX512F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro8x2AVX512F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro4x2AVX512F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro12x1AVX512F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer,
	ldinit int, rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro6x2AVX2F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro4x2AVX2F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func micro2x2AVX2F64(kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int, init unsafe.Pointer, ldinit int,
	rowBias unsafe.Pointer, rows, cols int)

//go:noescape
func axpy4AVX512F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX512F64(n int, x, y, out unsafe.Pointer)

//go:noescape
func axpy4AVX2F64(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)

//go:noescape
func dotAVX2F64(n int, x, y, out unsafe.Pointer)
