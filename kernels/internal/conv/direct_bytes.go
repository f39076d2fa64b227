package conv

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// An element is a set of adjacent input channels of a pixel that one instruction multiplies and sums: eight bytes if
// the processor multiplies matrices of bytes (i8mm), four bytes if it has dot products of bytes, else two 16-bit words.
// Sums are int32. Requantization scales a sum, rounds it, adds a zero point and saturates to a byte.
const (
	matrixChannels = 8
	dotChannels    = 4
	wordChannels   = 2
	intBytes       = 4 // bytes of a sum
)

// hostElementChannels returns the number of channels of an element on this processor.
func hostElementChannels() int {
	switch {
	case machine.HostFeatures().Has(machine.MatrixBytes):
		return matrixChannels
	case machine.HostFeatures().HasByteDot():
		return dotChannels
	}
	return wordChannels
}

// channelSize returns the bytes of a channel in an element of the given number of channels.
func channelSize(channels int) int {
	if channels == wordChannels {
		return 2
	}
	return 1
}

// elementSize returns the bytes of an element of the given number of channels.
func elementSize(channels int) int { return channels * channelSize(channels) }

// directDType stands for the dtype of sums in functions that use only its size.
const directDType = tensor.Float32

// minGroupChannels is the minimum number of output channels of a group. Smaller groups would leave most lanes empty.
const minGroupChannels = 8

// directBytes is the kernel of a direct convolution of bytes. It multiplies elements (see hostElementChannels), and it
// requantizes sums in registers. The kernel first copies the images to scratch memory, with their zero point as
// padding, if one of these conditions holds: windows reach outside the image, pixels are not whole elements, elements
// are words, or the machine code does not read bytes of this signedness (see [tile.ReadsSigned]).
//
// For example, images of 8x8 pixels with 8 channels are convolved by 3x3 windows with padding 1, by dot products of
// four bytes. The copy has 10x10 pixels of 8 bytes, that is, two elements. The embedded directConv is the convolution
// of these elements: it has 2 input channels and no padding (see packedShape).
type directBytes struct {
	directConv
	unpacked         *convShape                            // the convolution of bytes; directConv.conv is in elements
	elementChannels  int                                   // number of channels of an element
	copiesImages     bool                                  // whether images are copied to scratch memory
	multipliesSigned bool                                  // whether images are multiplied as signed numbers
	signMask         uint8                                 // 0 or 128; its exclusive or with a copied byte adds 128
	widenLoop        *loops.Loop                           // converts bytes to words; nil if elements are bytes
	scratchOffsets   struct{ sums, zeroPoint, images int } // offsets in scratch memory
	widenStates      graph.PerWorker[loops.State]          // states of widenLoop
}

// lowerBytes implements [graph.Impl.Lower] for direct convolution.
func lowerBytes(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	direct := newDirectBytes(call)
	if direct.requantization == tile.NotQuantized {
		direct.epilogue = newCodeEpilogue(fusion.EpilogueOf(call), direct.conv.outChannels, tile.FirstEpilogueOperand)
	}
	direct.makeTiles()
	direct.chooseOrder()
	if err := direct.compile(); err != nil {
		return nil, err
	}
	if direct.hasWordElements {
		var err error
		if direct.widenLoop, err = kit.FormulaLoop("int16(x)", []string{"x"},
			[]tensor.DType{call.Meta(bytesInput).DType}, nil, tensor.Int16); err != nil {
			return nil, err
		}
	}
	weight := direct.weight()
	kernel := &graph.Kernel{Scratch: direct.layOutScratch(weight), Code: direct.listings}
	if direct.widenLoop != nil {
		kernel.WorkerScratch = direct.conv.w.Size * direct.paddedChannels()
	}
	if direct.shape.usesMatrixUnit {
		kernel.WorkerScratch = tile.UnitScratchBytes
	}
	compute := direct.computePhase(func(args *jit.Args, mem *graph.Mem) { direct.bind(args, mem, weight) })
	kernel.Phases = append(weight.phases(), direct.preparePhase(weight), compute)
	return kernel, nil
}

