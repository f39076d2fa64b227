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
	for _, ph := range r.kernel.Phases {
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
		needed, made := 0, 0 // elements of the operand and of the result, up to the previous chunk
		for c := range ph.Chunks {
			needs := ph.Flow.NeededElements(c)
			if needs < needed {
				t.Fatalf("chunk %d needs %d elements of the operand, but the previous chunk needed %d", c, needs, needed)
			}
			needed = needs
			n := min(len(all), min(needs, len(all))*size)
			copy(provided[:n], all[:n])
			if err := ph.Run(&r.mem, c); err != nil {
				t.Fatal(err)
			}
			if m := ph.Flow.FinalElements(c); m < made || m > r.Out.Extent() {
				t.Fatalf("chunk %d of %d completes %d of %d elements of the result, but the previous chunk completed %d",
					c, ph.Chunks, m, r.Out.Extent(), made)
			} else if made = m; !bytes.Equal(want[:m*size], r.Out.Storage().Bytes()[:m*size]) {
				t.Fatalf("chunk %d of %d: the first %d elements of the result are not complete", c, ph.Chunks, m)
			}
		}
		if made != r.Out.Extent() {
			t.Fatalf("the chunks complete only %d of %d elements of the result", made, r.Out.Extent())
		}
		r.mem.Ptrs[1] = given
	}
}
