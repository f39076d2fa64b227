package interp

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// preparer prepares a Runner. It adds the steps of the instructions in order, and chooses where their values are stored
// (places.go). A load is read in place. A computed value that is constant within a row (uniform) is stored in a cell.
// Any other computed value is stored in a temporary block of consecutive elements, or directly in an output. A slot is
// the index of an address: of an output, an operand, an accumulator, a cell or a block. A place is a slot, an offset
// and a stride of elements, both in bytes.
type preparer struct {
	*Runner
	loop   *expr.Loop
	code   *expr.Code  // the code of the loop, simplified and reordered
	folded []expr.Fold // the folds of the loop, with values of code
	values []value     // indexed by value of code

	freeSlots         []int             // slots of blocks that can be reused
	lastOperandReader expr.Value        // the last instruction that reads an operand of the loop from memory
	predicated        []predicatedRange // the ranges of instructions under a mask (predicate.go) that have not begun
	openRanges        []openRange       // the predicated ranges that contain the current instruction
}

// value describes a value of the code, the result of one instruction.
type value struct {
	loop     loop         // computes the value
	operands []expr.Value // the values that loop reads
	isRead   bool         // whether a step, an output or a fold reads it
	uniform  bool         // whether it is constant within a row
	place    place
	// lastReader is the last instruction that reads it, or the number of instructions if it is stored in an output. It
	// is -1 if the block of the value is free, or has been reused for another value.
	lastReader int
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
	prep.initialCells = make([]uint64, len(prep.code.Insts))
	for v, inst := range prep.code.Insts {
		if inst.Op == expr.Const {
			prep.values[v].uniform = true
			prep.values[v].place = place{slot: prep.cellSlot(expr.Value(v))}
			prep.initialCells[v] = repeatBits(inst.Imm, inst.DType.Size()) // a step may read the cell as 8 bytes
		}
	}
}

// findReaders finds the last reader of each value, and the uniform values: loads of uniform operands, and instructions
// that have only uniform operands.
func (prep *preparer) findReaders() {
	for v, inst := range prep.code.Insts {
		reader := &prep.values[v]
		reader.uniform = inst.Op != expr.Load || prep.loop.Uniform[inst.A]
		reader.lastReader = v
		if !reader.isRead {
			continue
		}
		for _, operand := range reader.operands {
			reader.uniform = reader.uniform && prep.values[operand].uniform
			prep.values[operand].lastReader = v
			if prep.code.Insts[operand].Op == expr.Load {
				prep.lastOperandReader = expr.Value(v)
			}
		}
	}
	prep.eachOutput(func(v expr.Value, _ place) { prep.values[v].lastReader = len(prep.code.Insts) })
}

// eachOutput calls visit for each stored value and the place where it is stored. The parts of a complex number are two
// values.
func (prep *preparer) eachOutput(visit func(v expr.Value, to place)) {
	for slot, output := range prep.code.Out {
		if output.DType == tensor.Invalid {
			continue
		}
		stride := output.DType.Size()
		visit(output.Re, place{slot: slot, stride: stride})
		if output.Im != expr.None { // the imaginary part is the second half of an element
			visit(output.Im, place{slot: slot, offset: stride / 2, stride: stride})
		}
	}
}

// addInst adds the step of an instruction, and sets the place of its value.
func (prep *preparer) addInst(v expr.Value) {
	inst, added := prep.code.Insts[v], &prep.values[v]
	switch {
	case !added.isRead:
		return
	case inst.Op == expr.Const: // placeConstants has set its place
	case inst.Op == expr.Load:
		partOffset := int(inst.Imm) * inst.DType.Size() // Imm is 1 for the imaginary part, which follows the real part
		source := place{slot: prep.operandSlot(inst.A), offset: partOffset}
		if !added.uniform {
			source.stride = prep.code.In[inst.A].Size()
		}
		added.place = source
		// Stores come last. An operand that is stored is copied first, because it may have the memory of an output.
		if added.lastReader == len(prep.code.Insts) {
			prep.addStep(v, step{loop: added.loop, a: source})
		}
	default:
		computed := step{loop: added.loop}
		sources := []*place{&computed.a, &computed.b, &computed.c, &computed.d}
		for i, operand := range added.operands {
			*sources[i] = prep.values[operand].place
		}
		prep.addStep(v, computed)
	}
	prep.addFolds(v)
	for _, operand := range append(slices.Clone(added.operands), v) { // v itself may have only folds as readers
		prep.release(operand, v)
	}
}

// addFolds adds the steps that fold a value into accumulators.
func (prep *preparer) addFolds(v expr.Value) {
	for i, fold := range prep.folded {
		if fold.Value == v {
			dtype := prep.loop.DType(i)
			prep.blockSteps = append(prep.blockSteps, step{loop: foldLoop(table[fold.Op][dtype]),
				dst: place{slot: prep.foldSlot(i), stride: dtype.Size()}, a: prep.values[v].place})
		}
	}
}

// addStep adds the step that computes a value.
func (prep *preparer) addStep(v expr.Value, computed step) {
	steps := &prep.blockSteps
	if prep.values[v].uniform {
		steps, computed.dst = &prep.rowSteps, place{slot: prep.cellSlot(v)}
	} else {
		computed.dst = prep.resultPlace(v)
	}
	prep.values[v].place = computed.dst
	*steps = append(*steps, computed)
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
		if source := prep.values[v].place; source != to {
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
		if prep.values[v].isRead {
			size = max(size, inst.DType.Size())
		}
	}
	return size
}

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
