package interp

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// blockBytes is the size in bytes of a block of the widest elements of a loop. It is so small that several blocks fit
// the L1 cache together, and so large that the work on a block takes much longer than a call. The length of a block is
// a multiple of FoldLanes elements, so that each block begins with the first accumulator.
const blockBytes = machine.BlockBytes

// blockWords is the distance from one block to the next, in words of 8 bytes. It includes a gap of 192 bytes, because
// stores to a block delay loads at the same offset in another page.
const blockWords = (blockBytes + 192) / 8

// Runner is an [expr.Loop] that is prepared to run in Go. It is immutable and safe for concurrent use.
//
// The slots of a Runner are addresses: outputs, operands, accumulators of folds, cells, and temporary blocks. A cell is
// a number: a constant, or a value that is constant within a row. Each instruction has a cell. For example, let y0 be
// (x0 + 1) / sqrt(x1), where x1 has one element for each row:
//
//	v0 = load x0   v1 = load x1   v2 = const 1   v3 = v0 + v2   v4 = sqrt v1   v5 = v3 / v4
//
//	slots:       0: y0;  1 and 2: x0 and x1;  3 to 8: the cells of v0 to v5;  9: a block
//	rowSteps:    cell of v4 = sqrt(x1)
//	blockSteps:  block = x0 + cell of v2;  y0 = block / cell of v4
type Runner struct {
	elementSize  []int      // for each output, then for each operand: size of an element in bytes
	isScalar     []bool     // in the same order: whether it is an operand with one element for each row
	initialCells []uint64   // the initial values of the cells
	foldCount    int        // number of folds
	blockCount   int        // number of temporary blocks
	blockLen     int        // number of elements of a block
	rowSteps     []step     // run once for each row
	blockSteps   []step     // run for each block of a row
	rowTotals    []rowTotal // for each fold, if the loop has CombinesLanes
	scratch      sync.Pool
}

// step is a loop over a block, or a mask test. A mask test skips the next steps if no element of the mask a equals
// maskBit.
type step struct {
	loop            loop // nil for a mask test
	dst, a, b, c, d place
	skipCount       int
	maskBit         bool
}

// place is the location of a value: the memory at the address in a slot. The offset of the first element and the stride
// of elements are in bytes.
type place struct{ slot, offset, stride int }

// rowTotal describes a fold of a loop with [expr.Loop.CombinesLanes], which gives one number for each row.
type rowTotal struct {
	size    int                                  // size of the result in bytes
	neutral uint64                               // bits of the neutral element
	combine func(dst, acc unsafe.Pointer, n int) // combines the accumulators
}

// New prepares a loop. It returns an error if the loop is invalid.
func New(loop *expr.Loop) (*Runner, error) {
	if err := loop.Check(); err != nil {
		return nil, err
	}
	runner := &Runner{foldCount: len(loop.Folds), isScalar: append(make([]bool, len(loop.Code.Out)), loop.Uniform...)}
	for _, output := range loop.Code.Out {
		runner.elementSize = append(runner.elementSize, output.DType.Size())
	}
	for _, dtype := range loop.Code.In {
		runner.elementSize = append(runner.elementSize, dtype.Size())
	}
	prep, err := newPreparer(runner, loop)
	if err != nil {
		return nil, fmt.Errorf("expr: %w", err)
	}
	for v := range prep.code.Insts {
		prep.openPredicates(expr.Value(v))
		prep.addInst(expr.Value(v))
		prep.closePredicates(expr.Value(v))
	}
	prep.addStores()
	runner.blockLen = blockBytes / prep.widestSize()
	if loop.CombinesLanes {
		for i, fold := range loop.Folds {
			dtype := loop.DType(i)
			runner.rowTotals = append(runner.rowTotals, rowTotal{dtype.Size(), expr.Neutral(fold.Op, dtype),
				Combine(fold.Op, dtype)})
		}
	}
	runner.tabulate(loop) // replaces the steps by a table of results, if all operands are bytes or bools
	runner.scratch.New = func() any { return runner.NewScratch() }
	return runner, nil
}

// preparer prepares a Runner. Slices with an entry for each value are indexed by values of code.
type preparer struct {
	*Runner
	loop     *expr.Loop
	code     *expr.Code
	folded   []expr.Fold    // the folds of the loop, with values of code
	loops    []loop         // indexed by value
	operands [][]expr.Value // indexed by value: the values that its loop reads
	isRead   []bool         // indexed by value: whether a step, an output or a fold reads it
	uniform  []bool         // indexed by value: whether it is constant within a row
	places   []place        // indexed by value
	// lastReader is indexed by value: the last instruction that reads it, or the number of instructions if the value is
	// stored in an output. It is -1 if the block of the value is free, or has been reused for another value.
	lastReader []int
	freeSlots  []int // slots of blocks that can be reused
	// lastOperandReader is the last instruction that reads an operand with more than one element for each row.
	lastOperandReader expr.Value
	predicated        []predicatedRange // the ranges of instructions under a mask (predicate.go) that have not begun
	openRanges        []openRange       // the predicated ranges that contain the current instruction
}

