package iter

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Reducer is a reduction prepared for fixed layouts. It divides the work into phases, and each phase into chunks, for
// callers that supply workers and memory. It is immutable and safe for concurrent use.
//
// An axis of the iteration is either reduced or kept. Results are divided into units. A unit is a run of results along
// the fastest kept axis. If the fastest axis in memory is reduced, a unit is computed by rows. Each result is then
// computed from a contiguous run of the operand. Otherwise a unit is computed by columns: its results are computed
// together, and each step folds one element into every result.
//
// If there are few units, the reduced range (the elements of one result) is cut into pieces, so that several workers
// share it. The first phase then writes an accumulator for each piece to scratch memory, and the second phase merges
// the accumulators in order. Units and pieces depend only on shapes and strides.
//
// For example, a row-major operand of 1000x64 elements is summed. The sums of the rows are computed by rows, in units
// of up to 64 results. The sums of the columns are computed by columns: all 64 results are one unit.
type Reducer struct {
	fold        *Fold
	keptAxes    []axes.Axis // fastest first
	reducedAxes []axes.Axis // the reduced axes, fastest first
	byRows      bool        // units are computed by rows, not by columns
	resultCount int         // total number of results

	unitLen             int // number of results in a unit; the last unit along the fastest kept axis may have fewer
	unitsPerFastestAxis int // number of units along the fastest kept axis
	unitCount           int // total number of units
	unitsPerChunk       int // number of units in a chunk

	reducedLen    int // number of elements of each result
	firstPosition int // position of the first element of a result
	pieceLen      int // length of a piece of the reduced range, in elements
	pieceCount    int // number of pieces of the reduced range

	loader   axes.Loader // converts input elements to the dtype of the Fold
	inOffset int         // byte offset of the first input element; not 0 only for a part of an iteration
	outs     []reduceOut
	resumes  bool // the Fold resumes from the contents of the outputs
}

// reduceOut is an output of a Reducer.
type reduceOut struct {
	offset    int                // byte offset of the first output element; not 0 only for a part of an iteration
	size      int                // bytes of an element in the dtype of the Fold
	sameDType bool               // the output has the dtype of the Fold
	store     tensor.ConvertFunc // converts from the dtype of the Fold to the dtype of the output
	load      tensor.ConvertFunc // converts back
}

// The pieces of a reduction determine its rounding, so these constants do not depend on the machine.
const (
	minChunks  = 16 // with fewer chunks, the reduced range is cut into pieces
	maxPieces  = 64 // approximate limit for the number of pieces of all units together
	maxRowUnit = 64 // maximum number of results of a unit that is computed by rows
	// mergeInterval is the number of elements after which the accumulator of a column is merged into a second-level
	// accumulator, which bounds the rounding error.
	mergeInterval = 256
	minGrain      = 1024 // minimum number of elements of a chunk
	shortRowAxis  = 16   // a reduced axis is short if it has fewer elements than this
	shortKeptAxis = 8    // a kept axis is short if it has fewer results than this
)

// plan chooses rows or columns, and sets the units and the pieces.
func (r *Reducer) plan() {
	r.reducedLen, r.resultCount = axes.Numel(r.reducedAxes), axes.Numel(r.keptAxes)
	r.byRows = r.prefersRows()
	kept := r.keptAxes[0]
	grain := max(machine.ReduceGrain/r.fold.weight, minGrain) // wanted number of elements of a chunk

	r.unitLen = min(max(kept.Size, 1), axes.BlockLen)
	if r.byRows {
		r.unitLen = min(r.unitLen, maxRowUnit, max(1, grain/max(r.reducedLen, 1)))
	}
	r.unitsPerFastestAxis = (kept.Size + r.unitLen - 1) / r.unitLen
	r.unitCount = r.unitsPerFastestAxis * axes.Numel(r.keptAxes[1:])
	unitElements := r.unitLen * max(r.reducedLen, 1)

	r.unitsPerChunk = max(1, grain/unitElements)
	chunks := (r.unitCount + r.unitsPerChunk - 1) / r.unitsPerChunk
	r.pieceCount, r.pieceLen = 1, r.reducedLen
	hasFewChunks := chunks > 0 && chunks < minChunks
	if hasFewChunks && unitElements >= 2*grain { // a unit has enough elements for at least two chunks
		r.cutPieces(unitElements, grain)
	}
}

