package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// sumBlocks describes how the terms of an element of the result are divided into blocks, whose sums are added at the
// end. The rounding error of a chain of thousands of additions is several times that of a chain of hundreds. A field is
// 0 if terms are not divided in that way.
type sumBlocks struct {
	terms    int // terms of one tap in a block
	taps     int // taps of a row of the window in a block
	channels int // channels, with all taps, in a block; for inputs in planes
}

// blockTerms bounds the terms of a block. Adding a block's sum takes 3 instructions.
const blockTerms = 512

// newSumBlocks chooses blocks only by the sizes of the convolution, so that results do not depend on the instruction
// set.
func newSumBlocks(s *convShape, f *directShape) sumBlocks {
	switch {
	case s.depth() <= blockTerms:
		return sumBlocks{}
	case f.planes && f.cut != flat:
		return sumBlocks{channels: evenParts(s.cg, max(1, blockTerms/s.taps()))}
	case s.cg > blockTerms:
		return sumBlocks{terms: evenParts(s.cg, blockTerms), taps: 1}
	}
	return sumBlocks{taps: evenParts(s.w.Taps, max(1, blockTerms/s.cg))}
}

// evenParts divides n into the fewest parts of at most `most`, as equal as possible, and returns the size of the
// largest.
func evenParts(n, most int) int { return kit.DivUp(n, kit.DivUp(n, most)) }

// endAt reports whether a block ends after tap kw of a row of the window with taps taps.
func (b *sumBlocks) endAt(kw, taps int) bool {
	return b.taps > 0 && ((kw+1)%b.taps == 0 || kw == taps-1)
}
