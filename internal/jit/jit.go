// Package jit keeps machine code that is made while the program runs, and calls it. It knows nothing of what the code
// computes: package asm below writes it, for generators above.
//
// Code is in memory that was mapped for writing, filled, and made executable, and that is never both nor ever opened
// again. What one compilation made is mapped together, and unmapped when nobody has a [Func] of it any more. Where
// executable memory cannot be had, [Available] says why, and whoever has loops runs them in Go.
//
// What is called keeps to rules that make it safe without the runtime's knowledge. A goroutine is not preempted while
// it is in assembly, nor at an address that the runtime does not know, so nobody unwinds through the code; the price is
// that stopping the world waits for it, so a call lasts under 50 us. Code calls nothing, writes no Go pointer, uses no
// stack but its return address, and leaves SP, BP and MXCSR alone; every other register is its own. It ends in
// VZEROUPPER and RET. It touches no byte outside of its operands: a fault there ends the process.
package jit

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// MaxOperands is how many operands a call may have.
const MaxOperands = 24

// spillSlots is how many vectors of 512 bits the spill area holds.
const spillSlots = 36

// Args is what code is told: DI holds its address when it starts, and the offsets of its fields are constants of this
// package. Code is special to dtypes and to classes of stride, so that programs for other sizes share it, and all that
// depends on sizes is here. Pointers point into the heap (or memory outside of Go), at the first element of an operand,
// which Args keeps alive. An Args belongs to one goroutine at a time and is used again from call to call.
type Args struct {
	N    int // elements in a row
	Rows int

	Ptr  [MaxOperands]unsafe.Pointer // first element of the first row
	Step [MaxOperands]int            // bytes from an element to the next, where the code does not imply it
	Row  [MaxOperands]int            // bytes from a row to the next

	// Spill is scratch memory of the code: SpillBytes behind (address of Args + OffsetSpill + 63) &^ 63.
	Spill [spillSlots*64 + 56]byte
}

// Offsets of the fields of Args, in bytes, as code needs them. Operand i's entry is 8*i bytes behind the first.
const (
	OffsetN     = int32(unsafe.Offsetof(Args{}.N))
	OffsetRows  = int32(unsafe.Offsetof(Args{}.Rows))
	OffsetPtr   = int32(unsafe.Offsetof(Args{}.Ptr))
	OffsetStep  = int32(unsafe.Offsetof(Args{}.Step))
	OffsetRow   = int32(unsafe.Offsetof(Args{}.Row))
	OffsetSpill = int32(unsafe.Offsetof(Args{}.Spill))
	SpillBytes  = spillSlots * 64
)

// Code is machine code and what is told of it.
type Code struct {
	Bytes   []byte
	Listing string // in the syntax of Go's assembler, where it was asked for
	Work    Work   // none where who calls has a measure of his own
}

// Finish returns what was assembled.
func Finish(a *asm.Assembler) (Code, error) {
	text := a.Listing()
	code, err := a.Finish()
	return Code{Bytes: code, Listing: text}, err
}

// Work is how many instructions a loop executes at most, which bounds what goes in a call.
type Work struct {
	Row  int // for a row, aside from its elements
	Turn int // for so many elements of it
	Rest int // for so many of those that are left, or fewer

	TurnElements, RestElements int
}

// Of returns the instructions for a row of n elements.
func (w Work) Of(n int) int {
	left := n % w.TurnElements
	return w.Row + n/w.TurnElements*w.Turn + (left+w.RestElements-1)/w.RestElements*w.Rest
}

// Func is a piece of code. It is safe for use by several goroutines.
type Func struct {
	name    string
	make    func(list bool) (Code, error)
	work    Work
	entry   atomic.Uintptr // where the code is, or 0 before it is mapped
	code    []byte         // until it is mapped
	mapping *mapping       // which stays mapped as long as this refers to it
}

// newFunc returns code as a function that can be called. The slice is the function's from then on.
func newFunc(name string, code []byte) *Func {
	f := &Func{name: name, code: code}
	enqueue(f)
	return f
}

// Name returns the key of the function, by which profilers name it.
func (f *Func) Name() string { return f.name }

// Work returns how many instructions a call executes, where the maker of the code says so.
func (f *Func) Work() Work { return f.work }

// Listing returns the code in the syntax of Go's assembler. It is made anew.
func (f *Func) Listing() string {
	code, err := f.make(true)
	if err != nil {
		return err.Error()
	}
	return code.Listing
}

// Call runs the code, which takes less than 50 us. An error says that it could not be mapped, and then nothing was
// done.
func (f *Func) Call(a *Args) error {
	entry := f.entry.Load()
	if entry == 0 {
		if err := f.link(); err != nil {
			return err
		}
		entry = f.entry.Load()
	}
	call(entry, a)
	runtime.KeepAlive(f)
	return nil
}

// link maps the function with the others that wait.
func (f *Func) link() error {
	if err := Link(); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// cache has the functions that somebody uses, by key. It keeps none alive.
var cache struct {
	sync.Mutex
	funcs map[string]weak.Pointer[Func]
}

// Fence orders what code wrote past the caches before whatever is written from here on.
func Fence() { fence() }

// Lookup returns the function of a key, which says all that its code depends on. If nobody has one at the moment, its
// code is made; an error of make is returned as it is. Whoever asks while it is being made may make it, too, and all
// get the same one. The code must be position-independent and keep to the rules of this package; it is mapped by the
// next [Link], or when it is called first. The function keeps make, for listings.
func Lookup(key string, make func(list bool) (Code, error)) (*Func, error) {
	if f := cached(key); f != nil {
		return f, nil
	}
	code, err := make(false)
	if err != nil {
		return nil, err
	}
	cache.Lock()
	defer cache.Unlock()
	if f := cache.funcs[key].Value(); f != nil {
		return f, nil
	}
	f := newFunc(key, code.Bytes)
	f.make, f.work = make, code.Work
	if cache.funcs == nil {
		cache.funcs = map[string]weak.Pointer[Func]{}
	}
	cache.funcs[key] = weak.Make(f)
	runtime.AddCleanup(f, forget, key)
	return f, nil
}

func cached(key string) *Func {
	cache.Lock()
	defer cache.Unlock()
	return cache.funcs[key].Value()
}

// forget takes a key out of the cache, unless somebody made its function anew.
func forget(key string) {
	cache.Lock()
	defer cache.Unlock()
	if cache.funcs[key].Value() == nil {
		delete(cache.funcs, key)
	}
}
