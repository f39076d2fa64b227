package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// This file runs planned copies. Axis a is the fastest dimension of dst, and axis b usually the fastest dimension of
// src. A tile has some elements of a and some of b. Each axis has a number of elements N and strides in bytes, Dst and
// Src. A worker copies a range of tiles, with the loops over outer axes (copyRange), over the tiles of a and b
// (copyPlane), and over the elements of a tile (copyTile).

// stagedRows is the number of rows of dst that are staged together: transposed in scratch memory, then copied to dst.
// They should stay in L1.
const stagedRows = 128

// Run copies tiles [from, to). dst and src are the addresses of the elements at index 0 of all axes; scratch has
// [Copy.ScratchBytes] bytes.
func (p *Copy) Run(dst, src unsafe.Pointer, scratch []byte, from, to int) {
	p.copyRange(len(p.outer), scratch, dst, src, p.axisB.N, from, to)
	if p.nonTemporal { // stores bypass the caches; the fence completes them before other goroutines read dst
		fence()
	}
}

// copyRange copies tiles [from, to) of the first outerCount outer axes, for lenB indices of b. It computes the indices
// of the first tile by division and then increments them, because a division per tile would cost more than a small
// tile.
func (p *Copy) copyRange(outerCount int, scratch []byte, dst, src unsafe.Pointer, lenB, from, to int) {
	if outerCount == 0 {
		p.copyPlane(scratch, dst, src, lenB, from, to)
		return
	}
	// Each index of this loop has tilesPerIndex tiles. from and to become relative to the first tile of an index.
	outerLoop, index := &p.outer[outerCount-1], 0
	if from >= outerLoop.tilesPerIndex {
		index = from / outerLoop.tilesPerIndex
		from, to = from-index*outerLoop.tilesPerIndex, to-index*outerLoop.tilesPerIndex
	}
	for ; from < to; index++ {
		if outerLoop.isAxisB { // the loop runs over the tiles of b
			lenB = min(p.axisB.tileLen, p.axisB.N-index*p.axisB.tileLen)
		}
		p.copyRange(outerCount-1, scratch, unsafe.Add(dst, index*outerLoop.Dst), unsafe.Add(src, index*outerLoop.Src),
			lenB, from, min(to, outerLoop.tilesPerIndex))
		from, to = 0, to-outerLoop.tilesPerIndex
	}
}

// copyPlane copies tiles [from, to) of a and of lenB indices of b.
func (p *Copy) copyPlane(scratch []byte, dst, src unsafe.Pointer, lenB, from, to int) {
	a, b := &p.axisA, &p.axisB
	tileA, tileB := 0, 0
	if from > 0 {
		tileA, tileB = from%a.tileCount, from/a.tileCount
	}
	for ; from < to; from++ {
		startA, startB := tileA*a.tileLen, tileB*b.tileLen
		p.copyTile(scratch, unsafe.Add(dst, startA*a.Dst+startB*b.Dst), unsafe.Add(src, startA*a.Src+startB*b.Src),
			min(a.tileLen, a.N-startA), min(b.tileLen, lenB-startB))
		if tileA++; tileA == a.tileCount {
			tileA, tileB = 0, tileB+1
		}
	}
}

// copyTile copies lenA by lenB elements.
func (p *Copy) copyTile(scratch []byte, dst, src unsafe.Pointer, lenA, lenB int) {
	a, b := Axis{N: lenA, Dst: p.axisA.Dst, Src: p.axisA.Src}, Axis{N: lenB, Dst: p.axisB.Dst, Src: p.axisB.Src}
	if p.staged {
		for j := 0; j < lenB; j += stagedRows {
			b.N = min(stagedRows, lenB-j)
			p.transposeStaged(scratch, unsafe.Add(dst, j*b.Dst), unsafe.Add(src, j*b.Src), a, b)
		}
		return
	}
	// transpose and streamBlock (non-temporal stores) return false, and copy nothing, if they do not support the tile.
	if p.transposed && p.matrix(scratch, dst, src, lenA, lenB).transpose() {
		return
	}
	if p.nonTemporal && !p.transposed && streamBlock(dst, src, lenA*p.elem.DstSize, b) {
		return
	}
	p.elem.CopyBlock(dst, src, a, b)
}

// transposeStaged transposes a tile in scratch, and copies the result to dst row by row. The stride of rows in large
// arrays is often a power of two. The cache lines of a tile in dst would then evict one another before they are full.
func (p *Copy) transposeStaged(scratch []byte, dst, src unsafe.Pointer, a, b Axis) {
	size := p.elem.SrcSize
	staged, rowBytes := unsafe.Pointer(unsafe.SliceData(scratch)), p.scratchStride()
	copyBlock := blocksBySize[size]
	copyBlock(staged, src, Axis{N: a.N, Dst: size, Src: a.Src}, Axis{N: b.N, Dst: rowBytes, Src: size})
	for j := range b.N {
		p.elem.Row(unsafe.Add(dst, j*b.Dst), unsafe.Add(staged, j*rowBytes), p.elem.DstSize, size, a.N)
	}
}

// matrix returns a tile of `rows` elements along a and `cols` elements along b as a matrix to transpose.
func (p *Copy) matrix(scratch []byte, dst, src unsafe.Pointer, rows, cols int) matrix {
	tile := matrix{dst: dst, src: src, dstStep: p.axisB.Dst, srcStep: p.axisA.Src, rows: rows, cols: cols,
		elemBytes: p.elem.DstSize, nonTemporal: p.nonTemporal}
	if p.usesSquares() {
		tile.scratch = unsafe.Pointer(unsafe.SliceData(scratch))
	}
	return tile
}

// usesSquares reports whether elements are bytes that are transposed in squares. The side of a square is a cache line.
// An assembly routine (vectorRows) copies the rows of a square to scratch.
func (p *Copy) usesSquares() bool {
	hasRowRoutine := vectorRows != nil
	return p.transposed && p.elem.DstSize == 1 && hasRowRoutine && p.axisA.Src%machine.LineBytes == 0
}

// ScratchBytes returns the bytes of scratch memory, aligned to 8, that a worker needs.
func (p *Copy) ScratchBytes() int {
	switch {
	case p.usesSquares():
		return squareScratchBytes
	case !p.staged:
		return 0
	}
	return min(stagedRows, p.axisB.tileLen) * p.scratchStride()
}

// scratchStride returns the row stride of a staged tile in bytes. It is a cache line more than a row needs, so that
// strides are not powers of two.
func (p *Copy) scratchStride() int {
	const line = machine.LineBytes
	return (p.axisA.tileLen*p.elem.SrcSize+line-1)/line*line + line
}