// prefersRows reports whether units are computed by rows. The axis with the smaller input stride decides: by rows
// if it is the reduced axis (or if the kept axis has one result), by columns if it is the kept axis. The choice is
// reversed if this axis is short and not longer than the other axis.
func (r *Reducer) prefersRows() bool {
	kept, reduced := r.keptAxes[0], r.reducedAxes[0]
	if reduced.InStride <= kept.InStride || kept.Size == 1 {
		return reduced.Size >= shortRowAxis || kept.Size < reduced.Size
	}
	return kept.Size < shortKeptAxis && kept.Size <= reduced.Size
}

// cutPieces cuts the reduced range into pieces of about grain elements of a unit, but at most about maxPieces for all
// units. Pieces of rows are whole blocks.
func (r *Reducer) cutPieces(unitElements, grain int) {
	r.pieceCount = min((unitElements+grain-1)/grain, (maxPieces+r.unitCount-1)/r.unitCount)
	r.pieceLen = (r.reducedLen + r.pieceCount - 1) / r.pieceCount
	if r.byRows && r.pieceLen > axes.BlockLen {
		r.pieceLen = (r.pieceLen + axes.BlockLen - 1) / axes.BlockLen * axes.BlockLen
	}
	r.pieceCount = (r.reducedLen + r.pieceLen - 1) / r.pieceLen
}

// Scratch returns the size in bytes of the memory that all chunks of all phases share.
func (r *Reducer) Scratch() int {
	if r.pieceCount == 1 {
		return 0
	}
	return alignUp(r.pieceCount * r.resultCount * r.fold.accBytes)
}

// WorkerScratch returns the size in bytes of the memory that a worker needs while it runs a chunk.
// [Reducer.divideMemory] divides it.
func (r *Reducer) WorkerScratch() int {
	return 2*alignUp(r.unitLen*r.fold.accBytes) + 2*axes.BlockBytes + alignUp(8*len(r.keptAxes)) +
		alignUp(8*len(r.reducedAxes))
}

// Phases returns the number of phases. A phase starts after all chunks of the previous one.
func (r *Reducer) Phases() int { return min(r.pieceCount, 2) }

// Chunks returns the number of chunks of a phase, which depends only on shapes and strides. Chunks may run concurrently
// and in any order.
func (r *Reducer) Chunks(phase int) int {
	switch {
	case phase > 0:
		return r.unitCount
	case r.pieceCount > 1:
		return r.unitCount * r.pieceCount
	}
	return (r.unitCount + r.unitsPerChunk - 1) / r.unitsPerChunk
}

// Run runs a chunk of a phase. ptrs are the addresses of the operands' first elements, outputs first, as from
// [Iterator.Bind]. scratch and worker are memory of the sizes [Reducer.Scratch] and [Reducer.WorkerScratch], 64-byte
// aligned, and need not be initialized. Run does not allocate.
//
// Run is unsafe: addresses are not checked against the operands. It fails if phase, chunk or the number of addresses is
// wrong, an address is nil, or scratch or worker is too small.
func (r *Reducer) Run(phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	if err := r.checkRun(phase, chunk, ptrs, scratch, worker); err != nil {
		return err
	}
	memory := r.divideMemory(worker)
	switch {
	case r.pieceCount == 1:
		for unit := chunk * r.unitsPerChunk; unit < min((chunk+1)*r.unitsPerChunk, r.unitCount); unit++ {
			r.reduceUnit(&memory, ptrs, unit)
		}
	case phase == 0: // chunk = piece*unitCount + unit
		r.reducePiece(&memory, ptrs, scratch, chunk%r.unitCount, chunk/r.unitCount)
	default: // a chunk is a unit
		r.mergePieces(&memory, ptrs, scratch, chunk)
	}
	return nil
}

// reduceUnit computes the results of a unit.
func (r *Reducer) reduceUnit(memory *reduceMemory, ptrs []unsafe.Pointer, unit int) {
	results := r.seekUnit(memory, unit)
	in := ptrs[len(r.outs)] // the address of the input follows the addresses of the outputs
	acc := r.reduce(memory, in, unit, results, 0, r.reducedLen)
	r.writeResults(memory, ptrs, acc, unit, results)
}

