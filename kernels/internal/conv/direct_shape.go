package conv

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// directShape describes the register tiles of a direct convolution. A tile is the set of results that the registers
// hold at once: some output pixels (its rows) for a block of output channels (its columns, in vectors). A panel is the
// packed weight of a block, and a term is the product of one element of the window and one input channel. For example,
// there are 32 registers of 16 floats. A tile of 14 rows and two vectors takes 28 registers for sums and two for
// weights. Two registers remain for elements of the input.
type directShape struct {
	byPlanes       bool // whether the input is row-major, plane by plane, and not channels-last
	loopsOverDepth bool // whether the code has a loop over the depth of the window
	lanes          int  // number of output channels of a vector
	vectors        int  // number of vectors of a block
	rows           int  // maximum number of rows of a tile; a row is an output pixel
	elemsPerLoad   int  // maximum number of elements of the input that are loaded at once
	tiling         directTiling
	usesMatrixUnit bool // whether the code uses the matrix unit
}

// directTiling is the way in which output pixels are divided into tiles.
type directTiling uint8

const (
	// rowTiling: a tile has pixels of one row of the result. The code loops over the rows of the window.
	rowTiling directTiling = iota
	// smallImageTiling: a tile has consecutive pixels of a small image. The window is fully unrolled.
	smallImageTiling
	// pointwiseTiling: a tile has consecutive pixels of a pointwise convolution.
	pointwiseTiling
	// rowPairTiling: a tile has pixels of one or two rows of the result (a row pair), for the matrix unit.
	rowPairTiling
)

// Bounds of the tiles of direct convolution.
const (
	// smallImageTiling requires at most smallImagePixels output pixels of an image, and at most shortRowPixels output
	// pixels of a row.
	smallImagePixels = 64
	shortRowPixels   = 7
	// maxVectors is the maximum number of vectors of a block.
	maxVectors = 6
	// cachedPanelBytes is the maximum size, in bytes, of the panel of a block with more than two vectors. Each tile
	// reads the whole panel, so it must stay in the L1 cache. More vectors per tile mean fewer rows per tile and thus
	// more tiles.
	cachedPanelBytes = 32 << 10
)

// newDirectShape chooses the tiles by sizes and the instruction set.
func newDirectShape(conv *convShape, dtype tensor.DType, byPlanes bool) directShape {
	registers, vectorBytes := tile.VectorRegisters(machine.HostFeatures())
	shape := directShape{byPlanes: byPlanes, loopsOverDepth: conv.isVolumetric(), lanes: vectorBytes / dtype.Size(),
		elemsPerLoad: tile.ElementsPerLoad(machine.HostFeatures(), dtype.Size())}
	pixels := shape.setTiling(conv)
	shape.vectors = shape.chooseVectors(conv, pixels, registers, vectorBytes)
	shape.rows = shape.maxRows(shape.vectors, registers)
	return shape
}

// chooseVectors returns the number of vectors of a block. pixels is the result of setTiling. If possible, a tile has at
// least ten sums. With fewer sums, a multiply-add would wait for the previous multiply-add of the same sum.
func (shape *directShape) chooseVectors(conv *convShape, pixels, registers, vectorBytes int) int {
	if conv.phase != nil && conv.phase.vectors > 0 { // all phases of a transposed convolution have the same number
		return conv.phase.vectors
	}
	hasManyRegisters := registers > 16                         // more than AVX2 has
	groupVectors := kit.DivUp(conv.outPerGroup(), shape.lanes) // vectors of the output channels of a group
	switch {
	case groupVectors == 3 && hasManyRegisters: // one block instead of a block of two and a block of one
		return 3
	case pixels >= shortRowPixels && hasManyRegisters: // enough rows for ten sums with 2 vectors: compare the costs
		return shape.bestVectors(groupVectors, pixels, registers, vectorBytes*conv.termsPerOutput())
	case pixels <= 2: // few rows, so ten sums take many vectors: up to 8 with 32 registers, 4 with 16
		return min(groupVectors, registers/4)
	case pixels < shortRowPixels: // 3 to 6 rows: up to 4 vectors, 3 with 16 registers
		return min(groupVectors, 4, registers/4-1)
	}
	return min(2, groupVectors) // long rows, 16 registers
}

// setTiling sets the tiling. It returns the number of output pixels that are divided into tiles together.
func (shape *directShape) setTiling(conv *convShape) (pixels int) {
	imagePixels := conv.h.Results * conv.w.Results
	switch {
	case conv.isPointwise() && conv.phase == nil:
		shape.tiling, pixels = pointwiseTiling, conv.pixelsOut()
		if !shape.byPlanes { // the pixels of all images are evenly spaced
			pixels *= conv.batch
		}
		return pixels
	case !shape.loopsOverDepth && conv.w.Results <= shortRowPixels && imagePixels <= smallImagePixels:
		shape.tiling = smallImageTiling
		return imagePixels
	}
	shape.tiling = rowTiling
	return conv.w.Results
}

