package window

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// poolWalk selects one of the two walks of a pooling; both support any strides.
type poolWalk uint8

const (
	poolPlanes poolWalk = iota
	poolPixels
)

// poolCompile makes the kernel of a pooling with a walk.
type poolCompile func(c *graph.Call, by poolWalk) (*graph.Kernel, error)

// poolWork prices a pooling: its kind and the elements of a window.
type poolWork struct {
	kind poolKind
	area func(c *graph.Call) float64
}

// The rates of poolings, by their names in machine profiles: for an element of a window, and for a result.
var (
	poolElement = map[poolKind][2]string{
		poolMax:  {poolPlanes: "pool.max.planes", poolPixels: "pool.max.pixels"},
		poolAvg:  {poolPlanes: "pool.avg.planes", poolPixels: "pool.avg.pixels"},
		poolNorm: {poolPlanes: "pool.norm.planes", poolPixels: "pool.norm.pixels"},
	}
	poolLoops = [2]map[poolKind]string{
		poolPlanes: {poolMax: "pool.max.rows", poolAvg: "pool.avg.rows"},
		poolPixels: {poolMax: "pool.max.loops", poolAvg: "pool.avg.loops"},
	}
	// poolStep is a result whose window does not start next to the window before, in a row of a plane.
	poolStep   = map[poolKind]string{poolMax: "pool.max.step", poolAvg: "pool.avg.step"}
	poolResult = [2]string{poolPlanes: "pool.result.planes", poolPixels: "pool.result.pixels"}
)

// wideArea is the minimum number of elements of a window in a row for which they are summed as one run.
const wideArea = 16

// by returns the price of a pooling with a walk.
func (p poolWork) by(by poolWalk) func(c *graph.Call, w graph.Walk) graph.Work {
	return func(c *graph.Call, w graph.Walk) graph.Work {
		area, each := p.area(c), poolElement[p.kind][by]
		if by == poolPlanes && area > wideArea*wideArea {
			each = poolElement[p.kind][poolPixels]
		}
		work := graph.Work{Steps: 1}
		c.Streamed(&work)
		n := float64(c.Out[0].Numel())
		if p.folds(c, by, w, area) {
			// Loops read separate rows of an image, and wait for each.
			single := float64(max(4, c.Out[0].DType.Size())) / 4
			work.Wait(poolLoops[by][p.kind], n*area*single)
			if by == poolPlanes && strided(c) {
				work.Wait(poolStep[p.kind], n*single)
			}
		} else {
			work.Do(each, n*area)
			work.Do(poolResult[by], n)
		}
		work.Flops = n * area
		kit.Scattered(&work, c, w, w.Order)
		return work
	}
}

// strided reports whether neighbouring windows are more than one element apart, judging by the sizes of rows.
func strided(c *graph.Call) bool {
	last := c.Out[0].Rank() - 1
	return last >= 0 && 2*c.Meta(0).Shape[c.Meta(0).Rank()-1] >= 3*c.Out[0].Shape[last]
}

// folds reports whether a walk uses compiled loops. They write results in the walk's order; by planes, windows have few
// elements and steps of 1 or, for floats, 2.
func (p poolWork) folds(c *graph.Call, by poolWalk, w graph.Walk, area float64) bool {
	if by == poolPlanes && (len(c.Out) > 1 || area > wideArea*wideArea || farApart(c)) {
		return false
	}
	return loops.Compiles() && p.kind != poolNorm && (len(c.Out) == 1 || area <= maxLoopTaps) &&
		w.Order.Rank() == c.Out[0].Rank() && w.Order.Holds(w.Lay(0, c.Out[0]))
}

// farApart reports whether windows are too far apart for the compiled loops by planes, approximately.
func farApart(c *graph.Call) bool {
	m, out := c.Meta(0), c.Out[0]
	if out.Numel() == 0 {
		return false
	}
	width, results := m.Shape[m.Rank()-1], out.Shape[out.Rank()-1]
	return width > 3*results || !m.DType.IsFloat() && 2*width > 3*results
}

// adaptiveArea returns the number of elements of windows that divide an operand of dims dimensions.
func adaptiveArea(dims func(c *graph.Call) int) func(c *graph.Call) float64 {
	return func(c *graph.Call) float64 {
		area, m, out := 1.0, c.Meta(0), c.Out[0]
		for d := m.Rank() - dims(c); d < m.Rank() && d >= 0; d++ {
			if out.Shape[d] > 0 {
				area *= float64(kit.DivUp(m.Shape[d], out.Shape[d]))
			}
		}
		return area
	}
}

