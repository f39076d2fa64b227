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

// directBytes is the kernel of a direct convolution of bytes. An element is a set of adjacent input channels that one
// instruction multiplies: eight or four bytes, or two 16-bit words (bytes_elements.go). The embedded directConv
// (direct.go) describes the convolution of these elements, and makes the code that multiplies them. The code
// requantizes sums in registers: a sum is scaled, rounded, offset by a zero point and saturated to a byte.
//
// The kernel first copies the images to scratch memory, with their zero point as padding, if one of these conditions
// holds: windows reach outside the image, pixels are not whole elements, elements are words, or the machine code does
// not read bytes of this signedness (see [tile.ReadsSigned]).
//
// For example, images of 8x8 pixels with 8 channels are convolved by 3x3 windows with padding 1, by dot products of
// four bytes. The copy has 10x10 pixels of 8 bytes, that is, two elements. The convolution of elements has 2 input
// channels and no padding.
type directBytes struct {
	directConv                                    // its field conv is the convolution of elements (elementConv)
	original         *convShape                   // the convolution of bytes
	elementChannels  int                          // number of channels of an element
	copiesImages     bool                         // whether images are copied to scratch memory
	multipliesSigned bool                         // whether images are multiplied as signed numbers
	signMask         uint8                        // 128 if copies change the signedness of bytes, else 0
	widenLoop        *loops.Loop                  // converts bytes to words; nil if elements are bytes
	widenStates      graph.PerWorker[loops.State] // states of widenLoop
	scratchOffsets   directBytesScratch
}

// directBytesScratch has offsets in the scratch memory of directBytes, in bytes. The packed weight is at offset 0,
// unless it was packed when the graph was planned.
type directBytesScratch struct {
	sums      int // initial values of sums: an int32 for each output channel
	zeroPoint int // the zero point of the result, an int32
	images    int // the copied images
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
		inputDType := call.Meta(bytesInput).DType
		var onePerRow []bool // nil: no operand has only one element per row
		loop, err := kit.FormulaLoop("int16(x)", []string{"x"}, []tensor.DType{inputDType}, onePerRow, tensor.Int16)
		if err != nil {
			return nil, err
		}
		direct.widenLoop = loop
	}
	weight := direct.weight()
	kernel := &graph.Kernel{Scratch: direct.layOutScratch(weight), Code: direct.listings}
	if direct.widenLoop != nil {
		kernel.WorkerScratch = direct.rowBytes()
	}
	if direct.shape.usesMatrixUnit { // then elements are bytes, and there is no widenLoop
		kernel.WorkerScratch = tile.UnitScratchBytes
	}
	compute := direct.computePhase(func(args *jit.Args, mem *graph.Mem) { direct.bind(args, mem, weight) })
	kernel.Phases = append(weight.phases(), direct.preparePhase(weight), compute)
	return kernel, nil
}

// newDirectBytes describes the convolution of a call. The caller divides it into tiles and generates the code.
func newDirectBytes(call *graph.Call) *directBytes {
	t := &directBytes{original: byteConv.bytesShape(call), elementChannels: hostElementChannels()}
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
	t.copiesImages = t.original.needsCopy(t.elementChannels) || t.signMask != 0
}

// setElementConv sets directConv: the convolution of elements, with results of uint8 until the caller changes this.
func (t *directBytes) setElementConv() {
	conv := t.original.elementConv(t.elementChannels)
	elementBytes := elementSize(t.elementChannels)
	shape := conv.elementShape(t.elementChannels)
	t.directConv = directConv{conv: conv, shape: shape, elemBytes: intBytes, inElemBytes: elementBytes, outElemBytes: 1,
		inPixelBytes: conv.inChannels * elementBytes, outPixelStride: conv.outChannels,
		termBytes:  shape.blockChannels() * elementBytes, // a term of the packed weight: see weight
		imageCount: conv.batch, requantization: tile.Unsigned}
	if t.original.spansPixels(t.elementChannels) { // an element may have channels of two pixels: pixels are not padded
		t.inPixelBytes = t.original.inChannels * channelSize(t.elementChannels)
	}
	t.inImageBytes = conv.h.Size * conv.w.Size * t.inPixelBytes
	t.hasByteElements, t.hasWordElements = t.elementChannels >= dotChannels, t.elementChannels == wordChannels
	t.hasSignedBytes = t.hasByteElements && t.multipliesSigned
}

// layOutScratch sets scratchOffsets, and returns the size of scratch memory in bytes.
func (t *directBytes) layOutScratch(weight *byteWeight) (bytes int) {
	sumsBytes := t.conv.outChannels * intBytes
	t.scratchOffsets.sums = weight.scratchBytes()
	t.scratchOffsets.zeroPoint = t.scratchOffsets.sums + sumsBytes
	// Code reads the sums in whole vectors, up to machine.LineBytes beyond the last sum. This space also has the zero
	// point, directly after the sums.
	t.scratchOffsets.images = t.scratchOffsets.sums + kit.AlignUp(sumsBytes+machine.LineBytes)
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
	rows := 0 // number of copied rows, of all images
	if t.copiesImages {
		rows = t.conv.batch * t.conv.h.Size
	}
	rowsPerChunk := max(1, machine.MoveGrain/(t.conv.w.Size*t.inPixelBytes))
	return graph.Phase{Chunks: 1 + kit.DivUp(rows, rowsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		if chunk == 0 {
			t.initSums(mem, weight)
			return nil
		}
		for row := (chunk - 1) * rowsPerChunk; row < min(rows, chunk*rowsPerChunk); row++ {
			if t.widenLoop != nil {
				t.widenRow(mem, row)
			} else {
				offset := t.scratchOffsets.images + row*t.rowBytes()
				t.copyRow(kit.SliceOf[uint8](mem.Scratch, offset, t.rowBytes()), mem, row)
			}
		}
		return nil
	}}
}

