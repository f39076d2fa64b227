package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// windowPacker packs the windows of an input whose channels are planes (NCHW) into panels. A tap is an element of the
// window. A panel has a row for each channel and tap: the input elements that the tap multiplies, one for each output
// of the panel. A lane is a column of a panel, which belongs to one output. In its methods, k is a row of the panel.
// Planes, rows and columns are od, oh, ow for an output, id, ih, iw for an input element, and kd, kh, kw for a tap.
//
// For example, an image has rows of 5 pixels, the window has 3 taps in a row, and the padding is 1. A panel of width 5
// has the outputs of one row. For each row of the window that is inside the image, it has the rows
//
//	tap 0:  0   x0  x1  x2  x3     one move of 4 elements to lane 1
//	tap 1:  x0  x1  x2  x3  x4     one move of 5 elements to lane 0
//	tap 2:  x1  x2  x3  x4  0      one move of 4 elements to lane 0
type windowPacker struct {
	window
	inStride   ncdhw        // strides of the input, in elements
	width      int          // number of outputs of a panel
	elemCopier strided.Elem // copies elements
}

// attachTo makes a product pack its operand B with the packer.
func (p *windowPacker) attachTo(product *multiply.Multiplier) {
	taps := p.taps()
	product.Prepare = func(job *multiply.Job) {
		job.TapStart, job.TapPad = make([]int, taps+1), make([]int, taps)
		job.Args.PackB = func(dst []byte, k0, k1, out0, out1 int) { p.pack(job, dst, k0, k1, out0, out1) }
	}
}

// pack packs rows k0 to k1, exclusive, of the panels of outputs out0 to out1. With the given job, it is a
// gemm.PackFunc. A move is a copy of a run of elements. The moves are the same for all channels, so they are planned
// once per panel.
func (p *windowPacker) pack(job *multiply.Job, dst []byte, k0, k1, out0, out1 int) {
	taps, elemBytes := p.taps(), p.elemCopier.DstSize
	rowBytes := p.width * elemBytes
	laneStep := p.w.Stride * p.inStride.w // distance in the input between neighbouring lanes, in elements
	for out := out0; out < out1; out += p.width {
		panel := dst[:rowBytes*(k1-k0)]
		dst = dst[rowBytes*(k1-k0):]
		p.planMoves(job, out, min(p.width, out1-out))
		tap := k0 % taps
		channel := unsafe.Add(job.Args.B, k0/taps*p.inStride.c*elemBytes)
		for k := k0; k < k1; k++ {
			row := panel[(k-k0)*rowBytes:][:rowBytes]
			if job.TapPad[tap] != 0 { // some lanes are in the padding
				clear(row)
			}
			for i := job.TapStart[tap]; i < job.TapStart[tap+1]; i++ {
				move := &job.Moves[i]
				from := unsafe.Add(channel, move.From*elemBytes)
				copyLanes(&p.elemCopier, row[move.Lane*elemBytes:], move.Count, from, laneStep)
			}
			if tap++; tap == taps {
				tap = 0
				if k+1 < k1 {
					channel = unsafe.Add(channel, p.inStride.c*elemBytes)
				}
			}
		}
	}
}

// planMoves lists the moves that fill a panel, tap by tap (job.Moves, job.TapStart), and counts the lanes of each tap
// that are in the padding (job.TapPad). out is the output of the first lane of the panel.
func (p *windowPacker) planMoves(job *multiply.Job, out, lanes int) {
	job.Moves = job.Moves[:0]
	row, column := out/p.w.Results, out%p.w.Results
	for tap := range p.taps() {
		job.TapStart[tap] = len(job.Moves)
		kd, kh, kw := p.tap(tap)
		od, oh, ow, lanesInside := row/p.h.Results, row%p.h.Results, column, 0
		for lane := 0; lane < lanes; {
			pixels := min(p.w.Results-ow, lanes-lane)
			id, ih, iw := p.d.Position(od, kd), p.h.Position(oh, kh), p.w.Position(ow, kw)
			first, end := geometry.IndicesInside(iw, p.w.Stride, p.w.Size, pixels)
			if p.d.Contains(id) && p.h.Contains(ih) && first < end {
				from := id*p.inStride.d + ih*p.inStride.h + (iw+first*p.w.Stride)*p.inStride.w
				job.Moves = append(job.Moves, multiply.RowMove{Lane: lane + first, Count: end - first, From: from})
				lanesInside += end - first
			}
			lane += pixels
			if oh, ow = oh+1, 0; oh == p.h.Results { // the next row of the result
				od, oh = od+1, 0
			}
		}
		job.TapPad[tap] = lanes - lanesInside
	}
	job.TapStart[p.taps()] = len(job.Moves)
}

// copyLanes copies n elements that are step elements apart. Adjacent elements are copied inline, because runs are
// short: calls of elemCopier.Row took 10% of the time of a convolution with 64 channels.
func copyLanes(elemCopier *strided.Elem, dst []byte, n int, from unsafe.Pointer, step int) {
	dst = dst[:n*elemCopier.DstSize]
	switch {
	case step != 1:
		elemCopier.Row(unsafe.Pointer(unsafe.SliceData(dst)), from, elemCopier.DstSize, step*elemCopier.SrcSize, n)
	case len(dst) == 128: // the compiler copies arrays of constant length inline
		*(*[128]byte)(dst) = *(*[128]byte)(from)
	default:
		copy(dst, unsafe.Slice((*byte)(from), len(dst)))
	}
}
