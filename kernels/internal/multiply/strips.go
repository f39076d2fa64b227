package multiply

import "github.com/graphrun/graphrun/kernels/internal/kit"

// Strips is the order in which strips of rows of several images, or matrices, are computed by blocks of
// columns, and how these units are cut into chunks.
type Strips struct {
	Images, Blocks, Strips int
	Band                   int // strips for which a block's weight is read once
	Group                  int // of units, a chunk's
}

// Units is how many there are.
func (o *Strips) Units() int { return o.Images * o.Blocks * o.Strips }

// Chunks is how many chunks there are.
func (o *Strips) Chunks() int { return kit.DivUp(o.Units(), o.Group) }

// Each visits the units of a chunk.
func (o *Strips) Each(chunk int, visit func(image, block, strip int) error) error {
	for u := chunk * o.Group; u < min(o.Units(), (chunk+1)*o.Group); u++ {
		image, rest := u/(o.Blocks*o.Strips), u%(o.Blocks*o.Strips)
		band := rest / (o.Blocks * o.Band)
		rest -= band * o.Blocks * o.Band
		width := min(o.Band, o.Strips-band*o.Band)
		if err := visit(image, rest/width, band*o.Band+rest%width); err != nil {
			return err
		}
	}
	return nil
}
