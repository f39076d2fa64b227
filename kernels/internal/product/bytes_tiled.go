package product

import (
	"fmt"

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

// byteTiles is the kernel of products of byte matrices. A block is the range of columns of one register tile, and a
// panel is a packed block. A group is the sequence of four or eight bytes along the depth that one instruction
// multiplies. The first phase (preparePhase) packs the operands and sums their rows and columns. The second phase
// (multiplyPhase) computes the results strip by strip. A strip is the part of the result in a range of rows and in one
// block. Its sums stay in cache until they are converted to results. An entry is one product of a batch.
//
// Let a and b be elements of a row and a column of k elements, and za and zb their zero points. The result is
//
//	sum((a-za)*(b-zb)) = sum(a*b) - za*sum(b) - zb*sum(a) + k*za*zb
//
// Tiles compute the first term. If all rows have the same zero point za, the sums of a tile start from the bias plus
// the second term. Otherwise they start from the bias, and the second term is added to the sums of a strip afterwards.
// The other terms are always added afterwards.
type byteTiles struct {
	byteShape

	// Operands and result.

	zeroPoints                 byteZeroPoints
	rowCopier                  *byteRowCopier
	packer                     *bytePacker
	isPacked                   bool         // whether operand b was packed when the graph was planned
	aOffsets, bOffsets         []int        // offsets of the distinct matrices in the operands
	aIndex, bIndex, outOffsets []int        // for each entry: index in aOffsets, index in bOffsets, offset of its result
	outRowStride               int          // stride of rows of the result, in elements
	resultDType                tensor.DType // dtype of the result
	scaleStep                  int          // distance between the scales of adjacent columns; 0 for a single scale

	// Sums and their conversion to results. If the sums are the results, nothing converts them.

	hasInitialSums bool                   // whether the sums of tiles start from initial values, not from 0
	conversion     multiply.SumConversion // the corrections of sums by zero points, and their scaling
	conversionLoop *loops.Loop            // converts sums if zero points correct them or if there is a single scale
	requantizer    *multiply.Requantizer  // converts sums without corrections, with a scale for each column
	tileConversion tile.Quantized         // conversion in tiles of the matrix unit; requantizer is then nil
	epilogue       multiply.TileEpilogue  // operations that fusion appends and that tiles apply to their sums

	// Division of the work, and code.

	stripRows      int                 // rows of a strip
	order          multiply.StripOrder // order of strips, and their division into chunks
	scratchOffsets byteScratch
	codes          map[byteCodeKey]*jit.Func // machine code of tiles
	prefetchLines  int                       // cache lines of the next panel that matrix-unit tiles prefetch per iteration
	workers        graph.PerWorker[byteWorker]
}

// byteScratch has offsets in the scratch memory of byteTiles, in bytes.
type byteScratch struct {
	packedRows, rowSums, rowZeros    int // copies of rows, k*za - sum(a) of each row, and their zero points
	panels, initialSums, columnZeros int // packed columns, initial values of their sums, and their zero points
	size                             int // size of the scratch memory
}

// byteCodeKey identifies the machine code of a tile.
type byteCodeKey struct {
	height      int             // rows of a tile
	isLastBlock bool            // whether the tile is in the last block of columns
	initialSum  tile.InitialSum // initial values of sums: 0, a value for each column, or the sums of an earlier call
	groups      int             // number of groups, a constant in code for the matrix unit; 0 for other code
}

const (
	// callGroups is the maximum number of groups, along the depth, that one call multiplies.
	callGroups = 4096
	// byteCallMACs bounds the products of groups in a call of several tiles. Such a call takes less than 50 us with
	// 256-bit vectors.
	byteCallMACs = 1 << 19 / machine.CallDivisor
	// maxUnitStripSums bounds the sums of a strip on the matrix unit.
	maxUnitStripSums = 1 << 15
	// maxPrefetchLines bounds the cache lines of the next panel that are prefetched per iteration.
	maxPrefetchLines = 4
	// byteStripSums is the approximate number of sums of a strip. They stay in cache until they are converted.
	byteStripSums = 1 << 12
	// bandRowBytes is the approximate size, in bytes, of the rows of a band (see [multiply.StripOrder]). They stay in
	// cache while all columns are processed.
	bandRowBytes = 1 << 20
	// byteGrain is the approximate number of multiplications of a chunk.
	byteGrain = 4 * machine.MACGrain
)

// lowerBytes implements [graph.Impl.Lower] for tiles.
func lowerBytes(call *graph.Call) (*graph.Kernel, error) {
	t, err := newByteTiles(call)
	if err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Scratch: t.scratchOffsets.size, Code: t.listings}
	if t.usesMatrixUnit {
		kernel.WorkerScratch = tile.UnitScratchBytes
	}
	if t.storesSums() {
		kernel.WorkerScratch += t.stripRows * t.width() * sumBytes
	}
	kernel.WorkerScratch = max(kernel.WorkerScratch, t.rowCopier.workerBytes())
	if !t.isPacked {
		kernel.WorkerScratch = max(kernel.WorkerScratch, t.packer.transposeBytes())
	}
	if prepare := t.preparePhase(call); prepare.Chunks > 0 {
		kernel.Phases = append(kernel.Phases, prepare)
	}
	kernel.Phases = append(kernel.Phases, t.multiplyPhase(call))
	return kernel, nil
}

