//go:build linux || darwin

package jittest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// The sides of a comparison.
const (
	compiledSide = iota // machine code
	interpretedSide
)

// guardSide is the place of a pointer's elements in its memory.
type guardSide uint8

const (
	atStart guardSide = iota // after the guard page before the memory
	atEnd                    // before the guard page after the memory
)

const (
	guardedBytes   = 32 << 10 // size in bytes of the memory of a pointer, between guard pages
	lineBytes      = 64       // size in bytes of a cache line; alignments repeat after this distance
	maxRowElements = 70       // length in elements of the rows that run at every alignment
)

// Comparison runs loops as machine code and in the interpreter, and compares the results. It is for one goroutine. Each
// pointer of a loop has memory for each side, between pages that must not be accessed:
//
//	guard page | pattern | elements | pattern | guard page
//
// The method run fills the memory of both sides with the same bytes (fill), runs the code on one side and the
// interpreter on the other, and compares both, including the pattern (compareMemory).
type Comparison struct {
	mem  [2][][]byte // by side and pointer: guarded memory
	args *jit.Args
	rng  *rand.Rand

	loop    *expr.Loop
	interp  *interp.Runner  // runs the expanded loop
	scratch *interp.Scratch // memory of interp
	code    *vector.Loop    // the machine code
	ptrs    []pointer       // outputs, operands and accumulators of folds, in this order

	strides []int            // by pointer: bytes between rows of the current run
	current []unsafe.Pointer // by pointer: address of the current row
}

// pointer describes the elements at a pointer of the loop: an output, an operand, or the accumulators of a fold.
type pointer struct {
	dtype       tensor.DType
	rowElements int    // number of elements of a row; 0 means the length of the row
	writeOnly   bool   // the loop does not read the elements
	pool        []byte // the elements of operands and accumulators, repeated if a run has more
	poolTwice   []byte // the elements of the pool twice, so that rotate can start the pool at any element
	poolOffset  int    // byte offset of pool in poolTwice
	hasMemory   bool   // false for outputs that are not stored
}

// NewComparison returns a Comparison with memory for loops.
func NewComparison(t testing.TB) *Comparison {
	created := &Comparison{args: new(jit.Args), rng: rand.New(rand.NewPCG(9, 7))}
	for k := range created.mem {
		for range jit.MaxOperands {
			created.mem[k] = append(created.mem[k], Guarded(t, guardedBytes))
		}
	}
	return created
}

// Check compares a loop for an instruction set. It runs all edge cases of the dtypes, rows of up to 70 elements, and
// every alignment. It also runs operands next to guard pages, outputs in the memory of operands, several rows, long
// rows, and non-temporal stores. The error describes the first difference. It wraps [vector.ErrUnsupported] if there is
// no machine code.
func (c *Comparison) Check(loop *expr.Loop, cpu machine.Features) error {
	code, err := vector.Compile(loop, cpu, vector.Options{})
	if err != nil {
		return err
	}
	expanded, err := vector.Expanded(loop, cpu)
	if err != nil {
		return err
	}
	c.loop, c.code = loop, code
	if err := c.interpretLoop(expanded); err != nil {
		return err
	}
	c.describePointers()
	err = errors.Join(c.checkEdgeCases(), c.checkAddresses(), c.checkSharedMemory(), c.checkLongRows(cpu))
	if err != nil {
		return fmt.Errorf("%v: %w\nscalar %v, folds %v, totals %v\n%v%s", cpu, err, loop.Uniform, loop.Folds,
			loop.CombinesLanes, loop.Code, code.Listing())
	}
	return nil
}

// interpretLoop prepares the interpreter for a loop.
func (c *Comparison) interpretLoop(loop *expr.Loop) (err error) {
	if c.interp, err = interp.New(loop); err == nil {
		c.scratch = c.interp.NewScratch() // the interpreter's own scratch would live until later garbage collections
	}
	return err
}