// openRange is a predicated range that has begun.
type openRange struct {
	instructions predicatedRange
	step         int // index of its mask test in blockSteps
}

// newPreparer simplifies the code of the loop, orders predicated ranges, chooses the loop of each instruction
// (chooseLoops), and finds uniform values and last readers.
func newPreparer(runner *Runner, loop *expr.Loop) (*preparer, error) {
	code := loop.Code
	if len(loop.Folds) == 0 { // folds refer to values, which Simplify renumbers
		if simple, err := code.Simplify(); err == nil {
			code = simple
		}
	}
	prep := &preparer{Runner: runner, loop: loop}
	var newValue []expr.Value
	prep.code, newValue, prep.predicated = orderByPredicate(code, loop.Folds)
	for _, fold := range loop.Folds {
		prep.folded = append(prep.folded, expr.Fold{Op: fold.Op, Value: newValue[fold.Value]})
	}
	if err := prep.chooseLoops(); err != nil {
		return nil, err
	}
	prep.placeConstants()
	prep.findReaders()
	return prep, nil
}

// placeConstants sets the cells and places of constants, and marks them as uniform. It precedes findReaders, because
// chooseLoops appends constants after their readers.
func (prep *preparer) placeConstants() {
	instCount := len(prep.code.Insts)
	prep.initialCells, prep.uniform = make([]uint64, instCount), make([]bool, instCount)
	prep.places = make([]place, instCount)
	for v, inst := range prep.code.Insts {
		if inst.Op == expr.Const {
			prep.uniform[v] = true
			prep.places[v] = place{slot: prep.cellSlot(expr.Value(v))}
			prep.initialCells[v] = repeatBits(inst.Imm, inst.DType.Size()) // a step may read the cell as 8 bytes
		}
	}
}

// findReaders finds the last reader of each value, and the uniform values: loads of uniform operands, and instructions
// that have only uniform operands.
func (prep *preparer) findReaders() {
	instCount := len(prep.code.Insts)
	prep.lastReader = make([]int, instCount)
	for v, inst := range prep.code.Insts {
		prep.uniform[v] = inst.Op != expr.Load || prep.loop.Uniform[inst.A]
		prep.lastReader[v] = v
		if !prep.isRead[v] {
			continue
		}
		for _, operand := range prep.operands[v] {
			prep.uniform[v] = prep.uniform[v] && prep.uniform[operand]
			prep.lastReader[operand] = v
			if prep.code.Insts[operand].Op == expr.Load {
				prep.lastOperandReader = expr.Value(v)
			}
		}
	}
	prep.eachOutput(func(v expr.Value, _ place) { prep.lastReader[v] = instCount })
}

// eachOutput calls visit for each stored value and the place where it is stored. The parts of a complex number are two
// values.
func (prep *preparer) eachOutput(visit func(v expr.Value, to place)) {
	for slot, output := range prep.code.Out {
		if output.DType == tensor.Invalid {
			continue
		}
		visit(output.Re, place{slot, 0, output.DType.Size()})
		if output.Im != expr.None {
			visit(output.Im, place{slot, output.DType.Size() / 2, output.DType.Size()})
		}
	}
}

// addInst adds the step of an instruction, and sets the place of its value.
func (prep *preparer) addInst(v expr.Value) {
	inst := prep.code.Insts[v]
	switch {
	case !prep.isRead[v]:
		return
	case inst.Op == expr.Const: // placeConstants has set its place
	case inst.Op == expr.Load:
		partOffset := int(inst.Imm) * inst.DType.Size() // Imm is 1 for the imaginary part, which follows the real part
		source := place{slot: prep.operandSlot(inst.A), offset: partOffset}
		if !prep.uniform[v] {
			source.stride = prep.code.In[inst.A].Size()
		}
		// Stores come last. An operand that is stored is copied first, because it may have the memory of an output.
		if prep.places[v] = source; prep.lastReader[v] == len(prep.code.Insts) {
			prep.addStep(v, step{loop: prep.loops[v], a: source})
		}
	default:
		computed := step{loop: prep.loops[v]}
		sources := []*place{&computed.a, &computed.b, &computed.c, &computed.d}
		for i, operand := range prep.operands[v] {
			*sources[i] = prep.places[operand]
		}
		prep.addStep(v, computed)
	}
	prep.addFolds(v)
	for _, operand := range append(slices.Clone(prep.operands[v]), v) { // v itself may have only folds as readers
		prep.release(operand, v)
	}
}

// addFolds adds the steps that fold a value into accumulators.
func (prep *preparer) addFolds(v expr.Value) {
	for i, fold := range prep.folded {
		if fold.Value == v {
			dtype := prep.loop.DType(i)
			prep.blockSteps = append(prep.blockSteps, step{loop: foldLoop(table[fold.Op][dtype]),
				dst: place{prep.foldSlot(i), 0, dtype.Size()}, a: prep.places[v]})
		}
	}
}

