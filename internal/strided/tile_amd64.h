// Macros of all tile routines. Rows of the source are srcStep bytes apart, rows of the destination dstStep; each of n
// tiles is srcNext and dstNext bytes after the previous one, and after is the destination of the tile after the last
// one.

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
	TESTL $1023, R11        \
	CMOVLEQ R15, AHEAD

// Start a tile from SI to DI, with the destination of the next tile in R14.
#define NEXT \
	MOVQ    R8, SI           \
	MOVQ    DX, DI           \
	ADDQ    R9, R8           \
	ADDQ    R10, DX          \
	MOVQ    DX, R14          \
	CMPQ    CX, $1           \
	CMOVQEQ after+56(FP), R14

#define AGAIN \
	DECQ CX    \
	JNZ  loop  \
	VZEROUPPER \
	RET

// Addresses of four source rows, and the advance to the next four.
#define ROW0 (SI)
#define ROW1 (SI)(R11*1)
#define ROW2 (SI)(R11*2)
#define ROW3 (SI)(R12*1)
#define DOWN4 LEAQ (SI)(R11*4), SI

// Interleave a with c into p and q, and b with d into r and s.
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

// Store four rows in the caches. Lines are read before they are written, and stores wait for one another, so four lines
// of the next tile are prefetched for writing (PREFETCHW, which the assembler does not know). From (8,512,14,14) to
// NHWC takes 0.24 ms instead of 0.29, and back 0.28 instead of 0.43; with two threads 0.11 instead of 0.14 and 0.13
// instead of 0.2. A distance of more tiles is worse: lines of rows that are a power of two apart evict one another from
// L1 before they are written.
#define PREFETCHED4(a, b, c, d) \
	BYTE $0x41; BYTE $0x0F; BYTE $0x0D; BYTE $0x0E;             \ // PREFETCHW (R14)
	BYTE $0x43; BYTE $0x0F; BYTE $0x0D; BYTE $0x0C; BYTE $0x2E; \ // PREFETCHW (R14)(R13*1)
	BYTE $0x43; BYTE $0x0F; BYTE $0x0D; BYTE $0x0C; BYTE $0x6E; \ // PREFETCHW (R14)(R13*2)
	BYTE $0x41; BYTE $0x0F; BYTE $0x0D; BYTE $0x0C; BYTE $0x1E; \ // PREFETCHW (R14)(BX*1)
	LEAQ (R14)(R13*4), R14;                                     \
	OUT4(VMOVUPS, a, b, c, d)

// Store four rows without prefetch.
#define PLAIN4(a, b, c, d) OUT4(VMOVUPS, a, b, c, d)

// Store four rows with non-temporal stores.
#define STREAM4(a, b, c, d) OUT4(VMOVNTPS, a, b, c, d)

// Prefetch two tiles to the right: panels have more rows than hardware prefetchers follow. If rows are a multiple of 1
// KiB apart, all these lines are in few sets of L1 and evict one another before they are read; then AHEAD is 0, and the
// lines of the tile itself are prefetched all at once. (A transpose of 4096 x 4096 float32 then takes 5.8 ms instead of
// 6.7, one of 512 x 512 0.048 instead of 0.061; Emerald Rapids.)
#define AHEAD AX
#define AHEAD4 \
	LEAQ (SI)(AHEAD*1), R15; \
	PREFETCHT0 (R15); PREFETCHT0 (R15)(R11*1); PREFETCHT0 (R15)(R11*2); PREFETCHT0 (R15)(R12*1)
