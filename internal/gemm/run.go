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
// super-blocks, and these into blocks. For each block, runTile locates or packs the panels of both operands. It then
// calls a kernel for each register tile, in machine code (strips.go) or in Go (run_go.go).
//
// If tiles share panels, each super-block has two phases. The first phase packs the panels (packOnly), and the second
// phase computes all tiles. If p.b.packedByFirstRow is set, the first phase computes the first row of tiles, which also
// packs B. The second phase then computes the other rows (computeOtherRows), if there are any.
//
// In this package, i counts rows of C, j counts columns of C, k counts terms, and l counts lanes. The names i0 and i1
// denote the range [i0, i1). A Plan has an operandPlan for each operand (p.a and p.b), which states how tiles read the
// operand.

// execution is the state of one Run call. If the plan computes the transposed product, A of the plan is the caller's B,
// and B of the plan is the caller's A.
type execution struct {
	*Plan
	memoryA, memoryB                 operandMemory
	ptrC, bias                       unsafe.Pointer
	worker                           unsafe.Pointer // aligned worker scratch
	superBlockStart, superBlockTerms int            // first term and number of terms of the current super-block of K
	copyPanels                       bool           // whether the first tile that reads a panel of B packs or converts it
	epilogue                         func(i0, i1, j0, j1 int)
	check                            func() // Args.Check, or nil
	macsSinceCheck                   int    // multiply-accumulate operations since check was called
}

// operandMemory is the memory of A or B in one Run call.
type operandMemory struct {
	operand unsafe.Pointer // the operand, or its panels if it is prepacked
	pack    PackFunc       // writes panels of an operand of source Custom
	shared  unsafe.Pointer // aligned shared panels of the current super-block
}

// Run executes one tile of one phase. worker is scratch of WorkerBytes bytes for this call only. Its initial
// contents do not matter. Run allocates nothing and starts no goroutine.
func (p *Plan) Run(phase, tile int, args *Args, worker []byte) {
	if p.spec.M == 0 || p.spec.N == 0 {
		return
	}
	x := p.execution(args, worker)
	superBlock, work := p.phase(phase)
	x.copyPanels = p.b.packedByFirstRow && work != computeOtherRows || p.b.convertedOnce
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
		x.runTile(i0, i1, j0, j1) // runTile calls the epilogue, for each part of the tile
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
	x := execution{Plan: p, memoryA: operandMemory{operand: args.A, pack: args.PackA},
		memoryB: operandMemory{operand: args.B, pack: args.PackB}, ptrC: args.C, bias: args.Bias, check: args.Check}
	if p.swapped {
		x.memoryA.operand, x.memoryB.operand = args.B, args.A
	}
	if n := p.worker.totalBytes; n > 0 {
		x.worker = aligned(worker[:n])
	}
	return x
}

