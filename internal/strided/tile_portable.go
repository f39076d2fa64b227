//go:build (!amd64 && !arm64) || noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

const hasInterleave = false

var tileRoutines [17][]tileRoutine

func tileRoutinesOf(machine.Features) (t [17][]tileRoutine) { return t }

func interleave4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func interleave4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}
