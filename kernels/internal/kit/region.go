package kit

import (
	"unsafe"
)

// Region hands out parts of a worker's memory.
type Region struct{ B []byte }

// RegionOf hands out all of the memory.
func RegionOf(memory []byte) Region { return Region{memory} }

// Take returns the next n bytes, at a cache line.
func (r *Region) Take(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(r.B))
	r.B = r.B[AlignUp(n):]
	return p
}

// Ints returns room for n integers; they hold what was there.
func (r *Region) Ints(n int) []int { return unsafe.Slice((*int)(r.Take(n*8)), n) }
