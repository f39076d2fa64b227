//go:build amd64 && !noasm

package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// vectors tells that the routines below can be used.
var vectors = machine.Instructions() >= machine.AVX2

// transpose4x32 and transpose4x64 are interleave4 of elements of 32 and 64 bits. n is a positive
// multiple of 8 and of 4.

//go:noescape
func transpose4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)

//go:noescape
func transpose4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer)
