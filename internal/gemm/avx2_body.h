// Bodies of the AVX2+FMA routines for products of few rows or columns, shared
// by avx2_f32_amd64.s and avx2_f64_amd64.s. The including file defines the
// element: ES (bytes), BCAST, FMA, FMAS (scalar), ADD, MOVU, MOVS, HSUM, SUM4
// (sums of Y0 to Y3 stored to (DX)), HALF (lanes of one vector) and the symbol names.

#define ZERO4(a, b, c, d) \
	VXORPS a, a, a \
	VXORPS b, b, b \
	VXORPS c, c, c \
	VXORPS d, d, d

// func(n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer)
TEXT AXPY4(SB), NOSPLIT, $0-40
	MOVQ  n+0(FP), CX
	MOVQ  y+8(FP), DI
	MOVQ  b+16(FP), R8
	MOVQ  ldb+24(FP), R9
	MOVQ  x+32(FP), BX
	BCAST (0*ES)(BX), Y4
	BCAST (1*ES)(BX), Y5
	BCAST (2*ES)(BX), Y6
	BCAST (3*ES)(BX), Y7
	LEAQ  (R8)(R9*1), R10
	LEAQ  (R10)(R9*1), R11
	LEAQ  (R11)(R9*1), R12
	XORQ  AX, AX
	SUBQ  $HALF, CX
	JLT   tail

loop:
	MOVU (DI)(AX*1), Y0
	FMA  (R8)(AX*1), Y4, Y0
	FMA  (R10)(AX*1), Y5, Y0
	FMA  (R11)(AX*1), Y6, Y0
	FMA  (R12)(AX*1), Y7, Y0
	MOVU Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $HALF, CX
	JGE  loop

tail:
	ADDQ $HALF, CX
	JZ   done

one:
	MOVS (DI)(AX*1), X0
	FMAS (R8)(AX*1), X4, X0
	FMAS (R10)(AX*1), X5, X0
	FMAS (R11)(AX*1), X6, X0
	FMAS (R12)(AX*1), X7, X0
	MOVS X0, (DI)(AX*1)
	ADDQ $ES, AX
	DECQ CX
	JNZ  one

done:
	VZEROUPPER
	RET

