package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// convAlgorithm is an implementation of convolutions over one or two dimensions; see the package comment.
type convAlgorithm uint8

const (
	depthwiseByPixels convAlgorithm = iota
	depthwiseByPlanes
	directByPixels
	directFromPlanes
	convByPixels
	convByPlanes
)

// byPixels reports whether an algorithm writes channels-last results.
func (a convAlgorithm) byPixels() bool {
	return a == depthwiseByPixels || a == convByPixels || a.direct()
}

// direct reports whether an algorithm is direct convolution, which exists as machine code only.
func (a convAlgorithm) direct() bool { return a == directByPixels || a == directFromPlanes }

// lowerConv compiles a convolution whose operands have the result's dtype.
func lowerConv(s *convShape, a convAlgorithm) (*graph.Kernel, error) {
	switch a {
	case depthwiseByPixels:
		return depthwiseNHWC(s)
	case depthwiseByPlanes:
		return depthwisePlanes(s)
	case convByPixels:
		return convNHWC(s)
	case directByPixels, directFromPlanes:
		return convDirect(s, a)
	}
	return convNCHW(s)
}

// packing returns the packed form of operand i of a call for an algorithm, or false if the algorithm reads the operand
// in its own layout.
func packing(c *graph.Call, i int, shape func(*graph.Call) *convShape, a convAlgorithm) (graph.Packing, bool) {
	d := c.Out[0].DType
	if i != 1 || !gemm.Multiplies(d) {
		return graph.Packing{}, false
	}
	p := convPanels(shape(c), a, d)
	if p == nil {
		return graph.Packing{}, false
	}
	return multiply.PackingOf(p), true
}

// impls lists the implementations. Those by pixels come first: an image of one pixel has both orders, and they are
// faster for it. Weights are packed, so any weight layout is accepted.
func (v convolution) impls() []graph.Impl {
	list := []struct{ name, doc string }{
		depthwiseByPixels: {"depthwise_nhwc", "Convolves vectors of channels by depthwise windows; channels last, one " +
			"input channel per output channel."},
		depthwiseByPlanes: {"depthwise_planes", "Convolves planes by depthwise windows, row by row; one input channel per " +
			"output channel."},
		convByPixels: {"nhwc", "Multiplies windows of pixels by the packed weight, several images at once; channels last."},
		convByPlanes: {"nchw", "Multiplies the packed weight by windows of planes, image by image."},
		directByPixels: {"direct_nhwc", "Multiplies pixels in place by the packed weight, in machine code generated for " +
			"the window; channels last. Small groups share a vector."},
		directFromPlanes: {"direct_planes", "Multiplies pixels of planes in place by the packed weight, in machine code " +
			"generated for the window; the result is channels last."},
	}
	out := make([]graph.Impl, len(list))
	for i, l := range list {
		a := convAlgorithm(i)
		out[i] = graph.Impl{Name: l.name, Doc: l.doc, Epilogues: a != depthwiseByPlanes,
			Walks:  func(c *graph.Call, orders []tensor.Order) []graph.Walk { return v.walks(c, a, orders) },
			Work:   func(c *graph.Call, w graph.Walk) graph.Work { return v.work(c, a, w) },
			Writes: func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool { return v.writesSlice(c, a, m) },
			Lower:  func(c *graph.Call) (*graph.Kernel, error) { return v.lower(c, a) },
			Pack: multiply.Packs(func(c *graph.Call, i int) (graph.Packing, bool) {
				return packing(c, i, v.shape, a)
			})}
		out[i].Read = func(c *graph.Call, _ graph.Walk, k int, m tensor.Meta) (graph.Work, bool) {
			return v.read(c, a, k, m)
		}
	}
	return append(out, v.winogradImpls()...)
}

// order returns the image layout of an algorithm. Unbatched images have no channels-last format and inference never
// gives them such a result, so algorithms by pixels do not support them.
func (v convolution) order(a convAlgorithm, rank int) (o tensor.Order, supported bool) {
	switch {
	case !a.byPixels():
		return tensor.RowMajorOrder(rank), true
	case rank != v.dims+2:
		return tensor.RowMajorOrder(rank), false
	case v.dims == 1:
		o, err := tensor.NewOrder(0, 2, 1)
		return o, err == nil
	}
	o, err := tensor.ChannelsLast.Order(rank)
	return o, err == nil
}

// walks returns the layouts in which an algorithm writes the result: its own order, and candidates that its products
// can write. Sequences are convolved by planes whatever their layout.
func (v convolution) walks(c *graph.Call, a convAlgorithm, candidates []tensor.Order) []graph.Walk {
	w := c.Meta(1)
	depthwise := w.Shape[1] == 1 && v.params(c).groups > 1
	if depthwise != (a <= depthwiseByPlanes) {
		return nil
	}
	rank := c.Meta(0).Rank()
	o, supported := v.order(a, rank)
	if a.direct() {
		if !supported || !directComputes(v.shape(c), multiply.ComputesIn(c)) {
			return nil
		}
		w := c.InOrder(o)
		if a == directFromPlanes {
			w.Order = tensor.RowMajorOrder(rank)
		}
		return []graph.Walk{w}
	}
	single := !a.byPixels() || c.Out[0].Numel() > 0 && v.onePixelOrChannel(c.Out[0]) && v.onePixelOrChannel(c.Meta(0))
	var list []graph.Walk
	switch {
	case supported && v.dims == 2 || supported && a.byPixels():
		list = append(list, c.InOrder(o))
	case !a.byPixels():
		list = append(list, graph.Walk{})
	case single:
		return []graph.Walk{{Order: tensor.RowMajorOrder(rank)}}
	default:
		return nil
	}
	for _, to := range candidates {
		if to != "" && to != o && v.writes(a, c.Out[0], to) {
			list = append(list, graph.Walk{Order: o, Out: []tensor.Order{to}})
		}
	}
	return list
}

