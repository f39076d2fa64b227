package index

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The kernel of a gather or a scatter is built and run by these functions:
//
//	kernel, phase   make the kernel
//	divideWork      divides the walk into units of work, after it merged dimensions (merge)
//	runUnit         runs a unit: it calls runRow for each row, a part of the innermost dimension
//	runRow          moves the elements of a row
//	addOffsets      reads indices and adds their offsets in the table

// indexedWalk is the loop that gathers and scatters share. It visits all indices of a shape and moves elements between
// two operands. Operand 0, the plain operand, is accessed by its own strides. Operand 1, the table, is accessed at
// positions given by lookups. The other operands have the indices. A gather reads the table, and a scatter writes the
// table. For example, the walk of result = gather(self, dim 0, index) for matrices is:
//
//	shape:       the shape of index
//	operands[0]: result, with its own strides
//	operands[1]: self, with the strides [0, s1] instead of [s0, s1]
//	operands[2]: index, with its own strides
//	lookups:     for dim 0: operand 2, stride s0
//
//	result[i, j] = the element of self at index[i, j]*s0 + j*s1
//
// If the table has stride 0 in a dimension, a scatter may write several elements along that dimension to the same
// position. Such a dimension is serial: one worker visits its elements in order. Other dimensions are parallel. The
// innermost dimension is divided into pieces. A unit of work is one piece, at one index of the parallel outer
// dimensions. It visits all indices of the serial outer dimensions. For example, index_add along dim 0 with a source of
// shape [3, 1000] has the serial dimension 0 and the parallel innermost dimension 1. A unit is one piece of the
// columns, for all 3 rows.
type indexedWalk struct {
	shape       []int
	operands    []walkOperand
	lookups     []lookup
	writesTable bool // whether the walk is a scatter
	split       *walkSplit
	starts      []int // by operand: offset in bytes of the first element; nil if all are 0

	// Set by divideWork:

	parallelDims, serialDims []int // parallel and serial outer dimensions
	innerDim                 int   // innermost dimension
	pieceLen                 int   // elements per piece of the innermost dimension
	pieces                   int   // number of pieces of the innermost dimension
	units                    int   // number of units of work
	serialCount              int   // number of indices of the serial outer dimensions
	unitsPerChunk            int   // number of units of a chunk
	indicesVary              bool  // whether an index operand has different elements along the innermost dimension
}

const (
	maxOperands    = 12  // greatest number of operands of a walk
	offsetBlockLen = 512 // greatest number of elements whose offsets in the table are computed at once, in worker memory
	minPieceLen    = 64  // least length of a piece, unless the dimension is shorter
)

// walkSplit describes a table that is packed ([graph.Packed.View]): dimension dim of the walk is in blocks of width
// elements, at byteBlock from one another.
type walkSplit struct{ dim, width, byteBlock int }

// readsView implements [graph.Impl.ReadsView] for gathers, which read operand 0 by its strides.
func readsView(_ *graph.Call, i int) bool { return i == 0 }

// tableMeta returns the meta of operand 0, the table of a gather. If it is packed, the strides are those within blocks,
// and readView adds the blocks.
func tableMeta(c *graph.Call) tensor.Meta {
	meta := c.Meta(0)
	if packed := c.Packed(0); packed != nil {
		meta.Strides = slices.Delete(slices.Clone(packed.View.Strides), packed.SplitDim, packed.SplitDim+1)
	}
	return meta
}

// readView makes the walk of a gather read the blocks of a packed table. walkDim returns the dimension of the walk for
// a dimension of the table without a lookup.
func (walk *indexedWalk) readView(c *graph.Call, walkDim func(tableDim int) int) {
	packed := c.Packed(0)
	if packed == nil {
		return
	}
	dim, size := packed.SplitDim, packed.View.DType.Size()
	blocks := tensor.Meta{Shape: packed.View.Shape[dim : dim+2], Strides: packed.View.Strides[dim : dim+2]}
	for i := range walk.lookups {
		if l := &walk.lookups[i]; l.dim == dim { // an index is a flat index into blocks
			l.flatLayout, l.byteStride = &blocks, size
			return
		}
	}
	walk.split = &walkSplit{walkDim(dim), blocks.Shape[1], blocks.Strides[0] * size}
}

