package lower

import (
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// tile generates the kernel of a pointwise expression with transposed inputs. A transposed input has another fastest
// dimension than the output. For example, let out[i, j] = x[j, i] have float32 elements. If adjacent threads computed
// adjacent elements of a row of out, they would read elements of different rows of x. Each read would need a separate
// memory transaction. Instead, a group of 256 threads computes a square tile of 32x32 elements in two phases:
//
//   - fill: adjacent threads read x[j, i] for 32 adjacent i, and store them in the memory of the group.
//   - compute, after a barrier: adjacent threads load elements from the memory of the group, and write out[i, j] for 32
//     adjacent j.
//
// A row of the tile needs 32 threads in each phase. The group thus has threads for 8 rows, and a thread processes 4
// rows. In a row, a thread processes one element or, for elements of 1 or 2 bytes, a vector of adjacent elements.
//
// A number is a real element, or the real or imaginary part of a complex element. In a tile, an element has the
// position x along dimension 0 of the output and the position y along inputDim. A row of the tile extends along
// inputDim in fill, and along dimension 0 in compute.
//
// The embedded pointwise has the expression and, by operand (outputs first), dtypes and strides in bytes. Dimension 0
// is the fastest dimension of the output. Methods such as add32 add an instruction to the code of a thread, and return
// the result of the instruction.
type tile struct {
	*pointwise
	inputDim       int // the fastest dimension of transposed inputs
	side           int // elements along a side of a tile, a power of 2
	threadsPerSide int // threads for a row of the tile: side/vector
	inputs         []tiledInput
	elementBytes   int // bytes of group memory for one element of each input

	// These are values of a thread. A thread processes the rows row, row+rowStep() and so on. In each row, the thread's
	// vector starts at element vectorIndex*vector.
	vectorIndex, row ir.Value
	firstIndex       []ir.Value // the index of the tile's first element in each dimension
}

// tiledInput is a transposed input.
type tiledInput struct {
	operand int
	number  tensor.DType // dtype of the numbers
	read    access       // of a thread to vector elements along inputDim
	arrays  []uint64     // the input's array in group memory, or two arrays for complex numbers
}

// newTile returns the generator for a kernel with tiles, or nil if no input is transposed.
func newTile(kernel *pointwise) *tile {
	const smallSide, largeSide = 32, 64
	t := &tile{pointwise: kernel, side: smallSide}
	t.chooseInputs()
	if len(t.inputs) == 0 || !t.fits(smallSide) {
		return nil
	}
	t.setVectors()
	if t.vector > 1 && t.fits(largeSide) { // for elements of 1 or 2 bytes, rows of a larger tile have at least 64 bytes
		t.side = largeSide
	}
	t.threadsPerSide = t.side / t.vector
	return t
}

// fits reports whether a tile with sides of the given length fits in the memory of the group, and whether a thread
// needs at most maxInstructions for its part of the tile.
func (t *tile) fits(side int) bool {
	elementsPerThread := side * side / groupSize
	return side*side*t.elementBytes <= maxGroupMemory && elementsPerThread*len(t.code.Insts) <= maxInstructions
}

// minTiled is the minimum size of the two dimensions along which a tile extends. If a dimension is smaller, a tile
// would have few elements, and even without a tile the threads of a group read most of each memory transaction.
const minTiled = 16

// chooseInputs sets inputDim, inputs and elementBytes. The first transposed input determines inputDim. Inputs that
// exceed the memory of the group are read without a tile.
func (t *tile) chooseInputs() {
	for operand := len(t.code.Out); operand < len(t.dtypes); operand++ {
		dim := t.fastest(operand)
		if t.inputDim == 0 && min(t.shape[0], t.shape[dim]) >= minTiled {
			t.inputDim = dim
		}
		isTransposed := dim > 0 && dim == t.inputDim
		number := t.dtypes[operand].ToReal()
		bytes := t.elementBytes + t.numbersPerElement(operand)*sharedType(number).Size()
		if isTransposed && t.side*t.side*bytes <= maxGroupMemory {
			t.inputs, t.elementBytes = append(t.inputs, tiledInput{operand: operand, number: number}), bytes
		}
	}
}

// transactionBytes is the size in bytes of the smallest read from memory.
const transactionBytes = 32

// fastest returns the dimension with the least nonzero stride of an operand. It returns 0 for an operand that needs no
// tile. An operand needs no tile if each element is in a separate memory transaction (all strides are at least
// transactionBytes), or if all threads of a row read the same address (stride 0 in dimension 0).
func (p *pointwise) fastest(operand int) (fastest int) {
	if p.strides[operand][0] == 0 {
		return 0
	}
	least := transactionBytes
	for dim, stride := range p.strides[operand] {
		if p.shape[dim] > 1 && stride != 0 && stride < least {
			fastest, least = dim, stride
		}
	}
	return fastest
}

// setVectors sets the number of elements of a vector. A vector has at most 4 bytes in each operand. setVectors also
// sets tiledInput.read.
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
	for i := range t.inputs {
		input := &t.inputs[i]
		shape, strides, dtype := slices.Clone(t.shape), slices.Clone(t.strides[input.operand]), t.dtypes[input.operand]
		shape[0], shape[t.inputDim] = shape[t.inputDim], shape[0] // inputDim is the fastest
		strides[0], strides[t.inputDim] = strides[t.inputDim], strides[0]
		input.read = access{dtype: dtype, stride: strides[0], vector: vector,
			align: alignOf(dtype, t.alignmentBits[input.operand], shape, strides, vector)}
	}
}

