//go:build amd64 && !noasm

package strided

import "unsafe"

// The numbers in a name are the bytes of an element and of the row part that one store writes. tile and stream read 16
// elements of a row if a vector has at least 16, otherwise one vector; stream uses non-temporal stores, for dst and
// dstStep in multiples of 64; close does not prefetch dst; narrow reads 16 bytes of a row. All are [tileFunc].

//go:noescape
func tile1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func close1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream1x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func close2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow2x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func close4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow4x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func close8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow8x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func close16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream16x64(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile1x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile2x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile2x16(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func narrow4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func stream4x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

//go:noescape
func tile8x32(n int, dst unsafe.Pointer, dstStep, dstNext int, src unsafe.Pointer, srcStep, srcNext int,
	after unsafe.Pointer)

// rows copies n rows of at least 64 bytes with vectors of 512 or 256 bits; streamRows uses non-temporal stores. Both
// are [rowsFunc].

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
