//go:build amd64 && !noasm

// AVX-512 routines for float32; the code is in avx512_body.h.

#include "textflag.h"

#define ES 4
#define HALF 16
#define BCAST VBROADCASTSS
#define FMA VFMADD231PS
#define ADD VADDPS
#define MOVU VMOVUPS
#define MOVUZ VMOVUPS.Z
#define MOVS VMOVSS
#define HSUM \
	VHADDPS X0, X0, X0 \
	VHADDPS X0, X0, X0

#define SUM4 \
	VHADDPS Y1, Y0, Y0 \
	VHADDPS Y3, Y2, Y2 \
	VHADDPS Y2, Y0, Y0 \
	VEXTRACTF128 $1, Y0, X1 \
	VADDPS X1, X0, X0 \
	VMOVUPS X0, (DX)

#define AXPY4 ·axpy4AVX512F32
#define DOT ·dotAVX512F32
#define AXPYS ·axpysAVX512F32
#define DOTS ·dotsAVX512F32

#include "avx512_body.h"