// newByteTiles divides the products of a call into tiles and generates the code.
func newByteTiles(call *graph.Call) (*byteTiles, error) {
	product, shape, err := bytesContraction(call)
	if err != nil {
		return nil, err
	}
	shape = shape.forRowStride(product.c.row)
	if packed := call.Packed(bytesB); packed != nil && packed.Format != shape.formatName() {
		return nil, fmt.Errorf("operand %d is packed as %s, but the kernel needs %s", bytesB, packed.Format,
			shape.formatName())
	}
	t := &byteTiles{byteShape: shape, zeroPoints: newByteZeroPoints(call), resultDType: call.Out[0].DType,
		outRowStride: product.c.row, isPacked: call.Packed(bytesB) != nil, scaleStep: vectorStride(call, bytesScale),
		codes: map[byteCodeKey]*jit.Func{}}
	if err := t.chooseConversion(call); err != nil {
		return nil, err
	}
	t.chooseEpilogue(fusion.EpilogueOf(call))
	t.rowCopier, err = newByteRowCopier(shape, product, t.zeroPoints.isSigned[bytesA], t.conversion.AddsProduct)
	if err != nil {
		return nil, err
	}
	if t.packer, err = newBytePacker(shape, t.zeroPoints.isSigned[bytesB]); err != nil {
		return nil, err
	}
	t.listEntries(call, product)
	t.chooseOrder()
	return t, t.compile()
}

// chooseConversion chooses what converts the sums to the result: requantizer, conversionLoop, or the tiles of the
// matrix unit themselves (tileConversion).
func (t *byteTiles) chooseConversion(call *graph.Call) (err error) {
	hasRowZeroPoints := t.zeroPoints.stride[bytesA] > 0 // whether each row has its own zero point
	t.conversion = multiply.SumConversion{AddsProduct: t.zeroPoints.mayBeNonzero[bytesB],
		SubtractsProduct: hasRowZeroPoints, IsScaled: call.HasOperand(bytesScale), HasOneScale: t.scaleStep == 0,
		DType: t.resultDType}
	t.hasInitialSums = call.HasOperand(bytesBias) || t.zeroPoints.mayBeNonzero[bytesA] && !hasRowZeroPoints
	switch {
	case t.conversion == (multiply.SumConversion{IsScaled: true, DType: t.resultDType}):
		t.requantizer, err = multiply.NewRequantizer(t.resultDType)
	case t.conversion.AddsProduct || t.conversion.SubtractsProduct || t.conversion.IsScaled:
		t.conversionLoop, err = t.conversion.Loop()
	}
	if err != nil {
		return err
	}
	if t.usesMatrixUnit && t.requantizer != nil && t.groups <= callGroups {
		t.requantizer, t.tileConversion = nil, tile.Unsigned
		if t.resultDType == tensor.Int8 {
			t.tileConversion = tile.Signed
		}
	}
	return nil
}

// chooseEpilogue decides whether tiles apply an epilogue, a fused pointwise computation. They do if the sums in
// registers are complete. Sums are incomplete if zero points correct them later, or if several calls add to them. In
// these cases, another phase applies the epilogue to whole rows, which costs less than a loop over each strip.
func (t *byteTiles) chooseEpilogue(epilogue *fusion.Epilogue) {
	inTiles := !t.conversion.AddsProduct && !t.conversion.SubtractsProduct && t.groups <= callGroups
	if inTiles {
		t.epilogue, inTiles = multiply.NewTileEpilogue(epilogue, t.n, tile.FirstEpilogueOperand, true)
	}
	if inTiles {
		epilogue.SetInRegisters()
	} else {
		epilogue.Defer()
	}
}

