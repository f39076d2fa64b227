package conv

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// directVolumeShape returns the shape of a convolution of volumes for direct convolution: planes, with windows over
// several of them. The input is dense, in planes or channels-last; the result is channels-last.
func (v convolution) directVolumeShape(c *graph.Call, planes bool) *convShape {
	p, x, w, out := v.params(c), c.Meta(0).Shape, c.Meta(1), c.Out[0].Shape
	s := &convShape{groups: p.groups, n: x[0], c: x[1], h: x[3], w: x[4], oh: out[3], ow: out[4],
		o: w.Shape[0], cg: w.Shape[1], kh: w.Shape[3], kw: w.Shape[4],
		ph: kit.NumberOf(p.padding[1]), pw: kit.NumberOf(p.padding[2]),
		ws: [4]int{w.Strides[0], w.Strides[1], w.Strides[3], w.Strides[4]}, call: c, tail: fusion.EpilogueOf(c),
		depthDim: depthParams{in: x[2], out: out[2], k: w.Shape[2], pad: kit.NumberOf(p.padding[0]), ws: w.Strides[2]}}
	s.sh, s.dh = clampUnused(p.stride[1], p.dilation[1], s.h, s.oh, s.kh)
	s.sw, s.dw = clampUnused(p.stride[2], p.dilation[2], s.w, s.ow, s.kw)
	d := &s.depthDim
	d.step, d.dilated = clampUnused(p.stride[0], p.dilation[0], d.in, d.out, d.k)
	if d.k*s.kh*s.kw == 1 && d.step*s.sh*s.sw == 1 && x[2] == out[2] && x[3] == out[3] && x[4] == out[4] &&
		d.pad == 0 && s.ph == 0 && s.pw == 0 { // pointwise: one plane of all rows
		s.h, s.oh, s.depthDim = x[2]*x[3], x[2]*x[3], depthParams{}
	}
	in, results := s.pixelsIn(), s.pixelsOut()
	s.os = [4]int{results * s.o, 1, s.ow * s.o, s.o}
	s.xs = [4]int{in * s.c, 1, s.w * s.c, s.c}
	if planes {
		s.xs = [4]int{in * s.c, in, s.w, 1}
	}
	if c.Has(2) {
		s.hasBias, s.bias = true, c.Meta(2).Strides[0]
	}
	return s
}

// directVolumeImpls returns the direct convolutions of volumes, for channels-last inputs and for planes.
func (v convolution) directVolumeImpls() []graph.Impl {
	list := []struct {
		name, doc string
		a         convAlgorithm
	}{
		{"direct_ndhwc", "Multiplies points in place by the packed weight, in machine code generated for the window; " +
			"channels last.", directByPixels},
		{"direct_ncdhw", "Multiplies points of planes in place by the packed weight, in machine code generated for the " +
			"window; the result is channels-last.", directFromPlanes},
	}
	out := make([]graph.Impl, len(list))
	for i, l := range list {
		planes := l.a == directFromPlanes
		out[i] = graph.Impl{Name: l.name, Doc: l.doc, Epilogues: true,
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk { return v.directVolumeWalks(c, planes) },
			Work: func(c *graph.Call, _ graph.Walk) graph.Work {
				w := graph.Work{Steps: 1}
				if c.Streamed(&w); c.Out[0].Numel() > 0 {
					v.directVolumeShape(c, planes).directWork(&w, directTaps, multiply.ComputesIn(c), planes)
				}
				return w
			},
			Read: func(c *graph.Call, _ graph.Walk, k int, m tensor.Meta) (w graph.Work, ok bool) {
				switch {
				case k > 0: // packed or copied
					return w, true
				case planes:
					return w, m.IsContiguous()
				}
				return w, m.IsChannelsLast3d()
			},
			Lower: func(c *graph.Call) (*graph.Kernel, error) {
				if c.Out[0].Numel() == 0 {
					return &graph.Kernel{}, nil
				}
				return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
					return lowerConv(v.directVolumeShape(c, planes), l.a)
				})
			},
			Pack: multiply.Packs(func(c *graph.Call, i int) (graph.Packing, bool) {
				shape := func(c *graph.Call) *convShape { return v.directVolumeShape(c, planes) }
				return packing(c, i, shape, l.a)
			})}
	}
	return out
}

// directVolumeWalks offers machine code for batches of volumes, except for depthwise convolutions.
func (v convolution) directVolumeWalks(c *graph.Call, planes bool) []graph.Walk {
	x, w := c.Meta(0), c.Meta(1)
	switch {
	case x.Rank() != 5 || c.Out[0].Numel() == 0 || x.Numel() == 0 || w.Numel() == 0,
		w.Shape[1] == 1 && v.params(c).groups > 1,
		!directComputes(v.directVolumeShape(c, planes), multiply.ComputesIn(c)):
		return nil
	}
	o, err := tensor.ChannelsLast3d.Order(5)
	if err != nil {
		return nil
	}
	walk := c.InOrder(o)
	if planes {
		walk.Order = tensor.RowMajorOrder(5)
	}
	return []graph.Walk{walk}
}
