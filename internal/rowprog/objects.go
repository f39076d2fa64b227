package rowprog

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// This file compiles the passes of a plan. [Plan.build] chooses their form. For each form that it tries, compilePasses
// determines the memory of the operands of loops (objects), and compiles the loops of each pass (compilePass) and the
// fused loop (fuse).

// object is memory that the loops of a tile read or write: an output or operand of the caller, or memory of the worker.
// Memory of the worker holds a staged copy, a stored row, one number for each row, or accumulators. An object is
// identified by its index in Plan.objects. Its reduced axes run along a row, and its kept axes run from row to row.
// kept[0] is the fastest kept axis.
//
// For example, a contiguous float32 operand of 100 rows of 64 elements has keptStride 256 and reducedStrides [4]. The
// object of the sums of its rows has keptStride 4 and reducedStrides [0].
type object struct {
	argument       int   // index among outputs and operands, or -1 for memory of the worker
	offset         int   // byte offset in the worker's memory
	size           int   // size of an element in bytes
	keptStride     int   // stride in bytes along kept[0]
	reducedStrides []int // strides in bytes along the reduced axes
	// An object in the worker's memory has `copies` buffers, copyStride bytes apart, because fused passes work on several
	// tiles at once.
	copies, copyStride int
}

// stride returns the stride in bytes along an axis: firstKept, or the index of a reduced axis.
func (o *object) stride(axisIndex int) int {
	switch {
	case axisIndex == firstKept:
		return o.keptStride
	case axisIndex < 0 || axisIndex >= len(o.reducedStrides):
		return 0
	}
	return o.reducedStrides[axisIndex]
}

// stagedCopy copies between an operand or output that loops cannot use in place, and its substitute in the worker's
// memory (the staged copy). An operand is copied to the worker's memory before the passes. An output is copied from the
// worker's memory after the passes.
type stagedCopy struct {
	isWholeTile bool         // copies all elements of the tile; otherwise one element for each row
	isOutput    bool         // copies an output; otherwise an operand
	argument    int          // the object of the operand or output
	staged      int          // the object of its staged copy
	elem        strided.Elem // the copy of one element
}

// compiledPass is a pass with its loops.
type compiledPass struct {
	loop           *loops.Loop // over the elements of rows; nil if the pass only computes once per row
	pointerObjects []int       // objects of the pointers of loop: outputs, operands, accumulators; -1 if not stored
	folds          []fold

	unrolled         *loops.Loop      // along columns: a loop over several elements of each column at once, or nil
	unrollCount      int              // the number of these elements
	unrolledPointers []elementPointer // by pointer of the unrolled loop

	scans []scan

	perRow        *loops.Loop // the computation once per row, or nil
	perRowObjects []int       // objects of the outputs and operands of perRow
}

// elementPointer describes a pointer of an unrolled loop.
type elementPointer struct {
	base    int // index in compiledPass.pointerObjects: the pointer of the loop without unrolling
	element int // index in the column of the pointer's first element
}

// fold is a reduction of each row in a pass, such as a sum. result, laneAccs and blockTotals are indices of objects.
type fold struct {
	result       int                                  // one number for each row: the result
	laneAccs     int                                  // accumulators by row and lane; -1 if they are not in memory
	blockTotals  int                                  // along columns: totals of the previous blocks (foldBlock); else -1
	neutral      [expr.FoldLanes * 8]byte             // copies of the neutral element
	combineLanes func(dst, acc unsafe.Pointer, n int) // combines the lane accumulators of n rows at acc to results at dst
	joinLoop     *loops.Loop                          // combines results of blocks of columns, or of parts of rows
}

// partial is the location of the partial results of a fold in scratch memory, if rows are divided into parts. The
// results of the parts of a tile are adjacent, in order.
type partial struct {
	offset int // byte offset
	size   int // size in bytes of the results of one part
}

// builder makes the objects and loops of a plan.
type builder struct {
	*Plan
	outObjects, inObjects     []int       // by output, by operand: the object that loops use
	perRowStaged              map[int]int // by index in metas: the staged copy with one element for each row
	rowObjects, numberObjects []int       // the objects of the row program's Rows and Numbers
}

