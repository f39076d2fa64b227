package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// convVolume is a convolution over three dimensions as its kernel sees it. Strides count
// elements; those of spatial dimensions come last.
type convVolume struct {
	n, c               int
	in, out, k         [3]int
	step, pad, dilated [3]int
	xs, ws, os         [5]int
	point              int       // from one element of the output to the next of the same channel
	groups             convShape // groups and weight, as packing needs them
}

func (v convolution) volume(c *graph.Call) *convVolume {
	p, x, w, out := v.params(c), c.Meta(0), c.Meta(1), c.Out[0]
	s := &convVolume{n: 1, c: w.Shape[1]}
	lead := x.Rank() - 3
	if lead == 2 {
		s.n = x.Shape[0]
	}
	copy(s.xs[2-lead:], x.Strides)
	copy(s.ws[:], w.Strides)
	copy(s.os[2-lead:], out.Strides)
	s.point, _ = pointStride(out)
	for d := range 3 {
		s.in[d], s.out[d], s.k[d] = x.Shape[lead+d], out.Shape[lead+d], w.Shape[2+d]
		s.pad[d] = kit.NumberOf(p.padding[d])
		s.step[d], s.dilated[d] = settle(p.stride[d], p.dilation[d], s.in[d], s.out[d], s.k[d])
	}
	s.groups = convShape{n: s.n, cg: s.c, groups: p.groups, o: w.Shape[0]}
	s.groups.ws[0] = w.Strides[0]
	if c.Has(2) {
		s.groups.hasBias, s.groups.bias = true, c.Meta(2).Strides[0]
	}
	s.groups.call, s.groups.tail = c, c.Tail
	return s
}

// pointStride returns the distance between the elements of a channel, which must lie evenly.
func pointStride(m tensor.Meta) (step int, even bool) {
	run := 0 // from the first element of a channel to what follows those so far
	for d := m.Rank() - 1; d >= m.Rank()-3; d-- {
		switch {
		case m.Shape[d] == 1:
		case run == 0:
			step, run = m.Strides[d], m.Strides[d]*m.Shape[d]
		case m.Strides[d] != run:
			return 0, false
		default:
			run *= m.Shape[d]
		}
	}
	return step, true
}

// volumeImpls are the implementations of convolutions of volumes. That by products writes results of which the
// elements of a channel lie evenly.
func (v convolution) volumeImpls() []graph.Impl {
	return append([]graph.Impl{v.tapsImpl(), {Name: "planes", Tails: true,
		Doc: "Multiplies the packed weight by windows of volumes, one after another.",
		Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
			list := []graph.Walk{{}}
			for _, o := range candidates {
				if o.Rank() != c.Out[0].Rank() {
					continue
				}
				if _, even := pointStride(c.Out[0].WithStrides(o.Strides(c.Out[0].Shape))); even {
					list = append(list, c.InOrder(o))
				}
			}
			return list
		},
		Work: v.volumeWork,
		Read: func(c *graph.Call, _ graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if i == 0 && m.Strides[m.Rank()-1] != 1 && m.Shape[m.Rank()-1] != 1 { // windows are packed with steps
				s := v.volume(c)
				all := float64(s.n*s.groups.groups) * float64(product3(s.out)) * float64(s.c*product3(s.k))
				w.Do(multiply.PackStep, all)
				w.Do(multiply.PackWin, -all)
			}
			return w, true
		},
		Lower: v.lowerVolume,
		Pack: multiply.Packs(func(c *graph.Call, i int) (graph.Packing, bool) {
			d := c.Out[0].DType
			if i != 1 || !gemm.Multiplies(d) {
				return graph.Packing{}, false
			}
			return multiply.PackingOf(volumePanels(v.volume(c), d)), true
		})}}, v.deepImpls()...)
}

func (v convolution) lowerVolume(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		return convVolumes(v.volume(c))
	})
}

// volumePanels are the panels of the weight, by channel and place in the window.
func volumePanels(v *convVolume, d tensor.DType) *multiply.Panels {
	taps := product3(v.k)
	return v.groups.weightPanels(d, gemm.PanelRows(d), "c,kd,kh,kw", v.c*taps, func() []int {
		terms := make([]int, 0, v.c*taps)
		for c := range v.c {
			for t := range taps {
				terms = append(terms, c*v.ws[1]+t/v.k[2]/v.k[1]*v.ws[2]+t/v.k[2]%v.k[1]*v.ws[3]+t%v.k[2]*v.ws[4])
			}
		}
		return terms
	})
}

