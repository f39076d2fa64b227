package tensor

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeStorage is from how many bytes on storage is worth large pages, as NumPy has it.
const hugeStorage = 4 << 20

// advise asks for large pages under what is large, where the system gives them only to who asks: loops then spend no
// time on finding pages. That they are refused is no reason to stop.
func advise(b []byte) {
	if len(b) < hugeStorage {
		return
	}
	page := os.Getpagesize()
	shift := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(page-1))
	b = b[shift : shift+(len(b)-shift)&^(page-1)]
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
}
