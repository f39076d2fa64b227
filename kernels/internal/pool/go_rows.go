package pool

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// windowsPerBlock is the maximum number of neighbouring windows of a block. Their ranges are computed once for all
	// rows of a chunk.
	windowsPerBlock = 64
	// tapsPerBlock is the approximate maximum number of taps of a block. It bounds the time between two checks of the
	// context.
	tapsPerBlock = 1 << 16
)

// newAdaptiveRows makes a kernel in Go for adaptive averages of float32 or float64 rows, such as those of a sequence.
// Windows of different sizes occur if the number of results does not divide the size of a row. goPooling would fold
// such windows one by one, and each fold would cost more than the few taps of a window. Results have the same bits as
// those of goPooling. newAdaptiveRows returns nil for other calls, and for operands or results that are not row-major.
func newAdaptiveRows(p *sizedPooling) (*graph.Kernel, error) {
	columns, isRow := &p.axes[columnAxis], true
	for _, axis := range p.axes[:columnAxis] {
		isRow = isRow && axis.Size == 1 && axis.Results == 1
	}
	isFloat32 := p.meta.DType == tensor.Float32
	isFloat := isFloat32 || p.meta.DType == tensor.Float64
	if !isFloat || !isRow || p.kind != reduceAvg || !columns.Adaptive || !p.meta.IsContiguous() ||
		!p.results[0].IsContiguous() {
		return nil, nil
	}
	size := p.meta.DType.Size()
	division := machine.DivideUnits(p.batch*p.channels, kit.BoundedProduct(columns.Results, p.taps), goGrain)
	maxCount := max(1, min(windowsPerBlock, tapsPerBlock/p.taps))
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		var windows [windowsPerBlock]geometry.Range
		firstRow, endRow := division.ChunkRange(chunk)
		for first := 0; first < columns.Results; first += maxCount {
			count := min(maxCount, columns.Results-first)
			for i := range count {
				windows[i] = columns.WindowAt(first + i)
			}
			for row := firstRow; row < endRow; row++ {
				mem.CheckContextAfter(2 * count * p.taps) // a tap counts as two steps
				dst := unsafe.Add(mem.Ptrs[0], (row*columns.Results+first)*size)
				src := unsafe.Add(mem.Ptrs[1], row*columns.Size*size)
				if isFloat32 {
					averageWindows[float32](&p.foldSpec, dst, src, windows[:count])
				} else {
					averageWindows[float64](&p.foldSpec, dst, src, windows[:count])
				}
			}
		}
		return nil
	}}}}, nil
}

// averageWindows stores the averages over the given windows of a row in contiguous memory at address dst.
func averageWindows[T float32 | float64](fold *foldSpec, dst, row unsafe.Pointer, windows []geometry.Range) {
	out := unsafe.Slice((*T)(dst), len(windows))
	for i := range windows {
		window := &windows[i]
		sum, count := 0.0, window.End-window.Start
		for _, element := range unsafe.Slice((*T)(unsafe.Add(row, window.Start*int(unsafe.Sizeof(T(0))))), count) {
			sum += float64(element)
		}
		out[i] = T(sum / divisorOf[float64](fold, max(float64(count), 1)))
	}
}
