package fusion

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs epilogues: [Epilogue.Apply] divides a rectangle of the anchor's result into blocks, and runs the
// compiled loop of the epilogue on each block. A stream is an operand or a result of this loop. A stream that is not
// contiguous is staged: the loop accesses a copy of up to stageElements elements in a buffer.

// EpilogueRun is the state of a worker that applies an epilogue in a chunk. The chunk calls [EpilogueRun.Release] at
// its end.
type EpilogueRun struct {
	state      loops.State
	base       []unsafe.Pointer // address of the first element of each stream
	coords     []int            // coordinates of the current block, in the dimensions of Epilogue.sizes
	ptrs       []unsafe.Pointer // address of each stream for the loop
	rowStrides []int            // stride of rows of each stream for the loop, in bytes
	stage      []byte           // buffer of the staged streams
}

// Bind sets the addresses of a chunk. mem has the addresses of the anchor's kernel: see newEpilogue.
func (e *Epilogue) Bind(run *EpilogueRun, mem *graph.Mem) {
	if run.base == nil {
		count := len(e.streams)
		run.base, run.ptrs, run.rowStrides = make([]unsafe.Pointer, count), make([]unsafe.Pointer, count), make([]int, count)
		run.coords = make([]int, len(e.sizes))
		run.stage = tensor.NewStorage(e.stageBytes).Bytes()
	}
	for i, stream := range e.streams {
		run.base[i] = mem.Ptrs[stream.addressIndex]
	}
}

// Release clears the addresses, so that they keep no memory alive.
func (r *EpilogueRun) Release() {
	if r == nil {
		return
	}
	clear(r.base)
	clear(r.ptrs)
	r.state.Release()
}

// Apply applies the epilogue to a rectangle of the anchor's result whose elements are final. The rectangle has `rows`
// rows of `cols` elements. `offset` is the offset of its first element in memory, `rowStride` is the stride between
// rows, and `colStride` is the stride between columns. The offset and the strides are in elements. Apply divides the
// rectangle into rows of contiguous elements, and applyRows groups the rows into blocks (applyBlock).
func (e *Epilogue) Apply(run *EpilogueRun, offset, rows, rowStride, cols, colStride int) {
	if cols == 1 || colStride != 1 && rowStride == 1 { // exchange rows and columns, so that rows are contiguous
		rows, rowStride, cols, colStride = cols, colStride, rows, rowStride
	}
	switch {
	case rows <= 0 || cols <= 0:
		return
	case colStride != 1 && cols > 1: // neither rows nor columns are contiguous
		for column := range cols {
			const rowLength = 1
			e.applyRows(run, offset+column*colStride, rows, rowStride, rowLength)
		}
		return
	case rows > 1 && rowStride == cols && cols < e.sizes[0]: // adjacent rows within the fastest dimension
		rows, cols = 1, rows*cols
	}
	e.applyRows(run, offset, rows, rowStride, cols)
}

// block is a rectangle of the anchor's result: rows of contiguous elements that do not cross the ends of dimensions.
// One call of the loop processes it, or several calls if it exceeds the buffer of staged streams. EpilogueRun.coords
// has the coordinates of its first element.
type block struct {
	rows, cols int
	dim        int // the dimension along which consecutive rows differ
	indexStep  int // the difference of the indices of consecutive rows in this dimension
}

// applyRows applies the epilogue to rows of contiguous elements. A row that continues beyond the end of the fastest
// dimension is divided into blocks of one row. In the example of [Epilogue], rowStride is 32. If the sizes are [32, 64]
// with strides [1, 32], the rows differ in dimension 1, with an indexStep of 1.
func (e *Epilogue) applyRows(run *EpilogueRun, offset, rows, rowStride, cols int) {
	dim := 0 // the slowest dimension whose stride divides rowStride
	for candidate := range e.sizes {
		if rowStride%e.strides[candidate] == 0 {
			dim = candidate
		}
	}
	indexStep := rowStride / e.strides[dim]
	for rows > 0 {
		e.locate(run, offset)
		rowCount := 1
		if endsInDimension := cols <= e.sizes[0]-run.coords[0]; endsInDimension {
			rowCount = e.blockRows(run, rows, dim, indexStep, cols)
			e.applyBlock(run, block{rows: rowCount, cols: cols, dim: dim, indexStep: indexStep})
		} else {
			e.applyWrappedRow(run, offset, cols)
		}
		offset, rows = offset+rowCount*rowStride, rows-rowCount
	}
}

// locate sets run.coords to the coordinates of the element at an offset.
func (e *Epilogue) locate(run *EpilogueRun, offset int) {
	for dim := len(e.sizes) - 1; dim >= 0; dim-- {
		run.coords[dim], offset = offset/e.strides[dim], offset%e.strides[dim]
	}
}

// blockRows returns the number of rows, at most `rows`, that end before the end of dimension dim. run.coords has the
// coordinates of the first row.
func (e *Epilogue) blockRows(run *EpilogueRun, rows, dim, indexStep, cols int) int {
	switch {
	case rows == 1:
		return 1
	case dim == 0: // all columns of the last row must be before the end
		return min(rows, (e.sizes[0]-run.coords[0]-cols)/indexStep+1)
	case dim < len(e.sizes)-1:
		return min(rows, (e.sizes[dim]-1-run.coords[dim])/indexStep+1)
	}
	return rows // the rows of a rectangle never exceed the slowest dimension
}

