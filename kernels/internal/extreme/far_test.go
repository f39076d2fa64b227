//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/graphrun/graphrun/tensor"
)

// farBytes bounds the distance between elements of an operand. It exceeds offsets of 32 bits.
const farBytes = 1<<32 + room

// farRoom is memory in which only the pages of one operand's elements may be touched.
type farRoom struct {
	memory []byte
	pages  map[int]bool
}

// place returns memory for a layout, in place of the last one's.
func (r *farRoom) place(t testing.TB, m tensor.Meta) *tensor.Tensor {
	page := os.Getpagesize()
	if r.memory == nil {
		var err error
		if r.memory, err = unix.Mmap(-1, 0, farBytes+page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(r.memory) })
	}
	for k := range r.pages {
		r.protect(t, k, unix.PROT_NONE)
	}
	r.pages = map[int]bool{}
	// The last element ends where a page does.
	n := m.Extent() * m.DType.Size()
	first := (page - n%page) % page
	m.Walk(func(at int) {
		begin := first + (m.Offset+at)*m.DType.Size()
		for k := begin / page; k <= (begin+m.DType.Size()-1)/page; k++ {
			if !r.pages[k] {
				r.pages[k] = true
				r.protect(t, k, unix.PROT_READ|unix.PROT_WRITE)
			}
		}
	})
	return tensor.Must(tensor.FromStorage(m, tensor.StorageOf(r.memory[first:first+n:first+n])))
}

func (r *farRoom) protect(t testing.TB, k, how int) {
	page := os.Getpagesize()
	if err := unix.Mprotect(r.memory[k*page:(k+1)*page], how); err != nil {
		t.Fatal(err)
	}
}