// reducePiece computes the accumulators of a piece of a unit, and writes them to scratch.
func (r *Reducer) reducePiece(memory *reduceMemory, ptrs []unsafe.Pointer, scratch []byte, unit, piece int) {
	results := r.seekUnit(memory, unit)
	begin, end := piece*r.pieceLen, min((piece+1)*r.pieceLen, r.reducedLen)
	in := ptrs[len(r.outs)]
	acc := r.reduce(memory, in, unit, results, begin, end)
	copy(r.partialMemory(scratch, piece, unit, results), unsafe.Slice((*byte)(acc), results*r.fold.accBytes))
}

// mergePieces merges the accumulators of a unit's pieces in scratch, and writes the results.
func (r *Reducer) mergePieces(memory *reduceMemory, ptrs []unsafe.Pointer, scratch []byte, unit int) {
	results := r.seekUnit(memory, unit)
	r.fold.init(memory.acc, results)
	for piece := range r.pieceCount {
		partial := r.partialMemory(scratch, piece, unit, results)
		r.fold.merge(memory.acc, unsafe.Pointer(unsafe.SliceData(partial)), results)
	}
	r.writeResults(memory, ptrs, memory.acc, unit, results)
}

// checkRun checks the arguments of Run.
func (r *Reducer) checkRun(phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error {
	switch {
	case r == nil || r.fold == nil:
		return errors.New("iter: the Reducer was not made by an Iterator")
	case phase < 0 || phase >= r.Phases() || chunk < 0 || chunk >= r.Chunks(phase):
		return fmt.Errorf("iter: chunk %d of phase %d does not exist: the reduction has %d phases", chunk, phase, r.Phases())
	case len(ptrs) != len(r.outs)+1:
		return fmt.Errorf("iter: %d addresses were given for a reduction with %d outputs and one input", len(ptrs),
			len(r.outs))
	case len(scratch) < r.Scratch() || len(worker) < r.WorkerScratch():
		return fmt.Errorf("iter: scratch has %d bytes and worker %d: the reduction needs %d and %d",
			len(scratch), len(worker), r.Scratch(), r.WorkerScratch())
	}
	for i, p := range ptrs {
		if p == nil && (i < len(r.outs) || r.reducedLen > 0) {
			return fmt.Errorf("iter: address %d of a reduction is nil", i)
		}
	}
	return nil
}

// partialMemory returns the memory in scratch for the n accumulators of a piece of a unit.
func (r *Reducer) partialMemory(scratch []byte, piece, unit, n int) []byte {
	// Memory has the accumulators of all results for piece 0, then for piece 1, and so on.
	run := unit / r.unitsPerFastestAxis // index of the run of results along the fastest kept axis
	first := piece*r.resultCount + run*r.keptAxes[0].Size + r.firstResult(unit)
	return scratch[first*r.fold.accBytes : (first+n)*r.fold.accBytes]
}

// This part reduces one unit of a [Reducer]: adjacent results along the fastest kept axis. seekUnit moves to the unit,
// reduce folds its elements into accumulators by rows or by columns, and writeResults computes the results from the
// accumulators. For the sums of the rows of a 3x100 operand, foldRow is called three times with 100 elements. For the
// sums of its columns, foldColumns folds three rows into 100 accumulators.

// reduceMemory is the working memory of a worker during a chunk.
type reduceMemory struct {
	acc           unsafe.Pointer // an accumulator for each result of a unit
	upper         unsafe.Pointer // accumulators of the second level (mergeInterval)
	block         unsafe.Pointer // a block of elements in the dtype of the Fold
	loaderBlock   unsafe.Pointer // a block for the loader
	keptWalker    axes.Walker    // position in the kept axes, except the fastest
	reducedWalker axes.Walker    // position in the reduced axes, except the fastest
}

// divideMemory divides a worker's memory.
func (r *Reducer) divideMemory(worker []byte) reduceMemory {
	blocks := arena{worker}
	var m reduceMemory
	m.acc, m.upper = blocks.take(r.unitLen*r.fold.accBytes), blocks.take(r.unitLen*r.fold.accBytes)
	m.block, m.loaderBlock = blocks.take(axes.BlockBytes), blocks.take(axes.BlockBytes)
	m.keptWalker = axes.Walker{Axes: r.keptAxes[1:], Index: blocks.ints(len(r.keptAxes) - 1)}
	m.reducedWalker = axes.Walker{Axes: r.reducedAxes[1:], Index: blocks.ints(len(r.reducedAxes) - 1)}
	return m
}

// seekUnit moves the walker of the kept axes to a unit and returns its number of results.
func (r *Reducer) seekUnit(memory *reduceMemory, unit int) int {
	memory.keptWalker.Seek(unit / r.unitsPerFastestAxis)
	return min(r.unitLen, r.keptAxes[0].Size-r.firstResult(unit))
}

// firstResult returns the index of the first result of a unit along the fastest kept axis.
func (r *Reducer) firstResult(unit int) int { return unit % r.unitsPerFastestAxis * r.unitLen }

// reduce folds elements [begin, end) of the reduced range for the n results of a unit, and returns the accumulators.
func (r *Reducer) reduce(memory *reduceMemory, in unsafe.Pointer, unit, n, begin, end int) unsafe.Pointer {
	r.fold.init(memory.acc, n)
	if begin >= end {
		return memory.acc
	}
	step := r.keptAxes[0].InStride
	base := unsafe.Add(in, r.inOffset+memory.keptWalker.Offset+r.firstResult(unit)*step)
	if r.byRows {
		for j := range n {
			r.foldRow(memory, unsafe.Add(memory.acc, j*r.fold.accBytes), unsafe.Add(base, j*step), begin, end)
		}
		return memory.acc
	}
	return r.foldColumns(memory, base, n, begin, end)
}

// shortRun is the length in elements below which contiguous runs are first copied to a block, to reduce the number of
// calls of the Fold.
const shortRun = 32

// foldRow folds the elements [begin, end) of one result into acc. src is the address of the result's element at
// position 0 of the reduced range. Short contiguous runs are copied into a block until it is full, and then folded
// together.
func (r *Reducer) foldRow(memory *reduceMemory, acc, src unsafe.Pointer, begin, end int) {
	inner := r.reducedAxes[0]
	memory.reducedWalker.Seek(begin / inner.Size)
	innerIndex := begin % inner.Size
	isContiguous := r.loader.Direct && inner.InStride == r.loader.Size
	blockLen := 0 // number of elements in the block, which precede pos
	for pos := begin; pos < end; {
		runLen := min(inner.Size-innerIndex, end-pos)
		run := unsafe.Add(src, memory.reducedWalker.Offset+innerIndex*inner.InStride)
		if isContiguous && runLen >= shortRun {
			r.foldBlock(memory, acc, blockLen, pos)
			blockLen = 0
			r.foldInPlace(acc, run, runLen, pos)
		} else {
			blockLen = r.foldByBlock(memory, acc, run, runLen, pos, blockLen)
		}
		pos += runLen
		innerIndex = 0
		memory.reducedWalker.Next()
	}
	r.foldBlock(memory, acc, blockLen, end)
}

// foldInPlace folds a contiguous run of n elements into acc. The first element has position pos.
func (r *Reducer) foldInPlace(acc, run unsafe.Pointer, n, pos int) {
	for offset := 0; offset < n; offset += axes.BlockLen {
		r.fold.row(acc, unsafe.Add(run, offset*r.loader.Size), min(axes.BlockLen, n-offset), r.firstPosition+pos+offset)
	}
}

// foldByBlock copies a run of n elements, beginning at position pos, to the block after its blockLen elements. Whenever
// the block is full, it is folded into acc. The result is the number of elements in the block.
func (r *Reducer) foldByBlock(memory *reduceMemory, acc, run unsafe.Pointer, n, pos, blockLen int) int {
	step := r.reducedAxes[0].InStride
	for offset := 0; offset < n; {
		copied := min(n-offset, axes.BlockLen-blockLen)
		r.loader.Load(unsafe.Add(memory.block, blockLen*r.loader.Size), memory.loaderBlock,
			unsafe.Add(run, offset*step), step, copied)
		offset += copied
		if blockLen += copied; blockLen == axes.BlockLen {
			r.foldBlock(memory, acc, blockLen, pos+offset)
			blockLen = 0
		}
	}
	return blockLen
}

// foldBlock folds the n elements of the block into acc. Their positions are end-n to end-1.
func (r *Reducer) foldBlock(memory *reduceMemory, acc unsafe.Pointer, n, end int) {
	if n > 0 {
		r.fold.row(acc, memory.block, n, r.firstPosition+end-n)
	}
}

// foldColumns computes the accumulators of n adjacent results together: for each position in [begin, end), it folds one
// element into each accumulator. After every mergeInterval positions, the accumulators are merged into accumulators
// of a second level, to bound rounding errors.
func (r *Reducer) foldColumns(memory *reduceMemory, base unsafe.Pointer, n, begin, end int) unsafe.Pointer {
	inner, step := r.reducedAxes[0], r.keptAxes[0].InStride
	memory.reducedWalker.Seek(begin / inner.Size)
	innerIndex := begin % inner.Size
	folded := 0        // number of elements in each accumulator of the first level
	usesUpper := false // the second level has elements
	for pos := begin; pos < end; pos++ {
		first := unsafe.Add(base, memory.reducedWalker.Offset+innerIndex*inner.InStride)
		// elems are the elements in place, or copies in memory.block.
		elems := r.loader.Run(memory.block, memory.loaderBlock, first, step, n)
		r.fold.columns(memory.acc, elems, n, r.firstPosition+pos)
		if innerIndex++; innerIndex == inner.Size {
			innerIndex = 0
			memory.reducedWalker.Next()
		}
		if folded++; folded == mergeInterval && pos+1 < end {
			if !usesUpper {
				r.fold.init(memory.upper, n)
			}
			r.fold.merge(memory.upper, memory.acc, n)
			r.fold.init(memory.acc, n)
			folded, usesUpper = 0, true
		}
	}
	if !usesUpper {
		return memory.acc
	}
	r.fold.merge(memory.upper, memory.acc, n)
	return memory.upper
}

// writeResults computes the n results of a unit from the accumulators acc and writes them.
func (r *Reducer) writeResults(memory *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) {
	if r.resumes {
		acc = r.resume(memory, ptrs, acc, unit, n)
	}
	for i := range r.outs {
		out := &r.outs[i]
		dst, step := r.resultAddress(memory, ptrs, i, unit)
		if out.sameDType && (step == out.size || n == 1) { // the results are contiguous
			r.fold.finish[i](dst, acc, n)
			continue
		}
		r.fold.finish[i](memory.block, acc, n)
		out.store(dst, memory.block, step, out.size, n)
	}
}

// resume returns accumulators that are initialized from the n results of a unit in the outputs, and into which acc is
// merged.
func (r *Reducer) resume(memory *reduceMemory, ptrs []unsafe.Pointer, acc unsafe.Pointer, unit, n int) unsafe.Pointer {
	merged := memory.acc
	if acc == merged { // the second level is then free: acc has all elements
		merged = memory.upper
	}
	r.fold.init(merged, n)
	for i := range r.outs {
		src, step := r.resultAddress(memory, ptrs, i, unit)
		r.outs[i].load(memory.block, src, r.outs[i].size, step, n)
		r.fold.resume[i](merged, memory.block, n)
	}
	r.fold.merge(merged, acc, n)
	return merged
}

// resultAddress returns the address of a unit's first result in output i, and the stride in bytes between results.
func (r *Reducer) resultAddress(memory *reduceMemory, ptrs []unsafe.Pointer, i, unit int) (unsafe.Pointer, int) {
	step := r.keptAxes[0].OutStrides[i]
	offset := r.outs[i].offset + memory.keptWalker.OutOffsets[i] + r.firstResult(unit)*step
	return unsafe.Add(ptrs[i], offset), step
}

// arena divides memory into parts aligned to cache lines. free is the remaining memory.
type arena struct{ free []byte }

// take returns the address of the next `bytes` bytes.
func (g *arena) take(bytes int) unsafe.Pointer {
	start := unsafe.Pointer(unsafe.SliceData(g.free))
	g.free = g.free[alignUp(bytes):]
	return start
}

// ints returns the next memory as a slice of n integers.
func (g *arena) ints(n int) []int { return unsafe.Slice((*int)(g.take(n*8)), n) }

// alignUp rounds a number of bytes up to the alignment of the arena.
func alignUp(n int) int { return (n + tensor.Align - 1) &^ (tensor.Align - 1) }
