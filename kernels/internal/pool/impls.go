package pool

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// visitOrder is the order in which a pooling visits elements: plane by plane, or pixel by pixel, where a pixel has the
// channels of one position. Kernels in both orders support any strides.
type visitOrder uint8

const (
	byPlanes visitOrder = iota
	byPixels
)

// implementations returns the two implementations of a pooling, "planes" and "pixels". followsOperand is set for ops
// over images whose result has the operand's layout. Their implementations read operands in the order of the walk.
// Otherwise both implementations write any layout, and "planes" also reads any layout.
//
// An order is a permutation of dimensions. A walk ([graph.Walk]) consists of the order of the loops and the orders of
// the results. Walks returns the walks that an implementation supports, given the candidates: the orders of the first
// result that the planner considers. Read reports whether an implementation reads an operand in a layout.
func implementations(poolingOf func(c *graph.Call) *pooling, followsOperand bool) []graph.Impl {
	complete := func(impl graph.Impl, order visitOrder) graph.Impl {
		impl.Lower = func(c *graph.Call) (*graph.Kernel, error) { return poolingOf(c).compile(c, order) }
		impl.Work = func(c *graph.Call, walk graph.Walk) pricing.Work { return poolingOf(c).work(c, order, walk) }
		return impl
	}
	pixels := graph.Impl{Name: "pixels", Writes: writesPixels,
		Doc: "Folds the elements of a window, all channels at once; channels last."}
	planes := graph.Impl{Name: "planes", Doc: "Folds the windows of planes, row by row."}
	if followsOperand {
		pixels.Walks, pixels.Read = pixelWalks, readsPixels
		planes.Walks, planes.Read = planeWalks, readsOrder
	} else {
		pixels.Walks = func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			return anyLayoutPixelWalks(c, poolingOf(c).dims, candidates)
		}
		pixels.Read = readsContiguousChannels
		planes.Walks = func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			return anyLayoutWalks(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
		}
	}
	return []graph.Impl{complete(pixels, byPixels), complete(planes, byPlanes)}
}

// pixelWalks returns the walks of the implementation "pixels" over images. An image with one channel has none: "planes"
// visits the same elements in the same order.
func pixelWalks(c *graph.Call, candidates []tensor.Order) []graph.Walk {
	switch operand := c.Meta(0); {
	case operand.Rank() == 4 && operand.Shape[1] > 1:
		return walksFrom(c, channelsLastOrder(4), candidates)
	case operand.Rank() == 3 && operand.Shape[0] > 1 && operand.Shape[1] == 1 && operand.Shape[2] == 1:
		// The channels of one pixel are contiguous.
		return walksFrom(c, tensor.RowMajorOrder(3), candidates)
	}
	return nil
}

