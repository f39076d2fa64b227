package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// convNCHW multiplies channels by pixels: A is the weight, columns of B are the windows
// under output pixels, gathered while packing. Each image and group is a product of its
// own. The input may have any strides.
func convNCHW(s *convShape) (*graph.Kernel, error) {
	pixel, ok := s.pixelStride()
	if !ok {
		return nil, errUneven
	}
	d := s.call.Out[0].DType
	spec := gemm.Spec{DType: d, M: s.og(), N: s.oh * s.ow, K: s.depth(),
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: s.os[1], CColStride: pixel}
	plain := s.pointwise() && (s.h == 1 || s.w == 1 || s.xs[2] == s.w*s.xs[3])
	if plain {
		spec.B = gemm.Operand{RowStride: s.xs[1], ColStride: s.xs[3]}
		if s.w == 1 {
			spec.B.ColStride = s.xs[2]
		}
	}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.bias
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(s.call, convPanels(s, convByPlanes, d))
	if err != nil {
		return nil, err
	}
	x := &multiply.Multiplier{Plan: plan, Entries: s.n * s.groups, MACs: kit.Times(s.og(), s.oh, s.ow, s.depth())}
	x.Then(s.tail, spec)
	byPlanes(x, s, weight, s.xs[0], s.xs[1], s.os[0], s.os[1])
	if !plain {
		p := &planePacker{s: s, width: plan.PackCols(), elem: strided.Move(d.Size())}
		x.Prepare = func(j *multiply.Job) {
			j.TapStart, j.TapPad = make([]int, s.kh*s.kw+1), make([]int, s.kh*s.kw)
			j.Args.PackB = func(dst []byte, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
		}
	}
	return weight.kernel(x), nil
}

// planePacker fills panels of windows from the planes of an image: for every k, which is
// (channel, kh, kw), the pixels under the panel's outputs.
type planePacker struct {
	s     *convShape
	width int
	elem  strided.Elem
}

// pack is the PackFunc of the windows. All channels are copied by the same moves, which are planned once per panel.
func (p *planePacker) pack(j *multiply.Job, dst []byte, k0, k1, l0, l1 int) {
	s, taps, size := p.s, p.s.kh*p.s.kw, p.elem.Dst
	step, width := s.sw*s.xs[3], p.width*size
	for l := l0; l < l1; l += p.width {
		panel := dst[:width*(k1-k0)]
		dst = dst[width*(k1-k0):]
		lanes := min(p.width, l1-l)
		p.plan(j, l, lanes)
		tap := k0 % taps
		plane := unsafe.Add(j.Args.B, k0/taps*s.xs[1]*size)
		for k := k0; k < k1; k++ {
			row := panel[(k-k0)*width:][:width]
			if j.TapPad[tap] != 0 {
				clear(row)
			}
			for i := j.TapStart[tap]; i < j.TapStart[tap+1]; i++ {
				mv := &j.Moves[i]
				copyPixels(&p.elem, row[mv.Lane*size:], mv.N, unsafe.Add(plane, mv.From*size), step)
			}
			if tap++; tap == taps {
				tap = 0
				if k+1 < k1 {
					plane = unsafe.Add(plane, s.xs[1]*size)
				}
			}
		}
	}
}

// copyPixels copies n elements that are step apart. Contiguous runs do without the call of the row's function, which
// took a tenth of a convolution of 64 channels: a run is at most as long as a panel is wide.
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

// plan lists, by (kh, kw), the moves that fill the lanes from output pixel l on, and
// whether some lanes are in the padding.
func (p *planePacker) plan(j *multiply.Job, l, lanes int) {
	s := p.s
	j.Moves = j.Moves[:0]
	for tap := range s.kh * s.kw {
		j.TapStart[tap] = len(j.Moves)
		kh, kw := tap/s.kw*s.dh, tap%s.kw*s.dw
		covered := 0
		oh, ow := l/s.ow, l%s.ow
		for lane := 0; lane < lanes; {
			n := min(s.ow-ow, lanes-lane)
			ih := oh*s.sh - s.ph + kh
			if first, end := validRange(ow*s.sw-s.pw+kw, s.sw, s.w, n); uint(ih) < uint(s.h) && first < end {
				iw := (ow+first)*s.sw - s.pw + kw
				j.Moves = append(j.Moves, multiply.RowMove{Lane: lane + first, N: end - first, From: ih*s.xs[2] + iw*s.xs[3]})
				covered += end - first
			}
			lane += n
			oh, ow = oh+1, 0
		}
		j.TapPad[tap] = lanes - covered
	}
	j.TapStart[s.kh*s.kw] = len(j.Moves)
}

// validRange returns the t in [0, n) for which at + t*step is in [0, size).
func validRange(at, step, size, n int) (first, end int) {
	if at < 0 {
		first = kit.DivUp(-at, step)
	}
	if at < size {
		end = min(n, (size-1-at)/step+1)
	}
	return first, end
}
