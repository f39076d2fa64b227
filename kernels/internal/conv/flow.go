package conv

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// flow tells how much of the result is complete after each chunk, and how much of the input each chunk needs, so that
// neighbouring steps can overlap. The result must be dense and channels-last. The input must be dense and
// channels-last, unless planes is set. Otherwise flow returns nil. If planes is set, every chunk needs the whole input.
// first returns the first output pixel of a strip of an image. If order has one image, its strips span the whole batch.
func (s *convShape) flow(order *multiply.StripOrder, first func(strip int) int, planes bool) *graph.Flow {
	if s.outPixelStride() != s.outChannels || s.inPixelStride(planes) == 0 {
		return nil
	}
	pixels := s.pixelsOut()
	imagePixels := s.n * pixels / order.Images
	completed := func(chunk int) int {
		images, strips := order.Completed(chunk)
		return (images*imagePixels + first(strips)) * s.outChannels
	}
	needs := func(chunk int) int {
		images, strips := order.Started(chunk)
		if planes {
			return math.MaxInt
		}
		started := images*imagePixels + first(strips)
		images, pixelsOfLastImage := started/pixels, started%pixels
		rows := 0
		if pixelsOfLastImage > 0 {
			last := (pixelsOfLastImage - 1) / s.w.Results
			plane, row := s.d.Position(last/s.h.Results, s.d.Taps-1), s.h.Position(last%s.h.Results, s.h.Taps-1)
			rows = plane*s.h.Size + min(s.h.Size, max(0, row+1))
			rows = min(s.rowsIn(), max(0, rows))
		}
		return (images*s.rowsIn() + rows) * s.w.Size * s.inPixelStride(false)
	}
	return &graph.Flow{Made: completed, Needs: needs}
}
