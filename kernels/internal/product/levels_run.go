package product

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// levelAlgorithm is an algorithm for products by panels of levels.
type levelAlgorithm uint8

const (
	thinLevels  levelAlgorithm = iota // for few rows: tiles multiply levels, and scale the sums of blocks
	tiledLevels                       // for many rows: levels are first converted to float32, in the cache
)

// levelProduct is the kernel of a product by a quantized weight. Its terms are (see also [levelShape]):
//
//	level  a packed integer of the weight; it stands for the element (level - zero point) * scale
//	term   an index of the depth
//	block  a range of terms with the same scale
//	panel  the levels of width() adjacent columns of the result: `vectors` vectors of `lanes` columns
//	band   a range of rows of the result
//	strip  one band in one panel (levelStrip, levels_strip.go); register tiles divide its rows
//
// The first phase packs the operands that were not packed when the graph was planned. The second phase computes the
// strips. For example, a result of 300x128 elements has three bands of 100 rows and, with vectors of 16 lanes, two
// panels of 64 columns: six strips. With tiles of at most 14 rows, a strip has four tiles of 13 rows and four of 12.
type levelProduct struct {
	levelShape
	algorithm          levelAlgorithm
	hasBias            bool
	operandsToPack     []int                 // the operands that the first phase packs
	offsets            [blocksBias]int       // by operand: offset of its panels in scratch memory, in bytes
	scratchBytes       int                   // size of the scratch memory, in bytes
	epilogue           multiply.TileEpilogue // a fused pointwise computation that tiles apply to their sums
	tilesApplyEpilogue bool                  // whether tiles apply the epilogue

	maxHeight int              // maximum number of rows of a tile
	bandRows  int              // number of rows of a band; the last band may have fewer
	bands     int              // number of bands
	division  machine.Division // division of the pairs of a panel and a band into chunks

	codes      map[levelCodeKey]*jit.Func
	converters [2]*loops.Loop // convert levels to float32: one loop for all columns, or one for each half of a panel
	workers    graph.PerWorker[levelWorker]
}

// levelCodeKey identifies the machine code of a tile in levelProduct.codes.
type levelCodeKey struct {
	rows, terms int             // rows of a tile; terms of a block for thinLevels, else 0
	initialSum  tile.InitialSum // initial values of sums
	isLast      bool            // whether the tile computes the last terms
}

// levelWorker is the state of a worker that runs a levelProduct.
type levelWorker struct {
	state loops.State
	args  jit.Args
	lanes multiply.EpilogueLanes // operands of the epilogue
}

const (
	// levelCallMACs bounds the multiplications of a call, which then takes less than 50 us.
	levelCallMACs = 1 << 18 / machine.CallDivisor
	// levelTerms is the number of terms that are converted at once. They stay in the L2 cache.
	levelTerms = 256
	// levelBandRows is the maximum number of rows of a band, for which levels are converted once.
	levelBandRows = 128
)

// lower implements [graph.Impl.Lower].
func (algorithm levelAlgorithm) lower(call *graph.Call) (*graph.Kernel, error) {
	p, err := newLevelProduct(call, algorithm)
	if err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Scratch: p.scratchBytes, WorkerScratch: p.workerBytes(), Code: p.listings}
	if len(p.operandsToPack) > 0 {
		kernel.Phases = append(kernel.Phases, p.packPhase(call))
	}
	kernel.Phases = append(kernel.Phases, p.multiplyPhase(call))
	return kernel, nil
}

// newLevelProduct divides the product of a call by an algorithm, and generates the code.
func newLevelProduct(call *graph.Call, algorithm levelAlgorithm) (*levelProduct, error) {
	p := &levelProduct{levelShape: newLevelShape(call), algorithm: algorithm, hasBias: call.HasOperand(blocksBias),
		codes: map[levelCodeKey]*jit.Func{}}
	if err := p.listOperandsToPack(call); err != nil {
		return nil, err
	}
	p.chooseEpilogue(fusion.EpilogueOf(call))
	p.chooseRows()
	if algorithm == tiledLevels {
		if err := p.compileConversions(); err != nil {
			return nil, err
		}
	}
	return p, p.compileTiles()
}

