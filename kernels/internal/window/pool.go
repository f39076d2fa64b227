package window

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

// poolFold is the reduction of a pooling, with the attributes that it uses.
type poolFold struct {
	kind         poolKind
	indices      bool    // the second result is the index of each maximum in its plane
	countPadding bool    // averages count the taps in the padding
	divisor      int     // divisor of averages; 0 stands for the number of taps
	exponent     float64 // p of the p-norm, for poolNorm
}

// averageCount returns the number of taps of a window along one dimension that an average counts. It returns a float64,
// because products of counts may exceed 2^63.
func (f *poolFold) averageCount(w geometry.Range) float64 {
	if f.countPadding {
		return float64(w.PaddedCount)
	}
	return float64(w.Count())
}

// area returns the number of taps of a window that an average counts. It is at least 1.
func (f *poolFold) area(w [maxDims]geometry.Range) float64 {
	area := 1.0
	for _, r := range w {
		area *= f.averageCount(r)
	}
	return max(area, 1)
}

// divisorOf returns the number by which the sum over a window is divided. area is the area of the window. Integer areas
// are exact up to 2^53. Areas above 2^62 give the divisor 2^62, so integer averages over these areas are 0.
func divisorOf[A int64 | float64](f *poolFold, area float64) A {
	isInteger := A(3)/2 == 1
	switch {
	case f.divisor != 0:
		return A(f.divisor)
	case area > 1<<62 && isInteger:
		return A(int64(1 << 62))
	}
	return A(area)
}

// pool describes a pooling of a call with known sizes and layouts. Strides are in bytes, in the order batch, channel,
// spatial dimensions. Missing dimensions have stride 0. A plane has all elements of one channel in one batch element.
type pool struct {
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

// newPool describes the pooling of the last len(axes) dimensions of the first operand.
func newPool(c *graph.Call, f poolFold, axes []geometry.Axis) *pool {
	m, dims := c.Meta(0), len(axes)
	p := &pool{poolFold: f, meta: m, results: c.Out, batch: 1, channels: m.Shape[m.Rank()-dims-1],
		inStrides: poolStrides(m, dims), planeElements: 1}
	if m.Rank() == dims+2 {
		p.batch = m.Shape[0]
	}
	for i, o := range c.Out {
		p.outStrides[i] = poolStrides(o, dims)
	}
	for d := range p.axes {
		p.axes[d] = geometry.Unit()
		if lead := maxDims - dims; d >= lead {
			p.axes[d] = axes[d-lead]
		}
		p.axes[d] = p.axes[d].WithWindowTable()
		p.maxTaps[d] = p.axes[d].MaxCount()
		p.planeElements *= p.axes[d].Size
	}
	p.taps = kit.BoundedProduct(p.maxTaps[:]...)
	return p
}

// poolStrides returns the strides of m, in bytes, for batch, channel and spatial dimensions. m has dims spatial
// dimensions.
func poolStrides(m tensor.Meta, dims int) (st [2 + maxDims]int) {
	size, lead := m.DType.Size(), m.Rank()-dims
	for d, s := range m.Strides {
		if d < lead {
			st[2-lead+d] = s * size
		} else {
			st[len(st)-m.Rank()+d] = s * size
		}
	}
	return st
}

// windows returns the window of a result along each spatial dimension.
func (p *pool) windows(d, h, w int) [maxDims]geometry.Range {
	return [...]geometry.Range{p.axes[0].WindowAt(d), p.axes[1].WindowAt(h), p.axes[2].WindowAt(w)}
}

// planeIndex returns the index of an element in its plane.
func (p *pool) planeIndex(d, h, w int) int { return (d*p.axes[1].Size+h)*p.axes[2].Size + w }

// poolKernel makes the kernel of a pooling. It uses loops in Go if compiled loops do not support the call.
func poolKernel(c *graph.Call, order poolOrder, f poolFold, axes []geometry.Axis) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	p := newPool(c, f, axes)
	compile, vectorDim := compilePlanes, columnDim
	if order == poolPixels {
		compile, vectorDim = compilePixels, channelDim
	}
	if k, err := compile(p); k != nil || err != nil {
		return k, err
	}
	return poolInGo(p, vectorDim), nil
}
