package jit

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
	"weak"
)

// codeAlign is the alignment of functions in bytes: a cache line. The constants behind the code are aligned relative to
// it.
const codeAlign = 64

// mapping is executable memory with the code of some functions. It is unmapped when none of the functions is reachable.
type mapping struct{ memory []byte }

// pending holds the functions that are not mapped yet, with weak pointers.
var pending struct {
	sync.Mutex
	funcs []weak.Pointer[Func]
}

func enqueue(f *Func) {
	pending.Lock()
	defer pending.Unlock()
	pending.funcs = append(pending.funcs, weak.Make(f))
}

// Link maps all pending functions together. Compilers call Link when all code is generated. The first call of a pending
// function also calls Link. After an error the functions stay pending.
func Link() error {
	pending.Lock()
	defer pending.Unlock()
	var funcs []*Func
	size := 0
	for _, w := range pending.funcs {
		if f := w.Value(); f != nil {
			funcs = append(funcs, f)
			size += paddedSize(f)
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

func paddedSize(f *Func) int { return (len(f.code) + codeAlign - 1) &^ (codeAlign - 1) }

// mapFuncs copies code to new memory and makes it executable.
func mapFuncs(funcs []*Func, size int) error {
	memory, err := mapExecutable(size, func(to []byte) {
		for _, f := range funcs {
			copy(to, f.code)
			to = to[paddedSize(f):]
		}
	})
	if err != nil {
		return fmt.Errorf("jit: no executable memory: %w", err)
	}
	m := &mapping{memory: memory}
	runtime.AddCleanup(m, unmap, memory)
	address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, f := range funcs {
		reportToPerf(address, len(f.code), f.name)
		n := paddedSize(f)
		f.code, f.mapping = nil, m
		f.entry.Store(address)
		address += uintptr(n)
	}
	return nil
}
