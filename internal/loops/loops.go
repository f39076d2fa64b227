// Package loops compiles and runs loops of expressions. A loop is compiled to machine code if processor, system and
// expression allow it. Otherwise package interp runs it block by block.
//
// [New] prepares an [expr.Loop], and [Loop.Run] computes rows with it. Long work is divided into calls of less than 50
// us, because the garbage collector cannot stop the world during a call. Each worker keeps a [State]. Other packages
// import this package instead of the code generators.
package loops

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
)

// Loop is a prepared [expr.Loop]. It is immutable and safe for concurrent use.
type Loop struct {
	loop               *expr.Loop
	foldCount          int            // number of folds
	elementStrides     []int          // by output, then by operand: bytes between elements; 0 if constant along the row
	maxElementsPerCall int            // maximum number of elements in a call of machine code; 0 without machine code
	code               *vector.Loop   // nil without machine code
	interpOnce         sync.Once      // for runner and interpError
	runner             *interp.Runner // the interpreted loop; nil until it is needed
	interpError        error          // why the loop cannot be interpreted
	noCodeReason       error          // why there is no machine code
}

// State holds the memory that a worker reuses between loops. The zero value is ready to use. A State is for one
// goroutine at a time.
type State struct {
	// If Context is set and ends, a long [Loop.Run] panics as [interrupt.Check] does.
	Context context.Context

	accumulators [expr.MaxOperands]unsafe.Pointer
	args         *jit.Args // arguments of machine code
}

// Release clears the addresses and the context in s, so that s does not keep memory alive.
func (s *State) Release() {
	s.Context = nil
	if s.args != nil {
		clear(s.args.Ptr[:])
	}
}

// CodeAvailable reports whether this processor and system run machine code. A loop is then compiled if its expression
// allows it. Tests replace this function.
var CodeAvailable = func() bool { return jit.Available() == nil }

// Options of a loop. They do not affect results.
type (
	Options  = vector.Options
	Prefetch = vector.Prefetch
)

// Fence must be called after the last run of loops with Options.Unfenced, before another goroutine reads their outputs.
func Fence() { vector.Fence() }

// loopKey is the key of a loop among what is derived from its code.
type loopKey struct {
	uniform, folds string
	combinesLanes  bool
	options        Options
	features       machine.Features
	codeAvailable  bool
}

// New prepares a loop. Calls for equal loops of one code return the same Loop.
func New(exprLoop *expr.Loop, opts Options) (*Loop, error) {
	if exprLoop.Code == nil {
		return newLoop(exprLoop, opts)
	}
	key := loopKey{combinesLanes: exprLoop.CombinesLanes, options: opts, features: machine.HostFeatures(),
		codeAvailable: CodeAvailable()}
	uniform := make([]byte, len(exprLoop.Uniform))
	for i, isUniform := range exprLoop.Uniform {
		if isUniform {
			uniform[i] = 1
		}
	}
	var folds []byte
	for _, fold := range exprLoop.Folds {
		folds = binary.AppendVarint(append(folds, byte(fold.Op)), int64(fold.Value))
	}
	key.uniform, key.folds = string(uniform), string(folds)
	type result struct {
		loop *Loop
		err  error
	}
	made := exprLoop.Code.Derived(key, func() any {
		kept := *exprLoop // the caller may change its loop
		created, err := newLoop(&kept, opts)
		return result{created, err}
	}).(result)
	return made.loop, made.err
}

func newLoop(exprLoop *expr.Loop, opts Options) (*Loop, error) {
	created := &Loop{loop: exprLoop, foldCount: len(exprLoop.Folds)}
	created.setElementStrides()
	if CodeAvailable() {
		code, err := vector.Compile(exprLoop, machine.HostFeatures(), opts)
		if err != nil && !errors.Is(err, vector.ErrUnsupported) {
			return nil, err
		}
		if err == nil {
			created.code = code
			created.setMaxPerCall()
			return created, nil
		}
		created.noCodeReason = err
	} else {
		created.noCodeReason = jit.Available()
	}
	created.prepareInterpreter()
	return created, created.interpError
}

// setElementStrides computes the bytes between elements.
func (l *Loop) setElementStrides() {
	for _, output := range l.loop.Code.Out {
		l.elementStrides = append(l.elementStrides, output.DType.Size())
	}
	for k, dtype := range l.loop.Code.In {
		bytes := dtype.Size()
		if l.loop.Uniform[k] {
			bytes = 0
		}
		l.elementStrides = append(l.elementStrides, bytes)
	}
}

