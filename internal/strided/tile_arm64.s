//go:build arm64 && !noasm

// Transposing tiles with NEON. A tile has as many rows as a vector has elements. A round interleaves row i with row
// i + rows/2. It rotates the bits of an element's index in the tile by one, so as many rounds as a column's index has
// bits exchange rows and columns.

#include "textflag.h"

#define ARGS \
	MOVD n+0(FP), R0 \
	MOVD dst+8(FP), R1 \
	MOVD dstStep+16(FP), R2 \
	MOVD dstNext+24(FP), R3 \
	MOVD src+32(FP), R4 \
	MOVD srcStep+40(FP), R5 \
	MOVD srcNext+48(FP), R6

// Start a tile from R7 to R8.
#define NEXT \
	MOVD R4, R7 \
	MOVD R1, R8 \
	ADD  R6, R4 \
	ADD  R3, R1

#define AGAIN \
	SUBS $1, R0 \
	BNE  loop \
	RET

// Load or store the next two rows.
#define GET2(a, b) \
	VLD1.P (R7)(R5), [a.B16] \
	VLD1.P (R7)(R5), [b.B16]

#define PUT2(a, b) \
	VST1.P [a.B16], (R8)(R2) \
	VST1.P [b.B16], (R8)(R2)

// Interleave a with b, and c with d.
#define ZIP(t, a, b, p, q) \
	VZIP1 b.t, a.t, p.t \
	VZIP2 b.t, a.t, q.t

#define ZIP2(t, a, b, c, d, p, q, r, s) \
	ZIP(t, a, c, p, q) \
	ZIP(t, b, d, r, s)

#define GET8(a, b, c, d, e, f, g, h) \
	GET2(a, b); GET2(c, d); GET2(e, f); GET2(g, h)

#define PUT8(a, b, c, d, e, f, g, h) \
	PUT2(a, b); PUT2(c, d); PUT2(e, f); PUT2(g, h)

// A round over eight rows, and the half of a round over 16 rows that begins with rows a to d and i to l.
#define ROUND8(t, a, b, c, d, i, j, k, l, p, q, r, s, u, v, w, x) \
	ZIP2(t, a, b, i, j, p, q, r, s) \
	ZIP2(t, c, d, k, l, u, v, w, x)

#define UP16 \
	ROUND8(B16, V0, V1, V2, V3, V8, V9, V10, V11, V16, V17, V18, V19, V20, V21, V22, V23) \
	ROUND8(B16, V4, V5, V6, V7, V12, V13, V14, V15, V24, V25, V26, V27, V28, V29, V30, V31)

#define DOWN16 \
	ROUND8(B16, V16, V17, V18, V19, V24, V25, V26, V27, V0, V1, V2, V3, V4, V5, V6, V7) \
	ROUND8(B16, V20, V21, V22, V23, V28, V29, V30, V31, V8, V9, V10, V11, V12, V13, V14, V15)

// Four rows of words to four columns, in place.
#define SQUARE4 \
	ZIP2(S4, V0, V1, V2, V3, V4, V5, V6, V7) \
	ZIP2(S4, V4, V5, V6, V7, V0, V1, V2, V3)

// The arguments of interleave4.
#define SOURCES \
	MOVD n+0(FP), R0 \
	MOVD dst+8(FP), R8 \
	MOVD step+16(FP), R2 \
	MOVD s0+24(FP), R3 \
	MOVD s1+32(FP), R4 \
	MOVD s2+40(FP), R5 \
	MOVD s3+48(FP), R6

// The next 16 bytes of each source.
#define GET4 \
	VLD1.P 16(R3), [V0.B16] \
	VLD1.P 16(R4), [V1.B16] \
	VLD1.P 16(R5), [V2.B16] \
	VLD1.P 16(R6), [V3.B16]

// 16 rows of 16 bytes.
TEXT ·tile1x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET8(V0, V1, V2, V3, V4, V5, V6, V7)
	GET8(V8, V9, V10, V11, V12, V13, V14, V15)
	UP16
	DOWN16
	UP16
	DOWN16
	PUT8(V0, V1, V2, V3, V4, V5, V6, V7)
	PUT8(V8, V9, V10, V11, V12, V13, V14, V15)
	AGAIN

// Eight rows of eight elements of 16 bits.
TEXT ·tile2x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET8(V0, V1, V2, V3, V4, V5, V6, V7)
	ROUND8(H8, V0, V1, V2, V3, V4, V5, V6, V7, V16, V17, V18, V19, V20, V21, V22, V23)
	ROUND8(H8, V16, V17, V18, V19, V20, V21, V22, V23, V0, V1, V2, V3, V4, V5, V6, V7)
	ROUND8(H8, V0, V1, V2, V3, V4, V5, V6, V7, V16, V17, V18, V19, V20, V21, V22, V23)
	PUT8(V16, V17, V18, V19, V20, V21, V22, V23)
	AGAIN

// Four rows of four elements of 32 bits.
TEXT ·tile4x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET2(V0, V1)
	GET2(V2, V3)
	SQUARE4
	PUT2(V0, V1)
	PUT2(V2, V3)
	AGAIN

// Two rows of two elements of 64 bits.
TEXT ·tile8x16(SB), NOSPLIT, $0-64
	ARGS

loop:
	NEXT
	GET2(V0, V1)
	ZIP(D2, V0, V1, V2, V3)
	PUT2(V2, V3)
	AGAIN

TEXT ·interleave32(SB), NOSPLIT, $0-56
	SOURCES

loop:
	GET4
	SQUARE4
	PUT2(V0, V1)
	PUT2(V2, V3)
	SUBS $4, R0
	BNE  loop
	RET

TEXT ·interleave64(SB), NOSPLIT, $0-56
	SOURCES

loop:
	GET4
	ZIP(D2, V0, V1, V4, V6)
	ZIP(D2, V2, V3, V5, V7)
	VST1.P [V4.B16, V5.B16], (R8)(R2)
	VST1.P [V6.B16, V7.B16], (R8)(R2)
	SUBS $2, R0
	BNE  loop
	RET
