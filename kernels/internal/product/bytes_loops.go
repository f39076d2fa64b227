package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes [MatmulBytes] by plain loops over the elements of the result. An entry is one matrix product of a
// batch: m x k elements of operand a times k x n elements of operand b. For example, a of shape [8, 2, 3] and b of
// shape [3, 5] have 8 entries with m = 2, k = 3 and n = 5. All entries share the matrix b.

// loopsMACs is the approximate number of multiplications per chunk.
const loopsMACs = 1 << 15

// lowerBytesLoops implements [graph.Impl.Lower]. A chunk computes some rows of the result of one entry.
func lowerBytesLoops(call *graph.Call) (*graph.Kernel, error) {
	product, err := productContraction(call, call.Out[0])
	if err != nil {
		return nil, err
	}
	loops := newByteLoops(call, product)
	rowsPerChunk := max(1, loopsMACs/max(1, product.n*product.k))
	chunksPerEntry := kit.DivUp(product.m, rowsPerChunk)
	computeChunk := func(mem *graph.Mem, chunk int) error {
		entry, firstRow := chunk/chunksPerEntry, chunk%chunksPerEntry*rowsPerChunk
		for row := firstRow; row < min(product.m, firstRow+rowsPerChunk); row++ {
			for column := range product.n {
				sum := loops.sum(mem, entry, row, column)
				loops.store(mem, sum, entry, row, column)
			}
		}
		return nil
	}
	chunks := product.entries() * chunksPerEntry
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: computeChunk}}}, nil
}

// byteLoops has the sizes and the layouts of a call. All strides and offsets are in elements.
type byteLoops struct {
	// The sizes m, n and k, and the row and column strides of a matrix of a, of b, and of the result c.
	*contraction
	call                         *graph.Call
	aDType, bDType, resultDType  tensor.DType
	aOffsets, bOffsets, cOffsets []int              // offset of each entry's matrix; nil if all are 0
	vectorStrides                [1 + bytesZero]int // strides of the zero points, bias and scales, by operand
}

// newByteLoops returns the sizes and the layouts of a call.
func newByteLoops(call *graph.Call, product *contraction) *byteLoops {
	loops := &byteLoops{contraction: product, call: call, aDType: call.Meta(bytesA).DType,
		bDType: call.Meta(bytesB).DType, resultDType: call.Out[0].DType, aOffsets: product.a.offsets(product.batch),
		bOffsets: product.b.offsets(product.batch), cOffsets: product.c.offsets(product.batch)}
	for operand := bytesAZero; operand <= bytesZero; operand++ {
		loops.vectorStrides[operand] = vectorStride(call, operand)
	}
	return loops
}

// address returns the address of an operand. It returns nil for an omitted operand, whose elements count as 0 (byteAt).
func (l *byteLoops) address(mem *graph.Mem, operand int) unsafe.Pointer {
	if operand >= len(l.call.In) {
		return nil
	}
	return mem.Ptrs[1+operand]
}

// offsetOf returns the offset of an entry's matrix. offsets is nil if all offsets are 0.
func offsetOf(offsets []int, entry int) int {
	if offsets == nil {
		return 0
	}
	return offsets[entry]
}

// sum returns the sum of an element of the result, with the bias.
func (l *byteLoops) sum(mem *graph.Mem, entry, row, column int) (sum int32) {
	aZero := byteAt(l.address(mem, bytesAZero), l.aDType, row*l.vectorStrides[bytesAZero])
	bZero := byteAt(l.address(mem, bytesBZero), l.bDType, column*l.vectorStrides[bytesBZero])
	if biases := l.address(mem, bytesBias); biases != nil {
		sum = *(*int32)(kit.AddressOf[int32](biases, column*l.vectorStrides[bytesBias]))
	}
	aRow := offsetOf(l.aOffsets, entry) + row*l.a.row
	bColumn := offsetOf(l.bOffsets, entry) + column*l.b.col
	kit.ForEachBlock(mem.Context, l.k, func(begin, end int) {
		for k := begin; k < end; k++ {
			a := byteAt(mem.Ptrs[1+bytesA], l.aDType, aRow+k*l.a.col)
			b := byteAt(mem.Ptrs[1+bytesB], l.bDType, bColumn+k*l.b.row)
			sum += (a - aZero) * (b - bZero)
		}
	})
	mem.CheckContextAfter(2 * l.k)
	return sum
}

// store converts a sum to an element of the result.
func (l *byteLoops) store(mem *graph.Mem, sum int32, entry, row, column int) {
	resultOffset := offsetOf(l.cOffsets, entry) + row*l.c.row + column*l.c.col
	scales := l.address(mem, bytesScale)
	if scales == nil {
		*(*int32)(kit.AddressOf[int32](mem.Ptrs[0], resultOffset)) = sum
		return
	}
	scale := *(*float32)(kit.AddressOf[float32](scales, column*l.vectorStrides[bytesScale]))
	zeroPoint := byteAt(l.address(mem, bytesZero), l.resultDType, 0)
	element := multiply.Requantize(l.resultDType, sum, scale, float64(zeroPoint))
	*(*uint8)(unsafe.Add(mem.Ptrs[0], resultOffset)) = uint8(element) // the same byte for uint8 and int8
}
