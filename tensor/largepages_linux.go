package tensor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page where there are some, and largeFrom from how many bytes on storage is worth a
// part of one: reading it misses 32 translations of addresses.
const (
	largePage = 2 << 20
	largeFrom = 128 << 10
)

// ownPages asks for large pages where b lies, before it is touched: then what reads all of it misses fewer translations
// of addresses, and there is a fault for 2 MiB rather than for 4 KiB. The weights of a network, of which few have 2
// MiB, lie beside one another in Go's heap, whose parts begin and end with a large page: so the pages at both ends of b
// are asked for as well, which neighbours share. Nothing depends on it, and systems without such pages refuse.
func ownPages(b []byte) {
	if len(b) < largeFrom {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first := at &^ (largePage - 1)
	end := (at + uintptr(len(b)) + largePage - 1) &^ (largePage - 1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, end-first, unix.MADV_HUGEPAGE)
}
