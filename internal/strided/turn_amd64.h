// What the tiles of all widths share. A tile's rows of the source are srcStep apart, its rows of the
// destination dstStep; the next of n tiles is srcNext and dstNext further.

#include "textflag.h"

#define ARGS \
	MOVQ n+0(FP), CX        \
	MOVQ dst+8(FP), DX      \
	MOVQ dstStep+16(FP), R13 \
	MOVQ dstNext+24(FP), R10 \
	MOVQ src+32(FP), R8     \
	MOVQ srcStep+40(FP), R11 \
	MOVQ srcNext+48(FP), R9 \
	LEAQ (R11)(R11*2), R12  \
	LEAQ (R13)(R13*2), BX   \
	XORL R15, R15           \
	MOVL $128, AHEAD        \
	TESTL $4095, R11        \
	CMOVLEQ R15, AHEAD

#define NEXT \
	MOVQ R8, SI \
	MOVQ DX, DI \
	ADDQ R9, R8 \
	ADDQ R10, DX

#define AGAIN \
	DECQ CX    \
	JNZ  loop  \
	VZEROUPPER \
	RET

// Four rows of the source, and the way to the next four.
#define ROW0 (SI)
#define ROW1 (SI)(R11*1)
#define ROW2 (SI)(R11*2)
#define ROW3 (SI)(R12*1)
#define DOWN4 LEAQ (SI)(R11*4), SI

// The interleaved elements of a and c go to p and q, those of b and d to r and s.
#define PAIRS(lo, hi, a, b, c, d, p, q, r, s) \
	lo c, a, p \
	hi c, a, q \
	lo d, b, r \
	hi d, b, s

#define OUT4(store, a, b, c, d) \
	store a, (DI)         \
	store b, (DI)(R13*1)  \
	store c, (DI)(R13*2)  \
	store d, (DI)(BX*1)   \
	LEAQ  (DI)(R13*4), DI

// What is two tiles to the right will be needed soon: panels are of more rows than prefetchers of hardware follow.
// Rows that are pages apart have all these lines in one set of L1, where they push one another out before they are
// read: there AHEAD is 0, and the lines of the tile itself are asked for, all at once. (A transpose of 4096 x 4096
// float32 takes 5.8 ms so, 6.7 with lines ahead; Emerald Rapids.)
#define AHEAD AX
#define AHEAD4 \
	LEAQ (SI)(AHEAD*1), R15; \
	PREFETCHT0 (R15); PREFETCHT0 (R15)(R11*1); PREFETCHT0 (R15)(R11*2); PREFETCHT0 (R15)(R12*1)
