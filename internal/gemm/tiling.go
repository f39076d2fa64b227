package gemm

import "github.com/graphrun/graphrun/internal/machine"

// This file divides a product into tiles. chooseGrid tries tiles of different heights and widths, estimates the time of
// the product for each (grid.cost), and selects the cheapest. packChunk divides the packing of an operand. blockSizes
// and divideEvenly compute divisions with a remainder. The package comment defines tiles and packing. K is divided into
// blocks of kc terms. A super-block is a group of consecutive blocks that are packed together.
//
// An operandPlan (operand.go) describes an operand that is divided into panels: the operand has `extent` rows (A) or
// columns (B), and a panel has panelWidth rows or columns. If createsPanels returns true, an execution packs the
// operand. If packedOnce is set, the panels are packed once for all tiles. Otherwise each tile packs separate panels.
// If packedByFirstRow is set, the first row of tiles packs the operand while it multiplies.

const (
	// alignBytes is the alignment of packed panels in scratch buffers. Aligned panels avoid vector loads from two
	// cache lines, which cost as much as two loads.
	alignBytes = machine.LineBytes
	// sharedElems is the maximum number of elements in the panels that a packing phase creates. Larger products pack and
	// multiply one super-block of K after another. The maximum does not affect the results, because super-blocks consist
	// of whole blocks of K.
	sharedElems = 8 << 20
	// packTileElems is the number of elements that one packing tile packs.
	packTileElems = machine.MoveGrain
)

// blockBytes is the maximum size of a block of A: the panels of A that are multiplied by each panel of B. The block
// stays in L2 together with the panel of B. blockBytes is also the maximum size of the panels that one tile packs. It
// does not affect the bits of results.
var blockBytes = machine.L2Bytes / 8 * 3

// workCosts has the costs of kinds of work in nanoseconds, for elements of 32 bits. The same costs are used for all
// kernels and dtypes: they serve only to rank grids (see grid), and the ranking differs little.
type workCosts struct {
	mac     float64 // a multiply-add
	tile    float64 // starting a tile
	phase   float64 // a barrier between phases
	pack    float64 // packing an element from memory
	custom  float64 // packing an element by a PackFunc
	share   float64 // writing a packed element to memory and reading it back
	loadA   float64 // moving an element of A into L2, once per tile
	loadB   float64 // moving an element of B into L1
	updateC float64 // updating an element of C once per K block
}

// packNS is the cost of packing an element from memory, in nanoseconds.
const packNS = 0.25

// costs were measured on Zen 5. They are constants, so that all machines with the same instruction set choose the same
// tiles. Rates of a machine profile would differ between machines. The costs of cache accesses are fractions of packNS.
var costs = workCosts{mac: 1. / 96, tile: 425, phase: 1280, pack: packNS, custom: 2 * packNS,
	share: packNS / 2, loadA: packNS / 2, loadB: packNS * 5 / 12, updateC: packNS * 5 / 24}

// grid is a division of C into mTiles×nTiles tiles of tileRows×tileCols elements. If shareA or shareB is set, a packing
// phase packs the operand for all tiles. Otherwise each tile packs separate panels.
type grid struct {
	tileRows, tileCols int
	mTiles, nTiles     int
	shareA, shareB     bool
}

// tilePanels are limits on the widths and heights, in panels, of the tiles that chooseGrid considers. The last limit
// gives a single tile with all panels.
var tilePanels = [...]int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 1 << 30}

// gridWorkers are the numbers of workers for which a grid is evaluated. The entry 32 favors grids with at least two
// tiles for each of 16 workers. With such a grid, fast workers can compute more tiles than slow workers.
var gridWorkers = [...]int{1, 2, 3, 4, 6, 8, 12, 16, 32}

// localPanels returns the maximum number of panels that one tile may pack. The panels must fit L2.
func (operand operandPlan) localPanels(kc int) int {
	return max(1, blockBytes/(operand.panelWidth*kc*operand.elemBytes))
}

// maxTiles returns the greatest useful number of tiles of a product. A tile is large enough if it has grain/2
// multiply-adds. A tile with ReduceGrain elements of the larger operand is also large enough, because reading the
// operand takes most of the time if there are few rows or columns.
func (s *kernelSet) maxTiles(m, n, k int) int {
	grain := machine.PortableMACGrain
	if s.hasMachineCode() {
		grain = machine.MACGrain
	}
	tilesByMACs := min(2*float64(m)*float64(n)*float64(k)/float64(grain), 1<<62) // fits an int
	return max(1, int(tilesByMACs), max(m, n)*k/machine.ReduceGrain)
}

// chooseGrid returns the grid with the least core time (time multiplied by the number of workers), summed over the
// numbers of workers in gridWorkers. Small tiles balance the load, and large tiles reuse packed panels. The grid must
// not depend on the number of workers of a run, because results must not depend on it.
func chooseGrid(a, b operandPlan, k, kc, maxTiles int) grid {
	var best grid
	bestCost := -1.0 // no grid yet; the grid of one tile is always allowed
	aPanels, bPanels := ceilDiv(a.extent, a.panelWidth), ceilDiv(b.extent, b.panelWidth)
	for _, height := range tileSizes(aPanels) {
		for _, width := range tileSizes(bPanels) {
			candidate := grid{tileRows: height * a.panelWidth, tileCols: width * b.panelWidth,
				mTiles: ceilDiv(aPanels, height), nTiles: ceilDiv(bPanels, width)}
			candidate.shareA = a.createsPanels() && (candidate.nTiles > 1 || height > a.localPanels(kc))
			candidate.shareB = b.createsPanels() && (candidate.mTiles > 1 || width > b.localPanels(kc))
			if candidate.mTiles*candidate.nTiles > maxTiles {
				continue
			}
			if cost := candidate.cost(a, b, k, kc); bestCost < 0 || cost < bestCost {
				best, bestCost = candidate, cost
			}
		}
	}
	return best
}

