package gemm

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// This file chooses the register tiles of a plan and generates their machine code (package tile). strips.go runs the
// code. C is divided into tiles, the units of work of a worker. A term is the product A[i,k]·B[k,j] for one k, and a
// block of K is a range of terms. A panel is a group of adjacent rows of A or columns of B, stored contiguously.
//
// A register tile is a part of C whose sums stay in registers for a block of K. It has at least one row, at most
// maxHeights rows, and one to four vectors of columns. Rows are divided evenly among register tiles and need no
// padding. Only the last vector of a panel has padded columns. An operand with a stride of 1 is usually read in place,
// because packing is rarely faster.
//
// Loops are nested as follows. A tile of C is divided into blocks of rows. The part of A for a block of rows fits L2.
// Within a block of rows, all register tiles of one panel of B form a strip. A stack has the tiles of a strip that have
// the same height. If A is packed, these tiles also have the same position in their panels. One call of machine code
// computes several register tiles of a stack.
const (
	maxVectors = 4  // greatest width of a register tile, in vectors
	maxHeight  = 14 // greatest height of a register tile, in rows
	// maxBlockDepth is the greatest depth of a block of K, in terms. Sums stay in registers for a whole block. A panel of
	// B with this depth exceeds L1, but reading the panel from L2 is fast enough.
	maxBlockDepth = 1024
	// maxPackedDepth replaces maxBlockDepth if a PackFunc packs an operand, so that the packed panel stays in L1.
	maxPackedDepth = 256
	// If the rows of B are contiguous and A has at most fewRows rows, B is not packed. If A has at most moderateRows rows,
	// B is packed only if elements of a panel evict one another from L2 because of the strides of B.
	fewRows      = 24
	moderateRows = 128
	// callMACs is the maximum number of multiplications in one call. There is a limit because a call cannot be
	// interrupted. A call of this size takes about 10 microseconds, or about 30 microseconds if its operands are not in
	// the caches. CallDivisor is larger for slower processors.
	callMACs = 3 << 19 / machine.CallDivisor
)

// registerTileSizes has the sizes of register tiles for a set of processor features.
type registerTileSizes struct {
	cpu       machine.Features
	panelRows int // rows of a packed panel of A: one register tile, or two register tiles of half the height
	vectors   int // number of vectors of a panel of B
	// constantVectors is the number of vectors of a panel of a constant B: see ConstantPanelCols. The panel suits a single
	// row of A, whose sums need enough vectors to hide the latency of additions, as well as many rows. Two vectors of
	// AVX-512 were measured to be as fast as four, and faster if A has 6 to 64 rows, because a panel stays longer in L1.
	constantVectors int
	// maxHeights[v] is the greatest height of register tiles of v vectors. At this height the accumulators and the
	// elements of A just fit the registers. On arm64, the elements of A take one register for each row: a register has
	// several consecutive terms (elements along K) of one row.
	maxHeights [maxVectors + 1]int
}

