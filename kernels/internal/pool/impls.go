package pool

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// poolOrder is the order in which a pooling visits elements: plane by plane, or pixel by pixel. Both orders support any
// strides.
type poolOrder uint8

const (
	poolPlanes poolOrder = iota
	poolPixels
)

// Names of rates in the machine profile. A rate is the time of one unit of work.
var (
	// poolElement and poolLoops name the rates for one window element: poolElement for loops in Go, poolLoops for
	// compiled loops.
	poolElement = map[poolKind][2]string{
		poolMax:  {poolPlanes: "pool.max.planes", poolPixels: "pool.max.pixels"},
		poolAvg:  {poolPlanes: "pool.avg.planes", poolPixels: "pool.avg.pixels"},
		poolNorm: {poolPlanes: "pool.norm.planes", poolPixels: "pool.norm.pixels"},
	}
	poolLoops = [2]map[poolKind]string{
		poolPlanes: {poolMax: "pool.max.rows", poolAvg: "pool.avg.rows"},
		poolPixels: {poolMax: "pool.max.loops", poolAvg: "pool.avg.loops"},
	}
	// poolStep names the rate that is added for each result of the plane-by-plane loops if neighbouring windows are more
	// than one element apart.
	poolStep = map[poolKind]string{poolMax: "pool.max.step", poolAvg: "pool.avg.step"}
	// poolResult names the rates for one result of loops in Go.
	poolResult = [2]string{poolPlanes: "pool.result.planes", poolPixels: "pool.result.pixels"}
)

// From longRowTaps elements on, the plane-by-plane loops sum each row of a window in one inner loop.
const longRowTaps = 16

// work returns the work of a pooling for a walk (the loop order and the layouts of the results).
func (p *pooling) work(call *graph.Call, order poolOrder, walk graph.Walk) graph.Work {
	area, elementRate := p.area(call), poolElement[p.kind][order]
	if order == poolPlanes && area > longRowTaps*longRowTaps {
		elementRate = poolElement[p.kind][poolPixels]
	}
	work := graph.Work{Steps: 1}
	call.AddStreamed(&work)
	n := float64(call.Out[0].Numel())
	if p.compiles(call, order, walk, area) {
		// Memory access does not overlap with computation, because the rows of an image are not adjacent.
		elemCost := float64(max(4, call.Out[0].DType.Size())) / 4
		work.DoUnoverlapped(poolLoops[order][p.kind], n*area*elemCost)
		if order == poolPlanes && windowsAreStrided(call) {
			work.DoUnoverlapped(poolStep[p.kind], n*elemCost)
		}
	} else {
		work.Do(elementRate, n*area)
		work.Do(poolResult[order], n)
	}
	work.Flops = n * area
	kit.AddScatteredAccess(&work, call, walk, walk.Order)
	return work
}

// windowsAreStrided estimates whether neighbouring windows are more than one element apart. Rows of the operand are
// then at least 1.5 times as long as rows of the result.
func windowsAreStrided(c *graph.Call) bool {
	last := c.Out[0].Rank() - 1
	return last >= 0 && 2*c.Meta(0).Shape[c.Meta(0).Rank()-1] >= 3*c.Out[0].Shape[last]
}

// compiles predicts whether a walk uses compiled loops. Compiled loops write results in the walk's order. Compiled
// loops by planes require windows of few elements, with steps of 1 or, for floats, 2.
func (p *pooling) compiles(c *graph.Call, order poolOrder, walk graph.Walk, area float64) bool {
	if order == poolPlanes && (len(c.Out) > 1 || area > longRowTaps*longRowTaps || windowsAreFarApart(c)) {
		return false
	}
	return loops.CodeAvailable() && p.kind != poolNorm && (len(c.Out) == 1 || area <= maxLoopTaps) &&
		walk.Order.Rank() == c.Out[0].Rank() && walk.Order.Holds(walk.ResultLayout(0, c.Out[0]))
}

// windowsAreFarApart estimates whether windows are too far apart for the compiled loops by planes.
func windowsAreFarApart(c *graph.Call) bool {
	m, out := c.Meta(0), c.Out[0]
	if out.Numel() == 0 {
		return false
	}
	width, results := m.Shape[m.Rank()-1], out.Shape[out.Rank()-1]
	return width > 3*results || !m.DType.IsFloat() && 2*width > 3*results
}

