package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// A winogradConv computes a 3x3 window at step 1 by Winograd's F(m x m, 3 x 3): tiles of m+2 by m+2 pixels are brought
// to (m+2)^2 points, where a convolution is a product of matrices for each point, pixels by weights, and the products
// are brought back. A result takes 4 (m is 2) or 2.25 (m is 4) multiplications for a channel and not 9. Images have
// their channels last. Points lie as [point][tile][channel], so that their products read rows of channels, and weights
// as [block of output channels][point][channel][width].
type winogradConv struct {
	s    *convShape
	form winograd.Form
	isa  machine.ISA

	down, across int // tiles of an image
	width        int // output channels of a block: one vector or two
	blocks       int
	room         int // elements from a tile to the next within a point: its channels in whole vectors
	rows         int // tiles that are multiplied at once, at most: as many as registers hold
}

// tileSpan is some of the tiles of a batch, in the order of images, rows and columns.
type tileSpan struct{ first, n int }

const (
	// winogradNear are the bytes of weights up to which they stay in the second cache, beside winogradPoints of points.
	winogradNear   = 1 << 20
	winogradPoints = 256 << 10
	// winogradPassing are those of weights that come from the third cache as fast as they are multiplied with, though not
	// all of them stay in the second: there a section's points and products do, which else would go to the third and back.
	winogradPassing = 5 << 20
	// winogradFarPoints are those of the points of a section that stay in the second cache while weights go by, and
	// winogradAllPoints of one that does not, all of which goes to memory and back.
	winogradFarPoints = 5 << 18
	winogradAllPoints = 16 << 20
	// winogradChannels bounds the input channels, so that the products' code addresses its rows by 32-bit displacements.
	winogradChannels = 1 << 20
	// sectionsAtLeast is how many sections there are, if tiles suffice, where each is a chunk.
	sectionsAtLeast = 16
	// pointPad is between points, so that those of one tile are not in the same set of the nearest cache.
	pointPad = machine.LineBytes
)

// winogradOf tells how a call is computed by F(m x m, 3 x 3); nil where it is not. The weight must be known before the
// run: to bring it to the points takes as long as a convolution of some ten pixels.
func (v convolution) winogradOf(c *graph.Call, m int) *winogradConv {
	isa := machine.Instructions()
	if v.dims != 2 || c.Meta(0).Rank() != 4 || !c.Constant(1) || c.Out[0].Numel() == 0 || c.Meta(0).Numel() == 0 ||
		isa < machine.AVX2 || jit.Available() != nil {
		return nil
	}
	for i := range c.In {
		if c.Has(i) && c.Meta(i).DType != tensor.Float32 {
			return nil
		}
	}
	s := v.shape(c)
	if s.kh != 3 || s.kw != 3 || s.sh != 1 || s.sw != 1 || s.dh != 1 || s.dw != 1 || s.groups != 1 ||
		s.c > winogradChannels {
		return nil
	}
	lanes := winograd.Lanes(isa)
	w := &winogradConv{s: s, form: winograd.Form{M: m}, isa: isa, down: kit.DivUp(s.oh, m), across: kit.DivUp(s.ow, m),
		width: 2 * lanes, room: kit.DivUp(s.c, lanes) * lanes, rows: 14}
	once := 28
	if isa == machine.AVX2 {
		w.rows, once = 6, 13
	}
	if w.tiles() <= once { // weights, which are more than all else, come evenly and once
		w.width, w.rows = lanes, once
	}
	w.blocks = kit.DivUp(s.o, w.width)
	if w.room*4%4096 == 0 { // rows would be in the same set of the nearest cache
		w.room += lanes
	}
	return w
}

// tiles is the number of tiles of the batch.
func (w *winogradConv) tiles() int { return w.s.n * w.down * w.across }

// winogradWay is how the products of a section are gone through.
type winogradWay uint8

const (
	// allNear: weights stay near, or come in time, and a chunk does all that there is to do for a section, in memory of
	// its own.
	allNear winogradWay = iota
	// byBlocks: points of a section stay near, and all workers share them while the weights go by, block by block of
	// output channels, once for each section.
	byBlocks
	// byPoints: neither does. Weights, points and products go by once, point by point. So it is, too, where all stays
	// near and is one section, of which one worker would do all: of several each multiplies some of the points.
	byPoints
)

