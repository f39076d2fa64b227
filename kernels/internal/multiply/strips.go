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

// Made is how far a chunk and all before it have come: so many whole images, and so many strips of one more, from the
// first on, are computed by all blocks.
func (o *Strips) Made(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.place(end)
	return images, band*o.Band + max(0, rest-(o.Blocks-1)*width)
}

// Begun is how far a chunk and all before it have gone: no strip is begun behind so many whole images, and so many
// strips of one more.
func (o *Strips) Begun(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.place(end - 1)
	return images, band*o.Band + min(width, rest+1)
}

// place is where a unit is: its image, the band in it, its place in the band, and how many strips that has.
func (o *Strips) place(u int) (image, band, rest, width int) {
	image, rest = u/(o.Blocks*o.Strips), u%(o.Blocks*o.Strips)
	band = rest / (o.Blocks * o.Band)
	return image, band, rest - band*o.Blocks*o.Band, min(o.Band, o.Strips-band*o.Band)
}

// Each visits the units of a chunk.
func (o *Strips) Each(chunk int, visit func(image, block, strip int) error) error {
	for u, end := o.cut.Range(chunk); u < end; u++ {
		image, band, rest, width := o.place(u)
		if err := visit(image, rest/width, band*o.Band+rest%width); err != nil {
			return err
		}
	}
	return nil
}
