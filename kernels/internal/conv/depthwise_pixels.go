package conv

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// depthwiseWindow is the kernel of convolutions of channels-last images with groups of one or few channels, by machine
// code generated for the window. A tile is a rectangle of results that stays in registers. A strip is a row of tiles,
// for one block of channels. Tiles at the border of the image have separate code, which skips taps outside the image.
// If the number of channels is no multiple of the vector length, the last vector overlaps the previous vector and
// computes some results twice.
//
// For example, a result of 8x12 pixels with windows of 3x3 and padding 1 has 2x3 tiles of 4x4 results, and two strips.
// Six kinds of tiles have separate code: the left, the middle and the right tile of each strip.
type depthwiseWindow struct {
	windowShape // sizes of tiles, vectors of channels and blocks of vectors (depthwise_pixels_tiles.go)

	conv  *convShape
	specs []*depthwise.Spec // descriptions of the code of distinct tiles
	codes []*jit.Func       // code for each spec
	// outPixelStride is the distance between pixels of the result, in elements.
	outPixelStride int
	tilesDown      []axisTile   // rows of tiles
	tilesAcross    []axisTile   // tiles of one row
	specIndex      [][]int      // index in specs, by kind in tilesDown and kind in tilesAcross
	epilogue       codeEpilogue // fused operations on results; strips, if not nil, applies them to a computed strip
	workers        graph.PerWorker[windowRun]
}

// windowRun is the state of a worker that runs a depthwiseWindow. The field args has the arguments of the code:
// addresses (Ptr), byte offsets from them (Row), and other numbers (Step).
type windowRun struct {
	args     jit.Args
	epilogue fusion.EpilogueRun
	calls    []windowCall // the calls of the current strip
}

// newDepthwiseWindow generates the code of a convolution that hasWindowCode accepts.
func newDepthwiseWindow(conv *convShape, dtype tensor.DType) (*depthwiseWindow, error) {
	t := &depthwiseWindow{conv: conv, outPixelStride: conv.outPixelStride()}
	t.windowShape, _ = newWindowShape(conv, dtype.Size())
	t.epilogue = newCodeEpilogue(conv.epilogue, conv.outChannels, depthwise.FirstEpilogueOperand)
	if t.epilogue.strips != nil && t.recomputesResults() { // the epilogue must not be applied twice to a result
		conv.epilogue.Defer() // a phase after the kernel applies it
		t.epilogue.strips = nil
	}
	t.makeTiles()
	for _, spec := range t.specs {
		code, err := depthwise.Compile(spec, machine.HostFeatures())
		if err != nil {
			return nil, fmt.Errorf("depthwise convolution: %w", err)
		}
		t.codes = append(t.codes, code)
	}
	return t, nil
}

// recomputesResults reports whether the last block recomputes some results of the block before it: its only vector
// overlaps the last vector of that block. The epilogue may already have been applied to these results.
func (t *depthwiseWindow) recomputesResults() bool {
	lastBlockVectors := t.vectors - (t.blockCount-1)*t.blockVectors
	return t.overlap > 0 && t.blockCount > 1 && lastBlockVectors == 1
}

