// Package vector compiles loops of expressions ([expr.Loop]) to machine code. [Compile] expands elementary functions
// into primitives (package expr/expand), orders the values so that few of them are live, and translates the loop to the
// intermediate representation of package lane. Package amd64 or arm64 then selects instructions, assigns registers and
// writes the code.
package vector

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64"
	"github.com/graphrun/graphrun/internal/jit/target/arm64"
	"github.com/graphrun/graphrun/internal/machine"
)

// ErrUnsupported is wrapped by the error for a loop that cannot be compiled.
var ErrUnsupported = target.ErrUnsupported

// Options affect the speed of a loop, and never its results.
type Options = target.LoopOptions

// Prefetch describes the prefetching of operands.
type Prefetch = target.Prefetch

// keyOf returns the text that represents the options in the key of the code cache. The text of default options is a
// constant, because lookups are frequent and formatting is slow.
func keyOf(opts Options) string {
	if opts == (Options{}) {
		return " plain "
	}
	return fmt.Sprintf(" %v ", opts)
}

// Loop is an [expr.Loop] as machine code. It is immutable and safe for concurrent use.
type Loop struct {
	fn           *jit.Func
	pointerCount int // number of outputs, operands and folds
}

// Compile compiles a loop, or returns the existing code of an equal loop. If the loop cannot be compiled, the error
// wraps [ErrUnsupported]. Code can be generated for any instruction set, but runs only on processors that have it.
func Compile(loop *expr.Loop, cpu machine.Features, opts Options) (*Loop, error) {
	if err := loop.Check(); err != nil {
		return nil, err
	}
	copied := *loop // because the caller may change the loop later
	fn, err := jit.Lookup(cpu.String()+keyOf(opts)+loop.Key(), func(withListing bool) (jit.Code, error) {
		return assemble(&copied, cpu, opts, withListing)
	})
	if err != nil {
		return nil, err
	}
	return &Loop{fn: fn, pointerCount: len(loop.Code.Out) + len(loop.Code.In) + len(loop.Folds)}, nil
}

// Listing generates the code again and returns its listing: see [jit.Func.Listing].
func (c *Loop) Listing() string { return c.fn.Listing() }

// assemble generates the code of a loop.
func assemble(loop *expr.Loop, cpu machine.Features, opts Options, withListing bool) (jit.Code, error) {
	loop, err := expandIfSupported(loop, cpu)
	if err != nil {
		return jit.Code{}, err
	}
	lanes, err := lowerLoop(loop)
	if err != nil {
		return jit.Code{}, err
	}
	if !cpu.Has(machine.NEON) {
		return amd64.Compile(lanes, cpu, opts, withListing)
	}
	// arm64 uses neither non-temporal stores nor software prefetching.
	return arm64.Compile(lanes, opts.Registers, withListing)
}

// Work returns a bound on the instructions of a call of Run.
func (c *Loop) Work() jit.Work { return c.fn.Work() }

// Run computes a number of rows of n elements each. ptrs are the addresses for the first row: outputs, then operands,
// then one address for each fold. At its address, a fold has [expr.FoldLanes] accumulators, which all rows update, or
// its totals, one for each row. strides are the distances in bytes between rows, in the same order. An operand that is
// the same for all rows has stride 0. Run ignores the entries of outputs of dtype Invalid. If there is no executable
// memory, Run returns an error and does nothing. It panics if ptrs or strides has a wrong length.
//
// A row may be divided into several calls at multiples of expr.FoldLanes elements, unless the loop has totals. Go's
// garbage collector cannot stop the world during a call, so callers divide long work into calls of less than 50 us. Run
// overwrites args, which no other goroutine may use at the same time. Addresses are not checked. They must point to the
// heap or to memory outside of Go.
func (c *Loop) Run(args *jit.Args, ptrs []unsafe.Pointer, strides []int, n, rows int) error {
	if len(ptrs) != c.pointerCount || len(strides) != c.pointerCount {
		panic("vector: Run is called with the wrong number of pointers or strides")
	}
	if n <= 0 || rows <= 0 {
		return nil
	}
	args.InnerCount, args.Rows = n, rows
	copy(args.Ptr[:], ptrs)
	copy(args.Row[:], strides)
	return c.fn.Call(args)
}

// Fence orders the non-temporal stores of loops with [Options.Unfenced] before all later stores.
func Fence() { jit.Fence() }

// Call is [Loop.Run] with all arguments in args. InnerCount and Rows must be positive. Ptr and Row have an entry for
// each pointer. Call changes no argument, so that a step with unchanged operands can use args again.
func (c *Loop) Call(args *jit.Args) error { return c.fn.Call(args) }