// prepareInterpreter creates l.runner when it is needed for the first time.
func (l *Loop) prepareInterpreter() {
	l.interpOnce.Do(func() { l.runner, l.interpError = interp.New(l.loop) })
}

// Bounds on a call of machine code, because the garbage collector cannot stop the world during a call. A row of a loop
// with totals ([expr.Loop.CombinesLanes]) may exceed them: it cannot be divided. On arm64, machine.CallDivisor is above
// 1, because cores may be slow.
const (
	maxCallInstructions = 200_000 / machine.CallDivisor // about 50 us (52 us for cos of 20,000 float64)
	maxCallElements     = 1 << 15 / machine.CallDivisor // for memory-bound loops
)

// setMaxPerCall computes the maximum number of elements in a call. It is a multiple of expr.FoldLanes, so that element
// k of a row is folded into the same accumulator as without a division.
func (l *Loop) setMaxPerCall() {
	work := l.code.Work()
	// The rest of a row has the most instructions if one element is missing to a full iteration.
	iterations := (maxCallInstructions - work.RowInstructions(work.IterationElements-1)) / work.Iteration
	l.maxElementsPerCall = max(expr.FoldLanes, min(maxCallElements, iterations*work.IterationElements)&^(expr.FoldLanes-1))
}

// Run computes rowCount rows of rowLen elements. ptrs are the addresses of the first row, and strides are the bytes
// between rows. Both have the same order:
//   - the outputs: an output that is not stored has a nil address and stride 0;
//   - the operands: the stride of an operand that all rows share is 0;
//   - the folds, which are reductions of the row: the address of a fold points to its [expr.FoldLanes] accumulators,
//     which all rows update. In a loop with totals ([expr.Loop.CombinesLanes]), it points to the first row's total, and
//     each row stores its own total.
//
// Addresses must point to the heap and are not checked. Run modifies ptrs.
func (l *Loop) Run(state *State, ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) {
	if rowLen <= 0 || rowCount <= 0 {
		return
	}
	if l.code == nil || !l.runCode(state, ptrs, strides, rowLen, rowCount) {
		l.runInterpreted(state, ptrs, strides, rowLen, rowCount)
	}
}

// runCode runs machine code. If the code cannot be mapped into memory, runCode does nothing and returns false.
func (l *Loop) runCode(state *State, ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) bool {
	if state.args == nil {
		state.args = new(jit.Args)
	}
	if rowLen > l.maxElementsPerCall && !l.loop.CombinesLanes {
		return l.runPieces(state, ptrs, strides, rowLen, rowCount)
	}
	for rowsPerCall := l.RowsPerCall(rowLen); ; {
		rows := min(rowsPerCall, rowCount)
		if err := l.code.Run(state.args, ptrs, strides, rowLen, rows); err != nil {
			return false // nothing is computed yet: only the first call can fail
		}
		if rowCount -= rows; rowCount == 0 {
			return true
		}
		interrupt.Check(state.Context)
		advance(ptrs, strides, rows)
	}
}

// runPieces runs rows that are too long for one call, in several calls per row. If the code cannot be mapped into
// memory, runPieces does nothing and returns false.
func (l *Loop) runPieces(state *State, ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) bool {
	var buf [expr.MaxOperands + expr.MaxOperands]unsafe.Pointer // outputs and operands, and folds
	for {
		piecePtrs := append(buf[:0], ptrs...)
		for begin := 0; ; {
			elements := min(l.maxElementsPerCall, rowLen-begin)
			if err := l.code.Run(state.args, piecePtrs, strides, elements, 1 /* row */); err != nil {
				return false // nothing is computed yet: only the first call can fail
			}
			if begin += elements; begin == rowLen {
				break
			}
			interrupt.Check(state.Context)
			advance(piecePtrs[:len(l.elementStrides)], l.elementStrides, elements)
		}
		if rowCount--; rowCount == 0 {
			return true
		}
		advance(ptrs, strides, 1)
	}
}

// advance adds n steps to each address that is not nil. steps are in bytes.
func advance(ptrs []unsafe.Pointer, steps []int, n int) {
	for k, p := range ptrs {
		if p != nil {
			ptrs[k] = unsafe.Add(p, n*steps[k])
		}
	}
}

