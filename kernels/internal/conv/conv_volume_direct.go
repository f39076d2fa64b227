package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// deepShape is a convolution of volumes as direct convolution sees it: one of planes, with windows over several of
// them. The operand is dense, in planes or with its channels last, and the result has its channels last.
func (v convolution) deepShape(c *graph.Call, planes bool) *convShape {
	p, x, w, out := v.params(c), c.Meta(0).Shape, c.Meta(1), c.Out[0].Shape
	s := &convShape{groups: p.groups, n: x[0], c: x[1], h: x[3], w: x[4], oh: out[3], ow: out[4],
		o: w.Shape[0], cg: w.Shape[1], kh: w.Shape[3], kw: w.Shape[4],
		ph: kit.NumberOf(p.padding[1]), pw: kit.NumberOf(p.padding[2]),
		ws: [4]int{w.Strides[0], w.Strides[1], w.Strides[3], w.Strides[4]}, call: c, tail: c.Tail,
		deep: convDeep{in: x[2], out: out[2], k: w.Shape[2], pad: kit.NumberOf(p.padding[0]), ws: w.Strides[2]}}
	s.sh, s.dh = settle(p.stride[1], p.dilation[1], s.h, s.oh, s.kh)
	s.sw, s.dw = settle(p.stride[2], p.dilation[2], s.w, s.ow, s.kw)
	s.deep.step, s.deep.dilated = settle(p.stride[0], p.dilation[0], s.deep.in, s.deep.out, s.deep.k)
	if d := s.deep; d.k*s.kh*s.kw == 1 && d.step*s.sh*s.sw == 1 && x[2] == out[2] && x[3] == out[3] && x[4] == out[4] &&
		d.pad == 0 && s.ph == 0 && s.pw == 0 { // planes make no difference
		s.h, s.oh, s.deep = x[2]*x[3], x[2]*x[3], convDeep{}
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

// deepImpls are the direct convolutions of volumes, by where channels are in the input.
func (v convolution) deepImpls() []graph.Impl {
	list := []struct {
		name, doc string
		a         convAlgorithm
	}{
		{"direct_ndhwc", "Multiplies points where they are by the packed weight, in machine code made for the window; " +
			"channels last.", directByPixels},
		{"direct_ncdhw", "Multiplies points of planes where they are by the packed weight, in machine code made for the " +
			"window; the result has its channels last.", directFromPlanes},
	}
	out := make([]graph.Impl, len(list))
	for i, l := range list {
		planes := l.a == directFromPlanes
		out[i] = graph.Impl{Name: l.name, Doc: l.doc, Tails: true,
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk { return v.deepWalks(c, planes) },
			Work: func(c *graph.Call, _ graph.Walk) graph.Work {
				w := graph.Work{Steps: 1}
				if c.Streamed(&w); c.Out[0].Numel() > 0 {
					v.deepShape(c, planes).directWork(&w, directTaps, multiply.ComputesIn(c), planes)
				}
				return w
			},
			Read: func(c *graph.Call, _ graph.Walk, k int, m tensor.Meta) (w graph.Work, ok bool) {
				switch {
				case k > 0: // packed, or brought together
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
					return lowerConv(v.deepShape(c, planes), l.a)
				})
			},
			Pack: multiply.Packs(func(c *graph.Call, i int) (graph.Packing, bool) {
				shape := func(c *graph.Call) *convShape { return v.deepShape(c, planes) }
				return packing(c, i, shape, l.a)
			})}
	}
	return out
}

// deepWalks: there is machine code for batches of volumes, unless each channel goes by itself.
func (v convolution) deepWalks(c *graph.Call, planes bool) []graph.Walk {
	x, w := c.Meta(0), c.Meta(1)
	switch {
	case x.Rank() != 5 || c.Out[0].Numel() == 0 || x.Numel() == 0 || w.Numel() == 0,
		w.Shape[1] == 1 && v.params(c).groups > 1,
		!directComputes(v.deepShape(c, planes), multiply.ComputesIn(c)):
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
