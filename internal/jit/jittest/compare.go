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
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

const (
	guardedBytes   = 32 << 10 // size in bytes of the memory of a pointer, between guard pages
	lineBytes      = 64       // size in bytes of a cache line; alignments repeat after this distance
	maxRowElements = 70       // length in elements of the rows that run at every alignment
)

// Comparison runs loops as machine code and in the interpreter, and compares the results. It is for one goroutine.
type Comparison struct {
	mem  [2][][]byte // by side (0 machine code, 1 interpreter) and pointer: guarded memory
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
	poolTwice   []byte // the elements of the pool twice, so that the pool can start at any element
	poolOffset  int    // byte offset of pool in poolTwice
	stored      bool   // false for outputs without memory
}

// NewComparison returns a Comparison with memory for loops.
func NewComparison(t testing.TB) *Comparison {
	b := &Comparison{args: new(jit.Args), rng: rand.New(rand.NewPCG(9, 7))}
	for k := range b.mem {
		for range jit.MaxOperands {
			b.mem[k] = append(b.mem[k], Guarded(t, guardedBytes))
		}
	}
	return b
}

// Expanded returns the loop with elementary functions expanded for an instruction set. The machine code of l gives the
// same bits as this loop.
func Expanded(l *expr.Loop, cpu machine.Features) (*expr.Loop, error) {
	c := *l.Code
	outs := len(c.Out)
	c.Out = slices.Clone(c.Out)
	for _, f := range l.Folds {
		c.Out = append(c.Out, expr.Output{DType: tensor.Invalid, Re: f.V, Im: expr.None})
	}
	e, err := expand.Functions(&c, vector.TargetOf(cpu))
	if err != nil {
		return nil, err
	}
	x := &expr.Loop{Code: e, Scalar: l.Scalar, Totals: l.Totals}
	for k, f := range l.Folds {
		x.Folds = append(x.Folds, expr.Fold{Op: f.Op, V: e.Out[outs+k].Re})
	}
	e.Out = e.Out[:outs]
	return x, nil
}

// Check compares a loop for an instruction set. It runs all edge cases of the dtypes, rows of up to 70 elements, every
// alignment, operands next to guard pages, outputs in the memory of operands, several rows, long rows, and non-temporal
// stores. The error describes the first difference. It wraps [vector.ErrUnsupported] if there is no machine code.
func (b *Comparison) Check(l *expr.Loop, cpu machine.Features) error {
	code, err := vector.Compile(l, cpu, vector.Options{})
	if err != nil {
		return err
	}
	e, err := Expanded(l, cpu)
	if err != nil {
		return err
	}
	b.loop, b.code = l, code
	if err := b.interpretLoop(e); err != nil {
		return err
	}
	b.describePointers()
	err = errors.Join(b.checkEdgeCases(), b.checkAddresses(), b.checkSharedMemory(), b.checkLongRows(cpu))
	if err != nil {
		return fmt.Errorf("%v: %w\nscalar %v, folds %v, totals %v\n%v%s", cpu, err, l.Scalar, l.Folds, l.Totals, l.Code,
			code.Listing())
	}
	return nil
}

// interpretLoop sets the loop of the interpreter.
func (b *Comparison) interpretLoop(l *expr.Loop) (err error) {
	if b.interp, err = interp.New(l); err == nil {
		b.scratch = b.interp.NewScratch() // the interpreter's own scratch would live until later garbage collections
	}
	return err
}

// describePointers sets b.ptrs, the descriptions of the loop's pointers.
func (b *Comparison) describePointers() {
	b.ptrs = b.ptrs[:0]
	for _, o := range b.loop.Code.Out {
		b.ptrs = append(b.ptrs, pointer{dtype: o.DType, writeOnly: true, stored: o.DType != tensor.Invalid})
	}
	for k, d := range b.loop.Code.In {
		p := pointer{dtype: d, stored: true}
		p.draw(b.rng)
		if b.loop.Scalar[k] {
			p.rowElements = 1
		}
		b.ptrs = append(b.ptrs, p)
	}
	for k := range b.loop.Folds {
		p := pointer{dtype: b.loop.DType(k), stored: true, rowElements: expr.Lanes}
		if b.loop.Totals {
			p.rowElements, p.writeOnly = 1, true
		} else {
			p.draw(b.rng)
		}
		b.ptrs = append(b.ptrs, p)
	}
}