// phase returns the phase that computes the result. weight returns the packed weight. The loops of the phase, from the
// outermost, are over images, over two halves (bands) of an image's strips, over blocks of channels, and over strips. A
// small image is not divided into halves, because both halves would read almost the same rows. In addition, the
// preceding matrix product usually divides a small image among workers by channels.
func (t *depthwiseWindow) phase(weight func(m *graph.Mem) unsafe.Pointer) graph.Phase {
	conv := t.conv
	strips := len(t.tilesDown)
	order := multiply.StripOrder{Images: conv.batch, Blocks: t.blockCount, Strips: strips,
		BandStrips: kit.DivUp(strips, 2)}
	if strips <= fewStrips && t.blockCount > 1 { // a small image has one band
		order.BandStrips = strips
	}
	order.Divide(t.stripMACs(strips), windowGrain)
	const byPlanes = false
	firstPixel := func(strip int) int { return t.rowOf(strip) * conv.w.Results }
	flow := conv.flow(&order, firstPixel, byPlanes) // which input and result rows each chunk needs and completes
	return graph.Phase{Chunks: order.Chunks(), Flow: flow, Run: func(m *graph.Mem, chunk int) error {
		worker := t.workers.Get(m)
		args := &worker.args
		args.Ptr[depthwise.In], args.Ptr[depthwise.Weights], args.Ptr[depthwise.Out] = m.Ptrs[1], weight(m), m.Ptrs[0]
		args.Ptr[depthwise.Bias] = conv.denseBias(m, t.elemBytes)
		t.epilogue.setOperands(args, &worker.epilogue, m)
		err := order.EachUnit(chunk, func(image, block, strip int) error {
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

// stripMACs returns the number of multiply-adds of a strip if an image is divided into the given number of strips. If
// windows do not overlap, moving their input takes longer than the multiply-adds. stripMACs then returns the number of
// multiply-adds that take as long as moving the input.
func (t *depthwiseWindow) stripMACs(strips int) int {
	conv := t.conv
	results := kit.DivUp(conv.h.Results, strips) * conv.w.Results * t.blockVectors * t.lanes
	movedElements := 1 + conv.h.Stride*conv.w.Stride // elements per result: the result itself and its part of the input
	return results * max(conv.termsPerOutput(), movedElementMACs*movedElements)
}

// computeStrip computes one strip of an image. block is its block of channels.
func (t *depthwiseWindow) computeStrip(worker *windowRun, image, block, strip int) error {
	conv, args := t.conv, &worker.args
	firstVector := block * t.blockVectors
	vectors, overlap := min(t.blockVectors, t.vectors-firstVector), 0
	if firstVector+vectors == t.vectors { // in the last block, the last vector overlaps the previous vector
		overlap = t.overlap * t.elemBytes
	}
	channelOffset := firstVector * t.vectorBytes // byte offset of the block's first channel in a pixel
	if vectors == 1 {                            // the first vector is the overlapping vector, if there is an overlap
		channelOffset -= overlap
	}
	args.InnerCount, args.Step[depthwise.Overlap] = vectors, overlap
	const byPlanes = false
	in := image*conv.h.Size*conv.w.Size*conv.inPixelStride(byPlanes)*t.elemBytes + channelOffset
	out := image*conv.h.Results*conv.w.Results*t.outPixelStride*t.elemBytes + channelOffset
	weights := firstVector * conv.termsPerOutput() * t.vectorBytes
	args.Row[depthwise.Bias] = channelOffset
	worker.calls = t.appendCalls(worker.calls[:0], strip)
	for _, call := range worker.calls {
		args.Row[depthwise.In], args.Row[depthwise.Out] = in+call.in, out+call.out
		args.Row[depthwise.Weights] = weights + call.weight
		t.epilogue.SetOffsets(args, out+call.out, channelOffset)
		args.Rows = call.tiles // the code computes one tile for each of these rows
		args.Step[depthwise.WindowRows] = call.rows
		if err := t.codes[call.code].Call(args); err != nil {
			return err
		}
	}
	return nil
}

// applyEpilogue applies the epilogue to one strip of an image. block is its block of channels. It does nothing if the
// code has applied the epilogue in registers.
func (t *depthwiseWindow) applyEpilogue(worker *windowRun, image, block, strip int) {
	if t.epilogue.strips == nil {
		return
	}
	conv := t.conv
	first, end := t.rowOf(strip), t.rowOf(strip+1)
	channel := block * t.blockVectors * t.lanes
	channels := min(t.blockVectors*t.lanes, conv.inChannels-channel)
	resultOffset := (image*conv.h.Results+first)*conv.w.Results*t.outPixelStride + channel
	pixels := (end - first) * conv.w.Results
	const channelStride = 1
	t.epilogue.strips.Apply(&worker.epilogue, resultOffset, pixels, t.outPixelStride, channels, channelStride)
}

// rowOf returns the first output row of a strip.
func (t *depthwiseWindow) rowOf(strip int) int {
	if strip == len(t.tilesDown) {
		return t.conv.h.Results
	}
	return t.tilesDown[strip].start
}

// hasWindowCode reports whether machine code by pixels supports a convolution with groups of one or few channels.
func hasWindowCode(conv *convShape, dtype tensor.DType) bool {
	hasCode := depthwise.Supports(machine.HostFeatures()) && jit.Available() == nil
	if conv.outChannels != conv.inChannels || !hasCode || dtype != tensor.Float32 && dtype != tensor.Float64 {
		return false
	}
	shape, ok := newWindowShape(conv, dtype.Size())
	if !ok || conv.h.Taps == 0 || conv.w.Taps == 0 {
		return false
	}
	isInReach := conv.inputReach(conv.inChannels, dtype.Size()) < maxReach &&
		kit.BoundedProduct(conv.pixelsOut(), conv.inChannels, dtype.Size()) < maxReach
	hasSmallWindow := kit.BoundedProduct(conv.taps(), max(conv.h.Dilation, conv.w.Dilation)) < maxWindowSize
	return isInReach && hasSmallWindow && shape.maxKinds(conv) <= maxWindowKinds
}

const (
	// maxWindowSize bounds the taps of a window times the dilation.
	maxWindowSize = 1 << 16
	// maxWindowKinds bounds the kinds of tiles in an image. Code is generated for each kind. Tiles of one kind have the
	// same size and the same taps inside the image.
	maxWindowKinds = 1 << 12
)

// maxKinds returns an upper bound for the number of kinds of tiles. Along an axis, tiles inside the image have at most
// two kinds, because their sizes differ by at most one result. Tiles at the border have other kinds.
func (shape *windowShape) maxKinds(conv *convShape) int {
	kinds := func(a *geometry.Axis, tile int) int {
		// At each end of the axis, the windows of about Extent(1)/(tile*Stride) tiles reach outside the image. The
		// constants 2 and 3 cover rounding and the tiles inside the image.
		return min(kit.DivUp(a.Results, tile), 2*(kit.DivUp(a.Extent(1), tile*a.Stride)+2)+3)
	}
	return kinds(&conv.h, shape.tile[0]) * kinds(&conv.w, shape.tile[1])
}

// windowPanels describes the packed weight. It has one panel for each vector of channels. A term of a panel is a tap
// or, if groups have several channels, a tap and a channel of the group. It has a weight for each lane.
func (s *convShape) windowPanels(dtype tensor.DType) *multiply.Panels {
	shape, _ := newWindowShape(s, dtype.Size())
	panels := &multiply.Panels{DType: dtype,
		Format: fmt.Sprintf("%v vectors of %d of %d by kh,kw", dtype, shape.lanes, s.outChannels),
		// Each vector of channels is a matrix of one panel.
		Width: shape.lanes, Lanes: shape.lanes, LaneStride: s.weightStride.n, Depth: s.termsPerOutput(),
		Terms: s.channelsFirstTerms, Starts: shape.starts()}
	if s.inPerGroup > 1 {
		panels.Format += fmt.Sprintf(" of groups of %d", s.inPerGroup)
	}
	for i := range panels.Starts { // from channels to elements of the weight
		panels.Starts[i] *= s.weightStride.n
	}
	return panels
}

// listings returns the generated code.
func (t *depthwiseWindow) listings() (list []expr.Listing) {
	for i, code := range t.codes {
		spec := t.specs[i]
		list = append(list, expr.Listing{Assembly: code.Listing,
			Name: fmt.Sprintf("tile %d, %d by %d, columns %d to %d", i, spec.Tile[0], spec.Tile[1], spec.First[1], spec.End[1])})
	}
	return list
}
