package conv

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has depthwise convolutions in Go, for dtypes and processors without the machine code of planeTiles and
// depthwiseWindow. Windows are applied in place, to planes or to vectors of channels. Packed windows would not be
// faster, because each output channel has one input channel.

// number has the element types of convolutions.
type number interface {
	uint8 | int8 | int16 | int32 | int64 | float32 | float64 | complex64 | complex128
}

// depthwiseLoops has the loops of a dtype.
type depthwiseLoops struct {
	// plane computes one row of one plane of the result. row counts the rows of all planes of all images.
	plane func(s *convShape, m *graph.Mem, row int)
	// pixels computes one row of the result in all channels. w is the packed weight. row counts the rows of all images.
	pixels func(s *convShape, m *graph.Mem, w unsafe.Pointer, row int)
}

var depthwiseByDType = map[tensor.DType]depthwiseLoops{
	tensor.Uint8: newDepthwiseLoops[uint8](), tensor.Int8: newDepthwiseLoops[int8](),
	tensor.Int16: newDepthwiseLoops[int16](),
	tensor.Int32: newDepthwiseLoops[int32](), tensor.Int64: newDepthwiseLoops[int64](),
	tensor.Float32: newDepthwiseLoops[float32](), tensor.Float64: newDepthwiseLoops[float64](),
	tensor.Complex64: newDepthwiseLoops[complex64](), tensor.Complex128: newDepthwiseLoops[complex128](),
}

func newDepthwiseLoops[T number]() depthwiseLoops { return depthwiseLoops{planeRow[T], pixelRow[T]} }

// depthwiseLoopsFor returns the loops of a dtype.
func depthwiseLoopsFor(d tensor.DType) (depthwiseLoops, error) {
	l, ok := depthwiseByDType[d]
	if !ok {
		return l, fmt.Errorf("no convolution of %v", d)
	}
	return l, nil
}

// depthwiseRows returns the phase that calls run for each row. A row takes macs multiply-adds.
func depthwiseRows(rows, macs int, run func(m *graph.Mem, row int)) graph.Phase {
	group := max(1, machine.DirectMACGrain/max(1, macs))
	return graph.Phase{Chunks: kit.DivUp(rows, group), Run: func(m *graph.Mem, chunk int) error {
		for r := chunk * group; r < min(rows, (chunk+1)*group); r++ {
			run(m, r)
		}
		return nil
	}}
}

// depthwisePlanes makes the kernel of the implementation by planes. Its operands may have any strides.
func depthwisePlanes(s *convShape) (*graph.Kernel, error) {
	d := s.call.Out[0].DType
	if t, err := newPlaneTiles(s, d); err != nil {
		return nil, err
	} else if t != nil {
		return t.kernel(), nil
	}
	loops, err := depthwiseLoopsFor(d)
	if err != nil {
		return nil, err
	}
	return &graph.Kernel{Phases: []graph.Phase{depthwiseRows(s.n*s.outChannels*s.h.Results, s.w.Results*s.h.Taps*s.w.Taps,
		func(m *graph.Mem, row int) { loops.plane(s, m, row) })}}, nil
}

// planeRow computes a row of one plane of the result.
func planeRow[T number](s *convShape, m *graph.Mem, row int) {
	oh, o, n := row%s.h.Results, row/s.h.Results%s.outChannels, row/s.h.Results/s.outChannels
	out := kit.AddressOf[T](m.Ptrs[0], n*s.outStride.n+o*s.outStride.c+oh*s.outStride.h)
	plane := kit.AddressOf[T](m.Ptrs[1], n*s.inStride.n+o/s.outPerGroup()*s.inStride.c)
	w := kit.AddressOf[T](m.Ptrs[2], o*s.weightStride.n)
	var bias T
	if s.hasBias {
		bias = *(*T)(kit.AddressOf[T](m.Ptrs[3], o*s.biasStride))
	}
	for i := range s.w.Results {
		*(*T)(kit.AddressOf[T](out, i*s.outStride.w)) = bias
	}
	for kh := range s.h.Taps {
		if ih := s.h.Position(oh, kh); s.h.Contains(ih) {
			addWindowRow[T](s, out, kit.AddressOf[T](plane, ih*s.inStride.h), kit.AddressOf[T](w, kh*s.weightStride.h))
		}
	}
}

// addWindowRow adds one row of the window to an output row.
func addWindowRow[T number](s *convShape, out, in, w unsafe.Pointer) {
	weight := func(k int) T { return *(*T)(kit.AddressOf[T](w, k*s.weightStride.w)) }
	if s.w.Taps == 3 && s.w.Dilation == 1 && s.outStride.w == 1 && s.inStride.w == 1 {
		// Results whose three taps are inside the image take one loop. The other results take one loop for each tap.
		first, _ := s.w.ResultsOf(0)
		_, end := s.w.ResultsOf(2)
		if first < end {
			addTap[T](s, out, in, weight(0), 0, 0, first)
			addTap[T](s, out, in, weight(1), 1, 0, first)
			addTap[T](s, out, in, weight(2), 2, 0, first)
			addThreeTaps(unsafe.Slice((*T)(kit.AddressOf[T](out, first)), end-first),
				kit.AddressOf[T](in, s.w.Begin(first)), s.w.Stride, weight(0), weight(1), weight(2))
			addTap[T](s, out, in, weight(0), 0, end, s.w.Results)
			addTap[T](s, out, in, weight(1), 1, end, s.w.Results)
			addTap[T](s, out, in, weight(2), 2, end, s.w.Results)
			return
		}
	}
	for kw := range s.w.Taps {
		addTap[T](s, out, in, weight(kw), kw, 0, s.w.Results)
	}
}

