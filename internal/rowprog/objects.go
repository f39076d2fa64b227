package rowprog

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// This file determines the memory that loops read and write.

// object is memory that the loops of a tile read or write: an output or operand of the caller, or a buffer in the
// memory of a worker. A worker has buffers for staged copies, stored rows, numbers (one for each row) and accumulators.
// Other types identify an object by its index in Plan.objects.
//
// For example, a contiguous float32 operand of 100 rows of 64 elements has keptStride 256 and reducedStrides [4]. The
// buffer with the sums of its rows has keptStride 4 and reducedStrides [0].
type object struct {
	size           int   // size of an element in bytes
	keptStride     int   // stride in bytes along kept[0], the fastest axis from row to row
	reducedStrides []int // strides in bytes along the reduced axes, which run along a row

	argument int // index in Plan.metas of the output or operand; -1 for a buffer of the worker

	// A buffer of the worker.

	offset     int // byte offset in the worker's memory
	copies     int // fused passes work on several tiles at once, and consecutive tiles use the copies in turn
	copyStride int // distance between copies in bytes
}

// stride returns the stride in bytes along an axis: firstKept, or the index of a reduced axis.
func (o *object) stride(axisIndex int) int {
	switch {
	case axisIndex == firstKept:
		return o.keptStride
	case axisIndex < 0 || axisIndex >= len(o.reducedStrides):
		return 0
	}
	return o.reducedStrides[axisIndex]
}

// stagedCopy is for an operand or output that loops cannot use in place. They use a buffer of the worker instead. An
// operand is copied to the buffer before the passes, and an output is copied from it after the passes.
type stagedCopy struct {
	isOutput    bool         // copies an output; otherwise an operand
	isWholeTile bool         // copies all elements of the tile; otherwise one element for each row
	argument    int          // the object of the operand or output
	staged      int          // the object of the buffer
	elem        strided.Elem // the copy of one element
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
		obj := object{argument: i, size: meta.DType.Size(), keptStride: b.kept[0].strides[i]}
		for _, dim := range b.reduced {
			obj.reducedStrides = append(obj.reducedStrides, dim.strides[i])
		}
		b.objects = append(b.objects, obj)
	}
	objectOf := make([]int, len(b.metas)) // by output and operand: the object that loops use
	for i := range b.metas {
		objectOf[i] = i
		switch {
		case b.isUsedInPlace(i):
		case b.variesInRow(i):
			objectOf[i] = b.allocateTile(b.objects[i].size, 1)
			b.stagedCopies = append(b.stagedCopies, stagedCopy{isOutput: i < b.outCount, isWholeTile: true, argument: i,
				staged: objectOf[i], elem: strided.MoverOf(b.objects[i].size)})
		case b.alongColumns && i >= b.outCount:
			objectOf[i] = b.perRowObject(i)
		}
	}
	b.outObjects, b.inObjects = objectOf[:b.outCount], objectOf[b.outCount:]
}

// makeStoredObjects adds the buffers of stored rows and numbers. A row may use the memory of an output instead.
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
	isConstant := obj.keptStride == 0 && !isOutput
	if obj.keptStride == obj.size || isConstant || b.tileLen == 1 {
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
	obj := object{size: size, copies: copies, reducedStrides: make([]int, len(b.reduced))}
	stride := size
	if b.alongColumns {
		obj.keptStride = stride
		stride *= b.maxLength(firstKept)
	}
	for d := range b.reduced {
		obj.reducedStrides[d] = stride
		stride *= b.maxLength(d)
	}
	if !b.alongColumns {
		stride = (stride + tensor.Align - 1) &^ (tensor.Align - 1)
		if b.rowsPerGroup == 0 { // a pipeline stores one row
			obj.keptStride = stride
			stride *= b.maxLength(firstKept)
		}
	}
	return b.allocate(stride, obj)
}

// allocatePerRow allocates an object with one element for each row of a tile, or of a chunk in a pipeline.
func (b *builder) allocatePerRow(size int) int {
	obj := object{size: size, keptStride: size, reducedStrides: make([]int, len(b.reduced))}
	if b.rowsPerGroup > 0 {
		return b.allocate(size*b.tileLen*b.tilesPerChunk, obj)
	}
	obj.copies = b.passesAtOnce
	return b.allocate(size*b.tileLen, obj)
}
