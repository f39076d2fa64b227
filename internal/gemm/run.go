package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/strided"
)

// This file runs the tiles of a plan. A term is one of the K products whose sum is an element of C. A lane is a row of
// A or a column of B. A panel is a contiguous copy of a few lanes.
//
// Run calls the loops of the plan's path: runTile, or the functions of direct.go. On the tiled path, K is divided into
// super-blocks, and these into blocks. For each block, runTile locates or packs the panels of both operands, and then
// calls a kernel for each register tile.
//
// In this package, i counts rows of C, j its columns, k terms, and l lanes. The names i0 and i1 stand for the range
// [i0, i1).

// execution is the state of one Run call. If the plan computes the transposed product, its A is the caller's B, and
// vice versa.
type execution struct {
	*Plan
	ptrA, ptrB, ptrC                 unsafe.Pointer
	bias                             unsafe.Pointer
	packA, packB                     PackFunc       // callbacks for operands of source Custom
	sharedA, sharedB                 unsafe.Pointer // aligned shared panels
	worker                           unsafe.Pointer // aligned worker scratch
	superBlockStart, superBlockTerms int            // first term and number of terms of the current super-block of K
	copyPanels                       bool           // whether the first register tile of each panel of B copies the panel
	epilogue                         func(i0, i1, j0, j1 int)
	check                            func() // Args.Check, or nil
	macsSinceCheck                   int    // multiply-accumulate operations since check was called
}

// Run executes one tile of one phase. worker is scratch of WorkerBytes bytes for this call only. Its initial
// contents do not matter. Run allocates nothing and starts no goroutine.
func (p *Plan) Run(phase, tile int, args *Args, worker []byte) {
	if p.spec.M == 0 || p.spec.N == 0 {
		return
	}
	x := p.execution(args, worker)
	superBlock, work := p.phase(phase)
	x.copyPanels = p.b.packedByFirstRow && work != computeOtherRows
	x.setSuperBlock(superBlock, args.Shared)
	if work == packOnly {
		x.runPack(tile)
		return
	}
	i0, i1, j0, j1 := p.tile(work, tile)
	if x.superBlockStart+x.superBlockTerms == p.spec.K {
		x.epilogue = args.Epilogue
	}
	switch p.path {
	case pathTiled:
		x.runTile(i0, i1, j0, j1)
		return
	case pathSimple:
		x.runSimple(i0, i1, j0, j1)
	default:
		x.runDirect(j0, j1)
	}
	x.runEpilogue(i0, i1, j0, j1)
}

// execution returns the state of a Run call with these operands and this worker scratch.
func (p *Plan) execution(args *Args, worker []byte) execution {
	x := execution{Plan: p, ptrA: args.A, ptrB: args.B, ptrC: args.C, bias: args.Bias,
		packA: args.PackA, packB: args.PackB, check: args.Check}
	if p.swapped {
		x.ptrA, x.ptrB = x.ptrB, x.ptrA
	}
	if n := p.worker.totalBytes; n > 0 {
		x.worker = aligned(worker[:n])
	}
	return x
}

// setSuperBlock sets the super-block of K, and locates the shared panels. Without shared panels there is one
// super-block, which runDirect may divide.
func (x *execution) setSuperBlock(index int, shared []byte) {
	if !x.sharesPanels() {
		x.superBlockTerms = x.spec.K
		return
	}
	x.superBlockStart = index * x.maxSuperBlockTerms
	x.superBlockTerms = x.superBlockDepth(index)
	x.sharedA = aligned(shared[:x.sharedBytes])
	x.sharedB = x.sharedA
	if x.a.packedOnce { // the panels of B follow the panels of A
		x.sharedB = x.elem(x.sharedA, roundUp(x.a.extent, x.a.panelWidth)*x.maxSuperBlockTerms)
	}
}

// runEpilogue calls the epilogue for a part of C. The epilogue gets rows and columns of the caller's C, even if the
// plan computes the transposed product.
func (x *execution) runEpilogue(i0, i1, j0, j1 int) {
	switch {
	case x.epilogue == nil:
	case x.swapped:
		x.epilogue(j0, j1, i0, i1)
	default:
		x.epilogue(i0, i1, j0, j1)
	}
}

// RunAll executes every phase and tile in order on the calling goroutine.
func (p *Plan) RunAll(args *Args, worker []byte) {
	for phase := range p.Phases() {
		for tile := range p.Tiles(phase) {
			p.Run(phase, tile, args, worker)
		}
	}
}

