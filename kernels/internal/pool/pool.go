package pool

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// maxDims is the maximum number of spatial dimensions of a pooling. Poolings over fewer dimensions get leading
// dimensions of size 1.
const maxDims = 3

// Indices of the dimensions in lists of all dimensions of a pooling's operand or result.
const (
	batchDim = iota
	channelDim
	depthDim
	rowDim
	columnDim
)

// Indices of the spatial dimensions in lists with an element for each of them: axes, maxTaps, and windows of results.
const (
	depthAxis = iota
	rowAxis
	columnAxis
)

// newKernel makes the kernel of a pooling, by pixels (loops over the channels of a pixel) or by planes (loops over the
// rows of a plane). It uses loops in Go if compiled loops do not support the call.
func newKernel(c *graph.Call, order visitOrder, fold foldSpec, axes []geometry.Axis) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	sized := newSizedPooling(c, fold, axes)
	compilers, vectorDim := []compiler{compilePlanes, compileSpaced, newAdaptiveRows}, columnDim
	if order == byPixels {
		compilers, vectorDim = []compiler{compilePixels}, channelDim
	}
	for _, compile := range compilers {
		if kernel, err := compile(sized); kernel != nil || err != nil {
			return kernel, err
		}
	}
	return newGoKernel(sized, vectorDim), nil
}

// compiler makes a kernel of a pooling that is faster than the kernel of newGoKernel. It returns nil for calls that it
// does not support.
type compiler = func(p *sizedPooling) (*graph.Kernel, error)

// reduction is the reduction of a pooling.
type reduction uint8

const (
	reduceMax reduction = iota
	reduceAvg
	reduceNorm
)

// foldSpec is the reduction of a pooling with its attributes. A tap is an element of a window. To fold elements is to
// reduce them to one value.
type foldSpec struct {
	kind           reduction
	returnsIndices bool    // whether the second result is the index of each maximum in its plane
	countPadding   bool    // whether averages count the taps in the padding
	divisor        int     // divisor of averages; 0 stands for the number of taps
	exponent       float64 // p of the p-norm, for reduceNorm
}

// averageCount returns the number of taps of a window along one dimension that an average counts. It returns a float64,
// because products of counts may exceed 2^63.
func (f *foldSpec) averageCount(window geometry.Range) float64 {
	if f.countPadding {
		return float64(window.PaddedCount)
	}
	return float64(window.Count())
}

// area returns the number of taps that an average over a window counts, and at least 1. windows has the range of the
// window along each spatial dimension.
func (f *foldSpec) area(windows [maxDims]geometry.Range) float64 {
	area := 1.0
	for _, window := range windows {
		area *= f.averageCount(window)
	}
	return max(area, 1)
}

// divisorOf returns the number by which the sum over a window is divided. area is the area of the window, which is
// exact up to 2^53. The divisor of integers is at most 2^62, because a greater area may not fit int64.
func divisorOf[A int64 | float64](fold *foldSpec, area float64) A {
	isInteger := A(3)/2 == 1 // not for float64: 3/2 is 1.5
	switch {
	case fold.divisor != 0:
		return A(fold.divisor)
	case area > 1<<62 && isInteger:
		return A(int64(1 << 62))
	}
	return A(area)
}

// sizedPooling describes the pooling of a call, whose sizes and layouts are known. Strides are in bytes, in the order
// batch, channel, depth, row, column. Missing dimensions have stride 0. A plane has all elements of one channel in one
// batch element.
type sizedPooling struct {
	foldSpec
	meta            tensor.Meta            // layout of the operand
	results         []tensor.Meta          // layouts of the results
	batch, channels int                    // numbers of batch elements and of channels
	axes            [maxDims]geometry.Axis // depth, rows and columns
	maxTaps         [maxDims]int           // by dimension: maximum number of taps of a window that are inside the operand
	taps            int                    // product of maxTaps: maximum number of taps of a window
	inStrides       [2 + maxDims]int       // strides of the operand
	outStrides      [2][2 + maxDims]int    // strides of values and of indices
	planeElements   int                    // elements per plane of the operand
}

// newSizedPooling describes the pooling of the last len(axes) dimensions of the first operand.
func newSizedPooling(c *graph.Call, fold foldSpec, axes []geometry.Axis) *sizedPooling {
	operand, dims := c.Meta(0), len(axes)
	sized := &sizedPooling{foldSpec: fold, meta: operand, results: c.Out, batch: 1,
		channels:  operand.Shape[operand.Rank()-dims-1],
		inStrides: byteStrides(operand, dims), planeElements: 1}
	if operand.Rank() == dims+2 {
		sized.batch = operand.Shape[0]
	}
	for i, out := range c.Out {
		sized.outStrides[i] = byteStrides(out, dims)
	}
	for d := range sized.axes {
		sized.axes[d] = geometry.MissingAxis()
		if leadDims := maxDims - dims; d >= leadDims {
			sized.axes[d] = axes[d-leadDims]
		}
		sized.axes[d] = sized.axes[d].WithWindowTable()
		sized.maxTaps[d] = sized.axes[d].MaxCount()
		sized.planeElements *= sized.axes[d].Size
	}
	sized.taps = kit.BoundedProduct(sized.maxTaps[:]...)
	return sized
}

// byteStrides returns the strides, in bytes, of a layout with dims spatial dimensions: of batch, channel, depth, row
// and column. For [channel, row, column] and dims 2, strides 1, 3 and 4 are set.
func byteStrides(meta tensor.Meta, dims int) (strides [2 + maxDims]int) {
	size, leadDims := meta.DType.Size(), meta.Rank()-dims
	for d, stride := range meta.Strides {
		if d < leadDims { // the channel is strides[1], and the batch, if any, is strides[0]
			strides[2-leadDims+d] = stride * size
		} else { // the last spatial dimension is the last element of strides
			strides[len(strides)-meta.Rank()+d] = stride * size
		}
	}
	return strides
}

// windows returns, for each spatial dimension, the range of the window of the result at (depth, row, column).
func (p *sizedPooling) windows(depth, row, column int) [maxDims]geometry.Range {
	return [...]geometry.Range{depthAxis: p.axes[depthAxis].WindowAt(depth), rowAxis: p.axes[rowAxis].WindowAt(row),
		columnAxis: p.axes[columnAxis].WindowAt(column)}
}

// planeIndex returns the row-major index, in its plane, of the operand's element at (depth, row, column).
func (p *sizedPooling) planeIndex(depth, row, column int) int {
	return (depth*p.axes[rowAxis].Size+row)*p.axes[columnAxis].Size + column
}