// listOperandsToPack lists the operands that are not packed (weight, scales, zero points), and assigns scratch memory
// to their panels. It returns an error if an operand has another packed form.
func (p *levelProduct) listOperandsToPack(call *graph.Call) error {
	for operand := blocksWeight; operand <= blocksZero; operand++ {
		if !call.HasOperand(operand) {
			continue
		}
		packed := call.Packed(operand)
		if packed == nil {
			p.operandsToPack, p.offsets[operand] = append(p.operandsToPack, operand), p.scratchBytes
			p.scratchBytes += kit.AlignUp(p.panels() * p.panelBytes(operand))
		} else if format := p.formatName(operand); packed.Format != format {
			return fmt.Errorf("operand %d is packed as %s, but the kernel needs %s", operand, packed.Format, format)
		}
	}
	return nil
}

// chooseEpilogue decides whether tiles apply an epilogue. Otherwise a later phase applies it. Tiles of a panel that
// extends beyond the last column do not write to the result, and so apply no epilogue.
func (p *levelProduct) chooseEpilogue(epilogue *fusion.Epilogue) {
	p.tilesApplyEpilogue = p.n%p.width() == 0
	if p.tilesApplyEpilogue {
		const hasLaneMemory = true // levelWorker.lanes
		p.epilogue, p.tilesApplyEpilogue = multiply.NewTileEpilogue(epilogue, p.n, tile.FirstEpilogueOperand, hasLaneMemory)
	}
	if p.tilesApplyEpilogue {
		epilogue.SetInRegisters()
	} else {
		epilogue.Defer()
	}
}

// maxTileRows returns the maximum number of rows of a tile, which the registers limit: a row needs a register of sums
// for each vector. The rows share a register of levels for each vector, and a register for an element of the input.
func (shape *levelShape) maxTileRows(algorithm levelAlgorithm) int {
	registers, _ := tile.VectorRegisters(machine.HostFeatures())
	if algorithm == thinLevels {
		sharedPerVector := 1 // registers that the rows share
		if shape.hasZeros {
			sharedPerVector = 2 // zero points take a register, like levels
		}
		return max(1, min(multiply.MaxThin, (registers-1)/shape.vectors-sharedPerVector))
	}
	if tile.ElementsPerLoad(machine.HostFeatures(), floatBytes) > 1 { // each row has a register for several elements
		return (registers - levelVectors) / (levelVectors + 1)
	}
	return min(tile.MaxDynamicRows, (registers-3)/2) // a tile has two vectors (tileVectors)
}

// tileVectors returns the number of vectors of a tile.
func (p *levelProduct) tileVectors() int {
	if p.algorithm == thinLevels || tile.ElementsPerLoad(machine.HostFeatures(), floatBytes) > 1 {
		return p.vectors
	}
	return 2
}

// chooseRows divides the result into bands of rows, and these into chunks.
func (p *levelProduct) chooseRows() {
	p.maxHeight = p.maxTileRows(p.algorithm)
	p.bands = kit.DivUp(p.m, levelBandRows)
	p.bandRows = kit.DivUp(p.m, p.bands)
	p.division = machine.DivideUnits(p.bands*p.panels(), p.bandRows*p.width()*p.k, machine.MACGrain)
}

