// Bodies of the AVX-512 routines for products of few rows or columns, shared by
// avx512_f32_amd64.s and avx512_f64_amd64.s. The including file defines the
// element: ES (bytes), BCAST, FMA, ADD, MOVU, MOVUZ, MOVS (scalar store), HSUM
// (sum of X0 into lane 0), SUM4 (sums of Y0 to Y3 stored to (DX)), HALF (lanes of one vector) and the symbol names.

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

// Four vectors of a column times those of x in Z16 to Z19, added to four sums.
#define COLUMN(y, a, b, c, d) \
	FMA (y)(AX*1), Z16, a \
	FMA 64(y)(AX*1), Z17, b \
	FMA 128(y)(AX*1), Z18, c \
	FMA 192(y)(AX*1), Z19, d

// The four sums of a column as one.
#define SUMS(a, b, c, d) \
	ADD b, a, a \
	ADD d, c, c \
	ADD c, a, a

// func(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)
//
// Long columns have four sums each, so that rounding errors of thousands of terms stay as small as DOT's.
TEXT DOTS(SB), NOSPLIT, $0-48
	MOVQ  n+0(FP), SI
	MOVQ  x+8(FP), DI
	MOVQ  y+16(FP), R8
	MOVQ  ldy+24(FP), R12
	MOVQ  out+32(FP), DX
	MOVQ  colGroups+40(FP), R13
	MOVQ  SI, CX
	ANDQ  $(HALF-1), CX
	SUBQ  CX, SI
	IMULQ $ES, SI
	MOVQ  $-1, AX
	BZHIQ CX, AX, AX
	KMOVW AX, K1

quad:
	LEAQ (R8)(R12*1), R9
	LEAQ (R9)(R12*1), R10
	LEAQ (R10)(R12*1), R11
	ZERO4(Z0, Z1, Z2, Z3)
	XORQ AX, AX
	CMPQ SI, $512
	JLT  loop
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)

four:
	MOVU (DI)(AX*1), Z16
	MOVU 64(DI)(AX*1), Z17
	MOVU 128(DI)(AX*1), Z18
	MOVU 192(DI)(AX*1), Z19
	COLUMN(R8, Z0, Z4, Z8, Z12)
	COLUMN(R9, Z1, Z5, Z9, Z13)
	COLUMN(R10, Z2, Z6, Z10, Z14)
	COLUMN(R11, Z3, Z7, Z11, Z15)
	ADDQ $256, AX
	LEAQ 256(AX), BX
	CMPQ BX, SI
	JLE  four
	SUMS(Z0, Z4, Z8, Z12)
	SUMS(Z1, Z5, Z9, Z13)
	SUMS(Z2, Z6, Z10, Z14)
	SUMS(Z3, Z7, Z11, Z15)

loop:
	CMPQ AX, SI
	JGE  tail
	MOVU (DI)(AX*1), Z4
	FMA  (R8)(AX*1), Z4, Z0
	FMA  (R9)(AX*1), Z4, Z1
	FMA  (R10)(AX*1), Z4, Z2
	FMA  (R11)(AX*1), Z4, Z3
	ADDQ $64, AX
	JMP  loop

tail:
	TESTQ CX, CX
	JZ    sum
	MOVUZ (DI)(AX*1), K1, Z4
	FMA   (R8)(AX*1), Z4, K1, Z0
	FMA   (R9)(AX*1), Z4, K1, Z1
	FMA   (R10)(AX*1), Z4, K1, Z2
	FMA   (R11)(AX*1), Z4, K1, Z3

sum:
	VEXTRACTF64X4 $1, Z0, Y4
	VEXTRACTF64X4 $1, Z1, Y5
	VEXTRACTF64X4 $1, Z2, Y6
	VEXTRACTF64X4 $1, Z3, Y7
	ADD  Y4, Y0, Y0
	ADD  Y5, Y1, Y1
	ADD  Y6, Y2, Y2
	ADD  Y7, Y3, Y3
	SUM4
	LEAQ (R11)(R12*1), R8
	ADDQ $(4*ES), DX
	DECQ R13
	JNZ  quad
	VZEROUPPER
	RET

// func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int)
TEXT AXPYS(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ y+8(FP), DI
	MOVQ b+16(FP), R8
	MOVQ ldb+24(FP), R9
	MOVQ x+32(FP), BX
	MOVQ k+40(FP), R10

four:
	CMPQ CX, $(4*HALF)
	JLT  one
	MOVU (DI), Z0
	MOVU 64(DI), Z1
	MOVU 128(DI), Z2
	MOVU 192(DI), Z3
	MOVQ R8, R11
	MOVQ BX, R12
	MOVQ R10, AX

fourrows:
	BCAST (R12), Z4
	FMA  (R11), Z4, Z0
	FMA  64(R11), Z4, Z1
	FMA  128(R11), Z4, Z2
	FMA  192(R11), Z4, Z3
	ADDQ R9, R11
	ADDQ $ES, R12
	DECQ AX
	JNZ  fourrows
	MOVU Z0, (DI)
	MOVU Z1, 64(DI)
	MOVU Z2, 128(DI)
	MOVU Z3, 192(DI)
	ADDQ $256, DI
	ADDQ $256, R8
	SUBQ $(4*HALF), CX
	JMP  four

one:
	CMPQ  CX, $0
	JLE   done
	MOVQ  $-1, SI
	BZHIQ CX, SI, SI
	KMOVW SI, K1
	MOVUZ (DI), K1, Z0
	MOVQ  R8, R11
	MOVQ  BX, R12
	MOVQ  R10, AX

onerows:
	BCAST (R12), Z4
	FMA  (R11), Z4, K1, Z0
	ADDQ R9, R11
	ADDQ $ES, R12
	DECQ AX
	JNZ  onerows
	MOVU Z0, K1, (DI)
	ADDQ $64, DI
	ADDQ $64, R8
	SUBQ $HALF, CX
	JMP  one

done:
	VZEROUPPER
	RET
