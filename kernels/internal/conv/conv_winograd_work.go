package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// The inner kernels of Winograd's convolutions, as profiles name them.
const (
	winogradOperand = "winograd.operand" // a channel of a tile that is brought to a point
	winogradResult  = "winograd.result"  // a channel of a tile that is brought back from one
	winogradProduct = "winograd.product" // a multiplication and an addition at a point
	winogradFar     = "winograd.far"     // a byte of weights, or of points for a block, that does not stay near
)

// winogradRates lists them with the calls by which a machine is measured.
func winogradRates() []graph.Rate {
	at := func(impl string, c, side, out int) graph.RateCall {
		return graph.RateCall{Op: "conv2d", Attrs: graph.Attrs{"padding": 1}, Constant: []int{1}, Impl: impl,
			In: []tensor.Meta{kit.NHWC(1, c, side, side), kit.F32(out, c, 3, 3)}}
	}
	return []graph.Rate{
		{Name: winogradOperand, Unit: "a channel of a tile that is brought to a point",
			Calls: []graph.RateCall{at("winograd4", 128, 28, 16),
				at("winograd2", 64, 28, 32)}},
		{Name: winogradResult, Unit: "a channel of a tile that is brought back from a point",
			Calls: []graph.RateCall{at("winograd4", 16, 28, 128),
				at("winograd2", 16, 28, 64)}},
		{Name: winogradProduct, Unit: "a multiplication and an addition at a point",
			Calls: []graph.RateCall{at("winograd4", 64, 56, 64),
				at("winograd4", 128, 28, 128),
				at("winograd2", 96, 28, 96)}},
		{Name: winogradFar, Unit: "a byte of weights, or of points for a block of channels, that does not stay near",
			Calls: []graph.RateCall{at("winograd2", 512, 7, 512),
				at("winograd4", 256, 14, 256)}},
	}
}

// Of products at points: the sums that arithmetic keeps busy, and to begin and to store them, in terms.
const (
	winogradSums  = 8
	winogradBegin = 4
)

// weightsFromAfar are the bytes of weights that are waited for. Strips of tiles of a section take turns with the
// weights of a point: the first asks for its lines as it goes, which is as slow as memory is; where others follow,
// they ask for what comes next while they multiply with what is near. Of weights that do not stay near half come in
// time, since each block asks for the next one. What a section that has all near reads, it finds where the one before
// read it.
func (w *winogradConv) weightsFromAfar() float64 {
	tiles := w.tiles()
	if w.way() != allNear {
		tiles = w.sections().at(0).n
	}
	strips := kit.DivUp(tiles, w.rows)
	bytes := 4 * float64(w.transformed()) * 2 / float64(1+strips)
	return (bytes + min(bytes, winogradNear)) / 2
}

// work is that of a convolution at points: to bring pixels there, products, and the way back.
func (w *winogradConv) work(c *graph.Call) graph.Work {
	k := graph.Work{Steps: 1}
	c.Streamed(&k)
	multiply.Stored(&k, c)
	weights, kept := 4*float64(w.transformed()), float64(c.Meta(1).Bytes())
	if kept <= k.Bytes[graph.Kept] {
		k.Bytes[graph.Kept] += w.weightsFromAfar() - kept
	}
	tiles := w.tiles()
	points := float64(tiles * w.form.Points())
	k.Do(winogradOperand, points*float64(w.room))
	k.Do(winogradResult, points*float64(w.blocks*w.width))
	few := float64(min(tiles, w.rows) * w.width / winograd.Lanes(w.isa))
	k.Do(winogradProduct, points*float64((w.s.c+winogradBegin)*w.blocks*w.width)*max(1, winogradSums/few))
	switch way := w.way(); {
	case way == allNear, weights <= winogradNear:
	case way == byPoints:
		p, r := w.farTraffic()
		k.Do(winogradFar, float64(p+r))
		fallthrough
	case way == byBlocks:
		k.Do(winogradFar, weights*float64(w.into(way)-1))
	}
	k.Flops = 18 * float64(c.Out[0].Numel()) * float64(w.s.c)
	return k
}