// poolImpls returns the implementations of a pooling. If followsOperand is set, the op is over images, its result has
// the operand's layout, and the implementations read operands in the order of the walk. Otherwise both implementations
// write any layout, and "planes" also reads any layout.
func poolImpls(poolingOf func(c *graph.Call) *pooling, followsOperand bool) []graph.Impl {
	impl := func(order poolOrder, i graph.Impl) graph.Impl {
		i.Lower = func(c *graph.Call) (*graph.Kernel, error) { return poolingOf(c).compile(c, order) }
		i.Work = func(c *graph.Call, w graph.Walk) graph.Work { return poolingOf(c).work(c, order, w) }
		return i
	}
	pixels := graph.Impl{Name: "pixels", Writes: writesPixels,
		Doc: "Folds the elements of a window, all channels at once; channels last."}
	planes := graph.Impl{Name: "planes", Doc: "Folds the windows of planes, row by row."}
	if followsOperand {
		pixels.Walks, pixels.Read = pixelWalks, readsPixels
		planes.Walks, planes.Read = func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			return walksFrom(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
		}, readsOrder
	} else {
		pixels.Walks = func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			m := c.Meta(0)
			if m.Rank() != poolingOf(c).dims+2 || m.Shape[1] < 2 {
				return nil
			}
			return anyLayoutWalks(c, channelsLastOrder(m.Rank()), candidates)
		}
		pixels.Read = func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
			return graph.Work{}, m.Strides[1] == 1
		}
		planes.Walks = func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			return anyLayoutWalks(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
		}
	}
	return []graph.Impl{impl(poolPixels, pixels), impl(poolPlanes, planes)}
}

// pixelWalks returns the walks of the implementation "pixels" over images. An image with one channel has none: "planes"
// visits the same elements in the same order.
func pixelWalks(c *graph.Call, candidates []tensor.Order) []graph.Walk {
	switch m := c.Meta(0); {
	case m.Rank() == 4 && m.Shape[1] > 1:
		return walksFrom(c, channelsLastOrder(4), candidates)
	case m.Rank() == 3 && m.Shape[0] > 1 && m.Shape[1] == 1 && m.Shape[2] == 1: // channels of one pixel are contiguous
		return walksFrom(c, tensor.RowMajorOrder(3), candidates)
	}
	return nil
}

// anyLayoutWalks returns the walks in the given order that write the inferred layout or a candidate.
func anyLayoutWalks(c *graph.Call, order tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := walksFrom(c, order, candidates)
	list[0].Out = nil // the first walk writes the inferred layout
	if slices.Contains(candidates, order) {
		list = append(list, c.InOrder(order))
	}
	return list
}

// channelsLastOrder returns the order with dimension 1, the channels, last.
func channelsLastOrder(rank int) tensor.Order {
	dims := []int{0}
	for d := 2; d < rank; d++ {
		dims = append(dims, d)
	}
	o, err := tensor.NewOrder(append(dims, 1)...)
	if err != nil {
		panic("pool: invalid channels-last order: " + err.Error())
	}
	return o
}

// walksFrom returns the walks in the given order. They write results in this order or in the order of a candidate.
func walksFrom(c *graph.Call, order tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := []graph.Walk{c.InOrder(order)}
	for _, to := range candidates {
		if to != "" && to != order && to.Rank() == c.Out[0].Rank() {
			walk := c.InOrder(to)
			walk.Order = order
			list = append(list, walk)
		}
	}
	return list
}

// readsOrder implements [graph.Impl.Read] for an implementation that requires operands in the order of the walk.
func readsOrder(_ *graph.Call, w graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
	return graph.Work{}, w.Order.Rank() != m.Rank() || w.Order.Holds(m)
}

// readsPixels implements [graph.Impl.Read] for an implementation that requires operands in the order of the walk. The
// operands may be slices of larger tensors.
func readsPixels(c *graph.Call, w graph.Walk, i int, m tensor.Meta) (graph.Work, bool) {
	if work, ok := readsOrder(c, w, i, m); ok {
		return work, true
	}
	o, _ := tensor.OrderOf(m)
	return graph.Work{}, m.Rank() == 4 && m.Strides[1] == 1 && w.Order.Holds(m.WithStrides(o.Strides(m.Shape)))
}

// writesPixels implements [graph.Impl.Writes] for an implementation that iterates over contiguous channels and supports
// any other strides.
func writesPixels(_ *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool {
	return m.Rank() > 2 && m.Strides[1] == 1
}
