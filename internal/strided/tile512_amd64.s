//go:build amd64 && !noasm

// Transposing tiles with AVX-512. A tile reads 16, 32 or 64 bytes of each source row; it has as many rows as fill 64
// bytes of the destination. Pieces of 16 bytes are loaded into their final lanes of the registers, so that only
// transpositions within lanes remain. Each round interleaves the elements of register i with those of register i+n/2,
// for n registers. After log2(elements per lane) rounds, rows are columns.

#include "tile_amd64.h"

// Load the pieces of a row into lane 0.
#define GET1(a, p)          VMOVUPS a, p
#define GET2(a, p, q)       GET1(a, p); VMOVUPS 16 a, q
#define GET4(a, p, q, r, s) GET2(a, p, q); VMOVUPS 32 a, r; VMOVUPS 48 a, s

// Load the pieces of a row into lane l.
#define PUT1(l, a, p)          VINSERTI32X4 $l, a, p, p
#define PUT2(l, a, p, q)       PUT1(l, a, p); VINSERTI32X4 $l, 16 a, q, q
#define PUT4(l, a, p, q, r, s) PUT2(l, a, p, q); VINSERTI32X4 $l, 32 a, r, r; VINSERTI32X4 $l, 48 a, s, s

// Load four rows of bytes into lane 0, or into lane l.
#define BYTES0(x0, x1, x2, x3) \
	GET1(ROW0, x0); GET1(ROW1, x1); GET1(ROW2, x2); GET1(ROW3, x3); DOWN4

#define BYTES(l, z0, z1, z2, z3) \
	PUT1(l, ROW0, z0); PUT1(l, ROW1, z1); PUT1(l, ROW2, z2); PUT1(l, ROW3, z3); DOWN4

// Load sixteen rows of bytes into lane l.
#define BYTES16(l) \
	BYTES(l, Z0, Z1, Z2, Z3) \
	BYTES(l, Z4, Z5, Z6, Z7) \
	BYTES(l, Z8, Z9, Z10, Z11) \
	BYTES(l, Z12, Z13, Z14, Z15)

#define ROUND16UP \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z0, Z1, Z8, Z9, Z16, Z17, Z18, Z19) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z2, Z3, Z10, Z11, Z20, Z21, Z22, Z23) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z4, Z5, Z12, Z13, Z24, Z25, Z26, Z27) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z6, Z7, Z14, Z15, Z28, Z29, Z30, Z31)

#define ROUND16DOWN \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z16, Z17, Z24, Z25, Z0, Z1, Z2, Z3) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z18, Z19, Z26, Z27, Z4, Z5, Z6, Z7) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z20, Z21, Z28, Z29, Z8, Z9, Z10, Z11) \
	PAIRS(VPUNPCKLBW, VPUNPCKHBW, Z22, Z23, Z30, Z31, Z12, Z13, Z14, Z15)

// 64 rows of 16 bytes.
#define TILE1(out4) \
	ARGS                        \
loop:                               \
	NEXT                        \
	BYTES0(X0, X1, X2, X3)      \
	BYTES0(X4, X5, X6, X7)      \
	BYTES0(X8, X9, X10, X11)    \
	BYTES0(X12, X13, X14, X15)  \
	BYTES16(1)                  \
	BYTES16(2)                  \
	BYTES16(3)                  \
	ROUND16UP                   \
	ROUND16DOWN                 \
	ROUND16UP                   \
	ROUND16DOWN                 \
	out4(Z0, Z1, Z2, Z3)     \
	out4(Z4, Z5, Z6, Z7)     \
	out4(Z8, Z9, Z10, Z11)   \
	out4(Z12, Z13, Z14, Z15) \
	AGAIN

// Load eight rows of words into lane l: one piece each, or two.
#define WORDS8(l) \
	PUT1(l, ROW0, Z0); PUT1(l, ROW1, Z1); PUT1(l, ROW2, Z2); PUT1(l, ROW3, Z3); DOWN4 \
	PUT1(l, ROW0, Z4); PUT1(l, ROW1, Z5); PUT1(l, ROW2, Z6); PUT1(l, ROW3, Z7); DOWN4

#define WORDS16(l) \
	PUT2(l, ROW0, Z0, Z8); PUT2(l, ROW1, Z1, Z9); PUT2(l, ROW2, Z2, Z10); PUT2(l, ROW3, Z3, Z11); DOWN4 \
	PUT2(l, ROW0, Z4, Z12); PUT2(l, ROW1, Z5, Z13); PUT2(l, ROW2, Z6, Z14); PUT2(l, ROW3, Z7, Z15); DOWN4

