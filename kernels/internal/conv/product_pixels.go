package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

const (
	// maxPixelsPerProduct is the maximum number of output pixels, the rows of A, in one product of several images. Larger
	// batches are divided into several products, so that packed panels stay small.
	maxPixelsPerProduct = 8192
	// rowChannels is the minimum number of channels for which windows are copied pixel by pixel. Windows with fewer
	// channels are copied row by row.
	rowChannels = 16
)

// convNHWC makes the kernel that multiplies the windows of pixels by the weight. The product is A*B. The rows of A are
// the windows of output pixels, gathered while A is packed (implicit im2col). Row (kh, kw, channel) of B holds the
// weights of this tap and input channel for all output channels. Several images form one matrix if they are adjacent in
// memory.
func convNHWC(s *convShape) (*graph.Kernel, error) {
	pixel, ok := s.pixelStride()
	if !ok {
		return nil, errPixelStride
	}
	if s.h.Results*s.w.Results == 1 {
		pixel = s.outStride.n
	}
	images := 1
	if s.outStride.n == s.h.Results*s.w.Results*pixel { // images are adjacent
		images = imagesPerEntry(s)
	}
	pixels := images * s.h.Results * s.w.Results
	d := s.call.Out[0].DType
	spec := gemm.Spec{DType: d, M: pixels, N: s.outPerGroup(), K: s.termsPerOutput(),
		A:          gemm.Operand{Source: gemm.Custom},
		B:          gemm.Operand{Source: gemm.Prepacked},
		CRowStride: pixel, CColStride: s.outStride.c}
	if s.isPointwise() {
		spec.A = gemm.Operand{RowStride: s.inChannels, ColStride: 1}
	}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasCols, s.biasStride
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(s.call, convPanels(s, convByPixels, d))
	if err != nil {
		return nil, err
	}
	entries := s.n / images
	mul := &multiply.Multiplier{Plan: plan, Entries: entries * s.groups,
		MACs: kit.BoundedProduct(pixels, s.outPerGroup(), s.termsPerOutput())}
	if mul.Entries > 1 {
		mul.A = entryOffsets(entries, images*s.h.Size*s.w.Size*s.inChannels, s.groups, s.inPerGroup)
		mul.B = entryOffsets(entries, 0, s.groups, weight.MatrixLen())
		mul.C = entryOffsets(entries, images*s.outStride.n, s.groups, s.outPerGroup()*s.outStride.c)
		mul.Bias = entryOffsets(entries, 0, s.groups, s.outPerGroup()*s.biasStride)
	}
	mul.SetEpilogue(s.epilogue, spec)
	mul.Bind = func(m *graph.Mem, j *multiply.Job) {
		j.C, j.A, j.B, j.Bias = m.Ptrs[0], m.Ptrs[1], weight.address(m), s.biasAt(m)
	}
	if !s.isPointwise() {
		run, rows := pixelRun(s)
		p := &pixelPacker{conv: s, width: plan.PackRows(), elem: strided.Move(d.Size()), run: run, runsAreRows: rows}
		mul.Prepare = func(j *multiply.Job) {
			j.Lanes, j.Windows = make([]unsafe.Pointer, p.width), make([]multiply.PixelWindow, p.width)
			j.Args.PackA = func(dst []byte, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
		}
	}
	return weight.kernel(mul), nil
}

// imagesPerEntry returns the number of images per product: the largest divisor of the batch size that gives at most
// maxPixelsPerProduct rows.
func imagesPerEntry(s *convShape) int {
	maxImages := max(1, maxPixelsPerProduct/(s.h.Results*s.w.Results))
	for i := min(maxImages, s.n); i > 1; i-- {
		if s.n%i == 0 {
			return i
		}
	}
	return 1
}

// pixelPacker fills panels with the windows of channels-last images. The depth of the product is divided into runs,
// which are contiguous in the image. A run is the channels of one pixel or, if there are few channels, a row of the
// window.
type pixelPacker struct {
	conv        *convShape
	width       int // number of output pixels of a panel
	elem        strided.Elem
	run         int  // number of elements of a run
	runsAreRows bool // whether a run is a row of the window
}

// pack packs terms [k0, k1) of output pixels [l0, l1). It is a gemm.PackFunc.
func (p *pixelPacker) pack(j *multiply.Job, dst []byte, k0, k1, l0, l1 int) {
	width := p.width * p.elem.DstSize
	for l := l0; l < l1; l += p.width {
		lanes := min(p.width, l1-l)
		panel := dst[:width*(k1-k0)]
		dst = dst[width*(k1-k0):]
		p.locate(j, l, lanes)
		for k := k0; k < k1; {
			run, begin := k/p.run, k%p.run
			end := min(p.run, begin+k1-k)
			to := panel[(k-k0)*width:]
			if p.runsAreRows {
				p.packRow(j, to, run, begin, end, lanes)
			} else {
				p.packPixel(j, to, run/p.conv.w.Taps, run%p.conv.w.Taps, begin, end, lanes)
			}
			k += end - begin
		}
	}
}

// locate computes the position of the windows of `lanes` output pixels, from pixel l on.
func (p *pixelPacker) locate(j *multiply.Job, l, lanes int) {
	s := p.conv
	img, pixel := l/(s.h.Results*s.w.Results), l%(s.h.Results*s.w.Results)
	oh, ow := pixel/s.w.Results, pixel%s.w.Results
	for q := range lanes {
		j.Windows[q] = multiply.PixelWindow{Base: unsafe.Add(j.Args.A, img*s.h.Size*s.w.Size*s.inChannels*p.elem.SrcSize),
			IH: s.h.Begin(oh), IW: s.w.Begin(ow)}
		if ow++; ow == s.w.Results {
			ow = 0
			if oh++; oh == s.h.Results {
				oh = 0
				img++
			}
		}
	}
}

// packPixel packs channels [begin, end) of tap (kh, kw).
func (p *pixelPacker) packPixel(j *multiply.Job, to []byte, kh, kw, begin, end, lanes int) {
	s := p.conv
	for q := range lanes {
		w := &j.Windows[q]
		ih, iw := w.IH+kh*s.h.Dilation, w.IW+kw*s.w.Dilation
		j.Lanes[q] = nil
		if s.h.Contains(ih) && s.w.Contains(iw) {
			j.Lanes[q] = unsafe.Add(w.Base, ((ih*s.w.Size+iw)*s.inChannels+begin)*p.elem.SrcSize)
		}
	}
	gemm.Interleave(p.elem.SrcSize, to, p.width, j.Lanes[:lanes], end-begin)
}

// packRow packs elements [begin, end) of row kh of the window. For windows that reach into the padding, the elements
// are first set to zero, and then the pixels inside the image are copied.
func (p *pixelPacker) packRow(j *multiply.Job, to []byte, kh, begin, end, lanes int) {
	s, size := p.conv, p.elem.SrcSize
	for lane := range lanes {
		w := &j.Windows[lane]
		j.Lanes[lane] = nil
		if ih := w.IH + kh*s.h.Dilation; s.h.Contains(ih) && w.IW >= 0 && w.IW+s.w.Taps <= s.w.Size {
			j.Lanes[lane] = unsafe.Add(w.Base, ((ih*s.w.Size+w.IW)*s.inChannels+begin)*size)
		}
	}
	gemm.Interleave(p.elem.SrcSize, to, p.width, j.Lanes[:lanes], end-begin)
	for lane := range lanes {
		w := &j.Windows[lane]
		ih := w.IH + kh*s.h.Dilation
		if j.Lanes[lane] != nil || !s.h.Contains(ih) {
			continue
		}
		// The elements inside the image.
		first, stop := max(begin, -w.IW*s.inChannels), min(end, (s.w.Size-w.IW)*s.inChannels)
		if first < stop {
			from := unsafe.Add(w.Base, ((ih*s.w.Size+w.IW)*s.inChannels+first)*size)
			p.elem.Row(unsafe.Pointer(&to[((first-begin)*p.width+lane)*size]), from, p.width*size, size, stop-first)
		}
	}
}

// kernel returns the kernel that packs the weight and computes the products.
func (w packedWeight) kernel(mul *multiply.Multiplier) *graph.Kernel {
	k := &graph.Kernel{Phases: w.phases()}
	ph, scratch, worker := mul.Phases(w.Scratch)
	k.Phases = append(k.Phases, ph...)
	k.Scratch, k.Worker = w.Scratch+scratch, worker
	return k
}
