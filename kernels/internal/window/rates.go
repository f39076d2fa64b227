package window

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The rates of nearest-neighbour resizing and of grid_sampler, by their names in machine profiles.
const (
	resizePixel   = "resize.pixel"   // a pixel whose channels are copied
	resizeElement = "resize.element" // an element that is copied separately
	gridList      = "grid.list"      // the list of the taps of a bilinear sample of an image
	gridSample    = "grid.sample"    // a bilinear sample of one channel
	gridQuad      = "grid.quad"      // a bilinear sample of four adjacent channels, with vectors
)

// Rates lists the rates of nearest-neighbour resizing and of grid_sampler. A rate is the time of one unit of work.
// Package calibrate runs the calls of a rate to measure it.
func Rates() []graph.Rate {
	nearest := func(image tensor.Meta) graph.RateCall { // a call that doubles the height and width of an image
		return graph.RateCall{Op: "upsample_nearest2d", Attrs: graph.Attrs{"scale_factors": []float64{2, 2}},
			In: []tensor.Meta{image}}
	}
	sample := func(image tensor.Meta, positions int) graph.RateCall { // a call with positions x positions samples
		return graph.RateCall{Op: "grid_sampler", In: []tensor.Meta{image, kit.F32(image.Shape[0], positions, positions, 2)},
			Make: func(g *graph.Graph, in []any) []*graph.Value {
				// Operands are below 1.25. The factor keeps the coordinates below 1, because samples outside an image
				// cost more.
				return g.Apply("grid_sampler", nil, in[0], g.Apply("mul", graph.Attrs{"other": .75}, in[1])[0])
			}}
	}
	return []graph.Rate{
		{Name: resizePixel, Unit: "a pixel that is copied",
			Calls: []graph.RateCall{nearest(kit.NHWC(1, 36, 14, 14)), nearest(kit.NHWC(1, 64, 28, 28))}},
		{Name: resizeElement, Unit: "an element of a plane that is copied",
			Calls: []graph.RateCall{nearest(kit.F32(1, 36, 14, 14)), nearest(kit.F32(1, 64, 28, 28))}},
		{Name: gridList, Unit: "the list of the taps of a bilinear sample of an image",
			Calls: []graph.RateCall{sample(kit.F32(1, 1, 64, 64), 64), sample(kit.F32(1, 1, 112, 112), 80)}},
		// The image has more elements than all samples have taps, so it is not copied to quads.
		{Name: gridSample, Unit: "a bilinear sample of one channel",
			Calls: []graph.RateCall{sample(kit.F32(1, 24, 48, 48), 20), sample(kit.F32(1, 64, 32, 32), 14)}},
		{Name: gridQuad, Unit: "a bilinear sample of four channels, with vectors",
			Calls: []graph.RateCall{sample(kit.F32(1, 32, 28, 28), 40), sample(kit.F32(1, 64, 32, 32), 32)}},
	}
}