// setSuperBlock sets the super-block of K, and locates the shared panels. Without shared panels, all K terms are one
// super-block.
func (x *execution) setSuperBlock(index int, shared []byte) {
	if !x.sharesPanels() {
		x.superBlockTerms = x.spec.K
		return
	}
	x.superBlockStart = index * x.maxSuperBlockTerms
	x.superBlockTerms = x.superBlockDepth(index)
	panels := aligned(shared[:x.sharedBytes])
	x.memoryA.shared, x.memoryB.shared = panels, panels
	if x.a.packedOnce { // the panels of B follow the panels of A
		x.memoryB.shared = x.elem(panels, roundUp(x.a.extent, x.a.panelWidth)*x.maxSuperBlockTerms)
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
	// checkMACs is the number of multiply-accumulate operations (MACs) between two calls of Args.Check. They take at most
	// 10 ms with the slowest kernels.
	checkMACs = 1 << 21
	// packCost is the cost of packing an element by a PackFunc, in MACs.
	packCost = 16
	// stripCost is the cost of preparing a strip (a panel of B times a block of rows of A), in MACs.
	stripCost = 1 << 12
)

// countMACs counts n MACs, or packing work with the cost of n MACs. It calls Args.Check after every checkMACs MACs.
func (x *execution) countMACs(n int) {
	if x.macsSinceCheck += n; x.macsSinceCheck >= checkMACs && x.check != nil {
		x.macsSinceCheck = 0
		x.check()
	}
}

// aligned returns the first address in `memory` that is a multiple of alignBytes. memory must have alignBytes-1 more
// bytes than the caller uses.
func aligned(memory []byte) unsafe.Pointer {
	ptr := unsafe.Pointer(unsafe.SliceData(memory))
	return unsafe.Add(ptr, -uintptr(ptr)&(alignBytes-1)) // the distance to the next multiple
}

// elem returns the address of element i of the array at ptr.
func (p *Plan) elem(ptr unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(ptr, i*p.kernels.elemBytes)
}

// runPack executes a tile of a packing phase: it packs one chunk of a shared operand for the current super-block.
func (x *execution) runPack(tile int) {
	if tilesOfA := x.a.packTiles(x.superBlockTerms); tile >= tilesOfA {
		x.packShared(tile-tilesOfA, &x.b, &x.memoryB)
		return
	}
	x.packShared(tile, &x.a, &x.memoryA)
}

// operandPart is a part of A or B: terms [k0, k1) of lanes [l0, l1).
type operandPart struct{ k0, k1, l0, l1 int }

// packShared packs one chunk of an operand, a part of the lanes and terms of a super-block, into shared panels.
func (x *execution) packShared(tile int, operand *operandPlan, memory *operandMemory) {
	// A packing tile is a group of panels and a range of terms. Adjacent tiles have adjacent groups. Panels are adjacent
	// in memory. In the panel that begins with lane l, term k of the super-block is at l*superBlockTerms + k*panelWidth.
	panels, depth := operand.packChunk(x.superBlockTerms)
	panelGroups := ceilDiv(ceilDiv(operand.extent, operand.panelWidth), panels)
	panelGroup, termRange := tile%panelGroups, tile/panelGroups
	firstLane := panelGroup * panels * operand.panelWidth
	endLane := min(firstLane+panels*operand.panelWidth, operand.extent)
	firstTerm := termRange * depth
	endTerm := min(firstTerm+depth, x.superBlockTerms)
	part := operandPart{k0: x.superBlockStart + firstTerm, k1: x.superBlockStart + endTerm, l0: firstLane, l1: endLane}
	if depth == x.superBlockTerms {
		// Whole panels follow one another, so one call packs the group.
		operand.pack(x.elem(memory.shared, firstLane*x.superBlockTerms), memory, part)
		return
	}
	for lane := firstLane; lane < endLane; lane += operand.panelWidth {
		part.l0, part.l1 = lane, min(lane+operand.panelWidth, operand.extent)
		operand.pack(x.elem(memory.shared, lane*x.superBlockTerms+firstTerm*operand.panelWidth), memory, part)
	}
}

// pack fills the panels at dst with a part of the operand.
func (operand *operandPlan) pack(dst unsafe.Pointer, memory *operandMemory, part operandPart) {
	lanes := roundUp(part.l1-part.l0, operand.panelWidth)
	panels := unsafe.Slice((*byte)(dst), lanes*(part.k1-part.k0)*operand.elemBytes)
	if operand.source == Custom {
		memory.pack(panels, part.k0, part.k1, part.l0, part.l1)
		return
	}
	packPanels(operand.elemBytes, panels, operand.panelWidth, memory.operand, operand.laneStride, operand.termStride,
		part.k0, part.k1, part.l0, part.l1)
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
	elemBytes   int // bytes of an element
}

// laneOffset returns the offset of a lane from base, in elements. Lane 0 is the tile's first lane.
func (v *operandView) laneOffset(lane int) int {
	if v.inPlace {
		return lane * v.laneStride
	}
	return lane/v.panelWidth*v.panelStride + lane%v.panelWidth
}

// locate sets the view to a part of an operand. If each tile packs separate panels, locate packs them to ownPanels, in
// the worker's scratch.
func (x *execution) locate(view *operandView, operand *operandPlan, memory *operandMemory, ownPanels unsafe.Pointer,
	part operandPart) {
	k0, l0, panelWidth := part.k0, part.l0, operand.panelWidth
	view.panelWidth, view.termStride, view.inPlace = panelWidth, panelWidth, operand.inPlace
	view.elemBytes = operand.elemBytes
	switch {
	case operand.convertedOnce: // one panel after another is converted to the same memory
		view.base, view.panelStride, view.elemBytes = ownPanels, 0, x.kernels.elemBytes
	case operand.inPlace:
		view.base = x.elem(memory.operand, l0*operand.laneStride+k0*operand.termStride)
		view.laneStride, view.termStride = operand.laneStride, operand.termStride
	case operand.source == Prepacked: // panels of K terms
		view.base = unsafe.Add(memory.operand, (l0*x.spec.K+k0*panelWidth)*operand.elemBytes)
		view.panelStride = panelWidth * x.spec.K
	case operand.packedOnce: // shared panels of superBlockTerms terms
		view.base = x.elem(memory.shared, l0*x.superBlockTerms+(k0-x.superBlockStart)*panelWidth)
		view.panelStride = panelWidth * x.superBlockTerms
	default: // the tile's own panels, of k1-k0 terms
		if !operand.packedByFirstRow { // else the kernels pack them
			operand.pack(ownPanels, memory, part)
		}
		view.base = ownPanels
		view.panelStride = panelWidth * (part.k1 - k0)
	}
}

// runTile computes C[i0:i1, j0:j1] over the current super-block. It loops over blocks of K. Within a block of K,
// computePanels (for machine code) and computePanelsInGo loop over blocks of A that fit L2, and for each block of A
// over panels of B that fit L1.
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
	ownPanelsB := unsafe.Add(x.worker, plan.worker.packedB) // the panels of A are at the start of x.worker
	end := x.superBlockStart + x.superBlockTerms
	state := tileState{execution: x, i0: i0, j0: j0, j1: j1}
	var a, b operandView
	for k0 := x.superBlockStart; k0 < end; k0 += plan.kc { // kc is the maximum number of terms of a block
		k1 := min(k0+plan.kc, end)
		x.locate(&a, &plan.a, &x.memoryA, x.worker, operandPart{k0, k1, i0, i1})
		x.locate(&b, &plan.b, &x.memoryB, ownPanelsB, operandPart{k0, k1, j0, j1})
		state.k0, state.kc, state.isFirstBlock, state.isLastBlock = k0, k1-k0, k0 == 0, k1 == spec.K
		x.countMACs(packCost * (i1 - i0 + j1 - j0) * state.kc) // locate may have packed these rows and columns
		if args != nil {
			state.computePanels(args, &a, &b, i0, i1, j0, j1)
		} else {
			state.computePanelsInGo(&a, &b, i0, i1, j0, j1)
		}
	}
}