// parts returns walks that together do what the walk does, without split: the dimension becomes two, of the blocks and
// within a block, and the elements behind the last whole block are a walk of their own.
func (walk *indexedWalk) parts() []*indexedWalk {
	split := walk.split
	if split == nil {
		return []*indexedWalk{walk}
	}
	var parts []*indexedWalk
	blocks, rest := walk.shape[split.dim]/split.width, walk.shape[split.dim]%split.width
	if blocks > 0 {
		whole := *walk
		whole.split, whole.shape = nil, slices.Replace(slices.Clone(walk.shape), split.dim, split.dim+1, blocks, split.width)
		whole.operands = slices.Clone(walk.operands)
		for i := range whole.operands {
			steps := &whole.operands[i].byteStrides
			*steps = slices.Insert(slices.Clone(*steps), split.dim, split.blockStep(walk.operands, i))
		}
		parts = append(parts, &whole)
	}
	if rest > 0 {
		last := *walk
		last.split, last.shape = nil, slices.Clone(walk.shape)
		last.shape[split.dim] = rest
		last.operands = slices.Clone(walk.operands) // divideWork changes the elements
		for i := range last.operands {
			last.starts = append(last.starts, blocks*split.blockStep(walk.operands, i))
		}
		parts = append(parts, &last)
	}
	return parts
}

// blockStep returns the distance in bytes of the blocks of operand i.
func (s *walkSplit) blockStep(operands []walkOperand, i int) int {
	if i == 1 { // the table
		return s.byteBlock
	}
	return s.width * operands[i].byteStrides[s.dim]
}

// walkOperand is an operand of an indexed walk.
type walkOperand struct {
	kit.Buffer
	byteStrides []int // strides in bytes in the dimensions of the walk
}

// operandAt returns the operand at Mem.Ptrs[ptrIndex] with the given meta. The walk has the dimensions of the meta. In
// Mem.Ptrs, the result of the op comes first, then the operands of the op.
func operandAt(ptrIndex int, meta tensor.Meta) walkOperand {
	return walkOperand{kit.PtrBuffer(ptrIndex, meta), kit.ByteStrides(meta)}
}

// lookup describes a dimension of the table (the value that is indexed) and its indices. A negative index counts from
// the end, unless fromStart is set.
type lookup struct {
	operand    int  // operand of the walk that has the index
	byteOffset int  // offset in bytes of the index from the operand's address; 0 except for tuples (gather_nd)
	isInt64    bool // the index is int64, else int32
	dim        int  // the dimension, for error messages
	size       int  // size of the dimension
	byteStride int  // stride of the dimension in bytes, or bytes of an element if flatLayout is set
	fromStart  bool // a negative index is out of bounds
	// flatLayout is the layout of the table if the index is a flat row-major index; else nil.
	flatLayout *tensor.Meta
}

// lookupAlong returns the lookup for dimension dim of a table with the given meta. Operand 2 of the walk indexes the
// dimension, and index is the operand's meta.
func lookupAlong(table, index tensor.Meta, dim int) lookup {
	return lookup{operand: 2, isInt64: index.DType == tensor.Int64, dim: dim, size: sizeAt(table, dim),
		byteStride: kit.ByteStride(table, dim)}
}

// withoutStride returns a copy of strides in which the stride of dimension dim is 0.
func withoutStride(strides []int, dim int) []int {
	out := append([]int(nil), strides...)
	if len(out) > 0 {
		out[dim] = 0
	}
	return out
}

// kernel returns a kernel that runs the walk.
func (walk *indexedWalk) kernel(rowLoops kit.RowLoops) *graph.Kernel {
	const offsetBytes = 8
	kernel := &graph.Kernel{WorkerScratch: offsetBlockLen * offsetBytes}
	for _, part := range walk.parts() {
		kernel.Phases = append(kernel.Phases, part.phase(rowLoops))
	}
	if form := walk.form(); form != nil {
		kernel.Forms = []graph.Form{form}
	}
	return kernel
}