// planeWalks returns the walks of the implementation "planes" over images.
func planeWalks(c *graph.Call, candidates []tensor.Order) []graph.Walk {
	return walksFrom(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
}

// anyLayoutPixelWalks returns the walks of the implementation "pixels" over the last dims dimensions of an operand with
// a batch and several channels. It writes any layout.
func anyLayoutPixelWalks(c *graph.Call, dims int, candidates []tensor.Order) []graph.Walk {
	operand := c.Meta(0)
	if operand.Rank() != dims+2 || operand.Shape[1] < 2 {
		return nil
	}
	return anyLayoutWalks(c, channelsLastOrder(operand.Rank()), candidates)
}

// anyLayoutWalks returns the walks in the given order that write the inferred layout or a candidate.
func anyLayoutWalks(c *graph.Call, order tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := walksFrom(c, order, candidates)
	list[0].ResultOrders = nil              // the first walk writes the inferred layout
	if slices.Contains(candidates, order) { // the first walk would have written this order
		list = append(list, c.WalkInOrder(order))
	}
	return list
}

// channelsLastOrder returns the order with dimension 1, the channels, last.
func channelsLastOrder(rank int) tensor.Order {
	dims := []int{0}
	for d := 2; d < rank; d++ {
		dims = append(dims, d)
	}
	order, err := tensor.NewOrder(append(dims, 1)...)
	if err != nil {
		panic("pool: invalid channels-last order: " + err.Error())
	}
	return order
}

// walksFrom returns the walks in the given order. They write results in this order or in the order of a candidate.
func walksFrom(c *graph.Call, order tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := []graph.Walk{c.WalkInOrder(order)}
	for _, resultOrder := range candidates {
		isOther := resultOrder != "" && resultOrder != order // "" is the inferred order
		if isOther && resultOrder.Rank() == c.Out[0].Rank() {
			walk := c.WalkInOrder(resultOrder)
			walk.LoopOrder = order
			list = append(list, walk)
		}
	}
	return list
}

// readsOrder implements [graph.Impl.Read] for an implementation that requires operands in the order of the walk.
func readsOrder(_ *graph.Call, walk graph.Walk, _ int, operand tensor.Meta) (pricing.Work, bool) {
	return pricing.Work{}, walk.LoopOrder.Rank() != operand.Rank() || walk.LoopOrder.Matches(operand)
}

// readsContiguousChannels implements [graph.Impl.Read] for an implementation that requires only that the channels of a
// pixel are contiguous.
func readsContiguousChannels(_ *graph.Call, _ graph.Walk, _ int, operand tensor.Meta) (pricing.Work, bool) {
	return pricing.Work{}, operand.Strides[1] == 1
}

// readsPixels implements [graph.Impl.Read] for an implementation that requires operands in the order of the walk. It
// also accepts rank-4 operands with contiguous channels that are slices of larger tensors in this order.
func readsPixels(c *graph.Call, walk graph.Walk, operandIndex int, operand tensor.Meta) (pricing.Work, bool) {
	if work, ok := readsOrder(c, walk, operandIndex, operand); ok {
		return work, true
	}
	order, _ := tensor.OrderOf(operand)
	return pricing.Work{}, operand.Rank() == 4 && operand.Strides[1] == 1 &&
		walk.LoopOrder.Matches(operand.WithStrides(order.Strides(operand.Shape)))
}

// writesPixels implements [graph.Impl.Writes] for an implementation that iterates over contiguous channels and supports
// any other strides.
func writesPixels(_ *graph.Call, _ graph.Walk, _ int, result tensor.Meta) bool {
	return result.Rank() > 2 && result.Strides[1] == 1
}

// Names of rates in the machine profile. A rate is the time of one unit of work. A tap is an element of a window.
var (
	// goTapRates[kind][order] names the rate of a tap in loops in Go. compiledTapRates[order][kind] names the rate of a
	// tap in compiled loops, which do not compute norms.
	goTapRates = map[reduction][2]string{
		reduceMax:  {byPlanes: "pool.max.planes", byPixels: "pool.max.pixels"},
		reduceAvg:  {byPlanes: "pool.avg.planes", byPixels: "pool.avg.pixels"},
		reduceNorm: {byPlanes: "pool.norm.planes", byPixels: "pool.norm.pixels"},
	}
	compiledTapRates = [2]map[reduction]string{
		byPlanes: {reduceMax: "pool.max.rows", reduceAvg: "pool.avg.rows"},
		byPixels: {reduceMax: "pool.max.loops", reduceAvg: "pool.avg.loops"},
	}
	// spacedResultRates names the rate that compiled loops by planes add for each result if neighbouring windows are more
	// than one element apart.
	spacedResultRates = map[reduction]string{reduceMax: "pool.max.step", reduceAvg: "pool.avg.step"}
	// goResultRates names the rates for one result of loops in Go.
	goResultRates = [2]string{byPlanes: "pool.result.planes", byPixels: "pool.result.pixels"}
)

// maxCompiledTaps is the maximum number of taps of a window for which costs assume compiled loops by planes. Larger
// windows use loops in Go by planes. A tap then costs as much as in loops by pixels, because an inner loop has many
// taps.
const maxCompiledTaps = 16 * 16

// work returns the work of a pooling for a walk (the loop order and the layouts of the results).
func (p *pooling) work(call *graph.Call, order visitOrder, walk graph.Walk) pricing.Work {
	taps, tapRate := p.typicalTaps(call), goTapRates[p.kind][order]
	if order == byPlanes && taps > maxCompiledTaps {
		tapRate = goTapRates[p.kind][byPixels]
	}
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	results := float64(call.Out[0].Numel())
	if p.usesCompiledLoops(call, order, walk, taps) {
		// Memory access does not overlap with computation, because the rows of an image are not adjacent.
		elemCost := float64(max(4, call.Out[0].DType.Size())) / 4 // the rates are for float32
		if order == byPlanes && p.isSpaced(call) {
			p.addSpacedWork(&work, call, taps, elemCost)
		} else {
			work.AddUnoverlapped(compiledTapRates[order][p.kind], results*taps*elemCost)
			if order == byPlanes && windowsAreStrided(call) {
				work.AddUnoverlapped(spacedResultRates[p.kind], results*elemCost)
			}
		}
	} else {
		work.AddUnits(tapRate, results*taps)
		work.AddUnits(goResultRates[order], results)
	}
	work.Flops = results * taps
	kit.AddScatteredAccess(&work, call, walk, walk.LoopOrder)
	return work
}

// isSpaced reports whether compiled loops by planes use compiledSpaced.
func (p *pooling) isSpaced(call *graph.Call) bool {
	axes, err := p.callAxes(call)
	if err != nil || p.kind != reduceMax {
		return false
	}
	windowRows := 1
	for i := range axes[:len(axes)-1] {
		windowRows = kit.BoundedProduct(windowRows, axes[i].TypicalCount())
	}
	cols, ok := newColumns(&axes[len(axes)-1])
	return ok && !(windowRows <= maxLoopTaps && cols.fitOneLoop(call.Out[0].DType))
}

// addSpacedWork adds the work of a compiledSpaced: the taps, and a copy of the operand.
func (p *pooling) addSpacedWork(work *pricing.Work, call *graph.Call, taps, elemCost float64) {
	const (
		lanes = 16 // a loop computes whole vectors of results
		// copiesPerResult is the approximate number of elements that can be copied in the time of one spaced result.
		copiesPerResult = 8
	)
	if taps > maxLoopTaps {
		taps = math.Ceil(taps/tapsPerPartialLoop) * tapsPerPartialLoop
	}
	rowResults := max(1, call.Out[0].Shape[call.Out[0].Rank()-1])
	vectors := float64(call.Out[0].Numel() / rowResults * kit.DivUp(rowResults, lanes))
	work.AddUnoverlapped(compiledTapRates[byPlanes][p.kind], vectors*lanes*taps*elemCost)
	work.AddUnoverlapped(spacedResultRates[p.kind], float64(call.Meta(0).Numel())*elemCost/copiesPerResult)
}

// windowsAreStrided estimates whether neighbouring windows are more than one element apart. It tests whether rows of
// the operand are at least 1.5 times as long as rows of the result.
func windowsAreStrided(c *graph.Call) bool {
	last := c.Out[0].Rank() - 1
	return last >= 0 && 2*c.Meta(0).Shape[c.Meta(0).Rank()-1] >= 3*c.Out[0].Shape[last]
}

// usesCompiledLoops predicts whether a walk uses compiled loops. Compiled loops write results in the walk's order.
// Compiled loops by planes compute maxima, and averages over windows of few taps. The windows of averages must be one
// element apart, or at most two for floats. taps is the typical number of taps.
func (p *pooling) usesCompiledLoops(c *graph.Call, order visitOrder, walk graph.Walk, taps float64) bool {
	isCompiledPlane := p.kind == reduceMax || taps <= maxCompiledTaps && !windowsAreFarApart(c)
	if order == byPlanes && (len(c.Out) > 1 || !isCompiledPlane) {
		return false
	}
	return loops.CodeAvailable() && p.kind != reduceNorm && (len(c.Out) == 1 || taps <= maxLoopTaps) &&
		walk.LoopOrder.Rank() == c.Out[0].Rank() && walk.LoopOrder.Matches(walk.ResultLayout(0, c.Out[0]))
}

// windowsAreFarApart estimates whether windows are too far apart for the compiled loops by planes: 3 or more elements,
// or 2 or more for integers.
func windowsAreFarApart(c *graph.Call) bool {
	operand, out := c.Meta(0), c.Out[0]
	if out.Numel() == 0 {
		return false
	}
	width, results := operand.Shape[operand.Rank()-1], out.Shape[out.Rank()-1]
	return width > 3*results || !operand.DType.IsFloat() && 2*width > 3*results
}
