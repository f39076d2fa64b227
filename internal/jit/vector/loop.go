// Package vector compiles loops of expressions ([expr.Loop]) to machine code. For arm64, it makes loops of lanes, which
// package arm64 compiles. For AVX-512 and AVX2, [Compile] works in five steps:
//
//  1. Elementary functions are expanded into primitives (package expr/expand).
//  2. Instructions are selected for each primitive (lower.go, arith.go, integer.go, convert.go, memory.go), in an order
//     that keeps few values live. Row constants are values that depend only on constants and Scalar operands. They are
//     computed once per row.
//  3. Registers are allocated along the body, which has no jumps (package internal/jit/alloc).
//  4. The number of row constants in registers is chosen by trial (frame.go), and two or four iterations are
//     interleaved if that causes little spilling.
//  5. The loops over elements and rows are written (emit.go), and the allocated instructions (write.go).
//
// One iteration computes 16 elements with AVX-512 and 8 with AVX2, or half as many if a value has 64 bits. Every value
// then occupies one register. Integers of fewer than 32 bits are in lanes of 32 bits, and are sign- or zero-extended
// only if the extension affects results. Bools are masks. The tail of a row is the elements after the last full
// iteration. It is computed under masks, so that no byte beyond an operand is accessed.
package vector

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// ErrUnsupported is wrapped by the error for a loop that cannot be compiled. The error states the reason. Package
// interp can run such a loop.
var ErrUnsupported = errors.New("no machine code")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Options affect the speed of a loop, and never its results.
type Options struct {
	// NonTemporal selects non-temporal stores, where there are such instructions, for the outputs that are not in
	// CachedOutputs. A row has non-temporal stores if all these outputs are aligned to 64 bytes.
	NonTemporal bool
	// Unfenced omits the fence after non-temporal stores. The caller must then call [Fence] after its last run, before
	// another goroutine reads the outputs.
	Unfenced bool
	// CachedOutputs is a bit set of outputs. These outputs have ordinary stores and stay in the caches.
	CachedOutputs uint32
	// Prefetch requests prefetching of operands.
	Prefetch Prefetch

	registers int // number of vector registers, for tests; 0 for all
}

// key returns the text that represents the options in the key of the code cache. The key of default options is a
// constant, because lookups are frequent and formatting is slow.
func (o *Options) key() string {
	if *o == (Options{}) {
		return " plain "
	}
	return fmt.Sprintf(" %v ", *o)
}

// Prefetch describes the prefetching of operands that advance along the row. The prefetched addresses need not be
// mapped.
type Prefetch struct {
	Operands uint32 // bit set of the operands
	Bytes    int32  // distance from the elements of an iteration; 0 means no prefetching
	Near     bool   // prefetch into L1, else into L2
}

// Loop is an [expr.Loop] as machine code. It is immutable and safe for concurrent use.
type Loop struct {
	fn           *jit.Func
	pointerCount int // number of outputs, operands and folds
}

// Compile compiles a loop, or returns the existing code of an equal loop. If the loop cannot be compiled, the error
// wraps [ErrUnsupported]. Code can be generated for any instruction set, but runs only on processors that have it.
func Compile(l *expr.Loop, cpu machine.Features, opts Options) (*Loop, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	loop := *l // a copy, because the caller may change l later
	fn, err := jit.Lookup(cpu.String()+opts.key()+l.Key(), func(list bool) (jit.Code, error) {
		return assemble(&loop, cpu, opts, list)
	})
	if err != nil {
		return nil, err
	}
	return &Loop{fn: fn, pointerCount: len(l.Code.Out) + len(l.Code.In) + len(l.Folds)}, nil
}

// Listing generates the code again and returns it in the syntax of its assembler.
func (c *Loop) Listing() string { return c.fn.Listing() }

func assemble(l *expr.Loop, cpu machine.Features, opts Options, list bool) (jit.Code, error) {
	l, err := expanded(l, cpu)
	if err != nil {
		return jit.Code{}, err
	}
	if cpu.Has(machine.NEON) {
		return assembleNEON(l, opts, list)
	}
	g := newGen(l, cpu, opts)
	if err := g.lower(); err != nil {
		return jit.Code{}, err
	}
	g.asm = &asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), List: list}
	if err := g.emit(); err != nil {
		return jit.Code{}, err
	}
	g.frame.free()
	code, err := jit.Finish(g.asm)
	code.Work = g.work
	return code, err
}

// Work returns a bound on the instructions of a run.
func (c *Loop) Work() jit.Work { return c.fn.Work() }

// Run computes rows of n elements each. ptrs are the addresses of the first row: outputs, then operands, then one
// address for each fold. The address of a fold is the address of its [expr.Lanes] accumulators, which each row updates,
// or of its total, which each row writes. strides are the bytes between rows in the same order. An operand that all
// rows share has stride 0. Run ignores the entries of outputs of dtype Invalid. If there is no executable memory, Run
// returns an error and does nothing.
//
// A row may be cut into several runs at multiples of expr.Lanes elements, unless the loop has totals. Go's garbage
// collector stops the world only after the end of a run, so callers cut long work into runs of less than 50 us. No
// other goroutine may use a during the run. Addresses are not checked. They must point to the heap or to memory outside
// of Go.
func (c *Loop) Run(a *jit.Args, ptrs []unsafe.Pointer, strides []int, n, rows int) error {
	if len(ptrs) != c.pointerCount || len(strides) != c.pointerCount {
		panic("vector: Run of another number of pointers or strides than the loop has")
	}
	if n <= 0 || rows <= 0 {
		return nil
	}
	a.N, a.Rows = n, rows
	copy(a.Ptr[:], ptrs)
	copy(a.Row[:], strides)
	return c.fn.Call(a)
}

// Fence waits for the non-temporal stores of loops with [Options.Unfenced].
func Fence() { jit.Fence() }

// Call is [Loop.Run] with all arguments in a. N and Rows must be positive. Ptr and Row have an entry for each pointer.
// Call does not modify a, so that a step with unchanged operands can use the same arguments again.
func (c *Loop) Call(a *jit.Args) error { return c.fn.Call(a) }
