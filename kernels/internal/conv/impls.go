package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// convAlgorithm identifies an implementation of convolutions. implNames describes each implementation. "By pixels"
// means for channels-last images, and "by planes" for row-major images.
type convAlgorithm uint8

const (
	depthwiseByPixels convAlgorithm = iota // each group has one input channel
	depthwiseByPlanes
	directByPixels   // machine code that reads windows in place
	directFromPlanes // the same for row-major images, but the results are channels-last
	productByPixels  // a product of matrices: packed windows times the weight
	productByPlanes
)

// writesChannelsLast reports whether an algorithm writes channels-last results.
func (a convAlgorithm) writesChannelsLast() bool {
	return a == depthwiseByPixels || a == productByPixels || a.isDirect()
}

// isDirect reports whether an algorithm is direct convolution, which exists as machine code only.
func (a convAlgorithm) isDirect() bool { return a == directByPixels || a == directFromPlanes }

// isDepthwise reports whether an algorithm computes groups of one input channel.
func (a convAlgorithm) isDepthwise() bool { return a == depthwiseByPixels || a == depthwiseByPlanes }

// readsPixelsInPlace reports whether an algorithm reads the pixels of channels-last images without packing them.
func (a convAlgorithm) readsPixelsInPlace() bool {
	return a == directByPixels || a == depthwiseByPixels
}

// impls lists the implementations of a convolution op, which has op.dims spatial dimensions. Implementations by pixels
// come first, because they are faster for an image of one pixel, which has both layouts. Weights are packed, so any
// weight layout is accepted.
//
// Images have the six implementations of implNames and two with Winograd transforms. Sequences have the six of
// implNames. Volumes have the three that have a name for volumes, and tapsImpl for depthwise calls. The function walks
// decides which implementations of implNames support a call, and with which layouts. The function newWinograd decides
// this for Winograd transforms.
func (op convolution) impls() (list []graph.Impl) {
	if op.dims == 3 {
		list = append(list, op.tapsImpl())
	}
	for i, names := range implNames {
		name, doc := names.name, names.doc
		if op.dims == 3 {
			name, doc = names.volumesName, names.volumesDoc
		}
		if name != "" {
			list = append(list, op.impl(convAlgorithm(i), name, doc))
		}
	}
	if op.dims == 2 {
		list = append(list, op.winogradImpls()...)
	}
	return list
}

// implName has the names and descriptions of an algorithm. An empty name means that the algorithm does not support such
// operands.
type implName struct {
	name, doc               string // for images and sequences
	volumesName, volumesDoc string // for volumes
}

// implNames has the names of each algorithm.
var implNames = [...]implName{
	depthwiseByPixels: {name: "depthwise_nhwc", doc: "Convolves vectors of channels by depthwise windows; channels " +
		"last, one input channel per output channel."},
	depthwiseByPlanes: {name: "depthwise_planes", doc: "Convolves planes by depthwise windows, row by row; one input " +
		"channel per output channel."},
	directByPixels: {name: "direct_nhwc", doc: "Multiplies pixels in place by the packed weight, in machine code " +
		"generated for the window; channels last. Small groups share a vector.",
		volumesName: "direct_ndhwc", volumesDoc: "Multiplies points in place by the packed weight, in machine code " +
			"generated for the window; channels last."},
	directFromPlanes: {name: "direct_planes", doc: "Multiplies pixels of planes in place by the packed weight, in " +
		"machine code generated for the window; the result is channels last.",
		volumesName: "direct_ncdhw", volumesDoc: "Multiplies points of planes in place by the packed weight, in machine " +
			"code generated for the window; the result is channels-last."},
	productByPixels: {name: "nhwc", doc: "Multiplies windows of pixels by the packed weight, several images at once; " +
		"channels last."},
	productByPlanes: {name: "nchw", doc: "Multiplies the packed weight by windows of planes, image by image.",
		volumesName: "planes", volumesDoc: "Multiplies the packed weight by windows of volumes, volume by volume."},
}

// impl returns the implementation of an algorithm.
func (op convolution) impl(algorithm convAlgorithm, name, doc string) graph.Impl {
	return graph.Impl{Name: name, Doc: doc, Epilogues: algorithm != depthwiseByPlanes,
		Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			return op.walks(c, algorithm, candidates)
		},
		Work: func(c *graph.Call, walk graph.Walk) pricing.Work { return op.work(c, algorithm, walk) },
		Read: func(c *graph.Call, _ graph.Walk, operand int, layout tensor.Meta) (pricing.Work, bool) {
			return op.readWork(c, algorithm, operand, layout)
		},
		Writes: func(c *graph.Call, _ graph.Walk, _ int, layout tensor.Meta) bool {
			return op.writesSlice(c, algorithm, layout)
		},
		Lower: func(c *graph.Call) (*graph.Kernel, error) { return op.lower(c, algorithm) },
		Forms: op.forms,
		Pack: multiply.PackFunc(func(c *graph.Call, operand int) (graph.Packing, bool) {
			dtype := c.Out[0].DType
			const weight = 1
			if operand != weight || !gemm.Multiplies(dtype) {
				return graph.Packing{}, false
			}
			panels := panelsFor(op.shape(c), algorithm, dtype)
			if panels == nil {
				return graph.Packing{}, false
			}
			return multiply.PackingOf(panels), true
		})}
}