// gatherBias copies the tile's part of the bias to contiguous worker scratch. Kernels may read whole panels of this
// copy.
func (x *execution) gatherBias(i0, i1, j0, j1 int) {
	var dst unsafe.Pointer
	var lane, end int // the lanes [lane, end) are still to be copied; none without a bias
	switch x.spec.Bias {
	case BiasRows:
		dst, lane, end = unsafe.Add(x.worker, x.Plan.worker.rowBias), i0, i1
	case BiasCols:
		dst, lane, end = unsafe.Add(x.worker, x.Plan.worker.colBias), j0, j1
	}
	elemBytes := x.kernels.elemBytes
	mover := strided.MoverOf(elemBytes)
	for lane < end {
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
	recordedTo                *[]call // if not nil, calls are appended to this list instead of being executed

	// A strip is a panel of B times a block of rows of A. A stack is a column of register tiles of equal height in a
	// strip. These are the stacks of the last strip that computeStrip divided. Strips of the same size reuse these stacks.

	stacks                      [maxStacks]tileStack // stackCount entries are in use
	stackCount                  int
	stackedRows, stackedVectors int // size of the strip: rows, and vectors of columns
}

// temporary returns the buffer for a register tile that the kernel cannot store in C, for example because the rows of C
// are not contiguous.
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