// addThreeTaps adds three neighbouring taps to each output.
func addThreeTaps[T number](out []T, in unsafe.Pointer, step int, w0, w1, w2 T) {
	x := unsafe.Slice((*T)(in), (len(out)-1)*step+3)
	if step == 1 {
		x0, x1, x2 := x[:len(out)], x[1:][:len(out)], x[2:][:len(out)]
		for i := range out {
			out[i] += T(w0*x0[i]) + T(w1*x1[i]) + T(w2*x2[i])
		}
		return
	}
	for i := range out {
		y := x[i*step:][:3]
		out[i] += T(w0*y[0]) + T(w1*y[1]) + T(w2*y[2])
	}
}

// addTap adds tap kw of a row of the window to the results [o0, o1). It skips results for which the tap is in the
// padding.
func addTap[T number](s *convShape, out, in unsafe.Pointer, w T, kw, o0, o1 int) {
	iw := s.w.Position(o0, kw)
	first, end := geometry.IndicesInside(iw, s.w.Stride, s.w.Size, o1-o0)
	for i := first; i < end; i++ {
		*(*T)(kit.AddressOf[T](out,
			(o0+i)*s.outStride.w)) += T(w * *(*T)(kit.AddressOf[T](in, (iw+i*s.w.Stride)*s.inStride.w)))
	}
}

// depthwiseNHWC makes the kernel of the implementation by pixels. The kernel computes all channels of a pixel at a
// time. The weight is packed in the order (kh, kw, channel).
func depthwiseNHWC(s *convShape) (*graph.Kernel, error) {
	d := s.call.Out[0].DType
	if hasWindowCode(s, d) {
		return depthwiseWindows(s, d)
	}
	weight, err := newPackedWeight(s.call, convPanels(s, depthwiseByPixels, d))
	if err != nil {
		return nil, err
	}
	loops, err := depthwiseLoopsFor(d)
	if err != nil {
		return nil, err
	}
	s.epilogue.Defer()
	rows := depthwiseRows(s.n*s.h.Results, s.w.Results*s.outChannels*s.taps(),
		func(m *graph.Mem, row int) { loops.pixels(s, m, weight.address(m), row) })
	return &graph.Kernel{Phases: append(weight.phases(), rows), Scratch: weight.Scratch}, nil
}

// pixelRow computes a row of the result in all channels.
func pixelRow[T number](s *convShape, m *graph.Mem, weight unsafe.Pointer, row int) {
	w := kit.ElementsOf[T](weight, s.h.Taps*s.w.Taps*s.outChannels)
	for ow := range s.w.Results {
		out := unsafe.Slice((*T)(kit.AddressOf[T](m.Ptrs[0], (row*s.w.Results+ow)*s.outChannels)), s.outChannels)
		fillBias(out, s.biasAt(m), s.biasStride)
		depthwisePixel(s, out, kit.AddressOf[T](m.Ptrs[1], row/s.h.Results*s.h.Size*s.w.Size*s.inChannels), w,
			row%s.h.Results, ow)
	}
}

func fillBias[T number](out []T, bias unsafe.Pointer, stride int) {
	if bias == nil {
		clear(out)
		return
	}
	for i := range out {
		out[i] = *(*T)(kit.AddressOf[T](bias, i*stride))
	}
}

// depthwisePixel adds the taps of the window of one output pixel.
func depthwisePixel[T number](s *convShape, out []T, img unsafe.Pointer, w []T, oh, ow int) {
	iw := s.w.Begin(ow)
	first, end := s.w.TapsOf(ow)
	for kh := range s.h.Taps {
		ih := s.h.Position(oh, kh)
		if !s.h.Contains(ih) || first >= end {
			continue
		}
		kw := first
		for ; s.outChannels == s.inChannels && kw+3 <= end; kw += 3 {
			p := kit.AddressOf[T](img, (ih*s.w.Size+iw+kw*s.w.Dilation)*s.inChannels)
			at := (kh*s.w.Taps + kw) * s.outChannels
			addThreePixels(out, unsafe.Slice((*T)(p), 2*s.w.Dilation*s.inChannels+s.inChannels), s.w.Dilation*s.inChannels,
				w[at:at+3*s.outChannels])
		}
		for ; kw < end; kw++ {
			x := unsafe.Slice((*T)(kit.AddressOf[T](img, (ih*s.w.Size+iw+kw*s.w.Dilation)*s.inChannels)), s.inChannels)
			addPixel(out, x, w[(kh*s.w.Taps+kw)*s.outChannels:][:s.outChannels], s.outPerGroup())
		}
	}
}

// addThreePixels adds three pixels, each times its weights. The pixels are step elements apart.
func addThreePixels[T number](out, x []T, step int, w []T) {
	n := len(out)
	x0, x1, x2 := x[:n], x[step:][:n], x[2*step:][:n]
	w0, w1, w2 := w[:n], w[n:][:n], w[2*n:][:n]
	for i := range out {
		out[i] += T(x0[i]*w0[i]) + T(x1[i]*w1[i]) + T(x2[i]*w2[i])
	}
}

// addPixel adds one pixel times its weights. Each input channel has outPerGroup output channels.
func addPixel[T number](out, x, w []T, outPerGroup int) {
	w = w[:len(out)]
	if outPerGroup == 1 {
		x = x[:len(out)]
		for i := range out {
			out[i] += T(x[i] * w[i])
		}
		return
	}
	for i := range out {
		out[i] += T(x[i/outPerGroup] * w[i])
	}
}
