package conv

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// depthwiseBytes is the kernel of a depthwise convolution of channels-last images of bytes. In registers, it
// requantizes sums: it scales an int32 sum, rounds it, adds a zero point and saturates to a byte. A chunk computes some
// rows of the result. If windows reach outside the image, the chunk first copies its input rows, with padding, to
// worker memory.
//
// The channels are divided into blocks of 64, 32 or 16, depending on the processor. A call of the code computes some
// rows of the result in one block, tile by tile: a tile is a few adjacent results of a row. Scratch memory has, for
// each channel, the initial value of its sums (the bias and the effect of the zero point) and its scale.
//
// For example, 100 channels have two blocks of 64. A row of 14 results may have two tiles of 7 results. It may also
// have four tiles of 4, and the last tile then overlaps the previous one by 2 results.
type depthwiseBytes struct {
	conv           *convShape
	cpu            machine.Features                      // instruction set of the code
	spec           *depthwise.ByteSpec                   // description of the code: tile, window, and strides in bytes
	code           *jit.Func                             // computes rows of the result in one block
	rowsPerChunk   int                                   // rows of the result per chunk; the last chunk may have fewer
	inRows, inCols int                                   // rows and columns of a chunk's input
	copiesInput    bool                                  // whether the input is copied to worker memory
	scratchOffsets struct{ sums, scales, zeroPoint int } // offsets in scratch memory
	outElemBytes   int                                   // bytes of an element of the result: 1, or 4 for int32 sums
	epilogue       *fusion.Epilogue                      // epilogue of int32 results, or nil
	workers        graph.PerWorker[depthwiseBytesRun]
}

// depthwiseBytesRun is the state of a worker that runs a depthwiseBytes. Its args are the arguments of the code:
// addresses (Ptr), byte offsets from them (Row), and other numbers (Step).
type depthwiseBytesRun struct {
	args     jit.Args
	epilogue fusion.EpilogueRun
}

// maxCallInstructions bounds the instructions of a call of machine code. A goroutine cannot be preempted within a call,
// so a call must not take longer than 50 us.
const maxCallInstructions = 1 << 15

// lowerDepthwiseBytes implements [graph.Impl.Lower].
func lowerDepthwiseBytes(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	t := newDepthwiseBytes(call)
	conv := t.conv
	t.epilogue = fusion.EpilogueOf(call)
	var err error
	if t.code, err = depthwise.CompileBytes(t.spec, t.cpu); err != nil {
		return nil, fmt.Errorf("depthwise convolution of bytes: %w", err)
	}
	weight := t.weight()
	// The size in bytes of the initial sums, and also of the scales.
	channelListBytes := t.blockCount() * t.blockChannels() * intBytes
	t.scratchOffsets.sums = weight.scratchBytes()
	t.scratchOffsets.scales = t.scratchOffsets.sums + channelListBytes
	t.scratchOffsets.zeroPoint = t.scratchOffsets.scales + channelListBytes
	kernel := &graph.Kernel{Scratch: t.scratchOffsets.zeroPoint + kit.AlignUp(intBytes),
		Code: func() []expr.Listing { return []expr.Listing{{Name: "rows", Assembly: t.code.Listing}} }}
	if t.copiesInput {
		// The last vector extends beyond the last pixel.
		kernel.WorkerScratch = t.inRows*t.inCols*conv.inChannels + t.blockChannels()
	}
	kernel.Phases = append(weight.phases(), t.preparePhase(weight), t.computePhase(weight))
	return kernel, nil
}

// newDepthwiseBytes chooses the processor features, the tile and the chunks. The caller generates the code.
func newDepthwiseBytes(call *graph.Call) *depthwiseBytes {
	conv := byteConv.bytesShape(call)
	host := machine.HostFeatures()
	t := &depthwiseBytes{conv: conv, cpu: host.Vectors256(), copiesInput: conv.readsPadding(),
		inRows: conv.h.Size, inCols: conv.w.Size, outElemBytes: call.Out[0].DType.Size()}
	if host.Has(machine.DotBytes512) { // vectors of 512 bits are used only for dot products of bytes
		t.cpu = host
	}
	partialChannels := 0 // the number of channels if they do not fill a vector, else 0
	if !t.cpu.Has(machine.Vector512) && conv.inChannels < t.blockChannels() {
		// The code reads a whole vector.
		t.copiesInput, partialChannels = true, conv.inChannels
	}
	t.rowsPerChunk = min(conv.h.Results, max(1, windowGrain/(conv.w.Results*conv.inChannels*conv.h.Taps*conv.w.Taps)))
	if t.copiesInput {
		t.inRows, t.inCols = conv.h.Extent(t.rowsPerChunk), conv.w.Extent(conv.w.Results)
	}
	t.spec = t.bestSpec(call, partialChannels)
	return t
}