// build compiles the passes as a pipeline (see canPipeline), as a loop fused by tiles (see canFuse), or as separate
// loops: the first of these forms that is possible. If fused passes would evict shared operands from L1, it does not
// fuse by tiles, and the only pipeline that it tries has groups of two rows. This pipeline reads shared operands once
// for both rows.
func (p *Plan) build() error {
	groupSizes := []int{1, 0} // 0: no pipeline
	if p.evictsSharedOperands() {
		groupSizes = []int{2}
	}
	for _, p.rowsPerGroup = range groupSizes {
		if !p.canFuse() || p.rowsPerGroup > 0 && !p.canPipeline(p.rowsPerGroup) {
			continue
		}
		p.passesAtOnce = len(p.program.Passes)
		if err := p.compilePasses(); err != nil || p.fused != nil {
			return err
		}
		// The passes could not be fused: discard their objects.
		p.objects, p.stagedCopies, p.passes, p.workerBytes, p.needsStoreFence = nil, nil, nil, 0, false
	}
	p.passesAtOnce, p.rowsPerGroup = 1, 0
	return p.compilePasses()
}

// compilePasses adds the objects of the plan, and compiles its passes, fused if passesAtOnce is greater than 1.
func (p *Plan) compilePasses() error {
	b := &builder{Plan: p, perRowStaged: map[int]int{}}
	b.makeObjects()
	for k, row := range p.program.Rows {
		if row.Out >= 0 && (!p.hasNonTemporalStores(row.Out) || row.Scan != expr.Invalid) {
			b.rowObjects = append(b.rowObjects, b.outObjects[row.Out])
			continue
		}
		b.rowObjects = append(b.rowObjects, b.allocateTile(row.DType.Size(), p.rowCopies(k)))
	}
	for _, dtype := range p.program.Numbers {
		b.numberObjects = append(b.numberObjects, b.allocatePerRow(dtype.Size()))
	}
	for k := range p.program.Passes {
		if err := b.compilePass(k); err != nil {
			return err
		}
	}
	if p.passesAtOnce > 1 {
		return b.fuse()
	}
	return nil
}

// makeObjects adds the objects of outputs and operands. If loops cannot use an output or operand in place, makeObjects
// adds its staged copy, too.
func (b *builder) makeObjects() {
	for i, meta := range b.metas {
		obj := object{argument: i, size: meta.DType.Size(), keptStride: b.kept[0].strides[i]}
		for _, dim := range b.reduced {
			obj.reducedStrides = append(obj.reducedStrides, dim.strides[i])
		}
		b.objects = append(b.objects, obj)
	}
	objectOf := make([]int, len(b.metas)) // by output and operand: the object that loops use
	for i := range b.metas {
		objectOf[i] = i
		switch {
		case b.isUsedInPlace(i):
		case b.variesInRow(i):
			objectOf[i] = b.allocateTile(b.objects[i].size, 1)
			b.stagedCopies = append(b.stagedCopies, stagedCopy{isWholeTile: true, isOutput: i < b.outCount, argument: i,
				staged: objectOf[i], elem: strided.MoverOf(b.objects[i].size)})
		case b.alongColumns && i >= b.outCount:
			objectOf[i] = b.perRowObject(i)
		}
	}
	b.outObjects, b.inObjects = objectOf[:b.outCount], objectOf[b.outCount:]
}

// compilePass compiles the loops of a pass and adds the pass to the plan.
func (b *builder) compilePass(passIndex int) error {
	rowPass := &b.program.Passes[passIndex]
	var pass compiledPass
	if rowPass.Code != nil {
		if err := b.compileLoop(passIndex, &pass); err != nil {
			return err
		}
	}
	b.compileScans(rowPass, &pass)
	if rowPass.PerRow != nil {
		if err := b.compilePerRow(rowPass, &pass); err != nil {
			return err
		}
	}
	b.passes = append(b.passes, pass)
	return nil
}