#define ROUNDS8(a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, a0, a1, a4, a5, b0, b1, b2, b3) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, a2, a3, a6, a7, b4, b5, b6, b7) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, b0, b1, b4, b5, a0, a1, a2, a3) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, b2, b3, b6, b7, a4, a5, a6, a7) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, a0, a1, a4, a5, b0, b1, b2, b3) \
	PAIRS(VPUNPCKLWD, VPUNPCKHWD, a2, a3, a6, a7, b4, b5, b6, b7)

// 32 rows of 16 words.
#define TILE2(out4) \
	ARGS \
loop:        \
	NEXT \
	GET2(ROW0, X0, X8); GET2(ROW1, X1, X9); GET2(ROW2, X2, X10); GET2(ROW3, X3, X11); DOWN4   \
	GET2(ROW0, X4, X12); GET2(ROW1, X5, X13); GET2(ROW2, X6, X14); GET2(ROW3, X7, X15); DOWN4 \
	WORDS16(1) \
	WORDS16(2) \
	WORDS16(3) \
	ROUNDS8(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)       \
	ROUNDS8(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31) \
	out4(Z16, Z17, Z18, Z19) \
	out4(Z20, Z21, Z22, Z23) \
	out4(Z24, Z25, Z26, Z27) \
	out4(Z28, Z29, Z30, Z31) \
	AGAIN

// Load four rows of doublewords into lane l: one piece each, or four.
#define DWORDS4(l) \
	PUT1(l, ROW0, Z0); PUT1(l, ROW1, Z1); PUT1(l, ROW2, Z2); PUT1(l, ROW3, Z3); DOWN4

#define DWORDS16(l) \
	AHEAD4 \
	PUT4(l, ROW0, Z0, Z4, Z8, Z12); PUT4(l, ROW1, Z1, Z5, Z9, Z13) \
	PUT4(l, ROW2, Z2, Z6, Z10, Z14); PUT4(l, ROW3, Z3, Z7, Z11, Z15); DOWN4

#define ROUNDS4(a0, a1, a2, a3, b0, b1, b2, b3) \
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, a0, a1, a2, a3, b0, b1, b2, b3) \
	PAIRS(VPUNPCKLDQ, VPUNPCKHDQ, b0, b1, b2, b3, a0, a1, a2, a3)

// 16 rows of 16 doublewords.
#define TILE4(out4) \
	ARGS \
loop:        \
	NEXT \
	AHEAD4 \
	GET4(ROW0, X0, X4, X8, X12); GET4(ROW1, X1, X5, X9, X13)             \
	GET4(ROW2, X2, X6, X10, X14); GET4(ROW3, X3, X7, X11, X15); DOWN4    \
	DWORDS16(1) \
	DWORDS16(2) \
	DWORDS16(3) \
	ROUNDS4(Z0, Z1, Z2, Z3, Z16, Z17, Z18, Z19)     \
	out4(Z0, Z1, Z2, Z3)                     \
	ROUNDS4(Z4, Z5, Z6, Z7, Z20, Z21, Z22, Z23)     \
	out4(Z4, Z5, Z6, Z7)                     \
	ROUNDS4(Z8, Z9, Z10, Z11, Z24, Z25, Z26, Z27)   \
	out4(Z8, Z9, Z10, Z11)                   \
	ROUNDS4(Z12, Z13, Z14, Z15, Z28, Z29, Z30, Z31) \
	out4(Z12, Z13, Z14, Z15)                 \
	AGAIN

// Load two rows of quadwords into lane l.
#define QWORDS2(l, r0, r1) \
	PUT4(l, r0, Z0, Z2, Z4, Z6); PUT4(l, r1, Z1, Z3, Z5, Z7)

// 8 rows of 8 quadwords.
#define TILE8(out4) \
	ARGS \