// bestSpec describes the code with the tile size that takes the fewest instructions.
func (t *depthwiseBytes) bestSpec(call *graph.Call, partialChannels int) (best *depthwise.ByteSpec) {
	fewest := math.MaxInt
	for size := 1; size <= min(t.conv.w.Results, depthwise.MaxByteTile(t.cpu)); size++ {
		spec := t.tileSpec(call, size, partialChannels)
		if instructions := kit.DivUp(t.conv.w.Results, size) * spec.InstructionCount(); instructions < fewest {
			best, fewest = spec, instructions
		}
	}
	return best
}

// tileSpec describes the code for tiles of `size` results in a row. If size does not divide the row, the last tile
// overlaps the previous one. partialChannels is the number of channels if they do not fill a vector, else 0.
func (t *depthwiseBytes) tileSpec(call *graph.Call, size, partialChannels int) *depthwise.ByteSpec {
	conv, outDType := t.conv, call.Out[0].DType
	outPixelBytes := conv.inChannels * t.outElemBytes
	return &depthwise.ByteSpec{
		Tile: size, Overlap: kit.DivUp(conv.w.Results, size)*size - conv.w.Results,
		Window:    [2]int{conv.h.Taps, conv.w.Taps},
		Stride:    [2]int{conv.h.Stride, conv.w.Stride},
		Dilation:  [2]int{conv.h.Dilation, conv.w.Dilation},
		InStride:  [2]int{t.inCols * conv.inChannels, conv.inChannels},
		OutStride: [2]int{conv.w.Results * outPixelBytes, outPixelBytes},
		Channels:  partialChannels,
		Sums:      outDType == tensor.Int32, // results are sums, without requantization
		Signed:    outDType == tensor.Int8,
		SignedIn:  tile.ReadsSigned(t.cpu, call.Meta(bytesInput).DType == tensor.Int8), // signedness after FlipSigns
		FlipSigns: imageSignMask(call) != 0, WordProducts: !t.cpu.HasByteDot(),
	}
}

// preparePhase returns the phase that stores the initial values of sums, and the scales, in the channel order of the
// code (see eachChannel).
func (t *depthwiseBytes) preparePhase(weight *byteWeight) graph.Phase {
	conv, call := t.conv, t.conv.call
	return graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		initialSumOf := weight.initialSums(mem, inputZeroPoint(mem, imageSignMask(call), t.spec.SignedIn))
		var scale []float32 // by channel
		if !t.spec.Sums {
			scale = kit.ElementsOf[float32](mem.Ptrs[1+bytesScale], conv.inChannels) // Ptrs[0] is the result
		}
		n := t.blockCount() * t.blockChannels()
		sums := kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.sums, n)
		scales := kit.SliceOf[float32](mem.Scratch, t.scratchOffsets.scales, n)
		clear(sums)
		clear(scales)
		t.eachChannel(func(block, index, channel int) {
			i := block*t.blockChannels() + index
			sums[i] = initialSumOf(channel)
			if !t.spec.Sums {
				scales[i] = scale[channel]
			}
		})
		if t.spec.Sums {
			return nil
		}
		kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.zeroPoint, 1)[0] = resultZeroPoint(mem, call.Out[0].DType)
		return nil
	}}
}

// computePhase returns the phase that computes the result. A chunk computes some rows of an image of the result.
func (t *depthwiseBytes) computePhase(weight *byteWeight) graph.Phase {
	conv := t.conv
	chunksPerImage := kit.DivUp(conv.h.Results, t.rowsPerChunk)
	return graph.Phase{Chunks: conv.batch * chunksPerImage, Run: func(mem *graph.Mem, chunk int) error {
		image, firstRow := chunk/chunksPerImage, chunk%chunksPerImage*t.rowsPerChunk
		rows := min(t.rowsPerChunk, conv.h.Results-firstRow)
		return t.computeChunk(mem, weight.address(mem), image, firstRow, rows)
	}}
}

