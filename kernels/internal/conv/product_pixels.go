package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// maxPixelsPerProduct is the maximum number of output pixels in one product of several images. Larger batches are
	// divided into several products, so that packed panels stay small.
	maxPixelsPerProduct = 8192
	// minPixelChannels is the minimum number of channels for which windows are copied pixel by pixel. Windows with
	// fewer channels are copied row by row.
	minPixelChannels = 16
)

// productKernelByPixels makes the kernel that multiplies the windows of pixels by the weight. The product is A*B. The
// rows of A are the windows of output pixels, which are gathered while A is packed (implicit im2col). Row (kh, kw,
// channel) of B has the weights of this tap and input channel for all output channels. Several images form one matrix
// if they are adjacent in memory. For example, two images of 14x14 pixels with 3x3 windows of 32 channels and 64 output
// channels give the product of a 392x288 matrix and a 288x64 matrix.
func productKernelByPixels(conv *convShape) (*graph.Kernel, error) {
	pixelStride, ok := conv.pixelStride()
	if !ok {
		return nil, errPixelStride
	}
	if conv.h.Results*conv.w.Results == 1 { // an image has one output pixel, so the next one is in the next image
		pixelStride = conv.outStride.n
	}
	images := 1
	if conv.outStride.n == conv.h.Results*conv.w.Results*pixelStride { // images are adjacent
		images = imagesPerEntry(conv)
	}
	dtype := conv.call.Out[0].DType
	spec := pixelProductSpec(conv, dtype, images, pixelStride)
	weight, err := newPackedWeight(conv.call, panelsFor(conv, productByPixels, dtype))
	if err != nil {
		return nil, err
	}
	if weight.DType != dtype {
		spec.B.Half = weight.DType
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	multiplier := &multiply.Multiplier{Plan: plan, Entries: conv.batch / images * conv.groups,
		MACs: kit.BoundedProduct(spec.M, spec.N, spec.K)}
	multiplier.SetEpilogue(conv.epilogue, spec)
	setPixelEntries(multiplier, conv, weight, images)
	if !conv.isPointwise() {
		runLength, runsAreRows := pixelRun(conv)
		packer := &pixelPacker{conv: conv, width: plan.PackRows(), elemCopier: strided.MoverOf(dtype.Size()),
			runLength: runLength, runsAreRows: runsAreRows}
		packer.attachTo(multiplier)
	}
	return weight.kernel(multiplier), nil
}

// imagesPerEntry returns the number of images per product (an entry of the Multiplier): the largest divisor of the
// batch size that gives at most maxPixelsPerProduct rows.
func imagesPerEntry(conv *convShape) int {
	maxImages := max(1, maxPixelsPerProduct/(conv.h.Results*conv.w.Results))
	for i := min(maxImages, conv.batch); i > 1; i-- {
		if conv.batch%i == 0 {
			return i
		}
	}
	return 1
}

// pixelProductSpec returns the spec of the product for one group of channels of the given number of images.
func pixelProductSpec(conv *convShape, dtype tensor.DType, images, pixelStride int) gemm.Spec {
	spec := gemm.Spec{DType: dtype, M: images * conv.h.Results * conv.w.Results, N: conv.outPerGroup(),
		K:          conv.termsPerOutput(),
		A:          gemm.Operand{Source: gemm.Custom},    // packed by a pixelPacker
		B:          gemm.Operand{Source: gemm.Prepacked}, // the packed weight
		CRowStride: pixelStride, CColStride: conv.outStride.c}
	if conv.isPointwise() { // A is the image itself
		spec.A = gemm.Operand{RowStride: conv.inChannels, ColStride: 1}
	}
	if conv.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasCols, conv.biasStride
	}
	return spec
}

// setPixelEntries sets the entries of a multiplier: the products of its batch. Operand A is the input, and operand B
// the weight. A matrix has the windows of the given number of images. There is one entry for each group of channels of
// each matrix. With two matrices and two groups, the entries (matrix, group) are (0, 0), (0, 1), (1, 0), (1, 1).
func setPixelEntries(multiplier *multiply.Multiplier, conv *convShape, w packedWeight, images int) {
	if multiplier.Entries > 1 {
		matrices, matrixElements := conv.batch/images, images*conv.h.Size*conv.w.Size*conv.inChannels
		const sharedByMatrices = 0 // stride of matrices in weight and bias
		multiplier.A = entryOffsets(matrices, matrixElements, conv.groups, conv.inPerGroup)
		weightElements := w.MatrixLen() * w.DType.Size() / conv.call.Out[0].DType.Size() // panels have an even width
		multiplier.B = entryOffsets(matrices, sharedByMatrices, conv.groups, weightElements)
		multiplier.C = entryOffsets(matrices, images*conv.outStride.n, conv.groups, conv.outPerGroup()*conv.outStride.c)
		multiplier.Bias = entryOffsets(matrices, sharedByMatrices, conv.groups, conv.outPerGroup()*conv.biasStride)
	}
	multiplier.Bind = func(mem *graph.Mem, job *multiply.Job) {
		job.C, job.A, job.B, job.Bias = mem.Ptrs[0], mem.Ptrs[1], w.address(mem), conv.biasAt(mem)
	}
}

