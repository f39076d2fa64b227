//go:build arm64 && !noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasInterleave reports whether interleave32 and interleave64 can be used.
var hasInterleave = machine.HostFeatures().Has(machine.NEON)

// tileRoutines are the routines of the instruction set in use.
var tileRoutines = tileRoutinesOf(machine.HostFeatures())

// tileRoutinesOf returns the routines of an instruction set by element size.
func tileRoutinesOf(cpu machine.Features) (routines [17][]tileRoutine) {
	if cpu.Has(machine.NEON) {
		for size, routine := range map[int]tileFunc{1: tile1x16, 2: tile2x16, 4: tile4x16, 8: tile8x16} {
			routines[size] = []tileRoutine{{rows: 16 / size, cols: 16 / size, minCols: 16 / size, ordinaryStores: routine}}
		}
	}
	return routines
}

// The routines tileSx16 transpose n tiles of elements of S bytes. A tile is a square whose rows have 16 bytes.
// dstStep and srcStep are the distances in bytes between rows, dstNext and srcNext the distances between tiles. after
// is an address to prefetch. See [tileFunc] (tile.go).

//go:noescape
func tile1x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile2x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile4x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile8x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// interleave32 and interleave64 are interleave4 for elements of 32 and 64 bits: they store element k of row i at
// dst + k*step + i*(element size), for the rows s0 to s3. n must be positive, and a multiple of 4.

//go:noescape
func interleave32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

//go:noescape
func interleave64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)
