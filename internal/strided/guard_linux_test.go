package strided

import (
	"bytes"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// fenced returns n bytes between two inaccessible pages: directly after the first, or directly before the second.
func fenced(t *testing.T, n int, front bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	inner := (n + page - 1) / page * page
	access := syscall.PROT_READ | syscall.PROT_WRITE
	mem, err := syscall.Mmap(-1, 0, inner+2*page, access, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{mem[:page], mem[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if front {
		return mem[page : page+n : page+n]
	}
	return mem[page+inner-n : page+inner : page+inner]
}

// TestGuarded copies and transposes matrices of odd sizes and all element sizes, with gaps and negative strides, at
// addresses of any alignment, between inaccessible pages.
func TestGuarded(t *testing.T) {
	sides := []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 19, 20, 31, 33, 48, 63, 64, 65, 67, 80, 100, 129, 200}
	const room = 1 << 19
	var edges [2][2][]byte
	for i, front := range []bool{false, true} {
		edges[i] = [2][]byte{fenced(t, room, front), fenced(t, room, front)}
	}
	background := bytes.Repeat([]byte{0x55}, room)
	r := rand.New(rand.NewPCG(7, 8))
	for range 1500 {
		front := r.IntN(2)
		size := sizes[r.IntN(len(sizes))]
		na, nb := sides[r.IntN(len(sides))], sides[r.IntN(len(sides))]
		a, b := Axis{na, size, nb * size}, Axis{nb, na * size, size}
		if r.IntN(2) == 0 {
			a.Src += r.IntN(70)
			b.Dst += r.IntN(70)
		}
		if r.IntN(4) == 0 {
			a, b = Axis{na, size, size}, Axis{nb, b.Dst, na*size + r.IntN(70)}
		}
		if r.IntN(4) == 0 {
			b.Dst = (b.Dst + 63) / 64 * 64
		}
		nd, ns := (nb-1)*b.Dst+na*size, (na-1)*a.Src+(nb-1)*b.Src+size
		if nd > room-64 || ns > room-64 {
			continue
		}
		offD, offS := r.IntN(65), r.IntN(65)
		if r.IntN(2) == 0 {
			offD, offS = 0, 0
		}
		dst, src := place(edges[front][0], nd, offD, front == 1), place(edges[front][1], ns, offS, front == 1)
		fillRandom(r, src)
		want := bytes.Clone(background[:nd])
		first := 0
		if r.IntN(4) == 0 {
			first, a.Src = (na-1)*a.Src, -a.Src
		}
		for i := range na {
			for j := range nb {
				copy(want[i*size+j*b.Dst:][:size], src[first+i*a.Src+j*b.Src:][:size])
			}
		}
		e := MoverOf(size)
		withFeatures(func(name string) {
			p := New(e, []Axis{a, b})
			mem := make([]uint64, p.ScratchBytes()/8+1)
			scratch := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), p.ScratchBytes())
			copy(dst, background)
			p.Run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[first]), scratch, 0, p.Tiles())
			if !bytes.Equal(dst, want) {
				t.Fatalf("%s, %d by %d elements of %d bytes, %v %v, at %d and %d: wrong", name, na, nb, size, a, b, offD, offS)
			}
			type block = func(dst, src unsafe.Pointer, a, b Axis)
			for how, block := range map[string]block{"Block": e.CopyBlock, "BlockPast": e.StreamBlock} {
				copy(dst, background)
				block(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[first]), a, b)
				Fence()
				if !bytes.Equal(dst, want) {
					t.Fatalf("%s, %s of %d by %d elements of %d bytes, %v %v, at %d and %d: wrong", name, how, na, nb, size,
						a, b, offD, offS)
				}
			}
		})
	}
}

// place returns n bytes of m, off bytes from the guard page at its front or end.
func place(m []byte, n, off int, front bool) []byte {
	if front {
		return m[off : off+n : off+n]
	}
	return m[len(m)-off-n : len(m)-off]
}
