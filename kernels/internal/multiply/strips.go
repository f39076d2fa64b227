package multiply

import "github.com/graphrun/graphrun/internal/machine"

// StripOrder is the order in which a product of several images (or matrices) is computed, and its division into chunks.
// The rows of an image are divided into strips, and the columns of the result into blocks. A unit of work is one strip
// by one block. A band is a sequence of strips. All strips of a band are computed for one block, while the weights of
// the block are in cache, before the next block. The loops are, from the outermost: images, bands, blocks, strips of a
// band. For example, 4 strips in bands of 2 and 2 blocks give the units (block, strip): 00 01 10 11 02 03 12 13.
type StripOrder struct {
	Images     int // number of images
	Blocks     int // number of blocks of columns
	Strips     int // strips per image
	BandStrips int // strips per band
	division   machine.Division
}

// Units returns the number of units.
func (order *StripOrder) Units() int { return order.Images * order.Blocks * order.Strips }

// Divide divides the units into chunks. work is the work of a unit, and grain the desired work of a chunk.
func (order *StripOrder) Divide(work, grain int) {
	order.division = machine.DivideUnits(order.Units(), work, grain)
}

// Chunks returns the number of chunks.
func (order *StripOrder) Chunks() int { return order.division.Chunks }

// Completed returns the progress after the given chunk and all earlier chunks. images is the number of complete images.
// strips is the number of strips of the next image that are complete in all blocks. These are the strips of complete
// bands, and the strips of the current band that are computed for the last block.
func (order *StripOrder) Completed(chunk int) (images, strips int) {
	_, end := order.division.ChunkRange(chunk)
	images, band, indexInBand, bandStrips := order.locate(end)
	return images, band*order.BandStrips + max(0, indexInBand-(order.Blocks-1)*bandStrips)
}

// Started returns the index of the image in which the given chunk ends. strips is the number of strips of this image
// that are computed for at least one block by this chunk and all earlier chunks.
func (order *StripOrder) Started(chunk int) (image, strips int) {
	_, end := order.division.ChunkRange(chunk)
	image, band, indexInBand, bandStrips := order.locate(end - 1)
	return image, band*order.BandStrips + min(bandStrips, indexInBand+1)
}

// locate returns the position of a unit: its image, its band in the image, and its index among the units of the band.
// It also returns the number of strips of the band.
func (order *StripOrder) locate(unit int) (image, band, indexInBand, bandStrips int) {
	unitsPerImage, unitsPerBand := order.Blocks*order.Strips, order.Blocks*order.BandStrips
	image, indexInImage := unit/unitsPerImage, unit%unitsPerImage
	band = indexInImage / unitsPerBand
	bandStrips = min(order.BandStrips, order.Strips-band*order.BandStrips) // the last band may have fewer
	return image, band, indexInImage - band*unitsPerBand, bandStrips
}

// EachUnit visits the units of a chunk in order. It stops at the first error and returns it.
func (order *StripOrder) EachUnit(chunk int, visit func(image, block, strip int) error) error {
	for unit, end := order.division.ChunkRange(chunk); unit < end; unit++ {
		image, band, indexInBand, bandStrips := order.locate(unit)
		block, strip := indexInBand/bandStrips, band*order.BandStrips+indexInBand%bandStrips
		if err := visit(image, block, strip); err != nil {
			return err
		}
	}
	return nil
}
