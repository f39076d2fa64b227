package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// volumeTaps is the kernel that convolves each channel of a volume separately by compiled loops, which sum the products
// of all taps (the elements of the window). A channel is copied to worker memory with its zero padding. In the copy,
// columns with the same remainder modulo the column stride are adjacent. For each tap, the input is then a sequence of
// rows with a constant stride. One run of the loops computes a plane of the result. With a column stride of 2, a padded
// row of 7 columns is copied as
//
//	0 2 4 6 | 1 3 5 -
//
// where colsPerRemainder is 4 and rowStride is 8. Tap column 1 then reads the columns 1, 3 and 5.
//
// The axes of windows are d, h and w: planes, rows and columns. For an axis, Extent(n) is the number of padded
// positions that n windows span. A rowStream (depthwise_taps.go) is an operand of the loops: the address of its first
// row, and the distance between rows in bytes. A tapRun has a worker's rowStreams of all taps.
type volumeTaps struct {
	*convShape
	dtype            tensor.DType
	elemCopier       strided.Elem // copies elements of a channel
	sum              *tapSum      // compiled loops that sum the taps
	paddedRows       int          // rows per plane of the padded channel
	colsPerRemainder int          // columns per row that have the same remainder modulo the column stride
	workers          graph.PerWorker[tapRun]
}

// maxTapsBytes bounds the worker memory of compiled taps.
const maxTapsBytes = 4 << 20

// newVolumeTaps lays out the worker memory of a convolution. It returns nil if groups have several input channels, if
// there is no machine code, if the columns of the result are not contiguous, or if a channel exceeds maxTapsBytes.
func newVolumeTaps(conv *convShape, dtype tensor.DType) *volumeTaps {
	if conv.inPerGroup != 1 || !hasTapCode(dtype) || conv.outStride.w != 1 && conv.w.Results > 1 {
		return nil
	}
	t := &volumeTaps{convShape: conv, dtype: dtype, elemCopier: strided.MoverOf(dtype.Size()),
		paddedRows:       conv.h.Extent(conv.h.Results),
		colsPerRemainder: kit.DivUp(conv.w.Extent(conv.w.Results), conv.w.Stride)}
	if t.channelBytes() > maxTapsBytes {
		return nil
	}
	return t
}

// rowStride returns the row stride of a channel in worker memory, in elements.
func (t *volumeTaps) rowStride() int { return t.colsPerRemainder * t.w.Stride }

// channelBytes returns the number of bytes of a channel in worker memory.
func (t *volumeTaps) channelBytes() int {
	return kit.BoundedProduct(t.d.Extent(t.d.Results), t.paddedRows, t.rowStride(), t.dtype.Size())
}

// lowerTaps makes the kernel. A chunk computes some channels of the result.
func (op convolution) lowerTaps(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.CompileInDType(c, multiply.ComputationDType(c), func(c *graph.Call) (*graph.Kernel, error) {
		conv := op.shape(c)
		t := newVolumeTaps(conv, c.Out[0].DType)
		if t == nil { // compute a matrix product instead
			return productKernelByPlanes(conv)
		}
		var err error
		const isUniform = true // a channel has one bias, and one weight for each tap
		if t.sum, err = newTapSum(t.dtype, conv.taps(), conv.hasBias, isUniform); err != nil || t.sum == nil {
			return nil, err
		}
		channels := conv.batch * conv.outChannels                                   // over all images
		channelsPerChunk := max(1, machine.MACGrain/(conv.pixelsOut()*conv.taps())) // about MACGrain multiply-adds
		return &graph.Kernel{WorkerScratch: t.channelBytes(), Code: t.listings, Phases: []graph.Phase{{
			Chunks: kit.DivUp(channels, channelsPerChunk),
			Run: func(mem *graph.Mem, chunk int) error {
				t.computeChannels(mem, chunk*channelsPerChunk, min(channels, (chunk+1)*channelsPerChunk))
				return nil
			}}}}, nil
	})
}

// computeChannels computes the output channels begin to end-1, which are numbered over all images.
func (t *volumeTaps) computeChannels(mem *graph.Mem, begin, end int) {
	worker := t.workers.Get(mem)
	clear(mem.WorkerScratch[:t.channelBytes()])
	copiedChannel := -1 // number of the input channel in worker memory, over all images
	for channel := begin; channel < end; channel++ {
		image, outChannel := channel/t.outChannels, channel%t.outChannels
		if inChannel := outChannel / t.outPerGroup(); copiedChannel != image*t.groups+inChannel {
			copiedChannel = image*t.groups + inChannel
			t.copyChannel(mem, unsafe.Add(mem.Ptrs[1], (image*t.inStride.n+inChannel*t.inStride.c)*t.dtype.Size()))
		}
		t.computeChannel(mem, worker, image, outChannel)
	}
	worker.release()
}