// newDirectBytes describes the convolution of a call. The caller divides it into tiles and generates the code.
func newDirectBytes(call *graph.Call) *directBytes {
	t := &directBytes{unpacked: byteConv.bytesShape(call), elementChannels: hostElementChannels()}
	t.chooseConversion(call)
	t.setElementConv()
	switch call.Out[0].DType {
	case tensor.Int8:
		t.requantization = tile.Signed
	case tensor.Int32:
		t.requantization, t.outElemBytes = tile.NotQuantized, intBytes
	}
	return t
}

// chooseConversion chooses how the bytes of images are converted for the machine code.
func (t *directBytes) chooseConversion(call *graph.Call) {
	isSigned := call.Meta(bytesInput).DType == tensor.Int8
	if t.elementChannels == wordChannels {
		t.copiesImages, t.multipliesSigned = true, isSigned // the conversion to words keeps the sign
		return
	}
	t.signMask = imageSignMask(call)
	t.multipliesSigned = tile.ReadsSigned(machine.HostFeatures(), isSigned)
	t.copiesImages = t.unpacked.needsCopy(t.elementChannels) || t.signMask != 0
}

// setElementConv sets directConv: the convolution of elements, with results of uint8.
func (t *directBytes) setElementConv() {
	packed := t.unpacked.packedShape(t.elementChannels)
	shape := packed.elementShape(t.elementChannels)
	elementBytes := elementSize(t.elementChannels)
	t.directConv = directConv{conv: packed, shape: shape, elemBytes: intBytes, inElemBytes: elementBytes, outElemBytes: 1,
		inPixelBytes: packed.inChannels * elementBytes, outPixelStride: packed.outChannels,
		termBytes: shape.blockChannels() * elementBytes, imageCount: packed.batch, requantization: tile.Unsigned}
	if t.unpacked.spansPixels(t.elementChannels) {
		t.inPixelBytes = t.unpacked.inChannels * channelSize(t.elementChannels)
	}
	t.inImageBytes = packed.h.Size * packed.w.Size * t.inPixelBytes
	t.hasByteElements, t.hasWordElements = t.elementChannels >= dotChannels, t.elementChannels == wordChannels
	t.hasSignedBytes = t.hasByteElements && t.multipliesSigned
}

// layOutScratch sets scratchOffsets, and returns the size of scratch memory in bytes.
func (t *directBytes) layOutScratch(weight *byteWeight) (bytes int) {
	t.scratchOffsets.sums = weight.scratchBytes()
	t.scratchOffsets.zeroPoint = t.scratchOffsets.sums + t.conv.outChannels*intBytes
	// Code reads the sums in whole vectors, up to machine.LineBytes beyond the last sum. The zero point is in this space.
	t.scratchOffsets.images = t.scratchOffsets.sums + kit.AlignUp(t.conv.outChannels*intBytes+machine.LineBytes)
	if !t.copiesImages {
		return t.scratchOffsets.images
	}
	// Code reads up to one element beyond the last pixel.
	pixels := t.conv.batch * t.conv.h.Size * t.conv.w.Size
	return t.scratchOffsets.images + kit.AlignUp(pixels*t.inPixelBytes+t.inElemBytes)
}

// preparePhase returns the phase before the products. Its first chunk computes the initial values of sums. Each other
// chunk copies some rows of the images to scratch memory.
func (t *directBytes) preparePhase(weight *byteWeight) graph.Phase {
	packed, rows := t.conv, 0
	if t.copiesImages {
		rows = packed.batch * packed.h.Size
	}
	rowsPerChunk := max(1, machine.MoveGrain/(packed.w.Size*t.inPixelBytes))
	return graph.Phase{Chunks: 1 + kit.DivUp(rows, rowsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		if chunk == 0 {
			t.initSums(mem, weight)
			return nil
		}
		for i := (chunk - 1) * rowsPerChunk; i < min(rows, chunk*rowsPerChunk); i++ {
			t.copyRow(mem, i)
		}
		return nil
	}}
}

