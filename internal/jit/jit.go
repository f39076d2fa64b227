// Package jit manages and calls machine code that is generated at run time. The package does not depend on the
// computation: generators in other packages write the code with the assembler of an architecture.
//
// [Lookup] returns the [Func] for a key that describes the code. If no function with this key is in use, Lookup
// generates its code. [Link] maps new functions. [Func.Call] runs a function with an [Args]. Memory is mapped as
// writable, filled, and then made executable. It is never writable and executable at the same time, and never becomes
// writable again. Functions that are linked together share a mapping, which is unmapped when no function in it is
// reachable. If executable memory is unavailable, [Available] returns the reason, and loops run in Go.
//
// The code is unknown to the Go runtime and follows these rules. The runtime does not preempt a goroutine in such
// code, so no stack is unwound through it. Stopping the world waits for the code, so a call must take less than 50
// us. The code makes no calls and writes no Go pointers. It accesses no byte outside of its operands, because a fault
// there ends the process. The rules for registers are:
//
//   - amd64: DI has the address of the Args. The code uses no stack except its return address, and preserves SP, BP and
//     MXCSR; all other registers are free. It ends in VZEROUPPER and RET.
//   - arm64: R0 has the address of the Args. The code uses no stack. It never changes R18, R28, R29, R30, RSP and FPCR,
//     not even temporarily: a signal handler reads R28. All other registers are free. It ends in RET.
//
// These conventions are independent of the C ABI, so that code is the same on all operating systems.
package jit

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/graphrun/graphrun/internal/machine"
)

// MaxOperands is the maximum number of operands of a call.
const MaxOperands = 24

// spillSlots is the number of 512-bit vectors in Args.Spill.
const spillSlots = 36

// Args holds the arguments of a call. Generated code accesses them at the offsets below. Sizes are arguments, not
// constants of the code, so that programs for different sizes share code. The comments on fields describe a loop over
// rows of elements; other generators may give the fields another meaning. Pointers point to the heap or to memory
// outside of Go; Args keeps the operands alive. An Args is for one goroutine at a time, and is reused between calls.
type Args struct {
	InnerCount int // number of elements in a row
	Rows       int // number of rows

	Ptr  [MaxOperands]unsafe.Pointer // first element of the first row
	Step [MaxOperands]int            // bytes between elements, if the distance is not a constant of the code
	Row  [MaxOperands]int            // bytes between rows

	// Spill is scratch memory of the code: SpillBytes bytes at (address of Args + OffsetSpill + 63) &^ 63, a multiple of
	// 64. Args is aligned to 8 bytes, so at most 56 bytes before this address are unused.
	Spill [spillSlots*64 + 56]byte
}

// Offsets of the fields of Args, in bytes. Entry i of Ptr, Step and Row is 8*i bytes after the offset.
const (
	OffsetInnerCount = int32(unsafe.Offsetof(Args{}.InnerCount))
	OffsetRows       = int32(unsafe.Offsetof(Args{}.Rows))
	OffsetPtr        = int32(unsafe.Offsetof(Args{}.Ptr))
	OffsetStep       = int32(unsafe.Offsetof(Args{}.Step))
	OffsetRow        = int32(unsafe.Offsetof(Args{}.Row))
	OffsetSpill      = int32(unsafe.Offsetof(Args{}.Spill))
	SpillBytes       = spillSlots * 64
)

// Code is machine code, its listing, and a bound on its work.
type Code struct {
	Bytes   []byte
	Listing string // the code in the syntax of its assembler, or "" if no listing was requested
	Work    Work   // zero if callers limit the duration of calls in another way
}

// Assembler collects the instructions of a function. Each architecture has one.
type Assembler interface {
	// Finish returns the code and its constants, or the first error.
	Finish() ([]byte, error)
	// Listing returns the code as source text, or an empty string if no listing was requested.
	Listing() string
}

// Finish returns the assembled code, without Work.
func Finish(a Assembler) (Code, error) {
	listing := a.Listing()
	code, err := a.Finish()
	return Code{Bytes: code, Listing: listing}, err
}

