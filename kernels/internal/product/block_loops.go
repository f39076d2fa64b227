package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// blockLoopsWork is the Work function of plain loops.
func blockLoopsWork(call *graph.Call, _ graph.Walk) graph.Work {
	work := graph.Work{Steps: 1}
	call.AddStreamed(&work)
	work.Flops = linearBlocksFlops(call)
	work.Do(multiply.RateLoops, work.Flops/2)
	work.Do(graph.GoSimple, float64(8*call.Meta(blocksWeight).Numel()/kit.Attrs[linearBlocksAttrs](call).Bits))
	return work
}

// lowerBlockLoops makes the kernel in Go. A chunk computes some columns of the result.
func lowerBlockLoops(call *graph.Call) (*graph.Kernel, error) {
	w, x := newBlockWeight(call), call.Meta(blocksInput)
	k := x.Shape[x.Rank()-1]
	rows, columns := kit.BoundedProduct(x.Shape[:x.Rank()-1]...), call.Meta(blocksWeight).Shape[0]
	group := max(1, loopsMACs/max(1, k*(rows+1)))
	scales, zeros := operandAddress(call, blocksScale), operandAddress(call, blocksZero)
	bias := operandAddress(call, blocksBias)
	blocks := kit.DivUp(k, w.block)
	return &graph.Kernel{Worker: 4 * k, Phases: []graph.Phase{{Chunks: kit.DivUp(columns, group),
		Run: func(mem *graph.Mem, chunk int) error {
			numbers := kit.SliceOf[float32](mem.Worker, 0, k)
			for n := chunk * group; n < min(columns, (chunk+1)*group); n++ {
				scale := kit.ElementsOf[float32](kit.AddressOf[float32](scales(mem), n*blocks), blocks)
				zero := zeros(mem)
				if zero != nil {
					zero = unsafe.Add(zero, n*blocks)
				}
				row := unsafe.Add(mem.Ptrs[1+blocksWeight], n*w.row)
				kit.Blocks(mem.Context, k, func(begin, end int) {
					for i := begin; i < end; i++ {
						z := w.mean
						if zero != nil {
							z = w.zeroPoint(*(*uint8)(unsafe.Add(zero, i/w.block)))
						}
						numbers[i] = float32(w.integer(row, i)-z) * scale[i/w.block]
					}
				})
				for m := range rows {
					var sum float32
					if p := bias(mem); p != nil {
						sum = *(*float32)(kit.AddressOf[float32](p, n))
					}
					a := kit.ElementsOf[float32](kit.AddressOf[float32](mem.Ptrs[1+blocksInput], m*k), k)
					kit.Blocks(mem.Context, k, func(begin, end int) {
						for i := begin; i < end; i++ {
							sum += float32(a[i] * numbers[i])
						}
					})
					*(*float32)(kit.AddressOf[float32](mem.Ptrs[0], m*columns+n)) = sum
				}
				mem.Count(2 * k * (rows + 1))
			}
			return nil
		}}}}, nil
}
