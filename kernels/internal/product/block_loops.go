package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
)

// This file implements [LinearBlocks], a linear layer whose weight is quantized by blocks, by plain loops. Each row of
// weight is converted to float32, and then multiplied by all rows of the input.

// lowerBlockLoops implements [graph.Impl.Lower] by loops in Go. A chunk computes some columns of the result.
func lowerBlockLoops(call *graph.Call) (*graph.Kernel, error) {
	input := call.Meta(blocksInput)
	loops := &blockLoops{weight: newBlockWeight(call), depth: input.Shape[input.Rank()-1],
		rows:    kit.BoundedProduct(input.Shape[:input.Rank()-1]...),
		columns: call.Meta(blocksWeight).Shape[0], call: call}
	columnsPerChunk := max(1, loopsMACs/max(1, loops.depth*(loops.rows+1)))
	return &graph.Kernel{WorkerScratch: floatBytes * loops.depth,
		Phases: []graph.Phase{{Chunks: kit.DivUp(loops.columns, columnsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
			weightRow := kit.SliceOf[float32](mem.WorkerScratch, 0, loops.depth)
			for column := chunk * columnsPerChunk; column < min(loops.columns, (chunk+1)*columnsPerChunk); column++ {
				loops.convertRow(mem, column, weightRow)
				loops.multiplyRow(mem, column, weightRow)
				mem.CheckContextAfter(2 * loops.depth * (loops.rows + 1))
			}
			return nil
		}}}}, nil
}

// blockLoops has the sizes of a call. Column j of the result is computed from row j of weight.
type blockLoops struct {
	call          *graph.Call
	weight        blockWeight
	depth         int // number of elements of a row of the input and of weight
	rows, columns int // of the result
}

// convertRow converts a row of weight to float32.
func (l *blockLoops) convertRow(mem *graph.Mem, row int, dst []float32) {
	weight, blocksPerRow := l.weight, kit.DivUp(l.depth, l.weight.blockElements)
	scale := kit.ElementsOf[float32](kit.AddressOf[float32](mem.Ptrs[1+blocksScale], row*blocksPerRow), blocksPerRow)
	rowZeros := operandAddress(l.call, mem, blocksZero) // the zero points of the row, or nil
	if rowZeros != nil {
		rowZeros = unsafe.Add(rowZeros, row*blocksPerRow)
	}
	packedRow := unsafe.Add(mem.Ptrs[1+blocksWeight], row*weight.rowStride)
	kit.ForEachBlock(mem.Context, l.depth, func(begin, end int) {
		for i := begin; i < end; i++ {
			zeroPoint := weight.defaultZero
			if rowZeros != nil {
				zeroPoint = weight.zeroPoint(*(*uint8)(unsafe.Add(rowZeros, i/weight.blockElements)))
			}
			dst[i] = float32(weight.integer(packedRow, i)-zeroPoint) * scale[i/weight.blockElements]
		}
	})
}

// multiplyRow computes a column of the result: the products of all rows of the input and a row of weight, plus the
// bias.
func (l *blockLoops) multiplyRow(mem *graph.Mem, column int, weightRow []float32) {
	biases := operandAddress(l.call, mem, blocksBias)
	for inputRow := range l.rows {
		var sum float32
		if biases != nil {
			sum = *(*float32)(kit.AddressOf[float32](biases, column))
		}
		inputElements := kit.ElementsOf[float32](kit.AddressOf[float32](mem.Ptrs[1+blocksInput], inputRow*l.depth), l.depth)
		kit.ForEachBlock(mem.Context, l.depth, func(begin, end int) {
			for i := begin; i < end; i++ {
				sum += float32(inputElements[i] * weightRow[i]) // the conversion prevents a fused multiply-add
			}
		})
		*(*float32)(kit.AddressOf[float32](mem.Ptrs[0], inputRow*l.columns+column)) = sum
	}
}

// blockLoopsWork implements [graph.Impl.Work] for plain loops.
func blockLoopsWork(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	work.Flops = linearBlocksFlops(call)
	work.AddUnits(multiply.RateLoops, work.Flops/2)
	integerCount := 8 * call.Meta(blocksWeight).Numel() / kit.Attrs[*linearBlocksAttrs](call).Bits
	work.AddUnits(graph.GoSimple, float64(integerCount)) // each is converted once
	return work
}