// convVolumes multiplies channels by the windows under the elements of the output, as
// convNCHW does. The input may have any strides, and so may the output where a channel's elements
// lie evenly.
func convVolumes(v *convVolume) (*graph.Kernel, error) {
	s, taps, points := &v.groups, product3(v.k), product3(v.out)
	d := s.call.Out[0].DType
	spec := gemm.Spec{DType: d, M: s.og(), N: points, K: v.c * taps,
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: v.os[1], CColStride: v.point}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.bias
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(s.call, volumePanels(v, d))
	if err != nil {
		return nil, err
	}
	x := &multiply.Multiplier{Plan: plan, Entries: v.n * s.groups, MACs: kit.Times(s.og(), points, spec.K)}
	x.Then(s.tail, spec)
	byPlanes(x, s, weight, v.xs[0], v.xs[1], v.os[0], v.os[1])
	p := &volumePacker{v: v, width: plan.PackCols(), elem: strided.Move(d.Size())}
	x.Prepare = func(j *multiply.Job) {
		j.TapStart, j.TapPad = make([]int, taps+1), make([]int, taps)
		j.Args.PackB = func(dst []byte, k0, k1, l0, l1 int) { p.pack(j, dst, k0, k1, l0, l1) }
	}
	return weight.kernel(x), nil
}

// volumePacker fills panels of windows from the channels of a volume.
type volumePacker struct {
	v     *convVolume
	width int
	elem  strided.Elem
}

// pack is the PackFunc of the windows. What is copied where is the same for all channels.
func (p *volumePacker) pack(j *multiply.Job, dst []byte, k0, k1, l0, l1 int) {
	v, taps, size := p.v, product3(p.v.k), p.elem.Dst
	step, width := v.step[2]*v.xs[4], p.width*size
	for l := l0; l < l1; l += p.width {
		panel := dst[:width*(k1-k0)]
		dst = dst[width*(k1-k0):]
		p.plan(j, l, min(p.width, l1-l))
		for k := k0; k < k1; k++ {
			tap := k % taps
			row, channel := panel[(k-k0)*width:][:width], unsafe.Add(j.Args.B, k/taps*v.xs[1]*size)
			if j.TapPad[tap] != 0 {
				clear(row)
			}
			for i := j.TapStart[tap]; i < j.TapStart[tap+1]; i++ {
				mv := &j.Moves[i]
				copyPixels(&p.elem, row[mv.Lane*size:], mv.N, unsafe.Add(channel, mv.From*size), step)
			}
		}
	}
}

// plan lists, by place in the window, the moves that fill the lanes from output element l
// on, and whether some lanes are in the padding.
func (p *volumePacker) plan(j *multiply.Job, l, lanes int) {
	v := p.v
	j.Moves = j.Moves[:0]
	for tap := range product3(v.k) {
		j.TapStart[tap] = len(j.Moves)
		at := [3]int{tap / v.k[2] / v.k[1], tap / v.k[2] % v.k[1], tap % v.k[2]}
		covered := 0
		for lane := 0; lane < lanes; {
			row, ow := (l+lane)/v.out[2], (l+lane)%v.out[2]
			n := min(v.out[2]-ow, lanes-lane)
			id := row/v.out[1]*v.step[0] - v.pad[0] + at[0]*v.dilated[0]
			ih := row%v.out[1]*v.step[1] - v.pad[1] + at[1]*v.dilated[1]
			iw := ow*v.step[2] - v.pad[2] + at[2]*v.dilated[2]
			if first, end := validRange(iw, v.step[2], v.in[2], n); uint(id) < uint(v.in[0]) && uint(ih) < uint(v.in[1]) &&
				first < end {
				from := id*v.xs[2] + ih*v.xs[3] + (iw+first*v.step[2])*v.xs[4]
				j.Moves = append(j.Moves, multiply.RowMove{Lane: lane + first, N: end - first, From: from})
				covered += end - first
			}
			lane += n
		}
		j.TapPad[tap] = lanes - covered
	}
	j.TapStart[product3(v.k)] = len(j.Moves)
}

// volumeWork is that of a convolution of volumes, which packs windows as those of planes do.
func (v convolution) volumeWork(c *graph.Call, walk graph.Walk) graph.Work {
	w := graph.Work{Steps: 1}
	c.Streamed(&w)
	if c.Out[0].Numel() == 0 {
		return w
	}
	laid := *c
	laid.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
	s := v.volume(&laid)
	points, taps := product3(s.out), product3(s.k)
	multiply.Paneled(&w, c, 1, points)
	multiply.Stored(&w, c)
	w.Do(multiply.Start, 1)
	multiply.Product(&w, c.Out[0].DType, float64(s.n*s.groups.groups), s.groups.og(), points, s.c*taps)
	w.Do(multiply.Begin, float64(s.n*s.groups.groups))
	all := float64(s.n*s.groups.groups) * float64(points) * float64(s.c*taps)
	if s.step[2] != 1 {
		w.Do(multiply.PackStep, all)
	} else {
		w.Do(multiply.PackTap, all)
	}
	w.Do(multiply.PackMove, all/float64(min(s.out[2], rowPixels)))
	if s.point != 1 {
		multiply.Scatter(&w, c.Out[0].Numel(), s.c*taps)
	}
	return w
}
