package conv

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// flow describes how much of the result is complete after each chunk, and how much of the input each chunk needs, so
// that consecutive steps can overlap. With a window of 3x3 and padding 1, for example, the first two rows of the result
// need the first three rows of the input. flow returns nil if the result or the input is not dense and channels-last.
// If byPlanes is set, the input is row-major, plane by plane, and every chunk needs the whole input. stripStart returns
// the first output pixel of a strip, which is a sequence of output pixels. An order divides the output pixels of the
// batch into order.Images equal parts: the images of the batch, or one part with all of them.
func (s *convShape) flow(order *multiply.StripOrder, stripStart func(strip int) int, byPlanes bool) *graph.Flow {
	if s.outPixelStride() != s.outChannels || s.inPixelStride(byPlanes) == 0 {
		return nil
	}
	imagePixels := s.batch * s.pixelsOut() / order.Images
	completed := func(chunk int) int {
		images, strips := order.Completed(chunk)
		return (images*imagePixels + stripStart(strips)) * s.outChannels
	}
	needs := func(chunk int) int {
		if byPlanes {
			return math.MaxInt
		}
		images, strips := order.Started(chunk)
		return s.inputElementsOf(images*imagePixels + stripStart(strips))
	}
	return &graph.Flow{FinalElements: completed, NeededElements: needs}
}

// inputElementsOf returns the length, in elements, of the prefix of a channels-last input that contains the windows of
// the first outPixels output pixels of the batch.
func (s *convShape) inputElementsOf(outPixels int) int {
	images, pixels := outPixels/s.pixelsOut(), outPixels%s.pixelsOut()
	rows := 0 // input rows of the image that contains the last pixel
	if pixels > 0 {
		// The row of the last output pixel; the rows of all planes have consecutive numbers. The last tap of this
		// pixel's window may be in the padding: at a negative position, or beyond the input.
		lastRow := (pixels - 1) / s.w.Results
		plane := s.d.Position(lastRow/s.h.Results, s.d.Taps-1)
		row := s.h.Position(lastRow%s.h.Results, s.h.Taps-1)
		rows = plane*s.h.Size + min(s.h.Size, max(0, row+1))
		rows = min(s.rowsIn(), max(0, rows))
	}
	const byPlanes = false
	return (images*s.rowsIn() + rows) * s.w.Size * s.inPixelStride(byPlanes)
}
