//go:build amd64 && !noasm

package strided

import "unsafe"

// These routines transpose n tiles. Their type is [tileFunc]; its comment explains the parameters. (`after` is an
// address in dst to prefetch, usually the start of the next tile.) The numbers in a name are the size of an element in
// bytes, and the bytes of a row that one store writes: tile4x64 stores 16 elements of 4 bytes at a time. A tile or
// stream routine reads 16 elements of a row if a vector has at least 16 elements, otherwise one vector. A stream
// routine uses non-temporal stores, and requires dst and dstStep in multiples of 64. A close routine is for rows of dst
// that are close together in memory, and does not prefetch dst. A narrow routine reads 16 bytes of a row.

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

// rows512 and rows256 copy n rows of at least 64 bytes with vectors of 512 or 256 bits. streamRows512 and streamRows256
// use non-temporal stores. The type of all four is [rowsFunc]; src is prefetched `ahead` bytes in advance.

//go:noescape
func rows512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func streamRows512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func rows256(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

//go:noescape
func streamRows256(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

// split3x512 distributes n triples over three rows, with vectors of 512 bits. weave3x512 is the inverse. n is a
// multiple of 16.

//go:noescape
func split3x512(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, table *permutations)

//go:noescape
func weave3x512(n int, dst, src unsafe.Pointer, srcStep int, table *permutations)
