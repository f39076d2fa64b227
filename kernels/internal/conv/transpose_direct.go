package conv

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes transposed convolutions by the code of direct convolution. The results whose indices have the same
// remainder modulo the stride form a phase. All results of a phase are sums over the same taps, so that a phase is an
// ordinary convolution with stride 1 and some of the taps in reverse order. For example, a window of 4x4 taps with
// stride 2 gives four convolutions with windows of 2x2 taps. The phases write interleaved pixels of the result.

// transposedPhase relates a phase to the transposed convolution.
type transposedPhase struct {
	outStart   int // offset of the first result of the phase in the result, in elements
	firstTap   int // offset of the first tap of the phase in the weight, in elements
	firstTerm  int // index of the first term of the phase in a panel
	panelTerms int // number of terms of a panel, which has the terms of all phases
	vectors    int // number of vectors of a block, which is the same in all phases
}

// maxPhases bounds the generated code. Strides of 2 give 8 phases for volumes, strides of 4 give 16 phases for images.
const maxPhases = 16

// phaseAxis returns phase p of an axis of a transposed convolution, its first tap, and the distance of its taps. The
// sizes of the axis are those of transposedWindows. If no tap contributes to the phase, the window has one tap in the
// padding.
func phaseAxis(a *geometry.Axis, p int) (phase geometry.Axis, firstTap, step int) {
	divisor := greatestDivisor(a.Stride, a.Dilation)
	period := a.Stride / divisor // distance of the taps of a phase
	phase = geometry.Axis{Size: a.Results, Results: kit.DivUp(a.Size-p, a.Stride),
		Window: geometry.Window{Taps: 1, Stride: 1, Dilation: a.Dilation / divisor}}
	for first := range min(a.Taps, period) {
		if distance := p - a.Position(0, first); distance%a.Stride == 0 {
			// Tap first+i*period of the transposed convolution is tap Taps-1-i of the phase.
			phase.Taps = kit.DivUp(a.Taps-first, period)
			phase.Before = (phase.Taps-1)*phase.Dilation - distance/a.Stride
			return phase.Clamped(), first + (phase.Taps-1)*period, -period
		}
	}
	phase.Before = phase.Results
	return phase, 0, 0
}

// greatestDivisor returns the greatest common divisor of two positive numbers.
func greatestDivisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// phaseShapes returns the phases of a call as convolutions, or false if direct convolution does not support the call.
// It supports a batch of floats whose phases are few, not empty, and together have all taps.
func (v transposedConv) phaseShapes(c *graph.Call, d tensor.DType, planes bool) ([]*convShape, bool) {
	t := v.windows(c)
	axes := []*geometry.Axis{&t.d, &t.h, &t.w}
	phases := 1
	for _, a := range axes {
		if a.Stride > a.Size || a.Results == 0 {
			return nil, false
		}
		phases = kit.BoundedProduct(phases, a.Stride)
	}
	// A tile may have pixels of several rows.
	reach := kit.BoundedProduct(tileRowsBound, t.h.Stride, t.w.Size, t.outChannels, d.Size())
	if c.Meta(0).Rank() != v.dims+2 || phases > maxPhases || reach >= maxReach {
		return nil, false
	}
	list := make([]*convShape, phases)
	for i := range list {
		list[i] = v.phaseShape(c, t, i)
		if !hasDirectCode(list[i], d) {
			return nil, false
		}
	}
	vectors, terms := newDirectShape(list[0], d, planes).vectors, 0
	for _, s := range list {
		s.phase.vectors, s.phase.firstTerm = vectors, terms
		terms += s.termsPerOutput()
	}
	for _, s := range list {
		s.phase.panelTerms = terms
	}
	return list, true
}

// phaseShape returns phase i of a call as a convolution.
func (v transposedConv) phaseShape(c *graph.Call, t *transposedWindows, i int) *convShape {
	s := &convShape{n: t.n, inChannels: t.inChannels, outChannels: t.outChannels, inPerGroup: t.inChannels / t.groups,
		groups: t.groups, hasBias: t.hasBias, call: c, epilogue: fusion.EpilogueOf(c), phase: &transposedPhase{}}
	if s.hasBias {
		s.biasStride = c.Meta(2).Strides[0]
	}
	_, s.inStride = spatial(c.Meta(0), v.dims)
	_, s.weightStride = spatial(c.Meta(1), v.dims)
	_, s.outStride = spatial(c.Out[0], v.dims)
	s.weightStride.n, s.weightStride.c = s.weightStride.c, s.weightStride.n
	set := func(to, from *geometry.Axis, p int, weight, out *int) {
		axis, first, step := phaseAxis(from, p)
		*to = axis
		s.phase.firstTap += first * *weight
		s.phase.outStart += p * *out
		*weight *= step
		*out *= from.Stride
	}
	set(&s.w, &t.w, i%t.w.Stride, &s.weightStride.w, &s.outStride.w)
	i /= t.w.Stride
	set(&s.h, &t.h, i%t.h.Stride, &s.weightStride.h, &s.outStride.h)
	set(&s.d, &t.d, i/t.h.Stride, &s.weightStride.d, &s.outStride.d)
	return s
}

