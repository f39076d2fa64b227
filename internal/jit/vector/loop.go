// Package vector compiles loops of expressions ([expr.Loop]) to machine code with AVX-512 or AVX2 for amd64.
//
// [Compile] works in five steps. Elementary functions are expanded into primitives ([expr.Code.Expand]). Instructions
// are selected for each primitive (lower.go, arith.go, integer.go, convert.go, memory.go), in an order that keeps few
// values live; values that depend on constants and Scalar operands alone are computed once per row. Registers are
// allocated along the straight-line body (alloc.go): a value that a single load recomputes is loaded again or used from
// memory; otherwise the value whose next use is farthest is spilled (Belady's rule). The number of row constants kept
// in registers is chosen by trial (frame.go), and two or four iterations are interleaved if that causes little spilling
// (interleave.go). Finally the loops over elements and rows are written (emit.go).
//
// One iteration computes 16 elements with AVX-512 and 8 with AVX2, or half of that if a value has 64 bits: every value
// occupies one register. Integers of fewer bits are kept in lanes of 32 bits and normalized only where it matters;
// bools are masks. The rest of a row is computed under masks, so that no byte next to an operand is accessed.
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

// ErrUnsupported is wrapped by errors for loops that cannot be compiled, with the reason. They run in Go.
var ErrUnsupported = errors.New("no machine code")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Options do not affect results.
type Options struct {
	// NonTemporal writes outputs with non-temporal stores in rows whose outputs are all aligned to 64 bytes.
	NonTemporal bool
	// Unfenced requires the caller to call [Fence] after its last run, before another goroutine reads the outputs.
	Unfenced bool
	// Kept is a bit mask of outputs that use ordinary stores anyway.
	Kept uint32
	// Ahead requests prefetching.
	Ahead Ahead

	registers int // number of vector registers, for tests; 0 for all
}

// key returns the options for keys of code. Default options have a short key, because lookups are frequent when sizes
// are bound.
func (o *Options) key() string {
	if *o == (Options{}) {
		return " plain "
	}
	return fmt.Sprintf(" %v ", *o)
}

// Ahead requests prefetching at a distance of Bytes from operands that advance along the row; 0 means none. The
// addresses need not be mapped.
type Ahead struct {
	Operands uint32 // a bit each
	Bytes    int32
	Near     bool // into L1, else into L2
}

// Loop is an [expr.Loop] as machine code. It is immutable and safe for concurrent use.
type Loop struct {
	fn   *jit.Func
	ptrs int // number of outputs, operands and folds
}

// Compile compiles a loop, or returns existing code of an equal one. An error that wraps [ErrUnsupported] gives the
// reason why it cannot be compiled. Code can be generated for any instruction set, and runs on processors that have it.
func Compile(l *expr.Loop, isa machine.ISA, opts Options) (*Loop, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	held := *l // the owner may change l
	fn, err := jit.Lookup(isa.String()+opts.key()+l.Key(), func(list bool) (jit.Code, error) {
		return assemble(&held, isa, opts, list)
	})
	if err != nil {
		return nil, err
	}
	return &Loop{fn: fn, ptrs: len(l.Code.Out) + len(l.Code.In) + len(l.Folds)}, nil
}

// Listing generates the code again and returns it in the syntax of Go's assembler.
func (c *Loop) Listing() string { return c.fn.Listing() }

func assemble(l *expr.Loop, isa machine.ISA, opts Options, list bool) (jit.Code, error) {
	g, err := newGen(l, isa, opts)
	if err != nil {
		return jit.Code{}, err
	}
	if err := g.lower(); err != nil {
		return jit.Code{}, err
	}
	g.asm = &asm.Assembler{NoEVEX: isa != machine.AVX512, List: list}
	if err := g.emit(); err != nil {
		return jit.Code{}, err
	}
	g.release()
	code, err := jit.Finish(g.asm)
	code.Work = g.work
	return code, err
}

// Work returns a bound on the instructions of a run.
func (c *Loop) Work() jit.Work { return c.fn.Work() }

// Run computes rows of n elements each. ptrs are the addresses of the first row: outputs, operands, then for each fold
// its [expr.Lanes] accumulators, which each row updates, or its total, which is written. strides are the bytes between
// rows in the same order, 0 for operands shared by all rows. Outputs of dtype Invalid need neither. An error means that
// there is no executable memory, and that nothing was done.
//
// A row may be cut into several runs at multiples of expr.Lanes elements, unless there are totals. Stopping the world
// waits for a run, so callers cut long work such that a run takes less than 50 us. a is exclusively used by the run.
// Addresses are not checked, and must point to the heap or to memory outside of Go.
func (c *Loop) Run(a *jit.Args, ptrs []unsafe.Pointer, strides []int, n, rows int) error {
	if len(ptrs) != c.ptrs || len(strides) != c.ptrs {
		panic("vector: Run of other operands than the loop has")
	}
	if n <= 0 || rows <= 0 {
		return nil
	}
	a.N, a.Rows = n, rows
	copy(a.Ptr[:], ptrs)
	copy(a.Row[:], strides)
	return c.fn.Call(a)
}

// Fence waits for the non-temporal stores of Unfenced loops.
func Fence() { jit.Fence() }

// Call is [Loop.Run] with arguments in a: N and Rows, both positive, and Ptr and Row for each pointer. They are not
// modified, so that a step with unchanged operands can be called again at the cost of a call.
func (c *Loop) Call(a *jit.Args) error { return c.fn.Call(a) }
