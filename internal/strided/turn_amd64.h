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
	LEAQ (R13)(R13*2), BX

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

// What is two tiles to the right will be needed soon. Panels are of more rows than prefetchers of hardware follow.
#define AHEAD4 \
	PREFETCHT0 128 ROW0; PREFETCHT0 128 ROW1; PREFETCHT0 128 ROW2; PREFETCHT0 128 ROW3