// phasePanels returns the panels of the weight. A panel has the terms of all phases, phase by phase.
func (v transposedConv) phasePanels(c *graph.Call, list []*convShape, d tensor.DType, planes bool) *multiply.Panels {
	p, s := v.params(c, v.dims), list[0]
	order, terms := s.tapNames()+",c", (*convShape).channelsLastTerms
	if planes {
		order, terms = "c,"+s.tapNames(), (*convShape).channelsFirstTerms
	}
	shape := newDirectShape(s, d, planes)
	panels := s.weightPanels(d, shape.blockChannels(), fmt.Sprintf("phases of %s, stride %v, "+
		"padding %v, dilation %v", order, p.stride, p.padding, p.dilation), func() (all []int) {
		for _, s := range list {
			all = append(all, terms(s)...)
		}
		return all
	})
	panels.Depth = s.phase.panelTerms
	for g := range panels.Starts {
		panels.Starts[g] = g * s.inPerGroup * s.weightStride.c
	}
	return panels
}

// directImpl returns the implementation by direct convolution, which reads channels-last images or planes.
func (v transposedConv) directImpl(name, doc string, planes bool) graph.Impl {
	order := func(c *graph.Call) (tensor.Order, bool) {
		return convolution{dims: v.dims}.order(directByPixels, c.Meta(0).Rank())
	}
	return graph.Impl{Name: name, Doc: doc, Epilogues: true,
		Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk {
			o, ok := order(c)
			if !ok || c.Out[0].Numel() == 0 {
				return nil
			}
			if _, ok := v.phaseShapes(c, multiply.ComputationDType(c), planes); !ok {
				return nil
			}
			w := c.InOrder(o)
			if planes {
				w.Order = tensor.RowMajorOrder(o.Rank())
			}
			return []graph.Walk{w}
		},
		Work: func(c *graph.Call, walk graph.Walk) graph.Work { return v.directWork(c, walk, planes) },
		Read: func(c *graph.Call, _ graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
			if i > 0 {
				return w, true
			}
			if planes {
				return w, m.IsContiguous()
			}
			return w, convolution{dims: v.dims}.isChannelsLast(m)
		},
		Writes: func(c *graph.Call, _ graph.Walk, _ int, m tensor.Meta) bool {
			_, stride := spatial(m, v.dims)
			h := v.windows(c).h
			return multiply.ComputationDType(c) == m.DType && stride.c == 1 &&
				kit.BoundedProduct(tileRowsBound, h.Stride, max(stride.h, stride.w), m.DType.Size()) < maxReach
		},
		Pack: multiply.PackFunc(func(c *graph.Call, i int) (graph.Packing, bool) {
			list, ok := v.phaseShapes(c, c.Out[0].DType, planes)
			if i != 1 || !ok {
				return graph.Packing{}, false
			}
			return multiply.PackingOf(v.phasePanels(c, list, c.Out[0].DType, planes)), true
		}),
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			return copies.CompileInDType(c, multiply.ComputationDType(c), func(c *graph.Call) (*graph.Kernel, error) {
				return v.lowerDirect(c, planes)
			})
		}}
}

// directWork estimates the cost of direct convolution.
func (v transposedConv) directWork(c *graph.Call, walk graph.Walk, planes bool) graph.Work {
	w := graph.Work{Steps: 1}
	c.AddStreamed(&w)
	d := multiply.ComputationDType(c)
	list, ok := v.phaseShapes(c, d, planes)
	if !ok {
		return w
	}
	multiply.ReclassifyStores(&w, c)
	multiply.ReclassifyPanels(&w, c, 1, list[0].n*list[0].pixelsIn())
	w.DoUnoverlapped(rateDirectStart, float64(len(list)))
	if !c.Constant(1) {
		w.Do(multiply.RatePackRow, float64(c.Meta(1).Numel()))
	}
	for _, s := range list {
		s.tileWork(&w, rateDirectTaps, d, planes)
	}
	return w
}

// lowerDirect makes the kernel of direct convolution. The chunks of all phases are in one phase of the kernel.
func (v transposedConv) lowerDirect(c *graph.Call, planes bool) (*graph.Kernel, error) {
	d := c.Out[0].DType
	list, ok := v.phaseShapes(c, d, planes)
	if !ok {
		return nil, fmt.Errorf("%s: no machine code for this call", v.name)
	}
	weight, err := newPackedWeight(c, v.phasePanels(c, list, d, planes))
	if err != nil {
		return nil, err
	}
	s := list[0]
	var parts []graph.Phase
	var codes []*directConv
	for _, s := range list {
		t, err := newDirect(s, d, planes)
		if err != nil {
			return nil, err
		}
		codes, parts = append(codes, t), append(parts, t.phase(func(a *jit.Args, m *graph.Mem) {
			a.Ptr[tile.In], a.Ptr[tile.Vec], a.Ptr[tile.Bias] = m.Ptrs[1], weight.address(m), s.denseBias(m, d.Size())
		}))
	}
	compute := joinChunks(parts)
	return &graph.Kernel{Phases: append(weight.phases(), compute), Scratch: weight.Scratch,
		Worker: s.denseBiasBytes(d.Size()), Code: func() (all []expr.Listing) {
			for i, t := range codes {
				for _, l := range t.listings() {
					l.Name = fmt.Sprintf("phase %d, %s", i, l.Name)
					all = append(all, l)
				}
			}
			return all
		}}, nil
}

// joinChunks returns one phase with the chunks of independent phases.
func joinChunks(list []graph.Phase) graph.Phase {
	ends := make([]int, len(list))
	total := 0
	for i, p := range list {
		total += p.Chunks
		ends[i] = total
	}
	return graph.Phase{Chunks: total, Run: func(m *graph.Mem, chunk int) error {
		i, found := slices.BinarySearch(ends, chunk)
		if found {
			i++
		}
		return list[i].Run(m, chunk-ends[i]+list[i].Chunks)
	}}
}
