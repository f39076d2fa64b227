//go:build amd64 && !noasm

package strided

// This file transposes three adjacent channels, such as the colors of pixels, with 16 pixels in three vectors:
//
//	pixels:  r0 g0 b0 r1 ... r5 | g5 b5 r6 ... g10 | b10 r11 ... b15
//	planes:  r0 r1 r2 ... r15 | g0 g1 ... g15 | b0 b1 ... b15
//
// Splitting makes planes of pixels, and weaving makes pixels of planes.

// permutations describes how three vectors of 16 doublewords are composed from elements of three other vectors.
// index has the position of the source of each element: 0 to 15 in the first vector, and 16 to 31 in the second
// vector. If the element's bit in third is set, the position is in the third vector instead.
type permutations struct {
	index [3][16]uint32
	third [3]uint16
}

// set sets the source of a lane of result `vector`: the element at an index of the vector `source`.
func (p *permutations) set(vector, lane, source, index int) {
	if source == 2 {
		p.third[vector] |= 1 << lane
		source = 0 // positions in the third vector are 0 to 15
	}
	p.index[vector][lane] = uint32(16*source + index)
}

// splitTable gathers every third element into a vector. weaveTable is its inverse: it interleaves three vectors.
var splitTable, weaveTable = func() (split, weave permutations) {
	for i := range 48 { // 16 triples: element i is channel i%3 of triple i/3
		split.set(i%3, i/3, i/16, i%16)
		weave.set(i/16, i%16, i%3, i/3)
	}
	return split, weave
}()

// transposeThreeChannels is [matrix.transpose] for three adjacent channels of 4 bytes. It returns the number of
// elements per channel that it transposed, which is a multiple of the vector length.
func (m *matrix) transposeThreeChannels() int {
	const lanes = 16
	const tripleBytes = 12 // 3 channels of 4 bytes
	switch {
	case m.elemBytes != 4 || !hasThreeChannelTranspose:
	case m.cols == 3 && m.srcStep == tripleBytes && m.rows >= lanes:
		wholeVectors := m.rows &^ (lanes - 1) // a multiple of lanes
		split3x512(wholeVectors, m.dst, m.dstStep, m.src, &splitTable)
		return wholeVectors
	case m.rows == 3 && m.dstStep == tripleBytes && m.cols >= lanes:
		wholeVectors := m.cols &^ (lanes - 1)
		weave3x512(wholeVectors, m.dst, m.src, m.srcStep, &weaveTable)
		return wholeVectors
	}
	return 0
}
