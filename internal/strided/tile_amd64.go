//go:build amd64 && !noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// hasInterleave reports whether interleave32 and interleave64 can be used.
var hasInterleave = machine.RunnableFeatures().Has(machine.AVX2)

// tileRoutines are the routines that transpose tiles on this processor, by element size in bytes.
var tileRoutines = tileRoutinesOf(machine.RunnableFeatures())

// vectorRows and streamRows are the routines that copy rows, with ordinary and with non-temporal stores. They are
// nil without AVX2.
var vectorRows, streamRows = rowsOf(machine.RunnableFeatures())

// hasThreeChannelTranspose reports whether [matrix.transposeThreeChannels] is available.
var hasThreeChannelTranspose = machine.RunnableFeatures().Has(machine.Vector512)

// tileRoutinesOf returns the routines of an instruction set by element size. Routines with more rows come first. Among
// routines with equal numbers of rows, those with more columns come first.
func tileRoutinesOf(cpu machine.Features) (routines [17][]tileRoutine) {
	// In the order of the fields: rows, cols, minCols, ordinaryStores, stream, closeRows. Names of functions end with the
	// bytes of an element and of a vector.
	if cpu.Has(machine.Vector512) {
		routines[1] = append(routines[1], tileRoutine{64, 16, 16, tile1x64, stream1x64, close1x64})
		routines[2] = append(routines[2], tileRoutine{32, 16, 8, tile2x64, stream2x64, close2x64},
			tileRoutine{32, 8, 8, narrow2x64, nil, nil})
		routines[4] = append(routines[4], tileRoutine{16, 16, 4, tile4x64, stream4x64, close4x64},
			tileRoutine{16, 4, 4, narrow4x64, nil, nil})
		routines[8] = append(routines[8], tileRoutine{8, 8, 2, tile8x64, stream8x64, close8x64},
			tileRoutine{8, 2, 2, narrow8x64, nil, nil})
		routines[16] = append(routines[16], tileRoutine{4, 4, 4, tile16x64, stream16x64, close16x64})
	}
	if cpu.Has(machine.AVX2) {
		routines[1] = append(routines[1], tileRoutine{16, 16, 16, tile1x16, nil, nil})
		routines[2] = append(routines[2], tileRoutine{16, 8, 8, tile2x32, nil, nil},
			tileRoutine{8, 8, 8, tile2x16, nil, nil})
		routines[4] = append(routines[4], tileRoutine{16, 4, 4, nil, stream4x32, nil},
			tileRoutine{8, 8, 4, tile4x32, nil, nil},
			tileRoutine{8, 4, 4, narrow4x32, nil, nil})
		routines[8] = append(routines[8], tileRoutine{4, 4, 4, tile8x32, nil, nil})
	}
	return routines
}

// rowsOf returns the routines of an instruction set that copy rows.
func rowsOf(cpu machine.Features) (copying, streaming rowsFunc) {
	switch {
	case cpu.Has(machine.Vector512):
		return rows512, streamRows512
	case cpu.Has(machine.AVX2):
		return rows256, streamRows256
	}
	return nil, nil
}

// interleave32 and interleave64 are interleave4 for elements of 32 and 64 bits: they store element k of row i at
// dst + k*step + i*(element size), for the rows s0 to s3. n must be positive, and a multiple of 8 for 32 bits or of 4
// for 64 bits.

//go:noescape
func interleave32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

//go:noescape
func interleave64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

// fence orders non-temporal stores before all later stores.
//
//go:noescape
func fence()