// listEntries lists the distinct matrices of the operands, and the matrices and the result of each entry.
func (t *byteTiles) listEntries(call *graph.Call, product *contraction) {
	offsets := func(m matrixStrides) []int {
		if list := m.offsets(product.batch); list != nil {
			return list
		}
		return make([]int, product.entries())
	}
	t.outOffsets = offsets(product.c)
	indexByOffset := map[int]int{}
	for _, offset := range offsets(product.a) {
		matrix, isListed := indexByOffset[offset]
		if !isListed {
			matrix = len(t.aOffsets)
			indexByOffset[offset] = matrix
			t.aOffsets = append(t.aOffsets, offset)
		}
		t.aIndex = append(t.aIndex, matrix)
	}
	b := call.Meta(bytesB)
	_, _, t.bOffsets = matrixLayout(b)
	t.bIndex = make([]int, product.entries())
	if len(t.bOffsets) > 1 { // no batch dimension was merged into rows in this case
		// The index of a matrix is its offset in a row-major array with one element for each matrix of b.
		indices := tensor.New(tensor.Uint8, b.Shape[:b.Rank()-2]...)
		if strides, err := expandedStrides(indices, indices.Rank(), product.batch); err == nil {
			copy(t.bIndex, matrixStrides{batch: strides}.offsets(product.batch))
		}
	}
}

// chooseOrder divides rows into strips, and chooses the order of computation.
func (t *byteTiles) chooseOrder() {
	tiles := kit.DivUp(t.m, t.height)
	sums := byteStripSums
	if t.usesMatrixUnit {
		// A call should have UnitMinCallGroups products of groups. A sum has t.groups of them.
		sums = min(tile.UnitMinCallGroups/t.groups, maxUnitStripSums)
	}
	maxTiles := max(1, sums/(t.height*t.width()))
	t.stripRows = kit.DivUp(t.m, kit.DivUp(tiles, maxTiles))
	strips := kit.DivUp(t.m, t.stripRows)
	// Iterations of the loops of all tiles of a block. Together they prefetch the next panel.
	iterations := kit.DivUp(min(t.m, t.stripRows), t.height) * strips * kit.DivUp(t.groups, tile.DefaultUnroll)
	t.prefetchLines = min(maxPrefetchLines, kit.DivUp(t.panelBytes()/machine.LineBytes, iterations))
	t.order = multiply.StripOrder{Images: len(t.outOffsets), Blocks: t.blocks(), Strips: strips,
		BandStrips: kit.DivUp(strips, kit.DivUp(t.m*t.rowBytes(), bandRowBytes))}
	grain := byteGrain
	if t.usesMatrixUnit {
		grain *= tile.UnitGrain
	}
	t.order.Divide(t.stripRows*t.width()*t.k, grain)
	t.layOutScratch()
}

// layOutScratch assigns offsets in scratch memory to the values that the kernel needs.
func (t *byteTiles) layOutScratch() {
	offsets := &t.scratchOffsets
	allocate := func(isNeeded bool, bytes int) int {
		offset := offsets.size
		if isNeeded {
			offsets.size += kit.AlignUp(bytes)
		}
		return offset
	}
	columnBytes := t.blocks() * t.width() * sumBytes
	offsets.packedRows = allocate(t.rowCopier.copiesRows, len(t.aOffsets)*t.m*t.rowBytes())
	offsets.rowSums = allocate(t.conversion.AddsProduct, len(t.aOffsets)*t.m*sumBytes)
	offsets.rowZeros = allocate(t.conversion.SubtractsProduct, t.m*sumBytes)
	offsets.panels = allocate(!t.isPacked, len(t.bOffsets)*t.matrixBytes())
	offsets.initialSums = allocate(t.hasInitialSums, len(t.bOffsets)*columnBytes)
	offsets.columnZeros = allocate(t.conversion.AddsProduct, columnBytes)
}

// compile generates the code of all tiles.
func (t *byteTiles) compile() error {
	strips := kit.DivUp(t.m, t.stripRows)
	starts := []tile.InitialSum{tile.Zero}
	if t.hasInitialSums {
		starts[0] = tile.FromLanes
	}
	if t.groups > callGroups {
		starts = append(starts, tile.FromResult)
	}
	for _, rows := range []int{min(t.m, t.stripRows), t.m - (strips-1)*t.stripRows} { // of the first and the last strip
		for _, stack := range t.stacks(rows) {
			if stack.tiles == 0 {
				continue
			}
			if err := t.compileTiles(stack.height, starts); err != nil {
				return err
			}
		}
	}
	return nil
}

