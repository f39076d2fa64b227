package conv

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// windowAdder sums overlapping windows by machine code, for a [spreadKernel]. In the axes d, h and w of
// transposedWindows, Size is a size of the result, and Results is a size of the input.
//
// The adder divides the result into phases (polyphase decomposition; these are not the phases of a kernel). A phase is
// the set of elements whose indices have the same remainder modulo the stride. For example, stride 2 has the phases of
// even and odd indices along each dimension. All elements of a phase are sums over the same taps, so that the products
// of a tap are added row by row. At the end, the phases are interleaved. In one dimension, the input [a, b] and the
// weight [1, 2, 3] with stride 2 have the phases
//
//	even: a, 3a+b, 3b    tap 0 is added at 0, and tap 2 at 1
//	odd:  2a, 2b         tap 1 is added at 0
//
// and the result a, 2a, 3a+b, 2b, 3b.
type windowAdder struct {
	*transposedWindows
	addRow      *loops.Loop // adds rows of products to rows of a phase
	elemBytes   int         // bytes of an element
	phaseCounts [3]int      // number of phases of depth, height and width
	phaseSize   [3]int      // depth, height and width of a phase, in elements
	workers     graph.PerWorker[adderRun]
}

// adderRun is the state of a worker that runs a windowAdder.
type adderRun struct {
	state   loops.State
	ptrs    [3]unsafe.Pointer // arguments of addRow: the sum, and its two operands
	strides [3]int            // between rows, in bytes
	// phaseRows has the address, in each phase, of the elements of one row of the result.
	phaseRows []unsafe.Pointer
}

// minPlaneElements is the minimum number of elements of an input plane for which machine code is faster than Go.
const minPlaneElements = 128

// newWindowAdder compiles the loop of an adder. It returns nil if there is no machine code for the dtype, or if planes
// are too small.
func newWindowAdder(windows *transposedWindows, dtype tensor.DType) (*windowAdder, error) {
	hasDType := dtype == tensor.Float32 || dtype == tensor.Float64
	if !hasDType || !loops.CodeAvailable() || windows.h.Results*windows.w.Results < minPlaneElements {
		return nil, nil
	}
	builder := expr.NewBuilder(dtype, dtype)
	code, err := builder.Build(builder.Real(builder.Emit(expr.Add, builder.Load(0), builder.Load(1))))
	if err != nil {
		return nil, err
	}
	adder := &windowAdder{transposedWindows: windows, elemBytes: dtype.Size()}
	for i, axis := range []geometry.Axis{windows.d, windows.h, windows.w} {
		adder.phaseCounts[i], adder.phaseSize[i] = min(axis.Stride, axis.Size), kit.DivUp(axis.Size, axis.Stride)
	}
	isUniform := make([]bool, 2) // false: both operands differ from element to element
	adder.addRow, err = loops.New(&expr.Loop{Code: code, Uniform: isUniform}, loops.Options{})
	if err != nil || !adder.addRow.Compiled() {
		return nil, err
	}
	return adder, nil
}

// sumChannel sums the windows of one channel and adds the bias. out is the address of the channel of the result.
// products is the address of the products, tap by tap: one product for each input element and tap. phases is worker
// memory for the phases.
func (a *windowAdder) sumChannel(mem *graph.Mem, out, products, phases unsafe.Pointer, bias float64) {
	worker := a.workers.Get(mem)
	worker.state.Context = mem.Context
	if a.isInPlace() {
		phases = out
	}
	elements := a.elementCount()
	if a.elemBytes == 4 {
		fill(mem, kit.ElementsOf[float32](phases, elements), float32(bias))
	} else {
		fill(mem, kit.ElementsOf[float64](phases, elements), bias)
	}
	inputPixels := a.inputPixels()
	for tap := range a.taps() {
		a.addTap(mem, worker, phases, unsafe.Add(products, tap*inputPixels*a.elemBytes), tap)
	}
	worker.state.Release()
	worker.ptrs = [3]unsafe.Pointer{}
	if !a.isInPlace() {
		a.joinPhases(mem, worker, out, phases)
	}
}