// windowArea returns the number of elements of the windows by the attributes of a pooling, in each dimension at most
// the operand's size.
func (p *volumePool) windowArea(c *graph.Call) float64 {
	area, k, m := 1.0, p.args(c).kernel, c.Meta(0)
	for d := range p.dims {
		if len(k) > 0 {
			area *= float64(max(1, min(k[min(d, len(k)-1)], m.Shape[m.Rank()-p.dims+d])))
		}
	}
	return area
}

// constDims returns a function that returns n spatial dimensions.
func constDims(n int) func(*graph.Call) int { return func(*graph.Call) int { return n } }

// poolImpls returns the implementations of a pooling over images, whose result has the operand's layout.
func poolImpls(p poolWork, compile poolCompile) []graph.Impl {
	lower := func(by poolWalk) func(*graph.Call) (*graph.Kernel, error) {
		return func(c *graph.Call) (*graph.Kernel, error) { return compile(c, by) }
	}
	return []graph.Impl{
		{Name: "pixels", Doc: "Folds the pixels of a window, all channels at once; channels last.",
			Lower: lower(poolPixels), Work: p.by(poolPixels),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				switch m := c.Meta(0); {
				case m.Rank() == 4 && m.Shape[1] > 1:
					return walksFrom(c, channelsLastOrder(4), candidates)
				case m.Rank() == 3 && m.Shape[0] > 1 && m.Shape[1] == 1 && m.Shape[2] == 1:
					return walksFrom(c, tensor.RowMajorOrder(3), candidates)
				}
				return nil
			}, Read: readsPixels, Writes: writesPixels},
		{Name: "planes", Doc: "Folds the windows of planes, row by row.",
			Lower: lower(poolPlanes), Work: p.by(poolPlanes),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				return walksFrom(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
			}, Read: readsOrder},
	}
}

// anyLayoutImpls returns the implementations of a pooling over dims dimensions whose result layout is independent of
// the operand's. They write any layout; by planes they also read any.
func anyLayoutImpls(dims func(c *graph.Call) int, p poolWork, compile poolCompile) []graph.Impl {
	lower := func(by poolWalk) func(*graph.Call) (*graph.Kernel, error) {
		return func(c *graph.Call) (*graph.Kernel, error) { return compile(c, by) }
	}
	return []graph.Impl{
		{Name: "pixels", Doc: "Folds the elements of a window, all channels at once; channels last.",
			Lower: lower(poolPixels), Work: p.by(poolPixels), Writes: writesPixels,
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				m := c.Meta(0)
				if m.Rank() != dims(c)+2 || m.Shape[1] < 2 {
					return nil
				}
				return anyLayoutWalks(c, channelsLastOrder(m.Rank()), candidates)
			},
			Read: func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
				return graph.Work{}, m.Strides[1] == 1
			}},
		{Name: "planes", Doc: "Folds the windows of planes, row by row.",
			Lower: lower(poolPlanes), Work: p.by(poolPlanes),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				return anyLayoutWalks(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
			}},
	}
}

// anyLayoutWalks returns the walks in order o that write the inferred layout or a candidate.
func anyLayoutWalks(c *graph.Call, o tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := walksFrom(c, o, candidates)
	list[0].Out = nil
	if slices.Contains(candidates, o) {
		list = append(list, c.InOrder(o))
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
		panic("window: invalid channels-last order: " + err.Error())
	}
	return o
}

// walksFrom returns the walks in order o that write results in it, or in a candidate.
func walksFrom(c *graph.Call, o tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := []graph.Walk{c.InOrder(o)}
	for _, to := range candidates {
		if to != "" && to != o && to.Rank() == c.Out[0].Rank() {
			w := c.InOrder(to)
			w.Order = o
			list = append(list, w)
		}
	}
	return list
}

// readsOrder is the Read function of an implementation that requires operands in the order of the walk.
func readsOrder(_ *graph.Call, w graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
	return graph.Work{}, w.Order.Rank() != m.Rank() || w.Order.Holds(m)
}

// readsPixels is the Read function of an implementation that requires operands in the order of the walk, or slices of
// such.
func readsPixels(c *graph.Call, w graph.Walk, i int, m tensor.Meta) (graph.Work, bool) {
	if work, ok := readsOrder(c, w, i, m); ok {
		return work, true
	}
	o, _ := tensor.OrderOf(m)
	return graph.Work{}, m.Rank() == 4 && m.Strides[1] == 1 && w.Order.Holds(m.WithStrides(o.Strides(m.Shape)))
}

// writesPixels is the Writes function of an implementation that iterates over contiguous channels and supports any
// other strides.
func writesPixels(_ *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool {
	return m.Rank() > 2 && m.Strides[1] == 1
}