// draw fills the pool with random elements.
func (p *pointer) draw(rng *rand.Rand) {
	p.pool = RandomElements(rng, p.dtype, 1024)
	p.poolTwice = slices.Concat(p.pool, p.pool)
}

// offsets has, for each pointer of a run, its byte offset in the memory of the pointer.
type offsets [jit.MaxOperands]int

// size returns the size in bytes of a row of n elements, and of all rows.
func (p *pointer) size(n, rows int) (row, all int) {
	if p.rowElements > 0 {
		n = p.rowElements
	}
	row = n * p.dtype.Size()
	return row, row * rows
}

// run runs rows of n elements as machine code and in the interpreter, and compares the results. If sharedOperand is not
// negative, output sharedOutput is in the memory of pointer sharedOperand, an operand.
func (b *Comparison) run(starts offsets, n, rows, sharedOutput, sharedOperand int) error {
	b.fill(starts, n, rows)
	if sharedOperand >= 0 {
		starts[sharedOutput] = starts[sharedOperand]
	}
	b.strides = b.strides[:0]
	var both [2][jit.MaxOperands]unsafe.Pointer
	ptrs := [2][]unsafe.Pointer{both[0][:len(b.ptrs)], both[1][:len(b.ptrs)]}
	for k := range b.ptrs {
		p := &b.ptrs[k]
		row, _ := p.size(n, rows)
		b.strides = append(b.strides, row)
		for side := range b.mem {
			var address unsafe.Pointer
			if m := b.memory(side, k, sharedOutput, sharedOperand); p.stored {
				address = unsafe.Pointer(&m[starts[k]])
			}
			ptrs[side][k] = address
		}
	}
	if err := b.code.Run(b.args, ptrs[0], b.strides, n, rows); err != nil {
		return err
	}
	b.interpret(ptrs[1], b.strides, n, rows)
	for k := range b.ptrs {
		if k == sharedOutput && sharedOperand >= 0 || !b.ptrs[k].stored {
			continue
		}
		d := b.ptrs[k].dtype
		if k == sharedOperand {
			d = b.ptrs[sharedOutput].dtype
		}
		if why := b.difference(k, d, starts[k], n, rows); why != "" {
			return fmt.Errorf("%d rows of %d, addresses %v, output %d in the memory of operand %d: %s", rows, n,
				starts[:len(b.ptrs)], sharedOutput, sharedOperand, why)
		}
	}
	return nil
}

// memory returns the memory of pointer k on a side (0 machine code, 1 interpreter). For sharedOutput and sharedOperand
// see run.
func (b *Comparison) memory(side, k, sharedOutput, sharedOperand int) []byte {
	if sharedOperand >= 0 && k == sharedOutput {
		k = sharedOperand
	}
	return b.mem[side][k]
}

// interpret runs the rows in the interpreter. Each row is a call, because the interpreter does not advance accumulators
// from row to row.
func (b *Comparison) interpret(ptrs []unsafe.Pointer, strides []int, n, rows int) {
	ops := len(b.ptrs) - len(b.loop.Folds)
	for row := range rows {
		b.current = b.current[:0]
		for k, p := range ptrs {
			if p != nil {
				p = unsafe.Add(p, row*strides[k])
			}
			b.current = append(b.current, p)
		}
		b.interp.Run(b.scratch, b.current[:ops], strides[:ops], b.current[ops:], n, 1)
	}
}

// window returns size bytes of memory from an offset on, with up to a cache line before and after them.
func window(m []byte, offset, size int) []byte {
	return m[max(0, offset-lineBytes):min(len(m), offset+size+lineBytes)]
}

// pattern is the content of memory around operands and of outputs before a run.
var pattern = bytes.Repeat([]byte{0xA5}, guardedBytes)

// fill writes the operands. It fills the memory around them and the outputs with a pattern, so that difference finds
// stray stores.
func (b *Comparison) fill(starts offsets, n, rows int) {
	for k := range b.ptrs {
		p := &b.ptrs[k]
		if !p.stored {
			continue
		}
		_, size := p.size(n, rows)
		copy(window(b.mem[0][k], starts[k], size), pattern)
		for to := b.mem[0][k][starts[k] : starts[k]+size]; !p.writeOnly && len(to) > 0; {
			to = to[copy(to, p.pool):]
		}
		copy(window(b.mem[1][k], starts[k], size), window(b.mem[0][k], starts[k], size))
	}
}