// compileLoop compiles the loop of a pass. If loops run along rows and a row fits one call, the loop computes the final
// results of folds (totals). If they run along rows but a row does not fit one call, each accumulator has several lanes
// in memory, which are combined afterwards. If loops run along columns, memory has two numbers for each row: an
// accumulator, and the total of the previous blocks.
func (b *builder) compileLoop(passIndex int, pass *compiledPass) (err error) {
	rowPass := &b.program.Passes[passIndex]
	code, in, out := rowPass.Code, rowPass.In, rowPass.Out
	if b.alongColumns {
		if code, in, out, err = b.program.Columns(passIndex, 1); err != nil {
			return err
		}
	}
	exprLoop := b.newExprLoop(code, in)
	if pass.pointerObjects = b.objectsAt(out, in); !b.alongColumns {
		exprLoop.Folds = rowPass.Folds
	}
	options := b.options(b.onlyNonTemporal(out), b.passPrefetch(passIndex, in))
	if pass.loop, err = b.compileExprLoop(exprLoop, options); err != nil {
		return err
	}
	if err := b.addFolds(rowPass, pass, exprLoop.CombinesLanes); err != nil {
		return err
	}
	// Unrolling pays only if the elements of a column are far apart: see minUnrollStride.
	step := b.reduced[0].strides[b.largestOperand()]
	if b.alongColumns && len(rowPass.Folds) > 0 && max(step, -step) >= minUnrollStride {
		return b.compileUnrolled(passIndex, pass)
	}
	return nil
}

// addFolds adds the folds of a pass, their accumulators and, if rows are cut, the memory of their partial results.
func (b *builder) addFolds(rowPass *expr.RowPass, pass *compiledPass, combinesLanes bool) error {
	for n, exprFold := range rowPass.Folds {
		dtype := rowPass.Code.Insts[exprFold.Value].DType
		rowFold, err := newFold(exprFold.Op, dtype, b.numberObjects[rowPass.FoldResults[n]])
		if err != nil {
			return err
		}
		b.addAccumulators(pass, &rowFold, dtype, combinesLanes)
		if b.partsPerRow > 1 {
			b.addPartial(dtype)
		}
		pass.folds = append(pass.folds, rowFold)
	}
	return nil
}

// newFold returns a fold without accumulators in memory. result is the object of its results.
func newFold(op expr.Op, dtype tensor.DType, result int) (fold, error) {
	created := fold{result: result, laneAccs: -1, blockTotals: -1, combineLanes: interp.Combine(op, dtype)}
	fillBits(created.neutral[:], expr.Neutral(op, dtype), dtype.Size())
	join, err := expr.Joining(op, dtype)
	if err != nil {
		return fold{}, err
	}
	created.joinLoop, err = loops.New(&expr.Loop{Code: join, Uniform: make([]bool, 2)}, loops.Options{})
	return created, err
}

// fillBits fills memory with copies of an element that has the given bits and size in bytes.
func fillBits(to []byte, bits uint64, size int) {
	for k := range to {
		to[k] = byte(bits >> (8 * (k % size)))
	}
}

// addAccumulators adds the objects of a fold's accumulators. Along rows, it also adds the pointer with which the loop
// of the pass accesses them: the accumulators, or the results if the loop combines the lanes.
func (b *builder) addAccumulators(pass *compiledPass, rowFold *fold, dtype tensor.DType, combinesLanes bool) {
	switch {
	case b.alongColumns:
		rowFold.blockTotals = b.allocatePerRow(dtype.Size())
	case combinesLanes:
		pass.pointerObjects = append(pass.pointerObjects, rowFold.result)
	default:
		accBytes := expr.FoldLanes * dtype.Size()
		rowFold.laneAccs = b.allocate(b.tileLen*accBytes, object{size: dtype.Size(), keptStride: accBytes,
			reducedStrides: make([]int, len(b.reduced))})
		pass.pointerObjects = append(pass.pointerObjects, rowFold.laneAccs)
	}
}

// addPartial reserves scratch memory for the partial results of a fold.
func (b *builder) addPartial(dtype tensor.DType) {
	size := (b.tileLen*dtype.Size() + tensor.Align - 1) &^ (tensor.Align - 1)
	b.partials = append(b.partials, partial{offset: b.scratchBytes, size: size})
	b.scratchBytes += size * b.partsPerRow * b.tileCount
}

