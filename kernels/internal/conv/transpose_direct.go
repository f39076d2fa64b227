package conv

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes transposed convolutions by the code of direct convolution. The results whose indices have the same
// remainder modulo the stride form a phase (polyphase decomposition; these are not the phases of a kernel). All results
// of a phase are sums over the same taps, so that a phase is an ordinary convolution with stride 1 and some of the taps
// in reverse order. For example, a window of 4x4 taps with stride 2 gives four convolutions with windows of 2x2 taps.
// The phases write interleaved pixels of the result. In one dimension, with taps w0 to w3, stride 2 and padding 1:
//
//	phase 0: y[0], y[2], ...    y[2i]   = w1*x[i] + w3*x[i-1]
//	phase 1: y[1], y[3], ...    y[2i+1] = w0*x[i+1] + w2*x[i]
//
// A transposed convolution is the gradient of an ordinary convolution. A transposedWindows describes it by the axes of
// the ordinary convolution. In these axes, Size is therefore the size of the result, and Results the size of the input.
// A convShape describes a phase as an ordinary convolution, and a directConv is its kernel.

// transposedPhase relates a phase to the transposed convolution. The packed weight is divided into panels, one for each
// block of output channels. A panel has the terms of all phases, phase by phase. A term is the product of one tap and
// one input channel.
type transposedPhase struct {
	outStart   int // offset of the first result of the phase in the result, in elements
	firstTap   int // offset of the first tap of the phase in the weight, in elements
	firstTerm  int // index of the first term of the phase in a panel
	panelTerms int // number of terms of a panel, of all phases
	vectors    int // number of vectors of channels in a block, which is the same in all phases
}

// lowerDirect makes the kernel of direct convolution. The chunks of all phases are in one phase of the kernel.
func (op transposedConv) lowerDirect(c *graph.Call, byPlanes bool) (*graph.Kernel, error) {
	dtype := c.Out[0].DType
	phaseConvs, ok := op.phaseShapes(c, dtype, byPlanes) // by number of the phase (see phaseShape)
	if !ok {
		return nil, fmt.Errorf("%s: no machine code for this call", op.name)
	}
	weight, err := newPackedWeight(c, op.phasePanels(c, phaseConvs, dtype, byPlanes))
	if err != nil {
		return nil, err
	}
	var computePhases []graph.Phase
	var directConvs []*directConv
	for _, conv := range phaseConvs {
		direct, err := newDirect(conv, dtype, dtype, byPlanes)
		if err != nil {
			return nil, err
		}
		directConvs = append(directConvs, direct)
		computePhases = append(computePhases, direct.computePhase(func(args *jit.Args, mem *graph.Mem) {
			args.Ptr[tile.In], args.Ptr[tile.Vec] = mem.Ptrs[1], weight.address(mem)
			args.Ptr[tile.Bias] = conv.denseBias(mem, dtype.Size())
		}))
	}
	return &graph.Kernel{Phases: append(weight.phases(), joinChunks(computePhases)), Scratch: weight.Scratch,
		WorkerScratch: phaseConvs[0].denseBiasBytes(dtype.Size()),
		Code:          func() []expr.Listing { return phaseListings(directConvs) }}, nil
}

// phaseListings returns the generated code of all phases of the transposed convolution.
func phaseListings(directConvs []*directConv) (all []expr.Listing) {
	for i, direct := range directConvs {
		for _, listing := range direct.listings() {
			listing.Name = fmt.Sprintf("phase %d, %s", i, listing.Name)
			all = append(all, listing)
		}
	}
	return all
}

// joinChunks returns one phase with the chunks of independent phases.
func joinChunks(phases []graph.Phase) graph.Phase {
	ends := make([]int, len(phases))
	total := 0
	for i, phase := range phases {
		total += phase.Chunks
		ends[i] = total
	}
	return graph.Phase{Chunks: total, Run: func(mem *graph.Mem, chunk int) error {
		i, isEnd := slices.BinarySearch(ends, chunk) // ends are exclusive
		if isEnd {
			i++
		}
		firstChunk := ends[i] - phases[i].Chunks
		return phases[i].Run(mem, chunk-firstChunk)
	}}
}

// maxPhases bounds the generated code. Strides of 2 give 8 phases for volumes, strides of 4 give 16 phases for images.
const maxPhases = 16