// phase returns the phase that runs the walk. rowLoops are the loops over a row of elements.
func (walk *indexedWalk) phase(rowLoops kit.RowLoops) graph.Phase {
	walk.divideWork()
	return graph.Phase{Chunks: kit.DivUp(walk.units, walk.unitsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		offsets := unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), offsetBlockLen)
		for unit := chunk * walk.unitsPerChunk; unit < min(walk.units, (chunk+1)*walk.unitsPerChunk); unit++ {
			if err := walk.runUnit(mem, rowLoops, unit, offsets); err != nil {
				return err
			}
		}
		return nil
	}}
}

// divideWork divides the walk into units of work.
func (walk *indexedWalk) divideWork() {
	walk.merge()
	walk.innerDim = len(walk.shape) - 1
	walk.serialCount, walk.units = 1, 1
	for dim := range walk.innerDim {
		if walk.isSerial(dim) {
			walk.serialDims = append(walk.serialDims, dim)
			walk.serialCount *= walk.shape[dim]
		} else {
			walk.parallelDims = append(walk.parallelDims, dim)
			walk.units *= walk.shape[dim]
		}
	}

	innerSize := walk.shape[walk.innerDim]
	// A serial innermost dimension is one piece. Otherwise, the length is such that a unit, which visits its piece
	// serialCount times, moves about GatherGrain elements.
	walk.pieceLen = max(1, innerSize)
	if !walk.isSerial(walk.innerDim) {
		walk.pieceLen = max(1, min(innerSize, max(minPieceLen, machine.GatherGrain/max(1, walk.serialCount))))
	}
	walk.pieces = kit.DivUp(innerSize, walk.pieceLen)
	walk.units *= walk.pieces
	if walk.serialCount == 0 { // a serial dimension is empty: units have nothing to do
		walk.units = 0
	}

	walk.unitsPerChunk = max(1, machine.GatherGrain/max(1, walk.serialCount*walk.pieceLen))
	for _, l := range walk.lookups {
		walk.indicesVary = walk.indicesVary || walk.operands[l.operand].byteStrides[walk.innerDim] != 0
	}
}

// merge merges dimensions that are contiguous in all operands, and drops dimensions of size 1. For example, the shape
// [2 1 3 4] becomes [24] if all operands are row-major, and [6 4] if dimensions 2 and 3 are not contiguous.
func (walk *indexedWalk) merge() {
	var dims []int                             // the remaining dimensions; the last of each set of merged dimensions
	shape := append([]int(nil), walk.shape...) // with the sizes of merged dimensions multiplied
	for dim, size := range shape {
		if size == 1 && len(shape) > 1 {
			continue
		}
		if k := len(dims) - 1; k >= 0 && walk.isSerial(dims[k]) == walk.isSerial(dim) {
			if previous := dims[k]; walk.areContiguous(previous, dim, size) {
				shape[dim] *= shape[previous]
				dims[k] = dim
				continue
			}
		}
		dims = append(dims, dim)
	}
	for i := range walk.operands {
		steps := make([]int, len(dims))
		for k, dim := range dims {
			steps[k] = walk.operands[i].byteStrides[dim]
		}
		walk.operands[i].byteStrides = steps
	}
	walk.shape = nil
	for _, dim := range dims {
		walk.shape = append(walk.shape, shape[dim])
	}
	if len(walk.shape) == 0 { // a 0-dim walk has one element
		walk.shape = []int{1}
		for i := range walk.operands {
			walk.operands[i].byteStrides = []int{0}
		}
	}
}

// areContiguous reports whether dimensions outer and inner are contiguous in all operands: stride[outer] =
// stride[inner]*size. size is the size of inner.
func (walk *indexedWalk) areContiguous(outer, inner, size int) bool {
	for _, operand := range walk.operands {
		if operand.byteStrides[outer] != operand.byteStrides[inner]*size {
			return false
		}
	}
	return true
}

// isSerial reports whether one worker has to visit the elements along a dimension in order.
func (walk *indexedWalk) isSerial(dim int) bool {
	return walk.writesTable && walk.operands[1].byteStrides[dim] == 0
}

