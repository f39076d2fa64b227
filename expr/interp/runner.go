package interp

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
)

// blockBytes is the size in bytes of a block of the widest elements of a loop. It is small enough for several blocks to
// fit the L1 cache together. It is large enough for the work on a block to take much longer than a call. The length of
// a block is a multiple of FoldLanes elements, so that each block begins with the first accumulator.
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
	skipCount       int // for a mask test: the number of steps to skip
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