// phaseShapes returns the phases of a call as convolutions, or false if direct convolution does not support the call.
// It supports batches of floats with few phases, if no phase is empty and every tap belongs to a phase.
func (op transposedConv) phaseShapes(call *graph.Call, dtype tensor.DType, byPlanes bool) ([]*convShape, bool) {
	windows := op.windows(call)
	phaseCount := 1
	for _, axis := range []*geometry.Axis{&windows.d, &windows.h, &windows.w} {
		hasEmptyPhase := axis.Stride > axis.Size
		if hasEmptyPhase || axis.Results == 0 {
			return nil, false
		}
		phaseCount = kit.BoundedProduct(phaseCount, axis.Stride)
	}
	// The greatest distance in bytes between pixels of a tile, which may have pixels of several rows.
	reach := kit.BoundedProduct(maxTilePixels, windows.h.Stride, windows.w.Size, windows.outChannels, dtype.Size())
	isBatched := call.Meta(0).Rank() == op.dims+2
	if !isBatched || phaseCount > maxPhases || reach >= maxReach {
		return nil, false
	}
	phaseConvs := make([]*convShape, phaseCount)
	for i := range phaseConvs {
		phaseConvs[i] = op.phaseShape(call, windows, i)
		if !hasDirectCode(phaseConvs[i], dtype) {
			return nil, false
		}
	}
	vectors := newDirectShape(phaseConvs[0], dtype, byPlanes).vectors
	terms := 0 // of the phases so far
	for _, conv := range phaseConvs {
		conv.phase.vectors, conv.phase.firstTerm = vectors, terms
		terms += conv.termsPerOutput()
	}
	for _, conv := range phaseConvs {
		conv.phase.panelTerms = terms
	}
	return phaseConvs, true
}

// phaseShape returns phase number `phase` of a call as a convolution. The number combines the remainders of the three
// dimensions: with strides of 2, phase 5 = 4 + 1 has the odd planes, the even rows and the odd columns.
func (op transposedConv) phaseShape(call *graph.Call, windows *transposedWindows, phase int) *convShape {
	conv := &convShape{batch: windows.images, inChannels: windows.inChannels, outChannels: windows.outChannels,
		inPerGroup: windows.inPerGroup(), groups: windows.groups, hasBias: windows.hasBias, call: call,
		epilogue: fusion.EpilogueOf(call), phase: &transposedPhase{}}
	if conv.hasBias {
		conv.biasStride = call.Meta(2).Strides[0]
	}
	_, conv.inStride = sizesAndStrides(call.Meta(0), op.dims)
	_, conv.weightStride = sizesAndStrides(call.Meta(1), op.dims)
	_, conv.outStride = sizesAndStrides(call.Out[0], op.dims)
	// The weight of a transposed convolution is [input channel, output channel, taps].
	conv.weightStride.n, conv.weightStride.c = conv.weightStride.c, conv.weightStride.n
	// setAxis sets an axis of the phase from an axis of the whole convolution. It multiplies the strides of weight and
	// result, fields of conv, by the distances of the phase's taps and results.
	setAxis := func(axis, whole *geometry.Axis, remainder int, weightStride, outStride *int) {
		var firstTap, tapStep int
		*axis, firstTap, tapStep = phaseAxis(whole, remainder)
		conv.phase.firstTap += firstTap * *weightStride
		conv.phase.outStart += remainder * *outStride
		*weightStride *= tapStep
		*outStride *= whole.Stride
	}
	remainderW, phaseDH := phase%windows.w.Stride, phase/windows.w.Stride
	remainderH, remainderD := phaseDH%windows.h.Stride, phaseDH/windows.h.Stride
	setAxis(&conv.w, &windows.w, remainderW, &conv.weightStride.w, &conv.outStride.w)
	setAxis(&conv.h, &windows.h, remainderH, &conv.weightStride.h, &conv.outStride.h)
	setAxis(&conv.d, &windows.d, remainderD, &conv.weightStride.d, &conv.outStride.d)
	return conv
}

// phaseAxis returns the phase with the given remainder of an axis of transposedWindows. It also returns the tap of the
// transposed convolution that is the first tap of the phase, and the distance of the phase's taps. In the example at
// the top, phase 0 has the taps w3 and w1: firstTap is 3, tapStep is -2, and PadBefore is 1. If no tap contributes to
// the phase, its window has one tap in the padding.
func phaseAxis(axis *geometry.Axis, remainder int) (phase geometry.Axis, firstTap, tapStep int) {
	divisor := greatestDivisor(axis.Stride, axis.Dilation)
	period := axis.Stride / divisor // distance of the taps of a phase; Stride divides period*Dilation
	phase = geometry.Axis{Size: axis.Results, Results: kit.DivUp(axis.Size-remainder, axis.Stride),
		Window: geometry.Window{Taps: 1, Stride: 1, Dilation: axis.Dilation / divisor}}
	// The taps of a phase have the same remainder modulo period. Find the first of them.
	for first := range min(axis.Taps, period) {
		// The tap contributes input i to result axis.Position(i, first) = axis.Position(0, first) + i*Stride. Result j
		// of the phase is result remainder + j*Stride, so i = j + distance/Stride.
		if distance := remainder - axis.Position(0, first); distance%axis.Stride == 0 {
			// Tap first+i*period of the transposed convolution is tap Taps-1-i of the phase.
			phase.Taps = kit.DivUp(axis.Taps-first, period)
			phase.PadBefore = (phase.Taps-1)*phase.Dilation - distance/axis.Stride
			return phase.Clamped(), first + (phase.Taps-1)*period, -period
		}
	}
	phase.PadBefore = phase.Results // the tap is before the first element for all results
	firstTap, tapStep = 0, 0
	return phase, firstTap, tapStep
}

