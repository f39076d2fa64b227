package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// convAlgorithm identifies an implementation of convolutions; see the package comment.
type convAlgorithm uint8

const (
	depthwiseByPixels convAlgorithm = iota
	depthwiseByPlanes
	directByPixels
	directFromPlanes
	convByPixels
	convByPlanes
)

// byPixels reports whether an algorithm writes channels-last results. directFromPlanes reads planes but writes pixels.
func (a convAlgorithm) byPixels() bool {
	return a == depthwiseByPixels || a == convByPixels || a.isDirect()
}

// isDirect reports whether an algorithm is direct convolution, which exists as machine code only.
func (a convAlgorithm) isDirect() bool { return a == directByPixels || a == directFromPlanes }

// isDepthwise reports whether an algorithm computes groups of one input channel.
func (a convAlgorithm) isDepthwise() bool { return a == depthwiseByPixels || a == depthwiseByPlanes }

// lowerConv makes the kernel of a convolution whose operands have the result's dtype.
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

// implNames has the names and descriptions of each algorithm: name and doc for images and sequences, volumes and
// volumesDoc for volumes. An empty name means that the algorithm does not support the operand.
var implNames = [...]struct{ name, doc, volumes, volumesDoc string }{
	depthwiseByPixels: {name: "depthwise_nhwc", doc: "Convolves vectors of channels by depthwise windows; channels " +
		"last, one input channel per output channel."},
	depthwiseByPlanes: {name: "depthwise_planes", doc: "Convolves planes by depthwise windows, row by row; one input " +
		"channel per output channel."},
	directByPixels: {name: "direct_nhwc", doc: "Multiplies pixels in place by the packed weight, in machine code " +
		"generated for the window; channels last. Small groups share a vector.",
		volumes: "direct_ndhwc", volumesDoc: "Multiplies points in place by the packed weight, in machine code generated " +
			"for the window; channels last."},
	directFromPlanes: {name: "direct_planes", doc: "Multiplies pixels of planes in place by the packed weight, in " +
		"machine code generated for the window; the result is channels last.",
		volumes: "direct_ncdhw", volumesDoc: "Multiplies points of planes in place by the packed weight, in machine code " +
			"generated for the window; the result is channels-last."},
	convByPixels: {name: "nhwc", doc: "Multiplies windows of pixels by the packed weight, several images at once; " +
		"channels last."},
	convByPlanes: {name: "nchw", doc: "Multiplies the packed weight by windows of planes, image by image.",
		volumes: "planes", volumesDoc: "Multiplies the packed weight by windows of volumes, volume by volume."},
}

// impls lists the implementations. Implementations by pixels come first, because they are faster for an image of one
// pixel, which has both layouts. Weights are packed, so any weight layout is accepted.
func (v convolution) impls() (list []graph.Impl) {
	if v.dims == 3 {
		list = append(list, v.tapsImpl())
	}
	for i, l := range implNames {
		if v.dims == 3 {
			l.name, l.doc = l.volumes, l.volumesDoc
		}
		if l.name == "" {
			continue
		}
		a := convAlgorithm(i)
		list = append(list, graph.Impl{Name: l.name, Doc: l.doc, Epilogues: a != depthwiseByPlanes,
			Walks: func(c *graph.Call, orders []tensor.Order) []graph.Walk { return v.walks(c, a, orders) },
			Work:  func(c *graph.Call, w graph.Walk) graph.Work { return v.work(c, a, w) },
			Read: func(c *graph.Call, _ graph.Walk, k int, m tensor.Meta) (graph.Work, bool) {
				return v.read(c, a, k, m)
			},
			Writes: func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool { return v.writesSlice(c, a, m) },
			Lower:  func(c *graph.Call) (*graph.Kernel, error) { return v.lower(c, a) },
			Pack: multiply.PackFunc(func(c *graph.Call, i int) (graph.Packing, bool) {
				d := c.Out[0].DType
				if i != 1 || !gemm.Multiplies(d) {
					return graph.Packing{}, false
				}
				p := convPanels(v.shape(c), a, d)
				if p == nil {
					return graph.Packing{}, false
				}
				return multiply.PackingOf(p), true
			})})
	}
	if v.dims == 2 {
		list = append(list, v.winogradImpls()...)
	}
	return list
}

// order returns the dimension order of an algorithm's results. Algorithms by pixels do not support unbatched images,
// because unbatched images have no channels-last format.
func (v convolution) order(a convAlgorithm, rank int) (o tensor.Order, supported bool) {
	switch {
	case !a.byPixels():
		return tensor.RowMajorOrder(rank), true
	case rank != v.dims+2:
		return tensor.RowMajorOrder(rank), false
	case v.dims == 1:
		o, err := tensor.NewOrder(0, 2, 1)
		return o, err == nil
	case v.dims == 3:
		o, err := tensor.ChannelsLast3d.Order(rank)
		return o, err == nil
	}
	o, err := tensor.ChannelsLast.Order(rank)
	return o, err == nil
}

