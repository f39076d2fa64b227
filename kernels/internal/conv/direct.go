package conv

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// directConv is the kernel of a convolution in register tiles. A tile is the set of results that the registers hold at
// once: some pixels, in a block of output channels. A strip is a sequence of tiles in one block. A panel is the packed
// weight of a block. For example, a result of 64 channels and 56x56 pixels is computed in blocks of 32 channels (two
// vectors of 16) and tiles of at most 14 pixels. A row of the result is a strip of four tiles, and a block has 56
// strips.
//
// newDirect divides the results of an image into tiles and strips (makeTiles), chooses their order (chooseOrder), and
// generates code for each kind of tile (compile). When a strip is computed, appendCalls lists the calls of the code.
//
// The channels of a block are contiguous in the result and in its panel. Pixels of the input are read in place, from
// channels-last images or from planes. Taps outside the image are skipped. For this, tiles at the left and at the right
// border have separate code, and the number of rows of the window that are inside the image is an argument of the code.
// An element of the input is a number or, if the operands are bytes or words, a set of adjacent channels of a pixel
// that one instruction multiplies and sums (bytes_elements.go).
type directConv struct {
	conv    *convShape
	shape   directShape
	sums    sumBlocks // blocks of terms into which the sum of a result is divided
	workers graph.PerWorker[directRun]

	// The operands and the result.
	elemBytes       int            // bytes of a sum; results of floats have this size, too
	inElemBytes     int            // bytes of an element of the input and of the weight
	outElemBytes    int            // bytes of an element of the result
	inImageBytes    int            // stride of the input's images, in bytes
	inPixelBytes    int            // stride of the input's pixels, in bytes
	outPixelStride  int            // stride of the pixels of a row of the result, in elements
	termBytes       int            // stride of terms in a panel, in bytes; a term is a tap and an input channel
	half            target.Half    // the format of the weight if it has 16-bit floats
	hasByteElements bool           // whether operands are bytes; an element then has four or eight bytes
	hasSignedBytes  bool           // whether bytes of the input are signed
	hasWordElements bool           // whether operands are 16-bit words; an element is then a pair of words
	requantization  tile.Quantized // requantization of sums, if operands are quantized
	epilogue        codeEpilogue   // pointwise operations on the result, in the code or after each strip

	// The code, and the division of the results into tiles and strips.
	specs       []*tile.Spec     // by kind of tile: the description of its code, for a whole block of channels
	codes       [2][]*jit.Func   // code for each spec: codes[0] for whole blocks, codes[1] for a shorter last block
	tiles       pieces           // tiles of an image's pixels, or of a row
	tilesBySize []equalPieces    // the same tiles
	rowTemplate []directCall     // if strips are rows: the calls of a row, relative to the row
	stripCount  int              // number of strips of an image
	stripRanges machine.Division // division of tiles (pointwiseTiling) or row pairs (rowPairTiling) into strips

	// The order of the computation.
	order              multiply.StripOrder // the order of blocks and strips, and their division into chunks
	imageCount         int                 // number of images of the batch; 1 if each strip spans all images
	bandsSpanImages    bool                // whether the order numbers the strips of all images together (see chooseOrder)
	prefetchLines      int                 // cache lines that each iteration of the loop over terms prefetches
	stripPrefetchBytes int                 // bytes of the next block's weight that each strip prefetches
	prefetchesImage    bool                // whether the code prefetches pixels of the next tile instead of weights
}

// directCall is a call of machine code for adjacent tiles of one kind, in one image and one block.
type directCall struct {
	kind                     int // kind of tile: index in specs
	tiles                    int // number of adjacent tiles
	in, out, weight          int // byte offsets in the image, in its result, and in the block's panel
	windowPlanes, windowRows int // numbers of planes and rows of the window, if the code takes them as arguments
}

// directRun is the state of a worker that runs a direct convolution. Its args are the arguments of the code: addresses
// (Ptr), byte offsets from them (Row), and other numbers (Step).
type directRun struct {
	args     jit.Args
	epilogue fusion.EpilogueRun
	calls    []directCall // the calls of the current strip
}

