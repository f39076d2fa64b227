package product

import (
	"fmt"

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

// byteTiles is the kernel of products of byte matrices. A tile is a rectangle of the result whose sums are in
// registers. A block is the range of columns of a tile, and a panel is a packed block of operand b. A group has the
// elements along the depth that one instruction multiplies. The kernel has two phases:
//
//  1. preparePhase packs the operands and sums their rows and columns.
//  2. multiplyPhase computes the result strip by strip. A strip is the part of the result in a range of rows and in one
//     block. Its sums stay in cache until they are converted to results.
//
// An entry is one product of a batch. Let a[0..k-1] be a row with zero point za, and b[0..k-1] a column with zero point
// zb. The element of the result for this row and column is
//
//	sum((a-za)*(b-zb)) = sum(a*b) - za*sum(b) + (k*za - sum(a))*zb
//
// Tiles compute the first term. If all rows have the same za, the sums of a tile start from bias - za*sum(b). Otherwise
// they start from the bias, and the conversion of a strip subtracts za*sum(b). The conversion also adds the third term.
// Its factor k*za - sum(a) is the row correction.
type byteTiles struct {
	byteShape   // m, n and k of a product; height and width of tiles; groups along the depth
	byteEntries // the matrices of all entries

	call         *graph.Call
	zeroPoints   byteZeroPoints
	rowCopier    *byteRowCopier // copies and sums rows of operand a
	packer       *bytePacker    // packs and sums columns of operand b
	isPacked     bool           // whether operand b was packed when the graph was planned
	outRowStride int            // stride of rows of the result, in elements
	resultDType  tensor.DType   // dtype of the result

	// Sums and their conversion to results. If the sums are the results, nothing converts them.

	hasInitialSums bool                   // whether the sums of tiles start from initial values, not from 0
	biasStride     int                    // stride of the bias, in elements
	conversion     multiply.SumConversion // the steps: add third terms, subtract za*sum(b), scale
	scaleStep      int                    // distance between the scales of adjacent columns; 0 for a single scale
	conversionLoop *loops.Loop            // converts sums if terms are added or if there is a single scale
	requantizer    *multiply.Requantizer  // converts sums that are only scaled, with a scale for each column
	tileConversion tile.Quantized         // conversion in tiles of the matrix unit; requantizer is then nil
	epilogue       multiply.TileEpilogue  // operations that fusion appends and that tiles apply to their sums

	// Division of the work, memory and code.

	stripRows      int                       // rows of all strips but the last
	order          multiply.StripOrder       // order of strips, and their division into chunks
	scratchOffsets byteScratch               // offsets of the values that the first phase stores
	codes          map[byteCodeKey]*jit.Func // machine code of tiles, by kind of tile
	prefetchLines  int                       // cache lines of the next panel that matrix-unit tiles prefetch per iteration
	workers        graph.PerWorker[byteWorker]
}

// byteEntries has the matrices of all entries. Entries may share a matrix of an operand. Offsets and strides are in
// elements.
type byteEntries struct {
	aOffsets   []int // offsets of the distinct matrices of operand a
	bOffsets   []int // offsets of the distinct matrices of operand b
	aIndex     []int // for each entry, the index of its matrix in aOffsets
	bIndex     []int // for each entry, the index of its matrix in bOffsets
	outOffsets []int // for each entry, the offset of its result

	bRowStride, bColStride int // of the matrices of operand b
}

// byteScratch has offsets in the scratch memory of byteTiles, in bytes.
type byteScratch struct {
	packedRows       int // copies of the rows of all matrices of operand a
	rowCorrections   int // k*za - sum(a) for each of these rows
	rowZeroPoints    int // za for each row of a matrix
	panels           int // packed columns of all matrices of operand b
	initialSums      int // initial value of the sums of each of these columns
	columnZeroPoints int // zb for each column of a matrix
	size             int // size of the scratch memory
}

const (
	// maxCallGroups is the maximum number of groups, along the depth, that one call of machine code multiplies.
	maxCallGroups = 4096
	// maxCallGroupProducts is the maximum number of group products in a call of several tiles. A group product
	// multiplies a group of a row by a group of a column. With this number, a call takes less than 50 us with 256-bit
	// vectors.
	maxCallGroupProducts = 1 << 19 / machine.CallDivisor
	// byteStripSums is the approximate number of sums of a strip. Sums of this size stay in cache until their
	// conversion.
	byteStripSums = 1 << 12
	// maxUnitStripSums bounds the sums of a strip on the matrix unit.
	maxUnitStripSums = 1 << 15
	// maxPrefetchLines bounds the cache lines of the next panel that are prefetched per iteration.
	maxPrefetchLines = 4
	// bandRowBytes is the approximate size, in bytes, of the rows of a band (see [multiply.StripOrder]). The rows stay
	// in cache while all columns are processed.
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
	if prepare := t.preparePhase(); prepare.Chunks > 0 {
		kernel.Phases = append(kernel.Phases, prepare)
	}
	kernel.Phases = append(kernel.Phases, t.multiplyPhase())
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
	t := &byteTiles{byteShape: shape, call: call, zeroPoints: newByteZeroPoints(call),
		isPacked: call.Packed(bytesB) != nil, outRowStride: product.c.row, resultDType: call.Out[0].DType,
		scaleStep: vectorStride(call, bytesScale), biasStride: vectorStride(call, bytesBias),
		codes: map[byteCodeKey]*jit.Func{}}
	if err := t.chooseConversion(call); err != nil {
		return nil, err
	}
	// Tiles apply an epilogue, a fused pointwise computation, if the sums in registers are complete. This requires that
	// the conversion adds no terms to the sums, and that a single call computes them. Otherwise another phase applies
	// the epilogue to whole rows, which costs less than a loop over each strip.
	areComplete := !t.conversion.AddsProduct && !t.conversion.SubtractsProduct && t.groups <= maxCallGroups
	t.epilogue = multiply.AssignEpilogue(fusion.EpilogueOf(call), t.n, areComplete)
	t.rowCopier, err = newByteRowCopier(shape, product, t.zeroPoints.isSigned[bytesA])
	if err != nil {
		return nil, err
	}
	if t.packer, err = newBytePacker(shape, t.zeroPoints.isSigned[bytesB]); err != nil {
		return nil, err
	}
	t.byteEntries = newByteEntries(call, product)
	t.chooseStripRows()
	t.choosePrefetchLines()
	t.chooseOrder()
	t.layOutScratch()
	return t, t.compile()
}

// chooseConversion chooses what converts the sums to the result: requantizer, conversionLoop, or the tiles of the
// matrix unit themselves (tileConversion).
func (t *byteTiles) chooseConversion(call *graph.Call) (err error) {
	hasRowZeroPoints := t.zeroPoints.stride[bytesA] > 0 // whether each row has its own zero point
	t.conversion = multiply.SumConversion{AddsProduct: t.zeroPoints.mayBeNonzero[bytesB],
		SubtractsProduct: hasRowZeroPoints, IsScaled: call.HasOperand(bytesScale), HasOneScale: t.scaleStep == 0,
		DType: t.resultDType}
	subtractsInTiles := t.zeroPoints.mayBeNonzero[bytesA] && !hasRowZeroPoints // whether tiles subtract za*sum(b)
	t.hasInitialSums = call.HasOperand(bytesBias) || subtractsInTiles
	isOnlyScaledByColumn := t.conversion == multiply.SumConversion{IsScaled: true, DType: t.resultDType}
	switch {
	case isOnlyScaledByColumn:
		t.requantizer, err = multiply.NewRequantizer(t.resultDType)
	case t.conversion.AddsProduct || t.conversion.SubtractsProduct || t.conversion.IsScaled: // the general conversion
		t.conversionLoop, err = t.conversion.Loop()
	}
	if err != nil {
		return err
	}
	// Tiles of the matrix unit can replace the requantizer if one call computes complete sums.
	if t.usesMatrixUnit && t.requantizer != nil && t.groups <= maxCallGroups {
		t.requantizer, t.tileConversion = nil, tile.Unsigned
		if t.resultDType == tensor.Int8 {
			t.tileConversion = tile.Signed
		}
	}
	return nil
}

// newByteEntries lists the distinct matrices of the operands, and the matrices and the result of each entry. Matrices
// of operand a are distinct if their offsets differ. All matrices of operand b are listed, in the order in which they
// are packed.
func newByteEntries(call *graph.Call, product *contraction) (entries byteEntries) {
	offsets := func(m matrixStrides) []int {
		if list := m.offsets(product.batch); list != nil {
			return list
		}
		return make([]int, product.entries())
	}
	entries.outOffsets = offsets(product.c)
	indexByOffset := map[int]int{}
	for _, offset := range offsets(product.a) {
		matrix, isListed := indexByOffset[offset]
		if !isListed {
			matrix = len(entries.aOffsets)
			indexByOffset[offset] = matrix
			entries.aOffsets = append(entries.aOffsets, offset)
		}
		entries.aIndex = append(entries.aIndex, matrix)
	}
	b := call.Meta(bytesB)
	entries.bRowStride, entries.bColStride, entries.bOffsets = matrixLayout(b)
	entries.bIndex = make([]int, product.entries())
	if len(entries.bOffsets) > 1 { // no batch dimension was merged into rows in this case
		// The index of a matrix is its offset in a row-major array with one element for each matrix of b.
		indices := tensor.New(tensor.Uint8, b.Shape[:b.Rank()-2]...)
		if strides, err := expandedStrides(indices, indices.Rank(), product.batch); err == nil {
			copy(entries.bIndex, matrixStrides{batch: strides}.offsets(product.batch))
		}
	}
	return entries
}

// chooseStripRows divides the rows evenly into strips. A strip has about byteStripSums sums. On the matrix unit, the
// number depends on the depth instead.
func (t *byteTiles) chooseStripRows() {
	stripSums := byteStripSums
	if t.usesMatrixUnit {
		// A call should do about UnitMinCallGroups group products. A sum takes t.groups of them.
		stripSums = min(tile.UnitMinCallGroups/t.groups, maxUnitStripSums)
	}
	tiles, maxTiles := kit.DivUp(t.m, t.height), max(1, stripSums/(t.height*t.width()))
	t.stripRows = kit.DivUp(t.m, kit.DivUp(tiles, maxTiles))
}

// strips returns the number of strips of a block.
func (t *byteTiles) strips() int { return kit.DivUp(t.m, t.stripRows) }

// choosePrefetchLines sets how many cache lines of the next panel each loop iteration of a tile prefetches. Together,
// the iterations of all tiles of a block prefetch the whole panel.
func (t *byteTiles) choosePrefetchLines() {
	tilesPerStrip, iterationsPerTile := kit.DivUp(min(t.m, t.stripRows), t.height), kit.DivUp(t.groups, tile.DefaultUnroll)
	iterations := tilesPerStrip * t.strips() * iterationsPerTile
	t.prefetchLines = min(maxPrefetchLines, kit.DivUp(t.panelBytes()/machine.LineBytes, iterations))
}

// chooseOrder chooses the order of strips, and divides them into chunks.
func (t *byteTiles) chooseOrder() {
	bands := kit.DivUp(t.m*t.rowBytes(), bandRowBytes)
	t.order = multiply.StripOrder{Images: len(t.outOffsets), Blocks: t.blocks(), Strips: t.strips(),
		BandStrips: kit.DivUp(t.strips(), bands)}
	grain := byteGrain
	if t.usesMatrixUnit {
		grain *= tile.UnitGrain
	}
	t.order.Divide(t.stripRows*t.width()*t.k, grain)
}

// layOutScratch assigns offsets in scratch memory to the values that the first phase stores.
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
	offsets.rowCorrections = allocate(t.conversion.AddsProduct, len(t.aOffsets)*t.m*sumBytes)
	offsets.rowZeroPoints = allocate(t.conversion.SubtractsProduct, t.m*sumBytes)
	offsets.panels = allocate(!t.isPacked, len(t.bOffsets)*t.matrixBytes())
	offsets.initialSums = allocate(t.hasInitialSums, len(t.bOffsets)*columnBytes)
	offsets.columnZeroPoints = allocate(t.conversion.AddsProduct, columnBytes)
}
