package conv

import (
	"cmp"
	"strconv"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the panels of the weight: their description for each algorithm (panelsFor), and the phase that packs
// them if the weight was not packed before (packedWeight). A panel has the weights of some output channels, in the
// order in which the code reads them: term by term, and for each term the weights of all these channels. A tap is an
// element of the window. A term is the product of a tap and an input channel.

// Indices of the weight: among the operands of a call, and in Mem.Ptrs, after the result and the input.
const (
	weightOperand = 1
	weightPtr     = 2
)

// minHalves is the number of elements from which panels have 16-bit floats if the weight has. Smaller panels stay in
// the caches, and converting them in every tile would take 2% to 10% of the time.
const minHalves = 1 << 17

// panelsFor returns the weight panels that an algorithm reads, or nil if it reads the weight in its own layout.
// Algorithms for channels-last images ("by pixels") order the terms by tap and then by channel. Algorithms for
// row-major images order them by channel and then by tap.
func panelsFor(conv *convShape, algorithm convAlgorithm, dtype tensor.DType) *multiply.Panels {
	half := dtype // the dtype of weights that tiles can convert from 16-bit floats
	if conv.outChannels*conv.termsPerOutput() >= minHalves {
		half = cmp.Or(multiply.Half(conv.call, weightOperand, dtype), dtype)
	}
	switch algorithm {
	case productByPixels:
		return conv.weightPanels(half, gemm.PanelCols(dtype), "kh,kw,c", conv.channelsLastTerms)
	case productByPlanes:
		return conv.weightPanels(dtype, gemm.PanelRows(dtype), "c,"+conv.tapNames(), conv.channelsFirstTerms)
	case depthwiseByPixels:
		if hasWindowCode(conv, dtype) { // the machine code of depthwise_pixels.go
			return conv.windowPanels(dtype)
		}
		panels := conv.weightPanels(dtype, conv.outChannels, "kh,kw", conv.channelsLastTerms)
		panels.Lanes, panels.Starts = conv.outChannels, []int{0} // one panel covers all groups
		return panels
	case directByPixels:
		if conv.usesGroupWindows(dtype) { // the same machine code, for groups of few channels
			return conv.windowPanels(dtype)
		}
		const byPlanes = false
		shape := newDirectShape(conv, dtype, byPlanes)
		return conv.weightPanels(half, shape.blockChannels(), conv.tapNames()+",c", conv.channelsLastTerms)
	case directFromPlanes:
		const byPlanes = true
		shape := newDirectShape(conv, dtype, byPlanes)
		return conv.weightPanels(half, shape.blockChannels(), "c,"+conv.tapNames(), conv.channelsFirstTerms)
	}
	return nil
}

// weightPanels returns the panels of each group, with width output channels per panel. terms returns the weight offsets
// of an output channel's terms, in the order of the panels. order is the name of this order, as a part of
// Panels.Format.
func (s *convShape) weightPanels(dtype tensor.DType, width int, order string, terms func() []int) *multiply.Panels {
	panels := &multiply.Panels{DType: dtype, Width: width, Lanes: s.outPerGroup(), LaneStride: s.weightStride.n,
		Depth: s.termsPerOutput(), Terms: terms}
	panels.Format = dtype.String() + " panels of " + strconv.Itoa(width) + " by " + order
	if s.groups > 1 {
		panels.Format += " in " + strconv.Itoa(s.groups) + " groups"
	}
	for group := range s.groups {
		panels.Starts = append(panels.Starts, group*s.outPerGroup()*s.weightStride.n)
	}
	return panels
}

// tapNames names the tap dimensions in the order of the weight.
func (s *convShape) tapNames() string {
	if s.isVolumetric() {
		return "kd,kh,kw"
	}
	return "kh,kw"
}

// tapOffset returns the offset of a tap from the first weight of a pair of channels, in elements.
func (s *convShape) tapOffset(tap int) int {
	kd, kh, kw := s.tap(tap)
	offset := kd*s.weightStride.d + kh*s.weightStride.h + kw*s.weightStride.w
	if s.phase != nil { // a phase of a transposed convolution has some of the taps
		offset += s.phase.firstTap
	}
	return offset
}

// channelsLastTerms returns the weight offsets of an output channel's terms, ordered by tap and then by channel.
func (s *convShape) channelsLastTerms() []int {
	terms := make([]int, 0, s.termsPerOutput())
	for tap := range s.taps() {
		for c := range s.inPerGroup {
			terms = append(terms, c*s.weightStride.c+s.tapOffset(tap))
		}
	}
	return terms
}

// channelsFirstTerms returns the weight offsets of an output channel's terms, ordered by channel and then by tap.
func (s *convShape) channelsFirstTerms() []int {
	terms := make([]int, 0, s.termsPerOutput())
	for c := range s.inPerGroup {
		for tap := range s.taps() {
			terms = append(terms, c*s.weightStride.c+s.tapOffset(tap))
		}
	}
	return terms
}

// packedWeight is the weight in panels. If the weight was not packed when the graph was planned, a phase of the kernel
// packs it into scratch memory.
type packedWeight struct {
	*multiply.Panels
	packedBefore bool // the weight was packed when the graph was planned
	Scratch      int  // bytes of the panels at the beginning of the kernel's scratch memory; 0 if packed before
}

// newPackedWeight returns the weight of a call in the format of the given panels. It fails if the weight is packed in
// another format.
func newPackedWeight(call *graph.Call, panels *multiply.Panels) (w packedWeight, err error) {
	w.Panels = panels
	if w.packedBefore, err = multiply.IsPackedIn(call, weightOperand, panels); !w.packedBefore {
		w.DType = call.Out[0].DType // runs pack the converted weight
		w.Scratch = kit.AlignUp(kit.BoundedProduct(panels.MatrixLen(), len(panels.Starts), panels.DType.Size()))
	}
	return w, err
}

// phases returns the phase that packs the weight, or nil if the weight was packed before.
func (w packedWeight) phases() []graph.Phase {
	if w.packedBefore {
		return nil
	}
	size, panelsPerGroup := w.DType.Size(), kit.DivUp(w.Lanes, w.Width)
	matrixBytes := w.MatrixLen() * size
	panels := panelsPerGroup * len(w.Starts)
	const chunkElements = 1 << 14 // approximate number of elements that a chunk packs
	panelsPerChunk := max(1, chunkElements/max(1, kit.BoundedProduct(w.Width, w.Depth)))
	listTerms := sync.OnceValue(w.Terms)
	return []graph.Phase{{Chunks: kit.DivUp(panels, panelsPerChunk), Run: func(m *graph.Mem, chunk int) error {
		terms := listTerms()
		for panel := chunk * panelsPerChunk; panel < min((chunk+1)*panelsPerChunk, panels); panel++ {
			group := panel / panelsPerGroup
			matrix := unsafe.Add(m.Ptrs[weightPtr], w.Starts[group]*size)
			w.FillPanel(m.Context, terms, m.Scratch[group*matrixBytes:][:matrixBytes], matrix, panel%panelsPerGroup)
		}
		return nil
	}}}
}

// address returns the address of the first panel.
func (w packedWeight) address(m *graph.Mem) unsafe.Pointer {
	if w.packedBefore {
		return m.Ptrs[weightPtr]
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch))
}

// kernel returns the kernel that packs the weight and computes the products.
func (w packedWeight) kernel(multiplier *multiply.Multiplier) *graph.Kernel {
	kernel := &graph.Kernel{Phases: w.phases(), FoldOrder: multiplier.Plan.FoldOrder()}
	phases, scratch, worker := multiplier.Phases(w.Scratch)
	kernel.Phases = append(kernel.Phases, phases...)
	kernel.Scratch, kernel.WorkerScratch = w.Scratch+scratch, worker
	return kernel
}
