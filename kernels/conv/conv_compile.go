package conv

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// convShape is a convolution over two dimensions as the kernels see it; sequences have
// height 1, and without a batch n is 1. Strides count elements.
type convShape struct {
	n, c, h, w     int // input
	o, cg, kh, kw  int // weight; cg are the input channels of a group
	groups         int
	sh, sw         int // steps
	ph, pw, dh, dw int // padding, dilation
	oh, ow         int

	xs, ws, os [4]int // strides of input, weight and output
	bias       int    // stride of the bias
	hasBias    bool
	constant   unsafe.Pointer // the weight, if it is constant
}

// spatial returns sizes and strides as of rank 4.
func spatial(m tensor.Meta, dims int) (shape, strides [4]int) {
	shape = [4]int{1, 1, 1, 1}
	lead := m.Rank() - dims // 1 without a batch
	copy(shape[2-lead:2], m.Shape[:lead])
	copy(strides[2-lead:2], m.Strides[:lead])
	copy(shape[4-dims:], m.Shape[lead:])
	copy(strides[4-dims:], m.Strides[lead:])
	return shape, strides
}

// og are the output channels of a group.
func (s *convShape) og() int { return s.o / s.groups }

// depth is the number of terms of an output element.
func (s *convShape) depth() int { return s.cg * s.kh * s.kw }

// pointwise reports whether an output pixel sees the input pixel at its own place only.
func (s *convShape) pointwise() bool {
	return s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.ph == 0 && s.pw == 0 && s.oh == s.h && s.ow == s.w
}

// denseNHWC reports whether a value is dense with channels fastest.
func denseNHWC(shape, strides [4]int) bool {
	return tensor.Meta{Shape: shape[:], Strides: strides[:]}.IsChannelsLast()
}

// pixelStride returns the distance between output pixels of a channel, which must lie
// evenly.
func (s *convShape) pixelStride() (int, bool) {
	switch {
	case s.ow == 1:
		return s.os[2], true
	case s.oh == 1 || s.os[2] == s.ow*s.os[3]:
		return s.os[3], true
	}
	return 0, false
}

// errUneven is what no implementation comes to whose walks were asked for.
var errUneven = errors.New("convolution writes outputs whose pixels lie evenly only")

// packedWeight brings the weight of each group into gemm's panels: at once if it is
// constant, else by a phase of the kernel. terms are the weight's offsets by k, for one
// output channel.
type packedWeight[T gemm.Number] struct {
	panels  []T // of a constant weight
	width   int
	perG    int // elements of a group's panels
	terms   []int
	s       *convShape
	Scratch int // bytes at the start of the kernel's scratch
}

func newPackedWeight[T gemm.Number](s *convShape, width int, terms []int) *packedWeight[T] {
	p := &packedWeight[T]{width: width, terms: terms, s: s}
	p.perG = kit.DivUp(s.og(), width) * width * len(terms)
	if s.constant != nil {
		p.panels = kit.AlignedSlice[T](p.perG * s.groups)
		for i := range p.chunks() {
			p.pack(p.panels, s.constant, i)
		}
		return p
	}
	p.Scratch = kit.AlignUp(p.perG * s.groups * int(unsafe.Sizeof(*(*T)(nil))))
	return p
}

func (p *packedWeight[T]) perGroup() int { return kit.DivUp(p.s.og(), p.width) }

func (p *packedWeight[T]) chunks() int { return p.perGroup() * p.s.groups }

// pack fills panel i of all groups'.
func (p *packedWeight[T]) pack(dst []T, w unsafe.Pointer, i int) {
	g, l0 := i/p.perGroup(), i%p.perGroup()*p.width
	dst = dst[g*p.perG+l0*len(p.terms):][:p.width*len(p.terms)]
	lanes := min(p.width, p.s.og()-l0)
	if lanes < p.width {
		clear(dst)
	}
	for l := range lanes {
		from := kit.Elem[T](w, (g*p.s.og()+l0+l)*p.s.ws[0])
		at := l
		for _, t := range p.terms {
			dst[at] = *(*T)(kit.Elem[T](from, t))
			at += p.width
		}
	}
}

// phases is the packing phase of a weight that is not constant.
func (p *packedWeight[T]) phases() []graph.Phase {
	if p.panels != nil {
		return nil
	}
	n := p.perG * p.s.groups
	// A chunk of some ten thousand elements.
	group := max(1, 1<<14/(p.width*len(p.terms)))
	return []graph.Phase{{Chunks: kit.DivUp(p.chunks(), group), Run: func(m *graph.Mem, chunk int) error {
		dst := kit.SliceOf[T](m.Scratch, 0, n)
		for i := chunk * group; i < min((chunk+1)*group, p.chunks()); i++ {
			p.pack(dst, m.Ptrs[2], i)
		}
		return nil
	}}}
}

// at returns the address of the panels.
func (p *packedWeight[T]) at(m *graph.Mem) unsafe.Pointer {
	if p.panels != nil {
		return unsafe.Pointer(unsafe.SliceData(p.panels))
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

// eachEntry returns the offsets of images times groups: img per image, group per group.
func eachEntry(images, img, groups, group int) []int {
	out := make([]int, 0, images*groups)
	for i := range images {
		for g := range groups {
			out = append(out, i*img+g*group)
		}
	}
	return out
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
	s.sw, s.pw, s.dw = p.stride[last], p.padding[last], p.dilation[last]
	if v.dims == 2 {
		s.sh, s.ph, s.dh = p.stride[0], p.padding[0], p.dilation[0]
	}
	if c.Has(2) {
		s.hasBias, s.bias = true, c.Meta(2).Strides[0]
	}
	if t := c.Const(1); t != nil {
		s.constant = t.Pointer()
	}
	return s
}

func (v convolution) flops(c *graph.Call) float64 {
	m, w := c.Out[0], c.Meta(1)
	if w.Numel() == 0 {
		return 0
	}
	return 2 * float64(m.Numel()) * float64(w.Numel()/w.Shape[0])
}
