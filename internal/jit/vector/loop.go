// Package vector makes machine code of loops of expressions: vectors of AVX-512 or AVX2 for amd64.
//
// The way: an expression's elementary functions are expanded ([expr.Code.Expand]); instructions of machines are
// selected for each of its own (lower*.go, in the order that keeps few values alive), those that depend on nothing
// but constants and Scalar operands apart, for these are computed once a row; registers are given out (alloc.go),
// and the body is put between the loops over elements and rows (emit.go). A turn computes 16 elements with AVX-512
// and 8 with AVX2, half of that where a value has 64 bits: every value of a turn lies in one register. What is less
// than a turn goes by masks.
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

// ErrUnsupported is wrapped by errors that say what a loop has that there is no code for. It runs in Go then.
var ErrUnsupported = errors.New("no machine code")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Options are choices that do not change results.
type Options struct {
	// NonTemporal writes outputs past the caches, in rows in which all of them lie at multiples of 64 bytes.
	NonTemporal bool
	// Unfenced leaves it to the caller to call [Fence] after its last run, before another goroutine reads the outputs.
	Unfenced bool
	// Kept are outputs that are written to the caches all the same, a bit each.
	Kept uint32
	// Ahead is asked for while the loop runs, so that the caches have it later.
	Ahead Ahead

	registers int // how many vector registers are used, for tests; 0 for all
}

// key tells options apart in the keys of code. Those of most loops are none, and they are looked up whenever sizes are
// bound.
func (o *Options) key() string {
	if *o == (Options{}) {
		return " plain "
	}
	return fmt.Sprintf(" %v ", *o)
}

// Ahead is what lies so many bytes behind operands that move along the row; no bytes stand for nothing. It need not be
// memory.
type Ahead struct {
	Operands uint32 // a bit each
	Bytes    int32
	Near     bool // for the nearest cache, else for the one behind it
}

// Loop is an [expr.Loop] as machine code. It is immutable and may run on any number of goroutines.
type Loop struct {
	fn   *jit.Func
	ptrs int // outputs, operands and folds
}

// Compile makes machine code of a loop, or finds that which somebody has of an equal one. An error that wraps
// [ErrUnsupported] says why there is none. Code can be made for any instruction set, and run where the processor
// has it.
func Compile(l *expr.Loop, isa machine.ISA, opts Options) (*Loop, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	held := *l // which its owner may change
	fn, err := jit.Lookup(isa.String()+opts.key()+l.Key(), func(list bool) (jit.Code, error) {
		return assemble(&held, isa, opts, list)
	})
	if err != nil {
		return nil, err
	}
	return &Loop{fn: fn, ptrs: len(l.Code.Out) + len(l.Code.In) + len(l.Folds)}, nil
}

// Listing returns the code in the syntax of Go's assembler. It is made anew.
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

// Work returns how many instructions a run executes at most.
func (c *Loop) Work() jit.Work { return c.fn.Work() }

// Run computes rows of n elements each. ptrs are the addresses of the first row, outputs before operands before the
// [expr.Lanes] accumulators of each fold, which are read and written anew for each row, or its total, which is written;
// strides are the bytes from a row to the next, in the same order, and 0 for what all rows share. Outputs of dtype
// Invalid need neither. An error says that executable memory could not be had, and then nothing was done.
//
// A row may be cut into several runs at multiples of expr.Lanes elements, unless there are totals. The runtime waits
// for a run to return before it stops the world: callers cut long work so that one takes less than 50 us. a is memory
// that nobody else uses meanwhile. Addresses are trusted, and must be of the heap or of memory outside of Go.
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

// Fence waits until what loops that are Unfenced wrote past the caches is in memory.
func Fence() { jit.Fence() }

// Call is [Loop.Run] with what a says: N and Rows, both above 0, and as many of Ptr and Row as there are pointers. They
// stay as they are, so that a step whose operands lie where they did is called again at the cost of a call.
func (c *Loop) Call(a *jit.Args) error { return c.fn.Call(a) }
