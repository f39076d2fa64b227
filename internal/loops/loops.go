// Package loops runs loops of expressions in the way that is fastest here: as machine code where the processor, the
// system and the expression allow, else block by block in Go.
package loops

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
)

// Loop is an [expr.Loop] that was made ready. It is immutable and may run on any number of goroutines.
type Loop struct {
	loop   *expr.Loop
	folds  int
	step   []int // bytes from an element to the next: outputs, then operands
	most   int   // elements in a call of machine code
	code   *vector.Loop
	once   sync.Once
	inGo   *expr.Interp
	failed error
	why    error // there is no machine code
}

// State is what a worker keeps for the loops that it runs. The zero value is ready. It is for one goroutine at a time.
type State struct {
	// Context, if set, ends a long [Loop.Run] by the panic of [ends.Look].
	Context context.Context

	accs [expr.MaxOperands]unsafe.Pointer
	args *jit.Args
}

// Release forgets addresses and the context.
func (s *State) Release() {
	s.Context = nil
	if s.args != nil {
		clear(s.args.Ptr[:])
	}
}

// Compiles reports whether machine code is made of loops here, where their expressions allow. Tests put another in its
// place.
var Compiles = func() bool { return jit.Available() == nil }

// Choices that do not change results.
type (
	Options = vector.Options
	Ahead   = vector.Ahead
)

// Fence follows the last run of loops that are Unfenced, before another goroutine reads what they wrote.
func Fence() { vector.Fence() }

// New makes a loop ready.
func New(l *expr.Loop, opts Options) (*Loop, error) {
	r := &Loop{loop: l, folds: len(l.Folds)}
	r.steps()
	if Compiles() {
		code, err := vector.Compile(l, machine.Instructions(), opts)
		if err != nil && !errors.Is(err, vector.ErrUnsupported) {
			return nil, err
		}
		if err == nil {
			r.code = code
			r.limit()
			return r, nil
		}
		r.why = err
	} else {
		r.why = jit.Available()
	}
	r.prepare()
	return r, r.failed
}

// Most returns the elements of a row that go in one call of machine code: rows of more are cut, which totals cannot be.
// It is 0 where there is none.
func (l *Loop) Most() int { return l.most }

// rowElements is the fewest elements that a row counts as: a shorter one is a turn of a vector all the same, and AVX2
// brings the elements of such a turn one by one where they have 8 or 16 bits.
func rowElements() int {
	if machine.Instructions() < machine.AVX512 {
		return 256
	}
	return 32
}

// MostRows returns how many rows of n0 elements go in one call of machine code.
func (l *Loop) MostRows(n0 int) int {
	return max(1, min(callElements/max(n0, rowElements()), callWork/l.code.Work().Of(n0)))
}

// Compiled reports whether the loop is machine code.
func (l *Loop) Compiled() bool { return l.code != nil }

// functionWork is about the instructions that an elementary function takes.
const functionWork = 40

// PerElement estimates what machine code takes for an element whose operands are at hand, in nanoseconds, from the
// instructions that there are; it is 0 where the loop runs in Go.
func (l *Loop) PerElement() float64 {
	if l.code == nil {
		return 0
	}
	const perNS = 12 // instructions
	lanes, work := 16, 0
	if machine.Instructions() != machine.AVX512 {
		lanes = 8
	}
	wide := false
	for _, i := range l.loop.Code.Insts {
		wide = wide || i.DType.Size() == 8
		if work++; !i.Op.Primitive() {
			work += functionWork
		}
	}
	if wide {
		lanes /= 2
	}
	return float64(max(1, work)) / float64(lanes*perNS)
}

// Listing tells what was made of the loop, under a name. The code is listed anew.
func (l *Loop) Listing(name string) expr.Listing {
	r := expr.Listing{Name: name, Loop: l.loop}
	switch {
	case l.code != nil:
		r.Assembly = l.code.Listing()
	case l.why != nil:
		r.Why = l.why.Error()
	}
	return r
}

func (l *Loop) prepare() {
	l.once.Do(func() { l.inGo, l.failed = l.loop.Prepare() })
}

// callWork is how many instructions go in a call, which the runtime waits for before it stops the world: it takes less
// than 50 us (cos of 20,000 float64 took 52). callElements is how many elements do, of loops for which memory is what
// takes time.
const (
	callWork     = 200_000
	callElements = 1 << 15
)

// limit finds how many elements of a row go in a call.
func (l *Loop) limit() {
	w := l.code.Work()
	turns := (callWork - w.Of(w.TurnElements-1)) / w.Turn
	l.most = max(expr.Lanes, min(callElements, turns*w.TurnElements)&^(expr.Lanes-1))
}