// difference describes the first difference in the memory of a pointer, or returns an empty string.
func (b *Comparison) difference(k int, d tensor.DType, offset, n, rows int) string {
	_, size := b.ptrs[k].size(n, rows)
	x, y := window(b.mem[0][k], offset, size), window(b.mem[1][k], offset, size)
	if bytes.Equal(x, y) {
		return ""
	}
	u, v := b.mem[0][k][offset:offset+size], b.mem[1][k][offset:offset+size]
	for e := d.Size(); len(u) > 0; u, v = u[e:], v[e:] {
		if !Same(d, u[:e], v[:e]) {
			return fmt.Sprintf("pointer %d (%v), element %d: compiled % x, interpreted % x", k, d, (size-len(u))/e, u[:e], v[:e])
		}
		copy(u, v[:e])
	}
	if !bytes.Equal(x, y) {
		return fmt.Sprintf("bytes next to the memory of pointer %d were changed", k)
	}
	return ""
}

// guardOffsets returns offsets next to guard pages. If atStart is true, the memory of each pointer starts after a guard
// page. If not, it ends before a guard page.
func (b *Comparison) guardOffsets(n, rows int, atStart bool) (starts offsets) {
	for k := range b.ptrs {
		if _, size := b.ptrs[k].size(n, rows); !atStart {
			starts[k] = guardedBytes - size
		}
	}
	return starts
}

// checkAddresses runs rows of every length up to maxRowElements, and rows of this length at every alignment. Each run
// has other elements.
func (b *Comparison) checkAddresses() error {
	smallest := lineBytes
	for _, p := range b.ptrs {
		if p.stored {
			smallest = min(smallest, p.dtype.Size())
		}
	}
	for n := 1; n <= maxRowElements; n++ {
		err := errors.Join(b.run(b.guardOffsets(n, 1, false), n, 1, 0, -1), b.run(b.guardOffsets(n, 1, true), n, 1, 0, -1),
			b.run(b.guardOffsets(n, 3, false), n, 3, 0, -1))
		shifts := 1
		if n == maxRowElements {
			shifts = lineBytes / smallest
		}
		for shift := range shifts {
			var starts offsets
			for k, p := range b.ptrs {
				starts[k] = lineBytes + (n+shift+5*k)*p.dtype.Size()%lineBytes
			}
			err = errors.Join(err, b.run(starts, n, 1, 0, -1))
			b.rotate(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rotate changes the first element of each pool.
func (b *Comparison) rotate(n int) {
	for k := range b.ptrs {
		if p := &b.ptrs[k]; len(p.pool) > 0 {
			cut := (n + 7*k) * p.dtype.Size() % len(p.pool)
			p.poolOffset = (p.poolOffset + cut) % len(p.pool)
			p.pool = p.poolTwice[p.poolOffset:][:len(p.pool)]
		}
	}
}

// checkSharedMemory runs the loop with each output in the memory of each operand that has elements of the same size.
func (b *Comparison) checkSharedMemory() error {
	outs := len(b.loop.Code.Out)
	for output, o := range b.loop.Code.Out {
		for k, d := range b.loop.Code.In {
			if b.loop.Scalar[k] || o.DType == tensor.Invalid || d.Size() != o.DType.Size() {
				continue
			}
			for n := 1; n <= maxRowElements; n++ {
				if err := b.run(b.guardOffsets(n, 1, n%2 == 0), n, 1, output, outs+k); err != nil {
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
	for _, n := range []int{1000, 1023} {
		err = errors.Join(err, b.run(b.guardOffsets(n, 1, false), n, 1, 0, -1), b.run(b.guardOffsets(n, 2, true), n, 2, 0,
			-1))
	}
	code, options := b.code, vector.Options{NonTemporal: true}
	if b.code, err = vector.Compile(b.loop, cpu, options); err != nil {
		return err
	}
	for _, n := range []int{500, 505} {
		err = errors.Join(err, b.run(b.guardOffsets(n, 1, true), n, 1, 0, -1), b.run(b.guardOffsets(n, 3, false), n, 3, 0,
			-1))
	}
	b.code = code
	return err
}
