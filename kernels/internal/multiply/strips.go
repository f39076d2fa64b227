package multiply

import "github.com/graphrun/graphrun/internal/machine"

// Strips is the order in which strips of rows of several images, or matrices, are computed by blocks of
// columns, and how these units are cut into chunks.
type Strips struct {
	Images, Blocks, Strips int
	Band                   int // strips for which a block's weight is read once
	cut                    machine.Cut
}

// Units is how many there are.
func (o *Strips) Units() int { return o.Images * o.Blocks * o.Strips }

// Cut cuts the units, each of so much work, into chunks of about a grain.
func (o *Strips) Cut(work, grain int) { o.cut = machine.CutUnits(o.Units(), work, grain) }

// Chunks is how many chunks there are.
func (o *Strips) Chunks() int { return o.cut.Chunks }

// Each visits the units of a chunk.
func (o *Strips) Each(chunk int, visit func(image, block, strip int) error) error {
	for u, end := o.cut.Range(chunk); u < end; u++ {
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
