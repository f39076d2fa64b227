package conv

import (
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// axis is the geometry of a convolution along one spatial dimension. Tap k of the window of result o reads input
// element at(o, k). Elements outside [0, in) are padding; the padding behind the input follows from the other fields.
// In a transposed convolution, in is the size of the result and out is the size of the input.
type axis struct {
	in, out  int // numbers of elements of the input and of the result
	taps     int // number of elements of the window
	stride   int // distance between the windows of neighbouring results, in input elements
	pad      int // number of zeros before the input
	dilation int // distance between neighbouring taps, in input elements
}

// unitAxis is the axis of a dimension that an operand does not have.
var unitAxis = axis{in: 1, out: 1, taps: 1, stride: 1, dilation: 1}

// clamped bounds the stride of a single window, and the dilation of windows of one element, by the input size. They
// have no effect there. All other windows are within the padded input, whose size is bounded, so that arithmetic on
// positions does not overflow.
func (a axis) clamped() axis {
	if a.out <= 1 {
		a.stride = min(a.stride, max(a.in, 1))
	}
	if a.taps <= 1 {
		a.dilation = min(a.dilation, max(a.in, 1))
	}
	return a
}

// start returns the input position of the first tap of result o. Positions are negative in the padding.
func (a *axis) start(o int) int { return o*a.stride - a.pad }

// at returns the input position of tap k of result o.
func (a *axis) at(o, k int) int { return o*a.stride - a.pad + k*a.dilation }

// inside reports whether a position is inside the input.
func (a *axis) inside(position int) bool { return uint(position) < uint(a.in) }

// tapsOf returns the range of the taps of result o that are inside the input.
func (a *axis) tapsOf(o int) (first, end int) {
	return validRange(a.start(o), a.dilation, a.in, a.taps)
}

// resultsOf returns the range of results for which tap k is inside the input.
func (a *axis) resultsOf(k int) (first, end int) {
	return validRange(a.at(0, k), a.stride, a.in, a.out)
}

// extent returns the number of input elements from the first tap of a result to the last tap of result n-1 after it.
func (a *axis) extent(n int) int { return (n-1)*a.stride + (a.taps-1)*a.dilation + 1 }

// bordered reports whether windows reach outside the input.
func (a *axis) bordered() bool { return a.pad > 0 || a.extent(a.out) > a.in }

// pointwise reports whether each result depends only on the input element of the same index.
func (a *axis) pointwise() bool { return a.taps == 1 && a.stride == 1 && a.pad == 0 && a.out == a.in }

// reach returns a bound on the distance between two positions of windows, in the padding included.
func (a *axis) reach() int { return max(a.in, a.pad, a.out*a.stride+(a.taps-1)*a.dilation+1) }

// tapsInside returns the number of taps inside the input, summed over all windows.
func (a *axis) tapsInside() (n int) {
	if a.out < a.taps {
		for o := range a.out {
			first, end := a.tapsOf(o)
			n += max(0, end-first)
		}
	} else {
		for k := range a.taps {
			first, end := a.resultsOf(k)
			n += max(0, end-first)
		}
	}
	return n
}

// validRange returns the range of t in [0, n) for which at + t*step is in [0, size).
func validRange(at, step, size, n int) (first, end int) {
	if at < 0 {
		first = kit.DivUp(-at, step)
	}
	if at < size {
		end = min(n, (size-1-at)/step+1)
	}
	return first, end
}

// window is the geometry of a convolution over depth, height and width. Images have the unitAxis as depth, and
// sequences also as height.
type window struct{ d, h, w axis }

// newWindow returns the window with the given axes as its last ones.
func newWindow(axes []axis) window {
	all := [3]axis{unitAxis, unitAxis, unitAxis}
	for i, a := range axes {
		all[3-len(axes)+i] = a.clamped()
	}
	return window{all[0], all[1], all[2]}
}

// volumetric reports whether windows or images have several planes.
func (w *window) volumetric() bool { return w.d != unitAxis }

// taps returns the number of elements of the window.
func (w *window) taps() int { return w.d.taps * w.h.taps * w.w.taps }

// tap returns the indices of an element of the window.
func (w *window) tap(i int) (kd, kh, kw int) {
	row := i / w.w.taps
	return row / w.h.taps, row % w.h.taps, i % w.w.taps
}

// rowsIn, rowsOut, pixelsIn and pixelsOut return the numbers of rows and of pixels of an input and of its result, over
// all planes.
func (w *window) rowsIn() int    { return w.d.in * w.h.in }
func (w *window) rowsOut() int   { return w.d.out * w.h.out }
func (w *window) pixelsIn() int  { return w.rowsIn() * w.w.in }
func (w *window) pixelsOut() int { return w.rowsOut() * w.w.out }

// pointwise reports whether each output pixel depends only on the input pixel at the same position.
func (w *window) pointwise() bool { return w.d.pointwise() && w.h.pointwise() && w.w.pointwise() }

// bordered reports whether windows reach outside the input.
func (w *window) bordered() bool { return w.d.bordered() || w.h.bordered() || w.w.bordered() }

// meanTaps returns the average number of taps of a window that are inside the input.
func (w *window) meanTaps() float64 {
	mean := func(a *axis) float64 { return float64(a.tapsInside()) / float64(a.out) }
	return mean(&w.d) * mean(&w.h) * mean(&w.w)
}

// reach returns a bound on the distance between two pixels of windows, in pixels.
func (w *window) reach() int {
	rows := w.h.reach()
	if w.volumetric() {
		rows += kit.Times(w.d.reach(), w.h.in)
	}
	return kit.Times(rows, w.w.in) + w.w.reach()
}

// ncdhw has a number for each dimension of an image or volume: a size, or a stride in elements. The dimensions of a
// weight are output channels, input channels per group, and the window.
type ncdhw struct{ n, c, d, h, w int }

// spatial returns the sizes and strides of a value with dims spatial dimensions. Missing dimensions have size 1 and
// stride 0.
func spatial(m tensor.Meta, dims int) (size, stride ncdhw) {
	lead := m.Rank() - dims // 1 without a batch
	list := func(v []int, missing int) ncdhw {
		x := [5]int{missing, missing, missing, missing, missing}
		copy(x[2-lead:2], v[:lead])
		copy(x[5-dims:], v[lead:])
		return ncdhw{x[0], x[1], x[2], x[3], x[4]}
	}
	return list(m.Shape, 1), list(m.Strides, 0)
}

// denseChannelsLast reports whether a value is dense with channels as the fastest dimension.
func denseChannelsLast(size, stride ncdhw) bool {
	return tensor.Meta{Shape: []int{size.n, size.c, size.d, size.h, size.w},
		Strides: []int{stride.n, stride.c, stride.d, stride.h, stride.w}}.IsChannelsLast3d()
}

// pixelStride returns the constant distance between neighbouring pixels of a channel, or false if it is not constant.
func pixelStride(size, stride ncdhw) (int, bool) {
	return commonStride(stride.h, [2]int{size.w, stride.w}, [2]int{size.h, stride.h}, [2]int{size.d, stride.d})
}

// pixelDistance returns the constant distance between neighbouring pixels of a channel over all images, or 0 if it is
// not constant.
func pixelDistance(size, stride ncdhw) int {
	pixel, _ := commonStride(size.c, [2]int{size.w, stride.w}, [2]int{size.h, stride.h}, [2]int{size.d, stride.d},
		[2]int{size.n, stride.n})
	return pixel
}

// commonStride returns the constant distance between neighbouring elements of dimensions with the given sizes and
// strides, from the innermost one on. It returns 0 and false if the distance is not constant, and single if there is
// only one element.
func commonStride(single int, dims ...[2]int) (stride int, constant bool) {
	stride = single
	elements := 1 // of the dimensions so far
	for _, d := range dims {
		switch size, step := d[0], d[1]; {
		case size == 1:
			continue
		case elements == 1:
			stride = step
		case step != elements*stride:
			return 0, false
		}
		elements *= d[0]
	}
	return stride, true
}
