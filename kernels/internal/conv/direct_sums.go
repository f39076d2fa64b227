package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// sumBlocks is how the terms of an element are cut into blocks, whose sums are added up: a chain of thousands of
// additions is several times as far from the true sum as one of hundreds. Zeros are for no blocks of a kind.
type sumBlocks struct {
	terms    int // of one place of the window
	taps     int // places of a row of the window
	channels int // of an input in planes, each with all of the window
}

// blockTerms are those of a block, at most. To add its sum takes 3 instructions for as many multiplications.
const blockTerms = 512

// newSumBlocks chooses by the convolution's sizes alone, so that all instruction sets add up the same blocks.
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

// evenParts is the size of the fewest parts of n, even ones, that have at most so many.
func evenParts(n, most int) int { return kit.DivUp(n, kit.DivUp(n, most)) }

// endAt reports whether a block ends behind a place of a row of the window, which has so many.
func (b *sumBlocks) endAt(kw, places int) bool {
	return b.taps > 0 && ((kw+1)%b.taps == 0 || kw == places-1)
}
