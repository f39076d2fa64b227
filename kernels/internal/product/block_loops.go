package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// This file has the implementation of [LinearBlocks] by plain loops: a linear layer whose weight is quantized by
// blocks. Each row of weight is converted to float32, and then multiplied by all rows of the input.

// blockLoopsWork implements [graph.Impl.Work] for plain loops.
func blockLoopsWork(call *graph.Call, _ graph.Walk) graph.Work {
	work := graph.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	work.Flops = linearBlocksFlops(call)
	work.AddUnits(multiply.RateLoops, work.Flops/2)
	integers := 8 * call.Meta(blocksWeight).Numel() / kit.Attrs[*linearBlocksAttrs](call).Bits // each is converted once
	work.AddUnits(graph.GoSimple, float64(integers))
	return work
}

// lowerBlockLoops implements [graph.Impl.Lower] by loops in Go. A chunk computes some columns of the result.
func lowerBlockLoops(call *graph.Call) (*graph.Kernel, error) {
	weight, input := newBlockWeight(call), call.Meta(blocksInput)
	depth := input.Shape[input.Rank()-1]
	rows, columns := kit.BoundedProduct(input.Shape[:input.Rank()-1]...), call.Meta(blocksWeight).Shape[0]
	columnsPerChunk := max(1, loopsMACs/max(1, depth*(rows+1)))
	scales, zeros := operandAddress(call, blocksScale), operandAddress(call, blocksZero)
	bias := operandAddress(call, blocksBias)
	blocksPerRow := kit.DivUp(depth, weight.blockElements)
	return &graph.Kernel{WorkerScratch: 4 * depth, Phases: []graph.Phase{{Chunks: kit.DivUp(columns, columnsPerChunk),
		Run: func(mem *graph.Mem, chunk int) error {
			weightRow := kit.SliceOf[float32](mem.WorkerScratch, 0, depth) // a row of weight, converted to float32
			for column := chunk * columnsPerChunk; column < min(columns, (chunk+1)*columnsPerChunk); column++ {
				scale := kit.ElementsOf[float32](kit.AddressOf[float32](scales(mem), column*blocksPerRow), blocksPerRow)
				rowZeros := zeros(mem) // the zero points of the row, or nil
				if rowZeros != nil {
					rowZeros = unsafe.Add(rowZeros, column*blocksPerRow)
				}
				packedRow := unsafe.Add(mem.Ptrs[1+blocksWeight], column*weight.rowStride)
				kit.ForEachBlock(mem.Context, depth, func(begin, end int) {
					for i := begin; i < end; i++ {
						zeroPoint := weight.defaultZero
						if rowZeros != nil {
							zeroPoint = weight.zeroPoint(*(*uint8)(unsafe.Add(rowZeros, i/weight.blockElements)))
						}
						weightRow[i] = float32(weight.integer(packedRow, i)-zeroPoint) * scale[i/weight.blockElements]
					}
				})
				for inputRow := range rows {
					var sum float32
					if biases := bias(mem); biases != nil {
						sum = *(*float32)(kit.AddressOf[float32](biases, column))
					}
					inputElements := kit.ElementsOf[float32](kit.AddressOf[float32](mem.Ptrs[1+blocksInput], inputRow*depth), depth)
					kit.ForEachBlock(mem.Context, depth, func(begin, end int) {
						for i := begin; i < end; i++ {
							sum += float32(inputElements[i] * weightRow[i])
						}
					})
					*(*float32)(kit.AddressOf[float32](mem.Ptrs[0], inputRow*columns+column)) = sum
				}
				mem.CheckContextAfter(2 * depth * (rows + 1))
			}
			return nil
		}}}}, nil
}
