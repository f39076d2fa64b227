package conv

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// flow describes the progress of chunks through the result and the input, for pipelining with neighbouring steps. The
// result must be dense and channels-last. The input must be dense and channels-last, or by planes. Otherwise flow
// returns nil. Every chunk needs all of an input by planes. first returns the first output pixel of a strip of an
// image. If order has one image, its strips span the whole batch.
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
		images, inLastImage := started/pixels, started%pixels
		rows := 0
		if inLastImage > 0 {
			last := (inLastImage - 1) / s.w.Results
			plane, row := s.d.Position(last/s.h.Results, s.d.Taps-1), s.h.Position(last%s.h.Results, s.h.Taps-1)
			rows = plane*s.h.Size + min(s.h.Size, max(0, row+1))
			rows = min(s.rowsIn(), max(0, rows))
		}
		return (images*s.rowsIn() + rows) * s.w.Size * s.inPixelStride(false)
	}
	return &graph.Flow{Made: completed, Needs: needs}
}
