package kit

import (
	"unsafe"
)

// Region allocates consecutive blocks of the memory of a worker. B is the memory that is still free.
type Region struct{ B []byte }

// RegionOf returns a region with all of the memory.
func RegionOf(memory []byte) Region { return Region{memory} }

// Take returns the next n bytes, aligned to a cache line.
func (r *Region) Take(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(r.B))
	r.B = r.B[AlignUp(n):]
	return p
}

// Ints returns n integers, uninitialized.
func (r *Region) Ints(n int) []int { return unsafe.Slice((*int)(r.Take(n*8)), n) }