// computeChunk computes rows of an image of the result, from row firstRow on.
func (t *depthwiseBytes) computeChunk(mem *graph.Mem, weight unsafe.Pointer, image, firstRow, rows int) error {
	conv, worker := t.conv, t.workers.Get(mem)
	args := &worker.args
	if t.copiesInput {
		t.copyPadded(mem, image, firstRow, rows)
		args.Ptr[depthwise.In], args.Row[depthwise.In] = unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), 0
	} else {
		args.Ptr[depthwise.In] = mem.Ptrs[1+bytesInput]
		args.Row[depthwise.In] = (image*conv.h.Size + firstRow*conv.h.Stride) * conv.w.Size * conv.inChannels
	}
	resultIndex := (image*conv.h.Results + firstRow) * conv.w.Results * conv.inChannels
	args.Ptr[depthwise.Out], args.Row[depthwise.Out] = mem.Ptrs[0], resultIndex*t.outElemBytes
	args.Ptr[depthwise.Weights] = weight
	args.Ptr[depthwise.Bias] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.sums])
	args.Ptr[depthwise.Scales] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.scales])
	args.Ptr[depthwise.ZeroPoint] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.zeroPoint])
	err := t.computeRows(args, rows)
	clear(args.Ptr[:]) // the worker keeps no address after the call
	if err != nil || t.epilogue == nil {
		return err
	}
	pixels, channels := rows*conv.w.Results, conv.inChannels
	pixelStride, channelStride := channels, 1
	t.epilogue.Bind(&worker.epilogue, mem)
	t.epilogue.Apply(&worker.epilogue, resultIndex, pixels, pixelStride, channels, channelStride)
	worker.epilogue.Release()
	return nil
}

// copyPadded copies the input of the given rows of the result, from row firstRow on, to worker memory, with the zero
// point as padding.
func (t *depthwiseBytes) copyPadded(m *graph.Mem, image, firstRow, rows int) {
	conv, rowBytes := t.conv, t.inCols*t.conv.inChannels
	zeroPoint := *(*uint8)(m.Ptrs[1+bytesInputZero])
	for i := range conv.h.Extent(rows) {
		to := kit.SliceOf[uint8](m.WorkerScratch, i*rowBytes, rowBytes)
		conv.copyPaddedRow(to, t.inCols, m, image, conv.h.Begin(firstRow)+i, zeroPoint,
			func(to, from []uint8) { copy(to, from) })
	}
}

