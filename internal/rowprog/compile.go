package rowprog

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// This file compiles the passes of a plan. [Plan.build] chooses their form: separate loops, or one fused loop. For each
// form that it tries, compilePasses adds the memory of loops (objects.go) and compiles each pass (compilePass). It then
// fuses the passes, unless their loops are separate (fuse). compilePass compiles the loop of a pass, the folds and
// scans of its results, and the computation that runs once per row.
//
// A tile is a range of rows that a worker processes at once. An object is memory that loops access: an output, an
// operand, or a buffer of the worker. Its index in Plan.objects identifies it.

// compiledPass is a pass with its loops. loop runs first, then the scans, then perRow.
type compiledPass struct {
	loop           *loops.Loop // over the elements of rows; nil if the pass only computes once per row
	pointerObjects []int       // objects of the pointers of loop: outputs, operands, accumulators; -1 if not stored
	folds          []fold

	// Along columns, a loop over several elements of each column at once replaces loop where possible: see
	// compileUnrolled.
	unrolled         *loops.Loop      // nil if there is none
	unrollCount      int              // number of elements of a column
	unrolledPointers []elementPointer // by pointer of the unrolled loop

	scans []scan // running totals along rows, such as cumsum

	perRow        *loops.Loop // computes once per row, as a loop over the rows of a tile; or nil
	perRowObjects []int       // objects of the outputs and operands of perRow
}

// elementPointer describes a pointer of an unrolled loop.
type elementPointer struct {
	base    int // index in compiledPass.pointerObjects: the pointer of the loop without unrolling
	element int // index, within its column, of the first element that the pointer addresses
}

