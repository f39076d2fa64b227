package gemm

const (
	// alignBytes is the alignment of packed panels inside scratch buffers: a
	// vector load that straddles two cache lines costs two.
	alignBytes = 64
	// sharedElems bounds the panels that packing phases keep at a time. Larger
	// products pack and multiply one super-block of K after another.
	sharedElems = 8 << 20
	// packTileElems is the size of one packing tile.
	packTileElems = 32 << 10
	// blockElems bounds the A panels swept per panel of B, so that they stay
	// in L2 beside the tile's B block.
	blockElems = 96 << 10
)

// Costs in multiply-adds of the widest kernel, from measurements on Zen 5.
// They only have to rank grids; slower kernels shift the balance little.
const (
	costTile   = 40 << 10  // dispatching a tile
	costPhase  = 120 << 10 // a barrier between phases
	costPack   = 24        // packing an element from memory
	costCustom = 48        // packing an element through a callback
	costShare  = 12        // writing a packed element out and reading it back
	costLoadA  = 4         // moving an element of A into L2, once per tile
	costLoadB  = 10        // moving an element of B into L1
	costC      = 5         // updating an element of C once per K block
)

// grid is a division of C into mTiles×nTiles tiles of mt×nt.
type grid struct {
	mt, nt         int
	mTiles, nTiles int
	shareA, shareB bool
}

// tilePanels are the tile extents considered, in panels.
var tilePanels = [...]int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 1 << 30}

// gridWorkers are the worker counts a grid should suit. 32 stands for spare
// tiles, which even out 16 workers of unequal speed.
var gridWorkers = [...]int{1, 2, 3, 4, 6, 8, 12, 16, 32}

// localPanels bounds how many panels a tile may pack for itself: beyond that
// its block outgrows L2.
const (
	localPanelsA = 32
	localPanelsB = 12
)

// chooseGrid picks the grid with the least core time summed over several
// worker counts. Small tiles balance load, large ones reuse packed panels; a
// grid that is fair to 1 and to 16 workers has the schedule, and hence the
// result, independent of the number of workers.
func chooseGrid(a, b side, k, kc int) grid {
	var best grid
	bestCost := -1.0
	pa, pb := ceilDiv(a.lanes, a.w), ceilDiv(b.lanes, b.w)
	lastM := 0
	for _, ma := range tilePanels {
		mTiles := ceilDiv(pa, min(ma, pa))
		mp := ceilDiv(pa, mTiles)
		if mp == lastM {
			continue
		}
		lastM = mp
		lastN := 0
		for _, nb := range tilePanels {
			nTiles := ceilDiv(pb, min(nb, pb))
			np := ceilDiv(pb, nTiles)
			if np == lastN {
				continue
			}
			lastN = np
			g := grid{mt: mp * a.w, nt: np * b.w, mTiles: ceilDiv(pa, mp), nTiles: ceilDiv(pb, np)}
			g.shareA = a.source != Prepacked && (g.nTiles > 1 || mp > localPanelsA)
			g.shareB = b.source != Prepacked && (g.mTiles > 1 || np > localPanelsB)
			if c := g.cost(a, b, k, kc); bestCost < 0 || c < bestCost {
				best, bestCost = g, c
			}
		}
	}
	return best
}

// cost estimates core time summed over gridWorkers.
func (g grid) cost(a, b side, k, kc int) float64 {
	depth := float64(k)
	blocks := float64(ceilDiv(k, kc))
	mt, nt := float64(min(g.mt, roundUp(a.lanes, a.w))), float64(min(g.nt, roundUp(b.lanes, b.w)))
	tile := mt*nt*depth + costTile + mt*nt*blocks*costC + mt*depth*costLoadA + nt*depth*costLoadB
	shared := 0.0
	for _, s := range []struct {
		side
		extent float64
		shared bool
	}{{a, mt, g.shareA}, {b, nt, g.shareB}} {
		each := float64(costPack)
		if s.source == Custom {
			each = costCustom
		}
		switch {
		case s.shared:
			shared += float64(roundUp(s.lanes, s.w)) * depth * (each + costShare)
		case s.source != Prepacked:
			tile += s.extent * depth * each
		}
	}
	barrier := 0.0
	if g.shareA || g.shareB {
		barrier = costPhase
	}
	total := 0.0
	for _, w := range gridWorkers {
		rounds := float64(ceilDiv(g.mTiles*g.nTiles, w))
		total += shared + (barrier+rounds*tile)*float64(w)
	}
	return total
}

// packChunk is the extent of one packing tile: groups of panels by depth.
func (d side) packChunk(depth int) (panels, k int) {
	k = min(depth, max(256, packTileElems/d.w))
	return max(1, packTileElems/(d.w*k)), k
}

// packTiles is the number of packing tiles of the side for one super-block.
func (d side) packTiles(depth int) int {
	if !d.shared {
		return 0
	}
	panels, k := d.packChunk(depth)
	return ceilDiv(ceilDiv(d.lanes, d.w), panels) * ceilDiv(depth, k)
}
