//go:build linux || darwin

// Package jittest has what tests of machine code share: memory beside which nothing may be touched, the numbers at
// which arithmetic goes wrong, and a comparison of machine code with the interpreter.
package jittest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Guarded returns memory of whole pages, n bytes or more, between two pages of which every touch ends the process.
func Guarded(t testing.TB, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	n = (n + page - 1) &^ (page - 1)
	m, err := unix.Mmap(-1, 0, n+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	for _, p := range [][]byte{m[:page], m[page+n:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page : page+n : page+n]
}
