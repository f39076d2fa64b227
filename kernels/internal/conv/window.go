package conv

import (
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// window is the geometry of a convolution: the axes depth, height and width. Each axis has the sizes of the input, the
// result and the window. Images have no depth, and sequences have no depth and no height: the axis of a missing
// dimension is [geometry.MissingAxis]. A tap is an element of the window: a 3x3 window of images has nine taps, and tap
// 5 is in row 1 and column 2.
type window struct{ d, h, w geometry.Axis }

// newWindow returns the window over up to three dimensions, outermost first.
func newWindow(axes []geometry.Axis) window {
	all := [3]geometry.Axis{geometry.MissingAxis(), geometry.MissingAxis(), geometry.MissingAxis()}
	copy(all[3-len(axes):], axes)
	return window{all[0], all[1], all[2]}
}

// newAxes returns an axis for each spatial dimension. taps has the sizes of the window. input and result are whole
// shapes, whose last len(taps) dimensions are spatial. Clamped bounds strides and dilations that have no effect, so
// that positions do not overflow.
func newAxes(input, result, taps, stride, padding, dilation []int) []geometry.Axis {
	axes := make([]geometry.Axis, len(taps))
	input, result = input[len(input)-len(taps):], result[len(result)-len(taps):]
	for d := range axes {
		axes[d] = geometry.Axis{Size: input[d], Results: result[d], Window: geometry.Window{Taps: taps[d],
			Stride: stride[d], PadBefore: padding[d], Dilation: dilation[d]}}.Clamped()
	}
	return axes
}

// isVolumetric reports whether the input has more than one plane, including planes of padding. A depth axis of size 1
// whose window is not pointwise has padding.
func (w *window) isVolumetric() bool { return w.d.Size != 1 || !w.d.IsPointwise() }

// taps returns the number of elements of the window.
func (w *window) taps() int { return w.d.Taps * w.h.Taps * w.w.Taps }

// tap returns the plane, the row and the column of element i of the window.
func (w *window) tap(i int) (kd, kh, kw int) {
	row := i / w.w.Taps
	return row / w.h.Taps, row % w.h.Taps, i % w.w.Taps
}

// rowsIn returns the number of rows of the input, in all planes.
func (w *window) rowsIn() int { return w.d.Size * w.h.Size }

// rowsOut returns the number of rows of the result, in all planes.
func (w *window) rowsOut() int { return w.d.Results * w.h.Results }

// pixelsIn returns the number of pixels of the input.
func (w *window) pixelsIn() int { return w.rowsIn() * w.w.Size }

// pixelsOut returns the number of pixels of the result.
func (w *window) pixelsOut() int { return w.rowsOut() * w.w.Results }

// isPointwise reports whether each output pixel depends only on the input pixel at the same position.
func (w *window) isPointwise() bool {
	return w.d.IsPointwise() && w.h.IsPointwise() && w.w.IsPointwise()
}

// readsPadding reports whether windows reach outside the input.
func (w *window) readsPadding() bool {
	return w.d.ReadsPadding() || w.h.ReadsPadding() || w.w.ReadsPadding()
}

// meanTaps returns the average number of taps of a window that are inside the input.
func (w *window) meanTaps() float64 {
	mean := func(a *geometry.Axis) float64 { return float64(a.CountAll()) / float64(a.Results) }
	return mean(&w.d) * mean(&w.h) * mean(&w.w)
}

// maxDistance returns an upper bound of the distance between two pixels of a window, in pixels in row-major order.
func (w *window) maxDistance() int {
	rows := w.h.MaxDistance()
	if w.isVolumetric() {
		rows += kit.BoundedProduct(w.d.MaxDistance(), w.h.Size)
	}
	return kit.BoundedProduct(rows, w.w.Size) + w.w.MaxDistance()
}

// ncdhw has a number for each dimension of an image or volume: a size, or a stride in elements. For a weight, n stands
// for the output channels and c for the input channels per group.
type ncdhw struct{ n, c, d, h, w int }

// sizesAndStrides returns the sizes and strides of a value with dims spatial dimensions. Missing dimensions have size 1
// and stride 0.
func sizesAndStrides(m tensor.Meta, dims int) (size, stride ncdhw) {
	lead := m.Rank() - dims // number of dimensions before the spatial dimensions: 1 if there is no batch, else 2
	toNCDHW := func(list []int, missing int) ncdhw {
		all := [5]int{missing, missing, missing, missing, missing}
		copy(all[2-lead:2], list[:lead])
		copy(all[5-dims:], list[lead:])
		return ncdhw{n: all[0], c: all[1], d: all[2], h: all[3], w: all[4]}
	}
	return toNCDHW(m.Shape, 1), toNCDHW(m.Strides, 0)
}

// denseChannelsLast reports whether a value is dense with channels as the fastest dimension.
func denseChannelsLast(size, stride ncdhw) bool {
	return tensor.Meta{Shape: []int{size.n, size.c, size.d, size.h, size.w},
		Strides: []int{stride.n, stride.c, stride.d, stride.h, stride.w}}.IsChannelsLast3d()
}

// pixelStride returns the constant distance between neighbouring pixels of a channel, or false if the distance is not
// constant. For a single pixel it returns the stride of rows, which depends on the memory format.
func pixelStride(size, stride ncdhw) (int, bool) {
	return commonStride(stride.h, dimension{size.w, stride.w}, dimension{size.h, stride.h},
		dimension{size.d, stride.d})
}

// pixelStrideOverImages returns the constant distance between neighbouring pixels of a channel over all images, or 0 if
// the distance is not constant. For a single pixel it returns the number of channels: the distance if images are dense.
func pixelStrideOverImages(size, stride ncdhw) int {
	distance, _ := commonStride(size.c, dimension{size.w, stride.w}, dimension{size.h, stride.h},
		dimension{size.d, stride.d}, dimension{size.n, stride.n})
	return distance
}

// dimension is the size and the stride of a dimension.
type dimension struct{ size, stride int }

// commonStride returns the constant distance between neighbouring elements of several dimensions, the innermost first.
// It returns 0 and false if the distance is not constant. If there is only one element, it returns the value single.
func commonStride(single int, dims ...dimension) (stride int, isConstant bool) {
	stride = single
	elements := 1 // number of elements of the dimensions visited so far
	for _, dim := range dims {
		switch {
		case dim.size == 1:
			continue
		case elements == 1:
			stride = dim.stride
		case dim.stride != elements*stride:
			return 0, false
		}
		elements *= dim.size
	}
	return stride, true
}
