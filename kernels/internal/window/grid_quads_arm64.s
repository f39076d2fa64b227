//go:build arm64 && !noasm

#include "textflag.h"

// Instructions of two float64 that the assembler does not know.
#define FCVTL(n, d)    WORD $(0x0E617800 | (n)<<5 | (d))             // converts the lower two float32 of n
#define FCVTL2(n, d)   WORD $(0x4E617800 | (n)<<5 | (d))             // converts the upper two float32 of n
#define FCVTN(n, d)    WORD $(0x0E616800 | (n)<<5 | (d))             // converts to the lower two float32 of d
#define FCVTN2(n, d)   WORD $(0x4E616800 | (n)<<5 | (d))             // converts to the upper two float32 of d
#define FMUL(m, n, d)  WORD $(0x6E60DC00 | (m)<<16 | (n)<<5 | (d))
#define FADD(m, n, d)  WORD $(0x4E60D400 | (m)<<16 | (n)<<5 | (d))

// func sampleQuads(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
TEXT ·sampleQuads(SB), NOSPLIT, $0-48
	MOVD n+0(FP), R0
	MOVD out+8(FP), R1
	MOVD outStep+16(FP), R2
	MOVD in+24(FP), R3
	MOVD taps+32(FP), R4
	MOVD tapCount+40(FP), R5

position:
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	MOVD R5, R6

tap:
	MOVD.P 8(R4), R7
	VLD1R.P 8(R4), [V2.D2]
	ADD    R3, R7
	VLD1   (R7), [V3.S4]
	FCVTL(3, 4)
	FCVTL2(3, 5)
	FMUL(4, 2, 4)
	FMUL(5, 2, 5)
	FADD(4, 0, 0)
	FADD(5, 1, 1)
	SUBS   $1, R6
	BNE    tap
	FCVTN(0, 2)
	FCVTN2(1, 2)
	VST1   [V2.S4], (R1)
	ADD    R2, R1
	SUBS   $1, R0
	BNE    position
	RET

// Add the quad in V(n) times the weight in V8 to the sums in V(sum) and V(sum+1). It overwrites V(n+4) and V24.
#define BLOCKQUAD(n, sum) \
	FCVTL(n, (n+4))              \
	FCVTL2(n, 24)                \
	FMUL((n+4), 8, (n+4))        \
	FMUL(24, 8, 24)              \
	FADD((n+4), sum, sum)        \
	FADD(24, (sum+1), (sum+1))

// Convert the sums in V(sum) and V(sum+1) to the quad in V(n).
#define TOQUAD(sum, n) \
	FCVTN(sum, n)      \
	FCVTN2((sum+1), n)

// func sampleBlocks(n int, out unsafe.Pointer, outStep int, in unsafe.Pointer, taps *gridTap, tapCount int)
TEXT ·sampleBlocks(SB), NOSPLIT, $0-48
	MOVD n+0(FP), R0
	MOVD out+8(FP), R1
	MOVD outStep+16(FP), R2
	MOVD in+24(FP), R3
	MOVD taps+32(FP), R4
	MOVD tapCount+40(FP), R5

position:
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	MOVD R5, R6

tap:
	MOVD    512(R4), R8 // the tap after 32 others, or other memory of the group
	MOVD.P  8(R4), R7
	VLD1R.P 8(R4), [V8.D2]
	ADD     R3, R8
	ADD     R3, R7
	PRFM    (R8), PLDL1KEEP
	VLD1    (R7), [V16.S4, V17.S4, V18.S4, V19.S4]
	BLOCKQUAD(16, 0)
	BLOCKQUAD(17, 2)
	BLOCKQUAD(18, 4)
	BLOCKQUAD(19, 6)
	SUBS    $1, R6
	BNE     tap
	TOQUAD(0, 16)
	TOQUAD(2, 17)
	TOQUAD(4, 18)
	TOQUAD(6, 19)
	VST1    [V16.S4, V17.S4, V18.S4, V19.S4], (R1)
	ADD     R2, R1
	SUBS    $1, R0
	BNE     position
	RET
