// Bodies of the AVX-512 routines for products of few rows or columns, shared by
// avx512_f32_amd64.s and avx512_f64_amd64.s. The including file defines the
// element: ES (bytes), BCAST, FMA, ADD, MOVU, MOVUZ, MOVS (scalar store), HSUM
// (sum of X0 into lane 0), HALF (lanes of one vector) and the symbol names.

#define ZERO4(a, b, c, d) \
	VPXORQ a, a, a \
	VPXORQ b, b, b \
	VPXORQ c, c, c \
	VPXORQ d, d, d

// func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)
TEXT AXPY4(SB), NOSPLIT, $0-40
	MOVQ  n+0(FP), CX
	MOVQ  y+8(FP), DI
	MOVQ  b+16(FP), R8
	MOVQ  ldb+24(FP), R9
	MOVQ  x+32(FP), BX
	BCAST (0*ES)(BX), Z4
	BCAST (1*ES)(BX), Z5
	BCAST (2*ES)(BX), Z6
	BCAST (3*ES)(BX), Z7
	LEAQ  (R8)(R9*1), R10
	LEAQ  (R10)(R9*1), R11
	LEAQ  (R11)(R9*1), R12
	XORQ  AX, AX
	SUBQ  $HALF, CX
	JLT   tail

loop:
	MOVU (DI)(AX*1), Z0
	FMA  (R8)(AX*1), Z4, Z0
	FMA  (R10)(AX*1), Z5, Z0
	FMA  (R11)(AX*1), Z6, Z0
	FMA  (R12)(AX*1), Z7, Z0
	MOVU Z0, (DI)(AX*1)
	ADDQ $64, AX
	SUBQ $HALF, CX
	JGE  loop

tail:
	ADDQ  $HALF, CX
	JZ    done
	MOVQ  $-1, SI
	BZHIQ CX, SI, SI
	KMOVW SI, K1
	MOVUZ (DI)(AX*1), K1, Z0
	FMA   (R8)(AX*1), Z4, K1, Z0
	FMA   (R10)(AX*1), Z5, K1, Z0
	FMA   (R11)(AX*1), Z6, K1, Z0
	FMA   (R12)(AX*1), Z7, K1, Z0
	MOVU  Z0, K1, (DI)(AX*1)

done:
	VZEROUPPER
	RET

// func(n int, x, y, out unsafe.Pointer)
TEXT DOT(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ out+24(FP), DX
	ZERO4(Z0, Z1, Z2, Z3)
	SUBQ $(4*HALF), CX
	JLT  rest

loop:
	MOVU (DI), Z4
	MOVU 64(DI), Z5
	MOVU 128(DI), Z6
	MOVU 192(DI), Z7
	FMA  (SI), Z4, Z0
	FMA  64(SI), Z5, Z1
	FMA  128(SI), Z6, Z2
	FMA  192(SI), Z7, Z3
	ADDQ $256, DI
	ADDQ $256, SI
	SUBQ $(4*HALF), CX
	JGE  loop

rest:
	ADDQ $(3*HALF), CX
	JLT  tail

vec:
	MOVU (DI), Z4
	FMA  (SI), Z4, Z0
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $HALF, CX
	JGE  vec

tail:
	ADDQ  $HALF, CX
	JZ    sum
	MOVQ  $-1, AX
	BZHIQ CX, AX, AX
	KMOVW AX, K1
	MOVUZ (DI), K1, Z4
	FMA   (SI), Z4, K1, Z1

sum:
	ADD  Z1, Z0, Z0
	ADD  Z3, Z2, Z2
	ADD  Z2, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	ADD  Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	ADD  X1, X0, X0
	HSUM
	MOVS X0, (DX)
	VZEROUPPER
	RET

// Four vectors of a column times those of x in Z16 to Z19, added to sums.
#define COLUMN(y, a, b, c, d) \
	FMA (y), Z16, a \
	FMA 64(y), Z17, b \
	FMA 128(y), Z18, c \
	FMA 192(y), Z19, d

// The sums of a column, added up as DOT does; Z0 and Z1 are those of the first.
#define SUMS(a, b, c, d, to) \
	ADD  b, a, Z0 \
	ADD  d, c, c \
	ADD  c, Z0, Z0 \
	VEXTRACTF64X4 $1, Z0, Y1 \
	ADD  Y1, Y0, Y0 \
	VEXTRACTF128 $1, Y0, X1 \
	ADD  X1, X0, X0 \
	HSUM \
	MOVS X0, to(DX)

// func(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer)
//
// Four columns, each as DOT computes it.
TEXT DOTS(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ ldy+24(FP), R8
	MOVQ out+32(FP), DX
	LEAQ (SI)(R8*1), R9
	LEAQ (R9)(R8*1), R10
	LEAQ (R10)(R8*1), R11
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	SUBQ $(4*HALF), CX
	JLT  rest

loop:
	MOVU (DI), Z16
	MOVU 64(DI), Z17
	MOVU 128(DI), Z18
	MOVU 192(DI), Z19
	COLUMN(SI, Z0, Z1, Z2, Z3)
	COLUMN(R9, Z4, Z5, Z6, Z7)
	COLUMN(R10, Z8, Z9, Z10, Z11)
	COLUMN(R11, Z12, Z13, Z14, Z15)
	ADDQ $256, DI
	ADDQ $256, SI
	ADDQ $256, R9
	ADDQ $256, R10
	ADDQ $256, R11
	SUBQ $(4*HALF), CX
	JGE  loop

rest:
	ADDQ $(3*HALF), CX
	JLT  tail

vec:
	MOVU (DI), Z16
	FMA  (SI), Z16, Z0
	FMA  (R9), Z16, Z4
	FMA  (R10), Z16, Z8
	FMA  (R11), Z16, Z12
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $64, R9
	ADDQ $64, R10
	ADDQ $64, R11
	SUBQ $HALF, CX
	JGE  vec

tail:
	ADDQ  $HALF, CX
	JZ    sum
	MOVQ  $-1, AX
	BZHIQ CX, AX, AX
	KMOVW AX, K1
	MOVUZ (DI), K1, Z16
	FMA   (SI), Z16, K1, Z1
	FMA   (R9), Z16, K1, Z5
	FMA   (R10), Z16, K1, Z9
	FMA   (R11), Z16, K1, Z13

sum:
	SUMS(Z0, Z1, Z2, Z3, (0*ES))
	SUMS(Z4, Z5, Z6, Z7, (1*ES))
	SUMS(Z8, Z9, Z10, Z11, (2*ES))
	SUMS(Z12, Z13, Z14, Z15, (3*ES))
	VZEROUPPER
	RET
