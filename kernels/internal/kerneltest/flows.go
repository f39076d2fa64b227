package kerneltest

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// checkDeclaredProgress checks the progress that chunks declare ([graph.Flow]). It runs the phases of a compiled call
// again. Each chunk gets only the part of operand x that it declares as needed. After the chunk, checkDeclaredProgress
// checks the part of the result that the chunk declares as complete.
func (r *productRun) checkDeclaredProgress(t testing.TB, x *tensor.Tensor) {
	t.Helper()
	want, size := bytes.Clone(r.Out.Storage().Bytes()), x.DType.Size()
	operandBytes := x.Storage().Bytes()
	operandBytes = operandBytes[min(len(operandBytes), x.Offset*size):]
	for _, phase := range r.kernel.Phases {
		if phase.Flow != nil {
			r.checkPhaseProgress(t, &phase, operandBytes, want, size)
		}
	}
}

// checkPhaseProgress is checkDeclaredProgress for one phase. operandBytes are the bytes of operand x, want the bytes of
// the result, and size the bytes of an element.
func (r *productRun) checkPhaseProgress(t testing.TB, phase *graph.Phase, operandBytes, want []byte, size int) {
	t.Helper()
	provided := tensor.NewStorage(len(operandBytes)).Bytes()
	for i := range provided {
		provided[i] = 0xff // NaN for floats
	}
	operandPointer := r.mem.Ptrs[1]
	r.mem.Ptrs[1] = unsafe.Pointer(unsafe.SliceData(provided))
	for i := range r.Out.Storage().Bytes() {
		r.Out.Storage().Bytes()[i] = 0x7f
	}
	neededBefore, completedBefore := 0, 0 // elements of the operand and of the result, up to the previous chunk
	for chunk := range phase.Chunks {
		neededElements := phase.Flow.NeededElements(chunk)
		if neededElements < neededBefore {
			t.Fatalf("chunk %d needs %d elements of the operand, but the previous chunk needed %d", chunk, neededElements,
				neededBefore)
		}
		neededBefore = neededElements
		// The inner minimum avoids an overflow of the multiplication: a flow may declare more elements than the operand
		// has.
		neededBytes := min(len(operandBytes), min(neededElements, len(operandBytes))*size)
		copy(provided[:neededBytes], operandBytes[:neededBytes])
		if err := phase.Run(&r.mem, chunk); err != nil {
			t.Fatal(err)
		}
		completedElements := phase.Flow.FinalElements(chunk)
		switch {
		case completedElements < completedBefore:
			t.Fatalf("after chunk %d of %d, %d elements of the result are complete, but before it %d", chunk, phase.Chunks,
				completedElements, completedBefore)
		case completedElements > r.Out.Extent():
			t.Fatalf("after chunk %d of %d, %d elements of the result are complete, but it has only %d", chunk,
				phase.Chunks, completedElements, r.Out.Extent())
		case !bytes.Equal(want[:completedElements*size], r.Out.Storage().Bytes()[:completedElements*size]):
			t.Fatalf("chunk %d of %d: the first %d elements of the result are not complete",
				chunk, phase.Chunks, completedElements)
		}
		completedBefore = completedElements
	}
	if completedBefore != r.Out.Extent() {
		t.Fatalf("the chunks complete only %d of %d elements of the result", completedBefore, r.Out.Extent())
	}
	r.mem.Ptrs[1] = operandPointer
}
