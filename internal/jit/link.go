package jit

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
	"weak"

	"github.com/graphrun/graphrun/internal/machine"
)

// codeAlign is the alignment of functions in bytes: a cache line. The offsets of constants, which follow the code,
// assume it.
const codeAlign = 64

// mapping is executable memory with the code of some functions. It is unmapped when none of the functions is reachable.
type mapping struct{ memory []byte }

// pending holds the functions that are not mapped yet, with weak pointers.
var pending struct {
	sync.Mutex
	funcs []weak.Pointer[Func]
}

// enqueue adds a function to pending.
func enqueue(f *Func) {
	pending.Lock()
	defer pending.Unlock()
	pending.funcs = append(pending.funcs, weak.Make(f))
}

// Link maps all pending functions together. Compilers call Link when all code is generated. The first call of a pending
// function also calls Link. After an error the functions stay pending. If the target is for planning only
// ([machine.RunError]), Link maps nothing, and calls fail.
func Link() error {
	if machine.RunError() != nil {
		return nil
	}
	pending.Lock()
	defer pending.Unlock()
	var funcs []*Func
	size := 0
	for _, weakFunc := range pending.funcs {
		if fn := weakFunc.Value(); fn != nil {
			funcs = append(funcs, fn)
			size += paddedSize(fn)
		}
	}
	if len(funcs) > 0 {
		if err := mapFuncs(funcs, size); err != nil {
			return err
		}
	}
	pending.funcs = nil
	return nil
}

// paddedSize returns the size of a function's code, rounded up to codeAlign.
func paddedSize(f *Func) int { return (len(f.code) + codeAlign - 1) &^ (codeAlign - 1) }

// mapFuncs copies the code of functions to new memory of the given size and makes it executable.
func mapFuncs(funcs []*Func, size int) error {
	memory, err := mapExecutable(size, func(remaining []byte) {
		for _, fn := range funcs {
			copy(remaining, fn.code)
			remaining = remaining[paddedSize(fn):]
		}
	})
	if err != nil {
		return fmt.Errorf("jit: the operating system gave no executable memory: %w", err)
	}
	mapped := &mapping{memory: memory}
	runtime.AddCleanup(mapped, unmap, memory)
	address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, fn := range funcs {
		reportToPerf(address, len(fn.code), fn.name)
		padded := paddedSize(fn) // before code is cleared
		fn.code, fn.mapping = nil, mapped
		fn.entry.Store(address)
		address += uintptr(padded)
	}
	return nil
}
