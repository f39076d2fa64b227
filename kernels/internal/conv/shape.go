package conv

import (
	"errors"
	"strconv"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// convShape is a convolution over two dimensions, as kernels see it. Sequences have height 1, and unbatched inputs have
// n = 1. Strides count elements.
type convShape struct {
	n, c, h, w     int // input
	o, cg, kh, kw  int // weight; cg is the input channels per group
	groups         int
	sh, sw         int // strides of the window
	ph, pw, dh, dw int // padding, dilation
	oh, ow         int
	depthDim       depthParams // depth of volumes

	xs, ws, os [4]int // strides of input, weight and output
	bias       int    // stride of the bias
	hasBias    bool
	call       *graph.Call      // operand 1 is the weight
	tail       *fusion.Epilogue // fused epilogue; nil for none
}

// depthParams describes the depth dimension of a convolution of volumes; the other fields of convShape describe one
// plane. It is zero for images. Operands of volumes are dense.
type depthParams struct {
	in, out, k         int // planes of the input, the result and the window; 0 for images
	step, pad, dilated int
	ws                 int // stride of the weight
}

// rowsIn, rowsOut, pixelsIn and pixelsOut count the rows and pixels of an image or volume and of its result, over all
// planes; taps counts the elements of the window.
func (s *convShape) rowsIn() int    { return s.h * max(1, s.depthDim.in) }
func (s *convShape) rowsOut() int   { return s.oh * max(1, s.depthDim.out) }
func (s *convShape) pixelsIn() int  { return s.rowsIn() * s.w }
func (s *convShape) pixelsOut() int { return s.rowsOut() * s.ow }
func (s *convShape) taps() int      { return s.kh * s.kw * max(1, s.depthDim.k) }

// spatial returns sizes and strides in rank 4: batch, channels, height, width.
func spatial(m tensor.Meta, dims int) (shape, strides [4]int) {
	shape = [4]int{1, 1, 1, 1}
	lead := m.Rank() - dims // 1 without a batch
	copy(shape[2-lead:2], m.Shape[:lead])
	copy(strides[2-lead:2], m.Strides[:lead])
	copy(shape[4-dims:], m.Shape[lead:])
	copy(strides[4-dims:], m.Strides[lead:])
	return shape, strides
}

// og returns the output channels per group.
func (s *convShape) og() int { return s.o / s.groups }

// depth returns the number of products summed for an output element.
func (s *convShape) depth() int { return s.cg * s.taps() }

// pointwise reports whether each output pixel depends only on the input pixel at the same position.
func (s *convShape) pointwise() bool {
	return s.taps() == 1 && s.depthDim.in == 0 && s.sh == 1 && s.sw == 1 && s.ph == 0 && s.pw == 0 && s.oh == s.h &&
		s.ow == s.w
}

// denseNHWC reports whether a value is dense with channels as the fastest dimension.
func denseNHWC(shape, strides [4]int) bool {
	return tensor.Meta{Shape: shape[:], Strides: strides[:]}.IsChannelsLast()
}

// pixelStride returns the constant distance between neighbouring output pixels of a channel, or false if it is not
// constant.
func (s *convShape) pixelStride() (int, bool) {
	switch {
	case s.ow == 1:
		return s.os[2], true
	case s.oh == 1 || s.os[2] == s.ow*s.os[3]:
		return s.os[3], true
	}
	return 0, false
}

// errPixelStride is an internal error: walks only offer layouts with a constant pixel stride.
var errPixelStride = errors.New("convolution: the pixels of the result have no constant stride")

// tapAt returns the offset of a tap in the weight.
func (s *convShape) tapAt(tap int) int {
	return tap/s.kw/s.kh*s.depthDim.ws + tap/s.kw%s.kh*s.ws[2] + tap%s.kw*s.ws[3]
}

// channelsLastTerms returns the weight offsets of an output channel's terms, ordered by tap and then by channel.
func (s *convShape) channelsLastTerms() []int {
	terms := make([]int, 0, s.depth())
	for tap := range s.taps() {
		for c := range s.cg {
			terms = append(terms, c*s.ws[1]+s.tapAt(tap))
		}
	}
	return terms
}

// channelsFirstTerms returns the weight offsets of an output channel's terms, ordered by channel and then by tap.
func (s *convShape) channelsFirstTerms() []int {
	terms := make([]int, 0, s.depth())
	for c := range s.cg {
		for tap := range s.taps() {
			terms = append(terms, c*s.ws[1]+s.tapAt(tap))
		}
	}
	return terms
}

// convPanels returns the weight panels that an algorithm reads, or nil if it reads the weight in its own layout.
func convPanels(s *convShape, a convAlgorithm, d tensor.DType) *multiply.Panels {
	switch a {
	case convByPixels:
		return s.weightPanels(d, gemm.PanelCols(d), "kh,kw,c", s.depth(), s.channelsLastTerms)
	case convByPlanes:
		return s.weightPanels(d, gemm.PanelRows(d), "c,kh,kw", s.depth(), s.channelsFirstTerms)
	case depthwiseByPixels:
		if windowCompiles(s, d) {
			return s.windowPanels(d)
		}
		p := s.weightPanels(d, s.o, "kh,kw", s.depth(), s.channelsLastTerms)
		p.Lanes, p.Starts = s.o, []int{0} // one panel covers all groups
		return p
	case directByPixels:
		if s.groupsByWindow(d) {
			return s.windowPanels(d)
		}
		f := newDirectShape(s, d, false)
		return s.weightPanels(d, f.block(), s.tapNames()+",c", s.depth(), s.channelsLastTerms)
	case directFromPlanes:
		f := newDirectShape(s, d, true)
		return s.weightPanels(d, f.block(), "c,"+s.tapNames(), s.depth(), s.channelsFirstTerms)
	}
	return nil
}

// tapNames names the tap dimensions in the order of the weight.
func (s *convShape) tapNames() string {
	if s.depthDim.in > 0 {
		return "kd,kh,kw"
	}
	return "kh,kw"
}

// weightPanels returns the panels of each group's output channels, width channels per panel. `by` names the order of
// the terms in the packing's form.
func (s *convShape) weightPanels(d tensor.DType, width int, by string, depth int, terms func() []int) *multiply.Panels {
	p := &multiply.Panels{DType: d, Width: width, Lanes: s.og(), Lane: s.ws[0], Depth: depth, Terms: terms}
	p.Form = d.String() + " panels of " + strconv.Itoa(width) + " by " + by
	if s.groups > 1 {
		p.Form += " in " + strconv.Itoa(s.groups) + " groups"
	}
	for g := range s.groups {
		p.Starts = append(p.Starts, g*s.og()*s.ws[0])
	}
	return p
}

// packedWeight is the weight in panels. If it was not packed when the graph was planned, a phase of the kernel packs it
// into scratch memory.
type packedWeight struct {
	*multiply.Panels
	before  bool // packed when the graph was planned
	Scratch int  // bytes at the start of the kernel's scratch
}

func newPackedWeight(c *graph.Call, p *multiply.Panels) (w packedWeight, err error) {
	w.Panels = p
	if w.before, err = multiply.InPanels(c, 1, p); !w.before {
		w.Scratch = kit.AlignUp(kit.Times(p.Each(), len(p.Starts), p.DType.Size()))
	}
	return w, err
}

// phases returns the packing phase, or nothing if the weight was packed before.
func (w packedWeight) phases() []graph.Phase {
	if w.before {
		return nil
	}
	size, cuts := w.DType.Size(), kit.DivUp(w.Lanes, w.Width)
	each := w.Each() * size
	chunks := cuts * len(w.Starts)
	// A chunk packs about 2^14 elements.
	group, listed := max(1, 1<<14/max(1, kit.Times(w.Width, w.Depth))), sync.OnceValue(w.Terms)
	return []graph.Phase{{Chunks: kit.DivUp(chunks, group), Run: func(m *graph.Mem, chunk int) error {
		terms := listed()
		for i := chunk * group; i < min((chunk+1)*group, chunks); i++ {
			g := i / cuts
			w.FillPanel(m.Context, terms, m.Scratch[g*each:][:each], unsafe.Add(m.Ptrs[2], w.Starts[g]*size), i%cuts)
		}
		return nil
	}}}
}

// at returns the address of the first panel.
func (w packedWeight) at(m *graph.Mem) unsafe.Pointer {
	if w.before {
		return m.Ptrs[2]
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch))
}

