package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of convolutions beside those of products, as profiles name them.
const (
	tapsPlanes = "depthwise.planes" // a multiplication and an addition, by planes
	tapsTile   = "depthwise.tile"   // an element of a plane that is brought into a tile
	tapsRow    = "depthwise.row"    // a row of a plane that is
	tapsPlane  = "depthwise.plane"  // a plane
	tapsPixels = "depthwise.pixels" // a multiplication and an addition, by pixels
	tapsRagged = "depthwise.ragged" // one where pixels do not begin with lines of the cache
	tapsFar    = "depthwise.far"    // a byte beside those of pixels that the second cache holds
	tapsGo     = "depthwise.go"     // a multiplication and an addition in Go, by planes or of several results a channel
	tapsLanes  = "depthwise.lanes"  // one in Go that goes along channels
	tapsBytes  = "depthwise.bytes"  // an instruction of a tile of bytes
	spreadAdd  = "spread.add"       // a product of a transposed convolution that is added up at its place
)

// severalTaps is how much longer one takes, pixel by pixel, where a channel has several results.
const severalTaps = 3

// rowPixels are the pixels of a row that are copied at once, where rows are long.
const rowPixels = 28

// nearPixels is about how many bytes of pixels the second cache holds.
const nearPixels = 2 * machine.L2Bytes

// work is that of an algorithm: products, and the packing of windows.
func (v convolution) work(c *graph.Call, a convAlgorithm, walk graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.Streamed(&w)
	if c.Out[0].Numel() == 0 {
		return w
	}
	laid := *c
	laid.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	s, d := v.shape(&laid), c.Out[0].DType
	pixels, taps := s.n*s.oh*s.ow, s.kh*s.kw
	all := float64(pixels) * float64(taps) * float64(s.c) // elements of windows, of all groups
	if a == depthwiseByPixels || a == depthwiseByPlanes {
		s.tapWork(&w, a, c.Out[0].Numel(), multiply.ComputesIn(c))
		return w
	}
	if a.direct() {
		s.directWork(&w, directTaps, multiply.ComputesIn(c), a == directFromPlanes)
		return w
	}
	multiply.Stored(&w, c)
	w.Do(multiply.Start, 1)
	multiply.Paneled(&w, c, 1, pixels)
	if !c.Constant(1) {
		w.Do(multiply.PackRow, float64(c.Meta(1).Numel()))
	}
	if a == convByPixels {
		multiply.Product(&w, d, float64(s.groups), pixels, s.og(), s.depth())
		w.Do(multiply.Begin, float64(s.groups))
		if s.os[1] != 1 {
			multiply.Scatter(&w, c.Out[0].Numel(), s.depth())
		}
		if s.pointwise() {
			w.Do(multiply.PackRow, all)
			return w
		}
		run, _ := pixelRun(s)
		w.Do(multiply.PackWin, all)
		w.Do(multiply.PackRun, all/float64(run))
		return w
	}
	multiply.Product(&w, d, float64(s.n*s.groups), s.og(), s.oh*s.ow, s.depth())
	w.Do(multiply.Begin, float64(s.n*s.groups))
	if pixel, _ := s.pixelStride(); pixel != 1 {
		multiply.Scatter(&w, c.Out[0].Numel(), s.depth())
	}
	switch {
	case s.pointwise():
		w.Do(multiply.PackCol, all)
		return w
	case s.sw != 1:
		w.Do(multiply.PackStep, all)
	default:
		w.Do(multiply.PackTap, all)
	}
	w.Do(multiply.PackMove, all/float64(min(s.ow, rowPixels)))
	return w
}

// tapWork adds what a depthwise convolution takes.
func (s *convShape) tapWork(w *graph.Work, a convAlgorithm, outputs int, d tensor.DType) {
	taps := float64(s.kh * s.kw)
	single := float64(d.Size()) / 4 // as against float32
	w.Flops = 2 * taps * float64(outputs)
	switch {
	case a == depthwiseByPlanes && s.tilesPlanes(d):
		w.Do(tapsPlanes, single*taps*float64(outputs))
		w.Do(tapsTile, single*float64(s.n*s.c*s.h*s.w))
		w.Do(tapsRow, float64(s.n*s.c*s.h))
		w.Do(tapsPlane, float64(s.n*s.c))
	case a == depthwiseByPixels && slides(s, d):
		s.slideWork(w, d.Size())
	case a == depthwiseByPixels && s.o == s.c:
		w.Do(tapsLanes, taps*float64(outputs))
	case a == depthwiseByPixels:
		w.Do(tapsGo, severalTaps*taps*float64(outputs))
	default:
		w.Do(tapsGo, taps*float64(outputs))
	}
}

// slideWork adds what machine code by pixels takes: vectors of channels by what there is of the windows. Its tiles go
// over memory in pieces, so that it is waited for.
func (s *convShape) slideWork(w *graph.Work, size int) {
	f, _ := newSlideShape(s, size)
	macs := float64(seen(s.sh, s.ph, s.dh, s.h, s.kh, s.oh)) * float64(seen(s.sw, s.pw, s.dw, s.w, s.kw, s.ow)) *
		float64(s.n*f.vectors*f.lanes) * float64(size) / 4
	w.Wait(tapsPixels, macs)
	if s.c*size%machine.LineBytes != 0 {
		w.Wait(tapsRagged, macs)
	}
	if bytes := s.c * size * (s.h*s.w + s.oh*s.ow) * s.n; bytes > nearPixels {
		w.Wait(tapsFar, float64(bytes-nearPixels))
	}
}

// pixelRun is the number of elements that follow one another in an image with its channels last and in a
// window: the channels of a pixel, or, where they are few, those of a row of the window.
func pixelRun(s *convShape) (run int, rows bool) {
	if s.groups == 1 && s.dw == 1 && s.c < rowChannels {
		return s.kw * s.c, true
	}
	return s.cg, false
}
