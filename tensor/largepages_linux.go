package tensor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page, in bytes. Large pages are requested for storage of largePageMin bytes or more.
// Smaller storage gains little: largePageMin bytes are only 32 pages of 4 KiB, and thus 32 address translations.
const (
	largePage    = 2 << 20
	largePageMin = 128 << 10
)

// adviseLargePages asks the kernel for large pages for b, before b is written. Reads of b then need fewer address
// translations, and a page fault maps 2 MiB instead of 4 KiB. Most weights of a network are smaller than 2 MiB, but
// they are adjacent in Go's heap, and the heap's arenas are aligned to large pages. The request therefore includes the
// large pages at both ends of b, which may contain other objects. The request is only a hint, so its failure is
// ignored.
func adviseLargePages(b []byte) {
	if len(b) < largePageMin {
		return
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first := address &^ (largePage - 1)
	end := (address + uintptr(len(b)) + largePage - 1) &^ (largePage - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, end-first, unix.MADV_HUGEPAGE)
}
