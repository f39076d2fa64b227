package lower

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the addresses, loads and stores of a row kernel, for operands and outputs, stored rows, and the scratch
// memory. A row has the elements along the reduced axes. There is a row for each index along the kept axes. Values that
// are constant within a row are called numbers, such as the results of folds (reductions). If rows are cut into pieces,
// a fold has a result for each piece. The scratch memory has slots of slotBytes for the numbers of rows and for the
// results of pieces.

// sizesOf returns the sizes of axes.
func sizesOf(list []axis) (sizes []int) {
	for _, dim := range list {
		sizes = append(sizes, dim.size)
	}
	return sizes
}

// stridesOf returns the strides of output or operand i along axes, in bytes.
func stridesOf(list []axis, i int) (strides []int) {
	for _, dim := range list {
		strides = append(strides, dim.strides[i])
	}
	return strides
}

// elementIndex returns row*columns + column as a uint64: the index of an element of a matrix.
func (k *rowKernel) elementIndex(row, column ir.Value, columns int) ir.Value {
	const u64 = tensor.Uint64
	fast, slow := k.op(lane.Convert, u64, column), k.op(lane.Convert, u64, row)
	return k.op(lane.Add, u64, fast, k.op(lane.Mul, u64, slow, k.Const(u64, uint64(columns))))
}

// scratchAt returns the address of an element of an array at byte start of the scratch memory. index is a uint64, and
// an element has size bytes.
func (k *rowKernel) scratchAt(start, size int, index ir.Value) ir.Value {
	const u64 = tensor.Uint64
	scratch := k.EmitImm(ir.Param, u64, uint64(k.Params-1)) // the last parameter
	base := k.addBytes(scratch, start)
	return k.op(lane.Add, u64, base, k.op(lane.Mul, u64, index, k.Const(u64, uint64(size))))
}

// slot returns the run for a number in the scratch memory.
func slot(dtype tensor.DType) run { return run{dtype: dtype, count: 1, align: slotBytes} }

// numberAddress returns the address of number n of the row.
func (k *rowKernel) numberAddress(n int) ir.Value {
	start := k.numbersOffset + slotBytes*n*k.rowCount
	return k.scratchAt(start, slotBytes, k.op(lane.Convert, tensor.Uint64, k.row))
}

// partialAddress returns the address of the result of a fold for a piece of the row. fold is the index of the fold in
// the pass.
func (k *rowKernel) partialAddress(fold int, piece ir.Value) ir.Value {
	start := k.partialsOffset + slotBytes*fold*k.rowCount*k.pieces
	return k.scratchAt(start, slotBytes, k.elementIndex(k.row, piece, k.pieces))
}

// number returns number n of the row (RowProgram.Numbers), such as the result of a fold.
func (k *rowKernel) number(n int) ir.Value {
	value, ok := k.numbers[n]
	if !ok { // computed by an earlier launch
		value = k.loadRun(slot(k.program.Numbers[n]), k.numberAddress(n))[0]
		k.numbers[n] = value
	}
	return value
}

// storeNumber stores number n of the row for later launches.
func (k *rowKernel) storeNumber(n int) {
	k.storeRun(slot(k.program.Numbers[n]), k.numberAddress(n), []ir.Value{k.numbers[n]})
}

// uniform returns the element of an operand with one element for each row. The result has one number, or the real and
// the imaginary part.
func (k *rowKernel) uniform(operand int) []ir.Value {
	if values, ok := k.uniforms[operand]; ok {
		return values
	}
	if k.isPositions(operand) { // rows have one element, whose position is 0
		return []ir.Value{k.Const(tensor.Int32, 0)}
	}
	i := k.outputCount + operand
	values := k.load(oneElement(k.metas[i].DType), k.base[i])
	k.uniforms[operand] = values
	return values
}

// loadUniforms loads the inputs that have one value for each row, before a loop. It fills numbers and uniforms.
func (k *rowKernel) loadUniforms(in []expr.Place) {
	for _, place := range in {
		switch {
		case place.Kind == expr.AtNumber:
			k.number(place.N)
		case place.Kind == expr.AtOperand && k.program.Uniform[place.N]:
			k.uniform(place.N)
		}
	}
}

// addressOf returns the access of a thread to elements of a dtype in the memory of output or operand i, and the address
// of the first element. index is the index of this element along each reduced axis.
func (k *rowKernel) addressOf(i int, dtype tensor.DType, index []ir.Value) (access, ir.Value) {
	shape, strides := sizesOf(k.reducedAxes), stridesOf(k.reducedAxes, i)
	allSizes := slices.Concat(shape, sizesOf(k.keptAxes))
	allStrides := slices.Concat(strides, stridesOf(k.keptAxes, i))
	elementAccess := access{dtype: dtype, stride: strides[0], vector: k.vector,
		align: alignOf(dtype, k.align[i], allSizes, allStrides, k.vector)}
	return elementAccess, k.addOffset(k.base[i], k.offset(index, shape, strides))
}

// storedRow returns the access of a thread to a stored row (RowProgram.Rows[stored]), and the address of an element of
// the row. index is the index of the element along each reduced axis.
func (k *rowKernel) storedRow(stored int, element ir.Value, index []ir.Value) (access, ir.Value) {
	dtype := k.program.Rows[stored].DType
	if output := k.program.Rows[stored].Out; output >= 0 {
		return k.addressOf(output, dtype, index)
	}
	// The address is a sum of multiples of three numbers. These are the alignment of the stored rows (layOutScratch), the
	// distance between the vectors of threads, and the distance between rows. The lowest bit that is set in at least one
	// of the three numbers divides the address.
	const scratchAlign = 16
	align := scratchAlign | k.vector*dtype.Size()
	if k.rowCount > 1 {
		align |= k.rowLen * dtype.Size()
	}
	elementAccess := access{dtype: dtype, stride: dtype.Size(), vector: k.vector,
		align: max(align&-align, dtype.ToReal().Size())}
	return elementAccess, k.scratchAt(k.scratchRows[stored], dtype.Size(), k.elementIndex(k.row, element, k.rowLen))
}