// listings returns the machine code of the loops.
func (t *volumeTaps) listings() (list []expr.Listing) {
	for _, part := range t.sum.parts {
		list = append(list, part.loop.Listing("taps"))
	}
	return list
}

// copyChannel copies a channel into worker memory, where the padding is already zero. The copy has the padded channel
// as [plane][row][remainder][column/stride].
func (t *volumeTaps) copyChannel(m *graph.Mem, from unsafe.Pointer) {
	size, memory := t.dtype.Size(), unsafe.Pointer(unsafe.SliceData(m.WorkerScratch))
	// The parts of the channel that windows read.
	planes := min(t.d.Size, t.d.Extent(t.d.Results)-t.d.PadBefore)
	rows := min(t.h.Size, t.paddedRows-t.h.PadBefore)
	cols := min(t.w.Size, t.w.Extent(t.w.Results)-t.w.PadBefore)
	step := t.w.Stride
	for d := range planes {
		plane := unsafe.Add(memory, ((d+t.d.PadBefore)*t.paddedRows+t.h.PadBefore)*t.rowStride()*size)
		for remainder := range step { // of padded columns
			first := ((remainder-t.w.PadBefore)%step + step) % step // first image column with this remainder
			n := kit.DivUp(cols-first, step)                        // number of columns with this remainder
			if n <= 0 || rows <= 0 {
				continue
			}
			column := remainder*t.colsPerRemainder + (first+t.w.PadBefore)/step // this column's place in a copied row
			t.elemCopier.CopyBlock(unsafe.Add(plane, column*size), unsafe.Add(from, (d*t.inStride.d+first*t.inStride.w)*size),
				strided.Axis{N: n, Dst: size, Src: step * t.inStride.w * size},
				strided.Axis{N: rows, Dst: t.rowStride() * size, Src: t.inStride.h * size})
		}
	}
}

// computeChannel computes a channel of the result, plane by plane.
func (t *volumeTaps) computeChannel(mem *graph.Mem, worker *tapRun, image, outChannel int) {
	size, memory := t.dtype.Size(), unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	worker.reserve(t.taps())
	var bias rowStream
	if t.hasBias {
		bias.ptr = unsafe.Add(mem.Ptrs[3], outChannel*t.biasStride*size)
	}
	for d := range t.d.Results {
		for tap := range worker.inputs {
			kd, kh, kw := t.tap(tap)
			column := kw * t.w.Dilation
			row := (d*t.d.Stride+kd*t.d.Dilation)*t.paddedRows + kh*t.h.Dilation
			columnInCopy := column%t.w.Stride*t.colsPerRemainder + column/t.w.Stride
			element := row*t.rowStride() + columnInCopy
			worker.inputs[tap] = rowStream{ptr: unsafe.Add(memory, element*size),
				rowStride: t.h.Stride * t.rowStride() * size}
			weight := outChannel*t.weightStride.n + kd*t.weightStride.d + kh*t.weightStride.h + kw*t.weightStride.w
			worker.weights[tap] = rowStream{ptr: unsafe.Add(mem.Ptrs[2], weight*size)} // a scalar: rowStride is 0
		}
		firstResult := image*t.outStride.n + outChannel*t.outStride.c + d*t.outStride.d
		out := rowStream{ptr: unsafe.Add(mem.Ptrs[0], firstResult*size), rowStride: t.outStride.h * size}
		t.sum.run(worker, out, bias, t.w.Results, t.h.Results)
	}
}

// tapsImpl is the depthwise implementation for volumes.
func (op convolution) tapsImpl() graph.Impl {
	tapsOf := func(c *graph.Call) *volumeTaps { // nil if the implementation does not support the call
		if c.Out[0].Numel() == 0 {
			return nil
		}
		return newVolumeTaps(op.shape(c), multiply.ComputationDType(c))
	}
	return graph.Impl{Name: "taps",
		Doc: "Sums the elements of windows channel by channel, in compiled loops over planes.",
		Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
			if tapsOf(c) == nil {
				return nil
			}
			return []graph.Walk{{}} // one walk, which writes the inferred layout
		},
		Work: func(c *graph.Call, _ graph.Walk) pricing.Work {
			work := pricing.Work{StartedSteps: 1}
			c.AddStreamed(&work)
			if t := tapsOf(c); t != nil {
				planes := float64(t.batch * t.groups * t.d.Size)
				work.AddUnits(ratePlanesMAC, float64(c.Out[0].Numel()*t.taps()))
				work.AddUnits(ratePlanesElement, planes*float64(t.h.Size*t.w.Size))
				work.AddUnits(ratePlanesRow, planes*float64(t.h.Size))
				work.AddUnits(ratePlanesPlane, planes)
			}
			return work
		},
		Lower: op.lowerTaps,
	}
}
