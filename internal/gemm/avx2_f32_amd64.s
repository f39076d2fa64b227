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

#define AXPY4 ·axpy4AVX2F32
#define DOT ·dotAVX2F32
#define AXPYS ·axpysAVX2F32
#define DOTS ·dotsAVX2F32

#include "sums_f32.h"
#include "avx2_body.h"
