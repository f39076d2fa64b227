package gemm

import (
	"fmt"
	"sync"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes tiles of C with generated machine code (package tile). plan.go defines panels, blocks and
// tiles. A register tile has any number of rows up to a bound, and one to four vectors of columns. Rows are divided
// evenly among register tiles and need no padding. Columns are padded in the last vector of a panel only. An operand
// with a stride of 1 is read in place, because packing is rarely faster.
//
// Loops are nested as follows. A tile of C is divided into blocks of rows, whose part of A fits L2. Within a block
// of rows, all register tiles of one panel of B form a strip. The tiles of a strip that have the same height form a
// stack: a strip has at most four stacks. One call of machine code computes several register tiles of a stack.
const (
	maxVectors = 4  // greatest width of a register tile, in vectors
	maxHeight  = 14 // greatest height of a register tile, in rows
	// maxBlockDepth is the greatest depth of a block of K, in terms. Sums stay in registers for a whole block. A panel
	// of B of this depth exceeds L1, but reading it from L2 is fast enough.
	maxBlockDepth = 1024
	// maxPackedDepth replaces maxBlockDepth if a PackFunc packs an operand, so that the packed panel stays in L1.
	maxPackedDepth = 256
	// If the rows of B are contiguous and A has at most fewRows rows, B is not packed. If A has up to moderateRows
	// rows, B is packed only if its strides make elements of a panel evict one another from L2.
	fewRows      = 24
	moderateRows = 128
	// maxPrefetchLines is the greatest number of cache lines that an iteration of the loop over terms prefetches if
	// several tiles read a panel. More prefetches would delay one another.
	maxPrefetchLines = 4
	// prefetchBytes is the prefetch distance in bytes within a panel that only one tile reads.
	prefetchBytes = 16 << 10
	// callMACs bounds the multiplications of one call, because a call cannot be interrupted. A call of this size takes
	// about 10 microseconds, or about 30 if its operands come from memory.
	callMACs = 3 << 19 / machine.CallDivisor
)

// registerTileSizes has the sizes of register tiles for a set of processor features.
type registerTileSizes struct {
	cpu       machine.Features
	panelRows int // rows of a packed panel of A: one register tile, or two register tiles of half the height
	vectors   int // number of vectors of a panel of B
	// maxHeights[v] is the greatest height of register tiles of v vectors. At this height the accumulators and the
	// elements of A just fit the registers. On arm64, the elements of A take one register for each row, because a
	// register has several consecutive terms (elements along K) of a row.
	maxHeights [maxVectors + 1]int
}

// tileSizesByFeatures lists the sizes of register tiles for each set of features with machine code, best first.
var tileSizesByFeatures = []registerTileSizes{
	{cpu: machine.AVX512, panelRows: 12, vectors: 4, maxHeights: [...]int{0, 14, 12, 8, 6}},
	{cpu: machine.AVX2, panelRows: 12, vectors: 2, maxHeights: [...]int{0, 12, 6, 0, 0}},
	{cpu: machine.NEON, panelRows: 8, vectors: 4, maxHeights: [...]int{0, 12, 9, 7, 5}},
}

// machineCodeSets lists the kernel sets with machine code for a dtype on this processor, best first.
func machineCodeSets(dtype tensor.DType) (list []*kernelSet) {
	if dtype != tensor.Float32 && dtype != tensor.Float64 || jit.Available() != nil {
		return nil
	}
	for _, sizes := range tileSizesByFeatures {
		if machine.HostFeatures().Has(sizes.cpu) {
			list = append(list, machineCodeSet(dtype, sizes))
		}
	}
	return list
}

// machineCodeSet returns the kernel set with machine code for a dtype.
func machineCodeSet(dtype tensor.DType, sizes registerTileSizes) *kernelSet {
	const narrow = 2 // vectors of a narrow panel
	routines, ok := thinRoutines[sizes.cpu][dtype]
	if !ok {
		routines = portable[dtype].thinKernels
	}
	kernels := &kernelSet{name: sizes.cpu.String() + " code", cpu: sizes.cpu, mr: sizes.panelRows, kc: maxBlockDepth,
		elemBytes: dtype.Size(), maxHeights: sizes.maxHeights, thinKernels: routines,
		sharedLoops: portable[dtype].sharedLoops}
	_, bytes := tile.VectorRegisters(sizes.cpu)
	kernels.lanes = bytes / kernels.elemBytes
	kernels.nr, kernels.narrowPanel = sizes.vectors*kernels.lanes, narrow*kernels.lanes
	return kernels
}

// hasMachineCode reports whether the kernel set uses generated machine code.
func (s *kernelSet) hasMachineCode() bool { return s.lanes > 0 }

// vectors returns the number of vectors that hold cols columns.
func (s *kernelSet) vectors(cols int) int { return ceilDiv(cols, s.lanes) }

// tileStack is a column of register tiles of the same height.
type tileStack struct {
	firstRow int // first row of the first tile, relative to the block of rows
	height   int // rows of a tile
	count    int // number of tiles
	rowStep  int // distance between tiles, in rows
}

// stacks divides a block of rows into stacks of register tiles with the given number of vectors. The stacks are the
// first stackCount entries of list. For example, if A is read in place and a register tile has at most 14 rows, 29 rows
// give a stack of two tiles of 10 rows and a stack of one tile of 9 rows.
func (p *Plan) stacks(rows, vectors int) (list [4]tileStack, stackCount int) {
	heightLimit := p.kernels.maxHeights[vectors]
	add := func(row, height, count, rowStep int) {
		if count > 0 {
			list[stackCount] = tileStack{firstRow: row, height: height, count: count, rowStep: rowStep}
			stackCount++
		}
	}
	if p.a.inPlace {
		size, count, smallerCount := divideEvenly(rows, heightLimit)
		add(0, size, count, size)
		add(count*size, size-1, smallerCount, size-1)
		return list, stackCount
	}
	// A stack has the tiles at one position in all whole panels, or a tile of the last panel if that has fewer rows.
	panelWidth := p.a.panelWidth
	for _, panels := range [2]struct{ row, rows, count int }{{0, panelWidth, rows / panelWidth},
		{rows / panelWidth * panelWidth, rows % panelWidth, 1}} {
		if panels.rows == 0 || panels.count == 0 {
			continue
		}
		size, count, smallerCount := divideEvenly(panels.rows, heightLimit)
		for i := range count + smallerCount {
			height := size
			if i >= count {
				height--
			}
			add(panels.row, height, panels.count, panelWidth)
			panels.row += height
		}
	}
	return list, stackCount
}

// storeMode selects how a register tile stores the sums of a block of K.
type storeMode uint8

const (
	storeFirstBlock storeMode = iota // sets C to the sums plus the bias and, with Accumulate, plus the old C
	addLaterBlock                    // adds the sums to C
	storeTemporary                   // writes the sums to a temporary tile, from which merge updates C
	numStoreModes
)

// readMode selects how register tiles read B.
type readMode uint8

const (
	readDirect  readMode = iota // from packed panels, or in place
	readAndCopy                 // in place; copies B into a panel for the other tiles
	readCopied                  // from the copied panel; prefetches the next panel from B itself
	numReadModes
)

// codeTable has the machine code of a plan. The indices are a storeMode, a readMode, and 1 if the last vector is
// partial. Unused entries are nil.
type codeTable [numStoreModes][numReadModes][2]*codeBySize

// codeBySize has the code of register tiles, by number of vectors and by height.
type codeBySize [maxVectors + 1][maxHeight + 1]*jit.Func

// entry returns the entry for register tiles of all sizes.
func (c *codeTable) entry(store storeMode, mode readMode, partial bool) **codeBySize {
	index := 0
	if partial {
		index = 1
	}
	return &c[store][mode][index]
}

// entryOfSize returns the entry for register tiles of one size. It is nil until the code is generated.
func (c *codeTable) entryOfSize(store storeMode, mode readMode, partial bool, vectors, height int) **jit.Func {
	sizes := c.entry(store, mode, partial)
	if *sizes == nil {
		*sizes = new(codeBySize)
	}
	return &(*sizes)[vectors][height]
}

// tileSpec describes the code of one kind of register tile to package tile.
func (p *Plan) tileSpec(store storeMode, mode readMode, partial bool, vectors, height int) *tile.Spec {
	spec := &tile.Spec{ElemBytes: p.kernels.elemBytes, Rows: height, Vectors: vectors,
		Masked: p.b.inPlace || mode == readAndCopy, Tiles: tile.Loop{In: tile.Dynamic, Out: tile.Dynamic},
		Runs: []tile.Run{{InStep: p.kernels.elemBytes, VecStep: tile.Dynamic, Terms: tile.Dynamic}}}
	switch {
	case partial && tile.DynamicLanes(p.kernels.cpu):
		spec.Lanes = tile.Dynamic
	case partial:
		spec.Lanes = p.spec.N % p.kernels.lanes
	}
	spec.Prefetch = p.prefetchSpec(mode, vectors, height)
	spec.PrefetchedLines = p.prefetchLines[mode]
	if mode == readAndCopy {
		spec.PackedStep = p.b.panelWidth * p.kernels.elemBytes
	}
	if p.callsSpanPanels {
		spec.Tiles = tile.Loop{Vec: tile.Dynamic, Out: tile.Dynamic}
	}
	if !p.a.contiguousAlongK() {
		spec.Runs[0].InStep = tile.Dynamic
		for i := range height {
			spec.In = append(spec.In, i*p.kernels.elemBytes)
		}
	}
	addStep := func(op tile.EpilogueOp) { spec.Epilogue = append(spec.Epilogue, tile.EpilogueStep{Op: op}) }
	if store == addLaterBlock || store == storeFirstBlock && p.spec.Accumulate {
		spec.PrefetchResult = !p.prefetchResultInLoop || mode != readDirect
		addStep(tile.AddResult)
	}
	switch {
	case store != storeFirstBlock:
	case p.spec.Bias == BiasRows:
		addStep(tile.AddRows)
	case p.spec.Bias == BiasCols:
		addStep(tile.AddLanes)
	}
	return spec
}

// linesToPrefetch returns the number of cache lines of B that a register tile prefetches per loop iteration
// (tile.DefaultUnroll terms). It is 0 if B is in the caches, is read in place, has just been packed by the tile, or has
// one panel. If several tiles read a panel, each prefetches lines of the next panel; otherwise the tile prefetches its
// own panel, prefetchBytes ahead. B is often a constant that has left the caches since the previous run, and the
// hardware prefetcher stops at page boundaries.
func (p *Plan) linesToPrefetch(mode readMode) int {
	if p.spec.BInCache || p.b.inPlace || p.b.packsPerTile() && mode == readDirect || p.spec.N <= p.b.panelWidth {
		return 0
	}
	tiles := p.tilesPerStrip()
	lines := tile.DefaultUnroll * p.b.panelWidth * p.kernels.elemBytes / machine.LineBytes
	if tiles == 1 && mode == readDirect {
		return lines
	}
	return min(ceilDiv(lines, tiles), maxPrefetchLines)
}

// tilesPerStrip returns the number of register tiles in a strip.
func (p *Plan) tilesPerStrip() (tiles int) {
	stacks, count := p.stacks(min(p.tileRows, p.rowsPerBlock), p.kernels.vectors(p.b.panelWidth))
	for _, stack := range stacks[:count] {
		tiles += stack.count
	}
	return tiles
}

// compile generates the code of all kinds of register tiles of the plan. It returns an error if no executable memory
// is available.
func (p *Plan) compile() error {
	p.codes = new(codeTable)
	for mode := range numReadModes {
		p.prefetchLines[mode] = p.linesToPrefetch(mode)
	}
	p.callsSpanPanels = p.spansPanels()
	p.prefetchResultInLoop = p.prefetchesResult() && !p.callsSpanPanels
	p.prefetchInterval = powerOfTwoAtMost(p.tilesPerStrip())
	for _, rows := range blockSizes(p.spec.M, p.tileRows, p.mTiles, p.rowsPerBlock) {
		for _, cols := range blockSizes(p.spec.N, p.tileCols, p.nTiles, p.b.panelWidth) {
			if err := p.compileBlock(rows, cols); err != nil {
				return err
			}
		}
	}
	return jit.Link()
}

// compileBlock generates the code of the register tiles of a block with the given numbers of rows and columns.
func (p *Plan) compileBlock(rows, cols int) error {
	stores := []storeMode{storeTemporary}
	if p.spec.CColStride == 1 {
		stores = []storeMode{storeFirstBlock}
		if p.spec.K > p.kc {
			stores = append(stores, addLaterBlock)
		}
	}
	modes := []readMode{readDirect}
	if p.b.packedByFirstRow {
		modes = []readMode{readDirect, readAndCopy, readCopied}
	}
	stacks, count := p.stacks(rows, p.kernels.vectors(cols))
	for _, stack := range stacks[:count] {
		for _, store := range stores {
			for _, mode := range modes {
				if err := p.compileTile(store, mode, cols, stack.height); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compileTile generates the code of one kind of register tile, unless the code exists already.
func (p *Plan) compileTile(store storeMode, mode readMode, cols, height int) (err error) {
	vectors, partial := p.kernels.vectors(cols), cols%p.kernels.lanes > 0
	if entry := p.codes.entryOfSize(store, mode, partial, vectors, height); *entry == nil {
		*entry, err = tile.Compile(p.tileSpec(store, mode, partial, vectors, height), p.kernels.cpu)
	}
	return err
}

// Listings calls visit for each piece of machine code of the plan, with a description and a function that lists it
// in the syntax of Go's assembler.
func (p *Plan) Listings(visit func(name string, assembly func() string)) {
	if p.codes == nil {
		return
	}
	for store, byReading := range p.codes {
		for mode, byPartial := range byReading {
			for partial, sizes := range byPartial {
				suffix := [numStoreModes]string{"", ", later terms", ", to a temporary tile"}[store] +
					[numReadModes]string{"", ", copies B into a panel", ", reads a copied panel"}[mode] +
					[2]string{"", ", last columns"}[partial]
				sizes.listings(suffix, visit)
			}
		}
	}
}

// listings calls visit for the code of each size; see Plan.Listings.
func (c *codeBySize) listings(suffix string, visit func(name string, assembly func() string)) {
	if c == nil {
		return
	}
	for vectors := range c {
		for height, code := range c[vectors] {
			if code != nil {
				visit(fmt.Sprintf("tiles of %d rows and %d vectors%s", height, vectors, suffix), code.Listing)
			}
		}
	}
}

// argsPool recycles the arguments of calls, because a plan may run on any number of goroutines and Run must not
// allocate.
var argsPool = sync.Pool{New: func() any { return new(jit.Args) }}

// spansPanels reports whether one call processes several panels of B. Such calls are faster if one register tile has
// all rows of A, because such a tile takes little more time than the start of a call. With a bias or prefetches of B,
// a call processes one panel, because their addresses depend on the panel.
func (p *Plan) spansPanels() bool {
	spec, vectors := &p.spec, p.kernels.vectors(p.b.panelWidth)
	return p.a.inPlace && !p.b.packedByFirstRow && spec.M <= p.kernels.maxHeights[vectors] &&
		p.prefetchLines[readDirect] == 0 && spec.CColStride == 1 && spec.Bias == NoBias
}

// panelsPerCall returns the number of full-width panels of B that one call processes, from column j on. j1 is the end
// of the columns.
func (t *tileState) panelsPerCall(j, j1 int) int {
	panelWidth := t.Plan.b.panelWidth
	if !t.callsSpanPanels {
		return 1
	}
	return max(1, min((j1-j)/panelWidth, callMACs/(t.spec.M*panelWidth*t.kc)))
}

// computePanels computes C[i0:i1, j0:j1] for one block of K, whose terms of A and B are a and b. The outer loop is over
// blocks of A that fit L2, and the inner loop over panels of B.
func (t *tileState) computePanels(args *jit.Args, a, b *operandView, i0, i1, j0, j1 int) {
	panelWidth, block := t.Plan.b.panelWidth, t.rowsPerBlock
	for blockStart := i0; blockStart < i1; blockStart += block {
		blockEnd := min(blockStart+block, i1)
		for j, panels := j0, 1; j < j1; j += panels * panelWidth {
			panels = t.panelsPerCall(j, j1)
			t.computeStrip(args, a, b, blockStart, blockEnd, j, min(panelWidth, j1-j), panels-1)
			if t.isLastBlock {
				t.runEpilogue(blockStart, blockEnd, j, min(j+panels*panelWidth, j1))
			}
			if t.recordedTo == nil {
				t.countMACs(stripCost + (blockEnd-blockStart)*panels*panelWidth*t.kc)
			}
		}
	}
}

// computeStrip computes rows [blockStart, blockEnd) of C, in the columns of the panel of B that starts at column j and
// of the given number of further panels.
func (t *tileState) computeStrip(args *jit.Args, a, b *operandView, blockStart, blockEnd, j, cols, morePanels int) {
	plan, vectors := t.Plan, t.kernels.vectors(cols)
	t.setOperands(args, a, b, j, cols)
	store, rowsPerCall := t.setStoreMode(args, j)
	t.setPrefetch(args, b, j)
	if plan.callsSpanPanels {
		args.Step[tile.VecTile] = b.laneOffset(plan.b.panelWidth) * t.kernels.elemBytes
		// The stack has one register tile for each panel, so its tiles have the same rows.
		stack := tileStack{height: blockEnd - blockStart, count: 1 + morePanels}
		t.computeTiles(args, a, stack, store, readDirect, blockStart, 1+morePanels, j, cols)
		return
	}
	// Calls for different stacks alternate, so that a panel of A stays in the cache until all its tiles are computed.
	if t.stackedRows != blockEnd-blockStart || t.stackedVectors != vectors {
		t.stackedRows, t.stackedVectors = blockEnd-blockStart, vectors
		t.stacks, t.stackCount = plan.stacks(blockEnd-blockStart, vectors)
	}
	mode, tilesDone := readDirect, [len(t.stacks)]int{} // tilesDone: by stack, the number of tiles that are computed
	if t.copyPanels && blockStart == t.i0 {
		mode, tilesDone[0] = readCopied, 1
		t.computeAndCopyPanel(args, a, t.stacks[0], store, blockStart, j, cols)
	}
	tilesPerCall := max(1, rowsPerCall/t.stacks[0].height)
	for unfinished := true; unfinished; {
		unfinished = false
		for i := range t.stackCount {
			stack, from := t.stacks[i], tilesDone[i]
			if from < stack.count {
				tilesDone[i] = min(from+tilesPerCall, stack.count)
				t.computeTiles(args, a, stack, store, mode, blockStart+stack.firstRow+from*stack.rowStep, tilesDone[i]-from,
					j, cols)
				unfinished = unfinished || tilesDone[i] < stack.count
			}
		}
	}
}

// setStoreMode returns the storeMode of the block of K, and the maximum number of rows that a call computes for the
// panel at column j. A call computes at least one register tile, so 1 means one register tile. setStoreMode also sets
// the address of the temporary tile or of the bias, if the mode uses one.
func (t *tileState) setStoreMode(args *jit.Args, j int) (store storeMode, rowsPerCall int) {
	store, rowsPerCall = addLaterBlock, max(1, callMACs/(t.Plan.b.panelWidth*t.kc))
	switch {
	case t.spec.CColStride != 1:
		args.Ptr[tile.Out], args.Row[tile.Out], args.Step[tile.OutRow] = t.temporary(), 0, t.kernels.nr*t.kernels.elemBytes
		return storeTemporary, 1
	case t.isFirstBlock:
		store = storeFirstBlock
		switch t.spec.Bias {
		case BiasRows:
			rowsPerCall = 1 // a call has only one address of a bias
			args.Ptr[tile.FirstEpilogueOperand] = t.biasRows()
		case BiasCols:
			args.Ptr[tile.FirstEpilogueOperand] = t.biasCols()
			args.Row[tile.FirstEpilogueOperand] = (j - t.j0) * t.kernels.elemBytes
		}
	}
	return store, rowsPerCall
}

// setOperands sets the addresses of the operands and of the result, for the panel of B at column j.
func (t *tileState) setOperands(args *jit.Args, a, b *operandView, j, cols int) {
	set := t.kernels
	elemBytes := set.elemBytes
	args.InnerCount = t.kc
	args.Ptr[tile.In] = a.base
	args.Step[tile.InRow], args.Step[tile.InTerm] = a.laneStride*elemBytes, a.termStride*elemBytes
	args.Ptr[tile.Vec], args.Row[tile.Vec] = b.base, b.laneOffset(j-t.j0)*elemBytes
	args.Step[tile.VecTerm] = b.termStride * elemBytes
	args.Step[tile.LastLanes] = cols - (set.vectors(cols)-1)*set.lanes
	args.Ptr[tile.Out], args.Step[tile.OutRow] = t.ptrC, t.spec.CRowStride*elemBytes
}

// computeTiles computes count register tiles of a stack. The first tile begins at the given row and column of C.
func (t *tileState) computeTiles(args *jit.Args, a *operandView, stack tileStack, store storeMode, mode readMode,
	row, count, col, cols int) {
	plan := t.Plan
	code := t.setTileAddresses(args, a, stack, store, mode, row, count, col, cols)
	if t.recordedTo != nil {
		*t.recordedTo = append(*t.recordedTo, callOf(code, args))
	} else if err := code.Call(args); err != nil {
		panic(err) // cannot happen: Call fails only if the code cannot be linked, and the plan has linked it
	}
	args.Row[tile.Prefetched] += count * (t.kc / tile.DefaultUnroll) * plan.prefetchLines[mode] * machine.LineBytes
	if mode != readDirect {
		prefetches := count * prefetchCount(t.kc, plan.prefetchInterval)
		args.Row[tile.PrefetchOperands] += prefetches * args.Step[tile.PrefetchStep]
	}
	if store == storeTemporary {
		t.merge(t.temporary(), row, col, stack.height, cols)
	}
}

// setTileAddresses sets the addresses of the register tiles of computeTiles and returns their code.
func (t *tileState) setTileAddresses(args *jit.Args, a *operandView, stack tileStack, store storeMode, mode readMode,
	row, count, col, cols int) *jit.Func {
	plan, spec, set := t.Plan, &t.spec, t.kernels
	elemBytes := set.elemBytes
	args.Rows = count
	args.Step[tile.InTile] = a.laneOffset(stack.rowStep) * elemBytes
	args.Step[tile.OutTile] = stack.rowStep * spec.CRowStride * elemBytes
	if plan.callsSpanPanels {
		args.Step[tile.OutTile] = plan.b.panelWidth * elemBytes
	}
	args.Row[tile.In] = a.laneOffset(row-t.i0) * elemBytes
	if store != storeTemporary {
		args.Row[tile.Out] = (row*spec.CRowStride + col) * elemBytes
	}
	if store == storeFirstBlock && spec.Bias == BiasRows {
		args.Row[tile.FirstEpilogueOperand] = (row - t.i0) * elemBytes
	}
	if plan.prefetchResultInLoop && mode == readDirect {
		args.Ptr[tile.PrefetchOperands], args.Row[tile.PrefetchOperands] = t.ptrC, args.Row[tile.Out]
		args.Step[tile.PrefetchStep] = spec.CRowStride * elemBytes
	}
	return (*plan.codes.entry(store, mode, cols%set.lanes > 0))[set.vectors(cols)][stack.height]
}