// applyWrappedRow applies the epilogue to a row that continues beyond the end of the fastest dimension.
func (e *Epilogue) applyWrappedRow(run *EpilogueRun, offset, cols int) {
	for cols > 0 {
		e.locate(run, offset)
		length := min(cols, e.sizes[0]-run.coords[0])
		e.applyBlock(run, block{rows: 1, cols: length})
		offset, cols = offset+length, cols-length
	}
}

// applyBlock applies the epilogue to a block.
func (e *Epilogue) applyBlock(run *EpilogueRun, b block) {
	fitsBuffer := b.cols <= stageElements && b.rows*b.cols <= stageElements
	if e.stageBytes > 0 && !fitsBuffer {
		e.applyInParts(run, b)
		return
	}
	buffer, resultCount := unsafe.Pointer(unsafe.SliceData(run.stage)), len(e.code.Out)
	for i := range e.streams {
		address, rowStride := e.addressOf(run, i, b)
		if stream := &e.streams[i]; stream.isStaged {
			copied := unsafe.Add(buffer, stream.stageOffset)
			if i >= resultCount { // an operand
				mover := strided.MoverOf(stream.size)
				columns, rows := stream.stageAxes(b, rowStride)
				mover.CopyBlock(copied, address, columns, rows)
			}
			address, rowStride = copied, b.cols*stream.size
		}
		run.ptrs[i], run.rowStrides[i] = address, rowStride
	}
	e.loop.Run(&run.state, run.ptrs, run.rowStrides, b.cols, b.rows)
	for i := range e.streams[:resultCount] {
		if stream := &e.streams[i]; stream.isStaged {
			address, rowStride := e.addressOf(run, i, b)
			mover := strided.MoverOf(stream.size)
			columns, rows := stream.stageAxes(b, rowStride) // Swapped: from the buffer to memory
			mover.CopyBlock(address, unsafe.Add(buffer, stream.stageOffset), columns.Swapped(), rows.Swapped())
		}
	}
}

// applyInParts calls applyBlock for parts of a block that fit in the buffer.
func (e *Epilogue) applyInParts(run *EpilogueRun, b block) {
	firstCoord, firstColumn := run.coords[b.dim], run.coords[0] // of the block; the two are equal if dim is 0
	for row := 0; row < b.rows; {
		rowCount := max(1, min(b.rows-row, stageElements/b.cols)) // 1 if a row exceeds the buffer
		for column := 0; column < b.cols; column += stageElements {
			run.coords[b.dim], run.coords[0] = firstCoord, firstColumn+column
			run.coords[b.dim] += row * b.indexStep // added, because dim may be 0
			cols := min(stageElements, b.cols-column)
			e.applyBlock(run, block{rows: rowCount, cols: cols, dim: b.dim, indexStep: b.indexStep})
		}
		row += rowCount
	}
	run.coords[b.dim], run.coords[0] = firstCoord, firstColumn
}

// addressOf returns the address of stream i at run.coords, and its stride between the rows of a block.
func (e *Epilogue) addressOf(run *EpilogueRun, i int, b block) (address unsafe.Pointer, rowStride int) {
	strides := e.streams[i].strides
	byteOffset := 0
	for dim, coord := range run.coords {
		byteOffset += coord * strides[dim]
	}
	return unsafe.Add(run.base[i], byteOffset), b.indexStep * strides[b.dim]
}

// stageAxes returns the axes of the copy of a block to the buffer. rowStride is the stride between rows in memory.
func (s *stream) stageAxes(b block, rowStride int) (columns, rows strided.Axis) {
	return strided.Axis{N: b.cols, Dst: s.size, Src: s.strides[0]},
		strided.Axis{N: b.rows, Dst: b.cols * s.size, Src: rowStride}
}

// phase returns a phase that applies the epilogue to all elements of the anchor's result.
func (e *Epilogue) phase() graph.Phase {
	var grain int // elements of a chunk
	if elementNS := e.loop.ElementNS(); elementNS > 0 {
		grain = compiledGrain(elementNS)
	} else {
		grain = grainOf(e.code)
	}
	runs := new(graph.PerWorker[EpilogueRun])
	return graph.Phase{Chunks: (e.numel + grain - 1) / grain, Run: func(mem *graph.Mem, chunk int) error {
		run := runs.Get(mem)
		e.Bind(run, mem)
		e.applyRange(run, chunk*grain, min((chunk+1)*grain, e.numel))
		run.Release()
		return nil
	}}
}

// applyRange applies the epilogue to the elements from begin to end-1 of the anchor's result, in the order of memory.
func (e *Epilogue) applyRange(run *EpilogueRun, begin, end int) {
	for i := begin; i < end; {
		length := end - i
		if !e.isDense { // each row ends at the end of the fastest dimension
			length = min(length, e.sizes[0]-i%e.sizes[0])
		}
		const rows, rowStride, colStride = 1, 0, 1
		e.Apply(run, e.offset(i), rows, rowStride, length, colStride)
		i += length
	}
}

// offset returns the offset in memory of an element of the anchor's result. index is the number of elements before it
// in memory.
func (e *Epilogue) offset(index int) (memoryOffset int) {
	if e.isDense {
		return index
	}
	for dim, size := range e.sizes {
		memoryOffset += index % size * e.strides[dim]
		index /= size
	}
	return memoryOffset
}