// func(n int, x, y, out unsafe.Pointer)
TEXT DOT(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ y+16(FP), SI
	MOVQ out+24(FP), DX
	ZERO4(Y0, Y1, Y2, Y3)
	VXORPS X8, X8, X8
	SUBQ $(4*HALF), CX
	JLT  rest

loop:
	MOVU (DI), Y4
	MOVU 32(DI), Y5
	MOVU 64(DI), Y6
	MOVU 96(DI), Y7
	FMA  (SI), Y4, Y0
	FMA  32(SI), Y5, Y1
	FMA  64(SI), Y6, Y2
	FMA  96(SI), Y7, Y3
	ADDQ $128, DI
	ADDQ $128, SI
	SUBQ $(4*HALF), CX
	JGE  loop

rest:
	ADDQ $(4*HALF), CX
	JZ   sum

one:
	MOVS (DI), X4
	FMAS (SI), X4, X8
	ADDQ $ES, DI
	ADDQ $ES, SI
	DECQ CX
	JNZ  one

sum:
	ADD  Y1, Y0, Y0
	ADD  Y3, Y2, Y2
	ADD  Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	ADD  X1, X0, X0
	HSUM
	ADD  X8, X0, X0
	MOVS X0, (DX)
	VZEROUPPER
	RET

// Two vectors of a column times those of x in Y8 and Y9, added to two sums.
#define COLUMN(y, a, b) \
	FMA (y)(AX*1), Y8, a \
	FMA 32(y)(AX*1), Y9, b

// func(n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int)
//
// Long columns have two sums each, so that rounding errors of thousands of terms stay small.
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

quad:
	LEAQ (R8)(R12*1), R9
	LEAQ (R9)(R12*1), R10
	LEAQ (R10)(R12*1), R11
	ZERO4(Y0, Y1, Y2, Y3)
	XORQ AX, AX
	CMPQ SI, $128
	JLT  loop
	ZERO4(Y4, Y5, Y6, Y7)

two:
	MOVU (DI)(AX*1), Y8
	MOVU 32(DI)(AX*1), Y9
	COLUMN(R8, Y0, Y4)
	COLUMN(R9, Y1, Y5)
	COLUMN(R10, Y2, Y6)
	COLUMN(R11, Y3, Y7)
	ADDQ $64, AX
	LEAQ 64(AX), BX
	CMPQ BX, SI
	JLE  two
	ADD  Y4, Y0, Y0
	ADD  Y5, Y1, Y1
	ADD  Y6, Y2, Y2
	ADD  Y7, Y3, Y3

loop:
	CMPQ AX, SI
	JGE  sum
	MOVU (DI)(AX*1), Y4
	FMA  (R8)(AX*1), Y4, Y0
	FMA  (R9)(AX*1), Y4, Y1
	FMA  (R10)(AX*1), Y4, Y2
	FMA  (R11)(AX*1), Y4, Y3
	ADDQ $32, AX
	JMP  loop

sum:
	SUM4
	MOVQ  CX, BX
	TESTQ BX, BX
	JZ    next
	MOVS  (0*ES)(DX), X0
	MOVS  (1*ES)(DX), X1
	MOVS  (2*ES)(DX), X2
	MOVS  (3*ES)(DX), X3

rest:
	MOVS (DI)(AX*1), X4
	FMAS (R8)(AX*1), X4, X0
	FMAS (R9)(AX*1), X4, X1
	FMAS (R10)(AX*1), X4, X2
	FMAS (R11)(AX*1), X4, X3
	ADDQ $ES, AX
	DECQ BX
	JNZ  rest
	MOVS X0, (0*ES)(DX)
	MOVS X1, (1*ES)(DX)
	MOVS X2, (2*ES)(DX)
	MOVS X3, (3*ES)(DX)

next:
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
	JLT  single
	MOVU (DI), Y0
	MOVU 32(DI), Y1
	MOVU 64(DI), Y2
	MOVU 96(DI), Y3
	MOVQ R8, R11
	MOVQ BX, R12
	MOVQ R10, AX

fourrows:
	BCAST (R12), Y4
	FMA  (R11), Y4, Y0
	FMA  32(R11), Y4, Y1
	FMA  64(R11), Y4, Y2
	FMA  96(R11), Y4, Y3
	ADDQ R9, R11
	ADDQ $ES, R12
	DECQ AX
	JNZ  fourrows
	MOVU Y0, (DI)
	MOVU Y1, 32(DI)
	MOVU Y2, 64(DI)
	MOVU Y3, 96(DI)
	ADDQ $128, DI
	ADDQ $128, R8
	SUBQ $(4*HALF), CX
	JMP  four

single:
	CMPQ CX, $HALF
	JLT  one
	MOVU (DI), Y0
	MOVQ R8, R11
	MOVQ BX, R12
	MOVQ R10, AX

singlerows:
	BCAST (R12), Y4
	FMA  (R11), Y4, Y0
	ADDQ R9, R11
	ADDQ $ES, R12
	DECQ AX
	JNZ  singlerows
	MOVU Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, R8
	SUBQ $HALF, CX
	JMP  single

one:
	TESTQ CX, CX
	JZ   done
	MOVS (DI), X0
	MOVQ R8, R11
	MOVQ BX, R12
	MOVQ R10, AX

onerows:
	MOVS (R12), X4
	FMAS (R11), X4, X0
	ADDQ R9, R11
	ADDQ $ES, R12
	DECQ AX
	JNZ  onerows
	MOVS X0, (DI)
	ADDQ $ES, DI
	ADDQ $ES, R8
	DECQ CX
	JMP  one

done:
	VZEROUPPER
	RET
