package lower

import (
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// minTiled is the least size of both dimensions of a tile. If one is smaller, a tile would have few elements. The
// threads of a group then read most of each memory transaction even without a tile.
const minTiled = 16

// tile generates the kernel of a pointwise expression with transposed inputs: the fastest dimensions of an input and
// of the output differ. A group computes a square tile of elements along both dimensions. Adjacent threads
// first read adjacent elements of a transposed input, and store them in the memory of the group (fill). After a
// barrier, adjacent threads compute adjacent elements of the output (compute).
//
// For example, let out[i, j] = x[j, i] have float32 elements and tiles of 32x32 elements. The threads of a row of the
// tile read x[j, i] for 32 adjacent i, and later write out[i, j] for 32 adjacent j. Without the tile, they would write
// 32 adjacent elements but read elements that are a row of x apart.
type tile struct {
	*pointwise
	inputDim       int        // the fastest dimension of transposed inputs; that of the output is 0
	side           int        // elements along a side of a tile, a power of 2
	threadsPerSide int        // threads along a side: side/vector
	inputs         []int      // the operands that are read by way of group memory
	firstIndex     []ir.Value // the index in each dimension of the tile's first element
	arrays         [][]uint64 // by index in inputs: the arrays in group memory, one for each number of an element
	reads          []access   // by index in inputs: the elements along inputDim that a thread reads at once
}

// newTile returns the generator for a kernel with tiles, or nil if no input is transposed.
func newTile(kernel *pointwise) *tile {
	created := &tile{pointwise: kernel, side: 32}
	for i := len(kernel.code.Out); i < len(kernel.dtypes); i++ {
		dim := kernel.fastest(i)
		if created.inputDim == 0 && min(kernel.shape[0], kernel.shape[dim]) >= minTiled {
			created.inputDim = dim
		}
		if dim > 0 && dim == created.inputDim && created.bytes(append(created.inputs, i)) <= maxGroupMemory {
			created.inputs = append(created.inputs, i)
		}
	}
	if len(created.inputs) == 0 || created.isTooLong() {
		return nil
	}
	created.setVectors()
	// If no element has more than 2 bytes, the tile is larger if possible, so that a row of the tile has at least 64
	// bytes.
	if larger := *created; larger.vector > 1 {
		if larger.side = 64; larger.bytes(larger.inputs) <= maxGroupMemory && !larger.isTooLong() {
			created.side = 64
		}
	}
	created.threadsPerSide = created.side / created.vector
	return created
}

// transactionBytes is the size of the smallest read of memory. Operands with a greater stride gain nothing by tiles.
const transactionBytes = 32

// fastest returns the dimension of the least stride of an operand other than 0. It returns 0 if there is none, or if
// the stride is transactionBytes or more. It also returns 0 if the operand is broadcast along dimension 0, because the
// threads of a row then read one address.
func (p *pointwise) fastest(i int) (fastest int) {
	if p.strides[i][0] == 0 {
		return 0
	}
	least := transactionBytes
	for dim, stride := range p.strides[i] {
		if p.shape[dim] > 1 && stride != 0 && stride < least {
			fastest, least = dim, stride
		}
	}
	return fastest
}

// bytes returns the size of the group memory for the inputs of a tile.
func (t *tile) bytes(inputs []int) (bytes int) {
	for _, i := range inputs {
		bytes += t.side * t.side * t.numbersPerElement(i) * sharedType(t.dtypes[i].ToReal()).Size()
	}
	return bytes
}

// isTooLong reports whether a thread that computes its part of a tile exceeds maxInstructions.
func (t *tile) isTooLong() bool { return t.side*t.side/groupSize*len(t.code.Insts) > maxInstructions }

// setVectors sets the elements that a thread reads or writes at once, up to 4 bytes in each operand.
func (t *tile) setVectors() {
	widest := 1
	for _, dtype := range t.dtypes {
		widest = max(widest, dtype.Size())
	}
	vector := max(4/widest, 1)
	for t.shape[0]%vector != 0 || t.shape[t.inputDim]%vector != 0 {
		vector /= 2
	}
	t.pointwise.setVector(vector)
	for _, i := range t.inputs {
		shape, strides := slices.Clone(t.shape), slices.Clone(t.strides[i])
		shape[0], shape[t.inputDim] = shape[t.inputDim], shape[0] // inputDim is the fastest
		strides[0], strides[t.inputDim] = strides[t.inputDim], strides[0]
		t.reads = append(t.reads, access{dtype: t.dtypes[i], stride: strides[0], vector: vector,
			align: alignOf(t.dtypes[i], t.alignmentBits[i], shape, strides, vector)})
	}
}

// launch builds the kernel and returns its only launch.
func (t *tile) launch() ([]Launch, error) {
	const u32 = tensor.Uint32
	counts := slices.Clone(t.shape) // tiles along each dimension
	for _, dim := range []int{0, t.inputDim} {
		counts[dim] = (t.shape[dim] + t.side - 1) / t.side
	}
	t.firstIndex = t.indexInShape(t.Emit(ir.Group, u32), counts)
	for _, dim := range []int{0, t.inputDim} {
		t.firstIndex[dim] = t.mul32(t.firstIndex[dim], t.side)
	}
	thread := t.Emit(ir.Thread, u32)
	// A thread accesses vectors at the positions threadLane*vector along the fastest dimension, and row,
	// row+groupSize/threadsPerSide and so on along the other one.
	threadLane, row := t.op(lane.And, u32, thread, t.u32(t.threadsPerSide-1)), t.quotient(thread, t.threadsPerSide)
	t.fill(threadLane, row)
	t.Emit(ir.Barrier, tensor.Invalid)
	for step := 0; step < t.side; step += groupSize / t.threadsPerSide {
		t.compute(threadLane, t.add32(row, t.u32(step)))
	}
	return t.checkedLaunch(tensor.Numel(counts))
}

// fill copies the transposed inputs to group memory. It loads all elements before it stores one, so that the loads
// overlap.
func (t *tile) fill(threadLane, row ir.Value) {
	rowStep := groupSize / t.threadsPerSide
	loaded := make([][][]ir.Value, len(t.inputs)) // by index in inputs and by step: the numbers of a vector
	for position, i := range t.inputs {
		var arrays []uint64
		for range t.numbersPerElement(i) {
			arrays = append(arrays, t.Array(sharedType(t.dtypes[i].ToReal()), t.side*t.side))
		}
		t.arrays = append(t.arrays, arrays)
		for step := 0; step < t.side; step += rowStep {
			numbers := t.loadInput(position, t.add32(row, t.u32(step)), t.mul32(threadLane, t.vector))
			loaded[position] = append(loaded[position], numbers)
		}
	}
	for position := range t.inputs {
		for step, numbers := range loaded[position] {
			t.storeInput(position, threadLane, row, step*rowStep, numbers)
		}
	}
}

// loadInput loads the numbers of a vector of an input from x along dimension 0 and y along inputDim of the tile.
// Positions beyond the operand read its first elements.
func (t *tile) loadInput(position int, x, y ir.Value) []ir.Value {
	i := t.inputs[position]
	index, valid := t.indexAt(x, y)
	offset := t.offset(index, t.shape, t.strides[i])
	if valid != ir.None {
		offset = t.selectValue(tensor.Uint32, valid, offset, t.u32(0))
	}
	address := t.addOffset(t.EmitImm(ir.Param, tensor.Uint64, uint64(i)), offset)
	return t.load(t.reads[position], address)
}

// storeInput stores the numbers of a vector of an input to group memory, at row+step along dimension 0 of the tile.
func (t *tile) storeInput(position int, threadLane, row ir.Value, step int, numbers []ir.Value) {
	i := t.inputs[position]
	dtype, perElement := t.dtypes[i].ToReal(), t.numbersPerElement(i)
	for k, number := range numbers {
		element := k / perElement
		y := t.add32(t.mul32(threadLane, t.vector), t.u32(element))
		cell := t.cell(t.interleaved(t.add32(row, t.u32(step))), y, t.interleavedVector(threadLane, element))
		array := t.arrays[position][k%perElement]
		t.EmitImm(ir.StoreShared, tensor.Invalid, array, cell, t.toShared(dtype, number))
	}
}

// compute adds the code for the vector of elements at threadLane*vector along dimension 0 and y along inputDim.
func (t *tile) compute(threadLane, y ir.Value) {
	index, valid := t.indexAt(t.mul32(threadLane, t.vector), y)
	body := func() {
		staged := map[int][]ir.Value{}
		for position, i := range t.inputs {
			dtype := t.dtypes[i].ToReal()
			for element := range t.vector {
				cell := t.cell(t.interleavedVector(threadLane, element), y, t.interleaved(y))
				for _, array := range t.arrays[position] {
					number := t.EmitImm(ir.LoadShared, sharedType(dtype), array, cell)
					staged[i] = append(staged[i], t.fromShared(dtype, number))
				}
			}
		}
		t.addElements(index, staged)
	}
	if valid == ir.None {
		body()
	} else {
		t.If(valid, body)
	}
}

// indexAt returns the index of the element at x along dimension 0 and y along inputDim of the tile. It also returns
// whether the element exists, or ir.None if all tiles are full.
func (t *tile) indexAt(x, y ir.Value) (index []ir.Value, valid ir.Value) {
	index, valid = slices.Clone(t.firstIndex), ir.None
	index[0], index[t.inputDim] = t.add32(index[0], x), t.add32(index[t.inputDim], y)
	for _, dim := range []int{0, t.inputDim} {
		if t.shape[dim]%t.side == 0 {
			continue
		}
		exists := t.isLess(index[dim], t.shape[dim])
		if valid != ir.None {
			exists = t.and(valid, exists)
		}
		valid = exists
	}
	return index, valid
}

// cell returns the index in group memory of the element (x, y) of a tile. It is y*side + (x' ^ y'), where x' and y' are
// x and y interleaved. Threads of a warp, which access cells of one row or of one column, thus access different banks.
func (t *tile) cell(interleavedX, y, interleavedY ir.Value) ir.Value {
	const u32 = tensor.Uint32
	return t.add32(t.mul32(y, t.side), t.op(lane.Xor, u32, interleavedX, interleavedY))
}

// interleaved returns (x mod vector)*threadsPerSide + x/vector for a position x along a side. Elements that the threads
// of a row access together are adjacent in this order: with vectors of two elements, the even positions precede the odd
// ones.
func (t *tile) interleaved(x ir.Value) ir.Value {
	if t.vector == 1 {
		return x
	}
	const u32 = tensor.Uint32
	remainder := t.op(lane.And, u32, x, t.u32(t.vector-1))
	return t.add32(t.mul32(remainder, t.threadsPerSide), t.quotient(x, t.vector))
}

// interleavedVector is interleaved for the position threadLane*vector + element.
func (t *tile) interleavedVector(threadLane ir.Value, element int) ir.Value {
	return t.add32(threadLane, t.u32(element*t.threadsPerSide))
}
