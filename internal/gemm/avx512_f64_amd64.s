//go:build amd64 && !noasm

// AVX-512 routines for float64; the code is in avx512_body.h.

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

#define SUM4 \
	VHADDPD Y1, Y0, Y0 \
	VHADDPD Y3, Y2, Y2 \
	VEXTRACTF128 $1, Y0, X1 \
	VEXTRACTF128 $1, Y2, X3 \
	VADDPD X1, X0, X0 \
	VADDPD X3, X2, X2 \
	VMOVUPD X0, (DX) \
	VMOVUPD X2, 16(DX)

#define AXPY4 ·axpy4AVX512F64
#define DOT ·dotAVX512F64
#define AXPYS ·axpysAVX512F64
#define DOTS ·dotsAVX512F64

#include "avx512_body.h"
