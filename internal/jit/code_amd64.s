//go:build (linux || darwin || freebsd || windows) && !noasm

#include "textflag.h"

// func call(entry uintptr, args *Args)
//
// The code may use every register but SP and BP. Go's compiler keeps none across the call of an assembly function, and
// the wrapper that it makes restores R14 and X15, which it does give a meaning.
TEXT ·call(SB), NOSPLIT, $8-16
	MOVQ entry+0(FP), AX
	MOVQ args+8(FP), DI
	CALL AX
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