// runUnit runs a unit of work. offsets is memory for the offsets of offsetBlockLen elements.
func (walk *indexedWalk) runUnit(mem *graph.Mem, rowLoops kit.RowLoops, unit int, offsets []int) error {
	var startAddresses [maxOperands]unsafe.Pointer
	for operandIndex := range walk.operands {
		startAddresses[operandIndex] = walk.operands[operandIndex].Address(mem)
		if walk.starts != nil {
			startAddresses[operandIndex] = unsafe.Add(startAddresses[operandIndex], walk.starts[operandIndex])
		}
	}
	// unit = index in the parallel dimensions * pieces + piece. begin is the start of the piece.
	begin := unit % walk.pieces * walk.pieceLen
	walk.moveAddresses(&startAddresses, walk.parallelDims, unit/walk.pieces)
	for operandIndex := range walk.operands {
		byteStride := walk.operands[operandIndex].byteStrides[walk.innerDim]
		startAddresses[operandIndex] = unsafe.Add(startAddresses[operandIndex], begin*byteStride)
	}
	count := min(walk.pieceLen, walk.shape[walk.innerDim]-begin)
	// Tuples of no indices have no lookup. With several lookups, runSerialRows could report the error of a later row.
	if !walk.indicesVary && len(walk.serialDims) == 1 && len(walk.lookups) == 1 && !walk.isSerial(walk.innerDim) {
		return walk.runSerialRows(mem, rowLoops, &startAddresses, count, offsets)
	}
	for i := range walk.serialCount {
		addresses := startAddresses
		walk.moveAddresses(&addresses, walk.serialDims, i)
		if err := walk.runRow(mem, rowLoops, &addresses, count, offsets); err != nil {
			return err
		}
	}
	return nil
}

// moveAddresses moves the addresses of the operands from index 0 of the dimensions dims to the flat row-major index i.
func (walk *indexedWalk) moveAddresses(addresses *[maxOperands]unsafe.Pointer, dims []int, i int) {
	for k := len(dims) - 1; k >= 0; k-- {
		dim := dims[k]
		indexInDim := i % walk.shape[dim]
		i /= walk.shape[dim]
		for operandIndex := range walk.operands {
			byteStride := walk.operands[operandIndex].byteStrides[dim]
			addresses[operandIndex] = unsafe.Add(addresses[operandIndex], indexInDim*byteStride)
		}
	}
}

// runRow moves count elements along the innermost dimension. addresses are the addresses of the operands. offsets is
// memory for the offsets of offsetBlockLen elements.
func (walk *indexedWalk) runRow(mem *graph.Mem, rowLoops kit.RowLoops, addresses *[maxOperands]unsafe.Pointer,
	count int, offsets []int) error {
	if !walk.indicesVary {
		return walk.runRowOfOneIndex(mem, rowLoops, addresses, count)
	}
	return walk.runRowOfIndices(mem, rowLoops, addresses, count, offsets)
}

// runRowOfOneIndex is runRow for indices that do not vary along the innermost dimension. It reads them once.
func (walk *indexedWalk) runRowOfOneIndex(mem *graph.Mem, rowLoops kit.RowLoops,
	addresses *[maxOperands]unsafe.Pointer, count int) error {
	plainStep, tableStep := walk.operands[0].byteStrides[walk.innerDim], walk.operands[1].byteStrides[walk.innerDim]
	plain, table := addresses[0], addresses[1]
	for i := range walk.lookups {
		offset, err := walk.lookups[i].offset(addresses[walk.lookups[i].operand])
		if err != nil {
			return err
		}
		table = unsafe.Add(table, offset)
	}
	kit.ForEachBlock(mem.Context, count, func(begin, end int) {
		rowLoops.Strided(unsafe.Add(plain, begin*plainStep), unsafe.Add(table, begin*tableStep), plainStep, tableStep,
			end-begin)
	})
	mem.CheckContextAfter(count)
	return nil
}

