//go:build (linux || darwin || freebsd || windows) && !noasm

#include "textflag.h"

// func call(entry uintptr, args *Args)
//
// The code may use every register but R18, R28, R29, R30 and RSP. Go's compiler keeps none across the call of an
// assembly function. The frame holds R30.
TEXT ·call(SB), NOSPLIT, $16-16
	MOVD entry+0(FP), R16
	MOVD args+8(FP), R0
	MOVBU ·everyCallSynchronizes(SB), R1
	CBZ R1, enter
	ISB $15
enter:
	CALL (R16)
	RET

// func cleanCaches(address unsafe.Pointer, size int)
//
// The stride is at most the line size of every known processor. Its register, CTR_EL0, cannot be read on macOS.
TEXT ·cleanCaches(SB), NOSPLIT, $0-16
	MOVD address+0(FP), R0
	MOVD size+8(FP), R1
	ADD R0, R1, R1
	AND $~31, R0, R0
	MOVD R0, R2
clean:
	WORD $0xD50B7B22 // DC CVAU, R2
	ADD $32, R2, R2
	CMP R1, R2
	BLO clean
	DSB $11 // inner shareable
invalidate:
	WORD $0xD50B7520 // IC IVAU, R0
	ADD $32, R0, R0
	CMP R1, R0
	BLO invalidate
	DSB $11
	ISB $15
	RET
