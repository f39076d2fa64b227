package rowprog

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// This file determines the memory that loops read and write. A row has all elements along the reduced dimensions of the
// operands. The axes of loops are the fastest kept axis (firstKept), from row to row, and then the reduced axes. A tile
// is a range of rows. A pass is a loop over a tile; it reads and writes operands, outputs, and the rows and numbers
// that the row program stores between passes.

// object is memory that the loops of a tile read or write: an output or operand of the caller, or a buffer in the
// memory of a worker. A worker has buffers for staged copies, stored rows, numbers (one for each row) and accumulators.
// A staged copy is the contiguous copy of an output or operand that loops cannot use in place. Other types identify an
// object by its index in Plan.objects.
//
// For example, a contiguous float32 operand of 100 rows of 64 elements has the strides [256, 4]. The buffer with the
// sums of its rows has the strides [4, 0].
type object struct {
	size    int   // size of an element in bytes
	strides []int // strides in bytes by axis of Plan.axes: from row to row, then along a row

	argument int // index in Plan.metas of the output or operand; -1 for a buffer of the worker

	// A buffer of the worker.

	offset     int // byte offset in the worker's memory
	copies     int // fused passes work on several tiles at once, and consecutive tiles use the copies in rotation
	copyStride int // distance between copies in bytes
}

// builder makes the objects and loops of a plan.
type builder struct {
	*Plan
	outObjects, inObjects     []int       // by output, by operand: the object that the loops of passes use
	rowObjects, numberObjects []int       // the objects of the row program's Rows and Numbers
	perRowStaged              map[int]int // by index in metas: the object of a staged copy with one element for each row
}

// makeArgumentObjects adds the objects of outputs and operands. It adds staged copies of outputs and operands that
// loops of passes cannot use in place.
func (b *builder) makeArgumentObjects() {
	for i, meta := range b.metas {
		obj := object{argument: i, size: meta.DType.Size()}
		for _, dim := range b.axes {
			obj.strides = append(obj.strides, dim.strides[i])
		}
		b.objects = append(b.objects, obj)
	}
	objectOf := make([]int, len(b.metas)) // by output and operand: the object that loops use
	for i := range b.metas {
		objectOf[i] = i
		switch {
		case b.isUsedInPlace(i):
		case b.variesInRow(i): // staged as a whole tile
			const copies = 1
			objectOf[i] = b.allocateTile(b.objects[i].size, copies)
			b.stagedCopies = append(b.stagedCopies, stagedCopy{isOutput: i < b.outCount, isWholeTile: true, argument: i,
				staged: objectOf[i], elem: strided.MoverOf(b.objects[i].size)})
		case b.alongColumns && i >= b.outCount: // an operand with one element for each row
			objectOf[i] = b.perRowObject(i)
		}
	}
	b.outObjects, b.inObjects = objectOf[:b.outCount], objectOf[b.outCount:]
}

// makeStoredObjects adds the buffers of stored rows and numbers. A row may use the memory of an output instead. The
// memory of an output with non-temporal stores is not used, because these stores must write each element only once. A
// scanned row always uses its output.
func (b *builder) makeStoredObjects() {
	for k, row := range b.program.Rows {
		if row.Out >= 0 && (!b.hasNonTemporalStores(row.Out) || row.Scan != expr.Invalid) {
			b.rowObjects = append(b.rowObjects, b.outObjects[row.Out])
			continue
		}
		b.rowObjects = append(b.rowObjects, b.allocateTile(row.DType.Size(), b.rowCopies(k)))
	}
	for _, dtype := range b.program.Numbers {
		b.numberObjects = append(b.numberObjects, b.allocatePerRow(dtype.Size()))
	}
}

// loopObjects returns the objects of the outputs and operands of a pass's loop.
func (b *builder) loopObjects(out, in []expr.Place) (objects []int) {
	for _, place := range out {
		objects = append(objects, b.loopObject(place))
	}
	for _, place := range in {
		objects = append(objects, b.loopObject(place))
	}
	return objects
}