// initSums computes the initial values of sums, and stores the zero point of the result for the machine code.
func (t *directBytes) initSums(mem *graph.Mem, weight *byteWeight) {
	initialSumOf := weight.initialSums(mem, inputZeroPoint(mem, t.signMask, t.multipliesSigned))
	sums := kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.sums, t.unpacked.outChannels)
	for o := range sums {
		sums[o] = initialSumOf(o)
	}
	if t.requantization != tile.NotQuantized {
		zeroPoint := resultZeroPoint(mem, t.unpacked.call.Out[0].DType)
		kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.zeroPoint, 1)[0] = zeroPoint
	}
}

// copyRow copies row i of the padded images to scratch memory. The rows of all images are numbered together. If
// elements are words, it widens the bytes. A row that needs padding is first padded in worker memory.
func (t *directBytes) copyRow(mem *graph.Mem, i int) {
	conv, packed := t.unpacked, t.conv
	zero := *(*uint8)(mem.Ptrs[1+bytesInputZero]) ^ t.signMask
	rowBytes := packed.w.Size * t.paddedChannels()
	image, row := i/packed.h.Size, i%packed.h.Size-conv.h.PadBefore
	if t.widenLoop == nil {
		to := kit.SliceOf[uint8](mem.Scratch, t.scratchOffsets.images+i*rowBytes, rowBytes)
		conv.copyPaddedRow(to, packed.w.Size, mem, image, row, zero, t.copyPixels)
		return
	}
	from := kit.AddressOf[uint8](mem.Ptrs[1+bytesInput], i*rowBytes) // without padding, bytes are only widened
	if conv.needsCopy(t.elementChannels) {
		conv.copyPaddedRow(kit.SliceOf[uint8](mem.WorkerScratch, 0, rowBytes), packed.w.Size, mem, image, row, zero,
			t.copyPixels)
		from = unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	}
	to := unsafe.Pointer(&mem.Scratch[t.scratchOffsets.images+2*i*rowBytes])
	t.widenLoop.Run(t.widenStates.Get(mem), []unsafe.Pointer{to, from}, []int{0, 0}, rowBytes, 1)
}

// copyPixels copies pixels to whole elements and flips signs. Missing channels of the last element are 0.
func (t *directBytes) copyPixels(to, from []uint8) {
	conv, paddedChannels := t.unpacked, t.paddedChannels()
	if paddedChannels == conv.inChannels {
		copy(to, from)
	} else { // each group begins with a new element
		padPixels(to, from, paddedChannels/conv.groups, conv.inPerGroup)
	}
	if t.signMask != 0 {
		flipSigns(to)
	}
}

// padPixels copies pixels of `channels` bytes to pixels of `padded` bytes. The added bytes are 0.
func padPixels(to, from []uint8, padded, channels int) {
	if padded == 4 { // copy four bytes at once and clear the bytes of the next pixel
		mask := uint32(1)<<(8*channels) - 1
		for len(from) >= 4 && len(to) > 0 {
			binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(from)&mask)
			from, to = from[channels:], to[4:]
		}
	}
	for len(to) > 0 {
		copied := copy(to[:padded], from[:channels])
		clear(to[copied:padded])
		from, to = from[channels:], to[padded:]
	}
}

// flipSigns adds 128 to bytes, eight at a time.
func flipSigns(bytes []uint8) {
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		binary.NativeEndian.PutUint64(bytes, binary.NativeEndian.Uint64(bytes)^0x8080808080808080)
	}
	for i := range bytes {
		bytes[i] ^= 1 << 7
	}
}