// fold is a reduction of each row in a pass, such as a sum. Along rows, a row has expr.FoldLanes accumulators, the
// lanes. The memory in which a fold accumulates depends on the loop of the pass:
//   - Along rows, if a call processes whole rows, the loop combines its lanes itself and writes result.
//   - Along rows, if not, the loop accumulates in laneAccs, which combineLanes combines to result.
//   - Along columns, the loop accumulates in result, which joinLoop combines with blockTotals after each block of
//     foldBlock elements. A single block stays in result.
type fold struct {
	result       int                                  // object with the result of each row
	laneAccs     int                                  // object with accumulators by row and lane; -1 if not in memory
	blockTotals  int                                  // object with the total of the previous blocks of each row, or -1
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

// build compiles the passes in the first form that is possible. In a pipeline (see canPipeline), one loop runs all
// passes, and each pass lags behind the previous pass by a group of one or two rows. In a loop fused by tiles (see
// canFuse), it lags by a tile. Otherwise the passes are separate loops. If fused passes would evict shared operands
// from L1, build tries only a pipeline with groups of two rows, which reads shared operands once for both rows.
func (p *Plan) build() error {
	groupSizes := []int{1, 0} // 0: no pipeline
	if p.evictsSharedOperands() {
		groupSizes = []int{2}
	}
	for _, groupRows := range groupSizes {
		p.rowsPerGroup = groupRows
		isPossible := p.canFuse() && (groupRows == 0 || p.canPipeline(groupRows))
		if !isPossible {
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

// compilePasses adds the objects of the plan and compiles its passes. If passesAtOnce is greater than 1, it
// fuses them if possible.
func (p *Plan) compilePasses() error {
	b := &builder{Plan: p, perRowStaged: map[int]int{}}
	b.makeArgumentObjects()
	b.makeStoredObjects()
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

// compileLoop compiles the loop of a pass and its folds.
func (b *builder) compileLoop(passIndex int, pass *compiledPass) (err error) {
	rowPass := &b.program.Passes[passIndex]
	code, in, out := rowPass.Code, rowPass.In, rowPass.Out
	if b.alongColumns {
		const count = 1 // the loop processes one element of each column at once; accumulators are among its operands
		if code, in, out, err = b.program.Columns(passIndex, count); err != nil {
			return err
		}
	}
	exprLoop := b.newExprLoop(code, in)
	pass.pointerObjects = b.loopObjects(out, in)
	if !b.alongColumns { // along columns, the code itself accumulates
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

// newExprLoop returns the loop of an expression. Operands that are constant along the inner axis are scalars.
func (b *builder) newExprLoop(code *expr.Code, in []expr.Place) *expr.Loop {
	loop := &expr.Loop{Code: code, Uniform: make([]bool, len(in))}
	for k, place := range in {
		index := b.loopObject(place)
		loop.Uniform[k] = b.objects[index].strides[b.innerAxis()] == 0 && b.maxLength(b.innerAxis()) > 1
	}
	return loop
}

// compileExprLoop compiles a loop. If the loop has folds, and one call can process whole rows, it sets
// loop.CombinesLanes.
func (b *builder) compileExprLoop(loop *expr.Loop, options loops.Options) (*loops.Loop, error) {
	if b.severalRowsPerCall && len(loop.Folds) > 0 {
		loop.CombinesLanes = true
		compiled, err := loops.New(loop, options)
		if err != nil || b.maxLength(b.innerAxis()) <= compiled.MaxElements() {
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
		case place.Kind == expr.Nowhere || place.Kind == expr.AtNumber: // stores no row
		case place.Kind != expr.AtOutput || !b.hasNonTemporalStores(place.N):
			return false
		default:
			storedRows++
		}
	}
	return storedRows > 0
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
	uniform := []bool{false, false} // both accumulators vary
	created.joinLoop, err = loops.New(&expr.Loop{Code: join, Uniform: uniform}, loops.Options{})
	return created, err
}

// fillBits fills memory with copies of an element that has the given bits and size in bytes.
func fillBits(to []byte, bits uint64, size int) {
	for k := range to {
		to[k] = byte(bits >> (8 * (k % size)))
	}
}

// addAccumulators adds the objects of a fold's accumulators. Along rows, it also adds a pointer to the loop of the
// pass: to the results if the loop combines the lanes, else to the accumulators.
func (b *builder) addAccumulators(pass *compiledPass, rowFold *fold, dtype tensor.DType, combinesLanes bool) {
	switch {
	case b.alongColumns:
		rowFold.blockTotals = b.allocatePerRow(dtype.Size())
	case combinesLanes:
		pass.pointerObjects = append(pass.pointerObjects, rowFold.result)
	default:
		accBytes := expr.FoldLanes * dtype.Size()
		rowFold.laneAccs = b.allocate(b.tileLen*accBytes,
			object{size: dtype.Size(), strides: b.stridesPerRow(accBytes)})
		pass.pointerObjects = append(pass.pointerObjects, rowFold.laneAccs)
	}
}

// addPartial reserves scratch memory for the partial results of a fold.
func (b *builder) addPartial(dtype tensor.DType) {
	size := (b.tileLen*dtype.Size() + tensor.Align - 1) &^ (tensor.Align - 1)
	b.partials = append(b.partials, partial{offset: b.scratchBytes, size: size})
	b.scratchBytes += size * b.partsPerRow * b.tileCount
}

const (
	maxPointers = 8 // maximum number of pointers of an unrolled loop over columns; all stay in registers
	// minUnrollStride is the minimum distance in bytes between elements of a column for unrolling. The hardware
	// prefetcher distinguishes several streams only if they are far apart.
	minUnrollStride = 4096
)

// compileUnrolled compiles a loop that processes 4 elements of each column at once. An accumulator is then read and
// written once for all these elements. If this loop would have more than maxPointers pointers, it processes 2 elements.
// compileUnrolled compiles nothing if a loop for 2 also has too many pointers, or if the loop has no machine code.
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
		places := slices.Concat(out, in)
		for i, index := range b.loopObjects(out, in) {
			pass.unrolledPointers = append(pass.unrolledPointers,
				elementPointer{base: slices.Index(pass.pointerObjects, index), element: places[i].Element})
		}
		return nil
	}
	return nil
}

// compilePerRow compiles the computation that runs once per row, as a loop over the rows of a tile.
func (b *builder) compilePerRow(rowPass *expr.RowPass, pass *compiledPass) (err error) {
	exprLoop := &expr.Loop{Code: rowPass.PerRow, Uniform: make([]bool, len(rowPass.PerRow.In))}
	for _, place := range rowPass.PerRowOut {
		pass.perRowObjects = append(pass.perRowObjects, b.perRowOutput(place))
	}
	for i, place := range rowPass.PerRowIn {
		index := b.perRowInput(place)
		exprLoop.Uniform[i] = b.objects[index].strides[firstKept] == 0 && b.tileLen > 1
		pass.perRowObjects = append(pass.perRowObjects, index)
	}
	pass.perRow, err = loops.New(exprLoop, loops.Options{})
	return err
}
