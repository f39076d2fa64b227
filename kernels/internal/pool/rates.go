package pool

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rates lists the rates of poolings. A rate is the time of one unit of work. Package
// calibrate runs the calls of a rate to measure it.
func Rates() []graph.Rate {
	impls := [...]string{poolPlanes: "planes", poolPixels: "pixels"}
	call := func(op string, order poolOrder, size, channels, side int) graph.RateCall {
		a, m := graph.Attrs{"kernel_size": size, "stride": 2}, kit.F32(1, channels, side, side)
		if op == "lp_pool" {
			a["kernel_size"], a["norm_type"] = []int{size, size}, 2.0
		}
		if order == poolPixels {
			m = kit.NHWC(1, channels, side, side)
		}
		return graph.RateCall{Op: op, Attrs: a, In: []tensor.Meta{m}, Impl: impls[order]}
	}
	overlapping := func(op string, order poolOrder, channels, side int) graph.RateCall {
		c := call(op, order, 3, channels, side)
		c.Attrs["stride"], c.Attrs["padding"] = 1, 1
		return c
	}
	var list []graph.Rate
	for kind, op := range map[poolKind]string{poolMax: "max_pool2d", poolAvg: "avg_pool2d", poolNorm: "lp_pool"} {
		for i := range impls {
			order := poolOrder(i)
			list = append(list, graph.Rate{Name: poolElement[kind][order], Unit: "an element of a window",
				Calls: []graph.RateCall{call(op, order, 3, 64, 56), call(op, order, 3, 192, 27)}})
		}
	}
	for i, names := range poolLoops {
		order := poolOrder(i)
		for kind, name := range names {
			op := map[poolKind]string{poolMax: "max_pool2d", poolAvg: "avg_pool2d"}[kind]
			unit := [...]string{poolPlanes: "an element of a window, by compiled loops over rows",
				poolPixels: "an element of a window, by compiled loops over channels"}[order]
			list = append(list, graph.Rate{Name: name, Unit: unit, Calls: []graph.RateCall{call(op, order, 3, 64, 112),
				call(op, order, 3, 256, 28), call(op, order, 3, 480, 14), overlapping(op, order, 192, 28),
				overlapping(op, order, 512, 14)}})
		}
	}
	for kind, name := range poolStep {
		op := map[poolKind]string{poolMax: "max_pool2d", poolAvg: "avg_pool2d"}[kind]
		list = append(list, graph.Rate{Name: name, Unit: "a result in a row of windows with a step greater than 1",
			Calls: []graph.RateCall{call(op, poolPlanes, 2, 64, 56), call(op, poolPlanes, 2, 128, 28)}})
	}
	for order, name := range poolResult {
		list = append(list, graph.Rate{Name: name, Unit: "a result of a pooling",
			Calls: []graph.RateCall{call("avg_pool2d", poolOrder(order), 2, 64, 56)}})
	}
	return list
}