// bind sets the addresses of the operands of the products.
func (t *directBytes) bind(args *jit.Args, mem *graph.Mem, weight *byteWeight) {
	args.Ptr[tile.In], args.Ptr[tile.Vec] = mem.Ptrs[1+bytesInput], weight.address(mem)
	if t.copiesImages {
		args.Ptr[tile.In] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.images])
	}
	args.Ptr[tile.Bias] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.sums])
	if t.requantization != tile.NotQuantized {
		args.Ptr[tile.Scales] = mem.Ptrs[1+bytesScale]
		args.Ptr[tile.ZeroPoint] = unsafe.Pointer(&mem.Scratch[t.scratchOffsets.zeroPoint])
	}
	if t.shape.usesMatrixUnit {
		args.Ptr[tile.Scratch] = unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	}
}

// paddedChannels returns the number of channels per pixel in scratch memory.
func (t *directBytes) paddedChannels() int {
	return t.inPixelBytes / channelSize(t.elementChannels)
}

// weight describes the packed weight, which has blocks of output channels that are computed together. In a block, the
// input channels of an element are adjacent.
func (t *directBytes) weight() *byteWeight {
	order := "kh,kw,c"
	if t.unpacked.spansPixels(t.elementChannels) {
		order = "kh,kw*c"
	}
	return &byteWeight{conv: t.unpacked, weightBytes: t.blockCount() * t.panelBytes(), hasWords: t.hasWordElements,
		offset: t.weightOffset,
		format: fmt.Sprintf("int%d panels of %d by %s in %ds, and sums", 8*channelSize(t.elementChannels),
			t.shape.blockChannels(), order, t.elementChannels),
		eachChannel: func(visit func(o, offset int)) {
			for o := range t.conv.outChannels {
				visit(o, t.channelOffset(o))
			}
		}}
}

// weightOffset returns the byte offset of the weight of tap (kh, kw) and input channel c from the first weight of its
// output channel.
func (t *directBytes) weightOffset(kh, kw, c int) int {
	term, channel := (kh*t.conv.w.Taps+kw)*t.conv.inPerGroup, c
	if t.unpacked.spansPixels(t.elementChannels) {
		term, channel = kh*t.conv.inPerGroup, kw*t.unpacked.inPerGroup+c
	}
	return (term+channel/t.elementChannels)*t.termBytes + channel%t.elementChannels*channelSize(t.elementChannels)
}

// channelOffset returns the byte offset of the weights of output channel o in the packed form.
func (t *directBytes) channelOffset(o int) int {
	outPerGroup, width := t.conv.outPerGroup(), t.shape.blockChannels()
	block := o/outPerGroup*kit.DivUp(outPerGroup, width) + o%outPerGroup/width
	return block*t.panelBytes() + o%outPerGroup%width*t.inElemBytes
}

// bytesPack implements [graph.Impl.Pack]. It packs the weight. i is the index of the operand.
func bytesPack(c *graph.Call, i int) (graph.Packing, bool) {
	if i != bytesWeight || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	return newDirectBytes(c).weight().packing(), true
}

// packedShape returns the equivalent convolution of elements, which have `channels` channels each. Its input includes
// the padding.
func (s *convShape) packedShape(channels int) *convShape {
	packed := *s
	packed.h.Size, packed.w.Size = s.h.Extent(s.h.Results), s.w.Extent(s.w.Results)
	if !s.readsPadding() {
		packed.h.Size, packed.w.Size = s.h.Size, s.w.Size
	}
	packed.inPerGroup = kit.DivUp(s.inPerGroup, channels)
	if s.spansPixels(channels) {
		packed.inPerGroup, packed.w.Taps = kit.DivUp(s.w.Taps*s.inPerGroup, channels), 1
	}
	packed.h.PadBefore, packed.w.PadBefore = 0, 0
	packed.hasBias = true // the initial values of sums (initSums)
	packed.inChannels = s.groups * kit.DivUp(s.inPerGroup, channels)
	packed.inStride = ncdhw{n: kit.BoundedProduct(packed.h.Size, packed.w.Size, packed.inChannels), c: 1,
		h: kit.BoundedProduct(packed.w.Size, packed.inChannels), w: packed.inChannels}
	packed.outStride, packed.epilogue = ncdhw{n: s.h.Results * s.w.Results * s.outChannels, c: 1,
		h: s.w.Results * s.outChannels, w: s.outChannels}, nil
	return &packed
}

