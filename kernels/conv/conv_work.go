package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// What there is to do besides the products, in simple operations (measured).
const (
	runOps     = 8   // to place a run of elements under one element of the window
	elementOps = 0.3 // to copy an element of a run
	stridedOps = 1.6 // the same from pixels that do not follow one another
	tapOps     = 0.8 // a multiplication and an addition of a depthwise convolution, three at a time
	lonelyOps  = 1.6 // the same one at a time

	plainTapOps = 0.055 // the same by compiled loops, with a weight for a row
	pixelTapOps = 0.08  // and with one for each channel
	tileOps     = 0.2   // to bring an element of a plane into a tile, or of the result out of it

	rowPixels = 28 // pixels of a row that are copied at once, where rows are long
)

// work is that of an algorithm: products, and the packing of windows.
func (v convolution) work(c *graph.Call, a convAlgorithm, walk graph.Walk) graph.Work {
	w := kit.Stored(c, walk, "")
	if c.Out[0].Numel() == 0 {
		return w
	}
	laid := *c
	laid.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	s, d := v.shape(&laid), c.Out[0].DType
	pixels, taps := s.n*s.oh*s.ow, s.kh*s.kw
	all := float64(pixels) * float64(taps) * float64(s.c) // elements of windows, of all groups
	switch a {
	case depthwiseByPixels, depthwiseByPlanes:
		w.Ops[graph.Simple] = s.tapWork(a, c.Out[0].Numel(), multiply.ComputesIn(c))
	case convByPixels:
		w.Ops[graph.Product] = float64(s.groups) * multiply.Ops(d, pixels, s.og(), s.depth())
		if s.os[1] != 1 {
			w.Ops[graph.Simple] += multiply.TurnOps(c.Out[0].Numel(), s.depth())
		}
		if run, _ := pixelRun(s); !s.pointwise() {
			w.Ops[graph.Simple] += all / float64(run) * runOps
		}
	default:
		w.Ops[graph.Product] = float64(s.n*s.groups) * multiply.Ops(d, s.og(), s.oh*s.ow, s.depth())
		if pixel, _ := s.pixelStride(); pixel != 1 {
			w.Ops[graph.Simple] += multiply.TurnOps(c.Out[0].Numel(), s.depth())
		}
		if !s.pointwise() {
			each := elementOps
			if s.sw != 1 {
				each = stridedOps
			}
			w.Ops[graph.Simple] += all * (each + runOps/float64(min(s.ow, rowPixels)))
		}
	}
	return w
}

// tapWork is what a depthwise convolution takes besides its operands.
func (s *convShape) tapWork(a convAlgorithm, outputs int, d tensor.DType) float64 {
	taps := float64(outputs) * float64(s.kh*s.kw)
	single := float64(d.Size()) / 4 // as against float32
	switch {
	case compilesTaps(d) && a == depthwiseByPlanes:
		return single * (taps*plainTapOps + float64(s.n*s.c*s.h*s.w+outputs)*tileOps)
	case compilesTaps(d) && s.o == s.c:
		return single * taps * pixelTapOps
	case a == depthwiseByPlanes && (s.kw != 3 || s.dw != 1 || s.os[3] != 1) || a == depthwiseByPixels && s.og() > 1:
		return taps * lonelyOps
	}
	return taps * tapOps
}

// pixelRun is the number of elements that follow one another in an image with its channels last and in a
// window: the channels of a pixel, or, where they are few, those of a row of the window.
func pixelRun(s *convShape) (run int, rows bool) {
	if s.groups == 1 && s.dw == 1 && s.c < rowChannels {
		return s.kw * s.c, true
	}
	return s.cg, false
}
