package conv

import (
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// maxReach bounds the distances between elements that one call of machine code accesses, in bytes: displacements have
// 32 bits, and sums of two distances must fit.
const maxReach = math.MaxInt32 / 4

// clampUnused bounds the stride of windows with one position, and the dilation of windows of one element, by the size
// of the dimension: there they have no effect. All other windows are within the padded input, whose size is bounded, so
// that arithmetic on positions does not overflow.
func clampUnused(step, dilation, size, positions, window int) (int, int) {
	if positions <= 1 {
		step = min(step, max(size, 1))
	}
	if window <= 1 {
		dilation = min(dilation, max(size, 1))
	}
	return step, dilation
}

// reach returns a bound on the distance between two positions of windows along a dimension, in the padding included.
func reach(in, out, window, step, pad, dilation int) int {
	return max(in, pad, out*step+(window-1)*dilation+1)
}

// inReach returns a bound on the distance in bytes between two elements of an image in windows. pixel is the stride of
// pixels in elements, and size is the bytes of an element.
func (s *convShape) inReach(pixel, size int) int {
	rows := reach(s.h, s.oh, s.kh, s.sh, s.ph, s.dh)
	if v := &s.depthDim; v.in > 0 {
		rows += kit.Times(reach(v.in, v.out, v.k, v.step, v.pad, v.dilated), s.h)
	}
	return kit.Times(kit.Times(rows, s.w)+reach(s.w, s.ow, s.kw, s.sw, s.pw, s.dw), pixel, size)
}

// outReach is inReach for a tile of the result, whose pixels may be in two rows.
func (s *convShape) outReach(size int) int {
	rows := min(maxTileRows, kit.Times(s.n, s.pixelsOut()))
	if s.ow <= maxTileRows {
		rows *= 2
	}
	return kit.Times(rows, max(s.outPixel(), s.o), size)
}

// maxTileRows is more than the rows of any tile.
const maxTileRows = 64

// tapsInside returns the number of taps inside the input along a dimension, summed over all windows.
func tapsInside(step, pad, dilation, size, window, outputs int) (n int) {
	count, other, begin, by := window, outputs, dilation, step
	if outputs < window {
		count, other, begin, by = outputs, window, step, dilation
	}
	for i := range count {
		first, end := validRange(i*begin-pad, by, size, other)
		n += max(0, end-first)
	}
	return n
}

// proportionate reports whether memory of the given number of elements is in proportion to the convolution's operands
// and work.
func (s *convShape) proportionate(elements int) bool {
	const always, most = 1 << 22, 16
	data := kit.Times(s.n, s.c, s.pixelsIn()) + kit.Times(s.n, s.pixelsOut(), s.taps(), s.c)
	return elements <= max(always, kit.Times(most, data))
}

// tilesPlanes reports whether there are compiled loops over tiles of planes, and such a tile fits in worker memory.
func (s *convShape) tilesPlanes(d tensor.DType) bool {
	cols := min(s.ow, minTileCols)
	least := kit.Times((s.kh-1)*s.dh+1, (cols-1)*s.sw+(s.kw-1)*s.dw+1, d.Size())
	return compilesTaps(d) && least <= maxTapsBytes
}
