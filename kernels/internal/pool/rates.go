package pool

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of poolings. A rate is the time of one unit of work. Package calibrate runs the calls of a rate
// to measure it.
func Rates() []graph.Rate {
	var list []graph.Rate
	add := func(name, unit string, calls ...graph.RateCall) {
		list = append(list, graph.Rate{Name: name, Unit: unit, Calls: calls})
	}
	for kind, names := range goTapRates {
		for i, name := range names {
			order := visitOrder(i)
			add(name, "an element of a window", stride2Call(kind, order, 3, 64, 56), stride2Call(kind, order, 3, 192, 27))
		}
	}
	for i, names := range compiledTapRates {
		order := visitOrder(i)
		unit := [...]string{byPlanes: "an element of a window, by compiled loops over rows",
			byPixels: "an element of a window, by compiled loops over channels"}[order]
		for kind, name := range names {
			add(name, unit, stride2Call(kind, order, 3, 64, 112), stride2Call(kind, order, 3, 256, 28),
				stride2Call(kind, order, 3, 480, 14), stride1Call(kind, order, 192, 28), stride1Call(kind, order, 512, 14))
		}
	}
	for kind, name := range spacedResultRates {
		add(name, "a result in a row of windows that are more than one element apart",
			stride2Call(kind, byPlanes, 2, 64, 56), stride2Call(kind, byPlanes, 2, 128, 28))
	}
	for order, name := range goResultRates {
		add(name, "a result of a pooling", stride2Call(reduceAvg, visitOrder(order), 2, 64, 56))
	}
	return list
}

// stride2Call returns a call with windows of windowSize x windowSize elements and stride 2, over an image of imageSize
// x imageSize pixels.
func stride2Call(kind reduction, order visitOrder, windowSize, channels, imageSize int) graph.RateCall {
	attrs, image := graph.Attrs{"kernel_size": windowSize, "stride": 2}, kit.F32(1, channels, imageSize, imageSize)
	if kind == reduceNorm {
		attrs["kernel_size"], attrs["norm_type"] = []int{windowSize, windowSize}, 2.0
	}
	if order == byPixels {
		image = kit.NHWC(1, channels, imageSize, imageSize)
	}
	return graph.RateCall{Op: [...]string{reduceMax: "max_pool2d", reduceAvg: "avg_pool2d", reduceNorm: "lp_pool"}[kind],
		Attrs: attrs, In: []tensor.Meta{image}, Impl: [...]string{byPlanes: "planes", byPixels: "pixels"}[order]}
}

// stride1Call returns a call with overlapping windows of 3 x 3 elements, stride 1 and padding.
func stride1Call(kind reduction, order visitOrder, channels, imageSize int) graph.RateCall {
	call := stride2Call(kind, order, 3, channels, imageSize)
	call.Attrs["stride"], call.Attrs["padding"] = 1, 1
	return call
}