// biasAt returns the address of the bias, or nil.
func (s *convShape) biasAt(m *graph.Mem) unsafe.Pointer {
	if !s.hasBias {
		return nil
	}
	return m.Ptrs[3]
}

// denseBias returns the address of a contiguous bias with elements of size bytes, or nil. A strided bias is copied to
// the beginning of the worker's memory, which takes denseBiasBytes.
func (s *convShape) denseBias(m *graph.Mem, size int) unsafe.Pointer {
	if s.denseBiasBytes(size) == 0 {
		return s.biasAt(m)
	}
	for i := range s.o {
		copy(m.Worker[i*size:][:size], unsafe.Slice((*byte)(unsafe.Add(m.Ptrs[3], i*s.bias*size)), size))
	}
	return unsafe.Pointer(unsafe.SliceData(m.Worker))
}

func (s *convShape) denseBiasBytes(size int) int {
	if !s.hasBias || s.bias == 1 {
		return 0
	}
	return kit.AlignUp(s.o * size)
}

// entryOffsets returns an offset for each image and group, img apart for images and group apart for groups.
func entryOffsets(images, img, groups, group int) []int {
	out := make([]int, 0, images*groups)
	for i := range images {
		for g := range groups {
			out = append(out, i*img+g*group)
		}
	}
	return out
}

