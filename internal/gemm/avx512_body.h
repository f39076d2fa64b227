// Bodies of the AVX-512 kernels, shared by avx512_f32_amd64.s and
// avx512_f64_amd64.s. The including file defines the element: ES (bytes),
// BCAST, FMA, ADD, MOVU, MOVS (scalar store), HSUM (sum of X0 into lane 0),
// HALF (lanes of one vector), SHIFT (log2 ES) and the symbol names.
//
// Micro-kernel registers: row i accumulates in Z(2i), Z(2i+1); Z24, Z25 hold
// the current row of B; Z26..Z29 rotate through broadcasts of A so that
// consecutive rows do not serialise on one register.

#define STEP2(i, areg, lo, hi) \
	BCAST (i*ES)(AX), areg \
	FMA   Z24, areg, lo    \
	FMA   Z25, areg, hi

#define STEP1(i, areg, lo) \
	BCAST (i*ES)(AX), areg \
	FMA   Z24, areg, lo

#define RB2(i, lo, hi) \
	BCAST (i*ES)(BX), Z26 \
	ADD   Z26, lo, lo     \
	ADD   Z26, hi, hi

#define RB1(i, lo) \
	BCAST (i*ES)(BX), Z26 \
	ADD   Z26, lo, lo

// OUT2 finishes one row: adds the initial value, stores the live columns and
// leaves the function when that was the last live row.
#define OUT2(lo, hi) \
	ADD  (R8), lo, K1, lo   \
	ADD  64(R8), hi, K2, hi \
	MOVU lo, K1, (DI)       \
	MOVU hi, K2, 64(DI)     \
	ADDQ R9, DI             \
	ADDQ R10, R8            \
	DECQ R11                \
	JZ   done

#define OUT1(lo) \
	ADD  (R8), lo, K1, lo \
	MOVU lo, K1, (DI)     \
	ADDQ R9, DI           \
	ADDQ R10, R8          \
	DECQ R11              \
	JZ   done

#define ZERO4(a, b, c, d) \
	VPXORQ a, a, a \
	VPXORQ b, b, b \
	VPXORQ c, c, c \
	VPXORQ d, d, d

#define LOADARGS \
	MOVQ  kc+0(FP), CX         \
	MOVQ  a+8(FP), AX          \
	MOVQ  astep+16(FP), R12    \
	MOVQ  b+24(FP), DX         \
	MOVQ  c+32(FP), DI         \
	MOVQ  ldc+40(FP), R9       \
	MOVQ  init+48(FP), R8      \
	MOVQ  ldinit+56(FP), R10   \
	MOVQ  rowBias+64(FP), BX   \
	MOVQ  rows+72(FP), R11     \
	MOVQ  cols+80(FP), R13     \
	MOVQ  $-1, SI              \
	BZHIQ R13, SI, SI          \
	KMOVW SI, K1               \
	SHRQ  $HALF, SI            \
	KMOVW SI, K2

#define LOADB2 \
	MOVU (DX), Z24   \
	MOVU 64(DX), Z25

#define LOADB1 \
	MOVU (DX), Z24

#define NEXTK \
	ADDQ R12, AX  \
	ADDQ $128, DX \
	DECQ CX       \
	JNZ  loop

TEXT MICRO12X2(SB), NOSPLIT, $0-88
	LOADARGS
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)

loop:
	LOADB2
	STEP2(0, Z26, Z0, Z1)
	STEP2(1, Z27, Z2, Z3)
	STEP2(2, Z28, Z4, Z5)
	STEP2(3, Z29, Z6, Z7)
	STEP2(4, Z26, Z8, Z9)
	STEP2(5, Z27, Z10, Z11)
	STEP2(6, Z28, Z12, Z13)
	STEP2(7, Z29, Z14, Z15)
	STEP2(8, Z26, Z16, Z17)
	STEP2(9, Z27, Z18, Z19)
	STEP2(10, Z28, Z20, Z21)
	STEP2(11, Z29, Z22, Z23)
	NEXTK
	TESTQ BX, BX
	JZ    store
	RB2(0, Z0, Z1)
	RB2(1, Z2, Z3)
	RB2(2, Z4, Z5)
	RB2(3, Z6, Z7)
	RB2(4, Z8, Z9)
	RB2(5, Z10, Z11)
	RB2(6, Z12, Z13)
	RB2(7, Z14, Z15)
	RB2(8, Z16, Z17)
	RB2(9, Z18, Z19)
	RB2(10, Z20, Z21)
	RB2(11, Z22, Z23)