// walks returns the layouts in which an algorithm writes the result: the algorithm's own order, and each candidate that
// its products can write. Sequences and volumes of any layout are convolved by planes.
func (v convolution) walks(c *graph.Call, a convAlgorithm, candidates []tensor.Order) []graph.Walk {
	if v.isDepthwise(c) != a.isDepthwise() && (v.dims < 3 || a != convByPlanes) {
		return nil
	}
	rank := c.Meta(0).Rank()
	o, supported := v.order(a, rank)
	if a.isDirect() {
		if !supported || !hasDirectCode(v.shape(c), multiply.ComputationDType(c)) {
			return nil
		}
		w := c.InOrder(o)
		if a == directFromPlanes {
			w.Order = tensor.RowMajorOrder(rank)
		}
		return []graph.Walk{w}
	}
	var list []graph.Walk
	switch {
	case supported && (v.dims == 2 || a.byPixels()):
		list = append(list, c.InOrder(o))
	case !a.byPixels():
		list = append(list, graph.Walk{})
	case c.Out[0].Numel() > 0 && v.onePixelOrChannel(c.Out[0]) && v.onePixelOrChannel(c.Meta(0)):
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

// isDepthwise reports whether each group of a call has one input channel.
func (v convolution) isDepthwise(c *graph.Call) bool {
	return c.Meta(1).Shape[1] == 1 && v.params(c).groups > 1
}

// writes reports whether an algorithm writes results in dimension order `to`. Products write matrices, so the stride of
// pixels must be constant.
func (v convolution) writes(a convAlgorithm, out tensor.Meta, to tensor.Order) bool {
	if to.Rank() != out.Rank() || a.isDepthwise() { // transposing a copy of planes is faster
		return false
	}
	_, constant := pixelStride(spatial(out.WithStrides(to.Strides(out.Shape)), v.dims))
	return constant
}

// writesSlice reports whether an algorithm writes a result of layout m. The result may be a slice of a larger image
// along its channels. Machine code requires contiguous channels and a constant distance between pixels.
func (v convolution) writesSlice(c *graph.Call, a convAlgorithm, m tensor.Meta) bool {
	sliced := *c
	sliced.Out = []tensor.Meta{m}
	s := v.shape(&sliced)
	d := multiply.ComputationDType(c)
	if d != m.DType || a == depthwiseByPixels && !hasWindowCode(s, d) || a == depthwiseByPlanes {
		return false
	}
	_, constant := s.pixelStride()
	switch {
	case a.isDirect() || a == depthwiseByPixels:
		return s.outStride.c == 1 && s.outPixelStride() > 0 &&
			kit.BoundedProduct(s.pixelsOut(), s.outPixelStride(), m.DType.Size()) < maxReach
	case s.pixelsOut() == 1: // a product with one row
		return true
	}
	return constant
}

// readsSlice reports whether machine code by pixels reads an input of layout m. The input may be a slice of a larger
// image along its channels. The code requires contiguous channels and a constant distance between pixels.
func (v convolution) readsSlice(c *graph.Call, a convAlgorithm, m tensor.Meta) bool {
	size, stride := spatial(m, v.dims)
	if multiply.ComputationDType(c) != m.DType || a == depthwiseByPixels && !hasWindowCode(v.shape(c), m.DType) {
		return false
	}
	pixel := pixelDistance(size, stride)
	return stride.c == 1 && pixel >= size.c && v.shape(c).inputReach(pixel, m.DType.Size()) < maxReach
}

// outPixelStride returns the constant distance between neighbouring pixels of the result, across rows and images too,
// or 0 if the distance is not constant.
func (s *convShape) outPixelStride() int { return pixelDistance(s.outSize(), s.outStride) }

// inPixelStride returns the constant distance between neighbouring pixels of the input, or 0 if the distance is not
// constant. In inputs by planes, pixels are adjacent.
func (s *convShape) inPixelStride(planes bool) int {
	if planes {
		return 1
	}
	return pixelDistance(s.inSize(), s.inStride)
}

// onePixelOrChannel reports whether an image has one pixel or one channel. Such an image has both layouts.
func (v convolution) onePixelOrChannel(m tensor.Meta) bool {
	size, _ := spatial(m, v.dims)
	return size.c == 1 || size.d*size.h*size.w == 1
}

// isChannelsLast reports whether an image, batched or not, is dense and channels-last.
func (v convolution) isChannelsLast(m tensor.Meta) bool { return denseChannelsLast(spatial(m, v.dims)) }

// read reports whether an algorithm reads operand i in layout m without a copy. Images must have the layout of the
// algorithm. Sequences and volumes by planes may have any strides.
func (v convolution) read(c *graph.Call, a convAlgorithm, i int, m tensor.Meta) (w graph.Work, ok bool) {
	switch {
	case i > 0: // weight and bias are packed, a constant weight once
		return w, true
	case a == directFromPlanes:
		return w, m.IsContiguous()
	case (a == directByPixels || a == depthwiseByPixels) && v.readsSlice(c, a, m):
		return w, true
	case a.byPixels():
		return w, v.isChannelsLast(m)
	case v.dims == 2:
		return w, m.IsContiguous()
	}
	// Packing strided elements costs more than packing contiguous elements.
	if last := m.Rank() - 1; a == convByPlanes && m.Strides[last] != 1 && m.Shape[last] != 1 {
		s := v.shape(c)
		if s.w.Stride == 1 { // the method work has assumed contiguous elements
			all := s.windowElements()
			w.Do(multiply.RatePackStep, all)
			w.Do(multiply.RatePackTap, -all)
		}
	}
	return w, true
}

func (v convolution) lower(c *graph.Call, a convAlgorithm) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.CompileInDType(c, multiply.ComputationDType(c), func(c *graph.Call) (*graph.Kernel, error) {
		return lowerConv(v.shape(c), a)
	})
}