// runRowOfIndices is runRow for indices that vary along the innermost dimension. It computes the offsets of a block of
// elements in the table, and then moves these elements.
func (walk *indexedWalk) runRowOfIndices(mem *graph.Mem, rowLoops kit.RowLoops,
	addresses *[maxOperands]unsafe.Pointer, count int, offsets []int) error {
	plainStep := walk.operands[0].byteStrides[walk.innerDim]
	plain, table := addresses[0], addresses[1]
	for first := 0; first < count; first += offsetBlockLen {
		block := offsets[:min(offsetBlockLen, count-first)]
		if err := walk.setOffsets(block, addresses, walk.innerDim, first); err != nil {
			return err
		}
		rowLoops.AtOffsets(unsafe.Add(plain, first*plainStep), table, plainStep, block)
		mem.CheckContextAfter(len(block) * (1 + len(walk.lookups)))
	}
	return nil
}

// runSerialRows runs a unit with one serial outer dimension and one lookup, whose indices do not vary along the
// innermost dimension. It moves count elements in each row. offsets is memory for the offsets of offsetBlockLen rows.
func (walk *indexedWalk) runSerialRows(mem *graph.Mem, rowLoops kit.RowLoops, addresses *[maxOperands]unsafe.Pointer,
	count int, offsets []int) error {
	plainStep, tableStep := walk.operands[0].byteStrides[walk.innerDim], walk.operands[1].byteStrides[walk.innerDim]
	plain, table := addresses[0], addresses[1]
	dim := walk.serialDims[0]
	rowStep := walk.operands[0].byteStrides[dim]
	for first := 0; first < walk.serialCount; first += offsetBlockLen {
		block := offsets[:min(offsetBlockLen, walk.serialCount-first)]
		if err := walk.setOffsets(block, addresses, dim, first); err != nil {
			return err
		}
		for k, offset := range block {
			rowLoops.Strided(unsafe.Add(plain, (first+k)*rowStep), unsafe.Add(table, offset), plainStep, tableStep, count)
			mem.CheckContextAfter(count)
		}
	}
	return nil
}

// setOffsets sets offsets to the byte offsets in the table of the elements along a dimension, from index first on. The
// walk has at least one lookup. addresses are the addresses of the operands at index 0 of the dimension.
func (walk *indexedWalk) setOffsets(offsets []int, addresses *[maxOperands]unsafe.Pointer, dim, first int) error {
	tableStep := walk.operands[1].byteStrides[dim]
	base := &linearOffsets{first * tableStep, tableStep}
	for i := range walk.lookups {
		l := &walk.lookups[i]
		step := walk.operands[l.operand].byteStrides[dim]
		if err := l.addOffsets(offsets, base, unsafe.Add(addresses[l.operand], first*step), step); err != nil {
			return err
		}
		base = nil // the offsets of later lookups are added to the offsets of the first lookup
	}
	return nil
}

// linearOffsets are the offsets start, start+step, start+2*step, and so on.
type linearOffsets struct{ start, step int }

// offset reads the index at an address and returns its byte offset in the table.
func (l *lookup) offset(address unsafe.Pointer) (int, error) {
	var offsets [1]int
	const step = 0
	err := l.addOffsets(offsets[:], &linearOffsets{}, address, step)
	return offsets[0], err
}

// addOffsets reads indices that are step bytes apart, from an address on. It sets offsets to base plus the byte offsets
// of the indices in the table. If base is nil, it adds the byte offsets to offsets.
func (l *lookup) addOffsets(offsets []int, base *linearOffsets, address unsafe.Pointer, step int) error {
	address = unsafe.Add(address, l.byteOffset)
	isFlat := l.flatLayout != nil && !l.flatLayout.IsContiguous()
	if isFlat && base != nil {
		for k := range offsets {
			offsets[k] = base.start + k*base.step
		}
	}
	switch {
	case isFlat && l.isInt64:
		return addFlatOffsets[int64](l, offsets, address, step)
	case isFlat:
		return addFlatOffsets[int32](l, offsets, address, step)
	case l.isInt64:
		return addStridedOffsets[int64](l, offsets, base, address, step)
	}
	return addStridedOffsets[int32](l, offsets, base, address, step)
}