// blockChannels returns the number of output channels of a tile.
func (shape *directShape) blockChannels() int { return shape.vectors * shape.lanes }

// windowLoop returns the index of the loop over the window's rows, counted from the outermost loop. The outer loops are
// a loop over channels (if byPlanes) and a loop over the window's depth (3-d convolutions).
func (shape *directShape) windowLoop() (loop int) {
	if shape.byPlanes {
		loop++
	}
	if shape.loopsOverDepth {
		loop++
	}
	return loop
}

// maxRows returns the maximum number of rows of a tile. The registers hold all sums of the tile, `vectors` vectors of
// weights, and two elements. If one load reads several elements (elemsPerLoad > 1), the registers hold the elements of
// all rows instead of two elements. If the input is by planes, a load reads one element of each of several rows; if it
// is channels-last, a load reads several terms of one row.
func (shape directShape) maxRows(vectors, registers int) int {
	if shape.elemsPerLoad > 1 {
		for rows := registers / vectors; ; rows-- {
			elements := rows
			if shape.byPlanes {
				elements = kit.DivUp(rows, shape.elemsPerLoad)
			}
			if rows == 1 || rows*vectors+vectors+elements <= registers {
				return rows
			}
		}
	}
	const elements = 2
	rows := (registers - elements - vectors) / vectors
	if vectors == 1 {
		rows -= registers / 32 // 28 rows divide common sizes more evenly than 29
	}
	return rows
}

// bestVectors returns the number of vectors per block for about 32 registers. It minimizes the instructions per term of
// all tiles together: loads of elements, loads of vectors, and multiplications. groupVectors is the number of vectors
// per group, and vectorPanelBytes the size of the weight of one vector. A tile of one vector has as many loads as
// multiplications, so the minimum avoids a last block of one vector.
func (shape *directShape) bestVectors(groupVectors, pixels, registers, vectorPanelBytes int) (best int) {
	least := math.MaxInt
	fits := func(vectors int) bool { return vectors <= 2 || vectors*vectorPanelBytes <= cachedPanelBytes }
	most := min(groupVectors, maxVectors)
	for blockVectors := min(2, groupVectors); blockVectors <= most && fits(blockVectors); blockVectors++ {
		instructions := 0
		for _, tiles := range splitEvenly(pixels, shape.maxRows(blockVectors, registers)).bySize() {
			tileInstructions := func(vectors int) int { // of the tiles of this size, for elemsPerLoad terms
				vectorLoads, elementLoads := vectors*shape.elemsPerLoad, tiles.size
				multiplications := tiles.size * vectors * shape.elemsPerLoad
				// A sum waits sumLatency cycles, of two instructions each, for each of its elemsPerLoad terms.
				return tiles.count * max(multiplications+vectorLoads+elementLoads, 2*sumLatency*shape.elemsPerLoad)
			}
			instructions += groupVectors / blockVectors * tileInstructions(blockVectors)
			if lastVectors := groupVectors % blockVectors; lastVectors > 0 { // the last block
				instructions += tileInstructions(lastVectors)
			}
		}
		if instructions < least {
			least, best = instructions, blockVectors
		}
	}
	return best
}

// sumLatency is the latency of a multiply-add, in cycles.
const sumLatency = 4

// pieces is a division of total into count pieces, the longer pieces first. The sizes of pieces differ by at most 1:
// {total: 56, count: 5} has the sizes 12, 11, 11, 11 and 11. count is 0 if total is 0.
type pieces struct{ total, count int }

// splitEvenly divides n into pieces of at most maxSize.
func splitEvenly(n, maxSize int) pieces { return pieces{total: n, count: kit.DivUp(n, maxSize)} }

// start returns the start of piece i.
func (p pieces) start(i int) int {
	if p.count == 0 {
		return 0
	}
	return i*(p.total/p.count) + min(i, p.total%p.count)
}

// size returns the size of piece i.
func (p pieces) size(i int) int { return p.start(i+1) - p.start(i) }

// equalPieces is a sequence of pieces of equal size.
type equalPieces struct {
	size         int
	first, count int // index of the first piece, number of pieces
}

// bySize returns the longer pieces, if any, and the shorter pieces.
func (p pieces) bySize() (list []equalPieces) {
	if p.count == 0 {
		return nil
	}
	shortSize, longerCount := p.total/p.count, p.total%p.count
	if longerCount > 0 {
		list = append(list, equalPieces{size: shortSize + 1, first: 0, count: longerCount})
	}
	return append(list, equalPieces{size: shortSize, first: longerCount, count: p.count - longerCount})
}