// tileSizes lists the heights or widths of tiles to consider, in panels, for an operand with the given number of
// panels. Each limit of tilePanels gives the size at which the panels are divided evenly among the tiles. For example,
// 9 panels and the limit 4 give three tiles of 3 panels.
func tileSizes(panels int) (sizes []int) {
	for _, limit := range tilePanels {
		tiles := ceilDiv(panels, min(limit, panels))
		size := ceilDiv(panels, tiles)
		if len(sizes) == 0 || size != sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// cost returns the estimated core time in nanoseconds, summed over gridWorkers; see chooseGrid. For w workers, the core
// time is
//
//	shared + w*(barrier + ceil(tiles/w)*tile)
//
// where shared is the time to pack shared panels, barrier is the cost of the barriers between phases, and tile is the
// time of a tile. Products are converted to float64, so that no architecture fuses them with additions and all
// architectures choose the same grid.
func (g grid) cost(a, b operandPlan, k, kc int) float64 {
	depth := float64(k)
	blocks := float64(ceilDiv(k, kc))
	height, width := float64(g.tileRows), float64(g.tileCols)
	tileCost := float64(height*width*depth*costs.mac) + costs.tile + float64(height*width*blocks*costs.updateC) +
		float64(height*depth*costs.loadA) + float64(width*depth*costs.loadB)
	sharedCost := 0.0
	for _, operand := range []struct {
		operandPlan
		tileExtent float64
		isShared   bool
	}{
		{operandPlan: a, tileExtent: height, isShared: g.shareA},
		{operandPlan: b, tileExtent: width, isShared: g.shareB},
	} {
		perElement := operand.packCostPerElement()
		switch {
		case operand.isShared:
			allLanes := float64(roundUp(operand.extent, operand.panelWidth))
			sharedCost += float64(allLanes * depth * (perElement + costs.share))
		case operand.createsPanels():
			tileCost += float64(operand.tileExtent * depth * perElement)
		}
	}
	barrierCost := 0.0
	if g.shareA || g.shareB {
		barrierCost = costs.phase
	}
	total := 0.0
	for _, workers := range gridWorkers {
		rounds := float64(ceilDiv(g.mTiles*g.nTiles, workers))
		total += sharedCost + float64((barrierCost+float64(rounds*tileCost))*float64(workers))
	}
	return total
}

// packCostPerElement returns the cost of packing an element of the operand, in nanoseconds.
func (operand operandPlan) packCostPerElement() float64 {
	switch {
	case operand.packedByFirstRow: // included in the multiplication
		return 0
	case operand.source == Custom:
		return costs.custom
	}
	return costs.pack
}

// minPackDepth is the minimum number of terms of K in a packing tile. If a super-block has fewer terms, a packing tile
// has all of them.
const minPackDepth = 256

// packChunk returns the size of one packing tile: its number of panels, and its number of terms of K. depth is the
// number of terms of the super-block.
func (operand operandPlan) packChunk(depth int) (panels, terms int) {
	terms = min(depth, max(minPackDepth, packTileElems/operand.panelWidth))
	return max(1, packTileElems/(operand.panelWidth*terms)), terms
}

// packTiles returns the number of packing tiles of the operand for one super-block.
func (operand operandPlan) packTiles(depth int) int {
	if !operand.packedOnce {
		return 0
	}
	panels, terms := operand.packChunk(depth)
	return ceilDiv(ceilDiv(operand.extent, operand.panelWidth), panels) * ceilDiv(depth, terms)
}

// blockSizes returns the sizes of blocks that occur in a dimension of `extent` elements. The dimension is divided into
// tiles of tileSize elements, and each tile into blocks of at most `block` elements. The result has four sizes: the
// first and the last block of a whole tile, and the first and the last block of the last tile. For example, an extent
// of 100 in 3 tiles of 40 with blocks of 16 gives 16, 8, 16 and 4.
func blockSizes(extent, tileSize, tiles, block int) (sizes []int) {
	for _, size := range []int{tileSize, extent - (tiles-1)*tileSize} {
		sizes = append(sizes, min(size, block), size-(size-1)/block*block)
	}
	return sizes
}

// divideEvenly divides n elements into the fewest parts of at most `limit` elements. It returns the size of the larger
// parts and their number (count). The other parts have one element less; smallerCount is their number. For example, 29
// elements with a limit of 14 are divided into two parts of 10 and one part of 9.
func divideEvenly(n, limit int) (size, count, smallerCount int) {
	parts := ceilDiv(n, limit)
	size = ceilDiv(n, parts)
	count = n - parts*(size-1)
	return size, count, parts - count
}