// compileUnrolled compiles a loop that processes several elements of each column at once. An accumulator is then read
// and written once for all these elements. It processes 4 elements, or 2 if the loop for 4 would have more than
// maxPointers pointers. It compiles nothing if the loop for 2 also has too many pointers, or if the loop has no machine
// code.
func (b *builder) compileUnrolled(passIndex int, pass *compiledPass) error {
	for count := 4; count > 1; count /= 2 {
		code, in, out, err := b.program.Columns(passIndex, count)
		if err != nil {
			return err
		}
		if len(in)+len(out) > maxPointers {
			continue
		}
		opts := b.options(b.onlyNonTemporal(out), b.prefetch(in, allOperands, count, onePassPrefetch))
		loop, err := loops.New(b.newExprLoop(code, in), opts)
		if err != nil || !loop.Compiled() {
			return err
		}
		pass.unrolled, pass.unrollCount = loop, count
		for i, index := range b.objectsAt(out, in) {
			element := append(slices.Clone(out), in...)[i].Element
			pass.unrolledPointers = append(pass.unrolledPointers,
				elementPointer{base: slices.Index(pass.pointerObjects, index), element: element})
		}
		return nil
	}
	return nil
}

// compilePerRow compiles the computation once per row, which is a loop over the rows of a tile.
func (b *builder) compilePerRow(rowPass *expr.RowPass, pass *compiledPass) (err error) {
	exprLoop := &expr.Loop{Code: rowPass.PerRow, Uniform: make([]bool, len(rowPass.PerRow.In))}
	for _, place := range rowPass.PerRowOut {
		pass.perRowObjects = append(pass.perRowObjects, b.objectAt(place, afterLoop, asOutput))
	}
	for i, place := range rowPass.PerRowIn {
		index := b.objectAt(place, afterLoop, asInput)
		exprLoop.Uniform[i] = b.objects[index].keptStride == 0 && b.tileLen > 1
		pass.perRowObjects = append(pass.perRowObjects, index)
	}
	pass.perRow, err = loops.New(exprLoop, loops.Options{})
	return err
}

// newExprLoop returns the loop of an expression. Operands that are constant along the inner axis are scalars.
func (b *builder) newExprLoop(code *expr.Code, in []expr.Place) *expr.Loop {
	loop := &expr.Loop{Code: code, Uniform: make([]bool, len(in))}
	for k, place := range in {
		index := b.objectAt(place, inLoop, asInput)
		loop.Uniform[k] = b.objects[index].stride(b.innerAxis()) == 0 && b.maxLength(b.innerAxis()) > 1
	}
	return loop
}

// compileExprLoop compiles a loop. If the loop has folds, and one call can process whole rows, it sets
// loop.CombinesLanes.
func (b *builder) compileExprLoop(loop *expr.Loop, options loops.Options) (*loops.Loop, error) {
	if b.severalRowsPerCall && len(loop.Folds) > 0 {
		loop.CombinesLanes = true
		if compiled, err := loops.New(loop, options); err != nil || b.maxLength(0) <= compiled.MaxElements() {
			return compiled, err
		}
		loop.CombinesLanes = false
	}
	return loops.New(loop, options)
}

// options returns the options of a loop. With non-temporal stores, it sets needsStoreFence: Run executes a fence once
// per chunk, instead of a fence in each loop, because a call may process a single row. Softmax of 4096x4096 then takes
// 3.0 ms instead of 3.4 ms.
func (b *builder) options(nonTemporal bool, prefetch loops.Prefetch) loops.Options {
	b.needsStoreFence = b.needsStoreFence || nonTemporal
	return loops.Options{NonTemporal: nonTemporal, Unfenced: nonTemporal, Prefetch: prefetch}
}

// onlyNonTemporal reports whether a pass stores at least one row, and stores every row to an output with non-temporal
// stores.
func (b *builder) onlyNonTemporal(out []expr.Place) bool {
	storedRows := 0
	for _, place := range out {
		switch {
		case place.Kind == expr.Nowhere || place.Kind == expr.AtNumber:
		case place.Kind != expr.AtOutput || !b.hasNonTemporalStores(place.N):
			return false
		default:
			storedRows++
		}
	}
	return storedRows > 0
}