// compileTiles generates the code of all tiles.
func (p *levelProduct) compileTiles() error {
	termCounts := []int{0} // values of levelCodeKey.terms
	if p.algorithm == thinLevels {
		termCounts[0] = p.blockElements
		if remaining := p.k % p.blockElements; remaining > 0 { // the shorter last block
			termCounts = append(termCounts, remaining)
		}
	}
	lastBandRows := p.m - (p.bands-1)*p.bandRows
	for _, rows := range []int{p.bandRows, lastBandRows} {
		for _, stack := range tileStacks(rows, p.maxHeight) { // a stack has tiles of equal height
			if stack.tiles == 0 {
				continue
			}
			for _, terms := range termCounts {
				if err := p.compileTile(stack.height, terms); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compileTile generates the code of tiles of the given height, for each position along the depth. terms is as in
// [levelCodeKey].
func (p *levelProduct) compileTile(height, terms int) (err error) {
	firstStart := tile.Zero
	if p.hasBias {
		firstStart = tile.FromLanes
	}
	for _, start := range []tile.InitialSum{firstStart, tile.FromResult} {
		for _, isLast := range []bool{false, true} {
			key := levelCodeKey{rows: height, terms: terms, initialSum: start, isLast: isLast}
			if p.codes[key], err = tile.Compile(p.spec(key), machine.HostFeatures()); err != nil {
				return fmt.Errorf("product of levels: %w", err)
			}
		}
	}
	return nil
}

// spec describes the code of a tile. Elements and sums are float32. A tile multiplies rows of the input (In) by a panel
// (Vec) of levels or of converted levels.
func (p *levelProduct) spec(key levelCodeKey) *tile.Spec {
	spec := &tile.Spec{ElemBytes: floatBytes, Rows: key.rows, Vectors: p.tileVectors(), InitialSum: key.initialSum}
	if p.algorithm == thinLevels {
		spec.VecQuantization = tile.VecQuantization{Bits: p.levelBits(), HasZeroPoints: p.hasZeros}
		for i := range key.rows {
			spec.In = append(spec.In, floatBytes*i*p.k)
		}
		termBytes := p.termBytes()
		spec.Runs = []tile.Run{{InStep: floatBytes, VecStep: termBytes, Terms: key.terms}} // one block
		spec.Loops = []tile.Loop{{InStep: floatBytes * key.terms, VecStep: termBytes * key.terms, Block: 1,
			Trips: tile.Dynamic}}
	} else {
		if key.initialSum == tile.FromResult { // sum these terms first, and then add the sum of earlier terms
			spec.InitialSum, spec.Epilogue = tile.Zero, []tile.EpilogueStep{{Op: tile.AddResult}}
		}
		spec.Runs = []tile.Run{{InStep: floatBytes, VecStep: floatBytes * p.width(), Terms: tile.Dynamic}}
		spec.Tiles = tile.Loop{InStep: tile.Dynamic, OutStep: tile.Dynamic}
	}
	if key.isLast {
		spec.Epilogue = append(spec.Epilogue, p.epilogue.Steps...)
	}
	return spec
}

// compileConversions compiles the loops that convert levels to elements: (level - zero point) * scale. A byte of a
// 4-bit panel has two levels: the first loop converts the low half of each byte, the second the high half.
func (p *levelProduct) compileConversions() (err error) {
	formulas := []string{"float32(int32(q) << 28 >> 28)", "float32(int32(q) >> 4)"}
	if p.levelBits() == 8 {
		formulas = []string{"float32(q)"}
	}
	names, types := p.conversionOperands() // q is the byte
	for i, formula := range formulas {
		if p.hasZeros {
			formula = fmt.Sprintf("(%s - float32(zero))", formula)
		}
		p.converters[i], err = kit.FormulaLoop(formula+" * scale", names, types, nil, tensor.Float32)
		if err != nil {
			return err
		}
	}
	return nil
}

// workerBytes returns the size of worker memory in bytes (see newStrip).
func (p *levelProduct) workerBytes() int {
	bytes := p.bandRows*p.width()*floatBytes + kit.AlignUp(p.width()*floatBytes)
	if p.algorithm == tiledLevels {
		bytes += min(p.k, levelTerms) * p.width() * floatBytes
	}
	return bytes
}

// packPhase returns the phase that packs operands.
func (p *levelProduct) packPhase(call *graph.Call) graph.Phase {
	panels := p.panels()
	return graph.Phase{Chunks: len(p.operandsToPack) * panels, Run: func(mem *graph.Mem, chunk int) error {
		operand := p.operandsToPack[chunk/panels]
		meta := call.Meta(operand)
		p.pack(operand, chunk%panels, scratchAddress(mem, p.offsets[operand]), mem.Ptrs[1+operand], meta)
		mem.CheckContextAfter(p.panelBytes(operand))
		return nil
	}}
}

// panelAddress returns the address of a panel of an operand, or nil if the operand is omitted.
func (p *levelProduct) panelAddress(mem *graph.Mem, operand, panel int) unsafe.Pointer {
	if operand == blocksZero && !p.hasZeros {
		return nil
	}
	for _, packedHere := range p.operandsToPack {
		if packedHere == operand {
			return scratchAddress(mem, p.offsets[operand]+panel*p.panelBytes(operand))
		}
	}
	return unsafe.Add(mem.Ptrs[1+operand], panel*p.panelBytes(operand))
}

// multiplyPhase returns the phase that computes the results.
func (p *levelProduct) multiplyPhase(call *graph.Call) graph.Phase {
	bias := operandAddress(call, blocksBias)
	return graph.Phase{Chunks: p.division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		worker := p.workers.Get(mem)
		worker.state.Context = mem.Context
		defer func() {
			clear(worker.args.Ptr[:])
			worker.state.Release()
		}()
		p.epilogue.SetOperands(&worker.args, mem, &worker.lanes)
		for unit, end := p.division.ChunkRange(chunk); unit < end; unit++ {
			panel, band := unit/p.bands, unit%p.bands
			strip := p.newStrip(mem, panel, band*p.bandRows, bias(mem))
			compute := strip.multiplyLevels
			if p.algorithm == tiledLevels {
				compute = strip.multiplyConverted
			}
			if err := compute(mem, worker); err != nil {
				return err
			}
			strip.copyResult(mem)
		}
		return nil
	}}
}

// listings returns the code of the tiles and of the loops that convert levels.
func (p *levelProduct) listings() (list []expr.Listing) {
	for height := p.maxHeight; height > 0; height-- {
		for key, function := range p.codes {
			isWholeBlock := key.terms == 0 || key.terms == p.blockElements
			if key.rows == height && key.isLast && key.initialSum != tile.FromResult && isWholeBlock {
				list = append(list, expr.Listing{Name: fmt.Sprintf("tiles of %d rows", height), Assembly: function.Listing})
			}
		}
	}
	for i, loop := range p.converters {
		if loop != nil {
			list = append(list, loop.Listing([]string{"convert", "convert the upper half"}[i]))
		}
	}
	return list
}

// work implements [graph.Impl.Work].
func (algorithm levelAlgorithm) work(call *graph.Call, _ graph.Walk) graph.Work {
	work := graph.Work{StartedSteps: 1, Flops: linearBlocksFlops(call)}
	call.AddStreamed(&work)
	multiply.ReclassifyStores(&work, call)
	work.AddUnits(multiply.RateStartStep, 1)
	work.AddUnits(multiply.RateStartProduct, 1)
	shape := newLevelShape(call)
	columns := float64(shape.panels() * shape.width())
	levels, tileRows := columns*float64(shape.k), shape.maxTileRows(algorithm)
	if algorithm == thinLevels {
		tiles := float64(kit.DivUp(shape.m, tileRows)) // tiles of a panel
		work.AddUnits(multiply.RateLevels, tiles*levels)
		work.AddUnits(multiply.RateTile32, float64(shape.m)*levels)
		work.AddUnits(multiply.RateTileCall, tiles*float64(shape.panels()))
	} else {
		multiply.ReclassifyPanels(&work, call, blocksWeight, shape.m)
		work.AddUnits(multiply.RateConvertLevels, float64(kit.DivUp(shape.m, levelBandRows))*levels)
		work.AddUnits(multiply.RateTile32, float64(shape.m)*levels)
		calls := float64(kit.DivUp(shape.m, tileRows) * kit.DivUp(shape.k, levelTerms)) // per column of tiles
		work.AddUnits(multiply.RateTileCall, calls*columns/float64(2*shape.lanes))      // tiles have 2 vectors
	}
	for operand := blocksWeight; operand <= blocksZero; operand++ {
		if call.HasOperand(operand) && !call.IsConstant(operand) {
			work.AddUnits(multiply.RatePackRow, levels)
		}
	}
	return work
}