// walks returns the walks of an algorithm: the algorithm's own order, and each candidate that its products can write. A
// walk ([graph.Walk]) is a loop order, with the layouts of the result. An empty walk leaves the order of the operands.
func (op convolution) walks(call *graph.Call, algorithm convAlgorithm, candidates []tensor.Order) []graph.Walk {
	// Depthwise algorithms are for depthwise calls, and other algorithms for other calls. Only the product of volumes
	// by planes is for both kinds of calls.
	isVolumeProduct := op.dims == 3 && algorithm == productByPlanes
	if op.isDepthwiseCall(call) != algorithm.isDepthwise() && !isVolumeProduct {
		return nil
	}
	if algorithm.isDirect() {
		return op.directWalks(call, algorithm)
	}
	rank, out := call.Meta(0).Rank(), call.Out[0]
	order, isSupported := op.order(algorithm, rank)
	var list []graph.Walk
	switch {
	case isSupported && (op.dims == 2 || algorithm.writesChannelsLast()): // the algorithm's own order
		list = append(list, call.WalkInOrder(order))
	case !algorithm.writesChannelsLast(): // sequences and volumes of any layout are convolved by planes
		list = append(list, graph.Walk{})
	case out.Numel() > 0 && op.hasOnePixelOrChannel(out) && op.hasOnePixelOrChannel(call.Meta(0)):
		// Such images are row-major and channels-last at once. Their rank does not matter.
		return []graph.Walk{{LoopOrder: tensor.RowMajorOrder(rank)}}
	default: // by pixels, without a batch
		return nil
	}
	for _, resultOrder := range candidates {
		if resultOrder != "" && resultOrder != order && op.writesInOrder(algorithm, out, resultOrder) {
			list = append(list, graph.Walk{LoopOrder: order, ResultOrders: []tensor.Order{resultOrder}})
		}
	}
	return list
}

// isDepthwiseCall reports whether each group of a call has one input channel.
func (op convolution) isDepthwiseCall(c *graph.Call) bool {
	return c.Meta(1).Shape[1] == 1 && op.params(c).groups > 1
}

// directWalks is walks for the direct algorithms, which have at most one walk.
func (op convolution) directWalks(call *graph.Call, algorithm convAlgorithm) []graph.Walk {
	rank := call.Meta(0).Rank()
	order, isSupported := op.order(algorithm, rank)
	if !isSupported || !hasDirectCode(op.shape(call), multiply.ComputationDType(call)) {
		return nil
	}
	walk := call.WalkInOrder(order)
	if algorithm == directFromPlanes {
		walk.LoopOrder = tensor.RowMajorOrder(rank)
	}
	return []graph.Walk{walk}
}

// order returns the dimension order of an algorithm's results. Algorithms by pixels do not support unbatched images,
// because unbatched images have no channels-last format.
func (op convolution) order(algorithm convAlgorithm, rank int) (order tensor.Order, isSupported bool) {
	switch {
	case !algorithm.writesChannelsLast():
		return tensor.RowMajorOrder(rank), true
	case rank != op.dims+2:
		return tensor.RowMajorOrder(rank), false
	case op.dims == 1:
		order, err := tensor.NewOrder(0, 2, 1)
		return order, err == nil
	case op.dims == 3:
		order, err := tensor.ChannelsLast3d.Order(rank)
		return order, err == nil
	}
	order, err := tensor.ChannelsLast.Order(rank)
	return order, err == nil
}

// writesInOrder reports whether an algorithm writes results in an order of dimensions. Products write matrices, so the
// stride of pixels must be constant.
func (op convolution) writesInOrder(algorithm convAlgorithm, out tensor.Meta, resultOrder tensor.Order) bool {
	if resultOrder.Rank() != out.Rank() || algorithm.isDepthwise() {
		return false // for depthwise algorithms, a transposing copy is faster
	}
	_, isConstant := pixelStride(sizesAndStrides(out.WithStrides(resultOrder.Strides(out.Shape)), op.dims))
	return isConstant
}

