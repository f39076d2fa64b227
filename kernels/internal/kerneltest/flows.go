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
	for _, phase := range r.kernel.Phases {
		if phase.Flow == nil {
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
		for chunk := range phase.Chunks {
			needs := phase.Flow.NeededElements(chunk)
			if needs < needed {
				t.Fatalf("chunk %d needs %d elements of the operand, but the previous chunk needed %d", chunk, needs, needed)
			}
			needed = needs
			neededBytes := min(len(all), min(needs, len(all))*size)
			copy(provided[:neededBytes], all[:neededBytes])
			if err := phase.Run(&r.mem, chunk); err != nil {
				t.Fatal(err)
			}
			if completed := phase.Flow.FinalElements(chunk); completed < made || completed > r.Out.Extent() {
				t.Fatalf("chunk %d of %d completes %d of %d elements of the result, but the previous chunk completed %d",
					chunk, phase.Chunks, completed, r.Out.Extent(), made)
			} else if made = completed; !bytes.Equal(want[:completed*size], r.Out.Storage().Bytes()[:completed*size]) {
				t.Fatalf("chunk %d of %d: the first %d elements of the result are not complete", chunk, phase.Chunks, completed)
			}
		}
		if made != r.Out.Extent() {
			t.Fatalf("the chunks complete only %d of %d elements of the result", made, r.Out.Extent())
		}
		r.mem.Ptrs[1] = given
	}
}
