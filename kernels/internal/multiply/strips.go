package multiply

import "github.com/graphrun/graphrun/internal/machine"

// StripOrder is the order in which a product of several images (or matrices) is computed, and its division into chunks.
// The rows of an image are divided into strips, and the columns of the result into blocks. A unit of work is one strip
// by one block. A band is a sequence of strips. All strips of a band are computed for one block, while the weights of
// the block are in cache, before the next block. The loops are, from the outermost: images, bands, blocks, strips of a
// band.
type StripOrder struct {
	Images     int // number of images
	Blocks     int // number of blocks of columns
	Strips     int // strips per image
	BandStrips int // strips per band
	cut        machine.Division
}

// Units returns the number of units.
func (o *StripOrder) Units() int { return o.Images * o.Blocks * o.Strips }

// Cut divides the units into chunks. work is the work of a unit, and grain the desired work of a chunk.
func (o *StripOrder) Cut(work, grain int) { o.cut = machine.DivideUnits(o.Units(), work, grain) }

// Chunks returns the number of chunks.
func (o *StripOrder) Chunks() int { return o.cut.Chunks }

// Completed returns the progress after the given chunk and all earlier chunks. images is the number of complete images.
// strips is the number of strips of the next image that are complete in all blocks: strips of complete bands, and
// strips that the last block of the current band has computed.
func (o *StripOrder) Completed(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, unit, bandStrips := o.locate(end)
	return images, band*o.BandStrips + max(0, unit-(o.Blocks-1)*bandStrips)
}

// Started returns the image in which the given chunk ends, and the number of strips of this image that this chunk and
// all earlier chunks have started.
func (o *StripOrder) Started(chunk int) (images, strips int) {
	_, end := o.cut.Range(chunk)
	images, band, unit, bandStrips := o.locate(end - 1)
	return images, band*o.BandStrips + min(bandStrips, unit+1)
}

// locate returns the position of unit u: its image, its band in the image, and its index in the band. It also returns
// the number of strips of the band.
func (o *StripOrder) locate(u int) (image, band, unit, bandStrips int) {
	image, unit = u/(o.Blocks*o.Strips), u%(o.Blocks*o.Strips)
	band = unit / (o.Blocks * o.BandStrips)
	return image, band, unit - band*o.Blocks*o.BandStrips, min(o.BandStrips, o.Strips-band*o.BandStrips)
}

// EachUnit visits the units of a chunk.
func (o *StripOrder) EachUnit(chunk int, visit func(image, block, strip int) error) error {
	for u, end := o.cut.Range(chunk); u < end; u++ {
		image, band, unit, bandStrips := o.locate(u)
		if err := visit(image, unit/bandStrips, band*o.BandStrips+unit%bandStrips); err != nil {
			return err
		}
	}
	return nil
}
