//go:build linux || darwin

// Package jittest has helpers for tests of generated code. It has memory between guard pages, edge cases of arithmetic,
// and rules for listings. It compares code with the interpreter, with references in Go and with Go's assembler.
package jittest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Guarded returns whole pages of memory, at least size bytes, between two guard pages. An access to a guard page ends
// the process.
func Guarded(t testing.TB, size int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size = (size + page - 1) &^ (page - 1)
	memory, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	for _, guard := range [][]byte{memory[:page], memory[page+size:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return memory[page : page+size : page+size]
}
