package pool

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of poolings. A rate is the time of one unit of work. Package calibrate runs the calls of a rate
// to measure it.
func Rates() []graph.Rate {
	implNames := [...]string{byPlanes: "planes", byPixels: "pixels"}
	// call returns a call of op with windows of windowSize x windowSize elements and stride 2, over an image of imageSize
	// x imageSize pixels.
	call := func(op string, order visitOrder, windowSize, channels, imageSize int) graph.RateCall {
		attrs, image := graph.Attrs{"kernel_size": windowSize, "stride": 2}, kit.F32(1, channels, imageSize, imageSize)
		if op == "lp_pool" {
			attrs["kernel_size"], attrs["norm_type"] = []int{windowSize, windowSize}, 2.0
		}
		if order == byPixels {
			image = kit.NHWC(1, channels, imageSize, imageSize)
		}
		return graph.RateCall{Op: op, Attrs: attrs, In: []tensor.Meta{image}, Impl: implNames[order]}
	}
	// overlappingCall returns a call of op with windows of 3 x 3 elements, stride 1 and padding.
	overlappingCall := func(op string, order visitOrder, channels, imageSize int) graph.RateCall {
		c := call(op, order, 3, channels, imageSize)
		c.Attrs["stride"], c.Attrs["padding"] = 1, 1
		return c
	}
	opNames := map[reduction]string{reduceMax: "max_pool2d", reduceAvg: "avg_pool2d", reduceNorm: "lp_pool"}
	var list []graph.Rate
	for kind, op := range opNames {
		for i := range implNames {
			order := visitOrder(i)
			list = append(list, graph.Rate{Name: goTapRates[kind][order], Unit: "an element of a window",
				Calls: []graph.RateCall{call(op, order, 3, 64, 56), call(op, order, 3, 192, 27)}})
		}
	}
	for i, names := range compiledTapRates {
		order := visitOrder(i)
		for kind, name := range names {
			op := opNames[kind]
			unit := [...]string{byPlanes: "an element of a window, by compiled loops over rows",
				byPixels: "an element of a window, by compiled loops over channels"}[order]
			list = append(list, graph.Rate{Name: name, Unit: unit, Calls: []graph.RateCall{call(op, order, 3, 64, 112),
				call(op, order, 3, 256, 28), call(op, order, 3, 480, 14), overlappingCall(op, order, 192, 28),
				overlappingCall(op, order, 512, 14)}})
		}
	}
	for kind, name := range spacedResultRates {
		op := opNames[kind]
		list = append(list, graph.Rate{Name: name, Unit: "a result in a row of windows that are more than one element apart",
			Calls: []graph.RateCall{call(op, byPlanes, 2, 64, 56), call(op, byPlanes, 2, 128, 28)}})
	}
	for order, name := range goResultRates {
		list = append(list, graph.Rate{Name: name, Unit: "a result of a pooling",
			Calls: []graph.RateCall{call("avg_pool2d", visitOrder(order), 2, 64, 56)}})
	}
	return list
}