// planeEntries sets the entries of a product with the weight as A and the channels as B: one entry for each group of
// each image. img and out are the strides of images in input and result; channel and result are the strides of
// channels.
func planeEntries(x *multiply.Multiplier, s *convShape, w packedWeight, img, channel, out, result int) {
	if x.Entries > 1 {
		x.A = entryOffsets(s.n, 0, s.groups, w.Each())
		x.B = entryOffsets(s.n, img, s.groups, s.cg*channel)
		x.C = entryOffsets(s.n, out, s.groups, s.og()*result)
		x.Bias = entryOffsets(s.n, 0, s.groups, s.og()*s.bias)
	}
	x.Bind = func(m *graph.Mem, j *multiply.Job) {
		j.C, j.A, j.B, j.Bias = m.Ptrs[0], w.at(m), m.Ptrs[1], s.biasAt(m)
	}
}

func (v convolution) shape(c *graph.Call) *convShape {
	p, x, w, out := v.params(c), c.Meta(0), c.Meta(1), c.Out[0]
	s := &convShape{groups: p.groups, dh: 1, sh: 1}
	xs, xst := spatial(x, v.dims)
	wsh, wst := spatial(w, v.dims)
	osh, ost := spatial(out, v.dims)
	s.n, s.c, s.h, s.w = xs[0], xs[1], xs[2], xs[3]
	s.o, s.cg, s.kh, s.kw = wsh[0], wsh[1], wsh[2], wsh[3]
	s.oh, s.ow = osh[2], osh[3]
	s.xs, s.ws, s.os = xst, wst, ost
	last := v.dims - 1
	s.sw, s.pw, s.dw = p.stride[last], kit.NumberOf(p.padding[last]), p.dilation[last]
	s.sw, s.dw = clampUnused(s.sw, s.dw, s.w, s.ow, s.kw)
	if v.dims == 2 {
		s.sh, s.ph, s.dh = p.stride[0], kit.NumberOf(p.padding[0]), p.dilation[0]
		s.sh, s.dh = clampUnused(s.sh, s.dh, s.h, s.oh, s.kh)
	}
	if c.Has(2) {
		s.hasBias, s.bias = true, c.Meta(2).Strides[0]
	}
	s.call, s.tail = c, fusion.EpilogueOf(c)
	return s
}

func (v convolution) flops(c *graph.Call) float64 {
	m, w := c.Out[0], c.Meta(1)
	if w.Numel() == 0 {
		return 0
	}
	return 2 * float64(m.Numel()) * float64(w.Numel()/w.Shape[0])
}
