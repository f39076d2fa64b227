//go:build amd64 && !noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// vectors reports whether transpose4x32 and transpose4x64 can be used.
var vectors = machine.Instructions() >= machine.AVX2

// turners are the routines of the instruction set in use.
var turners = turnersOf(machine.Instructions())

// vectorRows and streamRows copy rows; nil if Go's copy is as good.
var vectorRows, streamRows = rowsOf(machine.Instructions())

// hasThree reports whether [matrix.three] is available.
var hasThree = machine.Instructions() >= machine.AVX512

// turnersOf returns the routines of an instruction set by element size, those with more rows first, then
// those with more columns.
func turnersOf(isa machine.ISA) (t [17][]turner) {
	if isa >= machine.AVX512 {
		t[1] = append(t[1], turner{64, 16, 16, turn1x64, stream1x64, near1x64})
		t[2] = append(t[2], turner{32, 16, 8, turn2x64, stream2x64, near2x64}, turner{32, 8, 8, narrow2x64, nil, nil})
		t[4] = append(t[4], turner{16, 16, 4, turn4x64, stream4x64, near4x64}, turner{16, 4, 4, narrow4x64, nil, nil})
		t[8] = append(t[8], turner{8, 8, 2, turn8x64, stream8x64, near8x64}, turner{8, 2, 2, narrow8x64, nil, nil})
		t[16] = append(t[16], turner{4, 4, 4, turn16x64, stream16x64, near16x64})
	}
	if isa >= machine.AVX2 {
		t[1] = append(t[1], turner{16, 16, 16, turn1x16, nil, nil})
		t[2] = append(t[2], turner{16, 8, 8, turn2x32, nil, nil}, turner{8, 8, 8, turn2x16, nil, nil})
		t[4] = append(t[4], turner{16, 4, 4, nil, stream4x32, nil}, turner{8, 8, 4, turn4x32, nil, nil},
			turner{8, 4, 4, narrow4x32, nil, nil})
		t[8] = append(t[8], turner{4, 4, 4, turn8x32, nil, nil})
	}
	return t
}

func rowsOf(isa machine.ISA) (to, past rowsFunc) {
	switch {
	case isa >= machine.AVX512:
		return rows512, streamRows512
	case isa >= machine.AVX2:
		return rows256, streamRows256
	}
	return nil, nil
}

// transpose4x32 and transpose4x64 are interleave4 for elements of 32 and 64 bits. n is a positive multiple of
// 8 and of 4, respectively.

//go:noescape
func transpose4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

//go:noescape
func transpose4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

// fence orders non-temporal stores before all later stores.
//
//go:noescape
func fence()
