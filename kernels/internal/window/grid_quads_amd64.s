//go:build amd64 && !noasm

#include "textflag.h"

// Add tap k of the list at DX to the sums in Y0.
#define TAP(k) \
	MOVQ         (16*k)(DX), R9   \
	VBROADCASTSD (16*k+8)(DX), Y1 \
	VCVTPS2PD    (SI)(R9*1), Y2   \
	VMULPD       Y2, Y1, Y2       \
	VADDPD       Y2, Y0, Y0

// func sampleQuads(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
TEXT ·sampleQuads(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ out+8(FP), DI
	MOVQ outStep+16(FP), R8
	MOVQ in+24(FP), SI
	MOVQ taps+32(FP), DX
	MOVQ tapCount+40(FP), BX

position:
	VXORPD Y0, Y0, Y0
	MOVQ   BX, AX
	SUBQ   $4, AX
	JLT    single

four:
	TAP(0)
	TAP(1)
	TAP(2)
	TAP(3)
	ADDQ $64, DX
	SUBQ $4, AX
	JGE  four

single:
	ADDQ $4, AX
	JEQ  store

one:
	TAP(0)
	ADDQ $16, DX
	DECQ AX
	JNE  one

store:
	VCVTPD2PSY Y0, X0
	VMOVUPS    X0, (DI)
	ADDQ       R8, DI
	DECQ       CX
	JNE        position
	VZEROUPPER
	RET

// Add the quad at offset o of the tap at (SI)(R9*1), whose weight is in Y4, to the sums in sum.
#define BLOCKQUAD(o, quad, sum) \
	VCVTPS2PD o(SI)(R9*1), quad \
	VMULPD    quad, Y4, quad    \
	VADDPD    quad, sum, sum

// func sampleBlocks(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
TEXT ·sampleBlocks(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ out+8(FP), DI
	MOVQ outStep+16(FP), R8
	MOVQ in+24(FP), SI
	MOVQ taps+32(FP), DX
	MOVQ tapCount+40(FP), BX

position:
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	MOVQ   BX, AX

tap:
	MOVQ         (DX), R9
	VBROADCASTSD 8(DX), Y4
	MOVQ         512(DX), R10 // the tap after 32 others, or other memory of the group
	PREFETCHT0   (SI)(R10*1)
	BLOCKQUAD(0, Y5, Y0)
	BLOCKQUAD(16, Y6, Y1)
	BLOCKQUAD(32, Y7, Y2)
	BLOCKQUAD(48, Y8, Y3)
	ADDQ         $16, DX
	DECQ         AX
	JNE          tap
	VCVTPD2PSY   Y0, X0
	VCVTPD2PSY   Y1, X1
	VCVTPD2PSY   Y2, X2
	VCVTPD2PSY   Y3, X3
	VMOVUPS      X0, (DI)
	VMOVUPS      X1, 16(DI)
	VMOVUPS      X2, 32(DI)
	VMOVUPS      X3, 48(DI)
	ADDQ         R8, DI
	DECQ         CX
	JNE          position
	VZEROUPPER
	RET