// compileTiles generates the code of tiles of the given height, for each of the initial sums.
func (t *byteTiles) compileTiles(height int, starts []tile.InitialSum) (err error) {
	for _, isLastBlock := range []bool{false, true} {
		if !isLastBlock && t.blocks() == 1 {
			continue
		}
		for _, start := range starts {
			// Groups of all calls but the last, and groups of the last call.
			for _, groups := range []int{min(t.groups, callGroups), (t.groups-1)%callGroups + 1} {
				key := t.codeKey(height, isLastBlock, start, groups)
				if t.codes[key], err = tile.Compile(t.spec(key), machine.HostFeatures()); err != nil {
					return fmt.Errorf("product of bytes: %w", err)
				}
			}
		}
	}
	return nil
}

// codeKey identifies the machine code of tiles that multiply the given number of groups.
func (t *byteTiles) codeKey(height int, isLastBlock bool, start tile.InitialSum, groups int) byteCodeKey {
	if !t.usesMatrixUnit {
		groups = 0
	}
	return byteCodeKey{height: height, isLastBlock: isLastBlock, initialSum: start, groups: groups}
}

// spec describes the code of a tile.
func (t *byteTiles) spec(key byteCodeKey) *tile.Spec {
	spec := t.tileSpec(t.rowCopier.readsSigned)
	spec.Rows, spec.Epilogue, spec.Vectors, spec.InitialSum = key.height, t.epilogue.Steps, t.vectors, key.initialSum
	if t.usesMatrixUnit {
		spec.MatrixUnit, spec.Quantized, spec.PrefetchedLines = true, t.tileConversion, t.prefetchLines
		spec.Runs[0].Terms = key.groups
		for i := range key.height {
			spec.In, spec.Out = append(spec.In, i*t.rowCopier.tileRowStride()), append(spec.Out, i*t.outStride())
		}
	}
	if key.isLastBlock {
		columns := t.n - (t.blocks()-1)*t.width()
		spec.Vectors = kit.DivUp(columns, t.lanes)
		if spec.Lanes = columns % t.lanes; spec.Lanes > 0 && tile.DynamicLanes(machine.HostFeatures()) {
			spec.Lanes = tile.Dynamic
		}
	}
	return spec
}

// byteStack is a column of tiles of equal height. The first tile starts at `row`.
type byteStack struct{ row, height, tiles int }

// stacks divides rows into tiles as evenly as possible: tiles of the greater height, then tiles with one row less.
func (t *byteTiles) stacks(rows int) [2]byteStack {
	tiles := kit.DivUp(rows, t.height)
	height := kit.DivUp(rows, tiles)
	tallTiles := rows - tiles*(height-1) // number of tiles of the greater height
	return [2]byteStack{{0, height, tallTiles}, {tallTiles * height, height - 1, tiles - tallTiles}}
}

// listings returns the code of the tiles and of the loops around them.
func (t *byteTiles) listings() (list []expr.Listing) {
	for height := t.height; height > 0; height-- {
		for _, isLastBlock := range []bool{false, true} {
			for _, start := range []tile.InitialSum{tile.Zero, tile.FromLanes, tile.FromResult} {
				key := t.codeKey(height, isLastBlock, start, min(t.groups, callGroups))
				if code := t.codes[key]; code != nil {
					list = append(list, expr.Listing{Name: key.listingName(), Assembly: code.Listing})
				}
			}
		}
	}
	if t.conversionLoop != nil {
		list = append(list, t.conversionLoop.Listing("finish"))
	}
	if t.requantizer != nil {
		list = append(list, t.requantizer.Listing())
	}
	if t.rowCopier.loop != nil {
		list = append(list, t.rowCopier.loop.Listing("rows"))
	}
	if !t.isPacked {
		list = append(list, t.packer.joinCode.Listing("panels"))
	}
	return list
}

// listingName returns the name of the code in listings.
func (key byteCodeKey) listingName() string {
	name := fmt.Sprintf("tiles of %d rows", key.height)
	if key.isLastBlock {
		name += ", last columns"
	}
	if key.initialSum == tile.FromResult {
		name += ", later terms"
	}
	return name
}
