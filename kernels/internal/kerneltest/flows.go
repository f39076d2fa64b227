package kerneltest

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// checkDeclaredProgress checks the progress that chunks declare ([graph.Flow]). It runs the phases again. Each chunk
// gets only the part of operand x that it declares as needed. After the chunk, checkDeclaredProgress checks the part of
// the result that the chunk declares as complete.
func (r *productRun) checkDeclaredProgress(t testing.TB, x *tensor.Tensor) {
	t.Helper()
	want, size := bytes.Clone(r.Out.Storage().Bytes()), x.DType.Size()
	all := x.Storage().Bytes()
	all = all[min(len(all), x.Offset*size):]
	for _, ph := range r.k.Phases {
		if ph.Flow == nil {
			continue
		}
		provided := tensor.NewStorage(len(all)).Bytes()
		for i := range provided {
			provided[i] = 0xff // NaN for floats
		}
		given := r.mem.Ptrs[1]
		r.mem.Ptrs[1] = unsafe.Pointer(unsafe.SliceData(provided))
		for i := range r.Out.Storage().Bytes() {
			r.Out.Storage().Bytes()[i] = 0x7f
		}
		needed, made := 0, 0
		for c := range ph.Chunks {
			needs := ph.Flow.NeededElements(c)
			if needs < needed {
				t.Fatalf("chunk %d needs %d elements, the one before %d", c, needs, needed)
			}
			needed = needs
			n := min(len(all), min(needs, len(all))*size)
			copy(provided[:n], all[:n])
			if err := ph.Run(&r.mem, c); err != nil {
				t.Fatal(err)
			}
			if m := ph.Flow.FinalElements(c); m < made || m > r.Out.Extent() {
				t.Fatalf("chunk %d of %d: %d elements of %d are made, before it %d", c, ph.Chunks, m, r.Out.Extent(), made)
			} else if made = m; !bytes.Equal(want[:m*size], r.Out.Storage().Bytes()[:m*size]) {
				t.Fatalf("chunk %d of %d: the first %d elements are not made", c, ph.Chunks, m)
			}
		}
		if made != r.Out.Extent() {
			t.Fatalf("%d elements of %d are made", made, r.Out.Extent())
		}
		r.mem.Ptrs[1] = given
	}
}