const (
	// directCallMACs bounds the multiply-adds of a call with vectors of 64 bytes. A goroutine cannot be preempted
	// within a call, so a call may take at most 50 us. The bound assumes 50,000 float32 multiply-adds per microsecond,
	// half of the measured rate. CallDivisor is 4 on arm64, whose slow cores take longer, and else 1.
	directCallMACs = 5 << 19 / machine.CallDivisor
	// maxDirectTerms bounds the terms of a result, so that a call with one tile takes at most 50 us.
	maxDirectTerms = 1 << 14
	// pointwiseStripMACs is the approximate number of multiply-adds per strip of a pointwise convolution.
	pointwiseStripMACs = 1 << 19
)

// directKernel makes the kernel of direct convolution.
func directKernel(conv *convShape, algorithm convAlgorithm) (*graph.Kernel, error) {
	dtype := conv.call.Out[0].DType
	if algorithm == directByPixels && conv.usesGroupWindows(dtype) {
		return depthwiseWindows(conv, dtype)
	}
	weight, err := newPackedWeight(conv.call, panelsFor(conv, algorithm, dtype))
	if err != nil {
		return nil, err
	}
	t, err := newDirect(conv, dtype, weight.DType, algorithm == directFromPlanes)
	if err != nil {
		return nil, err
	}
	compute := t.computePhase(func(args *jit.Args, m *graph.Mem) {
		args.Ptr[tile.In], args.Ptr[tile.Vec] = m.Ptrs[1], weight.address(m) // Vec: the operand that is read as vectors
		args.Ptr[tile.Bias] = conv.denseBias(m, t.elemBytes)
	})
	compute.Flow = conv.flow(&t.order, t.orderStripStart, t.shape.byPlanes)
	return &graph.Kernel{Phases: append(weight.phases(), compute), Scratch: weight.Scratch,
		WorkerScratch: conv.denseBiasBytes(t.elemBytes), Code: t.listings}, nil
}

// newDirect chooses the tiles and their order, and generates the code, for a convolution that hasDirectCode accepts.
// byPlanes is set if the input has the layout by planes. weight is the dtype of the panels: 16-bit floats are
// converted.
func newDirect(conv *convShape, dtype, weight tensor.DType, byPlanes bool) (*directConv, error) {
	shape := newDirectShape(conv, dtype, byPlanes)
	elemBytes := dtype.Size()
	t := &directConv{conv: conv, shape: shape, elemBytes: elemBytes, inElemBytes: elemBytes, outElemBytes: elemBytes,
		inImageBytes: conv.inStride.n * elemBytes, inPixelBytes: conv.inPixelStride(byPlanes) * elemBytes,
		outPixelStride: conv.outPixelStride(), termBytes: shape.blockChannels() * weight.Size(), half: gemm.HalfFormat(weight),
		imageCount: conv.batch}
	if conv.phase != nil { // a phase of a transposed convolution, with strided results (transpose_direct.go)
		t.outPixelStride = conv.outStride.w
	}
	t.epilogue = newCodeEpilogue(conv.epilogue, conv.outChannels, tile.FirstEpilogueOperand)
	t.sums = newSumBlocks(conv, &shape)
	t.makeTiles()
	t.chooseOrder()
	return t, t.compile()
}

// compile generates the code of each kind of tile, once for whole blocks and once for the last block of a group.
func (t *directConv) compile() error {
	channelCounts := []int{t.shape.blockChannels()} // of whole blocks and, if it is shorter, of the last block
	if remaining := t.conv.outPerGroup() % t.shape.blockChannels(); remaining > 0 {
		channelCounts = append(channelCounts, remaining)
	}
	for i, channels := range channelCounts {
		for _, spec := range t.specs {
			code, err := tile.Compile(t.specForChannels(spec, channels), machine.HostFeatures())
			if err != nil {
				return fmt.Errorf("direct convolution: %w", err)
			}
			t.codes[i] = append(t.codes[i], code)
		}
	}
	return nil
}