const (
	// checkMACs is the number of multiply-accumulate operations (MACs) between two calls of Args.Check: at most 10 ms,
	// with the slowest kernels.
	checkMACs = 1 << 21
	// packCost is the cost of packing an element by a PackFunc, in MACs.
	packCost = 16
	// stripCost is the cost of preparing a strip (a panel of B times a block of rows of A), in MACs.
	stripCost = 1 << 12
)

// countMACs counts n MACs, or packing work with the cost of n MACs. It calls Args.Check after every checkMACs.
func (x *execution) countMACs(n int) {
	if x.macsSinceCheck += n; x.macsSinceCheck >= checkMACs && x.check != nil {
		x.macsSinceCheck = 0
		x.check()
	}
}

// aligned returns the first address in memory that is a multiple of alignBytes. memory must have alignBytes-1 bytes
// more than the caller uses.
func aligned(memory []byte) unsafe.Pointer {
	ptr := unsafe.Pointer(unsafe.SliceData(memory))
	return unsafe.Add(ptr, -uintptr(ptr)&(alignBytes-1))
}

// elem returns the address of element i of the array at ptr.
func (p *Plan) elem(ptr unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(ptr, i*p.kernels.elemBytes)
}

// runPack executes a tile of a packing phase: it packs one chunk of a shared operand for the current super-block.
func (x *execution) runPack(tile int) {
	if tilesOfA := x.a.packTiles(x.superBlockTerms); tile >= tilesOfA {
		x.packShared(tile-tilesOfA, x.b, x.ptrB, x.packB, x.sharedB)
		return
	}
	x.packShared(tile, x.a, x.ptrA, x.packA, x.sharedA)
}

// packShared packs one chunk of an operand, a part of the lanes and terms of a super-block, into shared panels.
func (x *execution) packShared(tile int, operand operandPlan, src unsafe.Pointer, pack PackFunc, dst unsafe.Pointer) {
	// A packing tile is a group of panels and a range of terms. Adjacent tiles have adjacent groups. Panels are adjacent
	// in memory: the panel that begins with lane l has term k of the super-block at l*superBlockTerms + k*panelWidth.
	panels, depth := operand.packChunk(x.superBlockTerms)
	panelGroups := ceilDiv(ceilDiv(operand.extent, operand.panelWidth), panels)
	firstLane := tile % panelGroups * panels * operand.panelWidth
	endLane := min(firstLane+panels*operand.panelWidth, operand.extent)
	firstTerm := tile / panelGroups * depth
	endTerm := min(firstTerm+depth, x.superBlockTerms)
	if depth == x.superBlockTerms {
		// Whole panels follow one another, so one call packs the group.
		x.pack(x.elem(dst, firstLane*x.superBlockTerms), &operand, src, pack, x.superBlockStart,
			x.superBlockStart+x.superBlockTerms, firstLane, endLane)
		return
	}
	for lane := firstLane; lane < endLane; lane += operand.panelWidth {
		panelEnd := min(lane+operand.panelWidth, operand.extent)
		x.pack(x.elem(dst, lane*x.superBlockTerms+firstTerm*operand.panelWidth), &operand, src, pack,
			x.superBlockStart+firstTerm, x.superBlockStart+endTerm, lane, panelEnd)
	}
}

// pack fills the panels at dst with lanes [l0, l1) and terms [k0, k1) of an operand.
func (p *Plan) pack(dst unsafe.Pointer, operand *operandPlan, src unsafe.Pointer, pack PackFunc, k0, k1, l0, l1 int) {
	panels := unsafe.Slice((*byte)(dst), roundUp(l1-l0, operand.panelWidth)*(k1-k0)*operand.elemBytes)
	if operand.source == Custom {
		pack(panels, k0, k1, l0, l1)
		return
	}
	packPanels(operand.elemBytes, panels, operand.panelWidth, src, operand.laneStride, operand.termStride, k0, k1, l0,
		l1)
}

// operandView is the memory from which kernels read an operand in a block of K: panels, or the operand itself.
// Distances are in elements.
type operandView struct {
	base        unsafe.Pointer // address of the tile's first lane
	panelWidth  int            // lanes of a panel
	panelStride int            // distance between panels
	laneStride  int            // distance between lanes, for an operand read in place
	termStride  int            // distance between terms
	inPlace     bool
}

// laneOffset returns the offset of a lane from base, in elements. Lane 0 is the tile's first lane.
func (v *operandView) laneOffset(lane int) int {
	if v.inPlace {
		return lane * v.laneStride
	}
	return lane/v.panelWidth*v.panelStride + lane%v.panelWidth
}