// way chooses by the bytes that come from afar.
func (w *winogradConv) way() winogradWay {
	weights := 4 * w.transformed()
	switch several := w.nearSections() > 1; {
	case several && weights <= winogradPassing:
		return allNear
	case weights <= winogradNear:
		return byPoints
	}
	points, products := w.farTraffic()
	if k := w.into(byBlocks); weights*k <= weights*w.into(byPoints)+points+products {
		return byBlocks
	}
	return byPoints
}

// farTraffic is what points and products take on their way to memory and back, in bytes.
func (w *winogradConv) farTraffic() (points, products int) {
	each := 2 * 4 * w.form.Points() * w.tiles()
	return each * w.room, each * w.blocks * w.width
}

// into is the number of sections where weights come from afar.
func (w *winogradConv) into(way winogradWay) int {
	tile, most := 4*w.form.Points()*w.room, winogradFarPoints
	if way == byPoints {
		tile, most = tile+4*w.form.Points()*w.blocks*w.width, winogradAllPoints
	}
	return kit.DivUp(w.tiles(), max(w.rows, most/tile))
}

// sections parts the tiles, evenly.
func (w *winogradConv) sections() spans {
	all := tileSpan{0, w.tiles()}
	if way := w.way(); way != allNear {
		return all.into(w.into(way))
	}
	return all.into(w.nearSections())
}

// nearSections is the number of sections where weights stay near.
func (w *winogradConv) nearSections() int {
	tiles := w.tiles()
	k := kit.DivUp(tiles, max(w.rows, winogradPoints/(4*w.form.Points()*w.room)))
	for k < sectionsAtLeast && tiles >= 2*k*w.rows {
		k *= 2
	}
	return k
}

// spans are so many parts of a span, as even as they can be.
type spans struct {
	of tileSpan
	n  int
}

// at is part i.
func (s spans) at(i int) tileSpan {
	first := i * s.of.n / s.n
	return tileSpan{s.of.first + first, (i+1)*s.of.n/s.n - first}
}

// most are the tiles of the largest part.
func (s spans) most() int {
	if s.n == 0 {
		return 0
	}
	return kit.DivUp(s.of.n, s.n)
}

// evenly parts tiles into spans of at most so many.
func (t tileSpan) evenly(most int) spans { return t.into(kit.DivUp(t.n, most)) }

// into parts tiles into k spans.
func (t tileSpan) into(k int) spans { return spans{t, k} }

// matrix is the weights of a point for a block of output channels, in elements.
func (w *winogradConv) matrix() int { return w.s.c * w.width }

// transformed is the number of elements of the weights at the points.
func (w *winogradConv) transformed() int { return w.blocks * w.form.Points() * w.matrix() }

// winogradImpls lists the forms, which are offered where images have their channels last.
func (v convolution) winogradImpls() []graph.Impl {
	var out []graph.Impl
	for _, m := range []int{2, 4} {
		impl := graph.Impl{
			Name: map[int]string{2: "winograd2", 4: "winograd4"}[m],
			Doc: map[int]string{
				2: "Brings tiles of 4x4 pixels to 16 points, multiplies there and brings 2x2 pixels back; a 3x3 window, " +
					"channels last.",
				4: "Brings tiles of 6x6 pixels to 36 points, multiplies there and brings 4x4 pixels back; a 3x3 window, " +
					"channels last."}[m],
			Inexact: true, Tails: true,
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
				o, err := tensor.ChannelsLast.Order(c.Meta(0).Rank())
				if err != nil || v.winogradOf(c, m) == nil {
					return nil
				}
				return []graph.Walk{c.InOrder(o)}
			},
			Read: func(c *graph.Call, _ graph.Walk, i int, t tensor.Meta) (w graph.Work, ok bool) {
				switch i {
				case 0:
					_, strides := spatial(t, v.dims)
					return w, strides[1] == 1 || t.Shape[1] == 1
				case 2:
					return w, t.Strides[0] == 1 || t.Shape[0] == 1
				}
				return w, true
			},
			Writes: func(_ *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool { return m.Strides[1] == 1 },
			Work:   func(c *graph.Call, _ graph.Walk) graph.Work { return v.winogradOf(c, m).work(c) },
			Pack: func(c *graph.Call, i int) (graph.Packing, bool) {
				if w := v.winogradOf(c, m); w != nil && i == 1 {
					return w.packing(), true
				}
				return graph.Packing{}, false
			},
			Lower: func(c *graph.Call) (*graph.Kernel, error) { return v.winogradOf(c, m).kernel() },
		}
		out = append(out, impl)
	}
	return out
}
