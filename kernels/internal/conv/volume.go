package conv

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// convVolume is a convolution over three dimensions, as its kernel sees it. Strides count elements; those of the
// spatial dimensions come last.
type convVolume struct {
	n, c               int
	in, out, k         [3]int
	step, pad, dilated [3]int
	xs, ws, os         [5]int
	point              int       // stride of the result's elements within a channel
	groups             convShape // groups, weight and bias, for packing and products
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
		s.step[d], s.dilated[d] = clampUnused(p.stride[d], p.dilation[d], s.in[d], s.out[d], s.k[d])
	}
	s.groups = convShape{n: s.n, cg: s.c, groups: p.groups, o: w.Shape[0]}
	s.groups.ws[0] = w.Strides[0]
	if c.Has(2) {
		s.groups.hasBias, s.groups.bias = true, c.Meta(2).Strides[0]
	}
	s.groups.call, s.groups.tail = c, fusion.EpilogueOf(c)
	return s
}

// pointStride returns the constant stride of the elements of a channel, or false if it is not constant.
func pointStride(m tensor.Meta) (step int, even bool) {
	run := 0 // stride that continues the dimensions so far
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

// volumeImpls returns the implementations of convolutions of volumes. The one by products writes results whose channels
// have a constant element stride.
func (v convolution) volumeImpls() []graph.Impl {
	return append([]graph.Impl{v.tapsImpl(), {Name: "planes", Epilogues: true,
		Doc: "Multiplies the packed weight by windows of volumes, volume by volume.",
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
			if i == 0 && m.Strides[m.Rank()-1] != 1 && m.Shape[m.Rank()-1] != 1 { // packing reads strided elements
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
		})}}, v.directVolumeImpls()...)
}

func (v convolution) lowerVolume(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		return convVolumes(v.volume(c))
	})
}

// volumePanels returns the panels of the weight, by channel and tap.
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

// convVolumes multiplies the weight by the windows of volumes, as convNCHW does. The input may have any strides; the
// elements of a channel of the result must have a constant stride.
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
	planeEntries(x, s, weight, v.xs[0], v.xs[1], v.os[0], v.os[1])
	p := &windowPacker{in: v.in, out: v.out, k: v.k, step: v.step, pad: v.pad, dilated: v.dilated,
		strides: [3]int(v.xs[2:]), channel: v.xs[1], width: plan.PackCols(), elem: strided.Move(d.Size())}
	p.use(x)
	return weight.kernel(x), nil
}

// volumeWork prices the implementation by products.
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