// launch builds the kernel and returns its only launch.
func (t *tile) launch() ([]Launch, error) {
	const u32 = tensor.Uint32
	tileCounts := slices.Clone(t.shape) // by dimension
	for _, dim := range []int{0, t.inputDim} {
		tileCounts[dim] = (t.shape[dim] + t.side - 1) / t.side
	}
	t.firstIndex = t.indexInShape(t.Emit(ir.Group, u32), tileCounts)
	for _, dim := range []int{0, t.inputDim} {
		t.firstIndex[dim] = t.mul32(t.firstIndex[dim], t.side)
	}
	thread := t.Emit(ir.Thread, u32)
	t.vectorIndex = t.op(lane.And, u32, thread, t.u32(t.threadsPerSide-1)) // thread mod threadsPerSide
	t.row = t.quotient(thread, t.threadsPerSide)
	t.fill()
	t.Emit(ir.Barrier, tensor.Invalid)
	for rows := 0; rows < t.side; rows += t.rowStep() {
		t.compute(t.add32(t.row, t.u32(rows)))
	}
	return t.checkedLaunch(tensor.Numel(tileCounts))
}

// rowStep returns the number of rows that the group processes at once.
func (t *tile) rowStep() int { return groupSize / t.threadsPerSide }

// fill copies the transposed inputs to group memory. It loads all elements before it stores the first, so that the
// loads overlap.
func (t *tile) fill() {
	for i := range t.inputs {
		input := &t.inputs[i]
		for range t.numbersPerElement(input.operand) {
			input.arrays = append(input.arrays, t.Array(sharedType(input.number), t.side*t.side))
		}
	}
	var loaded [][]ir.Value // the vectors, in the order of both loops
	for i := range t.inputs {
		for rows := 0; rows < t.side; rows += t.rowStep() {
			loaded = append(loaded, t.loadInput(&t.inputs[i], rows))
		}
	}
	for i := range t.inputs {
		for rows := 0; rows < t.side; rows += t.rowStep() {
			t.storeInput(&t.inputs[i], rows, loaded[0])
			loaded = loaded[1:]
		}
	}
}

// loadInput loads the numbers of the thread's vector in row row+rows of an input. It replaces vectors beyond the
// operand by the first vector.
func (t *tile) loadInput(input *tiledInput, rows int) []ir.Value {
	x, y := t.add32(t.row, t.u32(rows)), t.mul32(t.vectorIndex, t.vector)
	index, valid := t.indexAt(x, y)
	offset := t.offset(index, t.shape, t.strides[input.operand])
	if valid != ir.None {
		offset = t.selectValue(tensor.Uint32, valid, offset, t.u32(0))
	}
	address := t.addOffset(t.EmitImm(ir.Param, tensor.Uint64, uint64(input.operand)), offset)
	return t.load(input.read, address)
}

// storeInput stores the numbers that loadInput has loaded to group memory.
func (t *tile) storeInput(input *tiledInput, rows int, numbers []ir.Value) {
	perElement := len(input.arrays)
	for k, number := range numbers {
		element, part := k/perElement, k%perElement
		y := t.add32(t.mul32(t.vectorIndex, t.vector), t.u32(element))
		x := t.add32(t.row, t.u32(rows))
		cell := t.cell(t.interleaved(x), y, t.interleavedInVector(element))
		t.EmitImm(ir.StoreShared, tensor.Invalid, input.arrays[part], cell, t.toShared(input.number, number))
	}
}

// compute adds the code for the thread's vector of the output in row y.
func (t *tile) compute(y ir.Value) {
	index, valid := t.indexAt(t.mul32(t.vectorIndex, t.vector), y)
	if valid == ir.None {
		t.computeVector(index, y)
	} else {
		t.If(valid, func() { t.computeVector(index, y) })
	}
}

// computeVector loads the thread's vectors of the transposed inputs from group memory, and computes the output at
// index.
func (t *tile) computeVector(index []ir.Value, y ir.Value) {
	loaded := map[int][]ir.Value{} // by operand
	for _, input := range t.inputs {
		for element := range t.vector {
			cell := t.cell(t.interleavedInVector(element), y, t.interleaved(y))
			for _, array := range input.arrays {
				number := t.EmitImm(ir.LoadShared, sharedType(input.number), array, cell)
				loaded[input.operand] = append(loaded[input.operand], t.fromShared(input.number, number))
			}
		}
	}
	t.addElements(index, loaded)
}

// indexAt returns the index of the element at x along dimension 0 and y along inputDim of the tile. It also returns the
// condition that the element exists, or ir.None if all tiles are full.
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

// cell returns the index of the element (x, y) of a tile in its array in group memory. It is y*side + (x' ^ y'), where
// x' and y' are x and y interleaved. Group memory has 32 banks, and cell number c is in bank c mod 32. Because of the
// exclusive or, threads access different banks if they access a row or a column of a tile at once.
func (t *tile) cell(interleavedX, y, interleavedY ir.Value) ir.Value {
	const u32 = tensor.Uint32
	return t.add32(t.mul32(y, t.side), t.op(lane.Xor, u32, interleavedX, interleavedY))
}

// interleaved returns (x mod vector)*threadsPerSide + x/vector for a position x along a side. The threads of a row
// access element 0 of all vectors at once, then element 1. In this order, elements that are accessed at once are
// adjacent: with vectors of two elements, the even positions precede the odd positions.
func (t *tile) interleaved(x ir.Value) ir.Value {
	if t.vector == 1 {
		return x
	}
	const u32 = tensor.Uint32
	remainder := t.op(lane.And, u32, x, t.u32(t.vector-1))
	return t.add32(t.mul32(remainder, t.threadsPerSide), t.quotient(x, t.vector))
}

// interleavedInVector returns interleaved(x) for an element of the thread's vector: x = vectorIndex*vector + element.
func (t *tile) interleavedInVector(element int) ir.Value {
	return t.add32(t.vectorIndex, t.u32(element*t.threadsPerSide))
}