// addStridedOffsets is addOffsets for indices whose offsets are multiples of byteStride.
func addStridedOffsets[T int32 | int64](l *lookup, offsets []int, base *linearOffsets, address unsafe.Pointer,
	step int) error {
	size, byteStride := l.size, l.byteStride
	fromEnd := size // added to negative indices
	if l.fromStart {
		fromEnd = 0
	}
	isAdded := base == nil
	start, startStep := 0, 0
	if !isAdded {
		start, startStep = base.start, base.step
	}
	for k := range offsets {
		i := int(*(*T)(unsafe.Add(address, k*step)))
		if i < 0 {
			i += fromEnd
		}
		if uint(i) >= uint(size) {
			return outOfBounds(int64(*(*T)(unsafe.Add(address, k*step))), l.dim, size)
		}
		if isAdded {
			start = offsets[k]
		}
		offsets[k] = start + i*byteStride
		start += startStep
	}
	return nil
}

// addFlatOffsets is addOffsets, without base, for flat indices into a table that is not row-major.
func addFlatOffsets[T int32 | int64](l *lookup, offsets []int, address unsafe.Pointer, step int) error {
	shape, strides := l.flatLayout.Shape, l.flatLayout.Strides
	for k := range offsets {
		index := *(*T)(unsafe.Add(address, k*step))
		i := int(index)
		if i < 0 && !l.fromStart {
			i += l.size
		}
		if uint(i) >= uint(l.size) {
			return outOfBounds(int64(index), l.dim, l.size)
		}
		// i = (i0*n1 + i1)*n2 + i2 ...: the last dimension varies fastest.
		elements := 0
		for dim := len(shape) - 1; dim >= 0; dim-- {
			elements += i % shape[dim] * strides[dim]
			i /= shape[dim]
		}
		offsets[k] += elements * l.byteStride
	}
	return nil
}

// outOfBounds returns the error for index i of a dimension.
func outOfBounds(i int64, dim, size int) error {
	return fmt.Errorf("index %d is out of bounds for dimension %d with size %d", i, dim, size)
}

// form returns the description from which kernels for devices, such as GPUs, are generated. It returns nil if the walk
// writes the table or has flat indices, or if an operand is packed, is in scratch memory or is embedded in the kernel.
func (walk *indexedWalk) form() *graph.Gather {
	if walk.writesTable || walk.split != nil {
		return nil
	}
	form := &graph.Gather{Size: walk.operands[0].Meta.DType.Size(), Shape: walk.shape}
	for _, operand := range walk.operands {
		index, offset, ok := operand.PtrIndex()
		if !ok {
			return nil
		}
		form.Operands = append(form.Operands, graph.GatherOperand{Index: index, Offset: offset, Strides: operand.byteStrides})
	}
	for _, l := range walk.lookups {
		if l.flatLayout != nil {
			return nil
		}
		form.Lookups = append(form.Lookups, graph.GatherIndex{Operand: l.operand, Offset: l.byteOffset, Int64: l.isInt64,
			Size: l.size, Step: l.byteStride, FromStart: l.fromStart})
	}
	return form
}

// checkIndexDType rejects dtypes that cannot hold indices.
func checkIndexDType(op string, dtype tensor.DType) error {
	if dtype != tensor.Int64 && dtype != tensor.Int32 {
		return fmt.Errorf("%s(): Expected dtype int32/int64 for index", op)
	}
	return nil
}

// sizeAt returns the size of a dimension. It returns 1 for a 0-dim value.
func sizeAt(meta tensor.Meta, dim int) int {
	if meta.Rank() == 0 {
		return 1
	}
	return meta.Shape[dim]
}

// refIndex reads the element of an index operand at a position, and checks it as a lookup does. size is the size of
// dimension dim.
func refIndex(indices *tensor.Tensor, size, dim int, position ...int) (int, error) {
	i := indices.At(position...).Int()
	if n := int64(size); i < -n || i >= n {
		return 0, outOfBounds(i, dim, size)
	}
	if i < 0 {
		return int(i) + size, nil
	}
	return int(i), nil
}