// pixelPacker fills panels with the windows of channels-last images. The lanes of a panel are output pixels. For each
// term (a tap and an input channel), the elements of all lanes are adjacent. The terms are divided into runs, which are
// contiguous in the image. A run has the channels of one pixel or, if there are few channels, of a row of the window.
// In its methods, oh and ow are the row and column of an output pixel, ih and iw of an input pixel, and kh and kw of a
// tap. k is the index of a term.
type pixelPacker struct {
	conv        *convShape
	width       int          // number of output pixels of a panel
	elemCopier  strided.Elem // its SrcSize and DstSize are both the size of an element
	runLength   int          // number of elements of a run
	runsAreRows bool         // whether a run is a row of the window; requires one group, and dilation 1 along the row
}

// attachTo makes a product pack its operand A with the packer.
func (p *pixelPacker) attachTo(product *multiply.Multiplier) {
	product.Prepare = func(job *multiply.Job) {
		job.Lanes, job.Windows = make([]unsafe.Pointer, p.width), make([]multiply.PixelWindow, p.width)
		job.Args.PackA = func(dst []byte, k0, k1, pixel0, pixel1 int) { p.pack(job, dst, k0, k1, pixel0, pixel1) }
	}
}

// pack packs terms [k0, k1) of output pixels [pixel0, pixel1). With the given job, it is a gemm.PackFunc.
func (p *pixelPacker) pack(job *multiply.Job, dst []byte, k0, k1, pixel0, pixel1 int) {
	termBytes := p.width * p.elemCopier.DstSize
	for pixel := pixel0; pixel < pixel1; pixel += p.width {
		lanes := min(p.width, pixel1-pixel)
		panel := dst[:termBytes*(k1-k0)]
		dst = dst[termBytes*(k1-k0):]
		p.locateWindows(job, pixel, lanes)
		for k := k0; k < k1; {
			run, begin := k/p.runLength, k%p.runLength
			end := min(p.runLength, begin+k1-k)
			to := panel[(k-k0)*termBytes:]
			if p.runsAreRows {
				p.packRow(job, to, run, begin, end, lanes)
			} else {
				p.packPixel(job, to, run/p.conv.w.Taps, run%p.conv.w.Taps, begin, end, lanes)
			}
			k += end - begin
		}
	}
}

// locateWindows sets job.Windows to the positions of the windows of `lanes` output pixels. Pixels are numbered over all
// images of the product; firstPixel is the number of the first.
func (p *pixelPacker) locateWindows(job *multiply.Job, firstPixel, lanes int) {
	conv := p.conv
	imagePixels := conv.h.Results * conv.w.Results
	image, pixel := firstPixel/imagePixels, firstPixel%imagePixels
	oh, ow := pixel/conv.w.Results, pixel%conv.w.Results
	for lane := range lanes {
		job.Windows[lane] = multiply.PixelWindow{Base: unsafe.Add(job.Args.A,
			image*conv.h.Size*conv.w.Size*conv.inChannels*p.elemCopier.SrcSize),
			Row: conv.h.Begin(oh), Col: conv.w.Begin(ow)}
		if ow++; ow == conv.w.Results {
			ow = 0
			if oh++; oh == conv.h.Results {
				oh = 0
				image++
			}
		}
	}
}

// packPixel packs channels [begin, end) of tap (kh, kw). The address of a lane is nil if its tap is in the padding; the
// lane is then packed as zeros.
func (p *pixelPacker) packPixel(job *multiply.Job, to []byte, kh, kw, begin, end, lanes int) {
	conv := p.conv
	for lane := range lanes {
		window := &job.Windows[lane]
		ih, iw := window.Row+kh*conv.h.Dilation, window.Col+kw*conv.w.Dilation
		job.Lanes[lane] = nil
		if conv.h.Contains(ih) && conv.w.Contains(iw) {
			job.Lanes[lane] = unsafe.Add(window.Base, ((ih*conv.w.Size+iw)*conv.inChannels+begin)*p.elemCopier.SrcSize)
		}
	}
	gemm.Interleave(p.elemCopier.SrcSize, to, p.width, job.Lanes[:lanes], end-begin)
}

// packRow packs elements [begin, end) of row kh of the window. If the row of a lane reaches into the padding, the
// lane's address is nil, so that Interleave sets the elements to zero. Then the pixels inside the image are copied.
func (p *pixelPacker) packRow(job *multiply.Job, to []byte, kh, begin, end, lanes int) {
	conv, size := p.conv, p.elemCopier.SrcSize
	for lane := range lanes {
		window := &job.Windows[lane]
		job.Lanes[lane] = nil
		if ih := window.Row + kh*conv.h.Dilation; conv.h.Contains(ih) && window.Col >= 0 &&
			window.Col+conv.w.Taps <= conv.w.Size {
			job.Lanes[lane] = unsafe.Add(window.Base, ((ih*conv.w.Size+window.Col)*conv.inChannels+begin)*size)
		}
	}
	gemm.Interleave(p.elemCopier.SrcSize, to, p.width, job.Lanes[:lanes], end-begin)
	for lane := range lanes {
		window := &job.Windows[lane]
		ih := window.Row + kh*conv.h.Dilation
		if job.Lanes[lane] != nil || !conv.h.Contains(ih) {
			continue
		}
		// Element e of the row is inside the image if 0 <= Col*inChannels + e < Size*inChannels.
		first := max(begin, -window.Col*conv.inChannels)
		stop := min(end, (conv.w.Size-window.Col)*conv.inChannels)
		if first < stop {
			from := unsafe.Add(window.Base, ((ih*conv.w.Size+window.Col)*conv.inChannels+first)*size)
			p.elemCopier.Row(unsafe.Pointer(&to[((first-begin)*p.width+lane)*size]), from, p.width*size, size, stop-first)
		}
	}
}
