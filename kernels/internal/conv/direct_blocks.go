package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// sumBlocks describes how the terms of an element are divided into blocks, whose sums are added at the end: rounding
// errors of a chain of thousands of additions are several times those of chains of hundreds. Zeros mean no blocks of
// that kind.
type sumBlocks struct {
	terms    int // terms of one tap per block
	taps     int // taps of a row of the window per block
	channels int // channels per block, with all taps, for inputs in planes
}

// blockTerms bounds the terms of a block. Adding a block's sum takes 3 instructions.
const blockTerms = 512

// newSumBlocks chooses by the convolution's sizes only, so that results do not depend on the instruction set.
func newSumBlocks(s *convShape, f *directShape) sumBlocks {
	switch {
	case s.depth() <= blockTerms:
		return sumBlocks{}
	case f.planes && f.cut != flat:
		return sumBlocks{channels: evenParts(s.cg, max(1, blockTerms/s.taps()))}
	case s.cg > blockTerms:
		return sumBlocks{terms: evenParts(s.cg, blockTerms), taps: 1}
	}
	return sumBlocks{taps: evenParts(s.kw, max(1, blockTerms/s.cg))}
}

// evenParts returns the size of the parts if n is divided into the fewest equal parts of at most `most`.
func evenParts(n, most int) int { return kit.DivUp(n, kit.DivUp(n, most)) }

// endAt reports whether a block ends after tap kw of a row of the window with taps taps.
func (b *sumBlocks) endAt(kw, taps int) bool {
	return b.taps > 0 && ((kw+1)%b.taps == 0 || kw == taps-1)
}
