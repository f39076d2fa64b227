package jit

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
	"weak"
)

// codeAlign is what functions are aligned to: a line of the cache, and what constants behind the code rely on.
const codeAlign = 64

// mapping is executable memory with the code of some functions. It is unmapped when none of them is reachable.
type mapping struct{ memory []byte }

// pending are the functions that are not mapped yet. It keeps none alive.
var pending struct {
	sync.Mutex
	funcs []weak.Pointer[Func]
}

func enqueue(f *Func) {
	pending.Lock()
	defer pending.Unlock()
	pending.funcs = append(pending.funcs, weak.Make(f))
}

// Link maps all functions that wait for it, together. Compilers call it when they are done; a function that is called
// before does it by itself. After an error the functions go on waiting.
func Link() error {
	pending.Lock()
	defer pending.Unlock()
	var funcs []*Func
	size := 0
	for _, w := range pending.funcs {
		if f := w.Value(); f != nil {
			funcs = append(funcs, f)
			size += padded(f)
		}
	}
	if len(funcs) > 0 {
		if err := place(funcs, size); err != nil {
			return err
		}
	}
	pending.funcs = nil
	return nil
}

func padded(f *Func) int { return (len(f.code) + codeAlign - 1) &^ (codeAlign - 1) }

// place copies code to new memory and makes it executable.
func place(funcs []*Func, size int) error {
	memory, err := mapExecutable(size, func(to []byte) {
		for _, f := range funcs {
			copy(to, f.code)
			to = to[padded(f):]
		}
	})
	if err != nil {
		return fmt.Errorf("jit: no executable memory: %w", err)
	}
	m := &mapping{memory: memory}
	runtime.AddCleanup(m, unmap, memory)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, f := range funcs {
		tellProfiler(at, len(f.code), f.name)
		n := padded(f)
		f.code, f.mapping = nil, m
		f.entry.Store(at)
		at += uintptr(n)
	}
	return nil
}
