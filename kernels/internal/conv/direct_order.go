package conv

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

const (
	// nearWeight is the weight that stays in the second cache beside a part of the image while all blocks go by, and
	// nearImage the part of an image that does while blocks of a larger weight go by.
	nearWeight = 1 << 16
	nearImage  = 1 << 20
	// aheadBytes is how far ahead of what is read the weight is asked for.
	aheadBytes = 8 << 10
	// leastPixels are those of a strip for which to read the weight takes as long as to multiply with it.
	leastPixels = 16
	// mostAhead are the lines of the next block that are asked for in a turn.
	mostAhead = 4
)

// blocks are those of output channels in all groups.
func (t *direct) blocks() int { return t.s.groups * kit.DivUp(t.s.og(), t.shape.block()) }

// panelBytes are those of the weight of a block.
func (t *direct) panelBytes() int { return t.s.depth() * t.panel }

// wide reports whether the weight is larger than what stays near.
func (t *direct) wide() bool { return t.blocks()*t.panelBytes() > nearWeight }

// arrange chooses the order. All blocks of a strip follow one another where the weight stays near; else all strips of a
// block do, as many as have a part of the image that stays near; of half of the image at most where the image has more
// bytes than the weight, so that of two workers each has half of the rows rather than of the channels. The weight of
// the next block is asked for meanwhile, in even parts: what a block reads of memory it reads in its first tile, which
// computes less than that takes. Where the weight stays near and the second cache does not hold the image, pixels of
// the next tile are asked for instead: of many rows that a tile reads at once, the hardware is late with some.
func (t *direct) arrange() {
	s := t.s
	strips := t.strips
	t.order = multiply.Strips{Images: t.images, Blocks: t.blocks(), Strips: strips, Band: 1}
	if t.wide() {
		pixels := s.n / t.images * t.size
		read, written := pixels*s.c*s.pixelsIn(), pixels*s.o*s.pixelsOut()
		bands := kit.DivUp(read, nearImage)
		if t.blocks()*t.panelBytes() <= read+written {
			bands = max(2, bands)
		}
		t.order.Band = kit.DivUp(strips, bands)
		tiles := t.tiles.count
		if t.shape.cut == alongRows {
			tiles *= strips
		}
		turns := max(1, tiles*t.order.Band/strips*s.depth()/tile.FewTerms)
		t.ahead = min(mostAhead, kit.DivUp(kit.DivUp(t.panelBytes(), machine.LineBytes), turns))
		t.aheadStrip = kit.DivUp(t.panelBytes(), t.order.Band)
	} else if t.shape.cut == flat && !t.shape.planes && s.n*s.h*s.w*t.pixel() > nearPixels {
		t.aheadImage = true
		t.ahead = min(mostAhead, kit.DivUp(kit.DivUp(t.tileRows()*t.pixel(), machine.LineBytes), max(1, s.cg/tile.FewTerms)))
	}
	pixels := s.n * s.pixelsOut() / max(1, t.images*strips)
	grain := machine.MACGrain
	if t.shape.unit {
		grain *= tile.UnitGrain
	}
	t.order.Cut(kit.Times(max(pixels, leastPixels), t.shape.block(), s.depth()), grain)
}
