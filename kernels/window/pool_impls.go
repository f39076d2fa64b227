package window

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// poolWalk is one of the two walks of a pooling; both are made for any strides.
type poolWalk uint8

const (
	poolAsLies poolWalk = iota // whichever the operand's strides suit
	poolPlanes
	poolPixels
)

// poolImpls lists the walks of a pooling over images. compile makes the kernel of one.
func poolImpls(compile func(c *graph.Call, by poolWalk) (*graph.Kernel, error)) []graph.Impl {
	lower := func(by poolWalk) func(*graph.Call) (*graph.Kernel, error) {
		return func(c *graph.Call) (*graph.Kernel, error) { return compile(c, by) }
	}
	return []graph.Impl{
		{Name: "pixels", Doc: "Folds the pixels of a window, all channels at once; channels last.", Lower: lower(poolPixels),
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
				switch m := c.Meta(0); {
				case m.Rank() == 4 && m.Shape[1] > 1:
					return []graph.Walk{c.InOrder(channelsLast)}
				case m.Rank() == 3 && m.Shape[0] > 1 && m.Shape[1] == 1 && m.Shape[2] == 1:
					return []graph.Walk{c.InOrder(tensor.RowMajorOrder(3))}
				}
				return nil
			}, Read: readsOrder},
		{Name: "planes", Doc: "Slides the windows over planes, row by row.", Lower: lower(poolPlanes),
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
				return []graph.Walk{c.InOrder(tensor.RowMajorOrder(c.Out[0].Rank()))}
			}, Read: readsOrder},
	}
}

// channelsLast is the order of images with their channels last.
var channelsLast = func() tensor.Order {
	o, err := tensor.ChannelsLast.Order(4)
	if err != nil {
		panic("kernels: images have four dimensions: " + err.Error())
	}
	return o
}()

// readsOrder is Read of an implementation that wants its operand in the order of the walk.
func readsOrder(c *graph.Call, w graph.Walk, _ int, m tensor.Meta) (graph.Work, bool) {
	return graph.ReadWork(m, w.Lay(0, c.Out[0])), w.Order.Rank() != m.Rank() || w.Order.Holds(m)
}
