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

#define AXPY4 ·axpy4AVX512F64
#define DOT ·dotAVX512F64
#define AXPYS ·axpysAVX512F64
#define DOTS ·dotsAVX512F64

#include "sums_f64.h"
#include "avx512_body.h"