// specForChannels returns the spec of the same kind of tile for a block of the given number of channels.
func (t *directConv) specForChannels(wholeBlock *tile.Spec, channels int) *tile.Spec {
	spec := *wholeBlock
	spec.Vectors, spec.Lanes = kit.DivUp(channels, t.shape.lanes), channels%t.shape.lanes
	spec.PrefetchedLines, spec.Epilogue, spec.Quantized = t.prefetchLines, t.epilogue.Steps, t.requantization
	spec.Int8, spec.Int16, spec.MatrixUnit = t.hasByteElements, t.hasWordElements, t.shape.usesMatrixUnit
	spec.SignedIn, spec.Half = t.hasSignedBytes, t.half
	spec.Int8Matrix = t.hasByteElements && t.inElemBytes == matrixChannels // elements of eight bytes
	if t.conv.hasBias {
		spec.InitialSum = tile.FromLanes
	}
	return &spec
}

// computePhase returns the phase that computes the result. The callback bind sets the addresses of input, weight and
// bias and, if the result is quantized, of scales and zero points.
func (t *directConv) computePhase(bind func(args *jit.Args, m *graph.Mem)) graph.Phase {
	return graph.Phase{Chunks: t.order.Chunks(), Run: func(m *graph.Mem, chunk int) error {
		worker := t.workers.Get(m)
		args := &worker.args
		bind(args, m)
		args.Ptr[tile.Out] = m.Ptrs[0]
		args.Ptr[tile.Prefetched] = args.Ptr[tile.Vec] // tiles prefetch weights, or pixels
		if t.prefetchesImage {
			args.Ptr[tile.Prefetched] = args.Ptr[tile.In]
		}
		t.epilogue.setOperands(args, &worker.epilogue, m)
		err := t.order.EachUnit(chunk, func(image, block, strip int) error {
			if err := t.computeStrip(worker, image, block, strip); err != nil {
				return err
			}
			t.applyEpilogue(worker, image, block, strip)
			return nil
		})
		clear(args.Ptr[:])
		worker.epilogue.Release()
		return err
	}}
}

// computeStrip computes a strip of an image for a block of output channels.
func (t *directConv) computeStrip(worker *directRun, image, block, strip int) error {
	conv, args := t.conv, &worker.args
	firstChannel, channels := t.channelsOf(block)
	codes := t.codes[0]
	if channels < t.shape.blockChannels() {
		codes = t.codes[1]
	}

	biasOffset := firstChannel * t.elemBytes // also the offset of the scales
	args.Row[tile.Bias] = biasOffset
	if t.requantization != tile.NotQuantized {
		args.Row[tile.Scales] = biasOffset
	}
	// The strips of a band (see chooseOrder) each prefetch a part of the next block's panel.
	args.Row[tile.Prefetched] = t.panelStart((block+1)%t.order.Blocks) + strip%t.order.BandStrips*t.stripPrefetchBytes

	// The byte offsets of the image, its result and the panel. Each call adds its offsets within them.
	image, strip = t.imageAndStrip(image, strip)
	group := firstChannel / conv.outPerGroup()
	in := image*t.inImageBytes + group*conv.inPerGroup*conv.inStride.c*t.inElemBytes
	out := (image*conv.outStride.n + firstChannel + conv.outStart()) * t.outElemBytes
	weight := t.panelStart(block)

	rowLoop := tile.LoopTrips + t.shape.windowLoop() // index in args.Step of the number of window rows
	worker.calls = t.appendCalls(worker.calls[:0], strip)
	for _, call := range worker.calls {
		args.Row[tile.In], args.Row[tile.Out], args.Row[tile.Vec] = in+call.in, out+call.out, weight+call.weight
		if t.prefetchesImage {
			args.Row[tile.Prefetched] = in + call.in + t.specs[call.kind].Rows*t.inPixelBytes
		}
		t.epilogue.SetOffsets(args, out+call.out, biasOffset)
		args.Rows, args.Step[rowLoop] = call.tiles, call.windowRows
		if t.shape.loopsOverDepth { // the loop over planes is around the loop over rows
			args.Step[rowLoop-1] = call.windowPlanes
		}
		if err := codes[call.kind].Call(args); err != nil {
			return err
		}
	}
	return nil
}

