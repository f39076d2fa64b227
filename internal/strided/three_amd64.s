//go:build amd64 && !noasm

// Three channels of doublewords. Each of three vectors is assembled from three others: two by a permutation of both,
// the third by a masked permutation. The argument permutations holds the three indices, followed by the masks.

#include "textflag.h"

#define LOAD3 \
	VMOVDQU32 (R8), Z16    \
	VMOVDQU32 64(R8), Z17  \
	VMOVDQU32 128(R8), Z18 \
	KMOVW     192(R8), K1  \
	KMOVW     194(R8), K2  \
	KMOVW     196(R8), K3

#define PUT3 \
	VMOVAPS   Z0, Z4          \
	VMOVAPS   Z0, Z5          \
	VMOVAPS   Z0, Z6          \
	VPERMT2PS Z1, Z16, Z4     \
	VPERMT2PS Z1, Z17, Z5     \
	VPERMT2PS Z1, Z18, Z6     \
	VPERMPS   Z2, Z16, K1, Z4 \
	VPERMPS   Z2, Z17, K2, Z5 \
	VPERMPS   Z2, Z18, K3, Z6

// func split3x512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, table *permutations)
TEXT ·split3x512(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ dstStep+16(FP), R9
	MOVQ src+24(FP), SI
	MOVQ table+32(FP), R8
	LOAD3

loop:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	VMOVUPS 128(SI), Z2
	PUT3
	VMOVUPS Z4, (DI)
	VMOVUPS Z5, (DI)(R9*1)
	VMOVUPS Z6, (DI)(R9*2)
	ADDQ    $192, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     loop
	VZEROUPPER
	RET

// func weave3x512(n int, dst, src unsafe.Pointer, srcStep int, table *permutations)
TEXT ·weave3x512(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ table+32(FP), R8
	LOAD3

loop:
	VMOVUPS (SI), Z0
	VMOVUPS (SI)(R9*1), Z1
	VMOVUPS (SI)(R9*2), Z2
	PUT3
	VMOVUPS Z4, (DI)
	VMOVUPS Z5, 64(DI)
	VMOVUPS Z6, 128(DI)
	ADDQ    $64, SI
	ADDQ    $192, DI
	SUBQ    $16, CX
	JNZ     loop
	VZEROUPPER
	RET
