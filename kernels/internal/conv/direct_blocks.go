package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// sumBlocks describes the division of the terms of a result into blocks. Each block is summed separately, because the
// rounding error of a chain of thousands of additions is several times the error of a chain of hundreds. A field is 0
// if the terms are not divided in the way of the field.
type sumBlocks struct {
	terms    int // number of terms of a block, all of one tap
	taps     int // number of taps of a block, all of one row of the window
	channels int // number of channels of a block, with all taps; for inputs by planes
}

// blockTerms bounds the terms of a block. Adding the sum of a block takes 3 instructions, a small cost compared to 512
// terms.
const blockTerms = 512

// newSumBlocks chooses blocks by the sizes of the convolution alone. Results then have the same bits with every
// instruction set.
func newSumBlocks(s *convShape, f *directShape) sumBlocks {
	switch {
	case s.termsPerOutput() <= blockTerms:
		return sumBlocks{}
	case f.planes && f.cut != flat:
		return sumBlocks{channels: largestPart(s.inPerGroup, max(1, blockTerms/s.taps()))}
	case s.inPerGroup > blockTerms:
		return sumBlocks{terms: largestPart(s.inPerGroup, blockTerms), taps: 1}
	}
	return sumBlocks{taps: largestPart(s.w.Taps, max(1, blockTerms/s.inPerGroup))}
}

// largestPart returns the size of the largest part if n is divided evenly into as few parts of at most limit as
// possible.
func largestPart(n, limit int) int { return kit.DivUp(n, kit.DivUp(n, limit)) }

// endsAfter reports whether a block ends after tap kw of a row of the window with the given number of taps.
func (b *sumBlocks) endsAfter(kw, taps int) bool {
	return b.taps > 0 && ((kw+1)%b.taps == 0 || kw == taps-1)
}