// loopObject returns the object with which the loop of a pass accesses a place ([expr.Place]), or -1 for a result that
// is not stored.
func (b *builder) loopObject(place expr.Place) int {
	switch place.Kind {
	case expr.AtOperand:
		return b.inObjects[place.N]
	case expr.AtOutput:
		return b.outObjects[place.N]
	case expr.AtRow:
		return b.rowObjects[place.N]
	case expr.AtNumber:
		return b.numberObjects[place.N]
	}
	return -1
}

// perRowInput returns the object from which the computation once per row reads a place.
func (b *builder) perRowInput(place expr.Place) int {
	if place.Kind == expr.AtOperand {
		return b.perRowObject(b.outCount + place.N)
	}
	return b.loopObject(place)
}

// perRowOutput returns the object to which the computation once per row writes a place.
func (b *builder) perRowOutput(place expr.Place) int {
	if place.Kind == expr.AtOutput {
		return b.perRowObject(place.N)
	}
	return b.loopObject(place)
}

// perRowObject returns the object of an output or operand that has one element for each row, or of its staged copy if
// the elements are not contiguous over the tile. An operand of stride 0 is not staged. argument is its index in metas
// (outputs, then operands).
func (b *builder) perRowObject(argument int) int {
	obj := b.objects[argument]
	isOutput := argument < b.outCount
	isConstant := obj.strides[firstKept] == 0 && !isOutput
	if obj.strides[firstKept] == obj.size || isConstant || b.tileLen == 1 {
		return argument
	}
	if staged, ok := b.perRowStaged[argument]; ok {
		return staged
	}
	staged := b.allocatePerRow(obj.size)
	b.stagedCopies = append(b.stagedCopies, stagedCopy{isOutput: isOutput, argument: argument, staged: staged,
		elem: strided.MoverOf(obj.size)})
	b.perRowStaged[argument] = staged
	return staged
}

// allocate adds obj as an object in the worker's memory, with obj.copies buffers of the given size, and returns its
// index.
func (b *builder) allocate(bytes int, obj object) int {
	obj.argument, obj.offset = -1, b.workerBytes
	obj.copies, obj.copyStride = max(1, obj.copies), (bytes+tensor.Align-1)&^(tensor.Align-1)
	b.workerBytes += obj.copies * obj.copyStride
	b.objects = append(b.objects, obj)
	return len(b.objects) - 1
}

// allocateTile allocates an object with all elements of a tile, with the given number of copies. If loops run along
// columns, kept[0] is the fastest axis, followed by the reduced axes. Along rows, the reduced axes are the fastest, and
// rows are padded to a multiple of tensor.Align bytes.
func (b *builder) allocateTile(size, copies int) int {
	obj := object{size: size, copies: copies, strides: make([]int, len(b.axes))}
	bytes := size
	addAxis := func(axisIndex int) {
		obj.strides[axisIndex] = bytes
		bytes *= b.maxLength(axisIndex)
	}
	if b.alongColumns {
		addAxis(firstKept)
	}
	for d := range b.reduced {
		addAxis(firstReduced + d)
	}
	if !b.alongColumns {
		bytes = (bytes + tensor.Align - 1) &^ (tensor.Align - 1)
		if b.rowsPerGroup == 0 { // a pipeline stores one row
			addAxis(firstKept)
		}
	}
	return b.allocate(bytes, obj)
}

// allocatePerRow allocates an object with one element for each row of a tile, or of a chunk in a pipeline.
func (b *builder) allocatePerRow(size int) int {
	obj := object{size: size, strides: b.stridesPerRow(size)}
	if b.rowsPerGroup > 0 {
		return b.allocate(size*b.tileLen*b.tilesPerChunk, obj)
	}
	obj.copies = b.passesAtOnce
	return b.allocate(size*b.tileLen, obj)
}

// stridesPerRow returns the strides of an object that has the given number of bytes for each row.
func (b *builder) stridesPerRow(bytes int) []int {
	strides := make([]int, len(b.axes))
	strides[firstKept] = bytes
	return strides
}
