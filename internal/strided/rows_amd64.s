//go:build amd64 && !noasm

// Rows are copied in pieces of 64 bytes; the last piece may overlap the one before it. The address ahead bytes further
// is prefetched, because rows may be too far apart for hardware prefetchers.

#include "textflag.h"

#define ARGS \
	MOVQ n+0(FP), R8         \
	MOVQ dst+8(FP), DI       \
	MOVQ dstStep+16(FP), R9  \
	MOVQ src+24(FP), SI      \
	MOVQ srcStep+32(FP), R10 \
	MOVQ bytes+40(FP), R11   \
	SUBQ $64, R11            \
	MOVQ ahead+48(FP), R12   \
	ADDQ SI, R12

// R11 is the offset of the last piece, AX that of the current one.
#define ROWS(PIECE) \
row:                                \
	XORQ AX, AX                 \
	CMPQ AX, R11                \
	JGE  last                   \
piece:                              \
	PREFETCHT0 (R12)(AX*1)      \
	PIECE                       \
	ADDQ $64, AX                \
	CMPQ AX, R11                \
	JLT  piece                  \
last:                               \
	MOVQ R11, AX                \
	PREFETCHT0 (R12)(AX*1)      \
	PIECE                       \
	ADDQ R9, DI                 \
	ADDQ R10, SI                \
	ADDQ R10, R12               \
	DECQ R8                     \
	JNZ  row                    \
	VZEROUPPER                  \
	RET

#define PIECE512(store) \
	VMOVUPS (SI)(AX*1), Z0 \
	store   Z0, (DI)(AX*1)

#define PIECE256(store) \
	VMOVUPS (SI)(AX*1), Y0   \
	VMOVUPS 32(SI)(AX*1), Y1 \
	store   Y0, (DI)(AX*1)   \
	store   Y1, 32(DI)(AX*1)

// func rows512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)
TEXT ·rows512(SB), NOSPLIT, $0-56
	ARGS
	ROWS(PIECE512(VMOVUPS))

TEXT ·streamRows512(SB), NOSPLIT, $0-56
	ARGS
	ROWS(PIECE512(VMOVNTPS))

TEXT ·rows256(SB), NOSPLIT, $0-56
	ARGS
	ROWS(PIECE256(VMOVUPS))

TEXT ·streamRows256(SB), NOSPLIT, $0-56
	ARGS
	ROWS(PIECE256(VMOVNTPS))