loop:        \
	NEXT \
	AHEAD4 \
	GET4(ROW0, X0, X2, X4, X6); GET4(ROW1, X1, X3, X5, X7) \
	QWORDS2(1, ROW2, ROW3); DOWN4 \
	AHEAD4 \
	QWORDS2(2, ROW0, ROW1)        \
	QWORDS2(3, ROW2, ROW3)        \
	PAIRS(VPUNPCKLQDQ, VPUNPCKHQDQ, Z0, Z2, Z1, Z3, Z16, Z17, Z18, Z19) \
	out4(Z16, Z17, Z18, Z19)                                     \
	PAIRS(VPUNPCKLQDQ, VPUNPCKHQDQ, Z4, Z6, Z5, Z7, Z20, Z21, Z22, Z23) \
	out4(Z20, Z21, Z22, Z23)                                     \
	AGAIN

// 4 rows of 4 elements of 16 bytes.
#define TILE16(out4) \
	ARGS \
loop:        \
	NEXT \
	AHEAD4 \
	GET4(ROW0, X0, X1, X2, X3)    \
	PUT4(1, ROW1, Z0, Z1, Z2, Z3) \
	PUT4(2, ROW2, Z0, Z1, Z2, Z3) \
	PUT4(3, ROW3, Z0, Z1, Z2, Z3) \
	out4(Z0, Z1, Z2, Z3)   \
	AGAIN

// func tile1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
//	after unsafe.Pointer)
TEXT ·tile1x64(SB), NOSPLIT, $0-64
	TILE1(PREFETCHED4)

TEXT ·close1x64(SB), NOSPLIT, $0-64
	TILE1(PLAIN4)

TEXT ·stream1x64(SB), NOSPLIT, $0-64
	TILE1(STREAM4)

TEXT ·tile2x64(SB), NOSPLIT, $0-64
	TILE2(PREFETCHED4)

TEXT ·close2x64(SB), NOSPLIT, $0-64
	TILE2(PLAIN4)

TEXT ·stream2x64(SB), NOSPLIT, $0-64
	TILE2(STREAM4)

TEXT ·tile4x64(SB), NOSPLIT, $0-64
	TILE4(PREFETCHED4)

TEXT ·close4x64(SB), NOSPLIT, $0-64
	TILE4(PLAIN4)

TEXT ·stream4x64(SB), NOSPLIT, $0-64
	TILE4(STREAM4)

TEXT ·tile8x64(SB), NOSPLIT, $0-64
	TILE8(PREFETCHED4)

TEXT ·close8x64(SB), NOSPLIT, $0-64
	TILE8(PLAIN4)

TEXT ·stream8x64(SB), NOSPLIT, $0-64
	TILE8(STREAM4)

TEXT ·tile16x64(SB), NOSPLIT, $0-64
	TILE16(PREFETCHED4)

TEXT ·close16x64(SB), NOSPLIT, $0-64
	TILE16(PLAIN4)

TEXT ·stream16x64(SB), NOSPLIT, $0-64
	TILE16(STREAM4)

// The narrow routines read 16 bytes of each row: 8 words, 4 doublewords or 2 quadwords.

TEXT ·narrow2x64(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET1(ROW0, X0); GET1(ROW1, X1); GET1(ROW2, X2); GET1(ROW3, X3); DOWN4
	GET1(ROW0, X4); GET1(ROW1, X5); GET1(ROW2, X6); GET1(ROW3, X7); DOWN4
	WORDS8(1)
	WORDS8(2)
	WORDS8(3)
	ROUNDS8(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	PREFETCHED4(Z16, Z17, Z18, Z19)
	PREFETCHED4(Z20, Z21, Z22, Z23)
	AGAIN

TEXT ·narrow4x64(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET1(ROW0, X0); GET1(ROW1, X1); GET1(ROW2, X2); GET1(ROW3, X3); DOWN4
	DWORDS4(1)
	DWORDS4(2)
	DWORDS4(3)
	ROUNDS4(Z0, Z1, Z2, Z3, Z16, Z17, Z18, Z19)
	PREFETCHED4(Z0, Z1, Z2, Z3)
	AGAIN

TEXT ·narrow8x64(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET1(ROW0, X0); GET1(ROW1, X1)
	PUT1(1, ROW2, Z0); PUT1(1, ROW3, Z1); DOWN4
	PUT1(2, ROW0, Z0); PUT1(2, ROW1, Z1)
	PUT1(3, ROW2, Z0); PUT1(3, ROW3, Z1)
	VPUNPCKLQDQ Z1, Z0, Z16
	VPUNPCKHQDQ Z1, Z0, Z17
	VMOVUPS     Z16, (DI)
	VMOVUPS     Z17, (DI)(R13*1)
	AGAIN