// channelsOf returns the first output channel of a block, and its number of channels.
func (t *directConv) channelsOf(block int) (first, count int) {
	outPerGroup, blockChannels := t.conv.outPerGroup(), t.shape.blockChannels()
	blocksPerGroup := kit.DivUp(outPerGroup, blockChannels)
	firstInGroup := block % blocksPerGroup * blockChannels
	return block/blocksPerGroup*outPerGroup + firstInGroup, min(blockChannels, outPerGroup-firstInGroup)
}

// imageAndStrip converts numbers of an image and a strip of t.order. It returns the number of the image in the batch,
// and the number of the strip in this image. They differ from the arguments if the order numbers the strips of all
// images together (bandsSpanImages).
func (t *directConv) imageAndStrip(image, strip int) (imageInBatch, stripInImage int) {
	if t.bandsSpanImages {
		return strip / t.stripCount, strip % t.stripCount
	}
	return image, strip
}

// applyEpilogue applies the epilogue to a strip of an image and the channels of a block. It does nothing if the code
// has applied the epilogue in registers.
func (t *directConv) applyEpilogue(worker *directRun, image, block, strip int) {
	if t.epilogue.strips == nil {
		return
	}
	conv := t.conv
	firstChannel, channels := t.channelsOf(block)
	image, strip = t.imageAndStrip(image, strip)
	start := image*conv.outStride.n + firstChannel + conv.outStart()
	for first, end := t.stripStart(strip), t.stripStart(strip+1); first < end; {
		pixels := end - first
		if conv.phase != nil { // pixels have a constant distance only within a row
			pixels = min(pixels, conv.w.Results-first%conv.w.Results)
		}
		const channelStride = 1
		t.epilogue.strips.Apply(&worker.epilogue, start+t.outOffset(first), pixels, t.outPixelStride, channels, channelStride)
		first += pixels
	}
}

// outOffset returns the offset of a pixel of the result from the first pixel, in elements.
func (t *directConv) outOffset(pixel int) int {
	conv := t.conv
	if conv.phase == nil {
		return pixel * t.outPixelStride
	}
	row, col := pixel/conv.w.Results, pixel%conv.w.Results
	return row/conv.h.Results*conv.outStride.d + row%conv.h.Results*conv.outStride.h + col*conv.outStride.w
}

// orderStripStart returns the first output pixel of strip number `strip` in the order of computation. It counts from
// the first pixel of the image, or of the batch if a band spans images.
func (t *directConv) orderStripStart(strip int) int {
	image, strip := t.imageAndStrip(0, strip)
	return image*t.conv.pixelsOut() + t.stripStart(strip)
}

// hasDirectCode reports whether machine code supports a convolution of this size and dtype. Strides do not matter.
func hasDirectCode(conv *convShape, dtype tensor.DType) bool {
	canGenerate := tile.Supports(machine.HostFeatures()) && jit.Available() == nil
	hasDType := dtype == tensor.Float32 || dtype == tensor.Float64
	isEmpty := conv.batch*conv.outChannels*conv.pixelsOut() == 0
	if !canGenerate || !hasDType || isEmpty {
		return false
	}
	hasFewTerms := conv.termsPerOutput() > 0 && conv.termsPerOutput() <= maxDirectTerms
	return hasFewTerms && conv.inputReach(max(conv.inChannels, 1), dtype.Size()) < maxReach &&
		conv.outputReach(dtype.Size()) < maxReach
}

// listings returns the generated code.
func (t *directConv) listings() (list []expr.Listing) {
	for i, codes := range t.codes {
		for kind, code := range codes {
			name := fmt.Sprintf("tile %d, %d rows", kind, t.specs[kind].Rows)
			if i == 1 {
				name += ", last block of channels"
			}
			list = append(list, expr.Listing{Name: name, Assembly: code.Listing})
		}
	}
	return list
}