// locate sets the view to lanes [l0, l1) and terms [k0, k1) of an operand at src. shared has the panels that tiles
// share. If the tile packs its own panels, locate packs them to ownPanels, in the worker's scratch.
func (x *execution) locate(view *operandView, operand *operandPlan, src, shared, ownPanels unsafe.Pointer,
	pack PackFunc, k0, k1, l0, l1 int) {
	view.panelWidth, view.termStride, view.inPlace = operand.panelWidth, operand.panelWidth, operand.inPlace
	switch {
	case operand.inPlace:
		view.base = x.elem(src, l0*operand.laneStride+k0*operand.termStride)
		view.laneStride, view.termStride = operand.laneStride, operand.termStride
	case operand.source == Prepacked: // panels of K terms
		view.base = x.elem(src, l0*x.spec.K+k0*operand.panelWidth)
		view.panelStride = operand.panelWidth * x.spec.K
	case operand.packedOnce: // shared panels of superBlockTerms terms
		view.base = x.elem(shared, l0*x.superBlockTerms+(k0-x.superBlockStart)*operand.panelWidth)
		view.panelStride = operand.panelWidth * x.superBlockTerms
	default: // the tile's own panels, of k1-k0 terms
		if !operand.packedByFirstRow {
			x.pack(ownPanels, operand, src, pack, k0, k1, l0, l1)
		}
		view.base = ownPanels
		view.panelStride = operand.panelWidth * (k1 - k0)
	}
}

// runTile computes C[i0:i1, j0:j1] over the current super-block. It loops over blocks of K. computePanels (for machine
// code) and computePanelsInGo loop over blocks of A that fit L2, and within each over panels of B that fit L1.
func (x *execution) runTile(i0, i1, j0, j1 int) {
	plan, spec := x.Plan, &x.spec
	if x.superBlockStart == 0 {
		x.gatherBias(i0, i1, j0, j1)
	}
	var args *jit.Args
	if plan.kernels.hasMachineCode() {
		args = argsPool.Get().(*jit.Args)
		defer release(args)
	}
	ownPanelsB := unsafe.Add(x.worker, plan.worker.packedB) // those of A are at the start of x.worker
	end := x.superBlockStart + x.superBlockTerms
	state := tileState{execution: x, i0: i0, j0: j0, j1: j1}
	var a, b operandView
	for k0 := x.superBlockStart; k0 < end; k0 += plan.kc {
		k1 := min(k0+plan.kc, end)
		x.locate(&a, &plan.a, x.ptrA, x.sharedA, x.worker, x.packA, k0, k1, i0, i1)
		x.locate(&b, &plan.b, x.ptrB, x.sharedB, ownPanelsB, x.packB, k0, k1, j0, j1)
		state.k0, state.kc, state.isFirstBlock, state.isLastBlock = k0, k1-k0, k0 == 0, k1 == spec.K
		x.countMACs(packCost * (i1 - i0 + j1 - j0) * state.kc) // locate may have packed these rows and columns
		if args != nil {
			state.computePanels(args, &a, &b, i0, i1, j0, j1)
		} else {
			state.computePanelsInGo(&a, &b, i0, i1, j0, j1)
		}
	}
}

// gatherBias copies the tile's part of the bias to contiguous worker scratch, where kernels may read whole panels of
// it.
func (x *execution) gatherBias(i0, i1, j0, j1 int) {
	var dst unsafe.Pointer
	var lane, end int // the lanes [lane, end) are still to be copied
	switch x.spec.Bias {
	case BiasRows:
		dst, lane, end = unsafe.Add(x.worker, x.Plan.worker.rowBias), i0, i1
	case BiasCols:
		dst, lane, end = unsafe.Add(x.worker, x.Plan.worker.colBias), j0, j1
	}
	elemBytes := x.kernels.elemBytes
	for mover := strided.MoverOf(elemBytes); lane < end; {
		count := min(end-lane, checkMACs/packCost)
		mover.Row(dst, x.elem(x.bias, lane*x.spec.BiasStride), elemBytes, x.spec.BiasStride*elemBytes, count)
		x.countMACs(packCost * count)
		dst, lane = x.elem(dst, count), lane+count
	}
}

// tileState is the state of a tile of C during one block of K.
type tileState struct {
	*execution
	i0, j0, j1                int     // the tile has the columns [j0, j1), and rows from i0 on
	k0, kc                    int     // the block has kc terms from term k0
	isFirstBlock, isLastBlock bool    // whether the block of K is the first or the last one
	recordedTo                *[]call // if not nil, calls are appended to it instead of being executed

	// The stacks of the last strip that computeStrip divided. Strips of the same size reuse them.

	stacks                      [maxStacks]tileStack // stackCount entries are in use
	stackCount                  int
	stackedRows, stackedVectors int // size of the strip: rows, and vectors of columns
}