store:
	OUT2(Z0, Z1)
	OUT2(Z2, Z3)
	OUT2(Z4, Z5)
	OUT2(Z6, Z7)
	OUT2(Z8, Z9)
	OUT2(Z10, Z11)
	OUT2(Z12, Z13)
	OUT2(Z14, Z15)
	OUT2(Z16, Z17)
	OUT2(Z18, Z19)
	OUT2(Z20, Z21)
	OUT2(Z22, Z23)

done:
	VZEROUPPER
	RET

TEXT MICRO8X2(SB), NOSPLIT, $0-88
	LOADARGS
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)

loop:
	LOADB2
	STEP2(0, Z26, Z0, Z1)
	STEP2(1, Z27, Z2, Z3)
	STEP2(2, Z28, Z4, Z5)
	STEP2(3, Z29, Z6, Z7)
	STEP2(4, Z26, Z8, Z9)
	STEP2(5, Z27, Z10, Z11)
	STEP2(6, Z28, Z12, Z13)
	STEP2(7, Z29, Z14, Z15)
	NEXTK
	TESTQ BX, BX
	JZ    store
	RB2(0, Z0, Z1)
	RB2(1, Z2, Z3)
	RB2(2, Z4, Z5)
	RB2(3, Z6, Z7)
	RB2(4, Z8, Z9)
	RB2(5, Z10, Z11)
	RB2(6, Z12, Z13)
	RB2(7, Z14, Z15)

store:
	OUT2(Z0, Z1)
	OUT2(Z2, Z3)
	OUT2(Z4, Z5)
	OUT2(Z6, Z7)
	OUT2(Z8, Z9)
	OUT2(Z10, Z11)
	OUT2(Z12, Z13)
	OUT2(Z14, Z15)

done:
	VZEROUPPER
	RET

TEXT MICRO4X2(SB), NOSPLIT, $0-88
	LOADARGS
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)

loop:
	LOADB2
	STEP2(0, Z26, Z0, Z1)
	STEP2(1, Z27, Z2, Z3)
	STEP2(2, Z28, Z4, Z5)
	STEP2(3, Z29, Z6, Z7)
	NEXTK
	TESTQ BX, BX
	JZ    store
	RB2(0, Z0, Z1)
	RB2(1, Z2, Z3)
	RB2(2, Z4, Z5)
	RB2(3, Z6, Z7)

store:
	OUT2(Z0, Z1)
	OUT2(Z2, Z3)
	OUT2(Z4, Z5)
	OUT2(Z6, Z7)

done:
	VZEROUPPER
	RET

TEXT MICRO12X1(SB), NOSPLIT, $0-88
	LOADARGS
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)

loop:
	LOADB1
	STEP1(0, Z26, Z0)
	STEP1(1, Z27, Z1)
	STEP1(2, Z28, Z2)
	STEP1(3, Z29, Z3)
	STEP1(4, Z26, Z4)
	STEP1(5, Z27, Z5)
	STEP1(6, Z28, Z6)
	STEP1(7, Z29, Z7)
	STEP1(8, Z26, Z8)
	STEP1(9, Z27, Z9)
	STEP1(10, Z28, Z10)
	STEP1(11, Z29, Z11)
	NEXTK
	TESTQ BX, BX
	JZ    store
	RB1(0, Z0)
	RB1(1, Z1)
	RB1(2, Z2)
	RB1(3, Z3)
	RB1(4, Z4)
	RB1(5, Z5)
	RB1(6, Z6)
	RB1(7, Z7)
	RB1(8, Z8)
	RB1(9, Z9)
	RB1(10, Z10)
	RB1(11, Z11)

store:
	OUT1(Z0)
	OUT1(Z1)
	OUT1(Z2)
	OUT1(Z3)
	OUT1(Z4)
	OUT1(Z5)
	OUT1(Z6)
	OUT1(Z7)
	OUT1(Z8)
	OUT1(Z9)
	OUT1(Z10)
	OUT1(Z11)

done:
	VZEROUPPER
	RET

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
