package fusion

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// Epilogue is an expression that a fused step applies to each element of the result of its anchor, a product or a
// convolution. The expression may have further operands. The outputs of the expression are the results of the step. The
// memory of one of these results contains the anchor's result until the epilogue overwrites it. Implementations with
// [graph.Impl.Epilogues] apply the epilogue to each part of the anchor's result when the part is final and still in a
// cache. An Epilogue is immutable once its kernel is made, and may then be used by several goroutines.
//
// A kernel that is being made calls [EpilogueOf]. It then has three choices:
//   - It applies [Epilogue.Chain] in registers, and calls [Epilogue.SetInRegisters].
//   - When it runs, it calls [Epilogue.Apply] for each rectangle of final elements.
//   - It calls [Epilogue.Defer]. A phase after the kernel then applies the epilogue.
//
// For example, a kernel computes a row-major product of 64 x 32 elements in tiles of 8 x 16. After the second tile of
// the second row of tiles, it calls
//
//	var run EpilogueRun    // of a worker
//	e.Bind(&run, mem)
//	e.Apply(&run, 8*32+16, 8, 32, 16, 1)    // rows 8 to 15, columns 16 to 31
//	run.Release()
type Epilogue struct {
	code    *expr.Code  // operand 0 is the anchor's result
	loop    *loops.Loop // compiled loop of the expression; nil if the kernel applies the code in registers
	streams []stream    // results, then operands, in the order of the expression
	sizes   []int       // dimensions of the anchor's result in memory, joined where possible, the fastest first
	strides []int       // strides of these dimensions in elements
	numel   int         // number of elements of the anchor's result
	isDense bool        // whether the anchor's result is dense

	stageBytes int // size of the buffer of staged streams (see stream); 0 if there are none

	inRegisters bool // whether the kernel applies the code in registers: see SetInRegisters
	isDeferred  bool // whether a phase after the kernel applies the epilogue: see Defer
}

// stream describes the memory of an operand or a result of an epilogue. If the memory is not contiguous, the stream is
// staged: the loop accesses a copy in a buffer.
type stream struct {
	addressIndex int   // index of the stream's address among the addresses of the anchor's kernel
	strides      []int // strides in bytes of the dimensions of Epilogue.sizes
	size         int   // size of an element in bytes
	isStaged     bool
	stageOffset  int // of a staged stream: offset of the copy in the buffer
}

// EpilogueOf returns the epilogue that the kernel of a call must apply, or nil if there is none.
func EpilogueOf(call *graph.Call) *Epilogue {
	if call == nil {
		return nil
	}
	epilogue, _ := call.Epilogue.(*Epilogue)
	return epilogue
}

// Code returns the expression of the epilogue. Operand 0 is the anchor's result.
func (e *Epilogue) Code() *expr.Code {
	if e == nil {
		return nil
	}
	return e.code
}

// SetInRegisters records that the kernel applies [Epilogue.Chain] in registers. It must be called while the kernel is
// made. Listings of code then have no loop for the epilogue.
func (e *Epilogue) SetInRegisters() {
	if e != nil {
		e.inRegisters = true
	}
}

// Defer records that the kernel does not apply the epilogue. It must be called while the kernel is made. A phase after
// the kernel then applies the epilogue.
func (e *Epilogue) Defer() {
	if e != nil {
		e.isDeferred = true
	}
}

// newEpilogue prepares the epilogue of a fused node for the layouts of a call of the node. The carrier is the result
// whose memory contains the anchor's result. The anchor's operands are the first fused.AnchorOperands operands of the
// call. The addresses of the anchor's kernel are the carrier, then all operands, and then the other results.
func newEpilogue(fused *Fusion, call *graph.Call) (*Epilogue, error) {
	carrier := fused.carrierResult()
	if carrier < 0 || len(call.Out) != len(fused.code.Out) || len(fused.code.In) != 1+len(call.In)-fused.AnchorOperands {
		return nil, errors.New("only passes can make epilogues")
	}
	epilogue := &Epilogue{code: fused.code}
	metas := make([]tensor.Meta, 0, len(call.Out)+len(fused.code.In)) // the layout of each stream
	addStream := func(meta tensor.Meta, addressIndex int) {
		epilogue.streams = append(epilogue.streams, stream{addressIndex: addressIndex, size: meta.DType.Size()})
		metas = append(metas, meta)
	}
	const carrierAddress = 0
	nextAddress := 1 + len(call.In)
	for i, meta := range call.Out {
		if i == carrier {
			addStream(meta, carrierAddress)
			continue
		}
		addStream(meta, nextAddress)
		nextAddress++
	}
	result := call.Out[carrier]
	addStream(result, carrierAddress) // operand 0 of the expression: the anchor's result
	for i := fused.AnchorOperands; i < len(call.In); i++ {
		operandAddress := 1 + i // after the carrier
		addStream(call.Meta(i), operandAddress)
	}
	if err := epilogue.setDimensions(result, metas); err != nil {
		return nil, err
	}
	return epilogue, nil
}

