//go:build (linux || darwin || freebsd) && (amd64 || arm64) && !noasm

package jit

import "golang.org/x/sys/unix"

// mapExecutable maps memory, fills it by a call of fill, and makes it executable and read-only.
func mapExecutable(size int, fill func([]byte)) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	fill(memory)
	err = synchronize(memory)
	if err == nil {
		err = unix.Mprotect(memory, unix.PROT_READ|unix.PROT_EXEC)
	}
	if err != nil {
		unmap(memory)
		return nil, err
	}
	return memory, nil
}

// unmap releases memory. An error is ignored, because it only leaves the memory mapped.
func unmap(memory []byte) { _ = unix.Munmap(memory) }
