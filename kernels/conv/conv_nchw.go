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
func convNCHW[T gemm.Number](s *convShape) (*graph.Kernel, error) {
	pixel, ok := s.pixelStride()
	if !ok {
		return nil, errUneven
	}
	spec := gemm.Spec{M: s.og(), N: s.oh * s.ow, K: s.depth(),
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
	plan, err := gemm.NewPlan[T](spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight[T](s.call, convPanels[T](s, convByPlanes, s.call.Out[0].DType))
	if err != nil {
		return nil, err
	}
	x := &multiply.Multiplier[T]{Plan: plan, Entries: s.n * s.groups, MACs: kit.Times(s.og(), s.oh, s.ow, s.depth())}
	x.Then(s.tail, spec)
	byPlanes(x, s, weight, s.xs[0], s.xs[1], s.os[0], s.os[1])
	if !plain {
		p := &planePacker[T]{s: s, width: plan.PackCols()}
		x.Prepare = func(j *multiply.Job[T]) {
			j.TapStart, j.TapPad = make([]int, s.kh*s.kw+1), make([]int, s.kh*s.kw)
			j.Args.PackB = func(dst []T, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
		}
	}
	return weight.kernel(x), nil
}

// planePacker fills panels of windows from the planes of an image: for every k, which is
// (channel, kh, kw), the pixels under the panel's outputs.
type planePacker[T gemm.Number] struct {
	s     *convShape
	width int
}

// pack is the PackFunc of the windows. What is copied where is the same for all channels,
// so it is worked out once per panel.
func (p *planePacker[T]) pack(j *multiply.Job[T], dst []T, k0, k1, l0, l1 int) {
	s, taps := p.s, p.s.kh*p.s.kw
	step := s.sw * s.xs[3]
	for l := l0; l < l1; l += p.width {
		panel := dst[:p.width*(k1-k0)]
		dst = dst[p.width*(k1-k0):]
		lanes := min(p.width, l1-l)
		p.plan(j, l, lanes)
		tap := k0 % taps
		plane := kit.Elem[T](j.Args.B, k0/taps*s.xs[1])
		for k := k0; k < k1; k++ {
			row := panel[(k-k0)*p.width:][:p.width]
			if j.TapPad[tap] != 0 {
				clear(row)
			}
			for i := j.TapStart[tap]; i < j.TapStart[tap+1]; i++ {
				mv := &j.Moves[i]
				copyPixels(row[mv.Lane:mv.Lane+mv.N], kit.Elem[T](plane, mv.From), step)
			}
			if tap++; tap == taps {
				tap = 0
				if k+1 < k1 {
					plane = kit.Elem[T](plane, s.xs[1])
				}
			}
		}
	}
}

// copyPixels copies elements that are step apart. Runs that follow one another are moved without
// a call by way of the engine of strided copies: they are as long as a panel is wide, and it cost
// a tenth of a whole convolution of 64 channels.
func copyPixels[T gemm.Number](dst []T, from unsafe.Pointer, step int) {
	switch {
	case step != 1 && len(dst) > 0:
		e := strided.Move(int(unsafe.Sizeof(dst[0])))
		e.Row(unsafe.Pointer(unsafe.SliceData(dst)), from, e.Dst, step*e.Src, len(dst))
	case len(dst) == 32:
		*(*[32]T)(dst) = *(*[32]T)(from)
	default:
		copy(dst, unsafe.Slice((*T)(from), len(dst)))
	}
}

// plan lists, by (kh, kw), the moves that fill the lanes from output pixel l on, and
// whether some lanes are in the padding.
func (p *planePacker[T]) plan(j *multiply.Job[T], l, lanes int) {
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
