package conv

import (
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// directOrder is the order of images, blocks of output channels and strips, and how they are cut into chunks.
type directOrder struct {
	images, blocks, strips int
	band                   int // strips for which a block's weight is read once
	group                  int // of units, a chunk's
}

const (
	// nearWeight is the weight that stays in the second cache beside a part of the image while all blocks go by, and
	// nearImage the part of an image that does while blocks of a larger weight go by.
	nearWeight = 1 << 16
	nearImage  = 1 << 20
	// aheadBytes is how far ahead of what is read the weight is asked for.
	aheadBytes = 8 << 10
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
// block do, as many as have a part of the image that stays near. The weight of the next block is asked for meanwhile,
// in even parts: what a block reads of memory it reads in its first tile, which computes less than that takes.
func (t *direct) arrange() {
	s := t.s
	strips := len(t.strips) - 1
	t.order = directOrder{images: t.images, blocks: t.blocks(), strips: strips, band: 1}
	if t.wide() {
		bytes := s.n / t.images * s.c * s.h * s.w * t.size
		bands := kit.DivUp(bytes, nearImage)
		t.order.band = kit.DivUp(strips, bands)
		tiles := 0
		for _, c := range t.calls {
			tiles += c.tiles
		}
		turns := max(1, tiles*t.order.band/strips*s.depth()/tile.FewTerms)
		t.ahead = min(mostAhead, kit.DivUp(kit.DivUp(t.panelBytes(), machine.LineBytes), turns))
		t.aheadStrip = kit.DivUp(t.panelBytes(), t.order.band)
	}
	macs := s.n * s.oh * s.ow * t.shape.block() * s.depth() / max(1, t.images*strips)
	t.order.group = max(1, machine.MACGrain/max(1, macs))
}

func (o *directOrder) units() int  { return o.images * o.blocks * o.strips }
func (o *directOrder) chunks() int { return kit.DivUp(o.units(), o.group) }

// each visits the units of a chunk.
func (o *directOrder) each(chunk int, visit func(image, block, strip int) error) error {
	for u := chunk * o.group; u < min(o.units(), (chunk+1)*o.group); u++ {
		image, rest := u/(o.blocks*o.strips), u%(o.blocks*o.strips)
		band := rest / (o.blocks * o.band)
		rest -= band * o.blocks * o.band
		width := min(o.band, o.strips-band*o.band)
		if err := visit(image, rest/width, band*o.band+rest%width); err != nil {
			return err
		}
	}
	return nil
}
