// Bodies of the AVX2+FMA routines for products of few rows or columns, shared
// by avx2_f32_amd64.s and avx2_f64_amd64.s. The including file defines the
// element: ES (bytes), BCAST, FMA, FMAS (scalar), ADD, MOVU, MOVS, HSUM, HALF
// (lanes of one vector) and the symbol names.

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