// runInterpreted runs the loop in Go.
func (l *Loop) runInterpreted(state *State, ptrs []unsafe.Pointer, strides []int, rowLen, rowCount int) {
	l.prepareInterpreter()
	if l.foldCount == 0 && rowLen <= maxCallElements { // several rows per call
		for rowsPerCall := maxCallElements / rowLen; ; {
			rows := min(rowsPerCall, rowCount)
			l.runner.Run(nil /* scratch: from a pool */, ptrs, strides, nil /* accumulators */, rowLen, rows)
			if rowCount -= rows; rowCount == 0 {
				return
			}
			interrupt.Check(state.Context)
			advance(ptrs, strides, rows)
		}
	}
	// The interpreter takes one address of accumulators for all rows of a call, so each call runs one row.
	firstFold := len(ptrs) - l.foldCount
	accumulators := state.accumulators[:l.foldCount]
	for {
		copy(accumulators, ptrs[firstFold:])
		l.interpretedRow(state, ptrs[:firstFold], strides[:firstFold], accumulators, rowLen)
		if rowCount--; rowCount == 0 {
			break
		}
		advance(ptrs, strides, 1)
	}
	clear(accumulators)
}

// interpretedRow runs a row in Go. It runs the row in pieces, except in a loop with totals.
func (l *Loop) interpretedRow(state *State, ptrs []unsafe.Pointer, strides []int, accumulators []unsafe.Pointer,
	rowLen int) {
	if rowLen <= maxCallElements || l.loop.CombinesLanes {
		l.runner.Run(nil /* scratch */, ptrs, strides, accumulators, rowLen, 1 /* row */)
		return
	}
	var buf [expr.MaxOperands + expr.MaxOperands]unsafe.Pointer
	for piecePtrs := append(buf[:0], ptrs...); ; advance(piecePtrs, l.elementStrides, maxCallElements) {
		l.runner.Run(nil /* scratch */, piecePtrs, strides, accumulators, min(maxCallElements, rowLen), 1 /* row */)
		if rowLen -= maxCallElements; rowLen <= 0 {
			return
		}
		interrupt.Check(state.Context)
	}
}

// MaxElements returns the maximum number of elements of a row in one call of machine code. Longer rows are divided into
// several calls, except in loops with totals, which compute one number for each row and fold
// ([expr.Loop.CombinesLanes]). MaxElements returns 0 if there is no machine code.
func (l *Loop) MaxElements() int { return l.maxElementsPerCall }

// RowsPerCall returns the maximum number of rows of rowLen elements in one call of machine code.
func (l *Loop) RowsPerCall(rowLen int) int {
	return max(1, min(maxCallElements/max(rowLen, minRowElements()),
		maxCallInstructions/l.code.Work().RowInstructions(rowLen)))
}

// minRowElements is the length that RowsPerCall assumes for shorter rows. It is the length of a loop iteration: an
// incomplete iteration takes as long as a complete one. With AVX2, the tail also copies elements of 8 or 16 bits
// individually.
func minRowElements() int {
	if machine.HostFeatures().Has(machine.AVX2) && !machine.HostFeatures().Has(machine.Vector512) {
		return 256
	}
	return 32
}

// Compiled reports whether the loop is machine code.
func (l *Loop) Compiled() bool { return l.code != nil }

// ElementNS estimates the time of machine code in nanoseconds for an element with operands in the L1 cache. It is
// instructions / (lanes * instructions per nanosecond). It returns 0 if the loop runs in Go.
func (l *Loop) ElementNS() float64 {
	if l.code == nil {
		return 0
	}
	const instructionsPerNS = 12 // estimated for arm64
	lanes, instructions := 16, 0 // lanes of 32 bits
	switch {
	case machine.HostFeatures().Has(machine.NEON):
		lanes = 4
	case !machine.HostFeatures().Has(machine.Vector512):
		lanes = 8
	}
	has64Bits := false
	for _, inst := range l.loop.Code.Insts {
		has64Bits = has64Bits || inst.DType.Size() == 8
		if instructions++; !inst.Op.Primitive() {
			instructions += functionInstructions
		}
	}
	if has64Bits {
		lanes /= 2
	}
	return float64(max(1, instructions)) / float64(lanes*instructionsPerNS)
}

// functionInstructions is the approximate number of instructions of an elementary function.
const functionInstructions = 40

// Listing describes the compiled loop under a name.
func (l *Loop) Listing(name string) expr.Listing {
	listing := expr.Listing{Name: name, Loop: l.loop}
	switch {
	case l.code != nil:
		listing.Assembly = l.code.Listing
	case l.noCodeReason != nil:
		listing.Why = l.noCodeReason.Error()
	}
	return listing
}