// describePointers sets c.ptrs, the descriptions of the loop's pointers.
func (c *Comparison) describePointers() {
	c.ptrs = c.ptrs[:0]
	for _, output := range c.loop.Code.Out {
		c.ptrs = append(c.ptrs, pointer{dtype: output.DType, writeOnly: true, hasMemory: output.DType != tensor.Invalid})
	}
	for k, dtype := range c.loop.Code.In {
		ptr := pointer{dtype: dtype, hasMemory: true}
		ptr.drawPool(c.rng)
		if c.loop.Uniform[k] {
			ptr.rowElements = 1
		}
		c.ptrs = append(c.ptrs, ptr)
	}
	for k := range c.loop.Folds {
		ptr := pointer{dtype: c.loop.DType(k), hasMemory: true, rowElements: expr.FoldLanes}
		if c.loop.CombinesLanes {
			ptr.rowElements, ptr.writeOnly = 1, true
		} else {
			ptr.drawPool(c.rng)
		}
		c.ptrs = append(c.ptrs, ptr)
	}
}

// drawPool fills the pool with random elements.
func (p *pointer) drawPool(rng *rand.Rand) {
	p.pool = RandomElements(rng, p.dtype, 1024)
	p.poolTwice = slices.Concat(p.pool, p.pool)
}

// size returns the size in bytes of a row of rowLen elements, and of all rows.
func (p *pointer) size(rowLen, rows int) (row, all int) {
	if p.rowElements > 0 {
		rowLen = p.rowElements
	}
	row = rowLen * p.dtype.Size()
	return row, row * rows
}

// offsets has, for each pointer of a run, its byte offset in the memory of the pointer.
type offsets [jit.MaxOperands]int

// sharing is an output, and the operand in whose memory the output is.
type sharing struct{ output, operand int }

// noSharing means that each output has its own memory.
var noSharing = sharing{output: -1, operand: -1}

