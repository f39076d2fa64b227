//go:build !amd64 || noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

const hasInterleave = false

var tileRoutines [17][]tileRoutine

func tileRoutinesOf(machine.Features) (t [17][]tileRoutine) { return t }

var vectorRows, streamRows rowsFunc

func rowsOf(machine.Features) (copying, streaming rowsFunc) { return nil, nil }

func interleave4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func interleave4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func fence() {}

var hasThreeChannels = false

func (m *matrix) threeChannels() int { return 0 }
