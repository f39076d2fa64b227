//go:build !amd64 || noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

const vectors = false

var turners [17][]turner

func turnersOf(machine.ISA) (t [17][]turner) { return t }

var vectorRows, streamRows rowsFunc

func rowsOf(machine.ISA) (to, past rowsFunc) { return nil, nil }

func transpose4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func transpose4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func fence() {}

var hasThree = false

func (m *matrix) three() int { return 0 }