// checkAddresses runs rows of every length up to maxRowElements, and rows of maxRowElements elements at every alignment
// to a cache line. Each length and alignment has other elements.
func (c *Comparison) checkAddresses() error {
	smallest := lineBytes // the size in bytes of the smallest element
	for _, ptr := range c.ptrs {
		if ptr.hasMemory {
			smallest = min(smallest, ptr.dtype.Size())
		}
	}
	for rowLen := 1; rowLen <= maxRowElements; rowLen++ {
		err := errors.Join(c.runSeparate(c.guardOffsets(rowLen, 1, atEnd), rowLen, 1),
			c.runSeparate(c.guardOffsets(rowLen, 1, atStart), rowLen, 1),
			c.runSeparate(c.guardOffsets(rowLen, 3, atEnd), rowLen, 3))
		shifts := 1 // number of alignments to a cache line
		if rowLen == maxRowElements {
			shifts = lineBytes / smallest
		}
		for shift := range shifts {
			var starts offsets
			for k, ptr := range c.ptrs { // 5*k gives the pointers different alignments
				alignment := (rowLen + shift + 5*k) * ptr.dtype.Size() % lineBytes
				starts[k] = lineBytes + alignment // the first line leaves space for the pattern
			}
			err = errors.Join(err, c.runSeparate(starts, rowLen, 1))
			c.rotate(rowLen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// guardOffsets returns the offsets of rows of rowLen elements next to the guard pages of a side.
func (c *Comparison) guardOffsets(rowLen, rows int, side guardSide) (starts offsets) {
	for k := range c.ptrs {
		if _, size := c.ptrs[k].size(rowLen, rows); side == atEnd {
			starts[k] = guardedBytes - size
		}
	}
	return starts
}

// rotate moves the start of each pool, by a distance that depends on rowLen, so that the next run has other elements.
func (c *Comparison) rotate(rowLen int) {
	for k := range c.ptrs {
		if ptr := &c.ptrs[k]; len(ptr.pool) > 0 {
			distance := (rowLen + 7*k) * ptr.dtype.Size() % len(ptr.pool)
			ptr.poolOffset = (ptr.poolOffset + distance) % len(ptr.pool)
			ptr.pool = ptr.poolTwice[ptr.poolOffset:][:len(ptr.pool)]
		}
	}
}

// checkSharedMemory runs the loop with each output in the memory of each operand that has elements of the same size.
func (c *Comparison) checkSharedMemory() error {
	outs := len(c.loop.Code.Out)
	for outIndex, output := range c.loop.Code.Out {
		for k, dtype := range c.loop.Code.In {
			canShare := output.DType != tensor.Invalid && !c.loop.Uniform[k] && dtype.Size() == output.DType.Size()
			if !canShare {
				continue
			}
			for rowLen := 1; rowLen <= maxRowElements; rowLen++ {
				starts := c.guardOffsets(rowLen, 1, []guardSide{atStart, atEnd}[rowLen%2])
				if err := c.run(starts, rowLen, 1, sharing{output: outIndex, operand: outs + k}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkLongRows runs rows of hundreds of elements, and rows with non-temporal stores.
func (c *Comparison) checkLongRows(cpu machine.Features) error {
	var err error
	for _, rowLen := range []int{1000, 1023} {
		err = errors.Join(err, c.runSeparate(c.guardOffsets(rowLen, 1, atEnd), rowLen, 1),
			c.runSeparate(c.guardOffsets(rowLen, 2, atStart), rowLen, 2))
	}
	ordinary := c.code
	nonTemporal, compileErr := vector.Compile(c.loop, cpu, vector.Options{NonTemporal: true})
	if compileErr != nil {
		return errors.Join(err, compileErr)
	}
	c.code = nonTemporal // the code that run calls
	for _, rowLen := range []int{500, 505} {
		err = errors.Join(err, c.runSeparate(c.guardOffsets(rowLen, 1, atStart), rowLen, 1),
			c.runSeparate(c.guardOffsets(rowLen, 3, atEnd), rowLen, 3))
	}
	c.code = ordinary
	return err
}

// runSeparate is run without an output in the memory of an operand.
func (c *Comparison) runSeparate(starts offsets, rowLen, rows int) error {
	return c.run(starts, rowLen, rows, noSharing)
}

// run runs rows of rowLen elements as machine code and in the interpreter, and compares the results. starts are the
// offsets of the pointers in their memory.
func (c *Comparison) run(starts offsets, rowLen, rows int, shared sharing) error {
	c.fill(starts, rowLen, rows)
	if shared != noSharing { // the output overwrites the elements of the operand
		starts[shared.output] = starts[shared.operand]
	}
	c.strides = c.strides[:0]
	var pointerArrays [2][jit.MaxOperands]unsafe.Pointer // by side and pointer
	ptrs := [2][]unsafe.Pointer{pointerArrays[0][:len(c.ptrs)], pointerArrays[1][:len(c.ptrs)]}
	for k := range c.ptrs {
		rowBytes, _ := c.ptrs[k].size(rowLen, rows)
		c.strides = append(c.strides, rowBytes)
		for side := range c.mem {
			if c.ptrs[k].hasMemory {
				ptrs[side][k] = unsafe.Pointer(&c.memory(side, k, shared)[starts[k]])
			}
		}
	}
	if err := c.code.Run(c.args, ptrs[compiledSide], c.strides, rowLen, rows); err != nil {
		return err
	}
	c.interpret(ptrs[interpretedSide], c.strides, rowLen, rows)
	return c.compareMemory(starts, rowLen, rows, shared)
}

// compareMemory compares the memory of all pointers after a run, and returns the first difference as an error. The
// memory of a shared operand has the elements of the output.
func (c *Comparison) compareMemory(starts offsets, rowLen, rows int, shared sharing) error {
	for k := range c.ptrs {
		if k == shared.output || !c.ptrs[k].hasMemory { // a shared output is compared at k == shared.operand
			continue
		}
		dtype := c.ptrs[k].dtype
		if k == shared.operand {
			dtype = c.ptrs[shared.output].dtype
		}
		if difference := c.difference(k, dtype, starts[k], rowLen, rows); difference != "" {
			return fmt.Errorf("%d rows of %d, addresses %v, output %d in the memory of operand %d: %s", rows, rowLen,
				starts[:len(c.ptrs)], shared.output, shared.operand, difference)
		}
	}
	return nil
}

// memory returns the memory of pointer k on a side. A shared output has the memory of the operand.
func (c *Comparison) memory(side, k int, shared sharing) []byte {
	if k == shared.output {
		k = shared.operand
	}
	return c.mem[side][k]
}

// fill writes the operands. It fills the memory around them and the outputs with a pattern, so that difference finds
// stray stores.
func (c *Comparison) fill(starts offsets, rowLen, rows int) {
	for k := range c.ptrs {
		ptr := &c.ptrs[k]
		if !ptr.hasMemory {
			continue
		}
		_, size := ptr.size(rowLen, rows)
		compiled, interpreted := c.mem[compiledSide][k], c.mem[interpretedSide][k]
		copy(window(compiled, starts[k], size), pattern)
		for unfilled := compiled[starts[k] : starts[k]+size]; !ptr.writeOnly && len(unfilled) > 0; {
			unfilled = unfilled[copy(unfilled, ptr.pool):]
		}
		copy(window(interpreted, starts[k], size), window(compiled, starts[k], size))
	}
}

// window returns size bytes of memory from an offset on, with up to a cache line before and after them.
func window(memory []byte, offset, size int) []byte {
	return memory[max(0, offset-lineBytes):min(len(memory), offset+size+lineBytes)]
}

// pattern is the content, before a run, of outputs and of the memory around all pointers.
var pattern = bytes.Repeat([]byte{0xA5}, guardedBytes)

// interpret runs the rows in the interpreter. Each row is a call, because the interpreter does not advance accumulators
// from row to row.
func (c *Comparison) interpret(ptrs []unsafe.Pointer, strides []int, rowLen, rows int) {
	operands := len(c.ptrs) - len(c.loop.Folds) // number of outputs and operands
	for row := range rows {
		c.current = c.current[:0]
		for k, address := range ptrs {
			if address != nil {
				address = unsafe.Add(address, row*strides[k])
			}
			c.current = append(c.current, address)
		}
		c.interp.Run(c.scratch, c.current[:operands], strides[:operands], c.current[operands:], rowLen, 1)
	}
}

// difference describes the first difference in the memory of pointer k, or returns an empty string. It makes the
// elements equal up to the first difference, so that afterwards only bytes next to the elements can differ.
func (c *Comparison) difference(k int, dtype tensor.DType, offset, rowLen, rows int) string {
	_, size := c.ptrs[k].size(rowLen, rows)
	compiled, interpreted := c.mem[compiledSide][k], c.mem[interpretedSide][k]
	compiledWindow, interpretedWindow := window(compiled, offset, size), window(interpreted, offset, size)
	if bytes.Equal(compiledWindow, interpretedWindow) {
		return ""
	}
	compiled, interpreted = compiled[offset:offset+size], interpreted[offset:offset+size]
	elemBytes := dtype.Size()
	for start := 0; start < size; start += elemBytes {
		compiledElement, interpretedElement := compiled[start:][:elemBytes], interpreted[start:][:elemBytes]
		if !Same(dtype, compiledElement, interpretedElement) {
			return fmt.Sprintf("pointer %d (%v), element %d: compiled % x, interpreted % x", k, dtype,
				start/elemBytes, compiledElement, interpretedElement)
		}
		copy(compiledElement, interpretedElement) // two NaNs may have different bits
	}
	if !bytes.Equal(compiledWindow, interpretedWindow) {
		return fmt.Sprintf("bytes next to the memory of pointer %d were changed", k)
	}
	return ""
}
