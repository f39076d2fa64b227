package gemm

import (
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the schedule ([Plan]) of a product ([Spec]). C is divided into tiles, the units of work of a worker.
// A phase is a set of independent tiles, or of packing tasks.
//
// A term is the product A[i,k]·B[k,j] for one k, so each element of C is a sum of K terms. K is divided into
// super-blocks, and these into blocks. One pass over a tile adds the terms of one block to C. Args.Shared holds the
// packed panels of one super-block at a time. For example, K = 2500 and a maximum of 1024 terms give blocks of 834, 834
// and 832 terms. They form one super-block if their shared panels do not exceed the maximum size of Args.Shared.
//
// A panel is a group of adjacent rows of A or columns of B, stored contiguously. Rows of A and columns of B are both
// called lanes. In a panel of 4 columns of B, for example, the terms follow one another:
//
//	B[0,0] B[0,1] B[0,2] B[0,3]   B[1,0] B[1,1] B[1,2] B[1,3]   B[2,0] ...

// path selects the loops that execute a plan.
type path uint8

const (
	pathSimple path = iota // strided loops, for tiny products and for K = 0
	pathDot                // dot products, for few rows if columns of B are contiguous
	pathAxpy               // sums of multiples of rows of B, for few rows if rows of B are contiguous
	pathTiled              // packed panels and register tiles
)

// Plan is the schedule of a product. The package comment describes its phases. It is immutable and safe for concurrent
// use.
type Plan struct {
	spec    Spec // the executed product: A and B are exchanged if swapped is set
	swapped bool
	path    path
	kernels *kernelSet // the inner loops

	// The division of the product.

	tileRows, tileCols int // rows and columns of a tile
	mTiles, nTiles     int // numbers of rows and columns of tiles
	firstRowCols       int // columns of a tile in the first row of tiles, if this row copies B into panels
	joinedCols         int // with pathDot and pathAxpy: columns that RunRange computes together
	rowsPerBlock       int // rows of A in a block that fits L2
	kc                 int // depth of a block of K, in terms
	maxSuperBlockTerms int // maximum depth of a super-block of K, in terms

	// Operands and memory.

	a, b        operandPlan  // how the tiled path reads A and B
	worker      workerLayout // layout of worker scratch
	sharedBytes int          // size of Args.Shared in bytes

	// Machine code.

	codes                *codeTable        // generated machine code; nil for kernels in Go
	prefetchInterval     int               // terms between prefetches, in tiles that copy B or read the copy
	prefetchResultInLoop bool              // rows of the result are prefetched in the loop over terms, not before it
	prefetchLines        [numReadModes]int // cache lines of B that an iteration prefetches; see linesToPrefetch
	callsSpanPanels      bool              // one call processes several panels of B; see spansPanels
	prefetchesOwnPanel   bool              // the prefetched lines belong to the panel that the tile reads
	recorded             *recordedCalls    // the calls of machine code of every run; nil if they are not recorded
}

// workerLayout holds offsets into an aligned worker scratch, in bytes. On the tiled path, the scratch has the panels of
// A (at offset 0) and of B that a tile packs or converts, then a temporary register tile, then the tile's part of the
// bias. On pathDot and pathAxpy, it has the copied rows of A, then the sums (at packedB), then the sums of later
// super-blocks (at tempTile).
type workerLayout struct {
	packedB, tempTile, rowBias, colBias, totalBytes int
}

// NewPlan schedules a product. The schedule depends only on the spec and on the CPU's kernel set.
func NewPlan(spec Spec) (*Plan, error) {
	if !Multiplies(spec.DType) {
		return nil, fmt.Errorf("gemm: products of dtype %v are not supported", spec.DType)
	}
	set := kernelsOf(spec.DType)
	key := planKey{spec, set.name}
	plans.Lock()
	shared := plans.byKey[key].Value()
	plans.Unlock()
	if shared != nil {
		return shared, nil
	}
	plan, err := newPlan(set, spec, sharedElems)
	if err != nil {
		return nil, err
	}
	plans.Lock()
	defer plans.Unlock()
	plans.byKey[key] = weak.Make(plan)
	runtime.AddCleanup(plan, func(key planKey) {
		plans.Lock()
		defer plans.Unlock()
		if plans.byKey[key].Value() == nil { // otherwise another plan has replaced it
			delete(plans.byKey, key)
		}
	}, key)
	return plan, nil
}

// planKey identifies a plan: NewPlan returns the same plan for equal keys, as long as it is in use. A program has
// compiled graphs for many sets of sizes, in which most products are equal.
type planKey struct {
	spec    Spec
	kernels string
}

var plans = struct {
	sync.Mutex
	byKey map[planKey]weak.Pointer[Plan]
}{byKey: map[planKey]weak.Pointer[Plan]{}}

// newPlan makes a plan as NewPlan does, for a given kernel set. maxShared is the maximum number of elements in shared
// panels.
func newPlan(set *kernelSet, spec Spec, maxShared int) (*Plan, error) {
	if err := spec.check(set); err != nil {
		return nil, err
	}
	plan := &Plan{spec: spec, kernels: set}
	if spec.N == 1 { // the column stride of C is not used, and a stride of 1 is the fastest
		plan.spec.CColStride = 1
	}
	// The first comparison prevents an overflow in the second.
	isTiny := spec.M*spec.N <= simpleMACs && spec.M*spec.N*spec.K <= simpleMACs
	if spec.isEmpty() || spec.Algorithm == Loops || spec.Algorithm == Any && spec.isStrided() && isTiny {
		plan.planSimple()
		return plan, nil
	}
	mayBeThin := (spec.Algorithm == Any || spec.Algorithm == Thin) && spec.isStrided()
	if mayBeThin && plan.planThin() {
		return plan, nil
	}
	plan.chooseOperandAccess()
	plan.planTiled(maxShared)
	if !set.hasMachineCode() {
		return plan, nil
	}
	if err := plan.compile(); err != nil {
		return nil, err
	}
	plan.recordCalls()
	return plan, nil
}

// swap replaces the product by the equal product Cᵀ = Bᵀ·Aᵀ.
func (p *Plan) swap() {
	spec := &p.spec
	p.swapped = !p.swapped
	spec.M, spec.N = spec.N, spec.M
	spec.A, spec.B = spec.B, spec.A
	spec.A.RowStride, spec.A.ColStride = spec.A.ColStride, spec.A.RowStride
	spec.B.RowStride, spec.B.ColStride = spec.B.ColStride, spec.B.RowStride
	spec.CRowStride, spec.CColStride = spec.CColStride, spec.CRowStride
	switch spec.Bias {
	case BiasRows:
		spec.Bias = BiasCols
	case BiasCols:
		spec.Bias = BiasRows
	}
}

// planTiled divides the product into tiles, blocks and super-blocks, and lays out the shared memory and the scratch of
// a worker.
func (p *Plan) planTiled(maxShared int) {
	spec := &p.spec
	p.path = pathTiled
	// chooseOperandAccess has set kc and the widths of panels.
	tiling := chooseGrid(p.a, p.b, spec.K, p.kc, p.kernels.maxTiles(spec.M, spec.N, spec.K))
	p.tileRows, p.tileCols, p.mTiles, p.nTiles = tiling.tileRows, tiling.tileCols, tiling.mTiles, tiling.nTiles
	p.a.packedOnce, p.b.packedOnce = tiling.shareA, tiling.shareB
	p.rowsPerBlock = p.blockRows()
	p.b.convertedOnce = p.b.half != target.NotHalf && p.tilesPerStrip() > 1
	// A tile of the first row gets enough columns for a unit of parallel work, but at most p.tileCols, because worker
	// scratch has room for p.tileCols elements of the bias.
	panelMACs := p.tileRows * p.b.panelWidth * min(spec.K, p.kc)
	p.firstRowCols = min(p.tileCols, p.b.panelWidth*max(1, machine.MACGrain/panelMACs))
	p.chooseSuperBlocks(maxShared)
	p.layOutWorkerScratch()
}

// blockRows returns the number of rows of A in a block that fits L2. It is a multiple of the panel width.
func (p *Plan) blockRows() int {
	return max(1, blockBytes/(p.a.panelWidth*p.kc*p.a.elemBytes)) * p.a.panelWidth
}

// chooseSuperBlocks sets the depth of a super-block and the size of the shared panels. The panels of a super-block have
// at most maxShared elements. If one block of K has more, the super-block is one block.
func (p *Plan) chooseSuperBlocks(maxShared int) {
	lanes := 0 // lanes of all shared panels
	for _, operand := range []operandPlan{p.a, p.b} {
		if operand.packedOnce {
			lanes += roundUp(operand.extent, operand.panelWidth)
		}
	}
	depth := p.spec.K
	p.maxSuperBlockTerms = depth
	if lanes*depth > maxShared { // a super-block has as many whole blocks of K as fit, at least one
		p.maxSuperBlockTerms = min(depth, max(p.kc, maxShared/lanes/p.kc*p.kc))
	}
	if lanes > 0 {
		p.sharedBytes = lanes*p.maxSuperBlockTerms*p.kernels.elemBytes + alignBytes
	}
}

// layOutWorkerScratch sets the layout of worker scratch on the tiled path; see workerLayout.
func (p *Plan) layOutWorkerScratch() {
	spec, elemBytes, layout := &p.spec, p.kernels.elemBytes, &p.worker
	alignedBytes := func(elems int) int { return roundUp(elems*elemBytes, alignBytes) }
	if p.a.packsPerTile() {
		layout.packedB = alignedBytes(p.tileRows * p.kc)
	}
	layout.tempTile = layout.packedB
	if p.b.packsPerTile() {
		layout.tempTile += alignedBytes(p.tileCols * p.kc)
	}
	if p.b.convertedOnce {
		layout.tempTile += alignedBytes(p.b.panelWidth * p.kc)
	}
	layout.rowBias = layout.tempTile + alignedBytes(max(p.kernels.mr, maxHeight)*p.kernels.nr)
	layout.colBias = layout.rowBias
	if spec.Bias == BiasRows {
		layout.colBias += alignedBytes(p.tileRows + p.kernels.mr) // kernels may read whole panels of the bias
	}
	layout.totalBytes = layout.colBias + alignBytes // the first bytes are skipped if the scratch is not aligned
	if spec.Bias == BiasCols {
		layout.totalBytes += (p.tileCols + p.kernels.nr) * elemBytes
	}
}

// FoldOrder identifies the order of the sums of products. Two plans for the same B may differ in the number of rows of
// A. If their orders are equal, a row of A gives the same bits of C in both plans.
func (p *Plan) FoldOrder() string {
	order := fmt.Sprint(p.path, p.swapped, p.maxSuperBlockTerms, p.kc)
	if p.swapped && p.path != pathTiled {
		// The rows of the caller's A are the columns of B. The sums of a column depend on its position, because different
		// loops compute complete groups of columns and the last columns.
		order += fmt.Sprint(" ", p.spec.N)
	}
	return order
}

// DType returns the dtype of the operands.
func (p *Plan) DType() tensor.DType { return p.spec.DType }

// PackRows returns the width of the panels that a [PackFunc] of A must write.
func (p *Plan) PackRows() int { return p.kernels.mr }

// PackCols returns the width of the panels that a [PackFunc] of B must write.
func (p *Plan) PackCols() int { return p.kernels.nr }

// SharedBytes returns the size of Args.Shared in bytes.
func (p *Plan) SharedBytes() int { return p.sharedBytes }

// WorkerBytes returns the size in bytes of the scratch of one Run call. Concurrent calls need different scratch.
func (p *Plan) WorkerBytes() int { return p.worker.totalBytes }

// sharesPanels reports whether tiles share panels.
func (p *Plan) sharesPanels() bool { return p.a.packedOnce || p.b.packedOnce }

// phaseWork is the work of a phase.
type phaseWork uint8

const (
	computeAll       phaseWork = iota // the whole product
	packOnly                          // packing only
	computeFirstRow                   // the first row of tiles, which copies B into panels for the other rows
	computeOtherRows                  // the other rows of tiles
)

// phasesPerSuperBlock returns the number of phases of a super-block of K, in a plan that shares panels. There is one
// phase if the first row of tiles packs B and is the only row. Otherwise there are two.
func (p *Plan) phasesPerSuperBlock() int {
	if p.b.packedByFirstRow && p.mTiles == 1 {
		return 1
	}
	return 2
}

// phase returns the index of a phase's super-block of K, and the part of the work that the phase does.
func (p *Plan) phase(index int) (superBlock int, work phaseWork) {
	if !p.sharesPanels() {
		return 0, computeAll
	}
	perSuperBlock := p.phasesPerSuperBlock()
	superBlock = index / perSuperBlock
	switch isFirst := index%perSuperBlock == 0; {
	case isFirst && p.b.packedByFirstRow:
		return superBlock, computeFirstRow
	case isFirst:
		return superBlock, packOnly
	case p.b.packedByFirstRow:
		return superBlock, computeOtherRows
	}
	return superBlock, computeAll
}

// Phases returns the number of phases. All tiles of a phase must have finished before a tile of the next phase starts.
// The tiles of a phase are independent.
func (p *Plan) Phases() int {
	if !p.sharesPanels() {
		return 1
	}
	return p.phasesPerSuperBlock() * ceilDiv(p.spec.K, p.maxSuperBlockTerms)
}

// Tiles returns the number of tiles of a phase.
func (p *Plan) Tiles(phase int) int {
	superBlock, work := p.phase(phase)
	switch work {
	case packOnly:
		depth := p.superBlockDepth(superBlock)
		return p.a.packTiles(depth) + p.b.packTiles(depth)
	case computeFirstRow:
		return ceilDiv(p.spec.N, p.firstRowCols)
	case computeOtherRows:
		return (p.mTiles - 1) * p.nTiles
	}
	return p.mTiles * p.nTiles
}

// tile returns the rows [i0, i1) and columns [j0, j1) of the tile with an index, in a phase that computes. The tiles of
// a column of tiles are consecutive.
func (p *Plan) tile(work phaseWork, index int) (i0, i1, j0, j1 int) {
	rows, skippedRows, cols := p.mTiles, 0, p.tileCols
	switch work {
	case computeFirstRow:
		rows, cols = 1, p.firstRowCols
	case computeOtherRows:
		rows, skippedRows = p.mTiles-1, 1
	}
	i0, j0 = (index%rows+skippedRows)*p.tileRows, index/rows*cols
	return i0, min(i0+p.tileRows, p.spec.M), j0, min(j0+cols, p.spec.N)
}

// superBlockDepth returns the number of terms of super-block i of K. Only the last super-block may be shorter than the
// others.
func (p *Plan) superBlockDepth(i int) int {
	return min(p.maxSuperBlockTerms, p.spec.K-i*p.maxSuperBlockTerms)
}
