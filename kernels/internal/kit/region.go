package kit

import (
	"unsafe"
)

// Region allocates blocks of a worker's memory one after another. Free is the memory that is not allocated yet.
type Region struct{ Free []byte }

// RegionOf returns a region that allocates from memory.
func RegionOf(memory []byte) Region { return Region{memory} }

// Take allocates size bytes, aligned to a cache line.
func (r *Region) Take(size int) unsafe.Pointer {
	block := unsafe.Pointer(unsafe.SliceData(r.Free))
	r.Free = r.Free[AlignUp(size):]
	return block
}