// addTap adds the products of one tap, at address products, to its phase. A call of addRow adds the rows of one plane.
// The phases are stored as [phase of depth][phase of height][phase of width][depth][height][width].
func (a *windowAdder) addTap(mem *graph.Mem, worker *adderRun, phases, products unsafe.Pointer, tap int) {
	kd, kh, kw := a.tap(tap)
	d, h, w := targetOf(&a.d, kd), targetOf(&a.h, kh), targetOf(&a.w, kw)
	if d.count() == 0 || h.count() == 0 || w.count() == 0 {
		return
	}
	phaseIndex := (d.phase*a.phaseCounts[1]+h.phase)*a.phaseCounts[2] + w.phase
	phase := unsafe.Add(phases, phaseIndex*a.phaseElements()*a.elemBytes)
	phaseRowBytes, productRowBytes := a.phaseSize[2]*a.elemBytes, a.w.Results*a.elemBytes
	worker.strides = [3]int{phaseRowBytes, phaseRowBytes, productRowBytes}
	for plane := d.first; plane < d.end; plane++ {
		row := (plane+d.shift)*a.phaseSize[1] + h.first + h.shift
		sum := unsafe.Add(phase, row*phaseRowBytes+(w.first+w.shift)*a.elemBytes)
		product := unsafe.Add(products, (plane*a.h.Results+h.first)*productRowBytes+w.first*a.elemBytes)
		worker.ptrs = [3]unsafe.Pointer{sum, sum, product}
		mem.CheckContextAfter(w.count() * h.count())
		a.addRow.Run(&worker.state, worker.ptrs[:], worker.strides[:], w.count(), h.count())
	}
}

// tapTarget describes, along one dimension, to which elements the products of a tap are added. The product of input
// element i is added to element i+shift of the phase. [first, end) are the input elements whose products are inside the
// result.
type tapTarget struct{ phase, shift, first, end int }

// targetOf returns the target of a tap along an axis.
func targetOf(a *geometry.Axis, tap int) tapTarget {
	position := a.Position(0, tap) // index in the result to which the product of input element 0 is added
	phase := (position%a.Stride + a.Stride) % a.Stride
	first, end := a.ResultsOf(tap)
	return tapTarget{phase: phase, shift: (position - phase) / a.Stride, first: first, end: max(first, end)}
}

// count returns the number of products.
func (t *tapTarget) count() int { return t.end - t.first }

// joinPhases interleaves the phases of a channel in the result, row by row. Element i of a row is element i/Stride of
// the row of phase i%Stride.
func (a *windowAdder) joinPhases(mem *graph.Mem, worker *adderRun, out, phases unsafe.Pointer) {
	phaseBytes, columnPhases := a.phaseElements()*a.elemBytes, a.phaseCounts[2]
	commonColumns := a.w.Size / a.w.Stride // number of columns that each phase has
	for row := range a.rowsIn() {          // rows of the result: the input of the ordinary convolution
		mem.CheckContextAfter(a.w.Size)
		d, h := row/a.h.Size, row%a.h.Size
		firstPhase := (d%a.d.Stride*a.phaseCounts[1] + h%a.h.Stride) * columnPhases // of the row's phases
		rowOffset := (d/a.d.Stride*a.phaseSize[1] + h/a.h.Stride) * a.phaseSize[2] * a.elemBytes
		worker.phaseRows = worker.phaseRows[:0]
		for i := range columnPhases {
			worker.phaseRows = append(worker.phaseRows, unsafe.Add(phases, (firstPhase+i)*phaseBytes+rowOffset))
		}
		to := unsafe.Add(out, row*a.w.Size*a.elemBytes)
		if columnPhases == 2 && a.elemBytes == 4 {
			joinPairs(to, worker.phaseRows[0], worker.phaseRows[1], commonColumns)
		} else {
			strided.Interleave(a.elemBytes, to, a.w.Stride*a.elemBytes, worker.phaseRows, commonColumns)
		}
		commonSize := commonColumns * a.w.Stride
		for i := range a.w.Size - commonSize { // the first phases may have one more column
			strided.MoverOf(a.elemBytes).Row(unsafe.Add(to, (commonSize+i)*a.elemBytes),
				unsafe.Add(worker.phaseRows[i], commonColumns*a.elemBytes), a.elemBytes, a.elemBytes, 1)
		}
	}
	clear(worker.phaseRows)
}

