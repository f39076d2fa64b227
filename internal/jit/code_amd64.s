//go:build (linux || darwin || freebsd || windows) && !noasm

#include "textflag.h"

// func call(entry uintptr, args *Args)
//
// The code may use every register but SP and BP. Go's compiler keeps no register across the call of an assembly
// function. R14 and X15 have a meaning in Go code: the compiler's wrapper of the function restores them.
TEXT ·call(SB), NOSPLIT, $8-16
	MOVQ entry+0(FP), AX
	MOVQ args+8(FP), DI
	CALL AX
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