// computeRows computes rows of the result for all channels.
func (t *depthwiseBytes) computeRows(args *jit.Args, rows int) error {
	conv := t.conv
	args.InnerCount = kit.DivUp(conv.w.Results, t.spec.Tile)
	rowsPerCall := max(1, maxCallInstructions/(args.InnerCount*t.spec.InstructionCount()))
	in, out := args.Row[depthwise.In], args.Row[depthwise.Out] // offsets of the first row
	for block := range t.blockCount() {
		channel := t.firstChannel(block)
		args.Row[depthwise.Weights] = block * t.blockBytes()
		channelOffset := block * t.blockChannels() * intBytes // sums and scales have four bytes
		args.Row[depthwise.Bias], args.Row[depthwise.Scales] = channelOffset, channelOffset
		// The mask of the block's channels: a bit for each of at most 64 channels.
		remaining := conv.inChannels - channel // channels of this block and of the next blocks
		args.Step[depthwise.ChannelMask] = int(^uint64(0) >> max(0, 64-remaining))
		for row := 0; row < rows; row += rowsPerCall {
			args.Rows = min(rowsPerCall, rows-row)
			args.Row[depthwise.In] = in + channel + row*conv.h.Stride*t.inCols*conv.inChannels
			args.Row[depthwise.Out] = out + (channel+row*conv.w.Results*conv.inChannels)*t.outElemBytes
			if err := t.code.Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowGroupBytes is the number of bytes of a group: the weights of one channel in some rows of a column of the window.
const rowGroupBytes = 4

// weight describes the packed weight, which has blocks of channels in the order of the code. In a block, groups are
// stored as [column of the window][group of rows][channel]. A group has the weights of four rows as bytes, or of two
// rows as words.
func (t *depthwiseBytes) weight() *byteWeight {
	rows := t.spec.RowsPerGroup()
	weightBytes := rowGroupBytes / rows // bytes of one weight
	return &byteWeight{conv: t.conv, weightBytes: t.blockCount() * t.blockBytes(), hasWords: t.spec.WordProducts,
		format: fmt.Sprintf("int%d by kw,kh in %ds of %d channels, and sums", 32/rows, rows, t.blockChannels()),
		eachChannel: func(visit func(outChannel, byteOffset int)) {
			t.eachChannel(func(block, index, channel int) { visit(channel, block*t.blockBytes()+index*rowGroupBytes) })
		},
		offset: func(kh, kw, _ int) int {
			group := kw*t.spec.RowGroups() + kh/rows
			return group*t.blockChannels()*rowGroupBytes + kh%rows*weightBytes
		}}
}

// depthwiseBytesPack implements [graph.Impl.Pack]. It packs the weight. i is the index of the operand.
func depthwiseBytesPack(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesWeight || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	return newDepthwiseBytes(c).weight().packing(), true
}

// eachChannel calls visit for the channels of all blocks, in the order in which the machine code stores them, which
// ByteChannel defines. index is the place of a channel in the stored block.
func (t *depthwiseBytes) eachChannel(visit func(block, index, channel int)) {
	for block := range t.blockCount() {
		for index := range t.blockChannels() {
			if channel := t.firstChannel(block) + depthwise.ByteChannel(t.cpu, index); channel < t.conv.inChannels {
				visit(block, index, channel)
			}
		}
	}
}

// blockCount returns the number of blocks of channels. The channels of a block are computed at once. If lanes cannot be
// masked, the last of several blocks overlaps the previous block.
func (t *depthwiseBytes) blockCount() int { return kit.DivUp(t.conv.inChannels, t.blockChannels()) }

// blockChannels returns the number of channels of a block.
func (t *depthwiseBytes) blockChannels() int { return depthwise.ByteChannels(t.cpu) }

// firstChannel returns the first channel of a block.
func (t *depthwiseBytes) firstChannel(block int) int {
	if t.cpu.Has(machine.Vector512) {
		return block * t.blockChannels()
	}
	return max(0, min(block*t.blockChannels(), t.conv.inChannels-t.blockChannels()))
}

// blockBytes returns the number of bytes of a block of the packed weight.
func (t *depthwiseBytes) blockBytes() int {
	return t.conv.w.Taps * t.spec.RowGroups() * rowGroupBytes * t.blockChannels()
}

// depthwiseBytesWalks implements [graph.Impl.Walks]. The result is channels-last.
func depthwiseBytesWalks(c *graph.Call, _ []tensor.Order) []graph.Walk {
	order, supported := byteConv.order(depthwiseByPixels, c.Meta(bytesInput).Rank())
	conv := byteConv.bytesShape(c)
	if !supported || conv.batch*conv.outChannels*conv.h.Results*conv.w.Results == 0 || !conv.hasDepthwiseBytesCode() {
		return nil
	}
	return []graph.Walk{c.WalkInOrder(order)}
}

// hasDepthwiseBytesCode reports whether machine code supports a depthwise convolution of bytes of channels-last
// operands.
func (s *convShape) hasDepthwiseBytesCode() bool {
	hasInstructions := depthwise.SupportsBytes(machine.HostFeatures()) && jit.Available() == nil
	isDepthwise := s.inPerGroup == 1 && s.outChannels == s.inChannels && s.inChannels > 1
	hasSmallWindow := s.taps() > 0 && kit.BoundedProduct(s.taps(), max(s.h.Dilation, s.w.Dilation)) < 1<<8 &&
		max(s.h.Stride, s.w.Stride) < 1<<8
	hasSmallDistances := kit.BoundedProduct(s.h.MaxDistance(), s.w.MaxDistance(), s.inChannels) < maxReach &&
		kit.BoundedProduct(s.pixelsOut(), s.inChannels, intBytes) < maxReach
	return hasInstructions && isDepthwise && hasSmallWindow && hasSmallDistances
}

// depthwiseBytesWork returns the work of a depthwise convolution of bytes.
func depthwiseBytesWork(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	conv := byteConv.bytesShape(call)
	t := newDepthwiseBytes(call)
	tiles := conv.batch * conv.h.Results * kit.DivUp(conv.w.Results, t.spec.Tile) * t.blockCount()
	work.AddUnits(rateBytesInstruction, float64(tiles*t.spec.InstructionCount()))
	if t.copiesInput { // bytes are read and written
		work.Bytes[pricing.Copied] += float64(2 * conv.batch * conv.inChannels * conv.h.Size * conv.w.Size)
	}
	work.Flops = byteConv.flops(call)
	return work
}
