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

// The dimensions of a pooling's operand and results.
const (
	batchDim = iota
	channelDim
	depthDim
	rowDim
	columnDim
)

// poolKind is the reduction of a pooling.
type poolKind uint8

const (
	poolMax poolKind = iota
	poolAvg
	poolNorm
)

// poolFold is the reduction of a pooling with its attributes. A tap is an element of a window.
type poolFold struct {
	kind         poolKind
	indices      bool    // whether the second result is the index of each maximum in its plane
	countPadding bool    // whether averages count the taps in the padding
	divisor      int     // divisor of averages; 0 stands for the number of taps
	exponent     float64 // p of the p-norm, for poolNorm
}

// averageCount returns the number of taps of a window along one dimension that an average counts. It returns a float64,
// because products of counts may exceed 2^63.
func (f *poolFold) averageCount(window geometry.Range) float64 {
	if f.countPadding {
		return float64(window.PaddedCount)
	}
	return float64(window.Count())
}

// area returns the number of taps of a window that an average counts. It is at least 1.
func (f *poolFold) area(windows [maxDims]geometry.Range) float64 {
	area := 1.0
	for _, window := range windows {
		area *= f.averageCount(window)
	}
	return max(area, 1)
}

// divisorOf returns the number by which the sum over a window is divided. area is the area of the window. Integer areas
// are exact up to 2^53. Areas above 2^62 give the divisor 2^62, so integer averages over these areas are 0.
func divisorOf[A int64 | float64](fold *poolFold, area float64) A {
	isInteger := A(3)/2 == 1 // not for float64: 3/2 is 1.5
	switch {
	case fold.divisor != 0:
		return A(fold.divisor)
	case area > 1<<62 && isInteger:
		return A(int64(1 << 62))
	}
	return A(area)
}

// poolCall describes a pooling of a call with known sizes and layouts. Strides are in bytes, in the order batch,
// channel, spatial dimensions. Missing dimensions have stride 0. A plane has all elements of one channel in one batch
// element.
type poolCall struct {
	poolFold
	meta            tensor.Meta   // layout of the operand
	results         []tensor.Meta // layouts of the results
	batch, channels int           // numbers of batch elements and of channels
	axes            [maxDims]geometry.Axis
	maxTaps         [maxDims]int        // by dimension: maximum number of taps of a window that are inside the operand
	taps            int                 // product of maxTaps: maximum number of taps of a window
	inStrides       [2 + maxDims]int    // strides of the operand
	outStrides      [2][2 + maxDims]int // strides of values and of indices
	planeElements   int                 // elements per plane of the operand
}

// newPoolCall describes the pooling of the last len(axes) dimensions of the first operand.
func newPoolCall(c *graph.Call, fold poolFold, axes []geometry.Axis) *poolCall {
	operand, dims := c.Meta(0), len(axes)
	pooled := &poolCall{poolFold: fold, meta: operand, results: c.Out, batch: 1,
		channels:  operand.Shape[operand.Rank()-dims-1],
		inStrides: poolStrides(operand, dims), planeElements: 1}
	if operand.Rank() == dims+2 {
		pooled.batch = operand.Shape[0]
	}
	for i, out := range c.Out {
		pooled.outStrides[i] = poolStrides(out, dims)
	}
	for d := range pooled.axes {
		pooled.axes[d] = geometry.Unit()
		if lead := maxDims - dims; d >= lead {
			pooled.axes[d] = axes[d-lead]
		}
		pooled.axes[d] = pooled.axes[d].WithWindowTable()
		pooled.maxTaps[d] = pooled.axes[d].MaxCount()
		pooled.planeElements *= pooled.axes[d].Size
	}
	pooled.taps = kit.BoundedProduct(pooled.maxTaps[:]...)
	return pooled
}

// poolStrides returns the strides of m, in bytes, for batch, channel and spatial dimensions. m has dims spatial
// dimensions.
func poolStrides(m tensor.Meta, dims int) (strides [2 + maxDims]int) {
	size, lead := m.DType.Size(), m.Rank()-dims
	for d, s := range m.Strides {
		if d < lead {
			strides[2-lead+d] = s * size
		} else {
			strides[len(strides)-m.Rank()+d] = s * size
		}
	}
	return strides
}

// windows returns the window of a result along each spatial dimension.
func (p *poolCall) windows(d, h, w int) [maxDims]geometry.Range {
	return [...]geometry.Range{p.axes[0].WindowAt(d), p.axes[1].WindowAt(h), p.axes[2].WindowAt(w)}
}

// planeIndex returns the index of an element in its plane.
func (p *poolCall) planeIndex(d, h, w int) int { return (d*p.axes[1].Size+h)*p.axes[2].Size + w }

// poolKernel makes the kernel of a pooling. It uses loops in Go if compiled loops do not support the call.
func poolKernel(c *graph.Call, order poolOrder, fold poolFold, axes []geometry.Axis) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	pooled := newPoolCall(c, fold, axes)
	compile, vectorDim := compilePlanes, columnDim
	if order == poolPixels {
		compile, vectorDim = compilePixels, channelDim
	}
	if kernel, err := compile(pooled); kernel != nil || err != nil {
		return kernel, err
	}
	return poolInGo(pooled, vectorDim), nil
}
