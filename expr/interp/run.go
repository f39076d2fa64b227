package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
)

// Scratch is the temporary memory of a [Runner]. Each goroutine needs a separate Scratch. The steps of a Runner are
// loops over consecutive elements of a row, at most blockLen of them. A cell holds a number that is constant within a
// row. A temporary block holds the values that one step computes and a later step reads. Steps find memory by slots,
// which are indices of addresses.
//
// A fold has [expr.FoldLanes] accumulators, the lanes: element k of a row is folded into lane k mod FoldLanes. In a
// loop with CombinesLanes, the lanes are combined after each row, which gives one number for each row and fold.
type Scratch struct {
	slots    []unsafe.Pointer         // addresses: outputs and operands, accumulators of folds, cells, blocks
	mem      []uint64                 // the cells, then the blocks, each of blockWords words
	rowLanes [][expr.FoldLanes]uint64 // indexed by fold: the lanes of a row, if the loop has CombinesLanes; else empty
	accs     []unsafe.Pointer         // indexed by fold: the address in rowLanes
	runner   *Runner                  // the Runner that made it
}

// NewScratch returns temporary memory for the loop. It can be used for any number of runs, one after another.
func (runner *Runner) NewScratch() *Scratch {
	cellCount := len(runner.initialCells)
	scratch := &Scratch{runner: runner, rowLanes: make([][expr.FoldLanes]uint64, len(runner.rowTotals)),
		mem:   make([]uint64, cellCount+runner.blockCount*blockWords),
		slots: make([]unsafe.Pointer, len(runner.elementSize)+runner.foldCount)} // Run sets these
	copy(scratch.mem, runner.initialCells)
	for k := range scratch.rowLanes {
		scratch.accs = append(scratch.accs, unsafe.Pointer(&scratch.rowLanes[k]))
	}
	for k := range cellCount {
		scratch.slots = append(scratch.slots, unsafe.Pointer(&scratch.mem[k]))
	}
	for k := range runner.blockCount {
		scratch.slots = append(scratch.slots, unsafe.Pointer(&scratch.mem[cellCount+k*blockWords]))
	}
	return scratch
}

// Run computes rows of rowLength elements each. ptrs are the addresses of the first row: outputs, then operands.
// strides are the bytes between rows, in the same order. Run ignores the entries of outputs that are not stored. accs
// are the addresses of the [expr.FoldLanes] accumulators of each fold. The caller initializes the accumulators by
// [expr.Neutral], or passes the accumulators of earlier rows. With CombinesLanes, accs[k] is instead the address of the
// results of fold k, one number for each row.
//
// scratch is a Scratch of this Runner that no other goroutine uses. If scratch is nil, Run takes a Scratch from a pool.
// Run does not allocate. It does not check addresses: the caller guarantees that the memory has the layout that the
// Loop describes.
func (runner *Runner) Run(scratch *Scratch, ptrs []unsafe.Pointer, strides []int, accs []unsafe.Pointer,
	rowLength, rows int) {
	addressCount := len(runner.elementSize) // number of outputs and operands
	isForeign := scratch != nil && scratch.runner != runner
	if len(ptrs) != addressCount || len(strides) != addressCount || isForeign {
		panic("interp: Run needs an address and a stride for each output and operand, and a Scratch of this Runner")
	}
	if rowLength <= 0 || rows <= 0 {
		return
	}
	isPooled := scratch == nil
	if isPooled {
		scratch = runner.scratch.Get().(*Scratch)
	}
	copy(scratch.slots[len(ptrs):], accs[:runner.foldCount])
	copy(scratch.slots[len(ptrs):], scratch.accs) // replaces accs with CombinesLanes; without it, scratch.accs is empty
	for row := range rows {
		runner.resetTotals(scratch)
		runner.runRow(scratch, ptrs, strides, row, rowLength)
		for k := range runner.rowTotals {
			const count = 1 // a row gives one number
			runner.rowTotals[k].combine(unsafe.Add(accs[k], row*runner.rowTotals[k].size), scratch.accs[k], count)
		}
	}
	if isPooled {
		clear(scratch.slots[:len(ptrs)+runner.foldCount]) // the pool does not keep the caller's memory alive
		runner.scratch.Put(scratch)
	}
}

// resetTotals sets the lanes of a row to neutral elements, if the loop has CombinesLanes. For other loops,
// runner.rowTotals is empty.
func (runner *Runner) resetTotals(scratch *Scratch) {
	for k := range runner.rowTotals {
		total := &runner.rowTotals[k]
		// Operand a has the stride 0, so that the neutral element is repeated.
		moves[sizeIndex(total.size)](operands{dst: operand{ptr: scratch.accs[k], stride: total.size},
			a: operand{ptr: unsafe.Pointer(&total.neutral)}, n: expr.FoldLanes})
	}
}

// runRow computes one row of rowLength elements, block by block.
func (runner *Runner) runRow(scratch *Scratch, ptrs []unsafe.Pointer, strides []int, row, rowLength int) {
	for k, address := range ptrs {
		if address != nil { // an output that is not stored may have no address
			address = unsafe.Add(address, row*strides[k])
		}
		scratch.slots[k] = address
	}
	scratch.run(runner.rowSteps, 1) // the cells: values that are constant within the row
	for {
		count := min(rowLength, runner.blockLen)
		scratch.run(runner.blockSteps, count)
		if rowLength -= count; rowLength == 0 {
			return
		}
		for k, size := range runner.elementSize {
			if !runner.isScalar[k] {
				scratch.slots[k] = unsafe.Add(scratch.slots[k], count*size)
			}
		}
	}
}

// run runs steps for n elements. A step without a loop is a condition: the next skipCount steps are skipped if no
// element of the mask, its operand a, equals maskBit.
func (s *Scratch) run(steps []step, n int) {
	for k := 0; k < len(steps); k++ {
		current := &steps[k]
		if current.loop != nil {
			current.loop(operands{s.operand(&current.dst), s.operand(&current.a), s.operand(&current.b),
				s.operand(&current.c), s.operand(&current.d), n})
		} else if noElementEquals(s.operand(&current.a), n, current.maskBit) {
			k += current.skipCount
		}
	}
}

// operand returns the memory at a place.
func (s *Scratch) operand(p *place) operand {
	return operand{ptr: s.slots[p.slot], offset: p.offset, stride: p.stride}
}
