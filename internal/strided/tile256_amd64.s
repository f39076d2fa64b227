//go:build amd64 && !noasm

// Transposing tiles with AVX2: the method of tile512_amd64.s with two lanes, so that a store writes half a cache line.

#include "tile_amd64.h"

#define GET1(a, p)    VMOVUPS a, p
#define GET2(a, p, q) GET1(a, p); VMOVUPS 16 a, q
#define PUT1(a, p)    VINSERTI128 $1, a, p, p
#define PUT2(a, p, q) PUT1(a, p); VINSERTI128 $1, 16 a, q, q

// Load 16 bytes of each of eight rows into the low lane (LOW8), or into the high lane (HIGH8).
#define LOW8 \
	GET1(ROW0, X0); GET1(ROW1, X1); GET1(ROW2, X2); GET1(ROW3, X3); DOWN4 \
	GET1(ROW0, X4); GET1(ROW1, X5); GET1(ROW2, X6); GET1(ROW3, X7); DOWN4

#define HIGH8 \
	PUT1(ROW0, Y0); PUT1(ROW1, Y1); PUT1(ROW2, Y2); PUT1(ROW3, Y3); DOWN4 \
	PUT1(ROW0, Y4); PUT1(ROW1, Y5); PUT1(ROW2, Y6); PUT1(ROW3, Y7)

#define ROUND8(lo, hi, a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7) \
	PAIRS(lo, hi, a0, a1, a4, a5, b0, b1, b2, b3) \
	PAIRS(lo, hi, a2, a3, a6, a7, b4, b5, b6, b7)

#define UP8(lo, hi) \
	ROUND8(lo, hi, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15)

#define DOWN8(lo, hi) \
	ROUND8(lo, hi, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)

// After three rounds a lane has eight rows of two columns: the middle quadwords are exchanged so that each column is one lane.
#define COLUMNS(y, x) \
	VPERMQ       $0xD8, y, y         \
	VMOVUPS      x, (DI)             \
	VEXTRACTI128 $1, y, (DI)(R13*1)  \
	LEAQ         (DI)(R13*2), DI

// 16 rows of 16 bytes.
TEXT ·tile1x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	LOW8
	HIGH8
	UP8(VPUNPCKLBW, VPUNPCKHBW)
	DOWN8(VPUNPCKLBW, VPUNPCKHBW)
	UP8(VPUNPCKLBW, VPUNPCKHBW)
	COLUMNS(Y8, X8)
	COLUMNS(Y9, X9)
	COLUMNS(Y10, X10)
	COLUMNS(Y11, X11)
	COLUMNS(Y12, X12)
	COLUMNS(Y13, X13)
	COLUMNS(Y14, X14)
	COLUMNS(Y15, X15)
	AGAIN

// 16 rows of 8 words.
TEXT ·tile2x32(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	LOW8
	HIGH8
	UP8(VPUNPCKLWD, VPUNPCKHWD)
	DOWN8(VPUNPCKLWD, VPUNPCKHWD)
	UP8(VPUNPCKLWD, VPUNPCKHWD)
	PREFETCHED4(Y8, Y9, Y10, Y11)
	PREFETCHED4(Y12, Y13, Y14, Y15)
	AGAIN

// 8 rows of 8 words.
TEXT ·tile2x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	LOW8
	UP8(VPUNPCKLWD, VPUNPCKHWD)
	DOWN8(VPUNPCKLWD, VPUNPCKHWD)
	UP8(VPUNPCKLWD, VPUNPCKHWD)
	PREFETCHED4(X8, X9, X10, X11)
	PREFETCHED4(X12, X13, X14, X15)
	AGAIN

// 8 rows of 8 doublewords.
TEXT ·tile4x32(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	AHEAD4
	GET2(ROW0, X0, X4); GET2(ROW1, X1, X5); GET2(ROW2, X2, X6); GET2(ROW3, X3, X7); DOWN4
	AHEAD4
	PUT2(ROW0, Y0, Y4); PUT2(ROW1, Y1, Y5); PUT2(ROW2, Y2, Y6); PUT2(ROW3, Y3, Y7)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y0, Y1, Y2, Y3, Y8, Y9, Y10, Y11)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y8, Y9, Y10, Y11, Y0, Y1, Y2, Y3)
	PREFETCHED4(Y0, Y1, Y2, Y3)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y4, Y5, Y6, Y7, Y12, Y13, Y14, Y15)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y12, Y13, Y14, Y15, Y4, Y5, Y6, Y7)
	PREFETCHED4(Y4, Y5, Y6, Y7)
	AGAIN

// 8 rows of 4 doublewords.
TEXT ·narrow4x32(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET1(ROW0, X0); GET1(ROW1, X1); GET1(ROW2, X2); GET1(ROW3, X3); DOWN4
	PUT1(ROW0, Y0); PUT1(ROW1, Y1); PUT1(ROW2, Y2); PUT1(ROW3, Y3)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y0, Y1, Y2, Y3, Y8, Y9, Y10, Y11)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y8, Y9, Y10, Y11, Y0, Y1, Y2, Y3)
	PREFETCHED4(Y0, Y1, Y2, Y3)
	AGAIN

// 16 rows of 4 doublewords: the halves of a line are written by consecutive non-temporal stores.
#define LINE(a, b, to) \
	VMOVNTPS a, to    \
	VMOVNTPS b, 32 to

TEXT ·stream4x32(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	AHEAD4
	GET1(ROW0, X0); GET1(ROW1, X1); GET1(ROW2, X2); GET1(ROW3, X3); DOWN4
	AHEAD4
	PUT1(ROW0, Y0); PUT1(ROW1, Y1); PUT1(ROW2, Y2); PUT1(ROW3, Y3); DOWN4
	AHEAD4
	GET1(ROW0, X4); GET1(ROW1, X5); GET1(ROW2, X6); GET1(ROW3, X7); DOWN4
	AHEAD4
	PUT1(ROW0, Y4); PUT1(ROW1, Y5); PUT1(ROW2, Y6); PUT1(ROW3, Y7)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y0, Y1, Y2, Y3, Y8, Y9, Y10, Y11)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y8, Y9, Y10, Y11, Y0, Y1, Y2, Y3)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y4, Y5, Y6, Y7, Y12, Y13, Y14, Y15)
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, Y12, Y13, Y14, Y15, Y4, Y5, Y6, Y7)
	LINE(Y0, Y4, (DI))
	LINE(Y1, Y5, (DI)(R13*1))
	LINE(Y2, Y6, (DI)(R13*2))
	LINE(Y3, Y7, (DI)(BX*1))
	AGAIN

// 4 rows of 4 quadwords.
TEXT ·tile8x32(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	AHEAD4
	GET2(ROW0, X0, X2); GET2(ROW1, X1, X3)
	PUT2(ROW2, Y0, Y2); PUT2(ROW3, Y1, Y3)
	PAIRS(VPUNPCKLQDQ, VPUNPCKHQDQ, Y0, Y2, Y1, Y3, Y8, Y9, Y10, Y11)
	PREFETCHED4(Y8, Y9, Y10, Y11)
	AGAIN

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
