package lower

import (
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// loader copies the elements of A or B for a slice of the sum to an array in the memory of the group. For each term it
// copies one element per row or column of the tile. Adjacent threads copy adjacent terms if adjacent terms are also
// adjacent in memory. Otherwise they copy adjacent rows or columns.
type loader struct {
	*contraction
	isA    bool
	param  int            // number of the parameter of the kernel: 1 for A, 2 for B
	dtype  tensor.DType   // of the operand
	stride func(loop) int // strideA or strideB
	array  uint64         // index of the array in the memory of the group
	copies []copied       // the elements that a thread copies for a slice
}

// copied describes an element that a thread copies for each slice: the row or column of the element, and its term.
type copied struct {
	position ir.Value   // the row or column in the tile
	term     ir.Value   // the term in the slice
	start    ir.Value   // the offset of the row or column in elements
	isValid  ir.Value   // whether the row or column exists
	index    []ir.Value // the index in each loop that corresponds to the row or column
}

// newLoader returns the loader of A or B for a thread. first is the first row or column of the tile. base is the offset
// in elements of the product, which is one of the batch.
func (c *contraction) newLoader(thread, first ir.Value, array uint64, isA bool, base ir.Value) *loader {
	const u32 = tensor.Uint32
	created := &loader{contraction: c, array: array, param: 2, dtype: c.B.DType, stride: strideB}
	loops := c.cols
	if isA {
		created.isA, created.param, created.dtype, created.stride = true, 1, c.A.DType, strideA
		loops = c.rows
		// The first window begins in the padding, c.Before elements before the operand. If its offset is negative, it wraps
		// modulo 2^32. The offsets of existing elements are not negative.
		base = c.add32(base, c.u32(-c.Before))
	}
	isDense := func(list []loop) bool { return len(list) > 0 && created.stride(list[0]) == 1 }
	alongTerms := isDense(c.sum) && !isDense(loops) // adjacent threads copy adjacent terms
	fastSize := c.tile
	if alongTerms {
		fastSize = c.sliceTerms
	}
	// The group copies tile*sliceTerms elements, groupSize at a time. Element j of a thread has two indices: the fast
	// index thread%fastSize, and the slow index thread/fastSize + j*groupSize/fastSize.
	fast, slow := c.op(lane.And, u32, thread, c.u32(fastSize-1)), c.quotient(thread, fastSize)
	for j := range c.tile * c.sliceTerms / groupSize {
		position, term := fast, c.add32(slow, c.u32(j*(groupSize/fastSize)))
		if alongTerms {
			position, term = term, position
		}
		absolute := c.add32(first, position)
		index := c.splitLoops(absolute, loops)
		created.copies = append(created.copies, copied{position: position, term: term,
			start:   c.add32(base, c.offsets(loops, index, created.stride)),
			isValid: c.isLess(absolute, size(loops)), index: index})
	}
	return created
}

// load loads the elements of the slice whose first term is `first`. Elements outside of windows or of the product are
// 0.
func (l *loader) load(first ir.Value) (values []ir.Value) {
	zero := l.float(l.sumDType, 0)
	for _, element := range l.copies {
		term := l.add32(first, element.term)
		index := l.splitLoops(term, l.sum)
		valid := l.and(element.isValid, l.isLess(term, size(l.sum)))
		if l.isA {
			valid = l.isInWindows(valid, element.index, index)
		}
		offset := l.add32(element.start, l.offsets(l.sum, index, l.stride))
		offset = l.selectValue(tensor.Uint32, valid, offset, l.u32(0)) // element 0 can always be loaded
		address := l.elementAddress(l.param, offset, l.dtype.Size())
		value := l.convert(l.sumDType, l.dtype, l.scalarBuilder.load(oneElement(l.dtype), address)[0])
		values = append(values, l.selectValue(l.sumDType, valid, value, zero))
	}
	return values
}

// isInWindows returns the condition that `valid` is true and an element of A is within all windows. rowIndex and
// termIndex are the indices of its row and its term in each loop. A window of a convolution moves over a dimension of
// A. The loop Result runs over the positions of the window, and the summed loop Tap runs within the window.
func (l *loader) isInWindows(valid ir.Value, rowIndex, termIndex []ir.Value) ir.Value {
	for _, window := range l.Windows { // position = result*stride + tap*dilation - before
		start := l.mul32(rowIndex[find(l.rows, window.Result)], window.Stride)
		tap := l.mul32(termIndex[find(l.sum, window.Tap)], window.Dilation)
		position := l.add32(l.add32(start, tap), l.u32(-window.Before))
		// A negative position is a large number modulo 2^32, so the comparison rejects it, too.
		valid = l.and(valid, l.isLess(position, window.Size))
	}
	return valid
}

// find returns the index in `list` of the loop with the given number.
func find(list []loop, number int) int {
	return slices.IndexFunc(list, func(l loop) bool { return l.number == number })
}

// store stores loaded elements in the memory of the group.
func (l *loader) store(values []ir.Value) {
	for j, value := range values {
		index := l.add32(l.mul32(l.copies[j].term, l.tile), l.copies[j].position)
		l.EmitImm(ir.StoreShared, tensor.Invalid, l.array, index, value)
	}
}