// objectsAt returns the objects of the outputs and operands of a pass's loop.
func (b *builder) objectsAt(out, in []expr.Place) (objects []int) {
	for _, place := range out {
		objects = append(objects, b.objectAt(place, inLoop, asOutput))
	}
	for _, place := range in {
		objects = append(objects, b.objectAt(place, inLoop, asInput))
	}
	return objects
}

// Arguments of objectAt.
const (
	inLoop, afterLoop = false, true
	asInput, asOutput = false, true
)

// objectAt returns the object that a place ([expr.Place]) stands for, or -1 for a result that is not stored.
// isAfterLoop is afterLoop if the computation that runs once per row accesses the place, and inLoop if the loop of a
// pass does. isOutput is asOutput if the place is written, and asInput if it is read.
func (b *builder) objectAt(place expr.Place, isAfterLoop, isOutput bool) int {
	switch place.Kind {
	case expr.AtOperand:
		if isAfterLoop {
			return b.perRowObject(b.outCount + place.N)
		}
		return b.inObjects[place.N]
	case expr.AtOutput:
		if isAfterLoop && isOutput {
			return b.perRowObject(place.N)
		}
		return b.outObjects[place.N]
	case expr.AtRow:
		return b.rowObjects[place.N]
	case expr.AtNumber:
		return b.numberObjects[place.N]
	}
	return -1
}

// perRowObject returns the object of an output or operand that has one element for each row, or of its staged copy if
// the elements are not contiguous over the tile. An operand of stride 0 is not staged. argument is its index in metas
// (outputs, then operands).
func (b *builder) perRowObject(argument int) int {
	obj := b.objects[argument]
	isOutput := argument < b.outCount
	isConstant := obj.keptStride == 0 && !isOutput
	if obj.keptStride == obj.size || isConstant || b.tileLen == 1 {
		return argument
	}
	if staged, ok := b.perRowStaged[argument]; ok {
		return staged
	}
	staged := b.allocatePerRow(obj.size)
	b.stagedCopies = append(b.stagedCopies, stagedCopy{isOutput: isOutput, argument: argument, staged: staged,
		elem: strided.MoverOf(obj.size)})
	b.perRowStaged[argument] = staged
	return staged
}

// allocate adds obj as an object in the worker's memory, with obj.copies buffers of the given size, and returns its
// index.
func (b *builder) allocate(bytes int, obj object) int {
	obj.argument, obj.offset = -1, b.workerBytes
	obj.copies, obj.copyStride = max(1, obj.copies), (bytes+tensor.Align-1)&^(tensor.Align-1)
	b.workerBytes += obj.copies * obj.copyStride
	b.objects = append(b.objects, obj)
	return len(b.objects) - 1
}

// allocateTile allocates an object with all elements of a tile, with the given number of copies. If loops run along
// columns, kept[0] is the fastest axis, followed by the reduced axes. Along rows, the reduced axes are the fastest, and
// rows are padded to a multiple of tensor.Align bytes.
func (b *builder) allocateTile(size, copies int) int {
	obj := object{size: size, copies: copies, reducedStrides: make([]int, len(b.reduced))}
	stride := size
	if b.alongColumns {
		obj.keptStride = stride
		stride *= b.maxLength(firstKept)
	}
	for d := range b.reduced {
		obj.reducedStrides[d] = stride
		stride *= b.maxLength(d)
	}
	if !b.alongColumns {
		stride = (stride + tensor.Align - 1) &^ (tensor.Align - 1)
		if b.rowsPerGroup == 0 { // a pipeline stores one row
			obj.keptStride = stride
			stride *= b.maxLength(firstKept)
		}
	}
	return b.allocate(stride, obj)
}

// allocatePerRow allocates an object with one element for each row of a tile, or of a chunk in a pipeline.
func (b *builder) allocatePerRow(size int) int {
	obj := object{size: size, keptStride: size, reducedStrides: make([]int, len(b.reduced))}
	if b.rowsPerGroup > 0 {
		return b.allocate(size*b.tileLen*b.tilesPerChunk, obj)
	}
	obj.copies = b.passesAtOnce
	return b.allocate(size*b.tileLen, obj)
}
