package window

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of nearest-neighbour resizing, by their names in machine profiles.
const (
	resizePixel   = "resize.pixel"   // a pixel whose channels are copied
	resizeElement = "resize.element" // an element that is copied separately
)

// Rates lists the rates of nearest-neighbour resizing. A rate is the time of one unit of work. Package calibrate runs
// the calls of a rate to measure it.
func Rates() []graph.Rate {
	nearest := func(image tensor.Meta) graph.RateCall { // a call that doubles the height and width of an image
		return graph.RateCall{Op: "upsample_nearest2d", Attrs: graph.Attrs{"scale_factors": []float64{2, 2}},
			In: []tensor.Meta{image}}
	}
	return []graph.Rate{
		{Name: resizePixel, Unit: "a pixel that is copied",
			Calls: []graph.RateCall{nearest(kit.NHWC(1, 36, 14, 14)), nearest(kit.NHWC(1, 64, 28, 28))}},
		{Name: resizeElement, Unit: "an element of a plane that is copied",
			Calls: []graph.RateCall{nearest(kit.F32(1, 36, 14, 14)), nearest(kit.F32(1, 64, 28, 28))}},
	}
}