// writes reports whether an algorithm writes results in dimension order `to`. Products write matrices, so the pixel
// stride must be constant.
func (v convolution) writes(a convAlgorithm, out tensor.Meta, to tensor.Order) bool {
	switch {
	case to.Rank() != out.Rank() || a <= depthwiseByPlanes: // transposing a copy of planes is faster
		return false
	}
	shape, strides := spatial(out.WithStrides(to.Strides(out.Shape)), v.dims)
	s := convShape{oh: shape[2], ow: shape[3], os: strides}
	_, even := s.pixelStride()
	return even
}

// writesSlice reports whether an algorithm writes results with padding between pixels, as a slice of a wider image has.
// Machine code requires contiguous channels and constant strides of pixels and images.
func (v convolution) writesSlice(c *graph.Call, a convAlgorithm, m tensor.Meta) bool {
	laid := *c
	laid.Out = []tensor.Meta{m}
	s := v.shape(&laid)
	d := multiply.ComputesIn(c)
	if d != m.DType || a == depthwiseByPixels && !windowCompiles(s, d) || a == depthwiseByPlanes {
		return false
	}
	_, even := s.pixelStride()
	switch {
	case a.direct() || a == depthwiseByPixels:
		return s.os[1] == 1 && s.outPixel() > 0 && kit.Times(s.oh, s.ow, s.outPixel(), m.DType.Size()) < maxReach
	case s.oh*s.ow == 1: // a product with one row
		return true
	}
	return even
}

// readsSlice reports whether machine code by pixels reads images of m's layout. The code takes the distance between
// pixels as a parameter and assumes no more than that it is constant.
func (v convolution) readsSlice(c *graph.Call, a convAlgorithm, m tensor.Meta) bool {
	shape, strides := spatial(m, v.dims)
	if multiply.ComputesIn(c) != m.DType || a == depthwiseByPixels && !windowCompiles(v.shape(c), m.DType) {
		return false
	}
	pixel := pixelDistance(shape[0], shape[1], shape[2], shape[3], strides)
	return strides[1] == 1 && pixel >= shape[1] && v.shape(c).inReach(pixel, m.DType.Size()) < maxReach
}

// outPixel returns the constant distance between neighbouring pixels of the result, over rows and images too; 0 if
// there is none.
func (s *convShape) outPixel() int { return pixelDistance(s.n, s.o, s.rowsOut(), s.ow, s.os) }

// inPixel is outPixel for the input; the pixels of planes are adjacent.
func (s *convShape) inPixel(planes bool) int {
	if planes {
		return 1
	}
	return pixelDistance(s.n, s.c, s.rowsIn(), s.w, s.xs)
}

func pixelDistance(n, channels, h, w int, strides [4]int) int {
	pixel := strides[3]
	switch {
	case h*w == 1 && n == 1:
		return channels
	case h*w == 1:
		return strides[0]
	case w == 1:
		pixel = strides[2]
	case h > 1 && strides[2] != w*pixel:
		return 0
	}
	if n > 1 && strides[0] != h*w*pixel {
		return 0
	}
	return pixel
}

// onePixelOrChannel reports whether an image has one pixel or one channel; then both orders describe it.
func (v convolution) onePixelOrChannel(m tensor.Meta) bool {
	shape, _ := spatial(m, v.dims)
	return shape[1] == 1 || shape[2]*shape[3] == 1
}

// pixelOrder reports whether an image, batched or not, is dense with channels as the fastest dimension.
func (v convolution) pixelOrder(m tensor.Meta) bool {
	shape, strides := spatial(m, v.dims)
	return denseNHWC(shape, strides)
}

// read accepts images in the algorithm's order, and sequences by planes with any strides.
func (v convolution) read(c *graph.Call, a convAlgorithm, i int, m tensor.Meta) (w graph.Work, ok bool) {
	switch {
	case i > 0: // packed, once where it is constant
		return w, true
	case a == directFromPlanes:
		return w, m.IsContiguous()
	case (a == directByPixels || a == depthwiseByPixels) && v.readsSlice(c, a, m):
		return w, true
	case a.byPixels():
		return w, v.pixelOrder(m)
	case v.dims == 2:
		return w, m.IsContiguous()
	}
	// Packing reads strided elements.
	if last := m.Rank() - 1; a == convByPlanes && m.Strides[last] != 1 && m.Shape[last] != 1 {
		all := float64(c.Meta(0).Numel()) * float64(c.Meta(1).Shape[2])
		w.Do(multiply.PackStep, all)
		w.Do(multiply.PackTap, -all)
	}
	return w, true
}

func (v convolution) lower(c *graph.Call, a convAlgorithm) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		return lowerConv(v.shape(c), a)
	})
}
