//go:build amd64 && !noasm

// AVX-512 kernels for float64; the code is in avx512_body.h.

#include "textflag.h"

#define ES 8
#define HALF 8
#define BCAST VBROADCASTSD
#define FMA VFMADD231PD
#define ADD VADDPD
#define MOVU VMOVUPD
#define MOVUZ VMOVUPD.Z
#define MOVS VMOVSD
#define HSUM \
	VHADDPD X0, X0, X0

#define MICRO12X2 ·micro12x2AVX512F64
#define MICRO8X2 ·micro8x2AVX512F64
#define MICRO4X2 ·micro4x2AVX512F64
#define MICRO12X1 ·micro12x1AVX512F64
#define AXPY4 ·axpy4AVX512F64
#define DOT ·dotAVX512F64

#include "avx512_body.h"