// writesSlice reports whether an algorithm writes a result of the given layout. The result may be a slice of a larger
// image along its channels. Machine code requires contiguous channels and a constant distance between pixels.
func (op convolution) writesSlice(call *graph.Call, algorithm convAlgorithm, layout tensor.Meta) bool {
	sliced := *call
	sliced.Out = []tensor.Meta{layout}
	conv := op.shape(&sliced)
	dtype := multiply.ComputationDType(call)
	lacksCode := algorithm == depthwiseByPixels && !hasWindowCode(conv, dtype)
	if dtype != layout.DType || lacksCode || algorithm == depthwiseByPlanes {
		return false
	}
	_, isConstant := conv.pixelStride()
	switch {
	case algorithm.isDirect() || algorithm == depthwiseByPixels: // machine code
		return conv.outStride.c == 1 && conv.outPixelStride() > 0 &&
			kit.BoundedProduct(conv.pixelsOut(), conv.outPixelStride(), layout.DType.Size()) < maxReach
	case conv.pixelsOut() == 1: // one pixel: there is no distance between pixels
		return true
	}
	return isConstant // a product writes pixels at a constant distance
}

// readWork reports whether an algorithm reads an operand in the given layout without a copy, and with which additional
// work. Images must have the layout of the algorithm. Sequences and volumes by planes may have any strides.
func (op convolution) readWork(call *graph.Call, algorithm convAlgorithm, operand int,
	layout tensor.Meta) (work pricing.Work, ok bool) {
	switch {
	case operand > 0: // weight and bias are packed, a constant weight once
		return work, true
	case algorithm == directFromPlanes:
		return work, layout.IsContiguous()
	case algorithm.readsPixelsInPlace() && op.readsSlice(call, algorithm, layout):
		return work, true
	case algorithm.writesChannelsLast(): // by pixels
		return work, op.isChannelsLast(layout)
	case op.dims == 2: // by planes
		return work, layout.IsContiguous()
	}
	// Packing strided elements costs more than packing contiguous elements.
	if last := layout.Rank() - 1; algorithm == productByPlanes && layout.Strides[last] != 1 && layout.Shape[last] != 1 {
		conv := op.shape(call)
		if conv.w.Stride == 1 { // else convolution.work has already counted strided elements
			elements := conv.windowElements()
			work.AddUnits(multiply.RatePackStep, elements)
			work.AddUnits(multiply.RatePackTap, -elements) // replaces the count of convolution.work
		}
	}
	return work, true
}

// readsSlice reports whether machine code by pixels reads an input of the given layout. The input may be a slice of a
// larger image along its channels. The code requires contiguous channels and a constant distance between pixels.
func (op convolution) readsSlice(call *graph.Call, algorithm convAlgorithm, layout tensor.Meta) bool {
	size, stride := sizesAndStrides(layout, op.dims)
	lacksCode := algorithm == depthwiseByPixels && !hasWindowCode(op.shape(call), layout.DType)
	if multiply.ComputationDType(call) != layout.DType || lacksCode {
		return false
	}
	pixel := pixelStrideOverImages(size, stride)
	return stride.c == 1 && pixel >= size.c && op.shape(call).inputReach(pixel, layout.DType.Size()) < maxReach
}

// lower makes the kernel of a call. If the dtype of the computation differs from the operands', it converts them.
func (op convolution) lower(c *graph.Call, algorithm convAlgorithm) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.CompileInDType(c, multiply.ComputationDType(c), func(c *graph.Call) (*graph.Kernel, error) {
		return newKernel(op.shape(c), algorithm)
	})
}

// newKernel makes the kernel of a convolution whose operands have the result's dtype.
func newKernel(conv *convShape, algorithm convAlgorithm) (*graph.Kernel, error) {
	switch algorithm {
	case depthwiseByPixels:
		return depthwiseKernelByPixels(conv)
	case depthwiseByPlanes:
		return depthwiseKernelByPlanes(conv)
	case productByPixels:
		return productKernelByPixels(conv)
	case directByPixels, directFromPlanes:
		return directKernel(conv, algorithm)
	}
	return productKernelByPlanes(conv)
}

// hasOnePixelOrChannel reports whether an image has one pixel or one channel. Such an image has both layouts.
func (op convolution) hasOnePixelOrChannel(m tensor.Meta) bool {
	size, _ := sizesAndStrides(m, op.dims)
	return size.c == 1 || size.d*size.h*size.w == 1
}

// isChannelsLast reports whether an image, batched or not, is dense and channels-last.
func (op convolution) isChannelsLast(m tensor.Meta) bool {
	return denseChannelsLast(sizesAndStrides(m, op.dims))
}