// computePanelsInGo computes C[i0:i1, j0:j1] for one block of K, whose terms of A and B are a and b.
func (t *tileState) computePanelsInGo(a, b *operandView, i0, i1, j0, j1 int) {
	plan := t.Plan
	for blockStart := i0; blockStart < i1; blockStart += plan.rowsPerBlock {
		blockEnd := min(blockStart+plan.rowsPerBlock, i1)
		for j := j0; j < j1; j += plan.b.panelWidth {
			cols := min(plan.b.panelWidth, j1-j)
			bPanel := t.elem(b.base, b.laneOffset(j-j0))
			for i := blockStart; i < blockEnd; i += plan.a.panelWidth {
				t.micro(t.elem(a.base, a.laneOffset(i-i0)), bPanel, i, j, min(plan.a.panelWidth, blockEnd-i), cols)
			}
			if t.isLastBlock {
				t.runEpilogue(blockStart, blockEnd, j, j+cols)
			}
			t.countMACs(stripCost + (blockEnd-blockStart)*cols*t.kc)
		}
	}
}

// micro computes the register tile at (i, j) of C from packed panels, by a kernel in Go. If the kernel can address this
// part of C, it stores the sums there. Otherwise it stores them in the worker's temporary tile, and merge updates C.
// As in microFunc, the kernel takes distances in bytes.
func (t *tileState) micro(aPanel, bPanel unsafe.Pointer, i, j, rows, cols int) {
	plan, spec := t.Plan, &t.spec
	elemBytes, kernel := plan.kernels.elemBytes, plan.kernels.micro
	aStep := plan.a.panelWidth * elemBytes
	dst := t.elem(t.ptrC, i*spec.CRowStride+j*spec.CColStride)
	hasTwoInits := t.isFirstBlock && spec.Accumulate && spec.Bias == BiasCols // a kernel adds old C or the bias, not both
	if spec.CColStride != 1 || hasTwoInits {
		sums := t.temporary()
		kernel(t.kc, aPanel, aStep, bPanel, sums, plan.kernels.nr*elemBytes,
			unsafe.Pointer(&zeroRow), 0 /* ldinit */, nil /* rowBias */, rows, cols)
		t.merge(sums, i, j, rows, cols)
		return
	}
	cStride := spec.CRowStride * elemBytes
	init, initStride := dst, cStride
	var rowBias unsafe.Pointer
	if t.isFirstBlock {
		if !spec.Accumulate {
			init, initStride = unsafe.Pointer(&zeroRow), 0
		}
		switch spec.Bias {
		case BiasCols:
			init = t.elem(t.biasCols(), j-t.j0)
		case BiasRows:
			rowBias = t.elem(t.biasRows(), i-t.i0)
		}
	}
	kernel(t.kc, aPanel, aStep, bPanel, dst, cStride, init, initStride, rowBias, rows, cols)
}

// merge adds the temporary register tile to C at (i, j), and in the first block also the bias.
func (t *tileState) merge(sums unsafe.Pointer, i, j, rows, cols int) {
	spec := &t.spec
	var bias matrix
	if t.isFirstBlock {
		switch spec.Bias {
		case BiasRows:
			bias = matrix{t.elem(t.biasRows(), i-t.i0), 1, 0}
		case BiasCols:
			bias = matrix{t.elem(t.biasCols(), j-t.j0), 0, 1}
		}
	}
	accumulate := !t.isFirstBlock || spec.Accumulate
	t.kernels.store(rows, cols, matrix{sums, t.kernels.nr, 1}, t.result(i, j), bias, accumulate)
}

// temporary returns the buffer for a register tile that the kernel cannot store in C. An example is a C without
// contiguous rows.
func (t *tileState) temporary() unsafe.Pointer {
	return unsafe.Add(t.execution.worker, t.Plan.worker.tempTile)
}

// biasRows returns the tile's part of a bias of rows.
func (t *tileState) biasRows() unsafe.Pointer {
	return unsafe.Add(t.execution.worker, t.Plan.worker.rowBias)
}

// biasCols returns the tile's part of a bias of columns.
func (t *tileState) biasCols() unsafe.Pointer {
	return unsafe.Add(t.execution.worker, t.Plan.worker.colBias)
}