// steps finds the bytes from an element to the next.
func (l *Loop) steps() {
	for _, o := range l.loop.Code.Out {
		l.step = append(l.step, o.DType.Size())
	}
	for k, d := range l.loop.Code.In {
		n := d.Size()
		if l.loop.Scalar[k] {
			n = 0
		}
		l.step = append(l.step, n)
	}
}

// Run computes n1 rows of n0 elements. ptrs are the addresses of the first row: outputs, then operands, then the
// [expr.Lanes] accumulators of each fold, which the row is added to, or its total; strides are the bytes from a row to
// the next in the same order, 0 for what rows share. An output that is stored nowhere needs neither. Addresses are
// trusted, must be of the heap, and are changed.
func (l *Loop) Run(s *State, ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	if n0 <= 0 || n1 <= 0 {
		return
	}
	if l.code == nil || !l.compiled(s, ptrs, strides, n0, n1) {
		l.interpreted(s, ptrs, strides, n0, n1)
	}
}

// compiled runs machine code; false: it cannot be had after all, and nothing was done.
func (l *Loop) compiled(s *State, ptrs []unsafe.Pointer, strides []int, n0, n1 int) bool {
	if s.args == nil {
		s.args = new(jit.Args)
	}
	if n0 > l.most && !l.loop.Totals {
		return l.pieces(s, ptrs, strides, n0, n1)
	}
	for rows := l.MostRows(n0); ; {
		n := min(rows, n1)
		if err := l.code.Run(s.args, ptrs, strides, n0, n); err != nil {
			return false // the first call: later ones have the code
		}
		if n1 -= n; n1 == 0 {
			return true
		}
		ends.Look(s.Context)
		advance(ptrs, strides, n)
	}
}

// pieces runs rows that are too long for one call.
func (l *Loop) pieces(s *State, ptrs []unsafe.Pointer, strides []int, n0, n1 int) bool {
	var at [expr.MaxOperands + expr.MaxOperands]unsafe.Pointer
	for {
		piece := append(at[:0], ptrs...)
		for begin := 0; ; {
			n := min(l.most, n0-begin)
			if err := l.code.Run(s.args, piece, strides, n, 1); err != nil {
				return false
			}
			if begin += n; begin == n0 {
				break
			}
			ends.Look(s.Context)
			advance(piece[:len(l.step)], l.step, n)
		}
		if n1--; n1 == 0 {
			return true
		}
		advance(ptrs, strides, 1)
	}
}

// advance moves addresses by n steps.
func advance(ptrs []unsafe.Pointer, steps []int, n int) {
	for k, p := range ptrs {
		if p != nil {
			ptrs[k] = unsafe.Add(p, n*steps[k])
		}
	}
}

// interpreted runs the loop in Go.
func (l *Loop) interpreted(s *State, ptrs []unsafe.Pointer, strides []int, n0, n1 int) {
	l.prepare()
	ops := len(ptrs) - l.folds
	if l.folds == 0 && n0 <= callElements {
		for rows := callElements / n0; ; {
			n := min(rows, n1)
			l.inGo.Run(nil, ptrs, strides, nil, n0, n)
			if n1 -= n; n1 == 0 {
				return
			}
			ends.Look(s.Context)
			advance(ptrs, strides, n)
		}
	}
	// Accumulators of the interpreter stay where they are from row to row.
	accs := s.accs[:l.folds]
	for copy(accs, ptrs[ops:]); ; copy(accs, ptrs[ops:]) {
		l.interpretedRow(s, ptrs[:ops], strides[:ops], accs, n0)
		if n1--; n1 == 0 {
			break
		}
		advance(ptrs, strides, 1)
	}
	clear(accs)
}

// interpretedRow runs a row in Go: in pieces, but for totals.
func (l *Loop) interpretedRow(s *State, ptrs []unsafe.Pointer, strides []int, accs []unsafe.Pointer, n0 int) {
	if n0 <= callElements || l.loop.Totals {
		l.inGo.Run(nil, ptrs, strides, accs, n0, 1)
		return
	}
	var at [expr.MaxOperands + expr.MaxOperands]unsafe.Pointer
	for piece := append(at[:0], ptrs...); ; advance(piece, l.step, callElements) {
		l.inGo.Run(nil, piece, strides, accs, min(callElements, n0), 1)
		if n0 -= callElements; n0 <= 0 {
			return
		}
		ends.Look(s.Context)
	}
}
