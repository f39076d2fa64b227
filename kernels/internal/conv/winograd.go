package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// winogradConv computes a 3x3 window with stride 1 by Winograd's F(m x m, 3 x 3), in three steps:
//
//  1. Each tile of (m+2)x(m+2) pixels is transformed. The result has (m+2)^2 indices, the points.
//  2. At each point, two matrices are multiplied: tiles by channels times channels by output channels.
//  3. An inverse transform turns the products of a tile into m x m results.
//
// A result takes 4 (m = 2) or 2.25 (m = 4) multiplications per channel instead of 9. Images are channels-last.
// Transformed tiles are stored as [point][tile][channel], so that products read rows of channels. In comments on
// memory, "the points of some tiles" means their transformed elements, of all channels. Transformed weights are stored
// as [block of output channels][point][channel][lane]. For example, F(4x4, 3x3) divides 56x56 results into 14x14 tiles
// of 36 points. With 64 channels and 128 output channels, a point is the product of a 196x64 and a 64x128 matrix.
//
// The weight is usually transformed when it is packed. The transformed weights of F(4x4, 3x3) have four times the bytes
// of the weight. With up to four tiles, loading them takes longer than transforming the weight. With AVX-512, the
// weight is then packed in panels, and each run transforms it (transformsInRun). The bits of the results do not depend
// on this choice. The tiles of the batch are divided into sections. Sections are computed one after another, or in
// parallel, each by one worker. A section is divided into parts, which workers multiply independently by a block of
// weights. A part is divided into strips. The products of a strip's tiles fit in one register tile.
type winogradConv struct {
	conv *convShape
	form winograd.Form    // transforms: M is m, the size of a tile's results, and N() is m+2
	cpu  machine.Features // instruction set of the code

	tilesDown, tilesAcross int // rows and columns of tiles in an image
	blockChannels          int // output channels of a block: one or two vectors
	blockCount             int // number of blocks of output channels
	tileStride             int // elements between two tiles of a point: the channels, padded to whole vectors
	stripTiles             int // maximum number of tiles of a strip

	// transformsInRun is true if runs transform the weight, which is packed in panels. All tiles are then one strip.
	transformsInRun bool

	schedule winogradSchedule
	sections spans // division of the tiles of the batch
}

const (
	floatBytes = 4 // all elements are float32
	// maxWinogradChannels bounds the input channels, because product code addresses rows by 32-bit displacements.
	maxWinogradChannels = 1 << 20
	// pointPad is the number of unused bytes after the tiles of each point. It puts the points of one tile into
	// different sets of the L1 cache.
	pointPad = machine.LineBytes
)

// newWinograd describes a call as F(m x m, 3 x 3). It returns nil if the call is not supported. The weight must be
// constant, because its transform takes as long as the convolution of about ten pixels.
func (op convolution) newWinograd(call *graph.Call, m int) *winogradConv {
	cpu := machine.HostFeatures()
	hasCode := tile.Supports(cpu) && jit.Available() == nil // Available returns nil if code can be generated
	isEmpty := call.Out[0].Numel() == 0 || call.Meta(0).Numel() == 0
	if call.Meta(0).Rank() != 4 || !call.IsConstant(1) || isEmpty || !hasCode {
		return nil
	}
	for i := range call.In {
		if call.HasOperand(i) && call.Meta(i).DType != tensor.Float32 {
			return nil
		}
	}
	conv := op.shape(call)
	hasThreeTaps := func(a *geometry.Axis) bool { return a.Taps == 3 && a.Stride == 1 && a.Dilation == 1 }
	if !hasThreeTaps(&conv.h) || !hasThreeTaps(&conv.w) || conv.groups != 1 || conv.inChannels > maxWinogradChannels {
		return nil
	}
	lanes := winograd.Lanes(cpu)
	registers, _ := tile.VectorRegisters(cpu)
	// The products use the code of direct convolution's register tiles. maxRows(v, registers) is the greatest number of
	// rows, here tiles, of a register tile with v vectors of output channels.
	maxRows := directShape{elemsPerLoad: tile.ElementsPerLoad(cpu, floatBytes)}.maxRows
	w := &winogradConv{conv: conv, form: winograd.Form{M: m}, cpu: cpu, tilesDown: kit.DivUp(conv.h.Results, m),
		tilesAcross: kit.DivUp(conv.w.Results, m), blockChannels: 2 * lanes,
		tileStride: kit.DivUp(conv.inChannels, lanes) * lanes, stripTiles: maxRows(2, registers)}
	// If all tiles fit in one strip, loading weights takes most of the time. One strip reads the weights once and
	// sequentially.
	if oneStrip := maxRows(1, registers); w.tileCount() <= oneStrip {
		w.blockChannels, w.stripTiles = lanes, oneStrip
	}
	w.blockCount = kit.DivUp(conv.outChannels, w.blockChannels)
	w.transformsInRun = m == 4 && w.tileCount() <= winograd.ProductTiles &&
		floatBytes*w.transformedWeights() > cachedWeightBytes && winograd.SupportsProducts(cpu)
	// Addresses at a distance of setPeriod bytes are in the same set of the L1 cache. The tiles of a point would then
	// compete for one set.
	const setPeriod = 4096
	if w.tileStride*floatBytes%setPeriod == 0 {
		w.tileStride += lanes
	}
	w.schedule = w.chooseSchedule()
	w.sections = tileSpan{first: 0, count: w.tileCount()}.divide(w.sectionCount(w.schedule))
	return w
}

