package conv

import "github.com/graphrun/graphrun/kernels/internal/kit"

// sumBlocks divides the terms of a result into blocks of terms, which are summed separately. A sum of thousands of
// terms in one block would have several times the rounding error of blocks of hundreds. For example, with a
// channels-last input, the 9*1024 terms of a 3x3 window and 1024 channels are 18 blocks of 512 terms. A field is 0 if
// blocks do not have that limit. These blocks are unrelated to the blocks of output channels.
type sumBlocks struct {
	termsPerBlock    int // terms per block; a block has terms of one tap only
	tapsPerBlock     int // taps per block; a block has taps of one row of the window only
	channelsPerBlock int // channels per block, with all taps of each channel; only if the input is row-major (by planes)
}

// maxBlockTerms bounds the terms of a block. At the end of a block, each accumulator takes 3 instructions, a small cost
// compared to 512 terms.
const maxBlockTerms = 512

// newSumBlocks chooses blocks by the sizes of the convolution and the layout of the input, not by the instruction set.
// Results then have the same bits with every instruction set.
func newSumBlocks(conv *convShape, shape *directShape) sumBlocks {
	switch {
	case conv.termsPerOutput() <= maxBlockTerms:
		return sumBlocks{}
	case shape.byPlanes && shape.tiling != pointwiseTiling:
		return sumBlocks{channelsPerBlock: largestPart(conv.inPerGroup, max(1, maxBlockTerms/conv.taps()))}
	case conv.inPerGroup > maxBlockTerms:
		return sumBlocks{termsPerBlock: largestPart(conv.inPerGroup, maxBlockTerms), tapsPerBlock: 1}
	}
	return sumBlocks{tapsPerBlock: largestPart(conv.w.Taps, max(1, maxBlockTerms/conv.inPerGroup))}
}

// largestPart divides n evenly into the fewest parts of at most limit each, and returns the size of the largest part.
func largestPart(n, limit int) int { return kit.DivUp(n, kit.DivUp(n, limit)) }

// endsAfter reports whether a block ends after tap kw of a row of the window. taps is the number of taps of the row.
func (b *sumBlocks) endsAfter(kw, taps int) bool {
	return b.tapsPerBlock > 0 && ((kw+1)%b.tapsPerBlock == 0 || kw == taps-1)
}
