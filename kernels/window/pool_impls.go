package window

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// poolWalk is one of the two walks of a pooling; both are made for any strides.
type poolWalk uint8

const (
	poolPlanes poolWalk = iota
	poolPixels
)

// poolCompile makes the kernel of a pooling by one of the walks.
type poolCompile func(c *graph.Call, by poolWalk) (*graph.Kernel, error)

// poolImpls lists the walks of a pooling over images. compile makes the kernel of one.
func poolImpls(compile poolCompile) []graph.Impl {
	lower := func(by poolWalk) func(*graph.Call) (*graph.Kernel, error) {
		return func(c *graph.Call) (*graph.Kernel, error) { return compile(c, by) }
	}
	return []graph.Impl{
		{Name: "pixels", Doc: "Folds the pixels of a window, all channels at once; channels last.", Lower: lower(poolPixels),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				switch m := c.Meta(0); {
				case m.Rank() == 4 && m.Shape[1] > 1:
					return walksFrom(c, pixelsLast(4), candidates)
				case m.Rank() == 3 && m.Shape[0] > 1 && m.Shape[1] == 1 && m.Shape[2] == 1:
					return walksFrom(c, tensor.RowMajorOrder(3), candidates)
				}
				return nil
			}, Read: readsOrder},
		{Name: "planes", Doc: "Slides the windows over planes, row by row.", Lower: lower(poolPlanes),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				return walksFrom(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
			}, Read: readsOrder},
	}
}

// looseImpls lists the walks of a pooling over dims dimensions whose result has a layout of its own: any
// of them can be written, and any operand read by planes.
func looseImpls(dims func(c *graph.Call) int, compile poolCompile) []graph.Impl {
	lower := func(by poolWalk) func(*graph.Call) (*graph.Kernel, error) {
		return func(c *graph.Call) (*graph.Kernel, error) { return compile(c, by) }
	}
	return []graph.Impl{
		{Name: "pixels", Doc: "Folds the elements of a window, all channels at once; channels last.", Lower: lower(poolPixels),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				m := c.Meta(0)
				if m.Rank() != dims(c)+2 || m.Shape[1] < 2 {
					return nil
				}
				return looseWalks(c, pixelsLast(m.Rank()), candidates)
			},
			Read: func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
				return graph.ReadWork(m, m), m.Strides[1] == 1
			}},
		{Name: "planes", Doc: "Slides the windows over planes, row by row.", Lower: lower(poolPlanes),
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				return looseWalks(c, tensor.RowMajorOrder(c.Out[0].Rank()), candidates)
			}},
	}
}

// looseWalks returns the walks in an order that give results as inferred, or in a candidate.
func looseWalks(c *graph.Call, o tensor.Order, candidates []tensor.Order) []graph.Walk {
	list := walksFrom(c, o, candidates)
	list[0].Out = nil
	if slices.Contains(candidates, o) {
		list = append(list, c.InOrder(o))
	}
	return list
}

// pixelsLast is the order with dimension 1, that of channels, last.
func pixelsLast(rank int) tensor.Order {
	dims := []int{0}
	for d := 2; d < rank; d++ {
		dims = append(dims, d)
	}
	o, err := tensor.NewOrder(append(dims, 1)...)
	if err != nil {
		panic("kernels: dimensions are numbered once: " + err.Error())
	}
	return o
}

// walksFrom returns the walks in an order that give results in it, or in a candidate.
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

// readsOrder is Read of an implementation that wants its operand in the order of the walk.
func readsOrder(c *graph.Call, w graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
	return graph.ReadWork(m, m.WithStrides(w.Order.Strides(m.Shape))), w.Order.Rank() != m.Rank() || w.Order.Holds(m)
}
