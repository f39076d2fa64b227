package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// windowPacker fills panels with the windows of an input by planes: for each (channel, tap), the elements under the
// panel's outputs. Images are volumes of depth 1. Strides count elements.
type windowPacker struct {
	in, out, k         [3]int
	step, pad, dilated [3]int
	strides            [3]int // of the spatial dimensions
	channel            int    // stride of channels
	width              int    // outputs of a panel
	elem               strided.Elem
}

// use makes x gather B with the packer.
func (p *windowPacker) use(x *multiply.Multiplier) {
	taps := product3(p.k)
	x.Prepare = func(j *multiply.Job) {
		j.TapStart, j.TapPad = make([]int, taps+1), make([]int, taps)
		j.Args.PackB = func(dst []byte, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
	}
}

// pack is a gemm.PackFunc. All channels are copied by the same moves, which are planned once per panel.
func (p *windowPacker) pack(j *multiply.Job, dst []byte, k0, k1, l0, l1 int) {
	taps, size := product3(p.k), p.elem.Dst
	step, width := p.step[2]*p.strides[2], p.width*size
	for l := l0; l < l1; l += p.width {
		panel := dst[:width*(k1-k0)]
		dst = dst[width*(k1-k0):]
		p.plan(j, l, min(p.width, l1-l))
		tap := k0 % taps
		channel := unsafe.Add(j.Args.B, k0/taps*p.channel*size)
		for k := k0; k < k1; k++ {
			row := panel[(k-k0)*width:][:width]
			if j.TapPad[tap] != 0 {
				clear(row)
			}
			for i := j.TapStart[tap]; i < j.TapStart[tap+1]; i++ {
				mv := &j.Moves[i]
				copyPixels(&p.elem, row[mv.Lane*size:], mv.N, unsafe.Add(channel, mv.From*size), step)
			}
			if tap++; tap == taps {
				tap = 0
				if k+1 < k1 {
					channel = unsafe.Add(channel, p.channel*size)
				}
			}
		}
	}
}

// copyPixels copies n elements that are step apart. Runs of adjacent elements are at most as long as a panel is wide,
// so that they are copied without a call of the element's row function, which took a tenth of the time of a convolution
// of 64 channels.
func copyPixels(e *strided.Elem, dst []byte, n int, from unsafe.Pointer, step int) {
	dst = dst[:n*e.Dst]
	switch {
	case step != 1:
		e.Row(unsafe.Pointer(unsafe.SliceData(dst)), from, e.Dst, step*e.Src, n)
	case len(dst) == 128:
		*(*[128]byte)(dst) = *(*[128]byte)(from)
	default:
		copy(dst, unsafe.Slice((*byte)(from), len(dst)))
	}
}

// plan lists, by tap, the moves that fill the lanes from output l on, and the number of lanes in the padding.
func (p *windowPacker) plan(j *multiply.Job, l, lanes int) {
	j.Moves = j.Moves[:0]
	row, column := l/p.out[2], l%p.out[2]
	for tap := range product3(p.k) {
		j.TapStart[tap] = len(j.Moves)
		kd, kh, kw := tap/p.k[2]/p.k[1], tap/p.k[2]%p.k[1], tap%p.k[2]
		od, oh, ow, covered := row/p.out[1], row%p.out[1], column, 0
		for lane := 0; lane < lanes; {
			n := min(p.out[2]-ow, lanes-lane)
			id := od*p.step[0] - p.pad[0] + kd*p.dilated[0]
			ih := oh*p.step[1] - p.pad[1] + kh*p.dilated[1]
			iw := ow*p.step[2] - p.pad[2] + kw*p.dilated[2]
			first, end := validRange(iw, p.step[2], p.in[2], n)
			if uint(id) < uint(p.in[0]) && uint(ih) < uint(p.in[1]) && first < end {
				from := id*p.strides[0] + ih*p.strides[1] + (iw+first*p.step[2])*p.strides[2]
				j.Moves = append(j.Moves, multiply.RowMove{Lane: lane + first, N: end - first, From: from})
				covered += end - first
			}
			lane += n
			if oh, ow = oh+1, 0; oh == p.out[1] {
				od, oh = od+1, 0
			}
		}
		j.TapPad[tap] = lanes - covered
	}
	j.TapStart[product3(p.k)] = len(j.Moves)
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
