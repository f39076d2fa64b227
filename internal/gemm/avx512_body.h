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
