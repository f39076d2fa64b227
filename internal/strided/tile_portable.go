//go:build (!amd64 && !arm64) || noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasInterleave reports whether interleave32 and interleave64 can be used.
const hasInterleave = false

// tileRoutines are empty, because this build has no assembly routines for tiles.
var tileRoutines [17][]tileRoutine

// tileRoutinesOf returns no routines: see tileRoutines.
func tileRoutinesOf(machine.Features) (none [17][]tileRoutine) { return none }

// interleave32 and interleave64 do nothing, because they are not called: see hasInterleave.
func interleave32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func interleave64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}