// tileSizesByFeatures lists the sizes of register tiles for each set of features with machine code, best first.
var tileSizesByFeatures = []registerTileSizes{
	{cpu: machine.AVX512, panelRows: 12, vectors: 4, constantVectors: 2, maxHeights: [...]int{0, 14, 12, 8, 6}},
	{cpu: machine.AVX2, panelRows: 12, vectors: 2, constantVectors: 2, maxHeights: [...]int{0, 12, 6, 0, 0}},
	{cpu: machine.NEON, panelRows: 8, vectors: 4, constantVectors: 4, maxHeights: [...]int{0, 12, 9, 7, 5}},
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

// knownSets has the kernel sets of machineCodeSet, by kernelSetKey.
var knownSets memo.Memo

type kernelSetKey struct {
	dtype tensor.DType
	cpu   machine.Features
}

// machineCodeSet returns the kernel set with machine code for a dtype.
func machineCodeSet(dtype tensor.DType, sizes registerTileSizes) *kernelSet {
	return memo.Of(&knownSets, kernelSetKey{dtype, sizes.cpu}, func() *kernelSet { return newMachineCodeSet(dtype, sizes) })
}

func newMachineCodeSet(dtype tensor.DType, sizes registerTileSizes) *kernelSet {
	thin, ok := thinRoutines[sizes.cpu][dtype] // in assembly, for products with few rows or columns
	if !ok {
		thin = portable[dtype].thinKernels
	}
	// mr is the number of rows of a panel of A, nr is the number of columns of a panel of B, and kc is the greatest depth
	// of a block of K.
	kernels := &kernelSet{name: sizes.cpu.String() + " code", cpu: sizes.cpu, mr: sizes.panelRows, kc: maxBlockDepth,
		elemBytes: dtype.Size(), maxHeights: sizes.maxHeights, thinKernels: thin,
		sharedLoops: portable[dtype].sharedLoops}
	_, bytes := tile.VectorRegisters(sizes.cpu)
	kernels.lanes = bytes / kernels.elemBytes
	kernels.nr, kernels.constantPanel = sizes.vectors*kernels.lanes, sizes.constantVectors*kernels.lanes
	return kernels
}

// hasMachineCode reports whether the kernel set uses generated machine code.
func (s *kernelSet) hasMachineCode() bool { return s.lanes > 0 }

// vectors returns the number of vectors that hold cols columns.
func (s *kernelSet) vectors(cols int) int { return ceilDiv(cols, s.lanes) }

// storeMode selects how a register tile stores the sums of a block of K.
type storeMode uint8

const (
	storeFirstBlock storeMode = iota // sets C to the sums plus the bias and, with Accumulate, plus the old C
	addLaterBlock                    // adds the sums to C
	storeTemporary                   // writes the sums to a temporary tile; merge then updates C
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

// tileKind identifies the code of register tiles.
type tileKind struct {
	store           storeMode
	read            readMode
	isPartial       bool // the last vector is partial
	vectors, height int
}

// codeTable has the machine code of a plan. The indices are a storeMode, a readMode, and 1 if the last vector is
// partial. Unused entries are nil.
type codeTable [numStoreModes][numReadModes][2]*codeBySize

// codeBySize has the code of register tiles, by number of vectors and by height.
type codeBySize [maxVectors + 1][maxHeight + 1]*jit.Func

// entry returns the entry for register tiles of all sizes.
func (c *codeTable) entry(store storeMode, read readMode, isPartial bool) **codeBySize {
	index := 0
	if isPartial {
		index = 1
	}
	return &c[store][read][index]
}

// compile generates the code of all kinds of register tiles in the plan. It returns an error if no executable memory is
// available.
func (p *Plan) compile() error {
	p.codes = new(codeTable)
	for read := range numReadModes {
		p.prefetchLines[read] = p.linesToPrefetch(read)
	}
	p.callsSpanPanels = p.spansPanels()
	p.prefetchResultInLoop = p.prefetchesResult() && !p.callsSpanPanels
	p.prefetchesOwnPanel = p.tilesPerStrip() == 1
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
	stores := []storeMode{storeTemporary} // register tiles cannot store to C if its rows are not contiguous
	if p.spec.CColStride == 1 {
		stores = []storeMode{storeFirstBlock}
		if p.spec.K > p.kc { // several blocks of K
			stores = append(stores, addLaterBlock)
		}
	}
	reads := []readMode{readDirect}
	switch {
	case p.b.packedByFirstRow: // the first register tiles that read a panel of B also pack it
		reads = []readMode{readDirect, readAndCopy, readCopied}
	case p.b.convertedOnce:
		reads = []readMode{readAndCopy, readCopied}
	}
	isPartial, vectors := cols%p.kernels.lanes > 0, p.kernels.vectors(cols)
	stacks, count := p.stacks(rows, vectors)
	for _, stack := range stacks[:count] {
		for _, store := range stores {
			for _, read := range reads {
				kind := tileKind{store: store, read: read, isPartial: isPartial, vectors: vectors, height: stack.height}
				if err := p.compileTile(kind); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compileTile generates the code of one kind of register tile, unless the code exists already.
func (p *Plan) compileTile(kind tileKind) (err error) {
	sizes := p.codes.entry(kind.store, kind.read, kind.isPartial)
	if *sizes == nil {
		*sizes = new(codeBySize)
	}
	if code := &(*sizes)[kind.vectors][kind.height]; *code == nil {
		*code, err = tile.Compile(p.tileSpec(kind), p.kernels.cpu)
	}
	return err
}

// tileSpec describes the code of one kind of register tile to package tile. A Dynamic value is not part of the code:
// each call passes the value. In the spec, In is A, Vec is B and Out is C. Steps are distances in bytes between tiles
// (Tiles) or between terms (Runs).
func (p *Plan) tileSpec(kind tileKind) *tile.Spec {
	spec := &tile.Spec{ElemBytes: p.kernels.elemBytes, Rows: kind.height, Vectors: kind.vectors,
		// If B is read in place, reading the whole last vector could exceed B.
		Masked: p.b.inPlace || p.b.packedByFirstRow && kind.read == readAndCopy,
		Tiles:  tile.Loop{InStep: tile.Dynamic, OutStep: tile.Dynamic},
		Runs:   []tile.Run{{InStep: p.kernels.elemBytes, VecStep: tile.Dynamic, Terms: tile.Dynamic}}}
	switch {
	case kind.isPartial && tile.DynamicLanes(p.kernels.cpu):
		spec.Lanes = tile.Dynamic
	case kind.isPartial: // the code has the lanes of the last vector as a constant
		spec.Lanes = p.spec.N % p.kernels.lanes
	}
	spec.Prefetch = p.rowPrefetches(kind.read, kind.vectors, kind.height)
	spec.PrefetchedLines = p.prefetchLines[kind.read]
	if kind.read != readCopied {
		spec.Half = p.b.half
	}
	if kind.read == readAndCopy {
		spec.PackedStep = p.b.panelWidth * p.kernels.elemBytes
	}
	if p.callsSpanPanels { // the tiles of a call have the same rows of A
		spec.Tiles = tile.Loop{VecStep: tile.Dynamic, OutStep: tile.Dynamic}
	}
	if !p.a.contiguousAlongK() { // the elements of a term are adjacent
		spec.Runs[0].InStep = tile.Dynamic
		for i := range kind.height {
			spec.In = append(spec.In, i*p.kernels.elemBytes)
		}
	}
	spec.Epilogue = p.tileEpilogue(kind.store)
	readsResult := len(spec.Epilogue) > 0 && spec.Epilogue[0].Op == tile.AddResult
	if readsResult { // prefetch it before the loop, unless rowPrefetches does so in the loop
		spec.PrefetchResult = !p.prefetchResultInLoop || p.prefetchesRowsOfB(kind.read)
	}
	return spec
}

// tileEpilogue returns the operations on the sums of a register tile before they are stored: adding the old C, and then
// adding the bias.
func (p *Plan) tileEpilogue(store storeMode) (steps []tile.EpilogueStep) {
	if store == addLaterBlock || store == storeFirstBlock && p.spec.Accumulate {
		steps = append(steps, tile.EpilogueStep{Op: tile.AddResult})
	}
	switch {
	case store != storeFirstBlock:
	case p.spec.Bias == BiasRows:
		steps = append(steps, tile.EpilogueStep{Op: tile.AddRows})
	case p.spec.Bias == BiasCols:
		steps = append(steps, tile.EpilogueStep{Op: tile.AddLanes})
	}
	return steps
}

// spansPanels reports whether one call processes several panels of B. Such calls are faster if one register tile has
// all rows of A, because the tile takes little more time than the start of a call. With a bias or prefetches of B, a
// call processes one panel, because the addresses of the bias and of the prefetches depend on the panel.
func (p *Plan) spansPanels() bool {
	spec, vectors := &p.spec, p.kernels.vectors(p.b.panelWidth)
	return p.a.inPlace && !p.b.packedByFirstRow && spec.M <= p.kernels.maxHeights[vectors] &&
		p.prefetchLines[readDirect] == 0 && spec.CColStride == 1 && spec.Bias == NoBias
}

// Listings calls visit for each piece of machine code of the plan, with a description and a function that lists it
// in the syntax of Go's assembler.
func (p *Plan) Listings(visit func(name string, assembly func() string)) {
	if p.codes == nil {
		return
	}
	for store, byReading := range p.codes {
		for read, byPartial := range byReading {
			for partialIndex, sizes := range byPartial {
				suffix := [numStoreModes]string{"", ", later terms", ", to a temporary tile"}[store] +
					[numReadModes]string{"", ", copies B into a panel", ", reads a copied panel"}[read] +
					[2]string{"", ", last columns"}[partialIndex]
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
