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

#define AXPY4 ·axpy4AVX512F32
#define DOT ·dotAVX512F32
#define AXPYS ·axpysAVX512F32
#define DOTS ·dotsAVX512F32

#include "sums_f32.h"
#include "avx512_body.h"