// greatestDivisor returns the greatest common divisor of two positive numbers.
func greatestDivisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// phasePanels returns the panels of the weight.
func (op transposedConv) phasePanels(c *graph.Call, phaseConvs []*convShape, dtype tensor.DType,
	byPlanes bool) *multiply.Panels {
	params, conv := op.params(c, op.dims), phaseConvs[0]
	order, terms := conv.tapNames()+",c", (*convShape).channelsLastTerms
	if byPlanes {
		order, terms = "c,"+conv.tapNames(), (*convShape).channelsFirstTerms
	}
	shape := newDirectShape(conv, dtype, byPlanes)
	panels := conv.weightPanels(dtype, shape.blockChannels(), fmt.Sprintf("phases of %s, stride %v, "+
		"padding %v, dilation %v", order, params.stride, params.padding, params.dilation), func() (all []int) {
		for _, phaseConv := range phaseConvs {
			all = append(all, terms(phaseConv)...)
		}
		return all
	})
	panels.Depth = conv.phase.panelTerms
	for group := range panels.Starts {
		panels.Starts[group] = group * conv.inPerGroup * conv.weightStride.c
	}
	return panels
}

// directImpl returns the implementation by direct convolution, which reads channels-last images or planes.
func (op transposedConv) directImpl(name, doc string, byPlanes bool) graph.Impl {
	return graph.Impl{Name: name, Doc: doc, Epilogues: true,
		Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk { return op.directWalks(c, byPlanes) },
		Work:  func(c *graph.Call, walk graph.Walk) pricing.Work { return op.directWork(c, walk, byPlanes) },
		Read: func(c *graph.Call, _ graph.Walk, operand int, meta tensor.Meta) (work pricing.Work, ok bool) {
			switch {
			case operand > 0: // weight and bias are packed
				return work, true
			case byPlanes:
				return work, meta.IsContiguous()
			}
			return work, convolution{dims: op.dims}.isChannelsLast(meta)
		},
		Writes: func(c *graph.Call, _ graph.Walk, _ int, meta tensor.Meta) bool { return op.writesDirectly(c, meta) },
		Pack: multiply.PackFunc(func(c *graph.Call, operand int) (graph.Packing, bool) {
			phaseConvs, ok := op.phaseShapes(c, c.Out[0].DType, byPlanes)
			if operand != 1 || !ok {
				return graph.Packing{}, false
			}
			return multiply.PackingOf(op.phasePanels(c, phaseConvs, c.Out[0].DType, byPlanes)), true
		}),
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			return copies.CompileInDType(c, multiply.ComputationDType(c), func(c *graph.Call) (*graph.Kernel, error) {
				return op.lowerDirect(c, byPlanes)
			})
		}}
}

// directWalks returns the walk of direct convolution, which writes channels-last results, or nil if it does not support
// the call.
func (op transposedConv) directWalks(c *graph.Call, byPlanes bool) []graph.Walk {
	order, ok := convolution{dims: op.dims}.order(directByPixels, c.Meta(0).Rank())
	if !ok || c.Out[0].Numel() == 0 {
		return nil
	}
	if _, ok := op.phaseShapes(c, multiply.ComputationDType(c), byPlanes); !ok {
		return nil
	}
	walk := c.WalkInOrder(order)
	if byPlanes {
		walk.LoopOrder = tensor.RowMajorOrder(order.Rank())
	}
	return []graph.Walk{walk}
}

// writesDirectly reports whether direct convolution writes a result of the given layout. The channels must be
// contiguous, and the pixels of a tile must be within reach of machine code.
func (op transposedConv) writesDirectly(c *graph.Call, layout tensor.Meta) bool {
	_, stride := sizesAndStrides(layout, op.dims)
	reach := kit.BoundedProduct(maxTilePixels, op.windows(c).h.Stride, max(stride.h, stride.w), layout.DType.Size())
	return multiply.ComputationDType(c) == layout.DType && stride.c == 1 && reach < maxReach
}

// directWork returns the work of direct convolution.
func (op transposedConv) directWork(call *graph.Call, walk graph.Walk, byPlanes bool) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	dtype := multiply.ComputationDType(call)
	phaseConvs, ok := op.phaseShapes(call, dtype, byPlanes)
	if !ok {
		return work
	}
	multiply.ReclassifyStores(&work, call)
	const weight = 1 // index of the operand
	multiply.ReclassifyPanels(&work, call, weight, phaseConvs[0].batch*phaseConvs[0].pixelsIn())
	work.AddUnoverlapped(rateDirectStart, float64(len(phaseConvs)))
	if !call.IsConstant(weight) { // the kernel packs the weight
		work.AddUnits(multiply.RatePackRow, float64(call.Meta(weight).Numel()))
	}
	for _, conv := range phaseConvs {
		conv.tileWork(&work, rateDirectTaps, dtype, byPlanes)
	}
	return work
}