// initSums computes the initial values of sums, and stores the zero point of the result for the machine code.
func (t *directBytes) initSums(mem *graph.Mem, weight *byteWeight) {
	initialSumOf := weight.initialSums(mem, inputZeroPoint(mem, t.signMask, t.multipliesSigned))
	sums := kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.sums, t.original.outChannels)
	for outChannel := range sums {
		sums[outChannel] = initialSumOf(outChannel)
	}
	if t.requantization != tile.NotQuantized {
		zeroPoint := resultZeroPoint(mem, t.original.call.Out[0].DType)
		kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.zeroPoint, 1)[0] = zeroPoint
	}
}

// paddedChannels returns the number of channels per pixel of the copied images.
func (t *directBytes) paddedChannels() int { return t.inPixelBytes / channelSize(t.elementChannels) }

// rowBytes returns the number of bytes of a row of the copied images before bytes are widened to words.
func (t *directBytes) rowBytes() int { return t.conv.w.Size * t.paddedChannels() }

// widenRow copies a row of the padded images to scratch memory, as words. The rows of all images are numbered together.
// A row that needs padding is first copied to worker memory as bytes.
func (t *directBytes) widenRow(mem *graph.Mem, row int) {
	// Ptrs[0] is the result, and operand i is Ptrs[1+i]. Without padding, bytes are only widened.
	from := kit.AddressOf[uint8](mem.Ptrs[1+bytesInput], row*t.rowBytes())
	if t.original.needsCopy(t.elementChannels) {
		t.copyRow(kit.SliceOf[uint8](mem.WorkerScratch, 0, t.rowBytes()), mem, row)
		from = unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	}
	const wordBytes = 2
	to := unsafe.Pointer(&mem.Scratch[t.scratchOffsets.images+row*t.rowBytes()*wordBytes])
	rowStrides := []int{0, 0} // not used for one row
	const rows = 1
	t.widenLoop.Run(t.widenStates.Get(mem), []unsafe.Pointer{to, from}, rowStrides, t.rowBytes(), rows)
}

// copyRow copies a row of the padded images as bytes. The rows of all images are numbered together.
func (t *directBytes) copyRow(to []uint8, mem *graph.Mem, row int) {
	zeroPoint := *(*uint8)(mem.Ptrs[1+bytesInputZero]) ^ t.signMask
	// A row of padding has an imageRow outside the image.
	image, imageRow := row/t.conv.h.Size, row%t.conv.h.Size-t.original.h.PadBefore
	t.original.copyPaddedRow(to, t.conv.w.Size, mem, image, imageRow, zeroPoint, t.copyPixels)
}

// copyPixels copies pixels to whole elements and converts their signedness. Missing channels of the last element are 0
// before the conversion.
func (t *directBytes) copyPixels(to, from []uint8) {
	conv, paddedChannels := t.original, t.paddedChannels()
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
	if padded == 4 { // copy four bytes at once, and clear the bytes of the next pixel; the loop below copies the rest
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

// flipSigns adds 128 to bytes, eight at a time. The addition only inverts the highest bit.
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

// weight describes the packed weight, the vector operand of tiles. A panel has the weights of a block, the output
// channels that are computed together. In a panel, a term has one element for each output channel of the block.
func (t *directBytes) weight() *byteWeight {
	order := "kh,kw,c" // of the elements in a panel; part of the name of the format
	if t.original.spansPixels(t.elementChannels) {
		order = "kh,kw*c"
	}
	format := fmt.Sprintf("int%d panels of %d by %s in %ds, and sums", 8*channelSize(t.elementChannels),
		t.shape.blockChannels(), order, t.elementChannels)
	return &byteWeight{conv: t.original, format: format, weightBytes: t.blockCount() * t.panelBytes(),
		hasWords: t.hasWordElements, eachChannel: t.eachChannel, offset: t.weightOffset}
}

// eachChannel implements byteWeight.eachChannel.
func (t *directBytes) eachChannel(visit func(outChannel, offset int)) {
	for outChannel := range t.conv.outChannels {
		visit(outChannel, t.channelOffset(outChannel))
	}
}

// channelOffset returns the byte offset of the weights of an output channel. A block is in one group.
func (t *directBytes) channelOffset(outChannel int) int {
	outPerGroup, blockChannels := t.conv.outPerGroup(), t.shape.blockChannels()
	group, channelInGroup := outChannel/outPerGroup, outChannel%outPerGroup
	block := group*kit.DivUp(outPerGroup, blockChannels) + channelInGroup/blockChannels
	return block*t.panelBytes() + channelInGroup%blockChannels*t.inElemBytes
}

// weightOffset implements byteWeight.offset: it returns the byte offset of the weight of tap (kh, kw) and input channel
// c from the first weight of its output channel.
func (t *directBytes) weightOffset(kh, kw, c int) int {
	firstTerm, channel := (kh*t.conv.w.Taps+kw)*t.conv.inPerGroup, c // the tap's first term
	if t.original.spansPixels(t.elementChannels) {                   // the pixels of a row of the window form one tap
		firstTerm, channel = kh*t.conv.inPerGroup, kw*t.original.inPerGroup+c
	}
	term := firstTerm + channel/t.elementChannels
	return term*t.termBytes + channel%t.elementChannels*channelSize(t.elementChannels)
}

// bytesPack implements [graph.Impl.Pack]. It packs the weight, and no other operand.
func bytesPack(c *graph.Call, operand int) (graph.Packing, bool) {
	if operand != bytesWeight || c.Out[0].Numel() == 0 {
		return graph.Packing{}, false
	}
	return newDirectBytes(c).weight().packing(), true
}
