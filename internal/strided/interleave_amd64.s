//go:build amd64 && !noasm

// Interleaving four runs with AVX2. The stores are the bottleneck, not the vector width.

#include "textflag.h"

#define ARGS \
	MOVQ n+0(FP), CX      \
	MOVQ dst+8(FP), DI    \
	MOVQ step+16(FP), R12 \
	MOVQ s0+24(FP), R8    \
	MOVQ s1+32(FP), R9    \
	MOVQ s2+40(FP), R10   \
	MOVQ s3+48(FP), R11   \
	XORQ AX, AX

#define LOAD4 \
	VMOVUPS (R8)(AX*1), Y0  \
	VMOVUPS (R9)(AX*1), Y1  \
	VMOVUPS (R10)(AX*1), Y2 \
	VMOVUPS (R11)(AX*1), Y3 \
	ADDQ    $32, AX

// func interleave32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)
TEXT ·interleave32(SB), NOSPLIT, $0-56
	ARGS
	LEAQ (R12)(R12*2), R13

loop:
	LOAD4
	VUNPCKLPS Y1, Y0, Y4
	VUNPCKHPS Y1, Y0, Y5
	VUNPCKLPS Y3, Y2, Y6
	VUNPCKHPS Y3, Y2, Y7
	VUNPCKLPD Y6, Y4, Y0
	VUNPCKHPD Y6, Y4, Y1
	VUNPCKLPD Y7, Y5, Y2
	VUNPCKHPD Y7, Y5, Y3
	LEAQ      (DI)(R12*4), SI
	VMOVUPS   X0, (DI)
	VMOVUPS   X1, (DI)(R12*1)
	VMOVUPS   X2, (DI)(R12*2)
	VMOVUPS   X3, (DI)(R13*1)
	VEXTRACTF128 $1, Y0, (SI)
	VEXTRACTF128 $1, Y1, (SI)(R12*1)
	VEXTRACTF128 $1, Y2, (SI)(R12*2)
	VEXTRACTF128 $1, Y3, (SI)(R13*1)
	LEAQ      (SI)(R12*4), DI
	SUBQ      $8, CX
	JNZ       loop
	VZEROUPPER
	RET

// func interleave64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)
TEXT ·interleave64(SB), NOSPLIT, $0-56
	ARGS
	LEAQ (R12)(R12*2), R13

loop:
	LOAD4
	VUNPCKLPD  Y1, Y0, Y4
	VUNPCKHPD  Y1, Y0, Y5
	VUNPCKLPD  Y3, Y2, Y6
	VUNPCKHPD  Y3, Y2, Y7
	VPERM2F128 $0x20, Y6, Y4, Y0
	VPERM2F128 $0x20, Y7, Y5, Y1
	VPERM2F128 $0x31, Y6, Y4, Y2
	VPERM2F128 $0x31, Y7, Y5, Y3
	VMOVUPD    Y0, (DI)
	VMOVUPD    Y1, (DI)(R12*1)
	VMOVUPD    Y2, (DI)(R12*2)
	VMOVUPD    Y3, (DI)(R13*1)
	LEAQ       (DI)(R12*4), DI
	SUBQ       $4, CX
	JNZ        loop
	VZEROUPPER
	RET
