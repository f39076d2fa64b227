package conv

import (
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
	// nearWeight is the weight that stays in the second cache beside the image while all blocks go by.
	nearWeight = 1 << 20
	// aheadBytes is how far ahead weights are asked for that come from further away.
	aheadBytes = 8 << 10
)

// weightBytes are those of all panels.
func (t *direct) weightBytes() int {
	return t.s.groups * kit.DivUp(t.s.og(), t.shape.block()) * t.s.depth() * t.panel
}

// near is how far ahead the weight is asked for.
func (t *direct) near() int {
	if t.weightBytes() > nearWeight {
		return aheadBytes
	}
	return 0
}

// arrange chooses the order: blocks go outermost, so that each is read once, where all of them are too many to stay
// near, and else within bands of strips, whose part of the image stays near.
func (t *direct) arrange() {
	s := t.s
	strips := len(t.strips) - 1
	o := &t.order
	*o = directOrder{images: t.images, blocks: s.groups * kit.DivUp(s.og(), t.shape.block()), strips: strips, band: 1}
	if t.weightBytes() > nearWeight {
		o.band = strips
	}
	macs := s.n * s.oh * s.ow * t.shape.block() * s.depth() / max(1, t.images*strips)
	o.group = max(1, machine.MACGrain/max(1, macs))
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
