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

#define AXPY4 ·axpy4AVX2F64
#define DOT ·dotAVX2F64
#define AXPYS ·axpysAVX2F64
#define DOTS ·dotsAVX2F64

#include "sums_f64.h"
#include "avx2_body.h"
