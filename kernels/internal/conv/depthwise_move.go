package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// rowMover copies rectangles of the planes of images to and from the tiles of [planeTiles]. A strided.Axis is a
// dimension of a copy: its size N, and its strides Dst and Src in bytes. A tapRun is the state of a worker. Its ptrs
// and strides are the arguments of compiled loops: the address of the first row of each operand, outputs first, and the
// bytes between rows.
type rowMover struct {
	elemBytes  int          // bytes of an element
	copyRow    *loops.Loop  // copies rows
	splitRow   *loops.Loop  // splits rows into even and odd elements (see split)
	elemCopier strided.Elem // copies elements, also strided ones, without a compiled loop
}

// newRowMover compiles the loops for elements of a dtype.
func newRowMover(dtype tensor.DType) (m *rowMover, err error) {
	m = &rowMover{elemBytes: dtype.Size(), elemCopier: strided.MoverOf(dtype.Size())}
	if m.copyRow, err = moveLoop(dtype); err != nil {
		return nil, err
	}
	m.splitRow, err = moveLoop(dtype.ToComplex())
	return m, err
}

// moveLoop returns a loop that copies rows. For a complex dtype, it writes real and imaginary parts to separate rows.
// This loop also separates the even from the odd elements of a row of floats, if each pair is read as one complex
// number.
func moveLoop(dtype tensor.DType) (*loops.Loop, error) {
	builder := expr.NewBuilder(dtype)
	out := []expr.Output{builder.Real(builder.Load(0))}
	if dtype.IsComplex() {
		out = append(out, builder.Real(builder.LoadImag(0)))
	}
	code, err := builder.Build(out...)
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: code, Uniform: make([]bool, 1)}, loops.Options{})
}

// copy copies the rows of several planes. An axis has the number of elements, rows or planes, and their strides.
func (m *rowMover) copy(worker *tapRun, dst, src unsafe.Pointer, cols, rows, planes strided.Axis) {
	rows, planes = mergeAxes(rows, planes)
	elementsAreContiguous := cols.Dst == m.elemBytes && cols.Src == m.elemBytes
	// The compiled loop copies short rows, for which the overhead of CopyBlock per row matters.
	usesLoop := elementsAreContiguous && cols.N*m.elemBytes < machine.LineBytes
	for i := range planes.N {
		to, from := unsafe.Add(dst, i*planes.Dst), unsafe.Add(src, i*planes.Src)
		if !usesLoop {
			m.elemCopier.CopyBlock(to, from, cols, rows)
			continue
		}
		worker.ptrs[0], worker.ptrs[1] = to, from
		worker.strides[0], worker.strides[1] = rows.Dst, rows.Src
		m.copyRow.Run(&worker.State, worker.ptrs[:2], worker.strides[:2], cols.N, rows.N)
	}
}

// split copies the columns [first, end) of rows of several planes in pairs. The columns of a row are contiguous;
// address from has column `first` of the first row. Even columns are copied to address even, odd columns to address
// odd. For example, the columns [1, 5) are copied to odd[0], even[1], odd[1] and even[2]. down and planes describe rows
// and planes.
func (m *rowMover) split(worker *tapRun, even, odd, from unsafe.Pointer, first, end int, down, planes strided.Axis) {
	to := [2]unsafe.Pointer{even, odd}
	pairs := (end - first) / 2
	// The addresses of the first and of the second column of the first pair.
	firstTo := unsafe.Add(to[first%2], first/2*m.elemBytes)
	secondTo := unsafe.Add(to[(first+1)%2], (first+1)/2*m.elemBytes)
	down, planes = mergeAxes(down, planes)
	for i := range planes.N {
		worker.ptrs[0], worker.ptrs[1] = unsafe.Add(firstTo, i*planes.Dst), unsafe.Add(secondTo, i*planes.Dst)
		worker.ptrs[2] = unsafe.Add(from, i*planes.Src)
		worker.strides[0], worker.strides[1], worker.strides[2] = down.Dst, down.Dst, down.Src
		m.splitRow.Run(&worker.State, worker.ptrs[:3], worker.strides[:3], pairs, down.N)
	}
	if last := end - 1; (end-first)%2 == 1 { // the last column has no pair
		m.copy(worker, unsafe.Add(to[last%2], last/2*m.elemBytes), unsafe.Add(from, (last-first)*m.elemBytes),
			strided.Axis{N: 1, Dst: m.elemBytes, Src: m.elemBytes}, down, planes)
	}
}

// mergeAxes assigns two axes to the rows of a loop call and to repeated calls. If the axes have a common stride, they
// are merged into the rows of one call. Otherwise the longer axis becomes the rows.
func mergeAxes(rows, calls strided.Axis) (mergedRows, mergedCalls strided.Axis) {
	switch {
	case calls.N == 1 || calls.Dst == rows.N*rows.Dst && calls.Src == rows.N*rows.Src: // a common stride
		rows.N *= calls.N
		calls.N = 1
	case calls.N > rows.N: // fewer calls
		return calls, rows
	}
	return rows, calls
}
