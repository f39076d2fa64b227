package tensor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page where there are some: what is smaller has no room for one.
const largePage = 2 << 20

// ownPages asks for large pages for the whole ones within b, before they are touched: then what reads all of it misses
// fewer translations of addresses, and there is a fault for 2 MiB rather than for 4 KiB. Nothing depends on it, and
// systems that have no such pages refuse.
func ownPages(b []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first := (at + largePage - 1) &^ (largePage - 1)
	end := (at + uintptr(len(b))) &^ (largePage - 1)
	if first >= end {
		return
	}
	_ = unix.Madvise(b[first-at:end-at], unix.MADV_HUGEPAGE)
}
