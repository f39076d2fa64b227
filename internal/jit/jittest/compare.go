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
// A run (run) fills the memory of both sides with the same bytes (fill), runs the code on one side and the interpreter
// on the other, and compares both, including the pattern (difference).
type Comparison struct {
	mem  [2][][]byte // by side and pointer: guarded memory
	args *jit.Args
	rng  *rand.Rand

	loop    *expr.Loop
	interp  *interp.Runner
	scratch *interp.Scratch
	code    *vector.Loop
	ptrs    []pointer

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
func (b *Comparison) Check(loop *expr.Loop, cpu machine.Features) error {
	code, err := vector.Compile(loop, cpu, vector.Options{})
	if err != nil {
		return err
	}
	expanded, err := vector.Expanded(loop, cpu)
	if err != nil {
		return err
	}
	b.loop, b.code = loop, code
	if err := b.interpretLoop(expanded); err != nil {
		return err
	}
	b.describePointers()
	err = errors.Join(b.checkEdgeCases(), b.checkAddresses(), b.checkSharedMemory(), b.checkLongRows(cpu))
	if err != nil {
		return fmt.Errorf("%v: %w\nscalar %v, folds %v, totals %v\n%v%s", cpu, err, loop.Uniform, loop.Folds,
			loop.CombinesLanes,
			loop.Code, code.Listing())
	}
	return nil
}

// interpretLoop prepares the interpreter for a loop.
func (b *Comparison) interpretLoop(loop *expr.Loop) (err error) {
	if b.interp, err = interp.New(loop); err == nil {
		b.scratch = b.interp.NewScratch() // the interpreter's own scratch would live until later garbage collections
	}
	return err
}

// describePointers sets b.ptrs, the descriptions of the loop's pointers.
func (b *Comparison) describePointers() {
	b.ptrs = b.ptrs[:0]
	for _, output := range b.loop.Code.Out {
		b.ptrs = append(b.ptrs, pointer{dtype: output.DType, writeOnly: true, hasMemory: output.DType != tensor.Invalid})
	}
	for k, dtype := range b.loop.Code.In {
		ptr := pointer{dtype: dtype, hasMemory: true}
		ptr.draw(b.rng)
		if b.loop.Uniform[k] {
			ptr.rowElements = 1
		}
		b.ptrs = append(b.ptrs, ptr)
	}
	for k := range b.loop.Folds {
		ptr := pointer{dtype: b.loop.DType(k), hasMemory: true, rowElements: expr.FoldLanes}
		if b.loop.CombinesLanes {
			ptr.rowElements, ptr.writeOnly = 1, true
		} else {
			ptr.draw(b.rng)
		}
		b.ptrs = append(b.ptrs, ptr)
	}
}

// draw fills the pool with random elements.
func (p *pointer) draw(rng *rand.Rand) {
	p.pool = RandomElements(rng, p.dtype, 1024)
	p.poolTwice = slices.Concat(p.pool, p.pool)
}

// offsets has, for each pointer of a run, its byte offset in the memory of the pointer.
type offsets [jit.MaxOperands]int

// size returns the size in bytes of a row of rowLen elements, and of all rows.
func (p *pointer) size(rowLen, rows int) (row, all int) {
	if p.rowElements > 0 {
		rowLen = p.rowElements
	}
	row = rowLen * p.dtype.Size()
	return row, row * rows
}

// runSeparate is run without an output in the memory of an operand.
func (b *Comparison) runSeparate(starts offsets, rowLen, rows int) error {
	const noOutput, noOperand = 0, -1
	return b.run(starts, rowLen, rows, noOutput, noOperand)
}

// run runs rows of rowLen elements as machine code and in the interpreter, and compares the results. starts are the
// offsets of the pointers in their memory. If sharedOperand is not negative, output sharedOutput is in the memory of
// the operand with pointer sharedOperand.
func (b *Comparison) run(starts offsets, rowLen, rows, sharedOutput, sharedOperand int) error {
	b.fill(starts, rowLen, rows)
	if sharedOperand >= 0 {
		starts[sharedOutput] = starts[sharedOperand]
	}
	b.strides = b.strides[:0]
	var pointerArrays [2][jit.MaxOperands]unsafe.Pointer // by side and pointer
	ptrs := [2][]unsafe.Pointer{pointerArrays[0][:len(b.ptrs)], pointerArrays[1][:len(b.ptrs)]}
	for k := range b.ptrs {
		rowBytes, _ := b.ptrs[k].size(rowLen, rows)
		b.strides = append(b.strides, rowBytes)
		for side := range b.mem {
			if memory := b.memory(side, k, sharedOutput, sharedOperand); b.ptrs[k].hasMemory {
				ptrs[side][k] = unsafe.Pointer(&memory[starts[k]])
			}
		}
	}
	if err := b.code.Run(b.args, ptrs[compiledSide], b.strides, rowLen, rows); err != nil {
		return err
	}
	b.interpret(ptrs[interpretedSide], b.strides, rowLen, rows)
	for k := range b.ptrs {
		isSharedOutput := k == sharedOutput && sharedOperand >= 0 // compared at k == sharedOperand
		if isSharedOutput || !b.ptrs[k].hasMemory {
			continue
		}
		dtype := b.ptrs[k].dtype
		if k == sharedOperand {
			dtype = b.ptrs[sharedOutput].dtype
		}
		if difference := b.difference(k, dtype, starts[k], rowLen, rows); difference != "" {
			return fmt.Errorf("%d rows of %d, addresses %v, output %d in the memory of operand %d: %s", rows, rowLen,
				starts[:len(b.ptrs)], sharedOutput, sharedOperand, difference)
		}
	}
	return nil
}

// memory returns the memory of pointer k on a side. For sharedOutput and sharedOperand see run.
func (b *Comparison) memory(side, k, sharedOutput, sharedOperand int) []byte {
	if sharedOperand >= 0 && k == sharedOutput {
		k = sharedOperand
	}
	return b.mem[side][k]
}

// interpret runs the rows in the interpreter. Each row is a call, because the interpreter does not advance accumulators
// from row to row.
func (b *Comparison) interpret(ptrs []unsafe.Pointer, strides []int, rowLen, rows int) {
	operands := len(b.ptrs) - len(b.loop.Folds) // number of outputs and operands
	for row := range rows {
		b.current = b.current[:0]
		for k, address := range ptrs {
			if address != nil {
				address = unsafe.Add(address, row*strides[k])
			}
			b.current = append(b.current, address)
		}
		b.interp.Run(b.scratch, b.current[:operands], strides[:operands], b.current[operands:], rowLen, 1)
	}
}

// window returns size bytes of memory from an offset on, with up to a cache line before and after them.
func window(memory []byte, offset, size int) []byte {
	return memory[max(0, offset-lineBytes):min(len(memory), offset+size+lineBytes)]
}

// pattern is the content, before a run, of outputs and of the memory around all pointers.
var pattern = bytes.Repeat([]byte{0xA5}, guardedBytes)

// fill writes the operands. It fills the memory around them and the outputs with a pattern, so that difference finds
// stray stores.
func (b *Comparison) fill(starts offsets, rowLen, rows int) {
	for k := range b.ptrs {
		ptr := &b.ptrs[k]
		if !ptr.hasMemory {
			continue
		}
		_, size := ptr.size(rowLen, rows)
		compiled, interpreted := b.mem[compiledSide][k], b.mem[interpretedSide][k]
		copy(window(compiled, starts[k], size), pattern)
		for unfilled := compiled[starts[k] : starts[k]+size]; !ptr.writeOnly && len(unfilled) > 0; {
			unfilled = unfilled[copy(unfilled, ptr.pool):]
		}
		copy(window(interpreted, starts[k], size), window(compiled, starts[k], size))
	}
}

// difference describes the first difference in the memory of pointer k, or returns an empty string. It makes the
// elements equal up to the first difference, so that afterwards only bytes next to the elements can differ.
func (b *Comparison) difference(k int, dtype tensor.DType, offset, rowLen, rows int) string {
	_, size := b.ptrs[k].size(rowLen, rows)
	compiled, interpreted := b.mem[compiledSide][k], b.mem[interpretedSide][k]
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

// guardOffsets returns the offsets of rows of rowLen elements next to the guard pages of a side.
func (b *Comparison) guardOffsets(rowLen, rows int, side guardSide) (starts offsets) {
	for k := range b.ptrs {
		if _, size := b.ptrs[k].size(rowLen, rows); side == atEnd {
			starts[k] = guardedBytes - size
		}
	}
	return starts
}

// checkAddresses runs rows of every length up to maxRowElements, and rows of maxRowElements elements at every alignment
// to a cache line. Each length and alignment has other elements.
func (b *Comparison) checkAddresses() error {
	smallest := lineBytes // the size in bytes of the smallest element
	for _, ptr := range b.ptrs {
		if ptr.hasMemory {
			smallest = min(smallest, ptr.dtype.Size())
		}
	}
	for rowLen := 1; rowLen <= maxRowElements; rowLen++ {
		err := errors.Join(b.runSeparate(b.guardOffsets(rowLen, 1, atEnd), rowLen, 1),
			b.runSeparate(b.guardOffsets(rowLen, 1, atStart), rowLen, 1),
			b.runSeparate(b.guardOffsets(rowLen, 3, atEnd), rowLen, 3))
		shifts := 1
		if rowLen == maxRowElements {
			shifts = lineBytes / smallest
		}
		for shift := range shifts {
			var starts offsets
			for k, ptr := range b.ptrs { // the pointers have different alignments
				starts[k] = lineBytes + (rowLen+shift+5*k)*ptr.dtype.Size()%lineBytes
			}
			err = errors.Join(err, b.runSeparate(starts, rowLen, 1))
			b.rotate(rowLen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rotate moves the start of each pool, by a distance that depends on rowLen, so that the next run has other elements.
func (b *Comparison) rotate(rowLen int) {
	for k := range b.ptrs {
		if ptr := &b.ptrs[k]; len(ptr.pool) > 0 {
			distance := (rowLen + 7*k) * ptr.dtype.Size() % len(ptr.pool)
			ptr.poolOffset = (ptr.poolOffset + distance) % len(ptr.pool)
			ptr.pool = ptr.poolTwice[ptr.poolOffset:][:len(ptr.pool)]
		}
	}
}

// checkSharedMemory runs the loop with each output in the memory of each operand that has elements of the same size.
func (b *Comparison) checkSharedMemory() error {
	outs := len(b.loop.Code.Out)
	for outIndex, output := range b.loop.Code.Out {
		for k, dtype := range b.loop.Code.In {
			canShare := output.DType != tensor.Invalid && !b.loop.Uniform[k] && dtype.Size() == output.DType.Size()
			if !canShare {
				continue
			}
			for rowLen := 1; rowLen <= maxRowElements; rowLen++ {
				starts := b.guardOffsets(rowLen, 1, []guardSide{atStart, atEnd}[rowLen%2])
				if err := b.run(starts, rowLen, 1, outIndex, outs+k); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkLongRows runs rows of hundreds of elements, and rows with non-temporal stores.
func (b *Comparison) checkLongRows(cpu machine.Features) error {
	var err error
	for _, rowLen := range []int{1000, 1023} {
		err = errors.Join(err, b.runSeparate(b.guardOffsets(rowLen, 1, atEnd), rowLen, 1),
			b.runSeparate(b.guardOffsets(rowLen, 2, atStart), rowLen, 2))
	}
	code := b.code
	nonTemporal, compileErr := vector.Compile(b.loop, cpu, vector.Options{NonTemporal: true})
	if compileErr != nil {
		return errors.Join(err, compileErr)
	}
	b.code = nonTemporal
	for _, rowLen := range []int{500, 505} {
		err = errors.Join(err, b.runSeparate(b.guardOffsets(rowLen, 1, atStart), rowLen, 1),
			b.runSeparate(b.guardOffsets(rowLen, 3, atEnd), rowLen, 3))
	}
	b.code = code
	return err
}