// tileCount returns the number of tiles of the batch.
func (w *winogradConv) tileCount() int { return w.conv.batch * w.tilesDown * w.tilesAcross }

// winogradImpls returns the implementations F(2x2,3x3) and F(4x4,3x3), which read and write channels-last images.
func (op convolution) winogradImpls() []graph.Impl {
	var out []graph.Impl
	for _, m := range []int{2, 4} {
		impl := graph.Impl{
			Name: map[int]string{2: "winograd2", 4: "winograd4"}[m],
			Doc: map[int]string{
				2: "Transforms tiles of 4x4 pixels to 16 points, multiplies there, and transforms back to 2x2 pixels; " +
					"a 3x3 window, channels last.",
				4: "Transforms tiles of 6x6 pixels to 36 points, multiplies there, and transforms back to 4x4 pixels; " +
					"a 3x3 window, channels last."}[m],
			Inexact: true, Epilogues: true,
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
				order, err := tensor.ChannelsLast.Order(c.Meta(0).Rank())
				if err != nil || op.newWinograd(c, m) == nil {
					return nil
				}
				return []graph.Walk{c.WalkInOrder(order)}
			},
			Read: func(c *graph.Call, _ graph.Walk, i int, operand tensor.Meta) (work pricing.Work, ok bool) {
				switch i { // input and bias must have contiguous channels
				case 0:
					_, stride := sizesAndStrides(operand, op.dims)
					return work, stride.c == 1 || operand.Shape[1] == 1
				case 2:
					return work, operand.Strides[0] == 1 || operand.Shape[0] == 1
				}
				return work, true // the weight is packed
			},
			Writes: func(_ *graph.Call, _ graph.Walk, _ int, meta tensor.Meta) bool { return meta.Strides[1] == 1 },
			Work:   func(c *graph.Call, _ graph.Walk) pricing.Work { return op.newWinograd(c, m).work(c) },
			Pack: func(c *graph.Call, i int) (graph.Packing, bool) {
				if w := op.newWinograd(c, m); w != nil && i == 1 {
					return w.packing(), true
				}
				return graph.Packing{}, false
			},
			Lower: func(c *graph.Call) (*graph.Kernel, error) { return op.newWinograd(c, m).kernel() },
		}
		out = append(out, impl)
	}
	return out
}

// pointWeights returns the number of transformed weights for one point and one block of output channels.
func (w *winogradConv) pointWeights() int { return w.conv.inChannels * w.blockChannels }

// transformedWeights returns the number of transformed weights of all blocks and points.
func (w *winogradConv) transformedWeights() int {
	return w.blockCount * w.form.Points() * w.pointWeights()
}