// spansPixels reports whether an element may span two pixels of a row of the window. Otherwise the channels of each
// pixel are padded to whole elements, which takes more elements if there are few channels. For example, 7 pixels with 3
// channels are 6 elements of four bytes if elements span pixels, and 7 otherwise.
func (s *convShape) spansPixels(channels int) bool {
	return s.groups == 1 && s.w.Dilation == 1 && s.h.Taps > 1 &&
		kit.DivUp(s.w.Taps*s.inPerGroup, channels) < s.w.Taps*kit.DivUp(s.inPerGroup, channels)
}

// bytesWalks implements [graph.Impl.Walks] for direct convolution. The result is channels-last.
func bytesWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	order, isSupported := byteConv.order(directByPixels, call.Meta(bytesInput).Rank())
	conv := byteConv.bytesShape(call)
	hasSmallGroups := conv.groups > 1 && (conv.inPerGroup < dotChannels || conv.outPerGroup() < minGroupChannels)
	isEmpty := conv.batch*conv.outChannels*conv.h.Results*conv.w.Results == 0
	if !isSupported || hasSmallGroups || isEmpty || !tile.SupportsIntegers(machine.HostFeatures()) {
		return nil
	}
	channels := hostElementChannels()
	packed := conv.packedShape(channels)
	elementBytes := elementSize(channels)
	if !hasDirectCode(packed, directDType) || packed.inputReach(max(packed.inChannels, 1), elementBytes) >= maxReach {
		return nil
	}
	if conv.readsPadding() && !conv.allowsScratch(kit.BoundedProduct(conv.batch, packed.inStride.n)) {
		return nil
	}
	return []graph.Walk{call.WalkInOrder(order)}
}

// bytesWork implements [graph.Impl.Work] for direct convolution.
func bytesWork(call *graph.Call, _ graph.Walk) graph.Work {
	work := graph.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	conv := byteConv.bytesShape(call)
	channels := hostElementChannels()
	packed := conv.packedShape(channels)
	if shape := packed.elementShape(channels); shape.usesMatrixUnit {
		packed.unitWork(&work, &shape)
	} else {
		packed.directWork(&work, rateDirectElements, directDType, false)
	}
	if channels == wordChannels || conv.needsCopy(channels) || imageSignMask(call) != 0 {
		readBytes := conv.inChannels * conv.h.Size * conv.w.Size // of an image
		writtenBytes := elementSize(channels) * packed.inChannels * packed.h.Size * packed.w.Size
		work.Bytes[graph.Copied] += float64(conv.batch * (readBytes + writtenBytes))
	}
	work.Flops = byteConv.flops(call)
	return work
}

// needsCopy reports whether images must be copied, because windows reach outside the image or pixels are not whole
// elements.
func (s *convShape) needsCopy(channels int) bool {
	return s.readsPadding() || s.inPerGroup%channels != 0
}

// unsignedMask returns the mask that converts a byte of dtype d to an unsigned byte by exclusive or. For int8, the
// exclusive or adds 128.
func unsignedMask(d tensor.DType) uint8 {
	if d == tensor.Int8 {
		return 1 << 7
	}
	return 0
}

// imageSignMask returns the mask that converts the bytes of images, by exclusive or, to the signedness that machine
// code reads.
func imageSignMask(c *graph.Call) uint8 {
	isSigned := c.Meta(bytesInput).DType == tensor.Int8
	if tile.ReadsSigned(machine.HostFeatures(), isSigned) != isSigned {
		return 1 << 7
	}
	return 0
}