// Work is an upper bound on the instructions that a loop executes. Callers use it to limit the time of a call. A row is
// computed in iterations of IterationElements elements. The remaining elements are its tail.
type Work struct {
	Row           int // instructions per row, without its elements
	Iteration     int // instructions per iteration of IterationElements elements
	TailIteration int // instructions per iteration of at most TailElements elements of the tail

	IterationElements, TailElements int
}

// RowInstructions returns the maximum number of instructions for a row of n elements. w must not be zero.
func (w Work) RowInstructions(n int) int {
	tail := n % w.IterationElements
	return w.Row + n/w.IterationElements*w.Iteration + (tail+w.TailElements-1)/w.TailElements*w.TailIteration
}

// Func is a function in machine code. It is safe for concurrent use.
type Func struct {
	name     string
	generate func(withListing bool) (Code, error)
	work     Work
	entry    atomic.Uintptr // address of the code; 0 before it is mapped
	code     []byte         // nil once it is mapped
	mapping  *mapping       // keeps the mapping alive
}

// newFunc returns a function with the given code, which the next [Link] maps. The function owns the slice.
func newFunc(name string, code []byte) *Func {
	f := &Func{name: name, code: code}
	enqueue(f)
	return f
}

// Name returns the key of the function (see [Lookup]), which profilers show.
func (f *Func) Name() string { return f.name }

// Work returns a bound on the instructions of a call, if the generator gave one.
func (f *Func) Work() Work { return f.work }

// Generate generates the code again, with a listing if withListing is true. f keeps its code.
func (f *Func) Generate(withListing bool) (Code, error) { return f.generate(withListing) }

// Listing generates the code again and returns its listing, or the text of the error.
func (f *Func) Listing() string {
	code, err := f.Generate(true)
	if err != nil {
		return err.Error()
	}
	return code.Listing
}

// Call runs the code, which takes less than 50 us. If the code cannot be mapped, Call returns an error without
// running it.
func (f *Func) Call(args *Args) error {
	entry := f.entry.Load()
	if entry == 0 {
		if err := f.link(); err != nil {
			return err
		}
		entry = f.entry.Load()
	}
	call(entry, args)
	runtime.KeepAlive(f)
	return nil
}

// link is [Link] with the name of f in its error.
func (f *Func) link() error {
	if err := cmp.Or(Link(), machine.RunError()); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// Fence orders the non-temporal stores that code has executed on this processor before all later stores.
func Fence() { fence() }

// cache holds the functions in use, by key, with weak pointers.
var cache struct {
	sync.Mutex
	funcs     map[string]weak.Pointer[Func]
	keptAlive []*Func // with KeepAll
}

// KeepAll makes [Lookup] keep every function in use. Tests that compile the same loops many times set it before the
// first call of Lookup.
var KeepAll bool

// Lookup returns the function for a key, which must describe everything that the code depends on. If no such function
// is in use, generate generates its code. Errors of generate are returned unchanged. Concurrent callers may both
// generate the code, but get the same function. The code must be position-independent and follow the rules of the
// package comment. It is mapped by the next [Link], or at the first call. The function keeps generate for listings.
func Lookup(key string, generate func(withListing bool) (Code, error)) (*Func, error) {
	if f := lookupCached(key); f != nil {
		return f, nil
	}
	code, err := generate(false)
	if err != nil {
		return nil, err
	}
	cache.Lock()
	defer cache.Unlock()
	if f := cache.funcs[key].Value(); f != nil {
		return f, nil
	}
	f := newFunc(key, code.Bytes)
	f.generate, f.work = generate, code.Work
	if cache.funcs == nil {
		cache.funcs = map[string]weak.Pointer[Func]{}
	}
	cache.funcs[key] = weak.Make(f)
	runtime.AddCleanup(f, forget, key)
	if KeepAll {
		cache.keptAlive = append(cache.keptAlive, f)
	}
	return f, nil
}

// lookupCached returns the function in the cache for a key, or nil.
func lookupCached(key string) *Func {
	cache.Lock()
	defer cache.Unlock()
	return cache.funcs[key].Value()
}

// forget removes a key from the cache if no new function has the key.
func forget(key string) {
	cache.Lock()
	defer cache.Unlock()
	if cache.funcs[key].Value() == nil {
		delete(cache.funcs, key)
	}
}
