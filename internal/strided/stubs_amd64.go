//go:build amd64 && !noasm

package strided

import "unsafe"

// Names give the bytes of an element and of the row part that is written at once. turn and stream take 16
// elements of a row if a vector has at least as many, else one vector; stream uses non-temporal stores, with
// dst and dstStep multiples of 64; near does not prefetch dst; narrow takes 16 bytes. All are [turnFunc].

//go:noescape
func turn1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func near1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func near2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func near4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func near8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func near16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn1x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn2x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn2x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func turn8x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// rows copies n rows of at least 64 bytes with vectors of that many bits, streamRows by non-temporal stores:
// [rowsFunc].

//go:noescape
func rows512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func streamRows512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func rows256(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func streamRows256(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

// split3x512 distributes n triples, n a multiple of 16, over three rows; weave3x512 is the inverse.

//go:noescape
func split3x512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, table *permutations)

//go:noescape
func weave3x512(n int, dst, src unsafe.Pointer, srcStep int, table *permutations)