// setDimensions sets sizes, strides and the strides of all streams. It joins two adjacent dimensions of the anchor's
// result if, in every stream, one stride steps through both. metas has the layout of each stream. For example, a
// row-major result [2, 3, 4] has sizes [24] if all streams have its layout. If an operand of 4-byte elements has shape
// [3, 1], no dimensions are joined: sizes is [4, 3, 2], strides is [1, 4, 12], and the strides of the operand are [0,
// 4, 0].
func (e *Epilogue) setDimensions(result tensor.Meta, metas []tensor.Meta) error {
	e.numel, e.isDense = result.Numel(), result.IsNonOverlappingAndDense()
	e.sizes, e.strides = []int{1}, []int{1} // the fastest dimension replaces the size; its stride is 1
	for i := range e.streams {
		e.streams[i].strides = []int{e.streams[i].size}
	}
	extent := 1 // distance in elements from the first element to the end of the dimensions so far
	for _, dim := range dimensionsByStride(result) {
		if result.Strides[dim] < extent {
			return errors.New("elements of the anchor's result overlap in memory")
		}
		extent = result.Strides[dim] * result.Shape[dim]
		last := len(e.sizes) - 1
		canJoin := true // whether, in every stream, one stride steps through dimension `last` of sizes and dim
		streamStrides := e.streamStrides(metas, dim, result.Rank())
		for i, stride := range streamStrides {
			canJoin = canJoin && stride == e.streams[i].strides[last]*e.sizes[last]
		}
		switch {
		case e.sizes[last] == 1: // dim is the fastest dimension
			e.sizes[last] = result.Shape[dim]
		case canJoin: // dimension `last` becomes longer, and the strides stay
			e.sizes[last] *= result.Shape[dim]
			continue
		default: // dim is a further dimension
			e.sizes, e.strides = append(e.sizes, result.Shape[dim]), append(e.strides, result.Strides[dim])
		}
		for i := range e.streams {
			stream := &e.streams[i]
			stream.strides = append(stream.strides[:len(e.sizes)-1], streamStrides[i])
		}
	}
	return nil
}

// dimensionsByStride returns the dimensions of more than one element, the fastest first.
func dimensionsByStride(meta tensor.Meta) (dims []int) {
	for dim, size := range meta.Shape {
		if size > 1 {
			dims = append(dims, dim)
		}
	}
	sorted.Func(dims, func(first, second int) int { return meta.Strides[first] - meta.Strides[second] })
	return dims
}

// streamStrides returns the stride in bytes of each stream along dimension dim of the anchor's result, which has the
// given rank. The stride is 0 where a stream is broadcast.
func (e *Epilogue) streamStrides(metas []tensor.Meta, dim, rank int) []int {
	strides := make([]int, len(metas))
	for i, meta := range metas {
		// Operands of lower rank lack the first dimensions of the result.
		if streamDim := dim - (rank - meta.Rank()); streamDim >= 0 && meta.Shape[streamDim] > 1 {
			strides[i] = meta.Strides[streamDim] * e.streams[i].size
		}
	}
	return strides
}

// stageElements is the number of elements of each staged stream in the buffer.
const stageElements = 2048

// compile compiles the loop of an epilogue that no kernel applies in registers.
func (e *Epilogue) compile() (err error) {
	resultCount := len(e.code.Out)
	loop := &expr.Loop{Code: e.code, Uniform: make([]bool, len(e.code.In))}
	for i := range e.streams {
		stream := &e.streams[i]
		switch stride := stream.strides[0]; {
		case stride == stream.size: // contiguous
		case stride == 0 && i >= resultCount: // an operand with one element along the loop
			loop.Uniform[i-resultCount] = true
		default:
			stream.isStaged, stream.stageOffset = true, e.stageBytes
			e.stageBytes += stageElements * stream.size
		}
	}
	e.loop, err = loops.New(loop, loops.Options{})
	return err
}

// listings lists the code of the anchor's kernel. It also lists the code of the epilogue, if the kernel does not
// contain it.
func (e *Epilogue) listings(kernel *graph.Kernel) (list []expr.Listing) {
	if kernel.Code != nil {
		list = kernel.Code()
	}
	if e.inRegisters {
		return list
	}
	return append(list, e.loop.Listing("epilogue"))
}

// This part runs epilogues: [Epilogue.Apply] divides a rectangle of the anchor's result into blocks, and runs the
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