// addStep adds the step that computes a value.
func (prep *preparer) addStep(v expr.Value, computed step) {
	if prep.uniform[v] {
		prep.places[v] = place{slot: prep.cellSlot(v)}
		computed.dst = prep.places[v]
		prep.rowSteps = append(prep.rowSteps, computed)
		return
	}
	prep.places[v] = prep.resultPlace(v)
	computed.dst = prep.places[v]
	prep.blockSteps = append(prep.blockSteps, computed)
}

// resultPlace returns the destination of an instruction: an output, the block of an operand that no later instruction
// reads, a free block, or a new block.
func (prep *preparer) resultPlace(v expr.Value) place {
	inst := prep.code.Insts[v]
	if output, ok := prep.outputPlace(v); ok {
		return output
	}
	for _, operand := range prep.operands[v] {
		if prep.isLastUse(operand, v) && prep.code.Insts[operand].DType.Size() == inst.DType.Size() {
			prep.lastReader[operand] = -1 // the block is reused, not free
			return prep.places[operand]
		}
	}
	if freeCount := len(prep.freeSlots); freeCount > 0 {
		slot := prep.freeSlots[freeCount-1]
		prep.freeSlots = prep.freeSlots[:freeCount-1]
		return place{slot, 0, inst.DType.Size()}
	}
	newSlot := prep.firstBlockSlot() + prep.blockCount
	prep.blockCount++
	return place{newSlot, 0, inst.DType.Size()}
}

// outputPlace returns the place of the output to which instruction v can write its result, if there is one. Outputs may
// have the memory of operands, so an instruction writes to an output only if no later instruction reads operands.
func (prep *preparer) outputPlace(v expr.Value) (to place, ok bool) {
	inst := prep.code.Insts[v]
	if v < prep.lastOperandReader || inst.Op == expr.Load {
		return to, false
	}
	prep.eachOutput(func(stored expr.Value, output place) {
		isConversion := inst.Op == expr.Convert && len(prep.operands[v]) == 1 // its loop stores with any stride
		if stored == v && (output.stride == inst.DType.Size() || isConversion) {
			to, ok = output, true
		}
	})
	return to, ok
}

// isLastUse reports whether instruction v is the last to read an operand, and the operand is in a block.
func (prep *preparer) isLastUse(operand, v expr.Value) bool {
	return prep.lastReader[operand] == int(v) && prep.places[operand].slot >= prep.firstBlockSlot()
}

// release frees the block of an operand if no instruction after v reads it.
func (prep *preparer) release(operand, v expr.Value) {
	if prep.isLastUse(operand, v) {
		prep.freeSlots = append(prep.freeSlots, prep.places[operand].slot)
		prep.lastReader[operand] = -1
	}
}

// addStores adds the steps that copy values to outputs, unless the step that computes a value writes the output itself.
// Both parts of a complex number are stored by one step.
func (prep *preparer) addStores() {
	var parts []step // the moves to the parts of the current output: its last steps, 2 at most
	prep.eachOutput(func(v expr.Value, to place) {
		size := prep.code.Insts[v].DType.Size()
		if to.offset == 0 { // not an imaginary part: another output begins
			parts = parts[:0]
		}
		if source := prep.places[v]; source != to {
			parts = append(parts, step{loop: moves[sizeIndex(size)], dst: to, a: source})
			prep.blockSteps = append(prep.blockSteps, parts[len(parts)-1])
		}
		if len(parts) == 2 { // replace both moves by one step
			joined := step{loop: joins[sizeIndex(size)], dst: parts[0].dst, a: parts[0].a, b: parts[1].a}
			prep.blockSteps = append(prep.blockSteps[:len(prep.blockSteps)-2], joined)
		}
	})
}

// widestSize returns the size in bytes of the widest elements that a step reads or computes.
func (prep *preparer) widestSize() int {
	size := 1
	for v, inst := range prep.code.Insts {
		if prep.isRead[v] {
			size = max(size, inst.DType.Size())
		}
	}
	return size
}

// operandSlot, foldSlot and cellSlot return the slots of an operand, of the accumulators of a fold, and of a cell. The
// outputs precede the operands, and the temporary blocks follow the cells.
func (prep *preparer) operandSlot(operand expr.Value) int { return len(prep.code.Out) + int(operand) }
func (prep *preparer) foldSlot(fold int) int              { return len(prep.elementSize) + fold }
func (prep *preparer) cellSlot(v expr.Value) int          { return prep.foldSlot(prep.foldCount) + int(v) }
func (prep *preparer) firstBlockSlot() int                { return prep.cellSlot(expr.Value(len(prep.code.Insts))) }

// repeatBits repeats the low bytes of a number, of the given size, in all 8 bytes.
func repeatBits(bits uint64, size int) uint64 {
	if size < 8 {
		bits &= 1<<(8*size) - 1
	}
	for copiedBytes := size; copiedBytes < 8; copiedBytes *= 2 {
		bits |= bits << (8 * copiedBytes)
	}
	return bits
}
