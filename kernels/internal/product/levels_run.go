package product

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// levelAlgorithm is an algorithm for products by panels of levels.
type levelAlgorithm uint8

const (
	thinLevels  levelAlgorithm = iota // for few rows: tiles multiply levels and then scale the sum of each block
	tiledLevels                       // for many rows: levels are first converted to float32, in the cache
)

// levelProduct is the kernel of a product by a quantized weight. It uses these terms (see also [levelShape]):
//
//	level  a packed integer of the weight; it stands for the element (level - zero point) * scale
//	term   an index of the depth
//	block  a range of terms with the same scale
//	panel  the levels of width() adjacent columns of the result: `vectors` vectors of `lanes` columns
//	band   a range of rows of the result
//	strip  one band in one panel (levelStrip, levels_strip.go); register tiles divide its rows
//
// The first phase packs the operands that were not packed when the graph was planned. The second phase computes the
// strips. For example, with vectors of 16 lanes, a result of 300x128 elements has three bands of 100 rows and two
// panels of 64 columns, thus six strips. With tiles of at most 14 rows, a strip has four tiles of 13 rows and four of
// 12.
type levelProduct struct {
	levelShape
	algorithm      levelAlgorithm
	hasBias        bool
	operandsToPack []int                 // the operands that the first phase packs
	offsets        [blocksBias]int       // by operand: offset of its panels in scratch memory, in bytes
	scratchBytes   int                   // size of the scratch memory, in bytes
	epilogue       multiply.TileEpilogue // a fused pointwise computation that tiles apply to their sums

	maxHeight int              // maximum number of rows of a tile
	bandRows  int              // number of rows of a band; the last band may have fewer
	bands     int              // number of bands
	division  machine.Division // division of the pairs of a panel and a band into chunks

	codes      map[levelCodeKey]*jit.Func
	converters [2]*loops.Loop // convert levels to float32: one loop for all columns, or one for each half of a panel
	workers    graph.PerWorker[levelWorker]
}

// levelWorker is the state of a worker that runs a levelProduct.
type levelWorker struct {
	state loops.State
	args  jit.Args
	lanes multiply.EpilogueLanes // operands of the epilogue
}

const (
	// levelCallMACs is the maximum number of multiplications of a call. Such a call takes less than 50 us.
	levelCallMACs = 1 << 18 / machine.CallDivisor
	// levelTerms is the number of terms that are converted at once. Their converted levels stay in the L2 cache.
	levelTerms = 256
	// levelBandRows is the maximum number of rows of a band. Levels are converted once per band.
	levelBandRows = 128
	// maxThinRows is the maximum number of rows for thinLevels.
	maxThinRows = 64
	// hidingRows is the number of rows of a tile from which its multiplications take longer than reading the levels.
	hidingRows = 5
)

// algorithm returns the algorithm of a product. It is chosen when the number of rows is known, not when a plan is made:
// the prompt of a decoder and its steps follow one plan. It depends on the rows alone, so that results have the same
// bits on all processors. With AVX2, thinLevels takes 1.0, 1.2, 1.35 and 1.4 times as long as tiledLevels for 16, 24,
// 64 and 128 rows; with AVX-512 0.6, 0.65, 0.9 and 1.
func (shape *levelShape) algorithm() levelAlgorithm {
	if shape.m <= maxThinRows {
		return thinLevels
	}
	return tiledLevels
}

// lowerLevels implements [graph.Impl.Lower].
func lowerLevels(call *graph.Call) (*graph.Kernel, error) {
	p, err := newLevelProduct(call)
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

// newLevelProduct divides the product of a call, and generates the code.
func newLevelProduct(call *graph.Call) (*levelProduct, error) {
	p := &levelProduct{levelShape: newLevelShape(call), hasBias: call.HasOperand(blocksBias),
		codes: map[levelCodeKey]*jit.Func{}}
	p.algorithm = p.levelShape.algorithm()
	if err := p.listOperandsToPack(call); err != nil {
		return nil, err
	}
	// A panel may extend beyond the last column. Its tiles do not write to the result, so they cannot apply the
	// epilogue.
	p.epilogue = multiply.AssignEpilogue(fusion.EpilogueOf(call), p.n, p.n%p.width() == 0)
	p.chooseRows()
	if p.algorithm == tiledLevels {
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

// chooseRows divides the result into bands of rows, and the pairs of a panel and a band into chunks.
func (p *levelProduct) chooseRows() {
	p.maxHeight = p.maxTileRows(p.algorithm)
	p.bands = kit.DivUp(p.m, levelBandRows)
	p.bandRows = kit.DivUp(p.m, p.bands)
	p.division = machine.DivideUnits(p.bands*p.panels(), p.bandRows*p.width()*p.k, machine.MACGrain)
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
		source := mem.Ptrs[1+operand] // Ptrs[0] is the result
		p.pack(operand, chunk%panels, scratchAddress(mem, p.offsets[operand]), source, meta)
		mem.CheckContextAfter(p.panelBytes(operand))
		return nil
	}}
}

// panelAddress returns the address of a panel of an operand, or nil if the operand is omitted.
func (p *levelProduct) panelAddress(mem *graph.Mem, operand, panel int) unsafe.Pointer {
	if operand == blocksZero && !p.hasZeros {
		return nil
	}
	if slices.Contains(p.operandsToPack, operand) {
		return scratchAddress(mem, p.offsets[operand]+panel*p.panelBytes(operand))
	}
	return unsafe.Add(mem.Ptrs[1+operand], panel*p.panelBytes(operand))
}

// multiplyPhase returns the phase that computes the results.
func (p *levelProduct) multiplyPhase(call *graph.Call) graph.Phase {
	return graph.Phase{Chunks: p.division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		worker := p.workers.Get(mem)
		worker.state.Context = mem.Context
		defer func() { // the worker outlives the run
			clear(worker.args.Ptr[:])
			worker.state.Release()
		}()
		p.epilogue.SetOperands(&worker.args, mem, &worker.lanes)
		for unit, end := p.division.ChunkRange(chunk); unit < end; unit++ {
			panel, band := unit/p.bands, unit%p.bands
			strip := p.newStrip(mem, panel, band*p.bandRows, operandAddress(call, mem, blocksBias))
			if err := strip.compute(mem, worker); err != nil {
				return err
			}
			strip.copyResult(mem) // if the panel extends beyond the last column
		}
		return nil
	}}
}
