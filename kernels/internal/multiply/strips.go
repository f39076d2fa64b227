package multiply

import "github.com/graphrun/graphrun/internal/machine"

// StripOrder is the order in which a product of several images (or matrices) is computed, and its division into chunks.
// The rows of an image are divided into strips, and the columns of the result into blocks. A unit of work is one strip
// by one block. A band is a sequence of strips. All strips of a band are computed for one block, while the weights of
// the block are in cache, before the next block. The loops are, from the outermost: images, bands, blocks, strips of a
// band.
type StripOrder struct {
	Images int // number of images
	Blocks int // number of blocks of columns
	Strips int // strips per image
	Band   int // strips per band
	cut    machine.Division
}

// Units returns the number of units.
func (o *StripOrder) Units() int { return o.Images * o.Blocks * o.Strips }

// Cut divides the units into chunks. work is the work of a unit, and grain the desired work of a chunk.
func (o *StripOrder) Cut(work, grain int) { o.cut = machine.DivideUnits(o.Units(), work, grain) }

// Chunks returns the number of chunks.
func (o *StripOrder) Chunks() int { return o.cut.Chunks }

// Completed returns the progress after the given chunk and all earlier chunks. images is the number of complete images.
// strips is the number of strips of the next image that are complete in all blocks.
func (o *StripOrder) Completed(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.locate(end)
	return images, band*o.Band + max(0, rest-(o.Blocks-1)*width)
}

// Started returns the image in which the given chunk ends, and the number of strips of this image that this chunk and
// all earlier chunks have started.
func (o *StripOrder) Started(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, rest, width := o.locate(end - 1)
	return images, band*o.Band + min(width, rest+1)
}

// locate returns the position of unit u: its image, its band in the image, and its index in the band. It also returns
// the number of strips of the band.
func (o *StripOrder) locate(u int) (image, band, rest, width int) {
	image, rest = u/(o.Blocks*o.Strips), u%(o.Blocks*o.Strips)
	band = rest / (o.Blocks * o.Band)
	return image, band, rest - band*o.Blocks*o.Band, min(o.Band, o.Strips-band*o.Band)
}

// EachUnit visits the units of a chunk.
func (o *StripOrder) EachUnit(chunk int, visit func(image, block, strip int) error) error {
	for u, end := o.cut.Range(chunk); u < end; u++ {
		image, band, rest, width := o.locate(u)
		if err := visit(image, rest/width, band*o.Band+rest%width); err != nil {
			return err
		}
	}
	return nil
}
