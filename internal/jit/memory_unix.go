//go:build amd64 && (linux || darwin) && !noasm

package jit

import (
	"golang.org/x/sys/unix"
)

// supported reports whether this build can call machine code.
const supported = true

// mapExecutable maps memory, fills it, and makes it executable and read-only.
func mapExecutable(size int, fill func([]byte)) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	fill(memory)
	if err := unix.Mprotect(memory, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unmap(memory)
		return nil, err
	}
	return memory, nil
}

// unmap releases memory. After a failure the memory stays mapped, so the error is ignored.
func unmap(memory []byte) { _ = unix.Munmap(memory) }

// call calls the code at an address with the Args in DI. Args and the memory that it points to escape to the heap,
// because stacks move.
func call(entry uintptr, a *Args)

//go:noescape
func fence()
