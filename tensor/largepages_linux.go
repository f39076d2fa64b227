package tensor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page. Storage of largePageMin bytes or more is worth part of one: reading it
// withSize small pages takes 32 address translations.
const (
	largePage    = 2 << 20
	largePageMin = 128 << 10
)

// adviseLargePages asks the kernel for large pages for b, before b is touched: reading b then misses fewer address
// translations, and a page fault covers 2 MiB instead of 4 KiB. Few weights of a network have 2 MiB, but they
// are adjacent in Go's heap, whose arenas are aligned to large pages. So the pages at both ends of b are
// included, though neighbours share them. The request is a hint; its failure is ignored.
func adviseLargePages(b []byte) {
	if len(b) < largePageMin {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first := at &^ (largePage - 1)
	end := (at + uintptr(len(b)) + largePage - 1) &^ (largePage - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, end-first, unix.MADV_HUGEPAGE)
}
