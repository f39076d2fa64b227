//go:build amd64 && !noasm

// AVX2+FMA routines for float32; the code is in avx2_body.h.

#include "textflag.h"

#define ES 4
#define HALF 8
#define BCAST VBROADCASTSS
#define FMA VFMADD231PS
#define FMAS VFMADD231SS
#define ADD VADDPS
#define MOVU VMOVUPS
#define MOVS VMOVSS
#define HSUM \
	VHADDPS X0, X0, X0 \
	VHADDPS X0, X0, X0

#define AXPY4 ·axpy4AVX2F32
#define DOT ·dotAVX2F32

#include "avx2_body.h"
