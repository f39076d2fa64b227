package tiles

import "unsafe"

// transposeFunc writes dst[j*dstStep + i*size] = src[i*srcStep + j*size] for i < na and
// j < nb, both at most tileSide unless the other is shorter. buf holds a tile.
//
// The tile is turned in buf and then written row by row: rows of large arrays lie a power
// of two apart, so that the lines of a tile written directly would push one another out
// of the cache before they are full.
type transposeFunc func(buf, dst, src unsafe.Pointer, dstStep, srcStep, na, nb int)

var transposers = [17]transposeFunc{1: transpose[uint8], 2: transpose[uint16], 4: transpose[uint32],
	8: transpose[uint64], 16: transpose[[2]uint64]}

func transpose[T uint8 | uint16 | uint32 | uint64 | [2]uint64](buf, dst, src unsafe.Pointer,
	dstStep, srcStep, na, nb int) {
	tile := unsafe.Slice((*T)(buf), na*nb)
	i := 0
	for ; i+4 <= na; i += 4 {
		r0 := unsafe.Slice((*T)(unsafe.Add(src, i*srcStep)), nb)
		r1 := unsafe.Slice((*T)(unsafe.Add(src, (i+1)*srcStep)), nb)[:len(r0)]
		r2 := unsafe.Slice((*T)(unsafe.Add(src, (i+2)*srcStep)), nb)[:len(r0)]
		r3 := unsafe.Slice((*T)(unsafe.Add(src, (i+3)*srcStep)), nb)[:len(r0)]
		at := i
		for j, v := range r0 {
			t := tile[at : at+4 : at+4]
			t[0], t[1], t[2], t[3] = v, r1[j], r2[j], r3[j]
			at += na
		}
	}
	for ; i < na; i++ {
		at := i
		for _, v := range unsafe.Slice((*T)(unsafe.Add(src, i*srcStep)), nb) {
			tile[at] = v
			at += na
		}
	}
	for j := range nb {
		copy(unsafe.Slice((*T)(unsafe.Add(dst, j*dstStep)), na), tile[j*na:])
	}
}