// joinPairs interleaves two rows of elements of 4 bytes.
func joinPairs(to, even, odd unsafe.Pointer, n int) {
	evens, odds := unsafe.Slice((*uint32)(even), n), unsafe.Slice((*uint32)(odd), n)
	odds = odds[:len(evens)]
	pairs := unsafe.Slice((*[2]uint32)(to), n)[:len(evens)]
	for i, v := range evens {
		pairs[i] = [2]uint32{v, odds[i]}
	}
}

// isInPlace reports whether there is a single phase. The windows are then summed in the result.
func (a *windowAdder) isInPlace() bool { return a.phaseCounts == [3]int{1, 1, 1} }

// workerBytes returns the bytes of worker memory for the phases of a channel. It is 0 for a nil windowAdder.
func (a *windowAdder) workerBytes() int {
	if a == nil || a.isInPlace() {
		return 0
	}
	return a.elementCount() * a.elemBytes
}

// elementCount returns the number of elements of a channel's phases together.
func (a *windowAdder) elementCount() int {
	return a.phaseCounts[0] * a.phaseCounts[1] * a.phaseCounts[2] * a.phaseElements()
}

// phaseElements returns the number of elements of one phase.
func (a *windowAdder) phaseElements() int { return a.phaseSize[0] * a.phaseSize[1] * a.phaseSize[2] }

// sumChannelInGo is sumChannel without machine code, for all dtypes of sums.
func sumChannelInGo[T int64 | float32 | float64 | complex64 | complex128](mem *graph.Mem, shape *transposedWindows,
	out, windowProducts []T, bias T) {
	fill(mem, out, bias)
	for tap := range shape.taps() {
		kd, kh, kw := shape.tap(tap)
		shift := shape.w.Position(0, kw)
		first, end := shape.w.ResultsOf(kw)
		for row := range shape.rowsOut() { // rows of the input: the result of the ordinary convolution
			const rowOverhead = 8 // cost of a row besides its elements
			mem.CheckContextAfter(shape.w.Results + rowOverhead)
			products := windowProducts[:shape.w.Results]
			windowProducts = windowProducts[shape.w.Results:]
			d, h := shape.d.Position(row/shape.h.Results, kd), shape.h.Position(row%shape.h.Results, kh)
			if !shape.d.Contains(d) || !shape.h.Contains(h) || first >= end {
				continue
			}
			outRow := out[(d*shape.h.Size+h)*shape.w.Size:][:shape.w.Size]
			if shape.w.Stride == 1 {
				outRow = outRow[shift+first : shift+end]
				for i, product := range products[first:end] {
					outRow[i] += product
				}
				continue
			}
			for i := first; i < end; i++ {
				outRow[shift+i*shape.w.Stride] += products[i]
			}
		}
	}
}

// fill sets all elements of a list to a value.
func fill[T any](mem *graph.Mem, list []T, value T) {
	for block := range slices.Chunk(list, kit.CheckEvery) {
		for i := range block {
			block[i] = value
		}
		mem.CheckContextAfter(len(block))
	}
}

// realOf converts a float to float64. It returns 0 for types that a windowAdder does not support.
func realOf[T int64 | float32 | float64 | complex64 | complex128](v T) float64 {
	switch v := any(v).(type) {
	case float32:
		return float64(v)
	case float64:
		return v
	}
	return 0
}
