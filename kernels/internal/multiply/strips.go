package multiply

import "github.com/graphrun/graphrun/internal/machine"

// Strips is the order in which strips of rows of several images, or matrices, are computed by blocks of columns, and
// the division of these units into chunks.
type Strips struct {
	Images, Blocks, Strips int
	Band                   int // number of strips per read of the weight of a block
	cut                    machine.Cut
}

// Units returns the number of units.
func (o *Strips) Units() int { return o.Images * o.Blocks * o.Strips }

// Cut divides the units, each with the given work, into chunks of about a grain.
func (o *Strips) Cut(work, grain int) { o.cut = machine.CutUnits(o.Units(), work, grain) }

// Chunks returns the number of chunks.
func (o *Strips) Chunks() int { return o.cut.Chunks }

// Made returns the progress after a chunk and all chunks before it: the images, and strips of one more image, that all
// blocks have computed.
func (o *Strips) Made(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.place(end)
	return images, band*o.Band + max(0, rest-(o.Blocks-1)*width)
}

// Begun returns the extent of a chunk and all chunks before it: no later strip has been started.
func (o *Strips) Begun(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.place(end - 1)
	return images, band*o.Band + min(width, rest+1)
}

// place returns the image of a unit, its band, its index in the band, and the number of strips of the band.
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
