//go:build amd64 && !noasm

// AVX2+FMA routines for float64; the code is in avx2_body.h.

#include "textflag.h"

#define ES 8
#define HALF 4
#define BCAST VBROADCASTSD
#define FMA VFMADD231PD
#define FMAS VFMADD231SD
#define ADD VADDPD
#define MOVU VMOVUPD
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

#define AXPY4 ·axpy4AVX2F64
#define DOT ·dotAVX2F64
#define AXPYS ·axpysAVX2F64
#define DOTS ·dotsAVX2F64

#include "avx2_body.h"
